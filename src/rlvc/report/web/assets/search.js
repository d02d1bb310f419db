// The search for nodes of a classifier: a field, and navigation between matches.

/** A search field, its matches in the current tree, and the current match. */
class NodeSearch {
  constructor(model, state, { onMatch, onSearch, onTurn }) {
    Object.assign(this, { model, state, onMatch, onSearch, onTurn, matches: [], current: -1, other: -1 });
    state.query ??= "";
    this.field = el("input", {
      type: "search", value: state.query, placeholder: "class 17, symbol 12, an action …",
      "aria-label": "Search the classifier", onkeydown: (event) => this.#press(event),
      oninput: () => {
        clearTimeout(this.timer);
        this.isFresh = true;
        this.timer = setTimeout(() => this.find(this.field.value), 180);
      },
    });
    this.count = el("span", { class: "quiet search-count", role: "status", "aria-live": "polite" });
    this.node = el("span", { class: "joined search", role: "search" }, this.field,
      toolButton("‹", "Previous match", () => this.next(-1)), toolButton("›", "Next match", () => this.next(1)));
  }

  /** Search, or go to the next match. */
  #press(event) {
    if (event.key === "Escape") this.find((this.field.value = ""));
    if (event.key !== "Enter") return;
    event.preventDefault();
    // The first Enter stays at the first match, however long it took to type.
    if (this.field.value !== this.state.query) this.find(this.field.value);
    else this.next(this.isFresh ? 0 : event.shiftKey ? -1 : 1);
    this.isFresh = false;
    if (this.other < 0) return;
    this.onTurn(this.other);
    this.next(1);
  }

  /** Find nodes by words; the first becomes the current one. */
  find(text, { move = true } = {}) {
    clearTimeout(this.timer);
    this.state.query = text;
    this.matches = nodeFacts(this.model, this.state.tree).find(text);
    this.current = -1;
    this.onSearch({ isLost: move && !this.matches.length });
    if (move && this.matches.length) this.next(1);
    else this.#tell();
  }

  /** Go to the next or the previous match. */
  next(step) {
    const n = this.matches.length;
    if (!n) return;
    this.current = this.current < 0 ? (step < 0 ? n - 1 : 0) : (this.current + step + n) % n;
    this.onMatch(this.matches[this.current]);
    this.#tell();
  }

  /** Show the number of matches; if there are none, the next tree of the forest with one. */
  #tell() {
    const n = this.matches.length;
    const { trees } = this.model;
    const { query, tree } = this.state;
    const where = this.current < 0 ? "" : `${number(this.current + 1)} of `;
    const others = n || !query.trim() ? [] : trees.map((_, i) => (tree + i) % trees.length).slice(1);
    this.other = others.find((i) => nodeFacts(this.model, i).find(query).length) ?? -1;
    const none = this.other < 0 ? "no match" : `no match in this tree; Enter opens tree ${this.other + 1}`;
    this.count.textContent = !query.trim() ? "" : n ? `${where}${several(n, "match", "matches")}` : none;
  }
}
