// The view of the learning curves: charts over stages with a common crosshair, and a table of the numbers.

/** Return the view of the stages, and of the rounds of exploration if there were several. */
function makeLearningView(model, state) {
  const learning = model.data.learning ?? { charts: [] };
  const groups = [{ ...learning, name: "stages" }, { ...(learning.rounds ?? { charts: [] }), name: "rounds" }]
    .filter((group) => group.charts?.some((chart) => chart.series.some((one) => one.values.some(Number.isFinite))))
    .map((group) => makeChartGroup(group, (state[group.name] ??= { at: null, open: false })));
  const node = el("div", { class: "learning-view" },
    learning.note ? el("p", { class: "quiet" }, learning.note) : null,
    groups.length ? groups.map((group) => group.node)
      : el("p", { class: "empty" }, "Nothing to show yet: charts appear after the first stage."));
  return { node, show: () => groups.forEach((group) => group.show()) };
}

/** Return the stops of the crosshair: every x at which some series has a number. */
function chartStops({ x, charts }) {
  const all = charts.flatMap((chart) => chart.series.flatMap((one) => chartPoints(one, x).map((point) => point.x)));
  return [...new Set(all)].sort((a, b) => a - b);
}

/** Return charts over one x axis that share their crosshair, and a table of their numbers. */
function makeChartGroup(group, state) {
  const stops = chartStops(group);
  const word = group.axis.replace(/ k$/, "");
  const where = el("span", { class: "chart-where" });
  const live = el("p", { class: "unseen", "aria-live": "polite" });
  const onPoint = (x) => move(x === null ? null : chartNearest(stops, x));
  const frame = { x: group.x, axis: word, domain: [stops[0], stops.at(-1)], onPoint };
  const charts = group.charts.map((spec) => new LineChart(spec, frame));
  const name = group.name === "rounds" ? "Rounds of exploration" : "Stage by stage";
  const grid = el("div", { class: "chart-grid" }, charts.map((chart) => chart.node));
  const box = el("section", {
    id: `charts-${group.name}`, class: "chart-group", tabindex: 0, role: "group", onkeydown: onKey,
    "aria-label": `${name}: ${several(charts.length, "chart")} over ${group.axis}. Left and right move the crosshair.`,
  }, el("div", { class: "chart-head" }, where, el("span", { class: "quiet" }, "Point at a chart, or use ← and →.")),
  live, grid);

  /** Move the crosshair of all charts to a stop, or remove it. */
  function move(x) {
    state.at = x;
    const last = stops.at(-1);
    const text = x === null ? `, up to ${chartPlace(word, last)}` : `: ${chartPlace(word, x)} of ${number(last)}`;
    where.textContent = `${name}${text}`;
    charts.forEach((chart) => chart.at(x));
  }

  /** Move the crosshair by a key, and announce the numbers. */
  function onKey(event) {
    const here = state.at === null ? stops.length : stops.indexOf(state.at);
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    const to = here + steps[event.key];
    if (event.key === "Escape") move(null);
    if (Number.isNaN(to) || event.target !== box) return;
    event.preventDefault();
    move(stops[Math.min(Math.max(to, 0), stops.length - 1)]);
    live.textContent = `${chartPlace(word, state.at)}: ${charts.map((chart) => chart.words()).join("; ")}`;
  }

  /** Draw every chart at the width of its box. */
  function draw() {
    charts.forEach((chart) => chart.draw(Math.floor(chart.plot.getBoundingClientRect().width)));
  }

  new ResizeObserver(draw).observe(grid);
  move(stops.includes(state.at) ? state.at : null);
  return { node: el("div", null, box, chartNumbers(group, stops, word, state)), show: draw };
}

/** Return the number of a list that is nearest to another. */
function chartNearest(stops, x) {
  return stops.reduce((best, one) => (Math.abs(one - x) < Math.abs(best - x) ? one : best), stops[0]);
}

/** Return the numbers of charts as a table that is built when it is opened. */
function chartNumbers({ x, charts }, stops, word, state) {
  const columns = charts.flatMap(({ title, unit, series }) => series.map((one) => ({
    head: series.length > 1 ? `${title}: ${one.name}` : title, unit,
    points: new Map(chartPoints(one, x).map((point) => [point.x, point.y])),
  })));
  const lines = charts.flatMap(({ title, unit, lines: all }) =>
    (all ?? []).map((one) => [`${title}: ${one.name}`, chartText(one.value, unit)]));
  const summary = el("summary", null, "The numbers as a table");
  const box = el("details", { class: "chart-numbers", open: state.open, ontoggle: () => make() }, summary);

  /** Fill the box once it is open. */
  function make() {
    state.open = box.open;
    if (!box.open || box.childElementCount > 1) return;
    const cells = (stop) => columns.map((one) => chartText(one.points.get(stop) ?? NaN, one.unit));
    const rows = stops.map((stop) => [number(stop), ...cells(stop)]);
    const numeric = columns.map((_, i) => i + 1);
    box.append(table([word, ...columns.map((one) => one.head)], rows, { numeric, caption: `Numbers by ${word}` }));
    if (lines.length) box.append(table(["reference", "value"], lines, { numeric: [1], caption: "References" }));
  }
  return box;
}
