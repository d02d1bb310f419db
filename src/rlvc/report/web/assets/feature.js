// The details of one feature: its parts, its occurrences on examples, and the tests for it.

/** Return facts about all features: on how many examples each is seen, the nodes that test it, its wholes. */
function featureFacts(model) {
  const nodes = model.features.map(() => []);
  model.trees.forEach((tree, t) => {
    for (let n = 0; n < tree.nNodes; n++) if (tree.feature[n] !== LEAF) nodes[tree.feature[n]].push([t, n]);
  });
  const wholes = model.features.map(() => []);
  model.features.forEach((one, feature) => new Set(one.parts).forEach((part) => wholes[part].push(feature)));
  const isTested = nodes.map((those) => those.length > 0);
  const seen = countSeen(model, wholes);
  const share = (feature) => (model.nPercepts ? seen[feature] / model.nPercepts : null);
  return { seen, share, nodes, wholes, isTested };
}

/** Return on how many examples each feature is seen; those of several features follow from their parts. */
function countSeen(model, wholes) {
  const seen = new Float64Array(model.features.length);
  const least = model.features.map((one) => (one.kind === "several" ? one.least : Infinity));
  const found = new Uint16Array(model.features.length);
  for (let i = 0; i < model.nPercepts; i++) {
    const here = [];
    model.percept(i).images.forEach((image, camera) => {
      const { begin, feature } = model.seen[camera];
      for (let row = begin[image]; row < begin[image + 1]; row++)
        if (row === begin[image] || feature[row] !== feature[row - 1]) here.push(feature[row]);
    });
    found.fill(0);
    for (const feature of here) {
      seen[feature] += 1;
      for (const whole of wholes[feature]) if (++found[whole] === least[whole]) here.push(whole);
    }
  }
  return seen;
}

/** Return the details of a feature. */
function featureDetails(model, facts, feature) {
  const { name, kind, camera, usage } = model.features[feature];
  const where = model.cameras[camera].name;
  const share = facts.share(feature);
  const passes = testedShare(model, facts, feature);
  const items = [
    ["Kind", FEATURE_KINDS[kind][0]], ["Number", String(feature)], where ? ["Camera", where] : null,
    share === null ? null : ["Seen",
      `on ${number(facts.seen[feature])} of ${several(model.nPercepts, "example percept")} (${percent(share)})`],
    facts.isTested[feature]
      ? ["Tested", `on ${several(usage, "percept")} of the database${model.isForest ? ", summed over the trees" : ""}`]
      : ["Tested", "only as a part of others"],
    passes === null ? null : ["Decides on",
      `${percent(passes)} of the ${featureNoun(model)}s${model.isForest ? ", the mean over the trees" : ""}`],
  ].filter(Boolean);
  const wholes = featureWholes(model, facts, feature);
  const close = el("a", { class: "feature-close", href: "#features", "aria-label": "Close the details" }, "×");
  return [
    el("div", { class: kind === "several" ? "feature-head wide" : "feature-head" }, patch(model, feature, { size: 96 }),
      el("h3", { tabindex: -1 }, name), close),
    el("dl", { class: "feature-items" }, items.map(([term, text]) =>
      el("div", null, el("dt", null, term), el("dd", null, text)))),
    featureParts(model, facts, feature), facts.isTested[feature] ? [] : wholes, featureExamples(model, feature),
    featureDecisions(model, facts, feature), facts.isTested[feature] ? wholes : [],
  ].flat();
}

/** Return a part of a feature: its patch and its name, linked to its details. */
function featurePart(model, part, note = null, size = 56) {
  const title = featureTitle(model.features[part]);
  return link(`feature/${part}`, patch(model, part, { size }), el("span", { class: "feature-name", title }, title),
    note ? el("span", { class: "quiet" }, note) : null);
}

/** Return a diagram of the parts of a feature. */
function featureParts(model, facts, feature) {
  const { kind, parts, least, distance, turn, ratio, cell } = model.features[feature];
  if (kind === "symbol") return [];
  const head = el("h4", null, "Parts");
  if (kind === "composite") {
    const [low, high] = (distance ?? []).map((one) => one.toFixed(0));
    const notes = [turn === undefined ? null : `turned by about ${number(turn, 0)}°`,
      ratio === undefined ? null : `the second about ${number(ratio, 1)} times as large`].filter(Boolean);
    return [head, el("div", { class: "feature-scheme" }, featurePart(model, parts[0]),
      el("span", { class: "feature-span" }, el("span", null, `${low} to ${high} pixels`),
        el("span", { class: "feature-rule", "aria-hidden": "true" }),
        notes.map((text) => el("span", { class: "quiet" }, text))), featurePart(model, parts[1]))];
  }
  if (kind === "located") {
    const [n, column, line] = cell;
    return [head, el("div", { class: "feature-scheme" }, featurePart(model, parts[0]),
      el("figure", { class: "feature-cell" }, frameCell(model.cameras[model.features[feature].camera], n, column, line),
        el("figcaption", { class: "quiet" }, `only in column ${column + 1}, row ${line + 1} of ${n} × ${n}`)))];
  }
  const note = (part) => (facts.share(part) === null ? null : `seen on ${featureShare(facts.share(part))}`);
  const need = least < parts.length ? `at least ${least} of these ${parts.length}` : `all ${least} of these`;
  return [head, el("p", null, "Needs ", el("strong", null, need), ", which occur together:"),
    el("ul", { class: "feature-parts" },
      parts.map((part) => el("li", null, featurePart(model, part, note(part), 40))))];
}

/** Return a grid over an image, with one cell filled. */
function frameCell({ width, height }, n, column, line) {
  const [w, h] = [width / n, height / n];
  const cuts = Array.from({ length: n - 1 }, (_, i) => i + 1);
  return svg("svg", { class: "feature-frame", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    svg("rect", { class: "cell", x: column * w, y: line * h, width: w, height: h }),
    cuts.map((i) => svg("line", { x1: i * w, x2: i * w, y1: 0, y2: height })),
    cuts.map((i) => svg("line", { x1: 0, x2: width, y1: i * h, y2: i * h })),
    svg("rect", { class: "border", x: 0, y: 0, width, height }));
}

/** Return the features that a feature is a part of. */
function featureWholes(model, facts, feature) {
  const { features } = model;
  const wholes = facts.wholes[feature].slice().sort((a, b) => features[b].usage - features[a].usage || a - b);
  if (!wholes.length) return [];
  const rest = wholes.length - FEATURE_WHOLES;
  const first = wholes.slice(0, FEATURE_WHOLES);
  return [el("h4", null, `A part of ${several(wholes.length, "feature")}`),
    el("ul", { class: "feature-parts wide" }, first.map((one) => el("li", null, featurePart(model, one, null, 40)))),
    rest > 0 ? el("p", { class: "quiet" }, `and ${number(rest)} more`) : null];
}

/** Return what is counted at nodes: interactions in a tree; examples in a diagram, where paths merge. */
function featureNoun(model) {
  return model.trees.every((tree) => tree.isTree) ? "interaction" : "example";
}

/** Return the share of interactions or examples on which a feature is tested; null if it never is. */
function testedShare(model, facts, feature) {
  const all = model.trees.reduce((sum, tree) => sum + (tree.isTree ? tree.total : model.nPercepts), 0);
  if (!facts.isTested[feature] || !all) return null;
  return facts.nodes[feature].reduce((sum, node) => sum + featureWeight(model, node), 0) / all;
}

/** Return how many interactions or examples reach a node. */
function featureWeight(model, [t, n]) {
  return nodeFacts(model, t).weight[n];
}

/** Return the nodes that test a feature, by descending number of interactions. */
function featureDecisions(model, facts, feature) {
  if (!facts.isTested[feature]) return [];
  const nodes = facts.nodes[feature].map((node) => ({ node, size: featureWeight(model, node) }));
  nodes.sort((a, b) => b.size - a.size);
  const rest = nodes.length - FEATURE_NODES;
  const trees = model.isForest ? ` of ${several(new Set(nodes.map((one) => one.node[0])).size, "tree")}` : "";
  return [el("h4", null, "Tests for it"),
    el("p", { class: "quiet" }, `Tested at ${several(nodes.length, "node")}${trees}.`),
    el("ul", { class: "feature-nodes" }, nodes.slice(0, FEATURE_NODES).map((one) => featureDecision(model, one))),
    rest > 0 ? el("p", { class: "quiet" }, `and ${number(rest)} more, with fewer ${featureNoun(model)}s`) : null];
}

/** Return the two sides of the test at one node. */
function featureDecision(model, { node: [t, n], size }) {
  const noun = featureNoun(model);
  const sides = [true, false].map((seen) => nodeFacts(model, t).outcome(n, seen));
  const rows = sides.map(({ total, actions: [most], mean }, i) => el("tr", { class: i ? "missed" : "seen" },
    el("th", { scope: "row" }, i ? "not seen" : "seen"), el("td", { class: "right" }, number(total)),
    el("td", null, most ? [el("strong", null, model.actions[most[0]]), ` ${percent(most[1] / total, 0)}`] : "–"),
    el("td", { class: "right" }, number(mean))));
  const name = `test ${n}${model.isForest ? ` of tree ${t + 1}` : ""}`;
  const come = `${several(size, noun)} ${size === 1 ? "reaches" : "reach"} it`;
  return el("li", null, el("p", null, link(`node/${t}/${n}`, name), `: ${come}`),
    size ? el("span", { class: "feature-balance", "aria-hidden": "true" },
      el("span", { style: `width:${(100 * sides[0].total) / size}%` })) : null,
    el("table", { "aria-label": `Either side of ${name}` },
      el("thead", null, el("tr", null, el("td"), [`${noun}s`, "mostly", "mean value"].map((text, i) =>
        el("th", { scope: "col", class: i === 1 ? null : "right" }, text)))), el("tbody", null, rows)));
}

/** Return examples with a feature, marked, and some without it. */
function featureExamples(model, feature) {
  const { camera } = model.features[feature];
  const [shown, missed, known] = [[], [], new Set()];
  for (let i = 0; i < model.nPercepts; i++) {
    const percept = model.percept(i);
    if (known.has(percept.images[camera])) continue;
    known.add(percept.images[camera]);
    (model.exhibits(percept, feature) ? shown : missed).push(percept);
  }
  if (!model.nPercepts)
    return [el("p", { class: "quiet feature-none" }, "This run has no example percepts.")];
  const item = (percept) => el("li", null, link(`at/example/${percept.number}`,
    picture(model, percept, camera, { marks: [{ feature }], label: model.label(percept.number) })));
  const isWide = model.cameras[camera].width > 1.6 * model.cameras[camera].height;
  const box = { class: isWide ? "feature-examples wide" : "feature-examples" };
  const strip = (title, found, most, none) => [el("h4", null, title),
    found.length ? el("ul", box, evenly(found, most).map(item)) : el("p", { class: "quiet" }, none)];
  return [...strip("Where it is seen", shown, FEATURE_EXAMPLES, "On none of the examples."),
    ...strip("Where it is not seen", missed, FEATURE_EXAMPLES / 2, "It is seen on all examples.")];
}
