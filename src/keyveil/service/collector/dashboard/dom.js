/** Elements and numbers. Text is always set as text, so no name of a key can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes, properties (on..., value, checked, disabled), then children. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same in SVG. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden", "open"]);

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Replace what an element contains; the focus stays on the element with the same data-id. */
export function put(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
  node.replaceChildren(...children.flat(Infinity).filter((child) => child));
  if (focused !== undefined) node.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
  return node;
}

/** Tell a screen reader. */
export function say(words) {
  document.getElementById("said").textContent = words;
}

/** What is shown in place of a page that could not be loaded. */
export function failure(error, again) {
  return h("section", { class: "card" }, h("p", { class: "problem", role: "alert" }, error.message), h("button", { type: "button", onclick: again }, "Try again"));
}

/** A button that copies the text of an element. Where the browser does not let it, it selects the text. */
export function copier(source, properties) {
  const label = "Copy";
  const button = h("button", { type: "button", ...properties, onclick: async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy it by hand";
    }
    say(button.textContent);
    setTimeout(() => { button.textContent = label; }, 4000);
  } }, label);
  return button;
}

export const whole = (number) => Math.round(number).toLocaleString("en-US");

const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
/** A number of people in few letters: 12.5K. */
export const compact = (number) => SHORT.format(number);

/** An epsilon in few digits. */
export const epsilon = (text) => Number(Number(text).toPrecision(4)).toString();

/** A value of a statistic: frequencies in percent, means and lifts as numbers; "?" if unknown. */
export function figure(kind, value, stderr) {
  if (value === null || value === undefined) return "?";
  if (kind === "frequency") return `${(100 * value).toFixed(stderr > 0 && stderr < 0.0005 ? 2 : 1)} %`;
  return value.toFixed(stderr > 0 && stderr < 0.005 ? 3 : 2);
}

/** An error as a number: of a frequency in percentage points, of a mean in the values' own units. */
export const errorOf = (part, value) => Number(((part === "frequency" ? 100 : 1) * value).toPrecision(2));

/** The same in words. */
export function errorText(part, value) {
  if (value === null || value === undefined) return "unknown";
  return `${errorOf(part, value)}${part === "frequency" ? " percentage points" : ""}`;
}

/** An interval in words. */
export function interval(kind, estimate) {
  if (!estimate || estimate.interval === "none") return "";
  const { low, high, stderr } = estimate;
  if (low === null && high === null) return "not estimable";
  if (low === null || high === null) return low === null ? `at most ${figure(kind, high, stderr)}` : `at least ${figure(kind, low, stderr)}`;
  return `${figure(kind, low, stderr).replace(" %", "")} to ${figure(kind, high, stderr)}`;
}

/** A query in the library's language. */
export function queryText(kind, target, given = []) {
  const conditions = given.map(([key, held]) => (held ? "" : "!") + quoted(key)).join(", ");
  return `${kind}(${quoted(target)}${conditions ? " | " + conditions : ""})`;
}

function quoted(key) {
  const plain = !/[()|,!"\\;]/.test(key) && key === key.split(/\s+/).filter(Boolean).join(" ");
  return plain ? key : `"${key.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** A small picture of an interval within a range; the numbers stand beside it. */
export function glyph(estimate, ends) {
  const at = (value) => Math.min(100, Math.max(0, (100 * (value - ends[0])) / (ends[1] - ends[0])));
  const picture = s("svg", { class: "glyph", viewBox: "0 0 100 14", preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(s("line", { class: "track", x1: 0, x2: 100, y1: 7, y2: 7 }));
  if (!estimate || estimate.value === null) return picture;
  const bounded = estimate.low !== null && estimate.high !== null;
  const [low, high] = bounded ? [at(estimate.low), at(estimate.high)] : [0, 100];
  picture.append(s("rect", { class: bounded ? "band" : "band open", x: low, y: 3.5, width: Math.max(high - low, 0.6), height: 7, rx: 0.6 }));
  if (bounded) picture.append(s("line", { class: "point", x1: at(estimate.value), x2: at(estimate.value), y1: 1, y2: 13 }));
  return picture;
}

/** A labelled choice. ``options`` are pairs of value and words. */
export function choice(label, options, value, onchange, id) {
  const select = h("select", { "data-id": id ?? label, onchange: () => onchange(select.value) });
  select.append(...options.map(([name, words]) => h("option", { value: name, selected: name === String(value) }, words)));
  return h("label", { class: "field" }, h("span", {}, label), select);
}

/** A field for web origins, one a line; ``origins`` is what it holds. */
export function originsField(held = []) {
  const input = h("textarea", { rows: 2, cols: 34, spellcheck: "false", placeholder: location.origin, value: held.join("\n") });
  const field = h("label", { class: "field" }, h("span", {}, "Web pages that may send: their origins, one a line"), input);
  Object.defineProperty(field, "origins", { get: () => input.value.split(/\s+/).filter(Boolean) });
  return field;
}

/** A question with two buttons; resolves to whether it was confirmed. */
export function confirmed(title, words, verb, dangerous = true) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": "asked" },
      h("h2", { id: "asked" }, title), h("p", {}, words),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", { type: "button", class: dangerous ? "danger" : "primary", onclick: () => dialog.close("yes") }, verb)));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
