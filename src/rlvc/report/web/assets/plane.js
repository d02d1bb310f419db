// The map of the hill: the action at every position and velocity.

const PLANE = { width: 720, height: 420, left: 52, top: 12, across: 66, down: 58 };
const THRUSTS = [[242, 201, 168], [130, 185, 224]];

/** Return the plane of positions and velocities; each point is a pair of images. */
function makePlane(model, state, go) {
  const task = model.data.task;
  const [ground, gauge, good, best] = [task.columns, task.rows, task.good, task.best].map(numbers);
  const columns = Math.ceil(ground.length / task.every_column);
  const rows = Math.ceil(gauge.length / task.every_row);
  const [width, height] = [ground.length - 1, gauge.length - 1];
  const perceptAt = (column, row) => {
    const images = [];
    images[task.ground] = ground[column];
    images[task.gauge] = gauge[row];
    return { number: -1, images };
  };
  const cellAt = (i) => perceptAt((i % columns) * task.every_column, Math.floor(i / columns) * task.every_row);
  const isGood = (i) => good[i * model.actions.length + decided[i].action] > 0;
  const at = (range, n, i) => range[0] + ((range[1] - range[0]) * i) / n;
  const upwards = (i) => (rows - 1 - Math.floor(i / columns)) * columns + (i % columns);
  const layer = svg("g");
  const chosen = svg("g", { class: "chosen" });
  const [wide, high] = [PLANE.width + PLANE.across, PLANE.height + PLANE.down];
  const map = svg("svg", {
    class: "map plane", viewBox: `${-PLANE.left} ${-PLANE.top} ${wide} ${high}`, style: `--aspect:${wide / high}`,
    tabindex: 0, role: "application", "aria-roledescription": "map",
    "aria-label": "Map of positions and velocities. Arrow keys move the selected state; with shift, farther.",
  }, layer, planeAxes(task), chosen);
  const scale = el("div");
  let decided = null;
  let highest = 0;
  const draw = (mode) => {
    if (!decided) return void fill(scale, el("p", { class: "legend" }, "Loading …"));
    const value = mode === 1 ? (i) => decided[i].value : (i) => best[i];
    const right = decided.filter((_, i) => isGood(i)).length / decided.length;
    fill(scale, mode ? valueScale(0, highest) : planeLegend(model.actions, right));
    const colour = mode ? (i) => shade(Math.sqrt(Math.max(value(i), 0) / (highest || 1)))
      : (i) => THRUSTS[decided[i].action].map((one) => (isGood(i) ? one : Math.round(0.45 * one)));
    const url = cellImage(columns, rows, (i) => colour(upwards(i)));
    const size = { width: PLANE.width, height: PLANE.height, preserveAspectRatio: "none" };
    fill(layer, svg("image", { href: url, class: "heat", ...size }));
  };
  const mark = ({ column, row }) => {
    const [cx, cy] = [(PLANE.width * column) / width, PLANE.height - (PLANE.height * row) / height];
    fill(chosen, ["under", "over"].flatMap((tone) => [
      svg("path", { class: tone, d: `M0,${cy}H${PLANE.width}M${cx},0V${PLANE.height}` }),
      svg("circle", { class: tone, cx, cy, r: 7 })]));
    [state.column, state.row] = [column, row];
  };
  const clamp = (value, top) => Math.min(Math.max(Math.round(value), 0), top);
  const goTo = (column, row) => {
    const [i, j] = [clamp(column, width), clamp(row, height)];
    if (i === state.column && j === state.row) return;
    go([at(task.position, width, i).toFixed(4), at(task.velocity, height, j).toFixed(4)]);
  };
  byPointer(map, (x, y) => goTo((x / PLANE.width) * width, (1 - y / PLANE.height) * height));
  byArrows(map, (dx, dy) => goTo(state.column + 4 * dx, state.row - 2 * dy));
  const back = (range, n, value) => clamp(((value - range[0]) / (range[1] - range[0])) * n, n);
  const cellOf = (args) => {
    const point = pointOf(args);
    if (point) return [back(task.position, width, point[0]), back(task.velocity, height, point[1])];
    const i = args[0] === "example" ? whole(args[1], model.nPercepts) : undefined;
    if (i === undefined) return null;
    const { images } = model.percept(i);
    const found = [ground.indexOf(images[task.ground]), gauge.indexOf(images[task.gauge])];
    return found.includes(-1) ? null : found;
  };
  const pick = (args) => {
    const found = cellOf(args);
    if (!found) return null;
    const [column, row] = found;
    const [position, velocity] = [at(task.position, width, column), at(task.velocity, height, row)];
    const title = `Position ${number(position, 3)}, velocity ${number(velocity, 3)}`;
    return { percept: { ...perceptAt(column, row), title }, title, column, row };
  };
  const node = el("div", null, modes(["Actions", "Values learned", "Values, optimal"], state, draw),
    el("div", { class: "map-frame" }, map), scale,
    el("p", { class: "quiet" }, "Click anywhere to see the images of both cameras there, and why the policy acts as it does. "
      + "Values are drawn on a square-root scale, as they fall by a quarter with every step."));
  draw(state.mode);
  decideAll(model, state, columns * rows, cellAt, (all) => {
    decided = all;
    highest = all.reduce((most, { value }) => Math.max(most, value), best.reduce((a, b) => Math.max(a, b), 0));
    draw(state.mode);
  });
  return { node, pick, mark, first: ["-0.5", "0"] };
}

/** Return the legend of the actions. */
function planeLegend(actions, right) {
  const swatch = (a) => el("i", { class: "swatch", style: `background:rgb(${THRUSTS[a].join(" ")})` });
  return el("p", { class: "legend" },
    actions.map((name, a) => el("span", null, swatch(a), `${a ? "→" : "←"} thrusts ${name}`)),
    el("span", null, el("i", { class: "swatch dark" }), `darker: not optimal (${percent(1 - right)})`));
}

/** Return the axes of the plane, with ticks and names. */
function planeAxes(task) {
  const { width, height } = PLANE;
  const ticks = (range, n) => Array.from({ length: n }, (_, i) => range[0] + ((range[1] - range[0]) * i) / (n - 1));
  const below = (x, y, text) => svg("text", { x, y, "text-anchor": "middle" }, text);
  const beside = (y, text) => svg("text", { x: -8, y, "text-anchor": "end" }, text);
  return svg("g", { class: "axes", "aria-hidden": "true" },
    svg("rect", { width, height, fill: "none" }),
    ticks(task.position, 5).map((value, i) => below((width * i) / 4, height + 18, number(value, 1))),
    ticks(task.velocity, 7).map((value, i) => beside(height - (height * i) / 6 + 4, number(value, 0))),
    below(width / 2, height + 40, "position"),
    svg("text", { transform: `translate(-38 ${height / 2}) rotate(-90)`, "text-anchor": "middle" }, "velocity"));
}
