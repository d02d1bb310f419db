// Line charts that share a crosshair. Series differ by colour, dash and marker; horizontal references
// carry a letter. The legend is the readout: it shows the numbers of the stage under the crosshair.

const CHART_STYLES = [
  { tone: "tone-1", dash: null, shape: "circle" },
  { tone: "tone-2", dash: "7 3", shape: "square" },
  { tone: "tone-3", dash: "2 3", shape: "triangle" },
  { tone: "tone-4", dash: "9 3 2 3", shape: "diamond" },
  { tone: "tone-5", dash: "4 2", shape: "cross" },
  { tone: "tone-6", dash: "12 4", shape: "circle" },
];
const CHART_MARGIN = { left: 52, right: 26, top: 10, bottom: 40 };
const CHART_HEIGHT = 220;
const CHART_MARKERS = 72; // pixels between markers on a line, at least

/** Return round numbers from at most the lowest to at least the highest value, three to six of them. */
function chartTicks(low, high, whole = false) {
  const span = high - low || Math.abs(high) || 1;
  const size = 10 ** Math.floor(Math.log10(span / 4));
  const steps = [1, 2, 2.5, 5, 10, 20].map((k) => k * size).filter((step) => !whole || Number.isInteger(step));
  const count = (step) => Math.ceil(high / step - 1e-9) - Math.floor(low / step + 1e-9) + 1;
  const step = (steps.length ? steps : [1]).find((one) => count(one) <= 5) ?? Math.max(1, ...steps);
  const first = Math.floor(low / step + 1e-9);
  return Array.from({ length: Math.max(2, count(step)) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Return the ticks of a chart's y axis: from zero, unless all numbers are far from it. */
function chartRange({ unit, series, lines }) {
  const all = [...series.flatMap((one) => one.values), ...(lines ?? []).map((one) => one.value)];
  const known = all.filter(Number.isFinite);
  let [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  if (unit === "percent" && low >= 0 && high > 0.5 && high <= 1) return [0, 0.25, 0.5, 0.75, 1];
  if (unit !== "number" || low < 0.6 * high) low = Math.min(0, low);
  if (high < 0 && low < 1.6 * high) high = 0;
  return chartTicks(low, high === low ? low + 1 : high, unit === "whole");
}

/** Format a number of a chart in its unit. */
function chartText(value, unit) {
  if (!Number.isFinite(value)) return "–";
  if (unit === "percent") return percent(value);
  if (unit === "whole") return number(Math.round(value));
  const size = Math.abs(value);
  if (size >= 100 || size === 0) return number(Math.round(value));
  return number(value, size >= 10 ? 1 : size >= 0.1 ? 2 : Math.min(1 - Math.floor(Math.log10(size)), 6));
}

/** Return the labels of ticks, with as many digits as their step needs. */
function chartTickTexts(ticks, unit) {
  const step = (ticks[1] - ticks[0]) * (unit === "percent" ? 100 : 1);
  const digits = [0, 1, 2, 3, 4, 5].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 6;
  return ticks.map((tick) => (unit === "percent" ? percent(tick, digits) : number(tick, digits)));
}

/** Return a place on the x axis in words: "stage 9", "1,000 interactions". */
function chartPlace(axis, x) {
  return axis.endsWith("s") ? `${number(x)} ${axis}` : `${axis} ${number(x)}`;
}

/** Return the points of a series that are known, in the order of x. */
function chartPoints(series, x) {
  const points = series.values.map((y, i) => ({ x: (series.x ?? x)[i], y }));
  return points.filter((one) => Number.isFinite(one.x) && Number.isFinite(one.y));
}

/** Return the last known point of a series at some x or before it, or null. */
function chartPointAt(points, x) {
  return points.findLast((one) => one.x <= x) ?? null;
}

/** Return a marker at a point. */
function chartMarker({ shape, tone }, x, y, r = 3.4) {
  const paths = {
    square: `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    triangle: `M${x},${y - r * 1.2}l${r * 1.2},${r * 2.1}h${-2.4 * r}z`,
    diamond: `M${x},${y - r * 1.3}l${r * 1.3},${r * 1.3}l${-r * 1.3},${r * 1.3}l${-r * 1.3},${-r * 1.3}z`,
    cross: `M${x - r},${y - r}l${2 * r},${2 * r}M${x - r},${y + r}l${2 * r},${-2 * r}`,
  };
  if (shape === "circle") return svg("circle", { class: `chart-marker ${tone}`, cx: x, cy: y, r });
  return svg("path", { class: `chart-marker ${shape} ${tone}`, d: paths[shape] });
}

/** Return the sample of a line for the legend. */
function chartSwatch(style) {
  return svg("svg", { class: "chart-swatch", viewBox: "0 0 30 12", "aria-hidden": "true" },
    svg("line", { class: `chart-line ${style.tone}`, x1: 0, y1: 6, x2: 30, y2: 6, "stroke-dasharray": style.dash }),
    chartMarker(style, 15, 6));
}

/** Return a summary of a chart for screen readers. */
function chartSummary({ title, unit, series, lines, note }, x, axis) {
  const text = (one) => chartText(one, unit);
  const parts = series.map((one) => {
    const points = chartPoints(one, x);
    if (!points.length) return `${one.name}: no numbers yet`;
    const [first, last] = [points[0], points.at(-1)];
    if (points.length === 1) return `${one.name}: ${text(first.y)} at ${chartPlace(axis, first.x)}`;
    const [low, high] = [Math.min, Math.max].map((of) => points.find((p) => p.y === of(...points.map((q) => q.y))));
    return `${one.name}: first ${text(first.y)} at ${chartPlace(axis, first.x)}, `
      + `last ${text(last.y)} at ${number(last.x)}, `
      + `lowest ${text(low.y)} at ${number(low.x)}, highest ${text(high.y)} at ${number(high.x)}`;
  });
  const references = (lines ?? []).map((one) => `${one.name}: ${text(one.value)}`);
  return `${[`Line chart, ${title}`, ...parts, ...references].join(". ")}.${note ? ` ${note}` : ""}`;
}

/** Return heights of texts with a minimum distance that stay above the foot. */
function chartSpread(heights, gap, foot) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const out = heights.slice();
  order.forEach((i, k) => (out[i] = k ? Math.max(out[i], out[order[k - 1]] + gap) : out[i]));
  let limit = foot;
  for (const i of order.reverse()) limit = (out[i] = Math.min(out[i], limit)) - gap;
  return out;
}

/** A chart of some series over an x axis; `at` moves or removes the crosshair. */
class LineChart {
  constructor(spec, { x, axis, domain, onPoint }) {
    Object.assign(this, { spec, x, axis, domain, onPoint, cross: null, width: 0 });
    this.points = spec.series.map((one) => chartPoints(one, x));
    this.styles = spec.series.map((_, i) => CHART_STYLES[i % CHART_STYLES.length]);
    this.ticks = chartRange(spec);
    this.lines = (spec.lines ?? []).filter((one) => Number.isFinite(one.value));
    this.readouts = spec.series.map(() => el("span", { class: "chart-value" }));
    const label = chartSummary(spec, x, axis);
    this.plot = svg("svg", { class: "chart-plot", role: "img", "aria-label": label, height: CHART_HEIGHT });
    this.node = el("figure", { class: "chart panel" }, el("figcaption", null, spec.title), this.#legend(),
      this.plot, spec.note ? el("p", { class: "quiet" }, spec.note) : null);
    for (const kind of ["pointermove", "pointerdown"]) this.plot.addEventListener(kind, (event) => this.#point(event));
    this.plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && onPoint(null));
    this.at(null);
  }

  /** Draw for a width in pixels. */
  draw(width) {
    if (width < 60 || width === this.width) return;
    this.width = width;
    this.plot.setAttribute("viewBox", `0 0 ${width} ${CHART_HEIGHT}`);
    const lines = this.points.flatMap((points, i) => this.#line(points, this.styles[i]));
    fill(this.plot, this.#axes(), this.#references(), lines);
    this.crosshair = svg("g", { class: "chart-cross" });
    this.plot.append(this.crosshair);
    this.at(this.cross);
  }

  /** Show the numbers at x, or without x the last ones. */
  at(x) {
    this.cross = x;
    const found = this.points.map((points) => chartPointAt(points, x ?? Infinity));
    found.forEach((one, i) => {
      const late = one && x !== null && one.x !== x ? ` (${chartPlace(this.axis, one.x)})` : "";
      this.readouts[i].textContent = one ? `${chartText(one.y, this.spec.unit)}${late}` : "–";
    });
    if (!this.crosshair) return;
    const [at, foot, text] = [this.#across(x ?? 0), CHART_HEIGHT - CHART_MARGIN.bottom, number(x)];
    const half = 6 + 4 * text.length;
    fill(this.crosshair, x === null ? [] : [
      svg("line", { x1: at, x2: at, y1: CHART_MARGIN.top, y2: foot }),
      svg("rect", { x: at - half, y: foot + 3, width: 2 * half, height: 18, rx: 4 }),
      svg("text", { x: at, y: foot + 16, "text-anchor": "middle" }, text),
      ...found.flatMap((one, i) => (one ? [chartMarker(this.styles[i], this.#across(one.x), this.#up(one.y), 5)] : [])),
    ]);
  }

  /** The numbers at the crosshair in words. */
  words() {
    return this.spec.series.map((one, i) => `${one.name} ${this.readouts[i].textContent}`).join(", ");
  }

  #legend() {
    const series = this.spec.series.map((one, i) =>
      el("li", null, chartSwatch(this.styles[i]), el("span", null, one.name), this.readouts[i]));
    const lines = this.lines.map((one, i) => el("li", { class: "reference" },
      el("span", { class: "chart-letter", "aria-hidden": "true" }, chartLetter(i)), el("span", null, one.name),
      el("span", { class: "chart-value" }, chartText(one.value, this.spec.unit))));
    return el("ul", { class: "chart-legend" }, series, lines);
  }

  #across(x) {
    const [low, high] = this.domain;
    const room = this.width - CHART_MARGIN.left - CHART_MARGIN.right;
    return CHART_MARGIN.left + (high > low ? ((x - low) / (high - low)) * room : room / 2);
  }

  #up(y) {
    const [low, high] = [this.ticks[0], this.ticks.at(-1)];
    const room = CHART_HEIGHT - CHART_MARGIN.top - CHART_MARGIN.bottom;
    return CHART_MARGIN.top + ((high - y) / (high - low)) * room;
  }

  #point(event) {
    const box = this.plot.getBoundingClientRect();
    const room = this.width - CHART_MARGIN.left - CHART_MARGIN.right;
    const share = (event.clientX - box.left - CHART_MARGIN.left) / room;
    this.onPoint(this.domain[0] + share * (this.domain[1] - this.domain[0]));
  }

  #axes() {
    const [left, right] = [CHART_MARGIN.left, this.width - CHART_MARGIN.right];
    const foot = CHART_HEIGHT - CHART_MARGIN.bottom;
    const texts = chartTickTexts(this.ticks, this.spec.unit);
    const [low, high] = this.domain;
    const across = chartTicks(low, high, true).filter((x) => x >= low && x <= high);
    const few = this.width < 420 && across.length > 4 ? across.filter((_, i) => i % 2 === 0) : across;
    return [
      ...this.ticks.flatMap((y, i) => [
        svg("line", { class: i ? "chart-rule" : "chart-axis", x1: left, x2: right, y1: this.#up(y), y2: this.#up(y) }),
        svg("text", { class: "chart-tick", x: left - 6, y: this.#up(y) + 4, "text-anchor": "end" }, texts[i]),
      ]),
      ...(high > low ? few : [low]).map((x) =>
        svg("text", { class: "chart-tick", x: this.#across(x), y: foot + 16, "text-anchor": "middle" }, number(x))),
      svg("text", { class: "chart-tick", x: (left + right) / 2, y: foot + 33, "text-anchor": "middle" }, this.axis),
    ];
  }

  #references() {
    const at = this.lines.map((one) => this.#up(one.value));
    const heights = chartSpread(at, 13, CHART_HEIGHT - CHART_MARGIN.bottom + 2);
    const [left, right] = [CHART_MARGIN.left, this.width - CHART_MARGIN.right];
    return at.flatMap((y, i) => [
      svg("line", { class: "chart-reference", x1: left, x2: right, y1: y, y2: y }),
      svg("text", { class: "chart-tick", x: right + 6, y: heights[i] + 4 }, chartLetter(i)),
    ]);
  }

  #line(points, style) {
    const at = points.map((p) => [this.#across(p.x), this.#up(p.y)]);
    const { tone, dash } = style;
    const line = svg("polyline", { class: `chart-line ${tone}`, points: at.join(" "), "stroke-dasharray": dash });
    let last = Infinity;
    const marked = at.toReversed().filter(([x]) => last - x >= CHART_MARKERS && ((last = x), true));
    const markers = marked.map(([x, y]) => chartMarker(style, x, y, at.length > 1 ? 2.8 : 5));
    return at.length > 1 ? [line, ...markers] : markers;
  }
}

/** Return the letter of a reference. */
function chartLetter(i) {
  return String.fromCharCode(97 + i);
}
