// Search without a server. A page that is opened from a file may start no worker, so the worker's
// script runs in a hidden frame instead. Elsewhere nothing is changed.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      const load = (source) =>
        new Promise((done, failed) => {
          const script = inner.document.createElement("script");
          Object.assign(script, { src: source, onload: done, onerror: failed });
          inner.document.body.append(script);
        });
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = async (...sources) => {
        for (const source of sources) await load(source);
      };
      this.ready = load(url);
    }
    async postMessage(data) {
      await this.ready;
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
