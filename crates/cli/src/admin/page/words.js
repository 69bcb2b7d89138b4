
// Numbers as people read them, and elements made of plain text.

const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);

// "12.3" and "Mbit/s", so that the unit can be set smaller.
function scaled(value, units, step) {
  let unit = 0;
  while (value >= step * 0.9995 && unit < units.length - 1) {
    value /= step;
    unit += 1;
  }
  const number = unit === 0 ? value.toFixed(0) : value.toFixed(digits(value));
  return [number, units[unit]];
}

const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"], 1000);
const rate = (perSecond) => scaled(perSecond * 8, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"], 1000);
const count = (value) => [value.toLocaleString("en"), ""];
const percent = (share) => [(share * 100).toFixed(share >= 0.1 ? 0 : 1), "%"];
const text = ([number, unit]) => (unit ? `${number} ${unit}` : number);

function duration(ms) {
  if (ms < 995) return [ms.toFixed(ms < 10 ? 1 : 0), "ms"];
  const seconds = ms / 1000;
  if (seconds < 120) return [seconds.toFixed(seconds < 10 ? 1 : 0), "s"];
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
  if (minutes < 120) return [String(minutes), "min"];
  return hours < 48 ? [String(hours), "h"] : [String(days), "days"];
}

const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const plural = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

// An element with classes, attributes and children; children are elements or text, never markup.
function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  const { className, ...attributes } = options;
  if (className) element.className = className;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Writes only what differs: a selection or a screen reader's place survives.
function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function show(element, [number, unit]) {
  if (!element.firstChild) element.append(make("span", { className: "num" }), make("small"));
  say(element.firstChild, number);
  say(element.lastChild, unit ? ` ${unit}` : "");
}
