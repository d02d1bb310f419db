// Build elements without parsing markup, so that names from a run are always shown as text.

const SVG = "http://www.w3.org/2000/svg";

/** Set the attributes of a node; functions become listeners, and null is skipped. */
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

/** Replace the children of a node. */
function fill(node, ...children) {
  node.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** Parse a text as an integer from 0 to below a limit; return undefined if it is not one. */
function whole(text, limit) {
  return /^\d+$/.test(text ?? "") && Number(text) < limit ? Number(text) : undefined;
}

/** Isolate the writing direction of a text, where no element can do so. */
function apart(text) {
  return `\u2068${text}\u2069`;
}

/** Format a number: integers in full, others with some decimals. */
function number(value, digits = 2) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const shown = Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);
  return shown.replace("-", "−");
}

/** Format a value with a fixed number of decimals. */
function decimal(value, digits = 2) {
  return Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : "–";
}

/** Format a share as a percentage. */
function percent(value, digits = 1) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return `${(100 * value).toFixed(digits)}%`;
}

/** Return a count with its noun: "1 test", "3 tests". */
function several(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

/** Return a link to a route of the page. */
function link(route, ...children) {
  return el("a", { href: `#${route}`, class: "inner" }, ...children);
}

/** Return a table with a head; cells are texts or nodes, and columns of numbers are right-aligned. */
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
