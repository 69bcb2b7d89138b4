
// Lines over the last two minutes, in SVG that stretches; words stand beside it in HTML.

const SPAN = 120_000;
const [WIDTH, HEIGHT] = [1000, 100];
const NAMESPACE = new DOMParser().parseFromString("<svg/>", "text/html").querySelector("svg").namespaceURI;

function draw(tag, attributes = {}) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function canvas() {
  return draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
}

// The next round number above a value, so that scales change seldom; of bits where `unit` is 8.
function ceiling(value, least, unit = 1) {
  const target = Math.max(value, least) * unit;
  const power = 10 ** Math.floor(Math.log10(target));
  return ([1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= target * 0.999) * power) / unit;
}

// The top of a scale, which is round.
const mark = ([number, unit]) => text([number.replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, ""), unit]);

const across = (time, now) => ((time - now + SPAN) / SPAN) * WIDTH;
const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;

// A path through the samples; where one is missing, the line breaks.
function lineOf(samples, now, top, value) {
  let out = "";
  let pen = "M";
  for (const sample of samples) {
    const at = value(sample);
    if (at === null || at === undefined) {
      pen = "M";
      continue;
    }
    const y = HEIGHT - 2 - (Math.min(at, top) / top) * (HEIGHT - 6);
    out += pen + point(across(sample.time, now), y);
    pen = "L";
  }
  return out;
}

// A chart of one or two lines with its name, its present value and its scale.
class Chart {
  constructor(name, format, least, keys, unit = 1) {
    this.unit = unit;
    this.format = format;
    this.least = least;
    this.keys = keys;
    this.name = name;
    this.value = make("p", { className: "value" });
    this.top = make("span", { className: "top num" });
    this.svg = canvas();
    this.area = draw("path", { class: "area" });
    this.lines = keys.map((_, nth) => draw("path", { class: nth ? "line second" : "line" }));
    this.svg.append(this.area, ...this.lines);
    const plot = make("div", { className: "plot" });
    plot.append(this.svg, this.top);
    this.element = make("div", { className: "chart" }, make("p", { className: "name" }, name), this.value, plot);
  }

  update(samples, now, of, words) {
    const known = samples.flatMap((sample) => this.keys.map((key) => sample[key])).filter((value) => value != null);
    const top = ceiling(Math.max(0, ...known), this.least, this.unit);
    say(this.top, mark(this.format(top)));
    this.keys.forEach((key, nth) => {
      this.lines[nth].setAttribute("d", lineOf(samples, now, top, (sample) => sample[key]));
    });
    this.area.setAttribute("d", this.filled(samples, now, top));
    words(this.value);
    const range = known.length
      ? `between ${text(this.format(Math.min(...known)))} and ${text(this.format(Math.max(...known)))} in the last two minutes`
      : "no samples yet";
    this.svg.setAttribute("aria-label", `${this.name} of ${of}: now ${this.value.textContent}, ${range}`);
  }

  filled(samples, now, top) {
    const have = samples.filter((sample) => sample[this.keys[0]] != null);
    if (have.length < 2) return "";
    const line = lineOf(have, now, top, (sample) => sample[this.keys[0]]);
    const [first, last] = [have[0], have[have.length - 1]].map((sample) => across(sample.time, now).toFixed(1));
    return `${line}L${last} ${HEIGHT}L${first} ${HEIGHT}Z`;
  }
}

// Downloads of all paths above a line, uploads below it at the same scale, one upon the other.
class Mirror {
  constructor(root) {
    this.svg = canvas();
    this.above = make("span", { className: "top num" });
    this.below = make("span", { className: "bottom num" });
    this.legend = make("span", { className: "legend" });
    const plot = make("div", { className: "plot" });
    plot.append(this.svg, this.above, this.below);
    const caption = make("figcaption", {}, make("strong", {}, "Traffic by path"), this.legend);
    const times = make("div", { className: "times", "aria-hidden": "true" }, make("span", {}, "2 minutes ago"), make("span", {}, "now"));
    root.append(caption, plot, times);
  }

  // `layers`: [{ name, colour, samples }], `times`: when samples were taken.
  update(layers, times, now) {
    const sums = (key) => times.map((time) => layers.reduce((sum, layer) => sum + (layer.at(time)?.[key] ?? 0), 0));
    const [down, up] = [sums("down"), sums("up")];
    const most = Math.max(...down, ...up, 0);
    const [top, bottom] = [down, up].map((sums) => ceiling(Math.max(...sums, most / 5), 1250, 8));
    const scale = (HEIGHT - 4) / (top + bottom);
    const middle = 2 + top * scale;
    const parts = [];
    for (const [key, sign] of [["down", -1], ["up", 1]]) {
      let base = times.map(() => 0);
      for (const layer of layers) {
        const upper = times.map((time, nth) => base[nth] + (layer.at(time)?.[key] ?? 0));
        const y = (value) => middle + sign * value * scale;
        const edge = (values, order) => order.map((nth) => point(across(times[nth], now), y(values[nth])));
        const order = times.map((_, nth) => nth);
        const outline = [...edge(upper, order), ...edge(base, [...order].reverse())];
        if (times.length > 1) parts.push(draw("path", { class: `stack ${layer.colour}`, d: `M${outline.join("L")}Z` }));
        base = upper;
      }
    }
    parts.push(draw("path", { class: "grid", d: `M0 ${middle}H${WIDTH}` }));
    this.svg.replaceChildren(...parts);
    say(this.above, `↓ ${mark(rate(top))}`);
    say(this.below, `↑ ${mark(rate(bottom))}`);
    const last = (values) => text(rate(values[values.length - 1] ?? 0));
    this.svg.setAttribute("aria-label", `Traffic of all paths: now ${last(down)} down and ${last(up)} up`);
    const names = layers.map((layer) => `${layer.colour}|${layer.name}`).join("\n");
    if (this.names !== names) {
      this.names = names;
      this.legend.replaceChildren(...layers.map((layer) => make("span", { className: `key ${layer.colour}` }, layer.name)));
    }
  }
}
