// `mendpath server` and `mendpath client` over two emulated paths, with programs that use them.

import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A port that nobody uses at the moment. */
function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

export class Pair {
  /** `options` are the server's. */
  static async start(programs, options = []) {
    const pair = new Pair();
    pair.state = await mkdtemp(join(tmpdir(), "mendpath-pair-"));
    const [listen, socks5, client, server] = await Promise.all(Array.from({ length: 4 }, freePort));
    pair.client = `http://127.0.0.1:${client}`;
    pair.server = `http://127.0.0.1:${server}`;
    pair.bed = pair.run(`${programs}/examples/page_bed`, [`127.0.0.1:${listen}`]);
    const bed = JSON.parse(await pair.line(pair.bed));
    const serving = pair.run(`${programs}/mendpath`, [
      "server", `--listen=127.0.0.1:${listen}`, `--advertise=${bed.server}`, `--state=${pair.state}`, "--allow-private",
      `--dns=${bed.dns}`, `--admin=127.0.0.1:${server}`, ...options,
    ]);
    const invitation = await pair.line(serving);
    pair.run(`${programs}/mendpath`, [
      "client", "--path=127.0.0.2", "--path=127.0.0.3", `--socks5=127.0.0.1:${socks5}`, `--admin=127.0.0.1:${client}`, "--wait",
    ], { MENDPATH_INVITATION: invitation });
    await pair.paths(2);
    pair.say(`work 127.0.0.1:${socks5}`);
    return pair;
  }

  children = [];

  run(program, args, env = {}) {
    const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...env } });
    this.children.push(child);
    return child;
  }

  line(child) {
    return new Promise((done, fail) => {
      createInterface({ input: child.stdout }).once("line", done);
      child.once("exit", (code) => fail(new Error(`${child.spawnfile} ended with ${code}`)));
    });
  }

  /** What the paths shall do from now on. */
  say(words) {
    this.bed.stdin.write(`${words}\n`);
  }

  /** Waits until the client has so many paths. */
  async paths(many) {
    for (let tries = 0; tries < 300; tries += 1) {
      const answer = await fetch(`${this.client}/paths`).catch(() => undefined);
      if (answer?.ok && (await answer.json()).filter((path) => path.state === "active").length === many) return;
      await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error(`there are no ${many} paths`);
  }

  async stop() {
    for (const child of this.children) child.kill();
    await Promise.all(this.children.map((child) => child.exitCode ?? new Promise((done) => child.on("exit", done))));
    await rm(this.state, { recursive: true, force: true });
  }
}
