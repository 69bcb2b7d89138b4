// A page and its loads in Chromium, for `mendpath lab`: `make DIR` writes page, key and certificate; `load WORDS` runs in the client's
// namespace, says when it is ready, and answers each line of its input with what one load came to, as JSON.
//
// Each load is of a browser context of its own, so nothing is cached and each makes a connection.

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Browser, until } from "./chromium.mjs";

const NAME = "site.example";
/** What a page of a few years ago is made of, in kB. */
const PARTS = { "style.css": 30, "print.css": 5, "library.js": 90, "script.js": 40,
  ...Object.fromEntries([60, 40, 35, 30, 30, 25, 25, 20, 20, 15, 15, 12, 10, 10, 8, 8, 5, 5, 3, 2].map((size, at) => [`${at}.bmp`, size])) };

/** A picture of so many rows of 100 pixels. */
function bitmap(rows, noise) {
  const head = Buffer.alloc(54);
  head.write("BM");
  for (const [at, value] of [[2, 54 + noise.length], [10, 54], [14, 40], [18, 100], [22, rows]]) head.writeUInt32LE(value, at);
  head.writeUInt16LE(1, 26);
  head.writeUInt16LE(24, 28);
  return [head, noise];
}

/** A page whose parts cannot be made shorter on the way: pictures are noise, and so are the comments of scripts and styles. */
async function site(root) {
  await mkdir(root);
  const images = Object.keys(PARTS).filter((name) => name.endsWith(".bmp")).map((name) => `<img src="${name}" alt="">`).join("\n");
  await writeFile(join(root, "index.html"),
    `<!doctype html><meta charset="latin1"><title>page</title><link rel="icon" href="data:,"><link rel="stylesheet" href="style.css">
     <link rel="stylesheet" href="print.css" media="print"><script src="library.js" defer></script><script src="script.js" defer></script>
     ${images}`);
  for (const [name, size] of Object.entries(PARTS)) {
    const rows = Math.ceil(size * 1000 / 300);
    const noise = randomBytes(rows * 300);
    const comment = ["/*", noise.map((byte) => (byte === 0x2a ? 0 : byte)), "*/"];
    const parts = name.endsWith(".bmp") ? bitmap(rows, noise) : name === "script.js" ? ['document.title = "script ran";', ...comment] : comment;
    await writeFile(join(root, name), Buffer.concat(parts.map((part) => Buffer.from(part))));
  }
}

/** A key and a certificate, and what Chromium knows the key by. */
function certificate(folder) {
  const openssl = (...words) => execFileSync("openssl", words, { stdio: ["ignore", "pipe", "ignore"] });
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
    "-days", "30", "-subj", `/CN=${NAME}`, "-addext", `subjectAltName=DNS:${NAME}`);
  const shell = `openssl x509 -in ${cert} -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64`;
  return { key, cert, hash: execFileSync("sh", ["-c", shell], { encoding: "utf8" }).trim() };
}

/** Bytes that have reached this namespace over its paths. */
async function received() {
  const lines = (await readFile("/proc/net/dev", "utf8")).split("\n").slice(2).map((line) => line.trim().split(/[:\s]+/));
  return lines.filter(([name]) => name && name !== "lo").reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

/** One load, in a context of its own. */
async function load(browser, protocol, limit) {
  const { browserContextId } = await browser.call("Target.createBrowserContext");
  try {
    const page = await browser.page({ width: 800, height: 600, context: browserContextId });
    const before = await received();
    await page.go(`https://${NAME}/`);
    const times = await until("the page", () => page.ask(`() => {
      const [page] = performance.getEntriesByType("navigation");
      return page?.loadEventEnd > 0 && { first: page.responseStart, load: page.loadEventEnd,
        entries: [page, ...performance.getEntriesByType("resource")].map((entry) => entry.nextHopProtocol) };
    }`), limit);
    const wrong = times.entries.filter((other) => other !== protocol);
    if (wrong.length > 0 || times.entries.length !== Object.keys(PARTS).length + 1) throw new Error(`not by ${protocol}: ${times.entries}`);
    return { first_byte_ms: times.first, load_ms: times.load, received_bytes: (await received()) - before };
  } finally {
    await browser.call("Target.disposeBrowserContext", { browserContextId });
  }
}

/** Loads the page whenever it is told to. */
async function loads({ chromium, protocol, hash, server, limit }) {
  const flags = [`--ignore-certificate-errors-spki-list=${hash}`, `--host-resolver-rules=MAP ${NAME} ${server}`];
  const quic = protocol === "h3";
  if (quic) flags.push(`--origin-to-force-quic-on=${NAME}:443`);
  const browser = await Browser.start(chromium, { quic, flags });
  const say = (answer) => console.log(JSON.stringify(answer));
  try {
    let wrong = "";
    const first = () => load(browser, protocol, Math.min(limit, 20_000)).catch((error) => {
      wrong = error.message;
      return false;
    });
    const reached = await until("the server", first, 20_000).catch((error) => say({ error: `${error.message} (${wrong})` }));
    if (!reached) return;
    say({});
    for await (const _ of createInterface({ input: process.stdin })) {
      say(await load(browser, protocol, limit).catch((error) => ({ error: error.message })));
    }
  } finally {
    await browser.close();
  }
}

const [task, words] = process.argv.slice(2);
if (task === "make") {
  const root = join(words, "site");
  await site(root);
  const payload_bytes = (await Promise.all([...Object.keys(PARTS), "index.html"].map((name) => readFile(join(root, name)))))
    .reduce((sum, { length }) => sum + length, 0);
  console.log(JSON.stringify({ ...certificate(words), root, payload_bytes, parts: Object.keys(PARTS).length + 1 }));
} else {
  await loads(JSON.parse(words));
}
