// The page as a whole: the open view, the theme, and updates in live mode.

const VIEWS = [
  ["overview", "Overview", makeOverviewView, ["overview"]],
  ["learning", "Learning", makeLearningView, ["learning"]],
  ["classifier", "Classifier", makeClassifierView, ["classifier", "class", "node"]],
  ["features", "Features", makeFeaturesView, ["features", "feature"]],
  ["task", "Policy", makeTaskView, ["task", "at"]],
];
const find = (id) => document.getElementById(id);
const page = { data: null, which: 0, views: {}, states: {}, open: null };

/** Decode a part of a route; return it unchanged if it is malformed. */
function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return the view of the current route, and the parts of the route. */
function parseRoute() {
  const parts = location.hash.slice(1).split("/").map(plain);
  const found = VIEWS.find(([, , , routes]) => routes.includes(parts[0]));
  return found ? { name: found[0], args: parts } : { name: "overview", args: ["overview"] };
}

/** Open the view of the current route; each view is built when it is first opened. */
function openRoute({ isRebuild = false } = {}) {
  if (!page.data?.policies?.length) return;
  const { name, args } = parseRoute();
  const [, title, make] = VIEWS.find(([view]) => view === name);
  const main = find("main");
  if (!page.views[name]) {
    page.states[name] ??= {};
    page.views[name] = make(page.model, page.states[name]);
  }
  if (page.open !== name || isRebuild || !main.contains(page.views[name].node)) {
    const section = el("section", { class: `view ${name}`, "aria-labelledby": "view-title" },
      el("h1", { id: "view-title", class: "unseen" }, `${title}: ${page.data.title}`), page.views[name].node);
    fill(main, section);
    if (!isRebuild) window.scrollTo(0, 0);
  }
  page.open = name;
  for (const anchor of find("views").children)
    if (anchor.getAttribute("href") === `#${name}`) {
      anchor.setAttribute("aria-current", "page");
      anchor.scrollIntoView({ inline: "nearest", block: "nearest" });
    } else anchor.removeAttribute("aria-current");
  page.views[name].show(args);
  requestAnimationFrame(() => setTimeout(() => performance.mark("first-view")));  // only the first mark is used
}

/** Return a selector of an element and its index among the matches, to find it after a rebuild. */
function keyOf(node) {
  if (node === document.body) return null;
  const names = ["id", "href", "aria-label", "data-card", "name", "role", "type"].filter((name) => node.hasAttribute(name));
  const selector = node.tagName + names.map((name) => `[${name}="${CSS.escape(node.getAttribute(name))}"]`).join("");
  return [selector, [...document.querySelectorAll(selector)].indexOf(node)];
}

/** Rebuild a part of the page, and restore the focus, the text selection and the scroll position. */
function keepPlace(build) {
  const [node, scroll] = [document.activeElement ?? document.body, window.scrollY];
  const key = keyOf(node);
  const marked = node instanceof HTMLInputElement ? [node.selectionStart, node.selectionEnd] : null;
  build();
  window.scrollTo(0, scroll);
  if (!key || node.isConnected) return;
  const again = document.querySelectorAll(key[0])[key[1]];
  again?.focus({ preventScroll: true });
  if (marked && again instanceof HTMLInputElement) again.setSelectionRange(...marked);
}

/** Use new data, and rebuild the page. */
function takeData(data) {
  if (!data.policies?.length && page.model) {
    find("live").hidden = false;
    find("live").textContent = "The run was stopped before its end; the page shows its last stage.";
    page.isStopped = true;
    return;
  }
  page.isStopped = false;
  for (const url of page.data?.urls ?? []) if (url) URL.revokeObjectURL(url);
  page.data = data;
  document.title = `${data.title} · rlvc`;
  find("title").textContent = data.title;
  showLive(data.live);
  if (!data.policies?.length) return void fill(find("main"), el("p", { class: "waiting" }, "Waiting for the first stage …"));
  for (const camera of data.cameras)
    for (const key of ["file", "x", "y"]) if (typeof camera[key] === "object") camera[key] = numbers(camera[key]);
  page.which = Math.min(page.which, data.policies.length - 1);
  fill(find("policy"), data.policies.map(({ name }, i) => el("option", { value: i, selected: i === page.which }, name)));
  find("which").hidden = data.policies.length < 2;
  keepPlace(() => usePolicy(page.which));
}

/** Show another policy of the run. */
function usePolicy(which) {
  page.which = which;
  page.model = new Model(page.data, which);
  page.views = {};
  openRoute({ isRebuild: true });
}

/** Show that the run is in progress, and its stage. */
function showLive(live) {
  find("live").hidden = !live;
  if (live) find("live").textContent = `In progress: ${live.phase}${live.stage === null ? "" : `, stage ${live.stage}`}`;
}

/** Poll the server for new data. */
function follow() {
  let known = null;
  const ask = async () => {
    let wait = 1000;
    try {
      const { version, finished } = await fetchJson("/version");
      if (version !== known) takeData(await fetchJson("/data"));
      else if (page.data && !page.isStopped) showLive(page.data.live);
      known = version;
      if (finished) wait = 5000;
    } catch (error) {
      find("live").hidden = false;
      find("live").textContent = error instanceof TypeError
        ? "The server does not answer; the page shows the last data it received." : error.message;
      wait = 3000;
    }
    setTimeout(ask, wait);
  };
  ask();
}

/** Fetch JSON from the server; an error carries the server's message. */
async function fetchJson(path) {
  const response = await fetch(path, { cache: "no-store" });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

/** Use a light or dark theme, by default that of the system. */
function useTheme(theme) {
  const isDark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (theme) document.documentElement.dataset.theme = theme;
  find("theme").textContent = isDark ? "☀" : "☾";
  find("theme").onclick = () => useTheme(isDark ? "light" : "dark");
  window.dispatchEvent(new Event("themechange"));
}

/** Start the page. */
function start() {
  fill(find("views"), VIEWS.map(([name, title]) => el("a", { href: `#${name}` }, title)));
  const asked = new URLSearchParams(location.search).get("theme");
  useTheme(["light", "dark"].includes(asked) ? asked : null);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => useTheme(document.documentElement.dataset.theme));
  window.addEventListener("hashchange", () => {
    if (location.hash === "#main") return find("main").focus();
    openRoute();
  });
  find("policy").addEventListener("change", (event) => usePolicy(Number(event.target.value)));
  const data = JSON.parse(find("data").textContent);
  if (data) takeData(data);
  else follow();
}

start();
