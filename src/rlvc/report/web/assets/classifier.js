// The view of the classifier: a graph that can be searched, folded and navigated, and details of its nodes.

const SHOWN_AT_FIRST = [36, 56];
const UNFOLDED_MORE = 12;

/** Return the view of the classifiers of a policy. */
function makeClassifierView(model, state) {
  const view = new ClassifierView(model, state);
  return { node: view.node, show: (args) => view.show(args) };
}

/** The toolbar, the graph, the details of the selected node, and their state. */
class ClassifierView {
  constructor(model, state) {
    Object.assign(this, { model, state, peek: new Set() });
    state.leaving?.abort();
    state.leaving = new AbortController();
    this.details = el("aside", { class: "panel node-details", "aria-label": "Details of the selected node" });
    this.body = el("div");
    this.node = el("div", { class: "classifier-view" }, this.body);
  }

  /** Open the view; without a node in the route, in its last state. */
  show([kind, tree, text]) {
    this.graph ?? this.#build();
    if (kind === "classifier") {
      if (!this.details.dataset.node) this.#select(this.#memory.selected, { quietly: true });
      return;
    }
    const wanted = whole(tree, this.model.trees.length);
    const { nClasses, nNodes, leaf } = this.model.trees[wanted] ?? {};
    const at = whole(text, kind === "class" ? nClasses : nNodes);
    if (at === undefined) return void this.#deny(kind);
    if (wanted !== this.state.tree) this.#useTree(wanted);
    this.#goTo(kind === "class" ? leaf[at] : at);
  }

  /** Show that the node in the route does not exist. */
  #deny(kind) {
    Object.assign(this.details.dataset, { node: "", class: "" });
    fill(this.details, el("p", { class: "quiet" }, `There is no such ${kind} here.`));
  }

  /** Build the elements, once. */
  #build() {
    const view = { x: 0, y: 0, k: 1 };
    this.graph = new Graph(this.model, view, {
      signal: this.state.leaving.signal, onSelect: (node) => this.#choose(node), onFold: (node) => this.#fold(node),
    });
    this.graph.node.addEventListener("keydown", (event) => this.#press(event));
    this.graph.onFirst = () => this.#place();
    this.graph.notes = (node) => this.#fact().note(node);
    this.graph.hidden = (node) => `${several(this.#fact().below(node), "class", "classes")} inside`;
    this.search = new NodeSearch(this.model, this.state, {
      onMatch: (node) => this.#visit(node), onSearch: (found) => this.#mark(found), onTurn: (tree) => this.#useTree(tree),
    });
    const frame = el("div", { class: "graph-frame" }, this.graph.node, graphLens(this.graph));
    fill(this.body, this.#toolbar(), graphLegend(this.model), el("div", { class: "beside" }, frame, this.details));
    this.#useTree(Math.min(this.state.tree ?? 0, this.model.trees.length - 1));
  }

  /** The state of the current tree, which survives an update of the tree. */
  get #memory() {
    const key = `${this.model.policy.name}/${this.state.tree}`;
    this.state.trees ??= {};
    return (this.state.trees[key] ??= { mode: "auto", open: new Set(), selected: 0, view: null });
  }

  /** The facts about the nodes of the current tree. */
  #fact() {
    return nodeFacts(this.model, this.state.tree);
  }

  /** The controls for search, trees and folding. */
  #toolbar() {
    const { trees, isForest } = this.model;
    this.choice = el("select", { "aria-label": "Tree", onchange: () => this.#turnTo(Number(this.choice.value)) },
      trees.map(({ nClasses }, i) =>
        el("option", { value: i }, `tree ${i + 1} · ${several(nClasses, "class", "classes")}`)));
    this.choice.hidden = !isForest;
    return el("div", { class: "toolbar", role: "group", "aria-label": "Graph" },
      this.choice,
      this.search.node,
      el("span", { class: "joined" },
        toolButton("Main paths", "Main paths: unfold the tests that most interactions pass", () => this.#foldAs("auto")),
        toolButton("Fold all", "Fold all tests", () => this.#foldAs("own", new Set([0]))),
        toolButton("Unfold all", "Unfold all tests", () => this.#foldAs("all"))),
      this.search.count);
  }

  /** Show a tree, folded as before. */
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
    this.search.find(this.state.query, { move: false });
  }

  /** Show another tree on request, and put its selection into the address. */
  #turnTo(number) {
    this.#useTree(number);
    this.#remember();
  }

  /** Determine the unfolded tests: the main ones, all, or those that the visitor chose. */
  #refold() {
    const memory = this.#memory;
    const tests = this.#fact().tests;
    const isSmall = this.tree.nNodes <= SHOWN_AT_FIRST[1];
    if (memory.mode === "all" || (memory.mode === "auto" && isSmall)) memory.open = new Set(tests);
    else if (memory.mode === "own") memory.open = new Set(tests.filter((node) => memory.open.has(node)));
    else {
      // The heaviest tests first, then the first rows, so that some classes are visible.
      memory.open = unfoldHeaviest(this.tree, this.#fact().weight, new Set(), 0, SHOWN_AT_FIRST[0]);
      unfoldHeaviest(this.tree, this.#fact().earliness, memory.open, 0, SHOWN_AT_FIRST[1]);
    }
  }

  /** Lay out the unfolded part, and describe it to screen readers. */
  #arrange(anchor = null) {
    const memory = this.#memory;
    this.graph.open = this.peek.size ? new Set([...memory.open, ...this.peek]) : memory.open;
    this.graph.show(makeScene(this.tree, this.graph.open), anchor);
    this.graph.covers = coversOf(this.graph.scene, this.search.matches);
    const fact = this.#fact();
    fill(this.graph.items, this.graph.scene.boxes.map(({ node, level }) => el("div", {
      role: "treeitem", id: `graph-item-${node}`, "aria-level": level, "aria-label": fact.sentence(node),
      "aria-selected": String(node === memory.selected),
      "aria-expanded": this.tree.feature[node] === LEAF ? null : String(this.graph.open.has(node)),
    })));
    this.graph.node.setAttribute("aria-activedescendant", `graph-item-${memory.selected}`);
  }

  /** Restore the position of the view, or start at the root. */
  #place() {
    const memory = this.#memory;
    if (!this.graph.width || !this.graph.scene) return;
    if (memory.view) return void this.graph.redraw();
    memory.view = this.graph.view;
    this.graph.start();
    if (this.waiting !== undefined) this.graph.reveal(this.waiting, { centre: true });
    this.waiting = undefined;
  }

  /** Fold all tests in a given mode, and return to the root. */
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

  /** Fold or unfold one test, which stays at its position on the screen. */
  #fold(node) {
    if (this.tree.feature[node] === LEAF) return;
    this.#keepPeek();
    const { open } = this.#memory;
    if (!open.delete(node)) {
      const already = shownNodes(this.tree, open).length;
      open.add(node);
      const added = shownNodes(this.tree, open).length - already;
      if (added < UNFOLDED_MORE) unfoldHeaviest(this.tree, this.#fact().weight, open, node, UNFOLDED_MORE);
    }
    this.#arrange(node);
    this.#select(node);
  }

  /** Keep the tests unfolded that a search has unfolded. */
  #keepPeek() {
    const memory = this.#memory;
    memory.mode = "own";
    memory.open = new Set([...memory.open, ...this.peek]);
    this.peek = new Set();
  }

  /** Select a visible node, mark its path, and show its details. */
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
    const folding = { isOpen: this.graph.open.has(node), fold: () => this.#fold(node) };
    const said = at < 0 ? testDetails(this.#fact(), node, folding) : classDetails(this.#fact(), node);
    fill(this.details, said.flat(3));
    this.details.scrollTop = 0;
  }

  /** Put the selection into the address, without an entry in the history. */
  #remember() {
    const { selected } = this.#memory;
    const at = this.tree.classOf(selected);
    const route = at < 0 ? `node/${this.state.tree}/${selected}` : `class/${this.state.tree}/${at}`;
    history.replaceState(history.state, "", `#${route}`);
  }

  /** Select a node that was clicked. */
  #choose(node) {
    if (this.peek.size) this.#keepPeek();
    this.#select(node);
  }

  /** Select any node; unfold the tests above it, and centre it. */
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

  /** Navigate the graph by keys. */
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

  /** Show a match of the search; fold the paths to other matches again. */
  #visit(node) {
    this.peek = new Set(this.#fact().path(node).slice(0, -1));
    this.#arrange();
    this.#select(node);
    this.graph.reveal(node, { centre: true });
  }

  /** Mark the matches of the search, and the folded tests that hide some of them. */
  #mark({ isLost }) {
    if (isLost && this.peek.size) this.#keepPeek();
    this.graph.matches = new Set(this.search.matches);
    this.graph.covers = coversOf(this.graph.scene, this.search.matches);
    this.graph.redraw();
  }
}
