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
