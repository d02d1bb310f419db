// The policy on the task: a map or a list of percepts, and the explanation of a selected percept.

const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const KINDS = { world: makeWorld, spots: makeSpots, plane: makePlane, custom: makeStrip };

/** Return the view of the policy: percepts to select, and the explanation of the action. */
function makeTaskView(model, state) {
  const details = el("div", { class: "panel details" });
  const status = el("p", { class: "unseen", role: "status" });
  const left = el("div", { class: "places" });
  const node = el("div", { class: "beside" }, left, details, status);
  let place = null;
  const ask = (args) => {
    const found = place.pick(args);
    if (!found) return void fill(details, el("p", { class: "quiet" }, "This page has no such percept."));
    state.args = args;
    place.mark(found);
    fill(details, ...(found.before ?? []), explanation(model, found.percept, found.title));
    const { action, value } = model.decide(found.percept);
    const said = `${found.title}: ${model.actions[action]}, value ${decimal(value)}`;
    if (state.said !== said) status.textContent = state.said = said;
  };
  const go = (args) => {
    history.replaceState(null, "", `#at/${args.join("/")}`);
    ask(args);
    const isBelow = details.getBoundingClientRect().top > window.innerHeight - 80;
    if (isBelow) details.scrollIntoView({ block: "start" });
  };
  const show = (route) => {
    if (!place) {
      place = KINDS[model.data.task.kind](model, state, go);
      fill(left, place.node);
    }
    const args = route[0] === "at" ? route.slice(1) : state.args ?? place.first;
    if (args) ask(args);
    else fill(details, el("p", { class: "quiet" }, place.empty ?? "Nothing to show."));
  };
  return { node, show };
}

/** Return a colour of a scale of increasing lightness, which can be read without colours. */
function shade(share) {
  const at = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const i = Math.min(Math.floor(at), VIRIDIS.length - 2);
  return VIRIDIS[i].map((one, k) => Math.round(one + (at - i) * (VIRIDIS[i + 1][k] - one)));
}

/** Return the URL of an image of cells, each with a colour [r, g, b] or null for none. */
function cellImage(columns, rows, colour) {
  const canvas = el("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (let i = 0; i < columns * rows; i++) {
    const found = colour(i);
    if (found) image.data.set([...found, 255], 4 * i);
  }
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

/** Return buttons that select what a map shows. */
function modes(names, state, change) {
  state.mode = Math.min(state.mode ?? 0, names.length - 1);
  const buttons = names.map((name, i) => el("button", { type: "button", "aria-pressed": i === state.mode, onclick: () => {
    state.mode = i;
    buttons.forEach((button, k) => button.setAttribute("aria-pressed", k === i));
    change(i);
  } }, name));
  return el("div", { class: "toolbar", role: "group", "aria-label": "What the map shows" }, buttons);
}

/** Return a scale from the lowest to the highest value. */
function valueScale(low, high) {
  const stops = Array.from({ length: 9 }, (_, i) => `rgb(${shade(i / 8).join(" ")}) ${12.5 * i}%`);
  return el("p", { class: "scale" }, el("span", null, number(low, 1)),
    el("span", { class: "ramp", style: `background:linear-gradient(90deg, ${stops.join(", ")})` }), el("span", null, `${number(high, 1)} value V`));
}

/** Call `move(dx, dy)` for arrow keys. */
function byArrows(target, move) {
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  target.addEventListener("keydown", (event) => {
    if (!steps[event.key]) return;
    event.preventDefault();
    const [dx, dy] = steps[event.key];
    move(dx * (event.shiftKey ? 5 : 1), dy * (event.shiftKey ? 5 : 1));
  });
}

/** Call `pick(x, y)` with the point under a pointer, in the units of an SVG drawing. */
function byPointer(target, pick) {
  const at = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(target.getScreenCTM().inverse());
    pick(point.x, point.y);
  };
  target.addEventListener("click", at);
  target.addEventListener("pointermove", (event) => event.buttons === 1 && event.pointerType === "mouse" && at(event));
}

/** Return a list of example percepts, for a task without a map. */
function makeStrip(model, state, go) {
  const { count } = model.data.task;
  if (!model.nPercepts) {
    const empty = "This run has no example percepts; learn again with this version of rlvc to see them here.";
    return { node: el("div", { class: "panel" }, el("p", null, empty)), pick: () => null, mark() {}, first: null, empty };
  }
  state.action ??= "all";
  const list = el("ul", { class: "strip" });
  const decided = Array.from({ length: model.nPercepts }, (_, i) => model.decide(model.percept(i)));
  const choice = el("select", { onchange: () => { state.action = choice.value; draw(); } },
    ["all", ...model.actions].map((name, i) => el("option", { value: i ? i - 1 : "all", selected: String(i ? i - 1 : "all") === state.action },
      i ? `where it takes ${name} (${decided.filter((one) => one.action === i - 1).length})` : `all ${model.nPercepts} percepts`)));
  const buttons = new Map();
  let chosen = null;
  const draw = () => {
    buttons.clear();
    fill(list, decided.flatMap(({ action, value }, i) => {
      if (state.action !== "all" && String(action) !== state.action) return [];
      const button = el("button", { type: "button", class: "thumb", tabindex: buttons.size ? -1 : 0, "data-card": i, onclick: () => go(["example", i]) },
        pictures(model, model.percept(i)), el("span", { class: "what" }, model.actions[action]), " ",
        el("span", { class: "quiet" }, decimal(value)), el("span", { class: "unseen" }, ` met ${several(count[i], "time")}`));
      buttons.set(i, button);
      return [el("li", null, button)];
    }));
    if (buttons.has(chosen)) mark({ number: chosen });
  };
  byArrows(list, (dx, dy) => {
    const shown = [...buttons.keys()];
    const width = Math.max(1, shown.findIndex((i) => buttons.get(i).offsetTop > buttons.get(shown[0]).offsetTop));
    const next = shown[shown.indexOf(chosen) + dx + dy * width];
    if (next !== undefined) go(["example", next]), buttons.get(next).focus();
  });
  const mark = ({ number: now }) => {
    for (const [i, button] of buttons) {
      button.setAttribute("aria-pressed", i === now);
      button.tabIndex = i === now || (!buttons.has(now) && i === [...buttons.keys()][0]) ? 0 : -1;
    }
    chosen = now;
  };
  draw();
  const node = el("div", null, el("div", { class: "toolbar" }, el("label", null, "Show ", choice)), list,
    el("p", { class: "quiet" }, "Percepts of the database, some of every visual class. Select one to see why the policy acts as it does."));
  const pick = ([, text]) => {
    const number = whole(text, decided.length);
    return number !== undefined ? { percept: model.percept(number), title: `${model.label(number)}, met ${several(count[number], "time")}`, number } : null;
  };
  return { node, pick, mark, first: ["example", 0] };
}
