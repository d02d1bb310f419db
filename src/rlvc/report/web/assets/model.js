// The data of the page: classifiers, features, and their occurrences on example percepts. Decisions are
// computed as in the library, with the same ties and the same sums.

const LEAF = -1;
const ARRAYS = { "<i4": Int32Array, "<f4": Float32Array, "<f8": Float64Array, "<u2": Uint16Array };

/** Return the bytes of a base64 text. */
function bytes(text) {
  const letters = atob(text);
  const found = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) found[i] = letters.charCodeAt(i);
  return found;
}

/** Decode numbers that are a list or base64 bytes. */
function numbers(coded) {
  return Array.isArray(coded) ? coded : new ARRAYS[coded.dtype](bytes(coded.data).buffer);
}

/** Return the index of the best action that was tried, the first among equals. */
function greedy(q, tried) {
  let best = 0;
  let value = -Infinity;
  q.forEach((one, action) => {
    if (tried[action] && one > value) [best, value] = [action, one];
  });
  return best;
}

/** A classifier: nodes that test features, and leaves that are visual classes with values. */
class Tree {
  constructor(coded, isTree) {
    this.isTree = isTree;
    [this.feature, this.present, this.absent] = [coded.feature, coded.present, coded.absent].map(numbers);
    this.q = coded.q;
    this.count = coded.count;
    this.nNodes = this.feature.length;
    this.nClasses = this.q.length;
    this.leaf = new Array(this.nClasses);
    this.parents = Array.from({ length: this.nNodes }, () => []);
    for (let node = 0; node < this.nNodes; node++) {
      if (this.feature[node] === LEAF) this.leaf[this.present[node]] = node;
      else for (const child of this.children(node)) this.parents[child].push(node);
    }
    this.size = this.count.map((row) => row.reduce((sum, n) => sum + n, 0));
    this.total = this.size.reduce((sum, n) => sum + n, 0);
    this.tried = this.count.map((row) => row.map((n) => n > 0));
    this.action = this.q.map((row, one) => greedy(row, this.tried[one]));
    this.value = this.q.map((row, one) => row[this.action[one]]);
    this.reach = isTree ? this.#sumUp() : null;
  }

  /** The nodes for percepts that exhibit the feature of a node, and for the others. */
  children(node) {
    return this.feature[node] === LEAF ? [] : [this.present[node], this.absent[node]];
  }

  /** The visual class of a leaf; -1 for a test. */
  classOf(node) {
    return this.feature[node] === LEAF ? this.present[node] : -1;
  }

  /** The visual classes below a node, in ascending order. */
  classesBelow(node) {
    const seen = new Set([node]);
    const waiting = [node];
    const found = [];
    while (waiting.length) {
      const here = waiting.pop();
      if (this.feature[here] === LEAF) found.push(this.present[here]);
      for (const child of this.children(here)) if (!seen.has(child)) seen.add(child) && waiting.push(child);
    }
    return found.sort((a, b) => a - b);
  }

  /** Walk from the root; return the nodes, the distinct tests with their outcomes, and the class. */
  walk(exhibits) {
    const known = new Map();
    const nodes = [0];
    let node = 0;
    while (this.feature[node] !== LEAF) {
      const feature = this.feature[node];
      if (!known.has(feature)) known.set(feature, exhibits(feature));
      node = known.get(feature) ? this.present[node] : this.absent[node];
      nodes.push(node);
    }
    const tests = Array.from(known, ([feature, exhibited]) => ({ feature, exhibited }));
    return { nodes, tests, class: this.present[node] };
  }

  /** In a tree, how many interactions of the database pass through each node. */
  #sumUp() {
    const reach = new Float64Array(this.nNodes);
    for (let node = this.nNodes - 1; node >= 0; node--) {
      const classes = this.classOf(node);
      if (classes >= 0) reach[node] = this.size[classes];
      else for (const child of this.children(node)) reach[node] += reach[child];
    }
    return reach;
  }
}

/** A policy of the page, and the percepts on which it can be explained. */
class Model {
  constructor(data, which) {
    this.data = data;
    this.policy = data.policies[which];
    this.actions = this.policy.actions;
    this.isForest = this.policy.kind === "forest";
    this.trees = this.policy.trees.map((one) => new Tree(one, one.is_tree));
    this.features = this.policy.features;
    this.cameras = data.cameras;
    this.seen = this.policy.seen.map((one) => ({
      unit: one.unit, begin: numbers(one.begin), feature: numbers(one.feature), x: numbers(one.x), y: numbers(one.y),
    }));
    this.occurring = this.seen.map(() => new Map());
    this.table = numbers(data.percepts.table);
    this.nPercepts = this.table.length / Math.max(1, this.cameras.length);
  }

  /** An example percept: the numbers of its images. */
  percept(number) {
    const n = this.cameras.length;
    return { number, images: Array.from(this.table.slice(number * n, (number + 1) * n)) };
  }

  /** The name of an example percept. */
  label(number) {
    return this.data.percepts.label[number] ?? `percept ${number}`;
  }

  /** The occurrences on an image of a camera: a map from features to their first and last row. */
  #rowsOn(camera, image) {
    const known = this.occurring[camera];
    if (!known.has(image)) {
      const { begin, feature } = this.seen[camera];
      const found = new Map();
      for (let row = begin[image]; row < begin[image + 1]; row++) {
        if (!found.has(feature[row])) found.set(feature[row], [row, row]);
        found.get(feature[row])[1] = row + 1;
      }
      known.set(image, found);
    }
    return known.get(image);
  }

  /** Tell whether a percept exhibits a feature. */
  exhibits(percept, number) {
    const feature = this.features[number];
    if (feature.kind === "several") return this.partsSeen(percept, number).length >= feature.least;
    return this.#rowsOn(feature.camera, percept.images[feature.camera]).has(number);
  }

  /** The parts of several features that a percept exhibits. */
  partsSeen(percept, number) {
    return this.features[number].parts.filter((part) => this.exhibits(percept, part));
  }

  /** The occurrences [x, y] of a feature that is not made of several features. */
  occurrences(percept, number) {
    const { camera } = this.features[number];
    const rows = this.#rowsOn(camera, percept.images[camera]).get(number) ?? [0, 0];
    const { x, y, unit } = this.seen[camera];
    return Array.from({ length: rows[1] - rows[0] }, (_, i) => [x[rows[0] + i] / unit, y[rows[0] + i] / unit]);
  }

  /** The arrangements of a feature: points of its symbols, lines between parts, and the midpoint. */
  arrangements(percept, number, most = 4) {
    const { kind, parts } = this.features[number];
    if (kind === "several") {
      if (!this.exhibits(percept, number)) return [];
      return this.partsSeen(percept, number).flatMap((part) => this.arrangements(percept, part, most));
    }
    const middles = this.occurrences(percept, number).slice(0, kind === "composite" ? most : 40);
    if (kind === "symbol") return middles.map((at) => ({ middle: at, points: [at], lines: [] }));
    const inner = parts.map((part) => this.arrangements(percept, part, 40));
    if (kind === "located") return inner[0].filter((one) => middles.some((at) => near(at, one.middle)));
    return middles.map((at) => pairAt(at, ...inner, this.features[number].distance)).filter(Boolean);
  }

  /** Walk a percept through one of the trees. */
  walk(percept, tree = 0) {
    return this.trees[tree].walk((feature) => this.exhibits(percept, feature));
  }

  /** The explanation of the action on a percept; for a forest, with the vote. */
  explain(percept) {
    return this.isForest ? this.#vote(percept) : this.#explain(percept);
  }

  #explain(percept) {
    const [tree] = this.trees;
    const walk = this.walk(percept);
    const { class: at } = walk;
    return { ...walk, q: tree.q[at], tried: tree.tried[at], action: tree.action[at] };
  }

  /** The action on a percept, and its value, without the reasons. */
  decide(percept) {
    const classes = this.trees.map((_, tree) => this.walk(percept, tree).class);
    const { q, tried } = this.isForest ? this.#values(classes) : this.#explain(percept);
    const action = greedy(q, tried);
    return { action, value: q[action] };
  }

  #vote(percept) {
    const walks = this.trees.map((_, tree) => this.walk(percept, tree));
    const classes = walks.map((walk) => walk.class);
    const { q, tried } = this.#values(classes);
    const action = greedy(q, tried);
    const ballots = this.actions.map(() => 0);
    classes.forEach((at, tree) => (ballots[this.trees[tree].action[at]] += 1));
    const lead = this.#lead(q, tried, action);
    const testedBy = new Map();
    walks.forEach((walk, tree) => {
      for (const { feature } of walk.tests) testedBy.set(feature, [...(testedBy.get(feature) ?? []), tree]);
    });
    const decisive = [...testedBy].sort((a, b) => a[0] - b[0]).map(([feature, trees]) => {
      const flipped = classes.slice();
      for (const tree of trees) {
        const other = (one) => this.exhibits(percept, one) !== (one === feature);
        flipped[tree] = this.trees[tree].walk(other).class;
      }
      const found = this.#values(flipped);
      const gain = lead - this.#lead(found.q, found.tried, action);
      const exhibited = this.exhibits(percept, feature);
      return { feature, exhibited, trees: trees.length, gain, otherwise: greedy(found.q, found.tried) };
    });
    decisive.sort((a, b) => b.gain - a.gain);
    return { q, tried, action, ballots, lead, decisive, classes, tests: decisive };
  }

  /** Means over the trees that tried an action, less some standard deviations, as in `policies/values.py`. */
  #values(classes) {
    const zeros = () => this.actions.map(() => 0);
    const [mean, squares, count] = [zeros(), zeros(), zeros()];
    classes.forEach((at, tree) => {
      const { q, tried } = this.trees[tree];
      this.actions.forEach((_, a) => {
        if (!tried[at][a]) return;
        count[a] += 1;
        const off = q[at][a] - mean[a];
        mean[a] += off / count[a];
        squares[a] += off * (q[at][a] - mean[a]);
      });
    });
    const spread = squares.map((sum, a) => Math.sqrt(sum / Math.max(count[a], 1)));
    return { q: mean.map((one, a) => one - this.policy.uncertainty_penalty * spread[a]), tried: count.map((n) => n > 0) };
  }

  /** How far an action is ahead of the best other; untried actions have the lowest value. */
  #lead(q, tried, action) {
    this.lowest ??= Math.min(...this.trees.map((tree) => {
      const known = tree.q.flatMap((row, at) => row.filter((_, a) => tree.tried[at][a]));
      return known.reduce((low, one) => Math.min(low, one), 0);
    }));
    const value = q.map((one, a) => (tried[a] ? one : this.lowest));
    const others = value.filter((_, a) => a !== action);
    return others.length ? value[action] - Math.max(...others) : 0;
  }

  /** The URL of an image of the page, created once. */
  url(index) {
    this.data.urls ??= [];
    const { type, data } = this.data.images[index];
    this.data.urls[index] ??= URL.createObjectURL(new Blob([bytes(data)], { type }));
    return this.data.urls[index];
  }
}

/** Tell whether two points are equal up to rounding. */
function near(one, other) {
  return Math.abs(one[0] - other[0]) < 0.1 && Math.abs(one[1] - other[1]) < 0.1;
}

/** Return the first pair of parts at a distance whose midpoint is a point, joined by a line. */
function pairAt(middle, firsts, seconds, [low, high]) {
  for (const one of firsts) {
    for (const other of seconds) {
      const between = [(one.middle[0] + other.middle[0]) / 2, (one.middle[1] + other.middle[1]) / 2];
      const apart = Math.hypot(one.middle[0] - other.middle[0], one.middle[1] - other.middle[1]);
      if (near(between, middle) && apart >= low - 0.1 && apart <= high + 0.1) {
        const lines = [...one.lines, ...other.lines, [one.middle, other.middle]];
        return { middle, points: [...one.points, ...other.points], lines };
      }
    }
  }
  return null;
}
