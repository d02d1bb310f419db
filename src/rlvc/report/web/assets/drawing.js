// Draw a classifier on a canvas: lines, boxes, patches and texts.

/** Return the colours of the theme. */
function readColours(node) {
  const style = getComputedStyle(node);
  const series = Array.from({ length: ACTION_COLOURS }, (_, i) => actionColour(i));
  const names = ["paper", "ink", "quiet", "line", "panel", "soft", "accent", "seen", "focus", "sans", ...series];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "gray"]));
}

/** Draw the edges: solid if a feature is seen, dashed if not; the width shows the number of interactions. */
function drawStrokes(graph, ctx, sight) {
  const { scene, colours, view: { k } } = graph;
  const total = Math.max(1, scene.tree.total);
  const bundles = new Map();
  for (const one of scene.strokes) {
    if (Math.max(one.x0, one.x1) < sight.left || Math.min(one.x0, one.x1) > sight.right) continue;
    if (Math.max(one.y0, one.y1) < sight.top || Math.min(one.y0, one.y1) > sight.bottom) continue;
    const step = one.load === null ? 1 : Math.round(5 * Math.sqrt(one.load / total));
    const isOn = one.edges.some((edge) => graph.path.has(edge));
    const key = `${isOn ? 1 : 0}${one.seen ? 1 : 0}${step}`;
    if (!bundles.has(key)) bundles.set(key, { isOn, seen: one.seen, width: 1.3 + 1.1 * step, strokes: [] });
    bundles.get(key).strokes.push(one);
  }
  ctx.lineCap = "butt";
  for (const { isOn, seen, width, strokes } of [...bundles].sort().map(([, bundle]) => bundle)) {
    ctx.beginPath();
    for (const { x0, y0, x1, y1 } of strokes) {
      if (x0 === x1 || y0 === y1) {
        // Dashes are placed as if the whole line were drawn.
        const skip = x0 === x1 ? Math.max(0, Math.floor((sight.top - y0) / 10) * 10) : 0;
        ctx.moveTo(x0, y0 + skip);
        ctx.lineTo(x1, x0 === x1 ? Math.min(y1, sight.bottom + 10) : y1);
      } else {
        ctx.moveTo(x0, y0);
        ctx.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
      }
    }
    const least = Math.max(width, 0.8 / k);
    if (isOn) {
      ctx.setLineDash([]);
      ctx.strokeStyle = colours.accent;
      ctx.globalAlpha = 0.35;
      ctx.lineWidth = least + Math.max(6, 3 / k);
      ctx.stroke();
      ctx.globalAlpha = 1;
    }
    ctx.setLineDash(seen || k < GRAPH_FAR / 2 ? [] : [6, 4]);
    ctx.strokeStyle = seen ? colours.seen : colours.quiet;
    ctx.lineWidth = least;
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Draw simplified boxes: tests pale, classes in the colours of their actions. */
function drawFar(graph, ctx, boxes) {
  const { scene: { tree }, colours, view: { k } } = graph;
  const groups = new Map();
  for (const box of boxes) {
    const isDim = graph.matches.size > 0 && !graph.matches.has(box.node);
    const colour = tree.feature[box.node] === LEAF ? actionColour(tree.action[tree.classOf(box.node)]) : "quiet";
    const key = `${colour} ${isDim}`;
    if (!groups.has(key)) groups.set(key, { colour, isDim, boxes: [] });
    groups.get(key).boxes.push(box);
  }
  const grow = Math.max(0, (1.4 / k - BOX.height) / 2);
  for (const { colour, isDim, boxes: some } of groups.values()) {
    ctx.globalAlpha = (colour === "quiet" ? 0.55 : 1) * (isDim ? 0.3 : 1);
    ctx.fillStyle = colours[colour];
    ctx.beginPath();
    for (const { x, y, width, height } of some) ctx.rect(x, y - grow, width, height + 2 * grow);
    ctx.fill();
  }
  ctx.globalAlpha = 1;
}

/** Draw one node: a test with its patch, or a class with its action and its size. */
function drawBox(graph, ctx, box, sign) {
  const { scene: { tree }, colours } = graph;
  const isClass = tree.feature[box.node] === LEAF;
  ctx.globalAlpha = graph.matches.size && !graph.matches.has(box.node) && box.node !== graph.selected ? 0.4 : 1;
  ctx.beginPath();
  ctx.roundRect(box.x, box.y, box.width, box.height, isClass ? box.height / 2 : 8);
  ctx.fillStyle = colours.panel;
  ctx.fill();
  ctx.lineWidth = isClass ? 2 : 1;
  ctx.strokeStyle = isClass ? colours[actionColour(tree.action[tree.classOf(box.node)])] : colours.line;
  ctx.stroke();
  if (isClass) drawClass(graph, ctx, box);
  else drawTest(graph, ctx, box, sign);
  ctx.globalAlpha = 1;
}

/** Draw the inside of a class. */
function drawClass(graph, ctx, { node, x, y, width, height }) {
  const { model, scene: { tree }, colours, view: { k } } = graph;
  const at = tree.classOf(node);
  const action = tree.action[at];
  ctx.fillStyle = colours[actionColour(action)];
  ctx.beginPath();
  ctx.arc(x + 20, y + height / 2, k < GRAPH_NEAR ? 13 : 8, 0, 2 * Math.PI);
  ctx.fill();
  if (k < GRAPH_NEAR) return writeText(graph, ctx, String(at), x + 40, y + 31, width - 50, 22, colours.ink, 600);
  writeText(graph, ctx, `class ${at}`, x + 36, y + 18, width - 50, 12.5, colours.ink, 650);
  const text = `${apart(model.actions[action])} · ${number(tree.value[at])}`;
  writeText(graph, ctx, text, x + 36, y + 33, width - 50, 12, colours.ink, 400);
  if (!graph.largest.has(tree)) graph.largest.set(tree, Math.max(1, ...tree.size));
  ctx.fillStyle = colours.line;
  ctx.fillRect(x + 36, y + 37.5, width - 56, 3);
  ctx.fillStyle = colours.quiet;
  return ctx.fillRect(x + 36, y + 37.5, (width - 56) * (tree.size[at] / graph.largest.get(tree)), 3);
}

/** Draw the inside of a test, and its fold sign. */
function drawTest(graph, ctx, { node, x, y, width, height }, [sx, sy]) {
  const { model, scene: { tree }, colours, sprite, view: { k } } = graph;
  const number = tree.feature[node];
  const { kind, parts } = model.features[number];
  const { side, columns } = model.policy.patches;
  const at = model.features[kind === "several" ? parts[0] : number].patch;
  const from = [(at % columns) * side, Math.floor(at / columns) * side, side, side];
  if (sprite) ctx.drawImage(sprite, ...from, x + 5, y + 5, height - 10, height - 10);
  const isOpen = graph.open.has(node);
  const left = x + height + 2;
  const room = width - height - 16;
  if (!graph.names.has(number)) graph.names.set(number, apart(shortName(model, number)));
  if (k < GRAPH_NEAR) writeText(graph, ctx, graph.names.get(number), left, y + 30, room, 18, colours.ink, 500);
  else {
    writeText(graph, ctx, graph.names.get(number), left, y + 20, room, 12.5, colours.ink, 600);
    if (isOpen) writeText(graph, ctx, graph.notes(node), left, y + 36, room, 11, colours.quiet, 400);
    else writeText(graph, ctx, graph.hidden(node), left, y + 36, room, 11, colours.accent, 600);
  }
  ctx.beginPath();
  ctx.arc(sx, sy, 8, 0, 2 * Math.PI);
  ctx.fillStyle = isOpen ? colours.panel : colours.accent;
  ctx.fill();
  ctx.lineWidth = 1.2;
  ctx.strokeStyle = isOpen ? colours.quiet : colours.accent;
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(sx - 4, sy);
  ctx.lineTo(sx + 4, sy);
  if (!isOpen) {
    ctx.moveTo(sx, sy - 4);
    ctx.lineTo(sx, sy + 4);
  }
  ctx.lineWidth = 1.6;
  ctx.strokeStyle = isOpen ? colours.quiet : colours.panel;
  ctx.stroke();
}

/** Write a text in a given width; long ones end in an ellipsis, and the cut is cached. */
function writeText(graph, ctx, text, x, y, room, size, colour, weight) {
  ctx.font = `${weight} ${size}px ${graph.colours.sans}`;
  const key = `${size} ${room} ${text}`;
  if (!graph.texts.has(key)) {
    let cut = text;
    for (let n = Math.min(text.length, 48); n > 0 && ctx.measureText(cut).width > room; n--)
      cut = `${text.slice(0, n).replace(/[\s,…]+$/, "")}…`;
    graph.texts.set(key, cut);
  }
  ctx.fillStyle = colour;
  ctx.fillText(graph.texts.get(key), x, y);
}

/** Draw rings around the selected node and the matches of a search. */
function drawRings(graph, ctx, boxes) {
  const { scene, colours, view: { k } } = graph;
  const ring = ({ node, x, y, width, height }, off) => {
    const radius = scene.tree.feature[node] === LEAF ? height / 2 : 8;
    ctx.beginPath();
    ctx.roundRect(x - off, y - off, width + 2 * off, height + 2 * off, radius + off);
    ctx.stroke();
  };
  for (const box of boxes) {
    const isHit = graph.matches.has(box.node);
    if (isHit || graph.covers.has(box.node)) {
      ctx.setLineDash(isHit ? [] : [3 / k, 3 / k]);
      ctx.strokeStyle = colours.ink;
      ctx.lineWidth = 2 / k;
      ring(box, 3);
      ctx.setLineDash([]);
    }
    if (box.node !== graph.selected) continue;
    ctx.strokeStyle = colours.accent;
    ctx.lineWidth = Math.max(3, 2.5 / k);
    ring(box, 5 + 1 / k);
  }
}
