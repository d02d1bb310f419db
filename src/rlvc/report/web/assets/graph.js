// A classifier on a canvas that can be panned and zoomed. Boxes are simplified when zoomed out, and skipped
// out of sight. Hidden items describe the same nodes to screen readers.

const GRAPH_FAR = 0.26;
const GRAPH_NEAR = 0.58;
const GRAPH_ZOOM = [0.01, 3];
const ACTION_COLOURS = 6;

/** Return the custom property with the colour of an action, whose name is always written as well. */
function actionColour(action) {
  return `series-${(action % ACTION_COLOURS) + 1}`;
}

/** Return a short name of a feature for a box. */
function shortName(model, number) {
  const { kind, parts, name, least } = model.features[number];
  const isSymbol = (part) => model.features[part].kind === "symbol";
  const bare = (part) => (isSymbol(part) ? model.features[part].name.replace(/^symbol (\d+).*$/, "$1") : "…");
  const many = least === parts.length ? "all" : least === 1 ? "any" : least;
  const sorted = [...parts.filter(isSymbol), ...parts.filter((part) => !isSymbol(part))];
  const listed = () => (parts.some(isSymbol) ? sorted.map(bare).join(", ") : `${parts.length} pairs`);
  if (kind === "several") return `${many} of ${listed()}`;
  if (kind === "composite") return parts.every(isSymbol) ? `pair ${parts.map(bare).join("–")}` : "pair of features";
  return name;
}

/** A view of a scene that can be panned and zoomed, with one selected node. */
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
      class: "graph", role: "tree", tabindex: 0,
      "aria-label": "Classifier. Right: if the feature is seen; down: if it is not; left: back; "
        + "Enter folds and unfolds; plus, minus and 0 zoom.",
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

  /** Decode the patches once, so that drawing one is a copy. */
  #loadPatches() {
    const image = new Image();
    image.onload = async () => {
      this.sprite = await createImageBitmap(image);
      this.redraw();
    };
    image.src = this.model.url(this.model.policy.patches.image);
  }

  /** Show another scene; an anchor node in both keeps its position on the screen. */
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

  /** The position of a pointer on the canvas. */
  #at(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  /** The box under a pointer, or null. */
  #boxAt(event) {
    const [x, y] = this.#at(event);
    const [wx, wy] = [this.view.x + x / this.view.k, this.view.y + y / this.view.k];
    const isIn = (at, from, size) => at >= from - 6 && at <= from + size + 6;
    return this.scene?.boxes.find((box) => isIn(wx, box.x, box.width) && isIn(wy, box.y, box.height)) ?? null;
  }

  /** The test whose fold sign is under a pointer, or null; a finger needs a larger target than a mouse. */
  #signAt(event) {
    const { k } = this.view;
    if (k < GRAPH_FAR) return null;
    const [x, y] = this.#at(event);
    const reach = Math.max(8 * k, Math.min(event.pointerType === "touch" ? 20 : 16, 23 * k));
    const isNear = (box) => {
      const [sx, sy] = this.#sign(box);
      return Math.hypot((sx - this.view.x) * k - x, (sy - this.view.y) * k - y) <= reach;
    };
    return this.scene?.boxes.find((box) => this.scene.tree.feature[box.node] !== LEAF && isNear(box)) ?? null;
  }

  /** The position of the fold sign of a test. */
  #sign(box) {
    const { x, y, width, height } = box;
    return this.scene.isOutline ? [x + width, y + height / 2] : [x + width / 2, y + height];
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
      const gap = (at) => Math.max(10, Math.hypot(at[0] - other[0], at[1] - other[1]));
      const middle = [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2];
      this.pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
      this.zoom(gap(here) / gap(before), ...middle);
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

  /** Show a tooltip for the node under the pointer. */
  #hover(event) {
    const box = this.#signAt(event) ?? this.#boxAt(event);
    this.canvas.style.cursor = box ? "pointer" : "";
    const text = box ? this.model.features[this.scene.tree.feature[box.node]]?.name ?? "" : "";
    if (this.canvas.title !== text) this.canvas.title = text;
  }

  /** Pan by some pixels. */
  pan(dx, dy) {
    this.view.x -= dx / this.view.k;
    this.view.y -= dy / this.view.k;
    this.#keep();
  }

  /** Zoom around a point of the canvas, by default its middle. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const k = Math.min(GRAPH_ZOOM[1], Math.max(GRAPH_ZOOM[0], this.view.k * factor));
    this.view.x += x / this.view.k - x / k;
    this.view.y += y / this.view.k - y / k;
    this.view.k = k;
    this.#keep();
  }

  /** Keep the graph in sight: its box always covers the middle of the canvas. */
  #keep() {
    const { scene, view } = this;
    const [w, h] = [this.width / view.k, this.height / view.k];
    view.x = Math.min(scene.width - w / 2, Math.max(-w / 2, view.x));
    view.y = Math.min(scene.height - h / 2, Math.max(-h / 2, view.y));
    this.redraw();
  }

  /** Show the whole graph, as large as possible. */
  fit() {
    const { scene, view } = this;
    const largest = Math.min((this.width - 32) / scene.width, (this.height - 32) / scene.height);
    view.k = Math.min(1.2, Math.max(GRAPH_ZOOM[0], largest));
    view.x = scene.width / 2 - this.width / view.k / 2;
    view.y = scene.height / 2 - this.height / view.k / 2;
    this.redraw();
  }

  /** Show the root at the top at a legible size, with as many columns as fit. */
  start() {
    const { scene, view } = this;
    view.k = Math.min(1, Math.max(0.85, (this.width - 40) / scene.width));
    const root = scene.boxes[scene.at.get(0)];
    view.x = scene.isOutline ? -20 / view.k : root.x + root.width / 2 - this.width / view.k / 2;
    view.y = -20 / view.k;
    this.redraw();
  }

  /** Bring a node into sight, or to the middle. */
  reveal(node, { centre = false } = {}) {
    const box = this.scene.boxes[this.scene.at.get(node)];
    if (!box || !this.width) return;
    const { view } = this;
    if (centre && view.k < GRAPH_NEAR) view.k = 0.9;
    const [w, h, margin] = [this.width / view.k, this.height / view.k, 26 / view.k];
    if (centre) [view.x, view.y] = [box.x + box.width / 2 - w / 2, box.y + box.height / 2 - h / 2];
    view.x = Math.min(box.x - margin, Math.max(box.x + box.width + margin - w, view.x));
    view.y = Math.min(box.y - margin, Math.max(box.y + box.height + margin - h, view.y));
    this.redraw();
  }

  /** Match the size of the element in device pixels. */
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

  /** Schedule a redraw, at most one per frame. */
  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  /** Draw the visible part. */
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
    if (k < GRAPH_FAR) drawFar(this, ctx, boxes);
    else for (const box of boxes) drawBox(this, ctx, box, this.#sign(box));
    drawRings(this, ctx, boxes);
  }
}
