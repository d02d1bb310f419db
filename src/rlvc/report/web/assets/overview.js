// The overview: the task, the measures of the policy, and how it was learned.

/** Return the view of the task, the measures, the parameters, the time and the versions. */
function makeOverviewView(model, state) {
  const { overview, title } = model.data;
  const node = el("div", { class: "overview" },
    el("div", { class: overview.lead ? "lead known" : "lead" }, el("h2", { class: "name" }, title), overview.lead ? el("p", null, overview.lead) : null),
    el("dl", { class: "headline" }, overview.headline.map(({ label, value }) =>
      el("div", null, el("dt", null, label), el("dd", null, value)))),
    overview.measures ? el("section", { class: "panel wide" }, el("h3", null, "Performance"), measureTable(overview.measures)) : null,
    el("section", { class: "panel" }, el("h3", null, "The run"), factList(overview.facts), command(overview.command)),
    overview.seconds.length ? el("section", { class: "panel" }, el("h3", null, "Time spent"), timeBars(overview.seconds)) : null,
    el("section", { class: "panel" }, el("h3", null, "Versions"), factList(overview.versions)),
    el("section", { class: "panel wide" }, el("h3", null, "Parameters"), parameterTable(overview.parameters, state)));
  return { node, show() {} };
}

/** Return the table of measures; columns of numbers are right-aligned. */
function measureTable({ head, rows, caption }) {
  return table(head, rows, { caption, numeric: head.map((_, i) => i).slice(1) });
}

/** Return a list of names and values. */
function factList(pairs) {
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))));
}

/** Return the command of the run, with a button to copy it. */
function command(text) {
  if (!text) return null;
  const button = el("button", { type: "button", onclick: async () => {
    await navigator.clipboard?.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  } }, "Copy");
  return el("div", { class: "command" }, el("code", null, text), navigator.clipboard ? button : null);
}

/** Return bars of the seconds that each phase took. */
function timeBars(seconds) {
  const longest = Math.max(...seconds.map(([, value]) => value), 1e-9);
  const sum = seconds.reduce((total, [, value]) => total + value, 0);
  return el("div", null,
    el("ul", { class: "times" }, seconds.map(([name, value]) => el("li", null,
      el("span", null, name), el("span", { class: "track" }, el("span", { class: "bar", style: `width:${(100 * value) / longest}%` })),
      el("span", { class: "right" }, `${number(value, 1)} s`)))),
    el("p", { class: "quiet" }, `${number(sum, 1)} s in all`));
}

/** Return the table of parameters; values other than the default are marked in words. */
function parameterTable(rows, state) {
  const shown = rows.map(([name, value, meaning, isChanged]) => [
    el("code", null, name), el("span", { class: isChanged ? "changed" : null }, value, isChanged ? el("span", { class: "quiet" }, " (not the default)") : null), meaning]);
  const changed = rows.filter((row) => row[3]).length;
  const summary = `All ${rows.length} parameters${changed ? `, ${changed} of them not the default` : ""}`;
  const keep = (event) => (state.isOpen = event.target.open);
  return el("details", { open: state.isOpen, ontoggle: keep }, el("summary", null, summary), table(["name", "value", "meaning"], shown, { caption: "Parameters of the learner" }));
}
