// Loads pages from `mendpath serve` in Chromium, and asks the browser itself by which protocol they came.

import { spawn } from "node:child_process";
import { mkdtemp, mkdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { Browser, until } from "./chromium.mjs";

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
    const filler = "x".repeat(20_000 * at);
    await writeFile(join(root, "parts", `${at}.svg`), `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><!--${filler}--></svg>`);
  }
  return root;
}

/** The server, once it says where it listens and what its key is. */
async function serve(root) {
  const child = spawn(`${directory}/mendpath`, ["serve", "--root", root, "--listen", "127.0.0.1:0"], { stdio: ["ignore", "ignore", "pipe"] });
  let hash;
  for await (const line of createInterface({ input: child.stderr })) {
    hash = line.match(/spki-list=(\S+)/)?.[1] ?? hash;
    const port = line.match(/HTTP\/3 on UDP 127\.0\.0\.1:(\d+)/)?.[1];
    if (port) return { child, port, hash };
  }
  throw new Error("the server ended before it listened");
}

/** What the browser says of the page and all it needs. */
async function load(page, url) {
  await page.go(url);
  await until("the page and its script", () => page.ask("() => document.readyState === 'complete' && document.title === 'script ran'"));
  return page.ask(`() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .filter((entry) => entry.name.startsWith("https:"))
    .map(({ name, nextHopProtocol, responseStatus }) => ({ name, nextHopProtocol, responseStatus }))`);
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
  const tcp = await Browser.start(program, { flags: [trust, here] });
  try {
    check("HTTP/2", await load(await tcp.page({ width: 800, height: 600 }), url), "h2");
  } finally {
    await tcp.close();
  }
  const ended = new Promise((done) => server.child.on("exit", (code) => done(code)));
  server.child.kill("SIGTERM");
  if ((await ended) !== 0) throw new Error("the server does not end in good order");
  console.log("SIGTERM: ended in good order");
} finally {
  server.child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
}
