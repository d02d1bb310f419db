// Elements, without ever turning text into markup: whatever a run is called, it is shown as text.

const SVG = "http://www.w3.org/2000/svg";

/** Give a node its attributes; functions become listeners, and null leaves one out. */
function dress(node, attributes) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (typeof value === "boolean" && name.startsWith("aria-")) node.setAttribute(name, String(value));
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(name, value === true ? "" : String(value));
  }
  return node;
}

/** Return an HTML element with attributes and children; texts become text nodes. */
function el(tag, attributes, ...children) {
  const node = dress(document.createElement(tag), attributes);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Return an SVG element with attributes and children. */
function svg(tag, attributes, ...children) {
  const node = dress(document.createElementNS(SVG, tag), attributes);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Replace what a node holds. */
function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Return the whole number that a text is, if it is one below a limit; undefined if not. */
function whole(text, limit) {
  return /^\d+$/.test(text ?? "") && Number(text) < limit ? Number(text) : undefined;
}

/** Return a text that keeps its direction to itself, for where there are no elements to do so. */
function apart(text) {
  return `\u2068${text}\u2069`;
}

/** Return a number for people: whole ones in full, others with so many digits behind the point. */
function number(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const shown = Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);
  return shown.replace("-", "−");
}

/** Return a value for people, with so many digits behind the point whatever they are. */
function decimal(value, digits = 2) {
  return Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "–";
}

/** Return a share for people. */
function percent(value, digits = 1) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return `${(100 * value).toFixed(digits)}%`;
}

/** Return a count with its noun: "1 test", "3 tests". */
function several(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** Return a link within the page; see `go` in main.js. */
function link(route, ...children) {
  return el("a", { href: `#${route}`, class: "inner" }, ...children);
}

/** Return a table with a head; cells are texts or nodes, and columns of numbers stand right. */
function table(head, rows, { numeric = [], caption = null, rowHead = true } = {}) {
  const side = (i) => (numeric.includes(i) ? "right" : null);
  const cell = (value, i) =>
    rowHead && i === 0 ? el("th", { scope: "row" }, value) : el("td", { class: side(i) }, value);
  return el(
    "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption ?? "table" },
    el(
      "table", null, caption ? el("caption", { class: "quiet" }, caption) : null,
      head ? el("thead", null, el("tr", null, head.map((text, i) => el("th", { scope: "col", class: side(i) }, text)))) : null,
      el("tbody", null, rows.map((row) => el("tr", null, row.map(cell)))),
    ),
  );
}
