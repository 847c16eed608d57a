/** As much of a page as the notice needs, for Node: elements with children, text, events and properties. */

class Node extends EventTarget {
  children = [];
  parent = null;

  get isConnected() {
    return this === document.body || Boolean((this.parent ?? this.host)?.isConnected);
  }

  get firstChild() {
    return this.children[0] ?? null;
  }

  get textContent() {
    return this.children.map((child) => child.textContent ?? child).join(" ");
  }

  set textContent(text) {
    this.replaceChildren(text);
  }

  append(...nodes) {
    for (const node of nodes) {
      this.children.push(node);
      if (!(node instanceof Node)) continue;
      node.parent = this;
      if (node.isConnected) node.connectedCallback?.();
    }
  }

  replaceChildren(...nodes) {
    this.children = [];
    this.append(...nodes);
  }

  /** Every element below this one. */
  get all() {
    return this.children.flatMap((child) => (child instanceof Node ? [child, ...child.all] : []));
  }
}

class Element extends Node {
  attachShadow() {
    this.shadow = Object.assign(new Node(), { host: this });
    return this.shadow;
  }
}

const known = new Map();
globalThis.HTMLElement = Element;
globalThis.customElements = {
  get: (name) => known.get(name),
  define: (name, kind) => known.set(name, kind),
};
globalThis.CSSStyleSheet = class {
  replaceSync() {}
};
globalThis.addEventListener ??= () => {};
globalThis.document = {
  body: new Node(),
  documentElement: { lang: "en" },
  createElement: (name) => new (known.get(name) ?? Element)(),
};

/** Wait until something holds, at most ten seconds. */
globalThis.until = async (what, holds) => {
  for (let tries = 0; !holds(); tries++) {
    if (tries === 500) throw new Error(`waited in vain for: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
};
