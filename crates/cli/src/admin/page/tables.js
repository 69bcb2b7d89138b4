
// Tables and lists whose rows stay the same elements for as long as they mean the same.

class Table {
  // `columns`: [{ name, wide, cell(row, cell) }]; the first is the row's heading.
  constructor(root, columns, key, empty) {
    this.columns = columns;
    this.key = key;
    this.rows = new Map();
    this.caption = make("caption");
    this.body = make("tbody");
    this.empty = make("p", { className: "empty" }, empty);
    const heads = columns.map((column) => make("th", { scope: "col", className: column.wide ? "wide" : "" }, column.name));
    this.table = make("table", {}, this.caption, make("thead", {}, make("tr", {}, ...heads)), this.body);
    root.append(this.table, this.empty);
  }

  update(rows, caption) {
    say(this.caption, caption);
    this.table.hidden = rows.length === 0;
    this.empty.hidden = rows.length > 0;
    const kept = new Map();
    rows.forEach((row, nth) => {
      const key = this.key(row);
      const element = this.rows.get(key) ?? this.row();
      kept.set(key, element);
      this.columns.forEach((column, at) => column.cell(row, element.children[at]));
      element.className = row.open === 0 ? "idle" : "";
      if (this.body.children[nth] !== element) this.body.insertBefore(element, this.body.children[nth] ?? null);
    });
    for (const [key, element] of this.rows) if (!kept.has(key)) element.remove();
    this.rows = kept;
  }

  row() {
    const cells = this.columns.map((column, nth) => {
      const className = column.wide ? "wide" : "";
      return nth === 0 ? make("th", { scope: "row", className }) : make("td", { className });
    });
    return make("tr", {}, ...cells);
  }
}

const MARKS = { up: ["▲", "up:"], down: ["▼", "down:"], refused: ["✕", "refused:"], changed: ["◆", "changed:"] };

class Events {
  constructor(root) {
    this.root = root;
    this.seen = "";
  }

  update(events) {
    const seen = events.map((event) => `${event.id}x${event.count}`).join();
    if (seen === this.seen) return;
    this.seen = seen;
    if (events.length === 0) {
      this.root.replaceChildren(make("li", { className: "empty" }, "Nothing has happened yet."));
      return;
    }
    const have = new Map([...this.root.children].map((item) => [item.dataset.of, item]));
    const items = events.map((event) => {
      const of = `${event.id}x${event.count}`;
      return have.get(of) ?? this.item(event, of);
    });
    this.root.replaceChildren(...items);
  }

  item(event, of) {
    const [mark, word] = MARKS[event.kind] ?? ["•", ""];
    const times = event.count > 1 ? ` (${event.count} times)` : "";
    const when = make("time", { className: "num", datetime: new Date(event.unix_ms).toISOString() }, clock(event.unix_ms));
    const sign = make("span", { className: "mark" }, make("span", { "aria-hidden": "true" }, mark), make("span", { className: "hidden" }, word));
    return make("li", { className: event.kind, "data-of": of }, when, sign, make("span", {}, event.text + times));
  }
}
