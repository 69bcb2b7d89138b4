// Opens a WebTransport session from Chromium to the example `browser_echo` of `mendpath-web-transport`, and uses all of it.

import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { createInterface } from "node:readline";

import { Browser, until } from "../../crates/lab/browser/chromium.mjs";

const [program, directory] = process.argv.slice(2);

/** What the page does; runs in the browser. */
async function visit(url) {
  const session = new WebTransport(url);
  await session.ready;
  const said = { };
  const read = async (readable) => new Uint8Array(await new Response(readable).arrayBuffer());
  const bytes = Uint8Array.from({ length: 300_000 }, (_, at) => at % 251);
  const same = (heard) => heard.length === bytes.length && heard.every((byte, at) => byte === bytes[at]);

  const both = await session.createBidirectionalStream();
  const writer = both.writable.getWriter();
  const writing = writer.write(bytes).then(() => writer.close());
  said.both = same(await read(both.readable));
  await writing;

  const one = (await session.createUnidirectionalStream()).getWriter();
  await one.write(bytes);
  await one.close();
  const incoming = session.incomingUnidirectionalStreams.getReader();
  said.one = same(await read((await incoming.read()).value));

  const out = session.datagrams.writable.getWriter();
  const back = session.datagrams.readable.getReader();
  await out.write(new Uint8Array([1, 2, 3]));
  said.datagram = [...(await back.read()).value];

  session.close({ closeCode: 7, reason: "seen" });
  const { closeCode, reason } = await session.closed;
  return { ...said, closeCode, reason };
}

const child = spawn(`${directory}/examples/browser_echo`, [], { stdio: ["ignore", "pipe", "pipe"] });
// A page of an origin that browsers trust, which is what they let open sessions.
const site = createServer((_, response) => response.setHeader("content-type", "text/html").end("<!doctype html><title>page</title>")).listen(0, "127.0.0.1");
try {
  const log = [];
  createInterface({ input: child.stderr }).on("line", (line) => log.push(line));
  const line = (await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()).value;
  const [address, pin] = line.split(" ");
  const port = address.split(":").pop();
  const hash = Buffer.from(pin, "base64url").toString("base64");
  const flags = [`--ignore-certificate-errors-spki-list=${hash}`, `--origin-to-force-quic-on=localhost:${port}`, "--host-resolver-rules=MAP localhost 127.0.0.1"];
  const browser = await Browser.start(program, { quic: true, flags });
  try {
    const page = await browser.page({ width: 800, height: 600 });
    await page.go(`http://127.0.0.1:${site.address().port}/`);
    const seen = await page.ask(`async () => (${visit})("https://localhost:${port}/room?key=1")`);
    const wanted = { both: true, one: true, datagram: [1, 2, 3], closeCode: 7, reason: "seen" };
    if (JSON.stringify(seen) !== JSON.stringify(wanted)) throw new Error(`the page says ${JSON.stringify(seen)}`);
    await until("the server to hear the end", () => log.some((line) => line.includes("code 7: seen")));
    console.log(`${log.join("; ")}; the page: ${JSON.stringify(seen)}`);
  } finally {
    await browser.close();
  }
} finally {
  child.kill();
  site.close();
}
