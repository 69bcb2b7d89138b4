// How long Chromium takes to load a page over an emulated path that loses packets: from `mendpath serve` with several recovery
// schemes, and from the other web servers that are here. Needs root, for the lab's network namespaces.
//
// Each load is of a browser context of its own, so nothing is cached and each makes a connection. The measuring half of this
// file runs in the client's namespace; the n-th packet of every server meets the same loss.

import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Browser, until } from "./chromium.mjs";

const NAME = "site.example";
const SERVER = "10.99.0.1";
const PATH = "rate=20mbit,delay=50ms";
const NETWORKS = {
  "no loss": PATH,
  "1 % loss": `${PATH},loss=1%`,
  "2 % loss": `${PATH},loss=2%`,
  "5 % loss": `${PATH},loss=5%`,
  "2 % in bursts of 4": `${PATH},loss=2%,burst=4`,
};
/** What a page of a few years ago is made of, in kB. */
const PARTS = { "style.css": 30, "print.css": 5, "library.js": 90, "script.js": 40,
  ...Object.fromEntries([60, 40, 35, 30, 30, 25, 25, 20, 20, 15, 15, 12, 10, 10, 8, 8, 5, 5, 3, 2].map((size, at) => [`${at}.bmp`, size])) };

const here = fileURLToPath(import.meta.url);

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

const has = (command) => spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;

/** Every server that is here: how it is started, and whether the browser speaks QUIC to it. */
async function servers(mendpath, folder, root, { key, cert }) {
  const all = [];
  const add = async (name, quic, command) => {
    const file = join(folder, `${name.replace(/\W/g, "-")}.sh`);
    await writeFile(file, `#!/bin/sh\nexec >/dev/null\n${command}\n`);
    await chmod(file, 0o755);
    all.push({ name, quic, file });
  };
  for (const recovery of ["auto", "slp", "fuso", "none"]) {
    await add(`serve:${recovery}`, true,
      `exec ${mendpath} serve --root ${root} --listen ${SERVER}:443 --cert ${cert} --key ${key} --recovery ${recovery} 2>/dev/null`);
  }
  await add("serve:auto h2", false, `exec ${mendpath} serve --root ${root} --listen ${SERVER}:443 --cert ${cert} --key ${key} 2>/dev/null`);
  if (has("lab-peers")) {
    await add("h3-quinn", true, `exec lab-peers web --root ${root} --listen ${SERVER}:443 --cert ${cert} --key ${key} 2>/dev/null`);
  }
  if (has("caddy")) {
    const file = join(folder, "Caddyfile");
    await writeFile(file, `{\n admin off\n auto_https off\n}\nhttps://${NAME}:443 {\n tls ${cert} ${key}\n root * ${root}\n file_server\n}\n`);
    await add("caddy", true, `export HOME=${folder}; exec caddy run --config ${file} --adapter caddyfile 2>/dev/null`);
  }
  if (has("nginx")) {
    for (const congestion of ["cubic", "bbr"]) {
      const file = join(folder, `nginx-${congestion}.conf`);
      await writeFile(file, `daemon off; master_process off; pid ${folder}/nginx.pid; error_log /dev/null; user root;
        events {} http { access_log off; types { text/html html; text/css css; text/javascript js; image/bmp bmp; }
        server { listen 443 ssl http2; ssl_certificate ${cert}; ssl_certificate_key ${key}; root ${root}; } }`);
      await add(`nginx h2 ${congestion}`, false, `ip route | while read -r route; do ip route change $route congctl ${congestion}; done; exec nginx -c ${file} 2>/dev/null`);
    }
  }
  return all;
}

/** Bytes that have reached this namespace over its paths. */
async function received() {
  const lines = (await readFile("/proc/net/dev", "utf8")).split("\n").slice(2).map((line) => line.trim().split(/[:\s]+/));
  return lines.filter(([name]) => name && name !== "lo").reduce((sum, [, bytes]) => sum + Number(bytes), 0);
}

/** One load, in a context of its own. */
async function load(browser, protocol) {
  const { browserContextId } = await browser.call("Target.createBrowserContext");
  try {
    const page = await browser.page({ width: 800, height: 600, context: browserContextId });
    const before = await received();
    await page.go(`https://${NAME}/`);
    const times = await until("the page", () => page.ask(`() => {
      const [page] = performance.getEntriesByType("navigation");
      return page?.loadEventEnd > 0 && { first: page.responseStart, load: page.loadEventEnd,
        entries: [page, ...performance.getEntriesByType("resource")].map((entry) => entry.nextHopProtocol) };
    }`));
    const wrong = times.entries.filter((other) => other !== protocol);
    if (wrong.length > 0 || times.entries.length !== Object.keys(PARTS).length + 1) throw new Error(`not by ${protocol}: ${times.entries}`);
    return { first: times.first, load: times.load, bytes: (await received()) - before };
  } finally {
    await browser.call("Target.disposeBrowserContext", { browserContextId });
  }
}

/** The half in the client's namespace: prints what it measured, as JSON. */
async function measure(chromium, { quic, hash, count }) {
  const flags = [`--ignore-certificate-errors-spki-list=${hash}`, `--host-resolver-rules=MAP ${NAME} ${SERVER}`];
  if (quic) flags.push(`--origin-to-force-quic-on=${NAME}:443`);
  const browser = await Browser.start(chromium, { quic, flags });
  try {
    const protocol = quic ? "h3" : "h2";
    await until("the server", () => load(browser, protocol).catch(() => false), 20_000);
    const loads = [];
    while (loads.length < count) loads.push(await load(browser, protocol));
    console.log(JSON.stringify(loads));
  } finally {
    await browser.close();
  }
}

const quantile = (values, q) => [...values].sort((a, b) => a - b)[Math.ceil(values.length * q) - 1];
const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function row(name, loads, reference) {
  const times = loads.map(({ load }) => load);
  const p99 = quantile(times, 0.99);
  const ratio = reference ? (p99 / reference).toFixed(2) : "";
  const numbers = [mean(times), quantile(times, 0.5), quantile(times, 0.9), p99, quantile(loads.map(({ first }) => first), 0.5)];
  const bytes = mean(loads.map(({ bytes }) => bytes)) / 1000;
  return [name.padEnd(18), ...numbers.map((ms) => ms.toFixed(0).padStart(7)), bytes.toFixed(0).padStart(7), ratio.padStart(7)].join("");
}

async function compare(chromium, directory, options) {
  const folder = await mkdtemp(join(tmpdir(), "mendpath-loads-"));
  try {
    const [root, trust] = [join(folder, "site"), certificate(folder)];
    await site(root);
    const mendpath = `${process.cwd()}/${directory}/mendpath`;
    const wanted = (name, choice) => !choice || choice.includes(name);
    const all = await servers(mendpath, folder, root, trust);
    const contenders = all.filter(({ name }) => wanted(name, options.server));
    console.log(`loads of a page of ${Object.values(PARTS).reduce((a, b) => a + b)} kB in ${Object.keys(PARTS).length + 1} parts over ${PATH}, ${options.count} each; ms`);
    for (const [network, path] of Object.entries(NETWORKS).filter(([name]) => wanted(name, options.network))) {
      console.log(`\n${network.padEnd(18)}   mean    p50    p90    p99 first   kB     p99 to h3-quinn`);
      const results = {};
      for (const { name, quic, file } of contenders) {
        const words = JSON.stringify({ quic, hash: trust.hash, count: Number(options.count) });
        const { stdout, stderr } = spawnSync(mendpath, ["lab", "exec", "--path", path, "--server", file, "--", process.execPath, here, "--measure", words, chromium, directory],
          { encoding: "utf8", maxBuffer: 1 << 26 });
        const line = stdout.split("\n").find((text) => text.startsWith("["));
        if (line) results[name] = JSON.parse(line);
        else console.log(`${name.padEnd(18)} failed: ${stderr.trim().split("\n").at(-1)}`);
      }
      const reference = results["h3-quinn"] && quantile(results["h3-quinn"].map(({ load }) => load), 0.99);
      for (const [name, loads] of Object.entries(results)) console.log(row(name, loads, reference));
      if (options.json) await writeFile(options.json, JSON.stringify({ network, path, results }) + "\n", { flag: "a" });
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const { values, positionals: [chromium, directory] } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: "string", default: "150" },
    server: { type: "string", multiple: true },
    network: { type: "string", multiple: true },
    json: { type: "string" },
    measure: { type: "string" },
  },
});
await (values.measure ? measure(chromium, JSON.parse(values.measure)) : compare(chromium, directory, values));
