// Images of percepts, patches of features, and the explanation of an action on a percept.

/** Return the patch of a feature; for several features, the first one's and small ones of the others. */
function patch(model, number, { size = 40, seen = null } = {}) {
  const feature = model.features[number];
  const one = (at, side, faded) => {
    const { image, side: cell, columns } = model.policy.patches;
    const zoom = side / cell;
    const { width, height } = model.data.images[image];
    const place = model.features[at].patch;
    const [x, y] = [(place % columns) * side, Math.floor(place / columns) * side];
    const style = [
      `width:${side}px;height:${side}px`, `background-image:url(${model.url(image)})`,
      `background-size:${width * zoom}px ${height * zoom}px`, `background-position:-${x}px -${y}px`,
    ];
    return el("span", { class: faded ? "patch faded" : "patch", style: style.join(";") });
  };
  const faded = (at) => seen !== null && !seen.includes(at);
  if (feature.kind !== "several")
    return el("span", { class: "patches", "aria-hidden": "true" }, one(number, size, faded(number)));
  const [first, ...others] = feature.parts;
  return el(
    "span", { class: "patches", "aria-hidden": "true" }, one(first, size, faded(first)),
    el("span", { class: "stand-ins", style: `max-height:${size}px` },
      others.map((part) => one(part, Math.floor((size - 2) / 2), faded(part)))),
  );
}

/** Return an image of a percept, with numbered marks at the occurrences of some features. */
function picture(model, percept, camera, { marks = [], width = null, label = null } = {}) {
  const { width: w, height: h, file, x, y, zoom, name } = model.cameras[camera];
  const image = percept.images[camera];
  const index = Array.isArray(file) || ArrayBuffer.isView(file) ? file[image] : file;
  const [left, top] = [x ? x[image] / zoom : 0, y ? y[image] / zoom : 0];
  const whole = model.data.images[index];
  const text = label ?? [percept.title ?? model.label(percept.number), name].filter(Boolean).join(", ");
  const box = svg(
    "svg", { class: "percept", viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": text, style: width ? `width:${width}px` : null },
    svg("title", null, text),
    svg("svg", { x: 0, y: 0, width: w, height: h, viewBox: `${left} ${top} ${w} ${h}` },
      svg("image", {
        href: model.url(index), width: whole.width / zoom, height: whole.height / zoom,
        preserveAspectRatio: "none", class: zoom >= 1 && w < 120 ? "crisp" : null,
      })),
  );
  const unit = Math.max(w, h) / 100;
  marks.forEach(({ feature, tag }) => {
    if (model.features[feature].camera !== camera) return;
    const found = model.arrangements(percept, feature);
    found.forEach((one) => box.append(...mark(one, unit)));
    if (tag && found.length) box.append(...flag(found[0].middle, String(tag), unit, w, h));
  });
  return box;
}

/** Return the strokes of one occurrence, legible on any image. */
function mark({ points, lines, middle }, unit) {
  const strokes = ["under", "over"].flatMap((layer) => [
    ...lines.map(([[x1, y1], [x2, y2]]) => svg("line", { class: `mark ${layer}`, x1, y1, x2, y2 })),
    ...points.map(([cx, cy]) => svg("circle", { class: `mark ${layer}`, cx, cy, r: 2.6 * unit })),
  ]);
  if (lines.length) strokes.push(svg("circle", { class: "middle", cx: middle[0], cy: middle[1], r: unit }));
  return strokes;
}

/** Return a small label with a number beside a point, inside the image. */
function flag([x, y], text, unit, w, h) {
  const [width, height] = [(2.2 + 2.9 * text.length) * unit, 6 * unit];
  const left = Math.min(x + 3 * unit, w - width);
  const top = Math.min(Math.max(y - height - 2 * unit, 0), h - height);
  return [
    svg("rect", { class: "flag", x: left, y: top, width, height, rx: unit }),
    svg("text", { class: "flag-text", x: left + width / 2, y: top + 4.6 * unit, "font-size": 4.8 * unit }, text),
  ];
}

/** Return all images of a percept, camera by camera. */
function pictures(model, percept, options = {}) {
  return el("div", { class: "pictures" }, model.cameras.map((camera, i) =>
    el("figure", null, picture(model, percept, i, options), camera.name ? el("figcaption", null, camera.name) : null)));
}

/** Return bars of the values of the actions; the best one is also marked by a sign. */
function values(model, q, tried, best, notes = null) {
  const known = q.filter((_, a) => tried[a]);
  const low = Math.min(0, ...known);
  const span = Math.max(0, ...known) - low || 1;
  return el("ul", { class: "values" }, model.actions.map((name, a) => {
    const value = tried[a] ? decimal(q[a]) : "never tried";
    const [from, to] = tried[a] ? [Math.min(q[a], 0), Math.max(q[a], 0)] : [0, 0];
    const place = `left:${(100 * (from - low)) / span}%;width:${(100 * (to - from)) / span}%`;
    return el("li", { class: a === best ? "best" : null },
      el("span", { class: "name" }, a === best ? `▸ ${name}` : name, a === best ? el("span", { class: "unseen" }, " (taken)") : null),
      el("span", { class: "track" }, el("span", { class: "bar", style: place })),
      el("span", { class: "value" }, value, notes ? el("span", { class: "quiet" }, ` ${notes[a]}`) : null));
  }));
}

/** Return the outcome of a test in words; for several features, with the number that is needed. */
function verdict(model, percept, feature) {
  const { kind, parts, least } = model.features[feature];
  const exhibited = model.exhibits(percept, feature);
  if (kind !== "several") return exhibited ? "seen" : "not seen";
  return `${exhibited ? "seen" : "not seen"}: ${model.partsSeen(percept, feature).length} of ${parts.length}, needs ${least}`;
}

/** Return one test, or one decisive feature of a forest, with its outcome. */
function test(model, percept, { feature, exhibited, gain, trees, otherwise, rank }, action) {
  const seen = model.features[feature].kind === "several" ? model.partsSeen(percept, feature) : exhibited ? [feature] : [];
  const note = gain === undefined ? null : el("span", { class: "quiet" },
    `worth ${decimal(gain)} in ${several(trees, "tree")}${otherwise === action ? "" : `; else ${model.actions[otherwise]}`}`);
  return el("li", { class: exhibited ? "seen" : "missed", value: rank },
    link(`feature/${feature}`, patch(model, feature, { size: 34, seen }), el("span", { class: "words" }, model.features[feature].name)),
    el("span", { class: "verdict" }, verdict(model, percept, feature)), note);
}

/** Return the tests on a path, or the decisive features of a forest, which are never folded. */
function tests(model, percept, found, action = null) {
  const item = (one) => test(model, percept, one, action);
  return model.isForest ? el("ol", { class: "tests" }, found.map(item)) : foldedTests(found, item);
}

/** Return a list of tests; more than three consecutive ones that were not seen are folded. */
function foldedTests(steps, item) {
  const list = el("ol", { class: "tests" });
  for (let i = 0; i < steps.length; ) {
    const seen = steps.findIndex((one, k) => k >= i && one.exhibited);
    const end = seen < 0 ? steps.length : seen;
    const run = steps.slice(i, end);
    if (run.length > 3) {
      const text = `${run[0].rank}–${run.at(-1).rank}. ${number(run.length)} tests, not seen`;
      const inner = el("ol", { class: "tests" }, run.map(item));
      list.append(el("li", { class: "folded" }, el("details", null, el("summary", null, text), inner)));
    } else list.append(...run.map(item));
    if (seen >= 0) list.append(item(steps[seen]));
    i = end + 1;
  }
  return list;
}

/** Return the explanation of an action: the images, the path, the class and the values. */
function explanation(model, percept, title) {
  const why = model.explain(percept);
  const action = model.actions[why.action];
  const ranked = why.tests.map((one, i) => ({ ...one, rank: i + 1 }));
  const shown = model.isForest ? decisive(ranked) : ranked;
  const marks = shown.filter((one) => one.exhibited).map((one) => ({ feature: one.feature, tag: one.rank }));
  const seen = shown.filter((one) => one.exhibited).length;
  const what = model.isForest
    ? [el("p", null, `${several(model.trees.length, "tree")} vote: `, el("strong", null, action), `, ahead by ${decimal(why.lead)}.`)]
    : [el("p", null, "Class ", link(`class/0/${why.class}`, String(why.class)), ", so it takes ", el("strong", null, action), ".")];
  const notes = model.isForest ? why.ballots.map((n) => `(${several(n, "tree")})`) : null;
  const head = model.isForest ? "The most decisive features" : why.tests.length
    ? `The path of ${several(why.tests.length, "test")}, ${seen} seen` : "No test: all percepts are one class";
  const hidden = model.isForest ? why.tests.length - shown.length : 0;
  return el("div", { class: "explanation", "data-action": why.action, "data-class": model.isForest ? why.classes.join(" ") : why.class },
    title ? el("h3", null, title) : null, pictures(model, percept, { marks }), what,
    values(model, why.q, why.tried, why.action, notes), el("h4", null, head), tests(model, percept, shown, why.action),
    hidden ? el("p", { class: "quiet" }, `and ${hidden} more, less decisive`) : null);
}

/** Return the decisive features to show: up to half of them were seen and favour the action. */
function decisive(ranked, most = 8) {
  const seen = ranked.filter((one) => one.exhibited && one.gain > 0).slice(0, most / 2);
  const rest = ranked.filter((one) => !seen.includes(one)).slice(0, most - seen.length);
  return [...seen, ...rest].sort((a, b) => a.rank - b.rank);
}
