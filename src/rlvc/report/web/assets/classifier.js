// The classifier as a graph that can be searched, folded and walked, and what there is to say of each node.

const SHOWN_AT_FIRST = [36, 56];
const MORE = 12;

/** Return the view of the classifiers of a policy. */
function makeClassifierView(model, state) {
  const view = new ClassifierView(model, state);
  return { node: view.node, show: (args) => view.show(args) };
}

/** The toolbar, the graph and the details, and what is selected in them. */
class ClassifierView {
  constructor(model, state) {
    Object.assign(this, { model, state, facts: [], matches: [], current: -1, peek: new Set() });
    state.leaving?.abort();
    state.leaving = new AbortController();
    state.query ??= "";
    this.details = el("aside", { class: "panel node-details", "aria-label": "Details of the selected node" });
    this.body = el("div");
    this.node = el("div", { class: "classifier-view" }, this.body);
  }

  /** Open the view: with nothing named, as it was left. */
  show(args = []) {
    this.graph ?? this.#build();
    const [kind, tree, number] = /^\d+$/.test(args[0] ?? "") ? [location.hash.slice(1).split("/")[0], ...args] : args;
    const wanted = Math.min(Math.max(0, Number(tree) || 0), this.model.trees.length - 1);
    if (tree !== undefined && wanted !== this.state.tree) this.#useTree(wanted);
    const at = number === undefined ? NaN : Number(number);
    const node = kind === "class" ? this.tree.leaf[at] : kind === "node" && at < this.tree.nNodes ? at : undefined;
    if (node !== undefined) this.#goTo(node);
  }

  /** Make the elements, once. */
  #build() {
    const view = { x: 0, y: 0, k: 1 };
    this.graph = new Graph(this.model, view, {
      signal: this.state.leaving.signal, onSelect: (node) => this.#choose(node), onFold: (node) => this.#fold(node),
    });
    this.graph.node.addEventListener("keydown", (event) => this.#press(event));
    this.graph.onFirst = () => this.#place();
    this.graph.notes = (node) => this.#fact().note(node);
    this.graph.hidden = (node) => `${several(this.#fact().below(node), "class", "classes")} inside`;
    const frame = el("div", { class: "graph-frame" }, this.graph.node, this.#lens());
    fill(this.body, this.#toolbar(), this.#legend(), el("div", { class: "beside" }, frame, this.details));
    this.#useTree(Math.min(this.state.tree ?? 0, this.model.trees.length - 1));
  }

  /** What is remembered of the current tree, also when it has grown meanwhile. */
  get #memory() {
    const key = `${this.model.policy.name}/${this.state.tree}`;
    this.state.trees ??= {};
    return (this.state.trees[key] ??= { mode: "auto", open: new Set(), selected: 0, view: null });
  }

  /** What can be said about the nodes of the current tree, or of another. */
  #fact(tree = this.state.tree) {
    return (this.facts[tree] ??= new Facts(this.model, tree));
  }

  #toolbar() {
    this.field = el("input", {
      type: "search", value: this.state.query, placeholder: "class 17, symbol 12, an action …",
      "aria-label": "Search the classifier",
      oninput: () => {
        clearTimeout(this.timer);
        this.isFresh = true;
        this.timer = setTimeout(() => this.#search(this.field.value), 180);
      },
      onkeydown: (event) => {
        if (event.key === "Escape") this.#search((this.field.value = ""));
        if (event.key !== "Enter") return;
        event.preventDefault();
        // The first Enter stays at the first match, however long it took to type.
        if (this.field.value !== this.state.query) this.#search(this.field.value);
        else this.#next(this.isFresh ? 0 : event.shiftKey ? -1 : 1);
        this.isFresh = false;
        if (this.other >= 0) this.#searchIn(this.other);
      },
    });
    this.count = el("span", { class: "quiet search-count", role: "status", "aria-live": "polite" });
    this.choice = el("select", { "aria-label": "Tree", onchange: () => this.#turnTo(Number(this.choice.value)) },
      this.model.trees.map(({ nClasses }, i) => el("option", { value: i }, `tree ${i + 1} · ${several(nClasses, "class", "classes")}`)));
    this.choice.hidden = !this.model.isForest;
    return el("div", { class: "toolbar", role: "group", "aria-label": "Graph" },
      this.choice,
      el("span", { class: "joined search", role: "search" }, this.field,
        toolButton("‹", "Previous match", () => this.#next(-1)), toolButton("›", "Next match", () => this.#next(1))),
      el("span", { class: "joined" },
        toolButton("Main paths", "Main paths: unfold where most pass", () => this.#foldAs("auto")),
        toolButton("Fold all", "Fold all tests", () => this.#foldAs("own", new Set([0]))),
        toolButton("Unfold all", "Unfold all tests", () => this.#foldAs("all"))),
      this.count);
  }

  /** The buttons that lie on the graph. */
  #lens() {
    return el("div", { class: "joined lens", role: "group", "aria-label": "Zoom" },
      toolButton("−", "Zoom out", () => this.graph.zoom(1 / 1.35)), toolButton("+", "Zoom in", () => this.graph.zoom(1.35)),
      toolButton("Fit", "Fit: show all of it", () => this.graph.fit()));
  }

  #legend() {
    const stroke = (seen) => svg("svg", { width: 34, height: 10, "aria-hidden": "true" },
      svg("line", { x1: 0, y1: 5, x2: 34, y2: 5, class: seen ? "edge seen" : "edge missed" }));
    const notes = {
      tree: "Lines are wide where many interactions pass; the bar in a class is its size.",
      diagram: "Several paths may lead to one class. Tests say how many examples of this page see them; "
        + "the bar in a class is its size.",
      forest: "One tree at a time; the forest acts by their vote. Lines are wide where many interactions pass.",
    };
    return el("ul", { class: "legend quiet" },
      el("li", null, stroke(true), "seen"), el("li", null, stroke(false), "not seen"),
      this.model.actions.map((name, a) => el("li", null,
        el("span", { class: "dot", style: `background:var(--${actionColour(a)})` }), name)),
      el("li", { class: "wide" }, notes[this.model.policy.kind]));
  }

  /** Take up a tree, folded as it was left. */
  #useTree(number) {
    this.state.tree = number;
    this.tree = this.model.trees[number];
    this.choice.value = String(number);
    const memory = this.#memory;
    this.graph.view = memory.view ?? { x: 0, y: 0, k: 1 };
    this.#refold();
    memory.selected = Math.min(memory.selected, this.tree.nNodes - 1);
    const isShown = shownNodes(this.tree, memory.open).includes(memory.selected);
    this.peek = new Set(isShown ? [] : this.#fact().path(memory.selected).slice(0, -1));
    this.graph.scene = null;
    this.#arrange();
    this.#place();
    this.#select(memory.selected, { quietly: true });
    this.#search(this.state.query, { move: false });
  }

  /** Turn to another tree by hand: its own selection goes to the address. */
  #turnTo(number) {
    this.#useTree(number);
    this.#remember();
  }

  /** Find out which tests are unfolded: the main ones, all, or those that somebody chose. */
  #refold() {
    const memory = this.#memory;
    const tests = this.#fact().tests;
    const isSmall = this.tree.nNodes <= SHOWN_AT_FIRST[1];
    if (memory.mode === "all" || (memory.mode === "auto" && isSmall)) memory.open = new Set(tests);
    else if (memory.mode === "own") memory.open = new Set(tests.filter((node) => memory.open.has(node)));
    else {
      // First where most pass, then whole rows from the top: so some classes are in sight.
      memory.open = unfoldHeaviest(this.tree, this.#fact().weight, new Set(), 0, SHOWN_AT_FIRST[0]);
      unfoldHeaviest(this.tree, this.#fact().earliness, memory.open, 0, SHOWN_AT_FIRST[1]);
    }
  }

  /** Lay out what is unfolded, and tell it to those who listen. */
  #arrange(anchor = null) {
    const memory = this.#memory;
    this.graph.open = this.peek.size ? new Set([...memory.open, ...this.peek]) : memory.open;
    this.graph.show(arrange(this.tree, this.graph.open), anchor);
    this.#markCovers();
    const fact = this.#fact();
    fill(this.graph.items, this.graph.scene.boxes.map(({ node, level }) => el("div", {
      role: "treeitem", id: `graph-item-${node}`, "aria-level": level, "aria-label": fact.sentence(node),
      "aria-selected": String(node === memory.selected),
      "aria-expanded": this.tree.feature[node] === LEAF ? null : String(this.graph.open.has(node)),
    })));
    this.graph.node.setAttribute("aria-activedescendant", `graph-item-${memory.selected}`);
  }

  /** Set the view where it was, or at the root. */
  #place() {
    const memory = this.#memory;
    if (!this.graph.width || !this.graph.scene) return;
    if (memory.view) return void this.graph.redraw();
    memory.view = this.graph.view;
    this.graph.start();
    if (this.waiting !== undefined) this.graph.reveal(this.waiting, { centre: true });
    this.waiting = undefined;
  }

  /** Fold all tests in a named way, and look at the root again. */
  #foldAs(mode, open = new Set()) {
    Object.assign(this.#memory, { mode, open });
    this.peek = new Set();
    this.#refold();
    this.#arrange();
    const kept = this.graph.scene.at.has(this.#memory.selected) ? this.#memory.selected : 0;
    this.#select(kept);
    this.graph.start();
    this.graph.reveal(kept);
  }

  /** Fold or unfold one test; it stays where it is on the screen. */
  #fold(node) {
    if (this.tree.feature[node] === LEAF) return;
    this.#keepPeek();
    const { open } = this.#memory;
    if (!open.delete(node)) {
      const already = shownNodes(this.tree, open).length;
      open.add(node);
      const added = shownNodes(this.tree, open).length - already;
      if (added < MORE) unfoldHeaviest(this.tree, this.#fact().weight, open, node, MORE);
    }
    this.#arrange(node);
    this.#select(node);
  }

  /** From now on, what a search unfolded stays unfolded. */
  #keepPeek() {
    const memory = this.#memory;
    memory.mode = "own";
    memory.open = new Set([...memory.open, ...this.peek]);
    this.peek = new Set();
  }

  /** Select a node that is shown: its path is marked, the details follow. */
  #select(node, { quietly = false } = {}) {
    const memory = this.#memory;
    document.getElementById(`graph-item-${memory.selected}`)?.setAttribute("aria-selected", "false");
    document.getElementById(`graph-item-${node}`)?.setAttribute("aria-selected", "true");
    this.graph.node.setAttribute("aria-activedescendant", `graph-item-${node}`);
    memory.selected = node;
    this.graph.selected = node;
    const path = this.#fact().path(node);
    this.graph.path = new Set(path.slice(0, -1).map((one, i) => edgeKey(one, this.tree.present[one] === path[i + 1])));
    this.graph.redraw();
    const at = this.tree.classOf(node);
    Object.assign(this.details.dataset, { node, class: at < 0 ? "" : at, tree: this.state.tree });
    if (!quietly) this.#remember();
    const say = at < 0 ? testDetails : classDetails;
    fill(this.details, say(this.#fact(), node, { isOpen: this.graph.open.has(node), fold: () => this.#fold(node) }).flat(3));
    this.details.scrollTop = 0;
  }

  /** Put what is selected into the address, without a step in the history. */
  #remember() {
    const { selected } = this.#memory;
    const at = this.tree.classOf(selected);
    const route = at < 0 ? `node/${this.state.tree}/${selected}` : `class/${this.state.tree}/${at}`;
    history.replaceState(history.state, "", `#${route}`);
  }

  /** Select what was clicked. */
  #choose(node) {
    if (this.peek.size) this.#keepPeek();
    this.#select(node);
  }

  /** Select any node; what hides it is unfolded, and it comes to the middle. */
  #goTo(node) {
    const hiding = this.#fact().path(node).slice(0, -1).filter((one) => !this.graph.open.has(one));
    if (hiding.length && !this.graph.scene.at.has(node)) {
      this.#keepPeek();
      for (const one of hiding) this.#memory.open.add(one);
      this.#arrange();
    }
    this.#select(node);
    if (this.graph.width) this.graph.reveal(node, { centre: true });
    else this.waiting = node;
  }

  /** Walk through the graph by keys. */
  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { graph, tree } = this;
    const { selected } = this.#memory;
    const isOpen = graph.open.has(selected);
    const order = graph.scene.boxes;
    const after = order[graph.scene.at.get(selected) + 1]?.node;
    const back = () => [this.before, this.#fact().path(selected).at(-2), ...tree.parents[selected]]
      .find((one) => graph.scene.at.has(one) && tree.parents[selected].includes(one));
    const step = {
      ArrowRight: () => (isOpen ? tree.present[selected] : (this.#fold(selected), undefined)),
      ArrowDown: () => (isOpen ? tree.absent[selected] : after),
      ArrowLeft: back, ArrowUp: back, Home: () => 0, End: () => order.at(-1).node,
      Enter: () => void this.#fold(selected), " ": () => void this.#fold(selected),
      "+": () => void graph.zoom(1.35), "=": () => void graph.zoom(1.35), "-": () => void graph.zoom(1 / 1.35),
      0: () => void graph.fit(), f: () => void graph.fit(),
    }[event.key];
    if (!step) return;
    event.preventDefault();
    const node = step();
    if (node === undefined || !graph.scene.at.has(node)) return;
    this.before = selected;
    this.#choose(node);
    graph.reveal(node);
  }

  /** Find nodes by words; the first becomes the current one. */
  #search(text, { move = true } = {}) {
    clearTimeout(this.timer);
    this.state.query = text;
    this.matches = this.#fact().find(text);
    this.current = -1;
    this.graph.matches = new Set(this.matches);
    if (move && this.matches.length) this.#next(1);
    else {
      if (move && this.peek.size) this.#keepPeek();
      this.#markCovers();
      this.#tellCount();
    }
    this.graph.redraw();
  }

  /** Go to the next or the previous match; paths to others are folded again. */
  #next(step) {
    const n = this.matches.length;
    if (!n) return;
    this.current = this.current < 0 ? (step < 0 ? n - 1 : 0) : (this.current + step + n) % n;
    const node = this.matches[this.current];
    this.peek = new Set(this.#fact().path(node).slice(0, -1));
    this.#arrange();
    this.#select(node);
    this.graph.reveal(node, { centre: true });
    this.#tellCount();
  }

  /** Turn to another tree of a forest that has a match. */
  #searchIn(tree) {
    this.#useTree(tree);
    this.#next(1);
  }

  /** Say how many match; if none does, in which other tree of a forest one would. */
  #tellCount() {
    const n = this.matches.length;
    const { query, tree } = this.state;
    const where = this.current < 0 ? "" : `${number(this.current + 1)} of `;
    const others = n || !query.trim() ? [] : this.model.trees.map((_, i) => (tree + i) % this.model.trees.length).slice(1);
    this.other = others.find((i) => this.#fact(i).find(query).length) ?? -1;
    const none = this.other < 0 ? "no match" : `no match here; Enter turns to tree ${this.other + 1}`;
    this.count.textContent = !query.trim() ? "" : n ? `${where}${several(n, "match", "matches")}` : none;
  }

  /** Mark the folded tests that hide a match. */
  #markCovers() {
    this.graph.covers = new Set();
    const { scene } = this.graph;
    const met = new Set();
    const waiting = this.matches.filter((node) => node < this.tree.nNodes && !scene.at.has(node));
    while (waiting.length)
      for (const parent of this.tree.parents[waiting.pop()]) {
        if (met.has(parent)) continue;
        met.add(parent);
        if (scene.at.has(parent)) this.graph.covers.add(parent);
        else waiting.push(parent);
      }
  }
}

/** Return a button with a short face and a full name. */
function toolButton(face, name, act) {
  return el("button", { type: "button", "aria-label": name, title: name, onclick: act }, face);
}

/** What can be said about the nodes of one tree; found out when asked for, and once. */
class Facts {
  constructor(model, number) {
    Object.assign(this, { model, number, tree: model.trees[number], paths: new Map(), counts: new Map() });
    this.tests = Array.from(this.tree.feature.keys()).filter((node) => this.tree.feature[node] !== LEAF);
  }

  /** The example percepts that come to each node. */
  get passing() {
    this.passed ??= (() => {
      const passed = Array.from({ length: this.tree.nNodes }, () => []);
      for (let i = 0; i < this.model.nPercepts; i++)
        for (const node of this.model.walk(this.model.percept(i), this.number).nodes) passed[node].push(i);
      return passed;
    })();
    return this.passed;
  }

  /** How much each node matters: how many interactions pass, or in a diagram, how many examples. */
  get weight() {
    return this.tree.reach ?? (this.weighed ??= Float64Array.from(this.passing, (list) => list.length));
  }

  /** How early each node is met by one who reads along what is seen first. */
  get earliness() {
    this.order ??= shownNodes(this.tree, new Set(this.tests));
    const early = new Float64Array(this.tree.nNodes);
    this.order.forEach((node, i) => (early[node] = -i));
    return early;
  }

  /** How many classes lie below a node. */
  below(node) {
    if (!this.counts.has(node)) this.counts.set(node, this.tree.classesBelow(node).length);
    return this.counts.get(node);
  }

  /** The nodes on the way to a node: in a diagram, a shortest way, and one that an example took if any did. */
  path(node) {
    if (!this.paths.has(node)) {
      const some = this.tree.isTree ? [] : this.passing[node].slice(0, 200);
      const walks = some.map((i) => this.model.walk(this.model.percept(i), this.number).nodes);
      const ways = walks.map((nodes) => nodes.slice(0, nodes.indexOf(node) + 1));
      this.paths.set(node, ways.sort((a, b) => a.length - b.length)[0] ?? pathTo(this.tree, node));
    }
    return this.paths.get(node);
  }

  /** How many come to a test and how many of them see its feature: interactions, or else examples. */
  flow(node) {
    const { weight, tree } = this;
    return { come: weight[node], see: this.#along(node, true), unit: tree.reach ? "interaction" : "example" };
  }

  /** How many take one side of a test. */
  #along(node, seen) {
    if (this.tree.reach) return this.tree.reach[seen ? this.tree.present[node] : this.tree.absent[node]];
    return this.sided(node, seen).length;
  }

  /** The examples that come to a test and take one of its sides. */
  sided(node, seen) {
    if (this.tree.isTree) return this.passing[seen ? this.tree.present[node] : this.tree.absent[node]];
    const feature = this.tree.feature[node];
    return this.passing[node].filter((i) => this.model.exhibits(this.model.percept(i), feature) === seen);
  }

  /** A few words for a box. */
  note(node) {
    const { come, see } = this.flow(node);
    if (!this.tree.reach && !this.model.nPercepts) return several(this.below(node), "class", "classes");
    return `seen by ${number(see)} of ${number(come)}`;
  }

  /** A node in a sentence. */
  sentence(node) {
    const { tree, model } = this;
    const at = tree.classOf(node);
    if (at >= 0)
      return `class ${at}: ${model.actions[tree.action[at]]}, value ${number(tree.value[at])}; `
        + `${number(tree.size[at])} of ${several(tree.total, "interaction")}`;
    const { come, see, unit } = this.flow(node);
    return `test ${node}: ${model.features[tree.feature[node]].name}, seen by ${number(see)} of ${several(come, unit)}; `
      + `${several(this.below(node), "class", "classes")} below`;
  }

  /** The nodes that a text names: classes by number and action, tests by what they look for; in full first. */
  find(text) {
    const asked = wordsOf(text);
    if (!asked.length) return [];
    const isNumber = asked.length === 1 && /^\d+$/.test(asked[0]);
    const isAlike = (word, other) => (/^\d+$/.test(word) ? other === word : other?.startsWith(word));
    const isSaid = (words) => words.some((_, i) => asked.every((word, k) => isAlike(word, words[i + k])));
    this.order ??= shownNodes(this.tree, new Set(this.tests));
    const known = new Map();
    const isFeature = (number) => {
      if (!known.has(number)) {
        const { name, kind, parts } = this.model.features[number];
        const own = isNumber && kind !== "symbol" ? false : isSaid(wordsOf(name));
        known.set(number, own || parts.some(isFeature));
      }
      return known.get(number);
    };
    const isExact = (node) => isSaid(this.#called(node));
    const isMatch = (node) => {
      const at = this.tree.classOf(node);
      if (isExact(node)) return true;
      return at < 0 ? isFeature(this.tree.feature[node]) : isSaid(wordsOf(this.model.actions[this.tree.action[at]]));
    };
    const found = this.order.filter(isMatch);
    const nameOf = (node) => this.model.features[this.tree.feature[node]]?.name ?? "";
    const isWhole = (node) => wordsOf(nameOf(node)).join(" ") === asked.join(" ");
    const rank = (node) => (isExact(node) ? (this.tree.classOf(node) < 0 ? 1 : 0) : isWhole(node) ? 2 : 3);
    return found.sort((a, b) => rank(a) - rank(b));
  }

  /** What a node itself is called. */
  #called(node) {
    const at = this.tree.classOf(node);
    return at < 0 ? ["test", String(node)] : ["class", String(at)];
  }
}

/** Return the words and numbers of a text, in small letters. */
function wordsOf(text) {
  return String(text).toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
}

/** Return pictures of some examples, each a way to where it is explained; of all cameras, or of one. */
function exampleGallery(model, numbersOf, { most = 12, camera = null, feature = null } = {}) {
  const marks = feature === null ? [] : [{ feature }];
  const n = numbersOf.length;
  const some = n <= most ? numbersOf : Array.from({ length: most }, (_, i) => numbersOf[Math.floor((i * n) / most)]);
  const cameras = camera === null ? model.cameras.map((_, i) => i) : [camera];
  const shown = (i) => cameras.map((one) => picture(model, model.percept(i), one, { marks }));
  return el("ul", { class: "gallery" }, some.map((i) => el("li", null,
    el("a", { href: `#at/example/${i}`, title: model.label(i) }, shown(i)))));
}

/** Return some examples under a title. Finding any takes a while, once, and nothing else waits for it. */
function withExamples(fact, choose, { title, none, most = 12, ...options }) {
  const box = el("div", null, el("h4", null, title), el("p", { class: "quiet" }, "Looking for them …"));
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

/** Return what is said of a test: how many come and see, what becomes of them, and examples. */
function testDetails(fact, node, { isOpen, fold }) {
  const { model, tree } = fact;
  const feature = tree.feature[node];
  const { name, camera, note } = model.features[feature];
  const { come, see, unit } = fact.flow(node);
  const share = tree.reach ? ` (${percent(come / Math.max(1, tree.total))})` : "";
  const sides = [true, false].map((seen) => ({ seen, child: seen ? tree.present[node] : tree.absent[node] }));
  return [
    el("header", null, el("h3", null, `Test ${node}`),
      el("button", { type: "button", onclick: fold },
        isOpen ? "Fold" : `Unfold ${several(fact.below(node), "class", "classes")}`)),
    link(`feature/${feature}`, patch(model, feature, { size: 96 }), el("span", { class: "words" }, name)),
    note ? el("p", { class: "quiet" }, note) : null,
    el("p", null, `${several(come, unit)} come${come === 1 ? "s" : ""} here${share}; ${number(see)} of them see it`,
      come ? ` (${percent(see / come)}).` : "."),
    el("h4", null, "What becomes of them"),
    el("ul", { class: "sides" }, sides.map(({ seen, child }) => {
      const { total, actions, value } = outcomeOf(fact, child, tree.reach ? [] : fact.sided(node, seen));
      const more = tree.classOf(child) < 0 ? `, ${several(fact.below(child), "class", "classes")}` : "";
      return el("li", { class: seen ? "seen" : "missed" },
        el("span", { class: "verdict" }, seen ? "● seen" : "○ not seen"), el("span", null, nodeLink(fact, child), more),
        el("span", { class: "quiet" }, `${several(total, unit)}: ${actions}; mean value ${number(value)}`));
    })),
    sides.map(({ seen }) => withExamples(fact, () => fact.sided(node, seen), {
      title: `Examples that ${seen ? "see" : "do not see"} it`, none: `comes here and ${seen ? "sees" : "does not see"} it`,
      most: 6, camera, feature,
    })),
    pathDetails(fact, node),
  ];
}

/** Return "6 of 31", or the number alone if all are shown. */
function ofMost(n, most) {
  return n > most ? `${most} of ${number(n)}` : n ? number(n) : "none";
}

/** Say that no example does something. */
function noneOf(model, does) {
  if (!model.nPercepts) return "This page has no examples.";
  return `None of the ${several(model.nPercepts, "example")} of this page ${does}.`;
}

/** Return a link to a node, called as it is. */
function nodeLink({ tree, number: which }, node) {
  const at = tree.classOf(node);
  return at < 0 ? link(`node/${which}/${node}`, `test ${node}`) : link(`class/${which}/${at}`, `class ${at}`);
}

/** Return how many end below a node, the actions taken there, and the mean value: in a tree of the database. */
function outcomeOf({ model, tree, number: which }, node, examples) {
  const shares = new Map();
  let [total, sum] = [0, 0];
  const add = (at, n) => {
    shares.set(tree.action[at], (shares.get(tree.action[at]) ?? 0) + n);
    total += n;
    sum += n * tree.value[at];
  };
  if (tree.reach) for (const at of tree.classesBelow(node)) add(at, tree.size[at]);
  else for (const i of examples) add(model.walk(model.percept(i), which).class, 1);
  const best = [...shares].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const actions = best.slice(0, 2).map(([action, n]) => `${model.actions[action]} ${percent(n / total, 0)}`).join(", ");
  return { total, actions: actions || "–", value: total ? sum / total : NaN };
}

/** Return what is said of a class: its size, its action and values, examples, and the way to it. */
function classDetails(fact, node) {
  const { model, tree } = fact;
  const at = tree.classOf(node);
  const notes = tree.count[at].map((n) => (n ? several(n, "try", "tries") : ""));
  return [
    el("header", null, el("h3", null, `Class ${at}`)),
    el("p", null, "Takes ", el("strong", null, model.actions[tree.action[at]]), `, value ${number(tree.value[at])}. It holds `,
      `${several(tree.size[at], "interaction")}, ${percent(tree.size[at] / Math.max(1, tree.total))} of ${number(tree.total)}.`),
    values(model, tree.q[at], tree.tried[at], tree.action[at], notes),
    withExamples(fact, () => fact.passing[node], { title: "Examples", none: "falls in it" }),
    pathDetails(fact, node),
  ];
}

/** Return the tests on the way to a node; many that were not seen in a row are folded up. */
function pathDetails(fact, node) {
  const { model, tree } = fact;
  const path = fact.path(node);
  if (path.length < 2) return el("p", { class: "quiet" }, "Every percept comes here first.");
  const steps = path.slice(0, -1).map((one, i) => (
    { node: one, feature: tree.feature[one], seen: tree.present[one] === path[i + 1], rank: i + 1 }));
  const item = ({ node: one, feature, seen, rank }) => el("li", { class: seen ? "seen" : "missed", value: rank },
    link(`feature/${feature}`, patch(model, feature, { size: 30 }), el("span", { class: "words" }, model.features[feature].name)),
    el("span", { class: "verdict" }, seen ? "seen" : "not seen", " · ", nodeLink(fact, one)));
  const groups = [];
  for (const step of steps) {
    const last = groups.at(-1);
    if (last && !last[0].seen && !step.seen) last.push(step);
    else groups.push([step]);
  }
  const ways = tree.isTree ? 1 : (fact.ways ??= countPaths(tree))[node];
  const run = (group) => el("li", { class: "run" }, el("details", null,
    el("summary", null, `${group[0].rank}–${group.at(-1).rank}: ${number(group.length)} tests, not seen`),
    el("ol", { class: "tests" }, group.map(item))));
  const shown = groups.flatMap((group) => (group.length < 5 ? group.map(item) : [run(group)]));
  return [
    el("h4", null, ways > 1 ? `One of ${number(ways)} paths: ` : "The path: ",
      several(steps.length, "test"), `, ${number(steps.filter((one) => one.seen).length)} seen`),
    el("ol", { class: "tests" }, shown),
  ];
}
