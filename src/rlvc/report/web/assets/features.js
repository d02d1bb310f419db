// The view of the features: each one as a card, with search, sorting and filters, and the details of a
// selected feature beside the cards.

const CARDS_AT_ONCE = 60;
const FEATURE_EXAMPLES = 8;
const FEATURE_NODES = 6;
const FEATURE_WHOLES = 8;
const FEATURE_KINDS = {
  symbol: ["symbol", "symbols"],
  composite: ["composite", "composites"],
  located: ["located in a part of the frame", "located"],
  several: ["several features", "several at once"],
};
const FEATURE_ORDERS = { usage: "most often tested", seen: "most often seen", number: "by number" };

/** Return the view of all features, with the details of the selected one beside the cards. */
function makeFeaturesView(model, state) {
  const start = { text: "", order: "usage", camera: "", kind: "", most: CARDS_AT_ONCE };
  for (const [key, value] of Object.entries(start)) state[key] ??= value;
  const cards = el("ul", { class: "feature-cards" });
  const hits = el("p", { class: "feature-hits", role: "status", "aria-live": "polite" });
  const more = el("button", { type: "button", name: "more", class: "feature-more", onclick: showMore });
  const panel = el("aside", { class: "feature-panel panel", "aria-label": "The selected feature", hidden: true,
    onscroll: () => (state.scroll = panel.scrollTop) });
  const list = el("div", { class: "feature-list" }, hits, cards, more);
  const node = el("div", { class: "feature-view" }, featureToolbar(model, state, () => search()),
    el("div", { class: "feature-sides" }, list, panel));
  let facts = null;
  let found = [];
  let chosen = null;
  let isUnknown = false; // whether the address names a feature that does not exist

  /** Return the card of a feature. */
  function card(feature) {
    const { name, usage } = model.features[feature];
    const [n, share] = [facts.isTested[feature], facts.share(feature)];
    return el("li", null, el("a", { class: "feature-card", href: `#feature/${feature}`, title: name,
      "data-card": feature, "aria-current": feature === chosen ? "true" : null },
    patch(model, feature, { size: 72 }), el("span", { class: "feature-name" }, featureTitle(model.features[feature])),
    el("span", { class: "quiet" }, n ? `tested on ${several(usage, "percept")}` : "a part of others"),
    el("span", { class: "quiet" }, share === null ? "" : `seen on ${featureShare(share)} of the examples`)));
  }

  /** Search and sort again, and show the first cards. */
  function search() {
    state.most = CARDS_AT_ONCE;
    show();
  }

  /** Show the cards that match, up to a limit, and count them. */
  function show() {
    found = findFeatures(model, facts, state);
    fill(cards, found.slice(0, state.most).map(card));
    count();
  }

  /** Show how many features match, and how many more can be shown. */
  function count() {
    const tested = found.filter((feature) => facts.isTested[feature]).length;
    const parts = found.length - tested;
    const rest = found.length - cards.childElementCount;
    const who = model.isForest ? "the trees test" : "the classifier tests";
    const texts = [
      parts ? `${several(tested, "feature")} that ${who}` : several(tested, "feature"),
      parts ? `${number(parts)} that ${parts === 1 ? "is only a part" : "are only parts"} of others` : null,
      rest > 0 ? `the first ${cards.childElementCount} are shown` : null,
    ];
    hits.textContent = texts.filter(Boolean).join(", ");
    if (!model.features.length) hits.textContent = "No features yet: the classifier tests nothing.";
    else if (!found.length) hits.textContent = "No feature matches. Try a number, “symbol 12” or “composite”.";
    if (isUnknown) hits.textContent = `There is no such feature. ${hits.textContent}`;
    more.hidden = rest <= 0;
    more.textContent = `Show ${Math.min(rest, CARDS_AT_ONCE)} more of ${number(rest)}`;
  }

  /** Add the next cards, and move the focus to the first of them. */
  function showMore() {
    const shown = cards.childElementCount;
    state.most = shown + CARDS_AT_ONCE;
    cards.append(...found.slice(shown, state.most).map(card));
    cards.children[shown]?.firstChild.focus();
    count();
  }

  /** Open the details of a feature, or close them. */
  function choose(feature) {
    const before = chosen;
    const isHere = node.contains(document.activeElement);
    chosen = feature;
    for (const one of cards.querySelectorAll("[data-card]")) {
      if (Number(one.dataset.card) === feature) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    }
    node.classList.toggle("has-panel", feature !== null);
    panel.hidden = feature === null;
    panel.toggleAttribute("data-feature", false);
    if (feature === null) {
      state.chosen = null;
      fill(panel);
      if (isHere) cards.querySelector(`[data-card="${before}"]`)?.focus();
      return;
    }
    panel.dataset.feature = feature;
    fill(panel, featureDetails(model, facts, feature));
    const isNew = state.chosen !== feature;
    state.chosen = feature;
    panel.scrollTop = isNew ? 0 : state.scroll ?? 0;
    if (isHere && isNew) panel.querySelector("h3").focus({ preventScroll: true });
    if (isNew && matchMedia("(max-width: 60rem)").matches) panel.scrollIntoView({ block: "start" });
  }

  return {
    node,
    show([route, text]) {
      if (!facts) {
        facts = featureFacts(model);
        show();
      }
      const feature = route === "feature" ? whole(text, model.features.length) : null;
      choose(feature ?? null);
      if (isUnknown !== (feature === undefined)) {
        isUnknown = !isUnknown;
        count();
      }
    },
  };
}

/** Return the controls for search, sorting and filters. */
function featureToolbar(model, state, onChange) {
  const choice = (label, key, options) => el("label", null, el("span", null, label),
    el("select", { name: key, onchange: (event) => { state[key] = event.target.value; onChange(); } },
      options.map(([value, text]) => el("option", { value, selected: state[key] === value }, text))));
  const kinds = Object.entries(FEATURE_KINDS).filter(([kind]) => model.features.some((one) => one.kind === kind))
    .map(([kind, [, many]]) => [kind, many]);
  const cameras = model.cameras.map((one, i) => [String(i), one.name || `camera ${i + 1}`]);
  let timer = null;
  const onText = (event) => {
    clearTimeout(timer);
    state.text = event.target.value;
    timer = setTimeout(onChange, 120);
  };
  const stay = (event) => event.preventDefault();
  return el("form", { class: "feature-tools toolbar", role: "search", "aria-label": "Features", onsubmit: stay },
    el("label", { class: "feature-search" }, el("span", null, "Search"),
      el("input", {
        type: "search", name: "features", value: state.text, placeholder: "symbol 12", autocomplete: "off", oninput: onText,
      })),
    choice("Sort", "order", Object.entries(FEATURE_ORDERS)),
    cameras.length > 1 ? choice("Camera", "camera", [["", "all"], ...cameras]) : null,
    kinds.length > 1 ? choice("Kind", "kind", [["", "all"], ...kinds]) : null);
}

/** Return the features that match, in the selected order. */
function findFeatures(model, facts, { text, order, camera, kind }) {
  const wanted = featureFilter(model, text);
  const isOf = (one) => (camera === "" || one.camera === Number(camera)) && (kind === "" || one.kind === kind);
  const found = model.features.flatMap((one, feature) => (isOf(one) && wanted(feature) ? [feature] : []));
  if (order === "usage") found.sort((a, b) => model.features[b].usage - model.features[a].usage || a - b);
  if (order === "seen") found.sort((a, b) => facts.seen[b] - facts.seen[a] || a - b);
  return found;
}

/** Return a predicate of features that match a text; numbers match symbols or features. */
function featureFilter(model, text) {
  const words = text.toLowerCase().split(/[\s,()]+/).filter(Boolean);
  const phrase = words.join(" ");
  const isNumber = /^\d*$/.test(phrase);
  return (feature) => {
    const { name, kind, camera } = model.features[feature];
    const low = name.toLowerCase();
    if (!isNumber && ` ${low.replace(/[(),]/g, " ").replace(/\s+/g, " ")} `.includes(` ${phrase} `)) return true;
    const lists = [...low.matchAll(/symbols (\d+(?:, \d+)*)|symbol (\d+)/g)];
    const symbols = lists.flatMap(([, many, one]) => (many ?? one).split(", "));
    const all = `${low} feature ${kind} ${FEATURE_KINDS[kind].join(" ")} ${model.cameras[camera].name.toLowerCase()}`;
    return words.every((word, i) => {
      if (!/^\d+$/.test(word)) return all.includes(word);
      const isSymbol = symbols.includes(word);
      return /^symbols?$/.test(words[i - 1] ?? "") ? isSymbol : isSymbol || word === String(feature);
    });
  };
}

/** Return a short name of a feature. */
function featureTitle({ name, kind }) {
  const pair = /symbol (\d+)( of [^,()]+)? and symbol (\d+)\2, (\d+) to (\d+) pixels apart/g;
  const short = name.replace(pair, (_, one, where, other, low, high) =>
    `symbols ${one} and ${other}${where ?? ""}, ${low}–${high} px apart`);
  return kind === "several" ? short.replace(/^at least (\d+) of (\d+) \((.*)\)$/, "$1 of $2: $3") : short;
}

/** Format a share without decimals unless it is small. */
function featureShare(share) {
  if (share > 0 && share < 0.001) return "under 0.1%";
  return percent(share, share > 0 && share < 0.01 ? 1 : 0);
}
