// Loads pages from `mendpath serve` in Chromium, and asks the browser itself by which protocol they came.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Browser, until } from "../../crates/lab/browser/chromium.mjs";

const [program, directory] = process.argv.slice(2);
const IMAGES = 12;

/** A page with a script, a style and pictures, some of them long. */
async function site() {
  const root = await mkdtemp(join(tmpdir(), "mendpath-serve-"));
  await mkdir(join(root, "parts"));
  const images = Array.from({ length: IMAGES }, (_, at) => `<img src="parts/${at}.svg" alt="">`).join("");
  await writeFile(join(root, "index.html"),
    `<!doctype html><title>page</title><link rel="icon" href="data:,"><link rel="stylesheet" href="parts/style.css">
     <script src="parts/script.js" defer></script>${images}`);
  await writeFile(join(root, "parts", "style.css"), "body { margin: 0 }");
  await writeFile(join(root, "parts", "script.js"), "document.title = 'script ran';");
  for (let at = 0; at < IMAGES; at++) {
    // What the server cannot make shorter.
    const filler = randomBytes(15_000 * at).toString("base64");
    await writeFile(join(root, "parts", `${at}.svg`), `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--${filler}--></svg>`);
  }
  return root;
}

/** The server, once it says where it listens and what its key is. */
async function serve(root) {
  const child = spawn(`${directory}/mendpath`, ["serve", "--root", root, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  let hash, port;
  for await (const line of createInterface({ input: child.stderr })) {
    hash = line.match(/spki-list=(\S+)/)?.[1] ?? hash;
    port = line.match(/HTTP\/3 on UDP 127\.0\.0\.1:(\d+)/)?.[1] ?? port;
    const admin = line.match(/statistics on (\S+)/)?.[1];
    if (admin) return { child, port, hash, admin };
  }
  throw new Error("the server ended before it listened");
}

/** A network on the way to the server, which loses packets and moves the browser to another port when told. */
async function network(port) {
  const child = spawn(`${directory}/examples/web_bed`, [`127.0.0.1:${port}`], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const answer = async () => (await lines.next()).value;
  const address = await answer();
  const tell = (line) => {
    child.stdin.write(`${line}\n`);
    return answer();
  };
  return { child, address, tell };
}

/** Pages while the network loses packets, after it has moved the browser, which goes on with its connection, and while its MTU falls. */
async function rough(trust, server) {
  const way = await network(server.port);
  const there = `--host-resolver-rules=MAP localhost ${way.address}`;
  const quic = await Browser.start(program, { quic: true, flags: [trust, there, `--origin-to-force-quic-on=localhost:${server.port}`] });
  const url = `https://localhost:${server.port}/`;
  try {
    const page = await quic.page({ width: 800, height: 600 });
    // Every part comes over the network every time.
    await page.call("Network.setCacheDisabled", { cacheDisabled: true });
    const first = await load(page, url);
    check("through a network", first, "h3");
    if (!first.some((entry) => entry.connected > 0)) throw new Error("the browser does not tell when it connects");
    await way.tell("loss 0.03");
    for (let at = 0; at < 5; at++) check("with 3 % loss", await load(page, `${url}?loss=${at}`), "h3");
    const lost = Number(await way.tell("lost"));
    if (!(lost > 20)) throw new Error(`the network has lost ${lost} packets and no more`);
    await way.tell("loss 0");
    for (let at = 0; at < 2; at++) {
      const moved = await way.tell("rebind");
      const entries = await load(page, `${url}?moved=${at}`);
      check(`moved to ${moved}`, entries, "h3");
      const anew = entries.filter((entry) => entry.connected > 0);
      if (anew.length > 0) throw new Error(`a new connection instead of the one that moved: ${JSON.stringify(anew)}`);
    }
    // As narrow as the browser's own first packets, and without a word of it.
    const loading = load(page, `${url}?narrow`);
    await way.tell("mtu 1250");
    for (const entries of [await loading, await load(page, `${url}?narrow=2`)]) {
      check("after the path became narrower", entries, "h3");
      if (entries.some((entry) => entry.connected > 0)) throw new Error("a new connection on the narrower path");
    }
    const long = Number(await way.tell("long"));
    if (!(long > 0)) throw new Error("no packet was too long for the narrower path");
    console.log(`${lost} packets lost, ${long} too long, and one connection all along`);
  } finally {
    await quic.close();
    way.child.kill();
  }
}

/** What the server has counted. */
async function counted(server) {
  const text = await (await fetch(`http://${server.admin}/metrics`)).text();
  const value = (metric) => Number(text.split("\n").find((line) => line.startsWith(`${metric} `))?.split(" ")[1] ?? 0);
  const responses = (protocol) => value(`mendpath_web_responses_total{protocol="${protocol}",status="2xx"}`);
  return { http3: responses("http3"), http2: responses("http2"), bytes: value("mendpath_sent_bytes_total"), lost: value("mendpath_packets_lost_total") };
}

/** What the browser says of the page and all it needs. */
async function load(page, url) {
  await page.go(url);
  await until("the page and its script", () => page.ask("() => document.readyState === 'complete' && document.title === 'script ran'"));
  return page.ask(`() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((entry) => entry.name.startsWith("https:"))
    .map(({ name, nextHopProtocol, responseStatus, connectStart, connectEnd }) =>
      ({ name, nextHopProtocol, responseStatus, connected: connectEnd - connectStart }))`);
}

function check(what, entries, protocol) {
  if (entries.length !== IMAGES + 3) throw new Error(`${what}: ${entries.length} entries instead of ${IMAGES + 3}`);
  const wrong = entries.filter((entry) => entry.nextHopProtocol !== protocol || entry.responseStatus !== 200);
  if (wrong.length > 0) throw new Error(`${what}: not by ${protocol}: ${JSON.stringify(wrong)}`);
  console.log(`${what}: ${entries.length} by ${protocol}`);
}

const root = await site();
const server = await serve(root);
try {
  const trust = `--ignore-certificate-errors-spki-list=${server.hash}`;
  // The server is not at ::1, and QUIC that is forced tries nothing else.
  const here = "--host-resolver-rules=MAP localhost 127.0.0.1";
  const url = `https://localhost:${server.port}/`;
  const quic = await Browser.start(program, { quic: true, flags: [trust, here, `--origin-to-force-quic-on=localhost:${server.port}`] });
  try {
    const page = await quic.page({ width: 800, height: 600 });
    check("HTTP/3", await load(page, url), "h3");
    check("HTTP/3 again", await load(page, `${url}?again`), "h3");
  } finally {
    await quic.close();
  }
  await rough(trust, server);
  const tcp = await Browser.start(program, { flags: [trust, here] });
  try {
    check("HTTP/2", await load(await tcp.page({ width: 800, height: 600 }), url), "h2");
  } finally {
    await tcp.close();
  }
  const seen = await counted(server);
  const pages = 2 + 1 + 5 + 2 + 2;
  // Of the first two pages, those parts that the browser has kept are asked for once.
  if (seen.http3 < pages + (pages - 1) * (IMAGES + 2) || seen.http2 < IMAGES + 3 || seen.bytes < 1_000_000) {
    throw new Error(`/metrics says ${JSON.stringify(seen)}`);
  }
  console.log(`/metrics: ${JSON.stringify(seen)}`);
  const ended = new Promise((done) => server.child.on("exit", (code) => done(code)));
  server.child.kill("SIGTERM");
  if ((await ended) !== 0) throw new Error("the server does not end in good order");
  console.log("SIGTERM: ended in good order");
} finally {
  server.child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
}
