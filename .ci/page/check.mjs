// What the live page must do, in a real browser. Each check throws with what it found.

import assert from "node:assert/strict";
import http from "node:http";

import { Browser, sleep, until } from "../../crates/lab/browser/chromium.mjs";
import { Pair } from "./pair.mjs";

const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 844 };

const [, , program, programs] = process.argv;
const browser = await Browser.start(program);
const pair = await Pair.start(programs);
let failed = 0;

async function check(name, run) {
  try {
    await run();
    console.log(`ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}\n        ${error.message.split("\n").join("\n        ")}`);
  }
}

/** An open page that has had its first snapshot. */
async function open(url, size) {
  const page = await browser.page(size);
  await page.go(url);
  await until("the first snapshot", () => page.ask(() => document.documentElement?.dataset.ready === "yes"));
  return page;
}

const figures = () => [...document.querySelectorAll(".tile .value, .chart .value")].map((value) => value.textContent);
const lines = () => [...document.querySelectorAll(".chart .line, .stack")].map((line) => line.getAttribute("d"));

const client = await open(pair.client, DESKTOP);
const server = await open(pair.server, DESKTOP);
pair.say("loss 0 0.05");

for (const [side, page] of [["client", client], ["server", server]]) {
  await check(`${side}: figures change`, async () => {
    const before = await page.ask(figures);
    assert(before.length >= 12, `${before.length} figures`);
    await until("a download", () => page.ask(() => /bit\/s/.test(document.querySelector(".tile .value").textContent)));
    await until("other figures", async () => String(await page.ask(figures)) !== String(before));
  });

  await check(`${side}: charts draw`, async () => {
    const drawn = await until("lines of five points", async () => {
      const all = await page.ask(lines);
      return all.filter((line) => line.split("L").length >= 5).length >= 10 && all;
    });
    await until("lines that move on", async () => String(await page.ask(lines)) !== String(drawn));
    const heights = await page.ask(() => [...document.querySelectorAll(".stack")].map((part) => part.getBBox().height));
    assert(Math.max(...heights) > 5, `traffic is flat: ${heights}`);
  });
}

await check("client: loss and what was mended show", async () => {
  await until("loss on the first path", () => client.ask(() => /↓ [1-9]/.test(document.querySelectorAll(".chart .value")[1].textContent)));
  await until("mended packets", () => client.ask(() => document.querySelectorAll(".tile .value")[2].textContent.trim() !== "0"));
  await until("saved delay", () => client.ask(() => !/^0(\.0)? ms/.test(document.querySelectorAll(".tile .value")[3].textContent)));
});

await check("client: destinations by name, and a switch that hides them", async () => {
  const text = () => client.ask(() => document.querySelector("#connections").textContent);
  await until("a destination", async () => (await text()).includes("media.example.org"));
  await client.ask(() => document.querySelector("#names").click());
  assert(!(await text()).includes("example.org"), await text());
  await client.ask(() => document.querySelector("#names").click());
  assert((await text()).includes("media.example.org"));
});

await check("a cut path shows, with an event, and comes back", async () => {
  pair.say("cut 1");
  const states = () => client.ask(() => [...document.querySelectorAll(".path .pill")].map((pill) => pill.textContent));
  await until("a path without an answer", async () => (await states()).includes("does not answer"));
  await until("its event", () => client.ask(() => document.querySelector("#events").textContent.includes("127.0.0.3 does not answer")));
  pair.say("restore 1");
  await until("both paths", async () => (await states()).filter((state) => state === "active").length === 2);
});

await check("a refusal is an event", () =>
  until("it", () => client.ask(() => document.querySelector("#events .refused")?.textContent.includes("db.example.net"))));

await check("server: its client and the account are there", async () => {
  const text = await server.ask(() => document.querySelector("#clients").textContent + document.querySelector("#accounts").textContent);
  assert(/127\.0\.0\.1/.test(text) && /owner/.test(text), text);
});

for (const [side, url] of [["client", pair.client], ["server", pair.server]]) {
  await check(`${side}: nothing is wider than a phone`, async () => {
    for (const dark of [false, true]) {
      const page = await open(url, { ...PHONE, dark });
      await sleep(1500);
      const wide = await page.ask(() => ({
        page: document.documentElement.scrollWidth, screen: window.innerWidth,
        beyond: [...document.querySelectorAll("body *")].filter((element) => element.getBoundingClientRect().right > window.innerWidth + 0.5
          && !element.closest(".hidden, svg")).map((element) => element.outerHTML.slice(0, 80)),
      }));
      assert(wide.page <= 390 && wide.beyond.length === 0, JSON.stringify(wide));
      assert.deepEqual(page.errors, []);
      await page.close();
    }
  });
}

await check("text stands out from what is behind it", async () => {
  // WCAG 2.2, 1.4.3: at least 4.5 to 1.
  const poor = () => {
    const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = ([red, green, blue]) => [red, green, blue].map((part) => channel(part / 255))
      .reduce((sum, part, nth) => sum + part * [0.2126, 0.7152, 0.0722][nth], 0);
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = parse(getComputedStyle(at).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
      }
      return [255, 255, 255];
    };
    const words = [...document.querySelectorAll("main *, header *")].filter((element) =>
      [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && !element.closest(".gone, .hidden, svg"));
    return words.map((element) => {
      const [one, other] = [light(parse(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
      return [(one + 0.05) / (other + 0.05), element.outerHTML.slice(0, 90)];
    }).filter(([contrast]) => contrast < 4.5);
  };
  for (const dark of [false, true]) {
    const page = await open(pair.client, { ...DESKTOP, dark });
    await sleep(1500);
    assert.deepEqual(await page.ask(poor), []);
    await page.close();
  }
});

await check("the keyboard reaches everything and works it", async () => {
  const page = await open(pair.client, DESKTOP);
  const focused = () => page.ask(() => document.activeElement.id || document.activeElement.className);
  const seen = [];
  for (let presses = 0; presses < 4; presses += 1) {
    await page.press("Tab");
    seen.push(await focused());
  }
  assert.deepEqual(seen, ["skip", "hold", "names", "events"]);
  await page.ask(() => document.querySelector("#hold").focus());
  await page.press(" ", "Space", " ");
  assert.equal(await page.ask(() => document.querySelector("#hold").getAttribute("aria-pressed")), "true");
  const held = String(await page.ask(figures));
  await sleep(2500);
  assert.equal(String(await page.ask(figures)), held, "it goes on while it is held");
  await page.press(" ", "Space", " ");
  await until("it goes on", async () => String(await page.ask(figures)) !== held);
  await page.close();
});

await check("a screen reader is told what everything is", async () => {
  const { nodes } = await client.call("Accessibility.getFullAXTree");
  const named = nodes.filter((node) => !node.ignored);
  const mute = named.filter((node) => ["image", "button", "checkbox", "table", "log", "region"].includes(node.role?.value) && !node.name?.value);
  assert.deepEqual(mute.map((node) => node.role.value), []);
  const of = (role) => named.filter((node) => node.role?.value === role).map((node) => node.name.value);
  assert(of("image").filter((name) => /: now .+, between .+ in the last two minutes/.test(name)).length >= 8, of("image").join("\n"));
  for (const heading of ["Paths", "Loss and mending", "Events", "Connections"]) assert(of("heading").includes(heading), heading);
  assert(of("columnheader").includes("Destination") && of("rowheader").length > 0);
});

await check("other pages get nothing", async () => {
  const elsewhere = http.createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<p>elsewhere")).listen(0, "127.0.0.1");
  const page = await browser.page(DESKTOP);
  await page.go(`http://localhost:${elsewhere.address().port}/`);
  await until("the other page", () => page.ask(() => document.body?.textContent === "elsewhere"));
  const got = await page.ask(async (url) => {
    const read = await fetch(`${url}/stats`).then(() => "read", () => "refused");
    const watched = await new Promise((done) => {
      const source = new EventSource(`${url}/events`);
      source.onmessage = () => done("watched");
      source.onerror = () => done("refused");
    });
    const framed = document.createElement("iframe");
    framed.src = url;
    document.body.append(framed);
    await new Promise((done) => { framed.onload = done; });
    const run = await new Promise((done) => {
      const script = document.createElement("script");
      script.onload = () => done("run");
      script.onerror = () => done("refused");
      script.src = `${url}/stats`;
      document.body.append(script);
    });
    return [read, watched, run];
  }, pair.client);
  assert.deepEqual(got, ["refused", "refused", "refused"]);
  const statuses = page.responses.filter(({ url }) => url.startsWith(pair.client)).map(({ status }) => status);
  assert(statuses.length > 0 && statuses.every((status) => status === 403), String(statuses));
  await page.close();
  elsewhere.close();
});

/** What is answered to a request with these fields. */
function ask(url, fields = {}, method = "GET") {
  return new Promise((done, fail) => {
    http.request(url, { headers: fields, method, agent: false }, done).on("error", fail).end();
  });
}

await check("the page can load and run nothing but itself", async () => {
  const answer = await ask(pair.client);
  const policy = answer.headers["content-security-policy"];
  answer.destroy();
  assert(/default-src 'none'/.test(policy) && !/unsafe|\*/.test(policy), policy);
  const page = await open(pair.client, DESKTOP);
  const ran = await page.ask(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return window.ran === true;
  });
  assert.equal(ran, false, "an inline script of others runs");
  await page.close();
  for (const url of client.requests.concat(server.requests)) {
    assert([pair.client, pair.server, "data:"].some((own) => url.startsWith(own)), `the page asked for ${url}`);
  }
});

await check("only GET and HEAD, only under a name of loopback", async () => {
  const status = async (...request) => {
    const answer = await ask(...request);
    answer.destroy();
    return answer.statusCode;
  };
  assert.equal(await status(`${pair.client}/`, {}, "POST"), 405);
  assert.equal(await status(`${pair.client}/events`, { host: "rebound.example" }), 400);
  assert.equal(await status(`${pair.client}/events`, { origin: "https://elsewhere.example" }), 403);
  assert.equal(await status(`${pair.client}/events`, {}, "HEAD"), 200);
});

await check("viewers are few, and their seats are free again when they go", async () => {
  const viewers = [];
  let refused;
  for (let nth = 0; nth < 9 && !refused; nth += 1) {
    const answer = await ask(`${pair.server}/events`);
    if (answer.statusCode === 503) refused = answer;
    else viewers.push(answer);
  }
  assert(refused, `${viewers.length} could watch`);
  refused.destroy();
  viewers.forEach((viewer) => viewer.destroy());
  await until("a free seat", async () => {
    const answer = await ask(`${pair.server}/events`);
    answer.destroy();
    return answer.statusCode === 200;
  });
});

await check("no errors in the console", () => assert.deepEqual([client.errors, server.errors], [[], []]));

await browser.close();
await pair.stop();
console.log(failed ? `${failed} checks of the live page failed` : "the live page does what it should");
process.exitCode = failed ? 1 : 0;
