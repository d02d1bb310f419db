// The map of the maze and of the subway: actions or values on the picture that the agent walks over.

const SLICE = 50;  // milliseconds

/** Return the map of a world, with a percept at every position of its grid. */
function makeWorld(model, state, go) {
  const task = model.data.task;
  const { width, height, margin, columns, rows } = task;
  const [cells, xs, ys, good, best] = [task.cells, task.x, task.y, task.good ?? [], task.best ?? []].map(numbers);
  const isKnown = good.length > 0;  // the optimum is not known while a run is in progress
  const isGood = (i) => !isKnown || good[i * model.actions.length + decided[i].action] > 0;
  const ground = model.data.images[model.cameras[0].file];
  const layer = svg("g");
  const chosen = svg("g", { class: "chosen" });
  const map = svg("svg", {
    class: "map", viewBox: `0 0 ${width} ${height}`, style: `--aspect:${width / height}`,
    tabindex: 0, role: "application", "aria-roledescription": "map",
    "aria-label": "Map of the world. Arrow keys move the selected position; with shift, farther.",
  },
  svg("image", {
    href: model.url(model.cameras[0].file), x: -margin, y: -margin, width: ground.width, height: ground.height,
  }),
  layer, worldExits(task.exits), worldWalls(task.walls), chosen);
  const scale = el("div");
  let decided = null;
  let high = 0;
  const draw = (mode) => {
    if (!decided) return void fill(scale, el("p", { class: "legend" }, "Loading …"));
    if (!mode) {
      const share = isKnown ? decided.filter((_, i) => isGood(i)).length / decided.length : null;
      fill(scale, worldLegend(share));
      return void fill(layer, arrows());
    }
    const value = mode === 1 ? (i) => decided[i].value : (i) => best[i];
    const url = cellImage(columns, rows, (i) => (cells[i] >= 0 ? shade(value(cells[i]) / (high || 1)) : null));
    fill(scale, valueScale(0, high));
    fill(layer, svg("image", { href: url, width, height, preserveAspectRatio: "none", class: "heat" }));
  };
  const arrows = () => {
    const room = Math.min(window.innerWidth - 30, 840 * Math.max(1, width / height / 2));
    const step = Math.max(1, Math.round((28 * columns) / room));
    const length = (0.36 * step * width) / columns;
    const paths = { good: "", other: "" };
    for (let row = step >> 1; row < rows; row += step)
      for (let column = step >> 1; column < columns; column += step) {
        const i = cells[row * columns + column];
        if (i < 0) continue;
        const way = task.moves[decided[i].action];
        paths[isGood(i) ? "good" : "other"] += worldArrow(xs[i], ys[i], way, length, isGood(i));
      }
    return Object.entries(paths).flatMap(([kind, d]) =>
      [svg("path", { class: "arrow under", d }), svg("path", { class: `arrow ${kind}`, d })]);
  };
  const mark = ({ number: i }) => {
    const side = model.cameras[0].width;
    fill(chosen, ["under", "over"].flatMap((tone) => [
      svg("rect", { class: tone, x: xs[i] - side / 2, y: ys[i] - side / 2, width: side, height: side }),
      svg("circle", { class: tone, cx: xs[i], cy: ys[i], r: width > 2000 ? 16 : 12 })]));
    state.number = i;
  };
  const nearest = ([x, y]) => {
    const far = (i) => Math.hypot(xs[i] - x, ys[i] - y);
    let found = 0;
    for (let i = 1; i < xs.length; i++) if (far(i) < far(found)) found = i;
    return found;
  };
  const goTo = (x, y) => {
    const i = nearest([x, y]);
    if (i !== state.number) go([xs[i].toFixed(0), ys[i].toFixed(0)]);
  };
  byPointer(map, goTo);
  byArrows(map, (dx, dy) =>
    goTo(xs[state.number] + (dx * width) / columns, ys[state.number] + (dy * height) / rows));
  const pick = (args) => {
    const at = pointOf(args);
    const i = args[0] === "example" ? whole(args[1], xs.length) : at ? nearest(at) : undefined;
    if (i === undefined) return null;
    return { percept: model.percept(i), title: `At (${xs[i].toFixed(0)}, ${ys[i].toFixed(0)})`, number: i };
  };
  const names = ["Actions", "Values learned", ...(isKnown ? ["Values, optimal"] : [])];
  const node = el("div", null, modes(names, state, draw),
    el("div", { class: "map-frame", tabindex: width > 2 * height ? 0 : null }, map), scale,
    el("p", { class: "quiet" }, "Click anywhere to see the percept there, and why the policy acts as it does, "
      + `at the nearest of ${number(xs.length)} positions.`));
  draw(state.mode);
  decideAll(model, state, xs.length, (i) => model.percept(i), (all) => {
    decided = all;
    high = all.reduce((most, { value }) => Math.max(most, value), best.reduce((a, b) => Math.max(a, b), 0));
    draw(state.mode);
  });
  return { node, pick, mark, first: [width / 2, height / 2] };
}

/** Decide on many percepts in short slices, so that the page stays responsive; call `done` at the end. */
function decideAll(model, state, n, perceptAt, done) {
  const decided = [];
  const turn = (state.turn = {});  // a rebuilt page starts again
  const decideSome = () => {
    if (state.turn !== turn) return;
    const end = performance.now() + SLICE;
    while (decided.length < n && performance.now() < end) decided.push(model.decide(perceptAt(decided.length)));
    if (decided.length < n) setTimeout(decideSome);
    else done(decided);
  };
  decideSome();
}

/** Return the two numbers of a route, or null if these are not numbers. */
function pointOf([x, y]) {
  const found = [x, y].map((one) => (String(one ?? "").trim() ? Number(one) : NaN));
  return found.every(Number.isFinite) ? found : null;
}

/** Return the path of an arrow; a ring marks actions that are not optimal without relying on colour. */
function worldArrow(x, y, [dx, dy], length, isGood) {
  const [fx, fy] = [x - length * dx, y - length * dy];
  const [tx, ty] = [x + length * dx, y + length * dy];
  const head = 0.55 * length;
  const [ax, ay] = [tx - head * dx, ty - head * dy];
  const r = 0.22 * length;
  const ring = isGood ? "" : `M${fx - r},${fy}a${r},${r} 0 1,0 ${2 * r},0a${r},${r} 0 1,0 ${-2 * r},0`;
  const tip = `M${ax - head * dy},${ay + head * dx}L${tx},${ty}L${ax + head * dy},${ay - head * dx}`;
  return `${ring}M${fx},${fy}L${tx},${ty}${tip}`;
}

/** Return walls of glass. */
function worldWalls(segments) {
  return svg("g", { class: "walls" }, ["under", "over", "light"].flatMap((tone) =>
    segments.map(([[x1, y1], [x2, y2]]) => svg("line", { class: tone, x1, y1, x2, y2 }))));
}

/** Return the exits as crossed boxes. */
function worldExits(boxes) {
  return svg("g", { class: "exits" }, boxes.flatMap(([x, y, x1, y1]) => [
    svg("rect", { x, y, width: x1 - x, height: y1 - y }),
    svg("path", { d: `M${x},${y}L${x1},${y1}M${x1},${y}L${x},${y1}` })]));
}

/** Return the legend of the arrows. */
function worldLegend(share) {
  const signs = share === null ? [el("span", null, "→ action of the policy so far")]
    : [el("span", null, `→ optimal decision (${percent(share)})`),
      el("span", { class: "other" }, "o→ not optimal")];
  return el("p", { class: "legend" }, signs,
    el("span", null, "blue: walls of glass"), el("span", null, "crossed: exits"));
}
