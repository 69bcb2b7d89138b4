// The picture of docs/qlog.md: the page that `mendpath qlog view` makes of half a minute over two paths, of which one
// loses 5 % after a while and the other is cut.

import { execFileSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Browser, sleep, until } from "../../crates/lab/browser/chromium.mjs";
import { Pair } from "./pair.mjs";

const [, , program, programs] = process.argv;
const traces = await mkdtemp(join(tmpdir(), "mendpath-traces-"));
const pair = await Pair.start(programs, [`--qlog=${traces}`, "--drain-time=0"]);
await sleep(10_000);
pair.say("loss 0 0.05");
await sleep(15_000);
pair.say("cut 1");
await sleep(8_000);
await pair.stop();
const [trace] = (await readdir(traces)).filter((name) => name.endsWith("_server.sqlog"));
const made = join(traces, "page.html");
execFileSync(`${programs}/mendpath`, ["qlog", "view", join(traces, trace), "-o", made]);
const browser = await Browser.start(program);
for (const [name, size] of [
  ["qlog-view", { width: 1100 }],
  ["qlog-view-phone-dark", { width: 390, dark: true }],
]) {
  const page = await browser.page({ ...size, height: 900 });
  await page.go(`file://${made}`);
  await until("the page", () => page.ask(() => document.readyState === "complete" && document.title !== ""));
  const wide = await page.ask(() => document.documentElement.scrollWidth);
  if (wide > size.width || page.errors.length > 0) throw new Error(`${name}: ${wide} wide, ${page.errors}`);
  const wider = await page.ask(() => [...document.querySelectorAll(".scroll")].filter((table) => table.scrollWidth > table.clientWidth).map((table) => table.ariaLabel));
  if (wider.length > 0) throw new Error(`${name}: these tables are wider than the page: ${wider}`);
  await page.picture(`docs/${name}.png`, 1400);
  console.log(`docs/${name}.png`);
}
await browser.close();
await rm(traces, { recursive: true, force: true });
