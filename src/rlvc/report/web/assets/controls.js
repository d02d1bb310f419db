// The controls and the legend of the graph of a classifier.

const LEGEND_ACTIONS = 8;
const LEGEND_NOTES = {
  tree: "The width of a line shows how many interactions pass; the bar in a class shows its size.",
  diagram: "Several paths may lead to one class. Tests show in how many examples of this page the feature is seen; "
    + "the bar in a class shows its size.",
  forest: "One tree at a time; the forest acts by their vote. The width of a line shows how many interactions pass.",
};

/** Return a button with a short label and a full name. */
function toolButton(face, name, act) {
  return el("button", { type: "button", "aria-label": name, title: name, onclick: act }, face);
}

/** Return the zoom buttons of a graph. */
function graphLens(graph) {
  return el("div", { class: "joined lens", role: "group", "aria-label": "Zoom" },
    toolButton("−", "Zoom out", () => graph.zoom(1 / 1.35)), toolButton("+", "Zoom in", () => graph.zoom(1.35)),
    toolButton("Fit", "Fit: show the whole graph", () => graph.fit()));
}

/** Return the legend: lines, and the colours of the actions that some class takes; many are folded. */
function graphLegend(model) {
  const stroke = (seen) => svg("svg", { width: 34, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 0, y1: 5, x2: 34, y2: 5, class: seen ? "edge seen" : "edge missed" }));
  const taken = new Set(model.trees.flatMap((tree) => tree.action));
  const names = model.actions.flatMap((name, a) => (taken.has(a) ? [el("li", null,
    el("span", { class: "dot", style: `background:var(--${actionColour(a)})` }),
    el("span", { class: "action", title: name }, name))] : []));
  const isLong = names.length > LEGEND_ACTIONS;
  const folded = el("li", { class: "more" }, el("details", null,
    el("summary", null, several(names.length, "action")), el("ul", null, names)));
  return el("ul", { class: "legend quiet" },
    el("li", null, stroke(true), "seen"), el("li", null, stroke(false), "not seen"), isLong ? folded : names,
    el("li", { class: "wide" }, LEGEND_NOTES[model.policy.kind]));
}
