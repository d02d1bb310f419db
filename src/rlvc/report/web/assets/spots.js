// The map of the campus: what it does at every spot, looking north, east, south and west.

const TURNS = { "turn left": "↰", "turn right": "↱", forward: "↑" };
const COMPASS = { N: "north", E: "east", S: "south", W: "west" };

/** Return the map of spots; every heading of a spot is a state that has some views. */
function makeSpots(model, state, go) {
  const task = model.data.task;
  const good = numbers(task.good);
  const n = model.actions.length;
  const decided = task.state.map((_, i) => model.decide(model.percept(i)));
  const isGood = (i) => good[task.state[i] * n + decided[i].action] > 0;
  const views = Array.from({ length: task.places.length * task.headings.length }, () => []);
  task.state.forEach((one, i) => views[one].push(i));
  const name = (one) => `spot ${Math.floor(one / 4)}, looking ${COMPASS[task.headings[one % 4]]}`;
  const [unit, top] = [150, Math.max(...task.places.map(([, y]) => y))];
  const place = ([x, y]) => [(x + 0.55) * unit, (top - y + 0.55) * unit];
  const buttons = new Map();
  const [goalSpot, goalHeading] = task.goal;
  const map = svg("svg", { class: "map campus", viewBox: `0 0 ${(Math.max(...task.places.map(([x]) => x)) + 1.75) * unit} ${(top + 1.1) * unit}`, role: "group",
    "aria-label": "Map of the campus. Arrow keys go from one state to the next." },
    task.links.map(([a, b]) => { const [[x1, y1], [x2, y2]] = [place(task.places[a]), place(task.places[b])]; return svg("line", { class: "way", x1, y1, x2, y2 }); }),
    goal(place(task.places[goalSpot]), task.ahead[goalHeading], unit),
    task.places.map((at, i) => { const [x, y] = place(at); return svg("g", { "aria-hidden": "true" }, svg("circle", { class: "spot", cx: x, cy: y, r: 17 }), svg("text", { class: "spot-name", x, y: y + 5 }, String(i))); }),
    views.map((some, one) => {
      const [x, y] = place(task.places[Math.floor(one / 4)]);
      const [dx, dy] = task.ahead[one % 4];
      const tally = n => some.filter((i) => decided[i].action === n).length;
      const common = model.actions.map((_, a) => a).sort((a, b) => tally(b) - tally(a))[0];
      const fresh = some.filter((i) => task.is_new[i]);
      const share = fresh.filter(isGood).length / fresh.length;
      const label = `${name(one)}: ${model.actions[common]}; optimal on ${percent(share, 0)} of new views`;
      const button = svg("g", { class: "state", role: "button", tabindex: one ? -1 : 0, "aria-label": label, transform: `translate(${x + 43 * dx} ${y - 43 * dy})`,
        onclick: () => go(["example", fresh[0] ?? some[0]]), onkeydown: (event) => ["Enter", " "].includes(event.key) && (event.preventDefault(), go(["example", fresh[0] ?? some[0]])) },
        svg("title", null, label), svg("rect", { x: -20, y: -16, width: 40, height: 32, rx: 8, class: share === 1 ? "all" : share > 0.5 ? "most" : "few" }),
        svg("text", { class: "turn", y: share === 1 ? 6 : 1 }, TURNS[model.actions[common]] ?? String(common)), share === 1 ? null : svg("text", { class: "share", y: 13 }, percent(share, 0)));
      buttons.set(one, button);
      return button;
    }));
  byArrows(map, (dx, dy) => {
    const now = state.state ?? 0;
    const next = (now + dx + 4 * dy + views.length) % views.length;
    go(["example", views[next].find((i) => task.is_new[i]) ?? views[next][0]]);
    buttons.get(next).focus();
  });
  const mark = ({ number: i }) => {
    state.state = task.state[i];
    for (const [one, button] of buttons) {
      button.setAttribute("tabindex", one === state.state ? 0 : -1);
      button.setAttribute("aria-pressed", one === state.state);
    }
  };
  const strip = (now) => el("ul", { class: "views" }, views[task.state[now]].map((i) => el("li", null,
    el("button", { type: "button", class: "thumb", "aria-pressed": i === now, "aria-label": `${model.label(i)}: ${model.actions[decided[i].action]}${isGood(i) ? "" : ", not optimal"}`, onclick: () => go(["example", i]) },
      pictures(model, model.percept(i)), el("span", { class: "what" }, `${task.is_new[i] ? "new" : "learned"} ${isGood(i) ? "✓" : "✗"}`)))));
  const pick = ([, text]) => {
    const i = Number(text);
    if (!(i in decided)) return null;
    const before = [el("h3", null, `S${name(task.state[i]).slice(1)}`), strip(i)];
    return { percept: model.percept(i), title: `${task.is_new[i] ? "A new view" : "A view learned from"}${isGood(i) ? "" : ": not the optimal action"}`, number: i, before };
  };
  const wrong = task.state.filter((_, i) => task.is_new[i] && !isGood(i)).length;
  const node = el("div", null, el("div", { class: "map-frame" }, map),
    el("p", { class: "legend" }, Object.entries(TURNS).map(([word, sign]) => el("span", null, `${sign} ${word}`)), el("span", null, "a share: not optimal on all new views")),
    el("p", { class: "quiet" }, `Choose a spot and a heading. The sign is the action taken on most of the views shown; on ${number(wrong)} of ${number(task.is_new.filter(Boolean).length)} new views shown it is not optimal.`));
  return { node, pick, mark, first: ["example", views[0].find((i) => task.is_new[i]) ?? 0] };
}

/** Return the building that is looked for. */
function goal([x, y], [dx, dy], unit) {
  return svg("g", { class: "goal", transform: `translate(${x + 0.72 * unit * dx} ${y - 0.72 * unit * dy})` },
    svg("path", { d: "M-30,26V-8L0,-28L30,-8V26Z" }), svg("text", { y: 14 }, "goal"));
}
