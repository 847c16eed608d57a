/**
 * `<keyveil-consent>`: tells a person what a report is before one is drawn, and asks.
 *
 * Set `client`, `collection` and `record` (an object, or a function that returns one). When the person
 * agrees, the element answers the collection under the plan that it has shown. It fires
 * `keyveil-answer` (detail: the outcome), `keyveil-decline` and `keyveil-error` (detail: the error).
 */
import { mostCertain, oddsFactor, possibleReports } from "./preview.js";

export { mostCertain, oddsFactor, possibleReports };

/** All texts. Replace some or all of them with `element.strings = { ... }`. */
export const STRINGS = {
  title: "Share an answer without giving it away",
  what: "If you agree, this device sends one short coded message. It picks {topic} and throws coins before it says anything, so the message is often untrue. Your answers stay on this device.",
  topicOne: "one of {count} questions at random",
  topicSome: "a few of {count} questions at random",
  topicAll: "all {count} questions together",
  examples: "What the message could look like",
  fromYou: "From your answers",
  fromNone: "From someone who answered nothing",
  exampleNote: "These are thrown just now, only to show you. They are not kept and not sent.",
  again: "Throw the coins again",
  held: "{key}: {value}",
  yes: "yes",
  absent: "{key}: no",
  code: "code {code}",
  codeNote: "Any answers can lead to any code; some only do so more often.",
  odds: "What it gives away",
  oddsText:
    "Any other answers lead to the same message, too, at most {factor} times less often. Someone who guesses 50:50 about you can become at most {percent} sure.",
  budget: "Your privacy budget",
  budgetText:
    "All your answers on this site may cost {cap} together. This one costs {cost}, of {left} left before it.",
  accept: "Send one message",
  decline: "Do not send",
  sending: "Sending …",
  counted: "Sent and counted. Thank you.",
  waiting: "Your message is stored and will be sent when there is a connection.",
  answered: "You have answered this already. Nothing more is sent.",
  declined: "Nothing was sent.",
  failed: "Nothing was sent: {reason}.",
};

const STYLE = `
:host { display: block; color-scheme: light dark }
section {
  --ink: var(--keyveil-ink, light-dark(#1b1f24, #e6edf3));
  --paper: var(--keyveil-paper, light-dark(#fff, #14181d));
  --line: var(--keyveil-line, light-dark(#c9d1d9, #3d444d));
  --soft: var(--keyveil-soft, light-dark(#59636e, #9da7b3));
  --accent: var(--keyveil-accent, light-dark(#0b5cad, #7cb7f5));
  --on: var(--keyveil-on-accent, light-dark(#fff, #0d1117));
  color: var(--ink); font: var(--keyveil-font, 1rem/1.5 system-ui, sans-serif);
  background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.25rem 1.5rem; max-width: 42rem; box-sizing: border-box }
h2 { margin: 0 0 .5rem; font-size: 1.25em } h3 { margin: 1.25rem 0 .25rem; font-size: 1em }
p { margin: .25rem 0 } small { color: var(--soft) }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .75rem; margin: .5rem 0 }
h4 { margin: 0; font-size: .85em; font-weight: 600; color: var(--soft) }
ul { list-style: none; margin: .25rem 0 0; padding: 0 }
li { border: 1px solid var(--line); border-radius: .4rem; padding: .2rem .6rem; margin: .25rem 0;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere }
meter { width: 100%; height: .8rem }
button { font: inherit; padding: .45rem 1rem; border-radius: .5rem; border: 1px solid var(--accent);
  color: var(--accent); background: transparent; cursor: pointer; margin: .25rem .5rem .25rem 0 }
.main { background: var(--accent); color: var(--on) }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px }
button[disabled] { opacity: .55; cursor: default }
[role=status]:not(:empty) { margin-top: .75rem; font-weight: 600 }`;

/** Number of possible reports that are shown for each person. */
const SHOWN = 3;

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class KeyveilConsent extends HTMLElement {
  #strings = STRINGS;
  #facts = {};
  #offer;
  #toss;
  #loading = false;
  #root = this.attachShadow({ mode: "open" });

  set client(client) {
    this.#set({ client });
  }

  set collection(collection) {
    this.#set({ collection });
  }

  set record(record) {
    this.#set({ record });
  }

  set strings(strings) {
    this.#strings = { ...STRINGS, ...strings };
    if (this.#offer) this.#render();
  }

  connectedCallback() {
    this.#set({});
  }

  #set(facts) {
    Object.assign(this.#facts, facts);
    const { client, collection, record } = this.#facts;
    if (this.#offer) this.#toss?.();
    else if (this.isConnected && client && collection && record !== undefined) this.#load();
  }

  #say(name, values = {}) {
    return this.#strings[name].replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
  }

  /** A number for the person: a bound is rounded to the safe side, "ceil" or "floor". */
  #number(value, roundingMode, options = { maximumSignificantDigits: 3 }) {
    const language = this.lang || document.documentElement.lang || "en";
    return new Intl.NumberFormat(language, { ...options, roundingMode }).format(value);
  }

  #tell(event, detail) {
    this.dispatchEvent(new CustomEvent(event, { detail, bubbles: true, composed: true }));
  }

  async #load() {
    if (this.#loading) return;
    this.#loading = true;
    try {
      this.#offer = await this.#facts.client.offer(this.#facts.collection);
      this.#render();
    } catch (error) {
      this.#fail(error);
    }
    this.#loading = false;
  }

  #fail(error) {
    this.#offer = this.#toss = undefined;
    this.#show([], this.#say("failed", { reason: error.message }));
    this.#tell("keyveil-error", error);
  }

  /** Put parts into the notice, below its title. Returns the element that tells how things stand. */
  #show(parts, text) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    this.#root.adoptedStyleSheets = [sheet];
    const title = element("h2", { id: "title", part: "title" }, this.#say("title"));
    const status = element("p", { role: "status", part: "status" }, text);
    const notice = { part: "notice", "aria-labelledby": "title" };
    this.#root.replaceChildren(element("section", notice, title, ...parts, status));
    return status;
  }

  #render() {
    const { plan, answered } = this.#offer;
    if (answered) {
      this.#show([], this.#say(answered.state === "waiting" ? "waiting" : "answered"));
      return;
    }
    const count = plan.keys.length;
    const [{ encode, views }, ...others] = plan.parts;
    const size = encode === "views" ? views.places[0].length : count;
    const topic = others.length ? "Some" : size === count ? "All" : size === 1 ? "One" : "Some";
    const what = this.#say("what", { topic: this.#say(`topic${topic}`, { count }) });
    const buttons = element("p", {});
    const text = element("p", { part: "text" }, what);
    const parts = [text, ...this.#examples(), ...this.#odds(), ...this.#budget(), buttons];
    this.#ask(buttons, this.#show(parts, ""));
    this.#toss();
  }

  #examples() {
    const side = element("div", { class: "side" });
    const note = element("small", {});
    this.#toss = async () => {
      const { record } = this.#facts;
      const own = typeof record === "function" ? await record() : record;
      let coded = "";
      const lists = [
        ["fromYou", own],
        ["fromNone", {}],
      ].map(([name, held]) => {
        const reports = possibleReports(this.#offer.plan, held, SHOWN);
        if (reports.some(({ says }) => !says)) coded = `${this.#say("codeNote")} `;
        const items = reports.map((report) => element("li", { part: "report" }, this.#told(report)));
        return element("div", {}, element("h4", {}, this.#say(name)), element("ul", {}, ...items));
      });
      side.replaceChildren(...lists);
      note.textContent = coded + this.#say("exampleNote");
    };
    const again = this.#button("again", () => this.#toss());
    return [element("h3", {}, this.#say("examples")), side, element("p", {}, note), again];
  }

  /** A possible report in words. */
  #told({ keys, says, cells }) {
    if (!says) {
      const code = cells.slice(1, 13).join(" ") + (cells.length > 13 ? " …" : "");
      const told = this.#say("code", { code });
      return keys.length ? this.#say("held", { key: keys.join(", "), value: told }) : told;
    }
    const told = says.map((said, i) => {
      const value = said === true ? this.#say("yes") : this.#number(said, "halfExpand");
      return this.#say(said === null ? "absent" : "held", { key: keys[i], value });
    });
    return told.join(", ");
  }

  #odds() {
    const { plan } = this.#offer;
    const percent = this.#number(mostCertain(plan), "ceil", {
      style: "percent",
      maximumFractionDigits: 1,
    });
    const text = this.#say("oddsText", { factor: this.#number(oddsFactor(plan), "ceil"), percent });
    return this.#section("odds", text);
  }

  #budget() {
    const { plan, budget } = this.#offer;
    const [cost, left, cap] = [plan.chain?.total ?? plan.proven, budget.left, budget.cap].map(Number);
    const text = this.#say("budgetText", {
      cost: this.#number(cost, "ceil"),
      left: this.#number(left, "floor"),
      cap: this.#number(cap, "floor"),
    });
    const meter = element("meter", {
      min: 0,
      max: cap,
      value: cap - left + cost,
      part: "meter",
      "aria-label": text,
    });
    return [...this.#section("budget", text), meter];
  }

  #section(name, text) {
    return [element("h3", {}, this.#say(name)), element("p", { part: "text" }, text)];
  }

  #button(name, press, look = {}) {
    const button = element("button", { type: "button", part: name, ...look }, this.#say(name));
    button.addEventListener("click", press);
    return button;
  }

  #ask(buttons, status) {
    const end = (name) => {
      accept.disabled = decline.disabled = true;
      status.textContent = this.#say(name);
    };
    const send = async () => {
      end("sending");
      try {
        const outcome = await this.#facts.client.accept(this.#offer, this.#facts.record);
        end(!outcome.drawn ? "answered" : outcome.counted ? "counted" : "waiting");
        this.#tell("keyveil-answer", outcome);
      } catch (error) {
        this.#fail(error);
      }
    };
    const accept = this.#button("accept", send, { class: "main" });
    const decline = this.#button("decline", () => {
      end("declined");
      this.#tell("keyveil-decline");
    });
    buttons.append(accept, decline);
  }
}

if (!customElements.get("keyveil-consent")) customElements.define("keyveil-consent", KeyveilConsent);
