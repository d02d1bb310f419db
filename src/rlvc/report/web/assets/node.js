// The details of one node of a classifier, a test or a visual class.

/** Return images of some examples, linked to their explanations; of all cameras, or of one. */
function exampleGallery(model, examples, { most = 12, camera = null, feature = null } = {}) {
  const marks = feature === null ? [] : [{ feature }];
  const cameras = camera === null ? model.cameras.map((_, i) => i) : [camera];
  const shown = (i) => cameras.map((one) => picture(model, model.percept(i), one, { marks }));
  return el("ul", { class: "gallery" }, evenly(examples, most).map((i) => el("li", null,
    el("a", { href: `#at/example/${i}`, title: model.label(i) }, shown(i)))));
}

/** Return some examples under a title. The first search for them is slow, so it runs later. */
function withExamples(fact, choose, { title, none, most = 12, ...options }) {
  const box = el("div", null, el("h4", null, title), el("p", { class: "quiet" }, "Searching …"));
  const put = () => {
    const found = choose();
    fill(box, el("h4", null, `${title} `, el("span", { class: "quiet" }, ofMost(found.length, most))),
      found.length ? exampleGallery(fact.model, found, { most, ...options })
        : el("p", { class: "quiet" }, noneOf(fact.model, none)));
  };
  if (fact.passed) put();
  else setTimeout(() => box.isConnected && put(), 30);
  return box;
}

/** Return the details of a test: how many reach it, the outcomes, and examples. */
function testDetails(fact, node, { isOpen, fold }) {
  const { model, tree } = fact;
  const feature = tree.feature[node];
  const { name, camera, note } = model.features[feature];
  const { come, see, unit } = fact.flow(node);
  const share = tree.reach ? ` (${percent(come / Math.max(1, tree.total))})` : "";
  const sides = [true, false].map((seen) => ({ seen, child: seen ? tree.present[node] : tree.absent[node] }));
  return [
    el("header", null, el("h3", null, `Test ${node}`),
      el("button", { type: "button", name: "fold", onclick: fold },
        isOpen ? "Fold" : `Unfold ${several(fact.below(node), "class", "classes")}`)),
    link(`feature/${feature}`, patch(model, feature, { size: 96 }), el("span", { class: "words" }, name)),
    note ? el("p", { class: "quiet" }, note) : null,
    el("p", null,
      `${several(come, unit)} reach${come === 1 ? "es" : ""} this test${share}; the feature is seen in ${number(see)}`,
      come ? ` (${percent(see / come)}).` : "."),
    el("h4", null, "Outcomes"),
    el("ul", { class: "sides" }, sides.map(({ seen, child }) => {
      const { total, actions, mean } = fact.outcome(node, seen);
      const first = actions.slice(0, 2).map(([action, n]) => [
        el("bdi", null, model.actions[action]), ` ${percent(n / total, 0)}, `]);
      const more = tree.classOf(child) < 0 ? `, ${several(fact.below(child), "class", "classes")}` : "";
      return el("li", { class: seen ? "seen" : "missed" },
        el("span", { class: "verdict" }, seen ? "● seen" : "○ not seen"),
        el("span", null, nodeLink(fact, child), more),
        el("span", { class: "quiet" }, `${several(total, unit)}: `, first.flat(), `mean value ${number(mean)}`));
    })),
    sides.map(({ seen }) => withExamples(fact, () => fact.sided(node, seen), {
      title: `Examples ${seen ? "with" : "without"} the feature`,
      none: `reaches this test ${seen ? "with" : "without"} the feature`, most: 6, camera, feature,
    })),
    pathDetails(fact, node),
  ];
}

/** Return "6 of 31", or the number alone if all are shown. */
function ofMost(n, most) {
  return n > most ? `${most} of ${number(n)}` : n ? number(n) : "none";
}

/** Return that no example does something. */
function noneOf(model, does) {
  if (!model.nPercepts) return "This page has no examples.";
  return `None of the ${several(model.nPercepts, "example")} of this page ${does}.`;
}

/** Return a link to a node with its name. */
function nodeLink({ tree, number: which }, node) {
  const at = tree.classOf(node);
  return at < 0 ? link(`node/${which}/${node}`, `test ${node}`) : link(`class/${which}/${at}`, `class ${at}`);
}

/** Return the details of a class: its size, action, values, examples and path. */
function classDetails(fact, node) {
  const { model, tree } = fact;
  const at = tree.classOf(node);
  const notes = tree.count[at].map((n) => (n ? several(n, "try", "tries") : ""));
  return [
    el("header", null, el("h3", null, `Class ${at}`)),
    el("p", null, "Takes ", el("strong", null, model.actions[tree.action[at]]), `, value ${number(tree.value[at])}. `,
      `It holds ${several(tree.size[at], "interaction")}, `,
      `${percent(tree.size[at] / Math.max(1, tree.total))} of ${number(tree.total)}.`),
    values(model, tree.q[at], tree.tried[at], tree.action[at], notes),
    withExamples(fact, () => fact.passing[node], { title: "Examples", none: "is in this class" }),
    pathDetails(fact, node),
  ];
}

/** Return the tests on the path to a node. */
function pathDetails(fact, node) {
  const { model, tree } = fact;
  const path = fact.path(node);
  if (path.length < 2) return el("p", { class: "quiet" }, "The root: every percept is tested here first.");
  const steps = path.slice(0, -1).map((one, i) => (
    { node: one, feature: tree.feature[one], exhibited: tree.present[one] === path[i + 1], rank: i + 1 }));
  const item = ({ node: one, feature, exhibited, rank }) => {
    const name = el("span", { class: "words" }, model.features[feature].name);
    return el("li", { class: exhibited ? "seen" : "missed", value: rank },
      link(`feature/${feature}`, patch(model, feature, { size: 34 }), name),
      el("span", { class: "verdict" }, exhibited ? "seen" : "not seen", " · ", nodeLink(fact, one)));
  };
  const ways = tree.isTree ? 1 : (fact.ways ??= countPaths(tree))[node];
  return [
    el("h4", null, ways > 1 ? `One of ${number(ways)} paths: ` : "The path: ",
      several(steps.length, "test"), `, ${number(steps.filter((one) => one.exhibited).length)} seen`),
    foldedTests(steps, item),
  ];
}
