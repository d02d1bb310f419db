// Facts about the nodes of a classifier, and the search for nodes.

const NODE_FACTS = new WeakMap();

/** Return the facts about the nodes of a tree, shared by all views. */
function nodeFacts(model, number) {
  if (!NODE_FACTS.has(model)) NODE_FACTS.set(model, []);
  return (NODE_FACTS.get(model)[number] ??= new NodeFacts(model, number));
}

/** Facts about the nodes of one tree, computed on demand and cached. */
class NodeFacts {
  constructor(model, number) {
    Object.assign(this, { model, number, tree: model.trees[number], paths: new Map(), counts: new Map() });
    this.tests = Array.from(this.tree.feature.keys()).filter((node) => this.tree.feature[node] !== LEAF);
  }

  /** The example percepts that reach each node. */
  get passing() {
    this.passed ??= (() => {
      const passed = Array.from({ length: this.tree.nNodes }, () => []);
      this.classes = [];
      for (let i = 0; i < this.model.nPercepts; i++) {
        const { nodes, class: at } = this.model.walk(this.model.percept(i), this.number);
        for (const node of nodes) passed[node].push(i);
        this.classes.push(at);
      }
      return passed;
    })();
    return this.passed;
  }

  /** The weight of each node: its number of interactions, or in a diagram, of examples. */
  get weight() {
    return this.tree.reach ?? (this.weighed ??= Float64Array.from(this.passing, (list) => list.length));
  }

  /** How early each node comes when the seen sides are read first. */
  get earliness() {
    this.order ??= shownNodes(this.tree, new Set(this.tests));
    const early = new Float64Array(this.tree.nNodes);
    this.order.forEach((node, i) => (early[node] = -i));
    return early;
  }

  /** The number of classes below a node. */
  below(node) {
    if (!this.counts.has(node)) this.counts.set(node, this.tree.classesBelow(node).length);
    return this.counts.get(node);
  }

  /** The nodes on the path to a node; in a diagram a shortest one, of an example if any reaches it. */
  path(node) {
    if (!this.paths.has(node)) {
      const some = this.tree.isTree ? [] : this.passing[node].slice(0, 200);
      const walks = some.map((i) => this.model.walk(this.model.percept(i), this.number).nodes);
      const ways = walks.map((nodes) => nodes.slice(0, nodes.indexOf(node) + 1));
      this.paths.set(node, ways.sort((a, b) => a.length - b.length)[0] ?? pathTo(this.tree, node));
    }
    return this.paths.get(node);
  }

  /** How many interactions, or in a diagram examples, reach a test, and in how many the feature is seen. */
  flow(node) {
    const { weight, tree } = this;
    return { come: weight[node], see: this.#along(node, true), unit: tree.reach ? "interaction" : "example" };
  }

  /** How many take one side of a test. */
  #along(node, seen) {
    if (this.tree.reach) return this.tree.reach[seen ? this.tree.present[node] : this.tree.absent[node]];
    return this.sided(node, seen).length;
  }

  /** The examples that reach a test and take one of its sides. */
  sided(node, seen) {
    if (this.tree.isTree) return this.passing[seen ? this.tree.present[node] : this.tree.absent[node]];
    const feature = this.tree.feature[node];
    return this.passing[node].filter((i) => this.model.exhibits(this.model.percept(i), feature) === seen);
  }

  /** The outcome of one side of a test: how many, the actions [action, n], most frequent first, the mean value. */
  outcome(node, seen) {
    const { tree } = this;
    const side = seen ? tree.present[node] : tree.absent[node];
    // In a diagram paths merge, so examples are counted instead of the interactions of classes.
    const ends = tree.reach ? tree.classesBelow(side).map((at) => [at, tree.size[at]])
      : this.sided(node, seen).map((i) => [this.classes[i], 1]);
    const votes = this.model.actions.map(() => 0);
    let [total, sum] = [0, 0];
    for (const [at, n] of ends) {
      votes[tree.action[at]] += n;
      total += n;
      sum += n * tree.value[at];
    }
    const actions = [...votes.entries()].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    return { total, actions, mean: total ? sum / total : NaN };
  }

  /** A short note for a box. */
  note(node) {
    const { come, see } = this.flow(node);
    if (!this.tree.reach && !this.model.nPercepts) return several(this.below(node), "class", "classes");
    return `seen in ${number(see)} of ${number(come)}`;
  }

  /** A sentence about a node. */
  sentence(node) {
    const { tree, model } = this;
    const at = tree.classOf(node);
    if (at >= 0)
      return `class ${at}: ${apart(model.actions[tree.action[at]])}, value ${number(tree.value[at])}; `
        + `${number(tree.size[at])} of ${several(tree.total, "interaction")}`;
    const { come, see, unit } = this.flow(node);
    return `test ${node}: ${apart(model.features[tree.feature[node]].name)}, `
      + `seen in ${number(see)} of ${several(come, unit)}; ${several(this.below(node), "class", "classes")} below`;
  }

  /** The nodes that match a text: classes by number and action, tests by feature; exact matches first. */
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

  /** The words of a node's name. */
  #called(node) {
    const at = this.tree.classOf(node);
    return at < 0 ? ["test", String(node)] : ["class", String(at)];
  }
}

/** Return evenly spaced elements of a list. */
function evenly(list, most) {
  if (list.length <= most) return list;
  return Array.from({ length: most }, (_, i) => list[Math.floor((i * list.length) / most)]);
}

/** Return the words and numbers of a text in lower case. */
function wordsOf(text) {
  return String(text).toLowerCase().match(/[\p{L}\p{N}_]+/gu) ?? [];
}
