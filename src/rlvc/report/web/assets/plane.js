// The map of the hill: which way the car thrusts at every position and velocity.

/** Return the plane of positions and velocities; every one is a pair of images. */
function makePlane(model, state, go) {
  const task = model.data.task;
  const [ground, gauge, good, best] = [task.columns, task.rows, task.good, task.best].map(numbers);
  const [columns, rows] = [Math.ceil(ground.length / task.every_column), Math.ceil(gauge.length / task.every_row)];
  const [width, height] = [ground.length - 1, gauge.length - 1];
  const perceptAt = (column, row) => {
    const images = [];
    images[task.ground] = ground[column];
    images[task.gauge] = gauge[row];
    return { number: -1, images };
  };
  const decided = [];
  for (let j = 0; j < rows; j++) for (let i = 0; i < columns; i++) decided.push(model.decide(perceptAt(i * task.every_column, j * task.every_row)));
  const isGood = (i) => good[i * model.actions.length + decided[i].action] > 0;
  const at = (range, n, i) => range[0] + ((range[1] - range[0]) * i) / n;
  const [scaleX, scaleY] = [720, 420];
  const upwards = (i) => (rows - 1 - Math.floor(i / columns)) * columns + (i % columns);
  const layer = svg("g");
  const chosen = svg("g", { class: "chosen" });
  const map = svg("svg", { class: "map plane", viewBox: `-52 -12 ${scaleX + 66} ${scaleY + 58}`, style: `--aspect:${(scaleX + 66) / (scaleY + 58)}`, tabindex: 0, role: "application", "aria-roledescription": "map",
    "aria-label": "Map of positions and velocities. Arrow keys move the state that is asked about; with shift, farther." }, layer, planeAxes(task, scaleX, scaleY), chosen);
  const values = [decided.map((one) => one.value), best];
  const high = Math.max(...best, ...values[0].slice(0, 1));
  const colours = [[242, 201, 168], [130, 185, 224]];
  const right = decided.filter((_, i) => isGood(i)).length / decided.length;
  const scale = el("div");
  const draw = (mode) => {
    fill(scale, mode ? valueScale(0, high) : el("p", { class: "legend" },
      model.actions.map((name, a) => el("span", null, el("i", { class: "swatch", style: `background:rgb(${colours[a].join(" ")})` }), `${a ? "→" : "←"} thrusts ${name}`)),
      el("span", null, el("i", { class: "swatch dark" }), `darker: not optimal (${percent(1 - right)})`)));
    const colour = mode ? (i) => shade(Math.sqrt(Math.max(values[mode - 1][i], 0) / (high || 1)))
      : (i) => colours[decided[i].action].map((one) => (isGood(i) ? one : Math.round(0.45 * one)));
    const url = cellImage(columns, rows, (i) => colour(upwards(i)));
    fill(layer, svg("image", { href: url, width: scaleX, height: scaleY, preserveAspectRatio: "none", class: "heat" }));
  };
  const mark = ({ column, row }) => {
    const [cx, cy] = [(scaleX * column) / width, scaleY - (scaleY * row) / height];
    fill(chosen, ["under", "over"].flatMap((tone) => [
      svg("path", { class: tone, d: `M0,${cy}H${scaleX}M${cx},0V${scaleY}` }), svg("circle", { class: tone, cx, cy, r: 7 })]));
    [state.column, state.row] = [column, row];
  };
  const clamp = (value, top) => Math.min(Math.max(Math.round(value), 0), top);
  const goto = (column, row) => {
    const [i, j] = [clamp(column, width), clamp(row, height)];
    if (i !== state.column || j !== state.row) go([at(task.position, width, i).toFixed(4), at(task.velocity, height, j).toFixed(4)]);
  };
  byPointer(map, (x, y) => goto((x / scaleX) * width, ((scaleY - y) / scaleY) * height));
  byArrows(map, (dx, dy) => goto(state.column + 4 * dx, state.row - 2 * dy));
  const back = (range, n, value) => clamp(((value - range[0]) / (range[1] - range[0])) * n, n);
  const pick = (args) => {
    let [column, row] = [back(task.position, width, Number(args[0])), back(task.velocity, height, Number(args[1]))];
    if (args[0] === "example") {
      const percept = model.percept(Number(args[1]));
      if (!(Number(args[1]) < model.nPercepts)) return null;
      [column, row] = [ground.indexOf(percept.images[task.ground]), gauge.indexOf(percept.images[task.gauge])];
    }
    if (!Number.isFinite(column) || !Number.isFinite(row)) return null;
    const title = `Position ${number(at(task.position, width, column), 3)}, velocity ${number(at(task.velocity, height, row), 3)}`;
    return { percept: { ...perceptAt(column, row), title }, title, column, row };
  };
  const node = el("div", null, modes(["Actions", "Values learned", "Values, optimal"], state, draw), el("div", { class: "map-frame" }, map), scale,
    el("p", { class: "quiet" }, "Click anywhere: what both cameras show there, and why it thrusts as it does. Values are drawn by their square roots, for they fall by a quarter with every step."));
  draw(state.mode);
  return { node, pick, mark, first: ["-0.5", "0"] };
}

/** Return the axes of the plane, with ticks and names. */
function planeAxes(task, width, height) {
  const ticks = (range, n) => Array.from({ length: n }, (_, i) => range[0] + ((range[1] - range[0]) * i) / (n - 1));
  return svg("g", { class: "axes", "aria-hidden": "true" },
    svg("rect", { width, height, fill: "none" }),
    ticks(task.position, 5).map((value, i) => svg("text", { x: (width * i) / 4, y: height + 18, "text-anchor": "middle" }, number(value, 1))),
    ticks(task.velocity, 7).map((value, i) => svg("text", { x: -8, y: height - (height * i) / 6 + 4, "text-anchor": "end" }, number(value, 0))),
    svg("text", { x: width / 2, y: height + 40, "text-anchor": "middle" }, "position"),
    svg("text", { transform: `translate(-38 ${height / 2}) rotate(-90)`, "text-anchor": "middle" }, "velocity"));
}
