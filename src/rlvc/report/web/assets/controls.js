// What stands around the graph of a classifier: buttons, and what its lines and colours mean.

const LEGEND_ACTIONS = 8;
const LEGEND_NOTES = {
  tree: "Lines are wide where many interactions pass; the bar in a class is its size.",
  diagram: "Several paths may lead to one class. Tests say how many examples of this page see them; "
    + "the bar in a class is its size.",
  forest: "One tree at a time; the forest acts by their vote. Lines are wide where many interactions pass.",
};

/** Return a button with a short face and a full name. */
function toolButton(face, name, act) {
  return el("button", { type: "button", "aria-label": name, title: name, onclick: act }, face);
}

/** Return the buttons that lie on a graph. */
function graphLens(graph) {
  return el("div", { class: "joined lens", role: "group", "aria-label": "Zoom" },
    toolButton("−", "Zoom out", () => graph.zoom(1 / 1.35)), toolButton("+", "Zoom in", () => graph.zoom(1.35)),
    toolButton("Fit", "Fit: show all of it", () => graph.fit()));
}

/** Say what lines and colours mean: of the actions, those that some class takes; many are folded away. */
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
