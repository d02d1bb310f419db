// A classifier on a canvas: drawn, moved and pointed at. What is far away is drawn plainly, what is out of
// sight is not drawn at all. The canvas is mute; the items beside it say the same to those who cannot see.

const FAR = 0.26;
const NEAR = 0.58;
const ZOOM = [0.01, 3];
const SERIES = 6;

/** Return the custom property with the colour of an action; its name is always written as well. */
function actionColour(action) {
  return `series-${(action % SERIES) + 1}`;
}

/** Return a name for a box: what a feature is, in few words. */
function shortName(model, number) {
  const { kind, parts, name, least } = model.features[number];
  const isSymbol = (part) => model.features[part].kind === "symbol";
  const bare = (part) => (isSymbol(part) ? model.features[part].name.replace(/^symbol (\d+).*$/, "$1") : "…");
  const many = least === parts.length ? "all" : least === 1 ? "any" : least;
  const sorted = [...parts.filter(isSymbol), ...parts.filter((part) => !isSymbol(part))];
  if (kind === "several") return `${many} of ${parts.some(isSymbol) ? sorted.map(bare).join(", ") : `${parts.length} pairs`}`;
  if (kind === "composite") return parts.every(isSymbol) ? `pair ${parts.map(bare).join("–")}` : "pair of features";
  return name;
}

/** A view of a scene that can be moved and zoomed, with one selected node. */
class Graph {
  constructor(model, view, { onSelect, onFold, signal }) {
    Object.assign(this, { model, view, onSelect, onFold, signal });
    this.selected = null;
    this.matches = new Set();
    this.covers = new Set();
    this.open = new Set();
    this.path = new Set();
    [this.texts, this.names, this.largest] = [new Map(), new Map(), new Map()];
    this.pointers = new Map();
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.items = el("div", { class: "unseen graph-items" });
    this.node = el("div", {
      class: "graph", role: "tree", tabindex: 0, "aria-label": "Classifier. Right: where it is seen; down: where it is not; "
        + "left: back; Enter folds and unfolds; plus, minus and 0 zoom.",
    }, this.canvas, this.items);
    this.context = this.canvas.getContext("2d");
    this.#listen();
    this.#loadPatches();
  }

  /** Listen to pointers, to the wheel, to changes of size and of theme. */
  #listen() {
    const on = (name, act, options) => this.canvas.addEventListener(name, act, options);
    on("pointerdown", (event) => this.#press(event));
    on("pointermove", (event) => this.#drag(event));
    for (const name of ["pointerup", "pointercancel"]) on(name, (event) => this.#release(event));
    on("dblclick", (event) => {
      const box = this.#signAt(event) ? null : this.#boxAt(event);
      if (box) this.onFold(box.node);
    });
    on("wheel", (event) => {
      event.preventDefault();
      const step = event.deltaY * (event.deltaMode ? 16 : 1) * (event.ctrlKey ? 0.01 : 0.0016);
      this.zoom(Math.exp(-Math.max(-0.6, Math.min(0.6, step))), ...this.#at(event));
    }, { passive: false });
    new ResizeObserver(() => this.#resize()).observe(this.node);
    const repaint = () => {
      this.colours = null;
      this.redraw();
    };
    window.addEventListener("themechange", repaint, { signal: this.signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint, { signal: this.signal });
    this.node.addEventListener("focus", () => this.redraw());
    this.node.addEventListener("blur", () => this.redraw());
  }

  /** Decode the patches once, so that drawing one costs a copy. */
  #loadPatches() {
    const image = new Image();
    image.onload = async () => {
      this.sprite = await createImageBitmap(image);
      this.redraw();
    };
    image.src = this.model.url(this.model.policy.patches.image);
  }

  /** Show another scene; a node that is in both stays where it is on the screen. */
  show(scene, anchor = null) {
    const place = (of) => of?.boxes[of.at.get(anchor)];
    const [before, after] = [place(this.scene), place(scene)];
    if (before && after) {
      this.view.x += after.x - before.x;
      this.view.y += after.y - before.y;
    }
    this.scene = scene;
    this.redraw();
  }

  /** Where a pointer is on the canvas. */
  #at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  /** The box under a pointer, or null. */
  #boxAt(event) {
    const [x, y] = this.#at(event);
    const [wx, wy] = [this.view.x + x / this.view.k, this.view.y + y / this.view.k];
    const inside = (box) => wx >= box.x - 6 && wx <= box.x + box.width + 6 && wy >= box.y - 6 && wy <= box.y + box.height + 6;
    return this.scene?.boxes.find(inside) ?? null;
  }

  /** The test whose fold sign is under a pointer, or null; fingers need more room than a mouse. */
  #signAt(event) {
    const { k } = this.view;
    if (k < FAR) return null;
    const [x, y] = this.#at(event);
    const reach = Math.max(8 * k, Math.min(event.pointerType === "touch" ? 20 : 16, 23 * k));
    const isNear = (box) => {
      const [sx, sy] = this.#sign(box);
      return Math.hypot((sx - this.view.x) * k - x, (sy - this.view.y) * k - y) <= reach;
    };
    return this.scene?.boxes.find((box) => this.scene.tree.feature[box.node] !== LEAF && isNear(box)) ?? null;
  }

  /** Where the sign to fold a test stands. */
  #sign(box) {
    return this.scene.isOutline ? [box.x + box.width, box.y + box.height / 2] : [box.x + box.width / 2, box.y + box.height];
  }

  #press(event) {
    if (event.isTrusted) this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.#at(event));
    if (this.pointers.size === 1) this.moved = 0;
  }

  #drag(event) {
    const before = this.pointers.get(event.pointerId);
    const here = this.#at(event);
    if (!before) return this.#hover(event);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.moved += Math.hypot(here[0] - before[0], here[1] - before[1]);
    this.pointers.set(event.pointerId, here);
    if (others.length) {
      const [other] = others;
      const apart = (at) => Math.max(10, Math.hypot(at[0] - other[0], at[1] - other[1]));
      const middle = [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2];
      this.pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
      this.zoom(apart(here) / apart(before), ...middle);
    } else if (this.moved > 4) this.pan(here[0] - before[0], here[1] - before[1]);
    return undefined;
  }

  #release(event) {
    const known = this.pointers.delete(event.pointerId);
    if (!known || this.pointers.size || this.moved > 4 || event.type === "pointercancel") return;
    const sign = this.#signAt(event);
    const box = sign ?? this.#boxAt(event);
    if (sign) this.onFold(sign.node);
    else if (box) this.onSelect(box.node);
  }

  /** Say in a tooltip what a pointer is on. */
  #hover(event) {
    const box = this.#signAt(event) ?? this.#boxAt(event);
    this.canvas.style.cursor = box ? "pointer" : "";
    const text = box ? this.model.features[this.scene.tree.feature[box.node]]?.name ?? "" : "";
    if (this.canvas.title !== text) this.canvas.title = text;
  }

  /** Move what is shown by so many pixels. */
  pan(dx, dy) {
    this.view.x -= dx / this.view.k;
    this.view.y -= dy / this.view.k;
    this.#keep();
  }

  /** Zoom around a point of the canvas, its middle if none is named. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const k = Math.min(ZOOM[1], Math.max(ZOOM[0], this.view.k * factor));
    this.view.x += x / this.view.k - x / k;
    this.view.y += y / this.view.k - y / k;
    this.view.k = k;
    this.#keep();
  }

  /** Never lose the graph out of sight: its box always covers the middle of the canvas. */
  #keep() {
    const { scene, view } = this;
    const [w, h] = [this.width / view.k, this.height / view.k];
    view.x = Math.min(scene.width - w / 2, Math.max(-w / 2, view.x));
    view.y = Math.min(scene.height - h / 2, Math.max(-h / 2, view.y));
    this.redraw();
  }

  /** Show all, as large as it goes. */
  fit() {
    const { scene, view } = this;
    view.k = Math.min(1.2, Math.max(ZOOM[0], Math.min((this.width - 32) / scene.width, (this.height - 32) / scene.height)));
    view.x = scene.width / 2 - this.width / view.k / 2;
    view.y = scene.height / 2 - this.height / view.k / 2;
    this.redraw();
  }

  /** Show the root at the top, legibly, with as many columns as fit. */
  start() {
    const { scene, view } = this;
    view.k = Math.min(1, Math.max(0.85, (this.width - 40) / scene.width));
    const root = scene.boxes[scene.at.get(0)];
    view.x = scene.isOutline ? -20 / view.k : root.x + root.width / 2 - this.width / view.k / 2;
    view.y = -20 / view.k;
    this.redraw();
  }

  /** Bring a node into sight: just so, or to the middle. */
  reveal(node, { centre = false } = {}) {
    const box = this.scene.boxes[this.scene.at.get(node)];
    if (!box || !this.width) return;
    const { view } = this;
    if (centre && view.k < NEAR) view.k = 0.9;
    const [w, h, margin] = [this.width / view.k, this.height / view.k, 26 / view.k];
    if (centre) [view.x, view.y] = [box.x + box.width / 2 - w / 2, box.y + box.height / 2 - h / 2];
    view.x = Math.min(box.x - margin, Math.max(box.x + box.width + margin - w, view.x));
    view.y = Math.min(box.y - margin, Math.max(box.y + box.height + margin - h, view.y));
    this.redraw();
  }

  /** Follow the size of the element, in true pixels. */
  #resize() {
    const { clientWidth, clientHeight } = this.node;
    if (!clientWidth || !clientHeight) return;
    const isFirst = !this.width;
    [this.width, this.height, this.dpr] = [clientWidth, clientHeight, window.devicePixelRatio || 1];
    this.canvas.width = Math.round(clientWidth * this.dpr);
    this.canvas.height = Math.round(clientHeight * this.dpr);
    if (isFirst) this.onFirst?.();
    this.draw();
  }

  /** Draw soon: once for a frame, however much happened. */
  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  /** Draw what is in sight. */
  draw() {
    if (!this.scene || !this.width) return;
    this.colours ??= readColours(this.node);
    const { context: ctx, view: { x, y, k }, scene, dpr } = this;
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.fillStyle = this.colours.paper;
    ctx.fillRect(0, 0, this.width, this.height);
    ctx.setTransform(dpr * k, 0, 0, dpr * k, -x * k * dpr, -y * k * dpr);
    const sight = { left: x, top: y, right: x + this.width / k, bottom: y + this.height / k };
    drawStrokes(this, ctx, sight);
    const boxes = scene.boxes.filter((box) => box.x - 20 < sight.right && box.x + box.width + 20 > sight.left
      && box.y - 20 < sight.bottom && box.y + box.height + 20 > sight.top);
    if (k < FAR) drawFar(this, ctx, boxes);
    else for (const box of boxes) drawBox(this, ctx, box, this.#sign(box));
    drawRings(this, ctx, boxes);
  }
}

/** Return the colours of the theme. */
function readColours(node) {
  const style = getComputedStyle(node);
  const series = Array.from({ length: SERIES }, (_, i) => actionColour(i));
  const names = ["paper", "ink", "quiet", "line", "panel", "soft", "accent", "seen", "focus", "sans", ...series];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || "gray"]));
}

/** Draw the edges: solid where a feature is seen, dashed where not, and wide where many interactions pass. */
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
        // A dash in sight falls where it would if the whole line were drawn.
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
    ctx.setLineDash(seen || k < FAR / 2 ? [] : [6, 4]);
    ctx.strokeStyle = seen ? colours.seen : colours.quiet;
    ctx.lineWidth = least;
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** Draw boxes from afar: tests pale, classes in the colours of their actions. */
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
  ctx.arc(x + 20, y + height / 2, k < NEAR ? 13 : 8, 0, 2 * Math.PI);
  ctx.fill();
  if (k < NEAR) return write(graph, ctx, String(at), x + 40, y + 31, width - 50, 22, colours.ink, 600);
  write(graph, ctx, `class ${at}`, x + 36, y + 18, width - 50, 12.5, colours.ink, 650);
  write(graph, ctx, `${model.actions[action]} · ${number(tree.value[at])}`, x + 36, y + 33, width - 50, 12, colours.ink, 400);
  if (!graph.largest.has(tree)) graph.largest.set(tree, Math.max(1, ...tree.size));
  ctx.fillStyle = colours.line;
  ctx.fillRect(x + 36, y + 37.5, width - 56, 3);
  ctx.fillStyle = colours.quiet;
  return ctx.fillRect(x + 36, y + 37.5, (width - 56) * (tree.size[at] / graph.largest.get(tree)), 3);
}

/** Draw the inside of a test, and the sign that folds and unfolds it. */
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
  if (!graph.names.has(number)) graph.names.set(number, shortName(model, number));
  if (k < NEAR) write(graph, ctx, graph.names.get(number), left, y + 30, room, 18, colours.ink, 500);
  else {
    write(graph, ctx, graph.names.get(number), left, y + 20, room, 12.5, colours.ink, 600);
    if (isOpen) write(graph, ctx, graph.notes(node), left, y + 36, room, 11, colours.quiet, 400);
    else write(graph, ctx, graph.hidden(node), left, y + 36, room, 11, colours.accent, 600);
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

/** Write a text in so much room; what is too long ends in an ellipsis, which is found once. */
function write(graph, ctx, text, x, y, room, size, colour, weight) {
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

/** Draw rings around what is selected and around what was searched for. */
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
