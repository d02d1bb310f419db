// The map of the campus: the action at every spot and heading.

const TURNS = { "turn left": "↰", "turn right": "↱", forward: "↑" };
const COMPASS = { N: "north", E: "east", S: "south", W: "west" };
const SPOT_UNIT = 150;

/** Return the map of spots; every heading of a spot is a state with some views. */
function makeSpots(model, state, go) {
  const task = model.data.task;
  const good = numbers(task.good);
  const decided = task.state.map((_, i) => model.decide(model.percept(i)));
  const isGood = (i) => good[task.state[i] * model.actions.length + decided[i].action] > 0;
  const views = Array.from({ length: task.places.length * task.headings.length }, () => []);
  task.state.forEach((one, i) => views[one].push(i));
  const newest = (one) => views[one].find((i) => task.is_new[i]) ?? views[one][0];
  const nameOf = (one) => `spot ${Math.floor(one / 4)}, looking ${COMPASS[task.headings[one % 4]]}`;
  const [right, top] = [0, 1].map((axis) => Math.max(...task.places.map((place) => place[axis])));
  const placeOf = ([x, y]) => [(x + 0.55) * SPOT_UNIT, (top - y + 0.55) * SPOT_UNIT];
  const [goalSpot, goalHeading] = task.goal;
  const stateButton = (one) => {
    const [x, y] = placeOf(task.places[Math.floor(one / 4)]);
    const [dx, dy] = task.ahead[one % 4];
    const tally = (action) => views[one].filter((i) => decided[i].action === action).length;
    const common = model.actions.map((_, a) => a).sort((a, b) => tally(b) - tally(a))[0];
    const fresh = views[one].filter((i) => task.is_new[i]);
    const share = fresh.filter(isGood).length / fresh.length;
    const label = `${nameOf(one)}: ${apart(model.actions[common])}; optimal on ${percent(share, 0)} of new views`;
    const choose = () => go(["example", newest(one)]);
    return svg("g", {
      class: "state", role: "button", tabindex: one ? -1 : 0, "aria-label": label,
      transform: `translate(${x + 43 * dx} ${y - 43 * dy})`, onclick: choose,
      onkeydown: (event) => ["Enter", " "].includes(event.key) && (event.preventDefault(), choose()),
    },
    svg("title", null, label),
    svg("rect", {
      x: -20, y: -16, width: 40, height: 32, rx: 8, class: share === 1 ? "all" : share > 0.5 ? "most" : "few",
    }),
    svg("text", { class: "turn", y: share === 1 ? 6 : 1 }, TURNS[model.actions[common]] ?? String(common)),
    share === 1 ? null : svg("text", { class: "share", y: 13 }, percent(share, 0)));
  };
  const buttons = views.map((_, one) => stateButton(one));
  const map = svg("svg", {
    class: "map campus", viewBox: `0 0 ${(right + 1.75) * SPOT_UNIT} ${(top + 1.1) * SPOT_UNIT}`, role: "group",
    "aria-label": "Map of the campus. Arrow keys move between states.",
  },
  task.links.map(([a, b]) => campusWay(placeOf(task.places[a]), placeOf(task.places[b]))),
  campusGoal(placeOf(task.places[goalSpot]), task.ahead[goalHeading]),
  task.places.map((at, i) => campusSpot(placeOf(at), i)), buttons);
  byArrows(map, (dx, dy) => {
    const next = ((state.state ?? 0) + dx + 4 * dy + views.length) % views.length;
    go(["example", newest(next)]);
    buttons[next].focus();
  });
  const mark = ({ number: i }) => {
    state.state = task.state[i];
    buttons.forEach((button, one) => {
      button.setAttribute("tabindex", one === state.state ? 0 : -1);
      button.setAttribute("aria-pressed", one === state.state);
    });
  };
  const thumb = (i, now) => {
    const label = `${model.label(i)}: ${apart(model.actions[decided[i].action])}${isGood(i) ? "" : ", not optimal"}`;
    return el("button", {
      type: "button", class: "thumb", "aria-pressed": i === now, "aria-label": label, onclick: () => go(["example", i]),
    }, pictures(model, model.percept(i)),
    el("span", { class: "what" }, `${task.is_new[i] ? "new" : "learned"} ${isGood(i) ? "✓" : "✗"}`));
  };
  const pick = ([kind, text]) => {
    const i = kind === "example" ? whole(text, decided.length) : undefined;
    if (i === undefined) return null;
    const kept = task.is_new[i] ? "A new view" : "A view learned from";
    const title = isGood(i) ? kept : `${kept}: not the optimal action`;
    const others = views[task.state[i]].map((one) => el("li", null, thumb(one, i)));
    const before = [el("h3", null, `S${nameOf(task.state[i]).slice(1)}`), el("ul", { class: "views" }, others)];
    return { percept: model.percept(i), title, number: i, before };
  };
  const wrong = task.state.filter((_, i) => task.is_new[i] && !isGood(i)).length;
  const node = el("div", null, el("div", { class: "map-frame" }, map),
    el("p", { class: "legend" }, Object.entries(TURNS).map(([word, sign]) => el("span", null, `${sign} ${word}`)),
      el("span", null, "a percentage: share of new views with the optimal action, if below 100%")),
    el("p", { class: "quiet" }, "Choose a spot and a heading. The sign is the action on most of the views shown; "
      + `it is not optimal on ${number(wrong)} of the ${number(task.is_new.filter(Boolean).length)} new views shown.`));
  return { node, pick, mark, first: ["example", newest(0) ?? 0] };
}

/** Return the line between two spots. */
function campusWay([x1, y1], [x2, y2]) {
  return svg("line", { class: "way", x1, y1, x2, y2 });
}

/** Return a spot with its number. */
function campusSpot([x, y], i) {
  return svg("g", { "aria-hidden": "true" },
    svg("circle", { class: "spot", cx: x, cy: y, r: 17 }), svg("text", { class: "spot-name", x, y: y + 5 }, String(i)));
}

/** Return the goal, a building. */
function campusGoal([x, y], [dx, dy]) {
  const [left, top] = [x + 0.72 * SPOT_UNIT * dx, y - 0.72 * SPOT_UNIT * dy];
  return svg("g", { class: "goal", transform: `translate(${left} ${top})` },
    svg("path", { d: "M-30,26V-8L0,-28L30,-8V26Z" }), svg("text", { y: 14 }, "goal"));
}
