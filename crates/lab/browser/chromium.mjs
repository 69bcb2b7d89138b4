// Drives Chromium over the pipe of its DevTools protocol: nothing to install, and no port that others could reach.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
  "--remote-debugging-pipe",
];

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** Asks again and again until the answer is one; says what was awaited when it never comes. */
export async function until(what, ask, patience = 60_000) {
  const end = Date.now() + patience;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`waited in vain for: ${what}`);
    await sleep(100);
  }
}

export class Browser {
  /** Only pages that are about it speak QUIC. */
  static async start(program, { quic = false, flags = [] } = {}) {
    const transport = quic ? "--enable-quic" : "--disable-quic";
    const profile = await mkdtemp(join(tmpdir(), "mendpath-page-"));
    const child = spawn(program, [...FLAGS, transport, ...flags, `--user-data-dir=${profile}`], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    return new Browser(child, profile);
  }

  constructor(child, profile) {
    this.child = child;
    this.profile = profile;
    this.next = 1;
    this.waiting = new Map();
    this.pages = new Map();
    let rest = "";
    child.stdio[4].setEncoding("utf8").on("data", (text) => {
      const messages = (rest + text).split("\0");
      rest = messages.pop();
      for (const message of messages) this.hear(JSON.parse(message));
    });
    child.on("exit", () => this.waiting.forEach(({ fail }) => fail(new Error("the browser has ended"))));
  }

  hear({ id, result, error, method, params, sessionId }) {
    if (id === undefined) return this.pages.get(sessionId)?.hear(method, params);
    const { done, fail } = this.waiting.get(id);
    this.waiting.delete(id);
    return error ? fail(new Error(error.message)) : done(result);
  }

  call(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((done, fail) => this.waiting.set(id, { done, fail }));
  }

  /** A page of this size, in the dark or not, of a context of its own or the first one. */
  async page({ width, height, dark = false, scale = 1, context = undefined }) {
    const { targetId } = await this.call("Target.createTarget", { url: "about:blank", browserContextId: context });
    const { sessionId } = await this.call("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    this.pages.set(sessionId, page);
    for (const domain of ["Page", "Runtime", "Log", "Network", "Accessibility"]) await page.call(`${domain}.enable`);
    await page.call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile: width < 600 });
    const features = [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }];
    await page.call("Emulation.setEmulatedMedia", { features });
    return page;
  }

  async close() {
    const ended = new Promise((done) => this.child.on("exit", done));
    await this.call("Browser.close").catch(() => {});
    await ended;
    await rm(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Page {
  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target, errors: [], requests: [], responses: [] });
  }

  hear(method, params) {
    if (method === "Runtime.exceptionThrown") this.errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Runtime.consoleAPICalled" && ["error", "warning"].includes(params.type)) {
      this.errors.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    }
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) this.errors.push(params.entry.text);
    if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
    if (method === "Network.responseReceived") this.responses.push({ url: params.response.url, status: params.response.status });
  }

  call(method, params) {
    return this.browser.call(method, params, this.session);
  }

  go(url) {
    return this.call("Page.navigate", { url });
  }

  /** What `script`, a function, returns in the page. */
  async ask(script, ...values) {
    const expression = `(${script})(...${JSON.stringify(values)})`;
    const { result, exceptionDetails } = await this.call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async press(key, code = key, text = undefined) {
    for (const type of ["keyDown", "keyUp"]) {
      await this.call("Input.dispatchKeyEvent", { type, key, code, text, windowsVirtualKeyCode: { Tab: 9, " ": 32, Enter: 13 }[key] });
    }
  }

  /** The whole page as a PNG, or as much of it as `height`. */
  async picture(file, height = undefined) {
    const { cssContentSize: size } = await this.call("Page.getLayoutMetrics");
    const clip = { x: 0, y: 0, width: size.width, height: height ?? size.height, scale: 1 };
    const { data } = await this.call("Page.captureScreenshot", { format: "png", clip, captureBeyondViewport: true });
    await writeFile(file, Buffer.from(data, "base64"));
  }

  close() {
    return this.browser.call("Target.closeTarget", { targetId: this.target });
  }
}
