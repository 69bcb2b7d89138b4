// The pictures of docs/: the page after a minute and a half, with a path that loses 5 % and another that is cut.

import { Browser, sleep, until } from "../../crates/lab/browser/chromium.mjs";
import { Pair } from "./pair.mjs";

const [, , program, programs] = process.argv;
const browser = await Browser.start(program);
const pair = await Pair.start(programs);
const pages = [];
// Cropped to `height`, where what follows looks the same in another picture.
for (const [name, url, size] of [
  ["page-light", pair.client, { width: 1100 }],
  ["page-dark", pair.client, { width: 1100, height: 850, dark: true }],
  ["page-phone-light", pair.client, { width: 390, height: 1300 }],
  ["page-phone-dark", pair.client, { width: 390, height: 1300, dark: true }],
  ["page-server", pair.server, { width: 1100 }],
]) {
  const page = await browser.page({ ...size, height: 900 });
  await page.go(url);
  await until("the first snapshot", () => page.ask(() => document.documentElement?.dataset.ready === "yes"));
  pages.push([name, page, size.height]);
}
await sleep(25_000);
pair.say("loss 0 0.05");
await sleep(45_000);
pair.say("cut 1");
await sleep(15_000);
for (const [name, page, height] of pages) {
  await page.picture(`docs/${name}.png`, height);
  console.log(`docs/${name}.png`);
}
await browser.close();
await pair.stop();
