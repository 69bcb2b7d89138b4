
// What each snapshot changes on the page.

const $ = (id) => document.getElementById(id);

// The counters of paths over time, and what follows from two samples.
class History {
  constructor() {
    this.samples = [];
    this.byTime = new Map();
  }

  // Over how many samples loss is averaged: single seconds hold too few packets.
  static LOSS_OVER = 10;

  add(time, path, isClient) {
    const before = this.samples[this.samples.length - 1];
    const early = this.samples[Math.max(0, this.samples.length - History.LOSS_OVER)];
    const sample = { time, path, rtt: path.rtt_ms, window: path.window_bytes, flight: path.in_flight_bytes };
    if (before && path.bytes_sent >= before.path.bytes_sent) {
      const since = (name, from) => Math.max(0, path[name] - from.path[name]);
      const seconds = Math.max(0.2, (time - before.time) / 1000);
      const sent = since("bytes_sent", before) / seconds;
      const received = since("bytes_received", before) / seconds;
      const outgoing = since("packets_lost", early) / Math.max(1, since("packets_sent", early));
      const missing = since("packets_missing", early);
      const incoming = missing / Math.max(1, missing + since("packets_received", early));
      [sample.down, sample.up] = isClient ? [received, sent] : [sent, received];
      [sample.lossDown, sample.lossUp] = isClient ? [incoming, outgoing] : [outgoing, incoming];
    } else if (before) {
      this.clear();
    }
    this.samples.push(sample);
    this.byTime.set(time, sample);
    this.forget(time);
  }

  clear() {
    this.samples = [];
    this.byTime.clear();
  }

  forget(now) {
    while (this.samples.length && this.samples[0].time < now - SPAN - 2000) this.byTime.delete(this.samples.shift().time);
  }

  at(time) {
    return this.byTime.get(time);
  }

  get last() {
    return this.samples[this.samples.length - 1];
  }
}

const STATES = { active: "good", backup: "good", paused: "warn", validating: "warn", suspect: "bad", closing: "bad", gone: "bad" };
const STATE_WORDS = { suspect: "does not answer", gone: "gone" };

// One path's panel.
class PathPanel {
  constructor(colour) {
    this.history = new History();
    this.colour = colour;
    this.name = make("h3");
    this.state = make("p", { className: "pill" });
    this.addresses = make("p", { className: "note num" });
    this.share = make("span", { className: "num" });
    this.bar = make("i");
    const share = make("p", { className: "share" }, this.share, make("span", { className: "bar", "aria-hidden": "true" }, this.bar));
    this.charts = [
      new Chart("Round trip", duration, 10, ["rtt"]),
      new Chart("Loss", percent, 0.02, ["lossDown", "lossUp"]),
      new Chart("Window", bytes, 10_000, ["window", "flight"]),
      new Chart("Rate", rate, 1250, ["down", "up"], 8),
    ];
    const charts = make("div", { className: "charts" }, ...this.charts.map((chart) => chart.element));
    this.element = make("article", { className: `panel path ${colour}` },
      make("header", {}, this.name, this.state, this.addresses, share), charts);
  }

  update(now, share, isHere) {
    const { history: { samples, last }, name } = this;
    const state = isHere ? last.path.state : "gone";
    say(this.name, this.title);
    const { metered, cap_bits_per_second: cap } = last.path;
    const limits = [metered ? ", metered" : "", cap ? `, at most ${text(rate(cap / 8))} each way` : ""];
    say(this.state, (STATE_WORDS[state] ?? state) + limits.join(""));
    this.state.className = `pill ${STATES[state] ?? ""}`;
    this.element.classList.toggle("gone", state === "gone");
    say(this.addresses, `${last.path.local} → ${last.path.remote}`);
    say(this.share, `${text(percent(share))} of the bytes`);
    this.bar.style.width = `${(share * 100).toFixed(1)}%`;
    const pair = (first, second) => (element) => {
      if (!element.firstChild) element.append(make("span", { className: "num" }), " ", make("span", { className: "num" }));
      say(element.firstChild, first);
      say(element.lastChild, second);
    };
    const both = (first, second) => pair(`↓ ${text(first)}`, `↑ ${text(second)}`);
    const words = [
      (element) => show(element, duration(last.rtt)),
      both(percent(last.lossDown ?? 0), percent(last.lossUp ?? 0)),
      pair(text(bytes(last.window)), `${text(bytes(last.flight))} out`),
      both(rate(last.down ?? 0), rate(last.up ?? 0)),
    ];
    this.charts.forEach((chart, nth) => chart.update(samples, now, name.textContent, words[nth]));
  }
}

const tiles = ["Download", "Upload", "Mended", "Delay saved"].map((name) => {
  const [value, note] = [make("p", { className: "value" }), make("p", { className: "note" })];
  $("tiles").append(make("div", { className: "tile" }, make("p", { className: "name" }, name), value, note));
  return { value, note };
});

const mirror = new Mirror($("traffic"));
const panels = new Map();
const events = new Events($("events"));
const total = [];

function totals(snapshot, isClient) {
  const { totals: now, unix_ms: time } = snapshot;
  const before = total[total.length - 1];
  const speed = (name) => {
    const moved = (now[name] ?? 0) - (before?.now[name] ?? 0);
    return before && moved > 0 ? (moved * 1000) / Math.max(200, time - before.time) : 0;
  };
  const [received, sent] = [speed("stream_bytes_received"), speed("stream_bytes_sent")];
  const [down, up] = isClient ? [received, sent] : [sent, received];
  total.push({ time, now });
  while (total.length > 2) total.shift();
  const all = (name) => now[name] ?? 0;
  const [downloaded, uploaded] = isClient
    ? [all("stream_bytes_received"), all("stream_bytes_sent")]
    : [all("stream_bytes_sent"), all("stream_bytes_received")];
  show(tiles[0].value, rate(down));
  say(tiles[0].note, `goodput; ${text(bytes(downloaded))} so far`);
  show(tiles[1].value, rate(up));
  say(tiles[1].note, `goodput; ${text(bytes(uploaded))} so far`);
  show(tiles[2].value, count(all("packets_mended") + all("packets_rebuilt")));
  say(tiles[2].note, "packets, both directions");
  show(tiles[3].value, duration(snapshot.saved_ms));
  say(tiles[3].note, "estimated, see below");
}

const facts = new Map();
const splitBar = make("div", { className: "split", "aria-hidden": "true" }, make("i", { className: "mended" }), make("i", { className: "again" }));
const splitKeys = make("p", { className: "legend" }, make("span", { className: "key mended" }), make("span", { className: "key again" }));
$("mending").append(make("dl", { className: "facts" }));

function fact(name, value, note) {
  let parts = facts.get(name);
  if (!parts) {
    parts = { value: make("dd", { className: "num" }), note: make("dd", { className: "note" }) };
    const row = make("div", {}, make("dt", {}, name), parts.value, parts.note);
    $("mending").firstChild.append(row);
    if (facts.size === 0) row.append(make("dd", { className: "note" }, splitBar, splitKeys));
    facts.set(name, parts);
  }
  say(parts.value, value);
  say(parts.note, note);
}

function mending({ totals: now, saved_ms: saved }) {
  const all = (name) => now[name] ?? 0;
  const [lost, mended] = [all("packets_lost"), all("packets_mended")];
  const again = Math.max(0, lost - mended);
  const number = (name) => all(name).toLocaleString("en");
  const ofSent = text(percent(lost / Math.max(1, all("packets_sent"))));
  fact("Lost of what was sent here", plural(lost, "packet", "packets"), `${ofSent} of ${number("packets_sent")} packets`);
  const share = lost ? mended / lost : 0;
  splitBar.firstChild.style.width = `${share * 100}%`;
  splitBar.lastChild.style.width = `${lost ? (1 - share) * 100 : 0}%`;
  say(splitKeys.firstChild, `${mended.toLocaleString("en")} mended before they were missed`);
  say(splitKeys.lastChild, `${again.toLocaleString("en")} sent again`);
  fact("Rebuilt here", plural(all("packets_rebuilt"), "packet", "packets"),
    "of the other side, computed from repair symbols");
  fact("Rebuilt by the other side", plural(all("packets_rebuilt_by_peer"), "packet", "packets"),
    "of this side, as far as it has told");
  const extra = all("recovery_bytes_sent") / Math.max(1, all("bytes_sent"));
  fact("Sent for recovery", text(bytes(all("recovery_bytes_sent"))),
    `${number("copies_sent")} copies, ${number("repair_symbols_sent")} repair symbols: ${text(percent(extra))} of all bytes sent`);
  fact("Repair symbols that came", number("repair_symbols_received"),
    `${number("repair_symbols_used")} used, ${number("repair_symbols_wasted")} wasted`);
  fact("Delay saved", text(duration(saved)),
    "An estimate: the time that retransmissions would have taken, one round trip of the path for each mended or rebuilt packet, "
    + "but no more than the time that passed. Timers, which the ends of transfers would have waited for, are not counted.");
}

// Colours go to paths in the order of their coming, and stay.
let colours = 0;

function paths(snapshot, isClient) {
  const { unix_ms: now } = snapshot;
  const here = new Set();
  for (const path of snapshot.paths) {
    const key = `${path.client ?? ""}/${path.id}/${path.name}`;
    here.add(key);
    if (!panels.has(key)) {
      const panel = new PathPanel(`of${colours++ % 6}`);
      panel.title = path.client === undefined ? path.name : `Client ${path.client}, path ${path.id} (${path.name})`;
      panels.set(key, panel);
      $("paths").append(panel.element);
    }
    panels.get(key).history.add(now, path, isClient);
  }
  const moved = (panel) => panel.history.last.path.bytes_sent + panel.history.last.path.bytes_received;
  const sum = [...panels.values()].reduce((all, panel) => all + moved(panel), 0);
  const times = new Set();
  for (const [key, panel] of panels) {
    if (!here.has(key) && now - panel.history.last.time > SPAN) {
      panel.element.remove();
      panels.delete(key);
      continue;
    }
    panel.update(now, moved(panel) / Math.max(1, sum), here.has(key));
    panel.history.samples.forEach((sample) => times.add(sample.time));
  }
  const layers = [...panels.values()].map((panel) => ({
    name: panel.title, colour: panel.colour, at: (time) => panel.history.at(time),
  }));
  mirror.update(layers, [...times].filter((time) => time >= now - SPAN - 2000).sort((one, other) => one - other), now);
  $("no-paths").hidden = panels.size > 0;
}

const cellOf = (words) => (row, cell) => say(cell, words(row));
let isClientPage = true;
const down = (row) => (isClientPage ? row.bytes_received : row.bytes_sent);
const up = (row) => (isClientPage ? row.bytes_sent : row.bytes_received);
const moving = [
  { name: "Down", cell: cellOf((row) => text(bytes(down(row)))) },
  { name: "Up", cell: cellOf((row) => text(bytes(up(row)))) },
];

const connections = new Table($("connections"), [
  {
    name: "Destination",
    cell(row, cell) {
      const host = row.host === undefined ? "all others" : $("names").checked && row.host !== null ? row.host : "a host";
      if (!cell.firstChild) cell.append(make("span"), make("span", { className: "port" }));
      say(cell.firstChild, host);
      say(cell.lastChild, row.port ? `:${row.port}` : "");
    },
  },
  { name: "Open", cell: cellOf((row) => row.open.toLocaleString("en")) },
  { name: "Ever", wide: true, cell: cellOf((row) => row.count.toLocaleString("en")) },
  ...moving,
], (row) => `${row.host}:${row.port}`, "No program has connected yet.");

const clients = new Table($("clients"), [
  { name: "Client", cell: cellOf((row) => `${row.id} · ${row.remote}`) },
  { name: "Account", wide: true, cell: cellOf((row) => row.account) },
  { name: "Here for", wide: true, cell: cellOf((row) => text(duration(row.age_ms))) },
  { name: "Paths", cell: cellOf((row) => String(row.paths)) },
  { name: "Round trip", wide: true, cell: cellOf((row) => text(duration(row.rtt_ms))) },
  { name: "Lost", wide: true, cell: cellOf((row) => text(percent(row.packets_lost / Math.max(1, row.packets_sent)))) },
  ...moving,
], (row) => row.id, "No client is connected.");

const accounts = new Table($("accounts"), [
  { name: "Account", cell: cellOf((row) => row.account) },
  { name: "Clients", cell: cellOf((row) => String(row.clients)) },
  ...moving,
], (row) => row.account, "No account has been used yet.");

function about(rows) {
  const parts = rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { className: "num" }, value)));
  const words = rows.flat().join();
  if ($("about").dataset.words !== words) {
    $("about").dataset.words = words;
    $("about").replaceChildren(...parts);
  }
}

function state(words, kind) {
  say($("state"), words);
  $("state").className = `pill ${kind}`;
}

function head(snapshot) {
  const { client, server } = snapshot;
  const role = client ? "client" : "server";
  say($("role"), role);
  document.title = client ? `${client.connected ? "" : "⚠ "}Mendpath client` : `Mendpath server: ${server.clients}`;
  const up = ["up for", text(duration(snapshot.uptime_ms))];
  if (client) {
    state(client.connected ? `connected to ${client.server}` : `no connection to ${client.server}`, client.connected ? "good" : "bad");
    const others = client.servers.length > 1 ? [["one of", plural(client.servers.length, "server", "servers")]] : [];
    about([["recovery", client.recovery || "–"], ["reconnects", String(client.reconnects)], ...others, up, ["version", snapshot.version]]);
  } else {
    const stops = server.draining ? "about to stop, " : "";
    state(`${stops}${plural(server.clients, "client", "clients")} on ${server.listen.join(", ")}`, stops ? "warn" : "good");
    about([["at the door", String(server.waiting)], ["turned away", String(server.turned_away)], up, ["version", snapshot.version]]);
  }
}

function tables({ traffic, server }) {
  const { others } = traffic;
  const rows = others.count ? [...traffic.destinations, { ...others, host: undefined }] : traffic.destinations;
  connections.update(rows, `${plural(traffic.open, "connection", "connections")} open, ${traffic.count.toLocaleString("en")} so far`);
  $("names-label").hidden = !traffic.names;
  $("s-clients").hidden = $("s-accounts").hidden = !server;
  if (server) {
    clients.update([...server.busiest].sort((one, other) => one.id - other.id),
      server.clients > server.busiest.length ? `The ${server.busiest.length} busiest of ${server.clients}` : "");
    accounts.update(server.accounts, "");
  }
}

let latest;
let held = false;

function render() {
  if (!latest) return;
  head(latest);
  tables(latest);
}

// When the program began, by the clock of its first snapshot here: the clock may be set meanwhile.
let began;

function take(snapshot) {
  isClientPage = Boolean(snapshot.client);
  if (!latest || snapshot.uptime_ms < latest.uptime_ms) began = snapshot.unix_ms - snapshot.uptime_ms;
  snapshot.unix_ms = began + snapshot.uptime_ms;
  latest = snapshot;
  totals(snapshot, isClientPage);
  paths(snapshot, isClientPage);
  mending(snapshot);
  events.update(snapshot.events);
  render();
  document.documentElement.dataset.ready = "yes";
}

$("hold").addEventListener("click", () => {
  held = !held;
  $("hold").setAttribute("aria-pressed", String(held));
  say($("hold"), held ? "Go on" : "Pause");
  if (held) state("paused", "warn");
  else render();
});
$("names").addEventListener("change", render);

const source = new EventSource("events");
source.addEventListener("message", (message) => {
  if (!held) take(JSON.parse(message.data));
});
source.addEventListener("error", () => {
  state(source.readyState === EventSource.CLOSED ? "too many are watching, or the program has ended" : "no answer from the program; trying again", "bad");
});
