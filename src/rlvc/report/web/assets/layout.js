// The layout of a classifier. `open` is the set of unfolded tests; nodes below other tests are hidden.
// These functions have no state and draw nothing.

const BOX = { width: 196, height: 46, leaf: 164, column: 240, row: 66, layer: 104, lane: 16 };

/** Return the nodes that can be reached through unfolded tests, parents first. */
function shownNodes(tree, open) {
  const met = new Set([0]);
  const waiting = [0];
  const found = [];
  while (waiting.length) {
    const node = waiting.pop();
    found.push(node);
    if (!open.has(node)) continue;
    for (const child of [tree.absent[node], tree.present[node]]) {
      if (met.has(child)) continue;
      met.add(child);
      waiting.push(child);
    }
  }
  return found;
}

/** Unfold the heaviest folded tests below a node until `most` nodes are visible there. */
function unfoldHeaviest(tree, weight, open, from, most) {
  const met = new Set([from]);
  const folded = [];
  const enter = (node) => {
    const waiting = [node];
    while (waiting.length)
      for (const child of tree.children(waiting.pop())) {
        if (met.has(child)) continue;
        met.add(child);
        if (open.has(child)) waiting.push(child);
        else if (tree.feature[child] !== LEAF) folded.push(child);
      }
  };
  if (open.has(from)) enter(from);
  else if (tree.feature[from] !== LEAF) folded.push(from);
  while (folded.length && met.size + 2 <= most) {
    const best = folded.reduce((at, node, i) => (weight[node] > weight[folded[at]] ? i : at), 0);
    const [node] = folded.splice(best, 1);
    open.add(node);
    enter(node);
  }
  return open;
}

/** Return the nodes on a path from the root to a node: in a diagram, a shortest one. */
function pathTo(tree, node) {
  const next = new Map([[node, null]]);
  const waiting = [node];
  for (let i = 0; i < waiting.length && !next.has(0); i++)
    for (const parent of tree.parents[waiting[i]]) {
      if (next.has(parent)) continue;
      next.set(parent, waiting[i]);
      waiting.push(parent);
    }
  const path = [];
  for (let at = 0; at !== null && at !== undefined; at = next.get(at)) path.push(at);
  return path;
}

/** Return the number of paths from the root to each node. */
function countPaths(tree) {
  const ways = new Float64Array(tree.nNodes);
  ways[0] = 1;
  for (let node = 0; node < tree.nNodes; node++)
    for (const child of tree.children(node)) ways[child] += ways[node];
  return ways;
}

/** Return the scene of a tree or of a diagram: boxes, strokes between them, and its size. */
function makeScene(tree, open) {
  return tree.isTree ? outlineScene(tree, open) : layeredScene(tree, open);
}

/** Return the width of a node. */
function boxWidth(tree, node) {
  return tree.feature[node] === LEAF ? BOX.leaf : BOX.width;
}

/** Return a scene from boxes and strokes; a stroke belongs to the edges that run along it. */
function sceneFrom(tree, boxes, strokes, extra) {
  const at = new Map(boxes.map((box, i) => [box.node, i]));
  const width = boxes.reduce((most, box) => Math.max(most, box.x + box.width), 0);
  const height = boxes.reduce((most, box) => Math.max(most, box.y + box.height), 0);
  return { tree, boxes, strokes, at, width, height, ...extra };
}

/** Lay out a tree as an outline: seen goes right, not seen goes down; one row for each class. */
function outlineScene(tree, open) {
  const boxes = [];
  const strokes = [];
  const waiting = [{ node: 0, column: 0, level: 1, parent: null, seen: false }];
  let row = -1;
  while (waiting.length) {
    const { node, column, level, parent, seen } = waiting.pop();
    if (!seen) row += 1;
    const [x, y, width, height] = [column * BOX.column, row * BOX.row, boxWidth(tree, node), BOX.height];
    const box = { node, level, x, y, width, height };
    boxes.push(box);
    if (parent) {
      const [x0, y0] = seen ? [parent.x + parent.width, y + height / 2] : [parent.x + 22, parent.y + parent.height];
      const [x1, y1] = seen ? [x, y0] : [x0, y];
      strokes.push({ x0, y0, x1, y1, seen, edges: [edgeKey(parent.node, seen)], load: tree.reach[node] });
    }
    if (!open.has(node)) continue;
    waiting.push({ node: tree.absent[node], column, level: level + 1, parent: box, seen: false });
    waiting.push({ node: tree.present[node], column: column + 1, level: level + 1, parent: box, seen: true });
  }
  return sceneFrom(tree, boxes, strokes, { isOutline: true });
}

/** Return the key of the edge that leaves a test if its feature is seen, or is not. */
function edgeKey(node, seen) {
  return 2 * node + (seen ? 1 : 0);
}

/** Lay out a diagram in layers: each node is below its parents, and edges to one node join early. */
function layeredScene(tree, open) {
  const nodes = shownNodes(tree, open).sort((a, b) => a - b);
  const layer = new Map(nodes.map((node) => [node, 0]));
  for (const node of nodes)
    if (open.has(node))
      for (const child of tree.children(node)) layer.set(child, Math.max(layer.get(child), layer.get(node) + 1));
  const layers = [];
  const put = (slot) => ((layers[slot.layer] ??= []).push(slot), slot);
  const slots = new Map();
  for (const node of shownNodes(tree, open))
    slots.set(node, put({ node, layer: layer.get(node), width: boxWidth(tree, node) + 34, up: [], down: [], x: 0 }));
  const hops = new Map();
  const hop = (from, to, seen, edge) => {
    const key = `${from.id ?? from.node}>${to.id ?? to.node} ${seen}`;
    if (hops.has(key)) return hops.get(key).edges.push(edge);
    hops.set(key, { from, to, seen, edges: [edge] });
    from.down.push(to);
    return to.up.push(from);
  };
  for (const node of nodes.filter((one) => open.has(one)))
    for (const seen of [false, true]) {
      const child = seen ? tree.present[node] : tree.absent[node];
      let from = slots.get(node);
      for (let at = from.layer + 1; at < layer.get(child); at++) {
        const id = `${child} ${at} ${seen}`;
        if (!slots.has(id)) slots.set(id, put({ id, layer: at, width: BOX.lane, up: [], down: [], x: 0 }));
        hop(from, slots.get(id), seen, edgeKey(node, seen));
        from = slots.get(id);
      }
      hop(from, slots.get(child), seen, edgeKey(node, seen));
    }
  untangleLayers(layers);
  const left = layers.flat().reduce((least, slot) => Math.min(least, slot.x - slot.width / 2), 0);
  const boxes = layers.flat().filter((slot) => slot.node !== undefined).map(({ node, layer: at, x, width }) => (
    { node, level: at + 1, x: x - left - width / 2 + 17, y: at * BOX.layer, width: width - 34, height: BOX.height }));
  const strokes = [...hops.values()].map(({ from, to, seen, edges }) => {
    const port = from.node === undefined ? 0 : from.down.every((one) => one === to || one.x < to.x) ? 40 : -40;
    const y0 = from.layer * BOX.layer + (from.node === undefined ? BOX.height / 2 : BOX.height);
    const y1 = to.layer * BOX.layer + (to.node === undefined ? BOX.height / 2 : 0);
    return { x0: from.x - left + port, y0, x1: to.x - left, y1, seen, edges, load: null };
  });
  return sceneFrom(tree, boxes, strokes, { isOutline: false });
}

/** Order the slots of layers so that few edges cross, then place them near their neighbours. */
function untangleLayers(layers, sweeps = 8) {
  const index = (row) => row.forEach((slot, i) => (slot.rank = i / Math.max(1, row.length - 1)));
  const mean = (list, of, otherwise) =>
    (list.length ? list.reduce((sum, one) => sum + of(one), 0) / list.length : otherwise);
  layers.forEach(index);
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? layers.slice().reverse() : layers) {
      for (const slot of row) slot.wish = mean(slot[side], (one) => one.rank, slot.rank);
      row.sort((a, b) => a.wish - b.wish);
      index(row);
    }
  }
  layers.forEach((row) => settleRow(row, row.map(() => 0)));
  for (let sweep = 0; sweep < sweeps; sweep++) {
    for (const row of sweep % 2 ? layers.slice().reverse() : layers)
      settleRow(row, row.map((slot) => mean([...slot.up, ...slot.down], (one) => one.x, slot.x)));
  }
}

/** Place slots side by side in their order, closest to their targets in the least-squares sense. */
function settleRow(row, wishes) {
  const blocks = [];
  let offset = 0;
  row.forEach((slot, i) => {
    if (i) offset += (row[i - 1].width + slot.width) / 2;
    slot.offset = offset;
    let block = { sum: wishes[i] - offset, n: 1 };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).n > block.sum / block.n) {
      const before = blocks.pop();
      block = { sum: before.sum + block.sum, n: before.n + block.n };
    }
    blocks.push(block);
  });
  let i = 0;
  for (const { sum, n } of blocks) for (let k = 0; k < n; k++, i++) row[i].x = sum / n + row[i].offset;
}

/** Return the nodes of a scene that hide some of the given nodes. */
function coversOf({ tree, at }, nodes) {
  const covers = new Set();
  const met = new Set();
  const waiting = nodes.filter((node) => node < tree.nNodes && !at.has(node));
  while (waiting.length)
    for (const parent of tree.parents[waiting.pop()]) {
      if (met.has(parent)) continue;
      met.add(parent);
      if (at.has(parent)) covers.add(parent);
      else waiting.push(parent);
    }
  return covers;
}
