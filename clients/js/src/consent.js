/**
 * `<keyveil-consent>`: tells a person what a report is before one is drawn, and asks.
 *
 * Set `client`, `collection` (also as an attribute) and `record` (an object, a promise, or a function that
 * returns either). When the person agrees, the element answers the collection under the plan that it has
 * shown. It fires `keyveil-answer` (detail: the outcome), `keyveil-outcome` (detail: what became of a report
 * that waited), `keyveil-decline` and `keyveil-error` (detail: the error).
 */
import { fault, refuse } from "./errors.js";
import { isWaiting } from "./ledger.js";
import { mostCertain, oddsFactor, possibleReports } from "./preview.js";
import { recordOf } from "./record.js";

export { mostCertain, oddsFactor, possibleReports };

/**
 * The texts. Replace some or all of them with `element.strings = { ... }`: each by a text, or by a function
 * from the values of its placeholders to a text. Those named like the code of an error are shown for it;
 * `TROUBLES` of `messages.js` has more of them.
 */
export const STRINGS = {
  title: "Share an answer without giving it away",
  what: "If you agree, this device sends one short coded message. It picks {topic} and throws coins before it says anything, so the message is often untrue. Your answers stay on this device.",
  topicOne: "one of {count} questions at random",
  topicSome: "a few of {count} questions at random",
  topicAll: "all {count} questions together",
  examples: "What the message could look like",
  fromYou: "From your answers",
  fromNone: "From someone who answered nothing",
  exampleNote: "Thrown just now, only to show you: neither kept nor sent.",
  again: "Throw the coins again",
  held: "{key}: {value}",
  yes: "yes",
  absent: "{key}: no",
  code: "code {code}",
  codeNote: "Any answers can lead to any code; some only do so more often.",
  odds: "What it gives away",
  oddsText:
    "Any other answers could lead to the same message, at most {factor} times less often. Someone who guesses 50:50 about you can become at most {percent} sure.",
  budget: "Your privacy budget",
  budgetText:
    "All your answers on this site may cost {cap} together. This one costs {cost}, of {left} left before it.",
  accept: "Send one message",
  decline: "Do not send",
  retry: "Try again",
  loading: "Loading …",
  sending: "Sending …",
  counted: "Sent and counted. Thank you.",
  waiting: "Your message is stored and will be sent when there is a connection.",
  dropped: "Sent, but not counted.",
  refused:
    "The collector did not accept your message. It is stored on this device. The people who run this site can mend that.",
  answered: "You have answered this already. Nothing more is sent.",
  declined: "Nothing was sent.",
  failed: "Nothing was sent. Something on this page is not set up correctly.",
  unreachable: "Nothing was sent: there is no connection now.",
  storage: "Nothing was sent: this browser keeps no data for this site.",
};

const STYLE = `
:host{display:block;color-scheme:light dark}
section{
--line:var(--keyveil-line,light-dark(#ccc,#444));
--soft:var(--keyveil-soft,light-dark(#555,#aaa));
--accent:var(--keyveil-accent,light-dark(#05a,#7bf));
color:var(--keyveil-ink,light-dark(#222,#eee));
background:var(--keyveil-paper,light-dark(#fff,#111));
font:var(--keyveil-font,1rem/1.5 system-ui,sans-serif);
border:1px solid var(--line);border-radius:.5rem;padding:1.25rem;max-width:42rem;box-sizing:border-box}
h2,h3,h4,p,ul,li{margin:.25rem 0;padding:0;font-size:1em}
h2{font-size:1.25em}
h3{margin-top:1.25rem}
h4,small{color:var(--soft);font-size:.85em}
section>div{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.75rem}
li{display:block;border:1px solid var(--line);border-radius:.5rem;padding:.25rem .75rem;overflow-wrap:anywhere}
meter{width:100%}
button{font:inherit;color:var(--accent);background:none;border:1px solid var(--accent);border-radius:.5rem;padding:.5rem 1rem;margin:.25rem .5rem .25rem 0}
[part=accept]{color:var(--keyveil-on-accent,light-dark(#fff,#111));background:var(--accent)}
:disabled{opacity:.5}
[role=status]{font-weight:600}`;

/** Number of possible reports that are shown for each person. */
const SHOWN = 3;
/** Codes of errors that may be over when the person tries again. */
const PASSING = ["unreachable", "storage", "paused", "clock", "queue"];
/** Codes of errors whose text is in `TROUBLES`. None of these errors depends on a record. */
const LOADED = ["paused", "clock", "queue", "closed", "spent", "changed"];
/** What a page sets; a notice needs the first three. */
const NAMES = ["client", "collection", "record", "strings", "labels"];

/** The texts that are known by now. */
let texts = STRINGS;

/** The style, made when the first notice is shown: a module may be loaded without a document. */
let sheet;

function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** Node has no elements; there the module can be loaded and does nothing. */
const Base = globalThis.HTMLElement ?? class {};

export class KeyveilConsent extends Base {
  static observedAttributes = ["collection"];

  static {
    for (const name of NAMES)
      Object.defineProperty(this.prototype, name, {
        set(value) {
          this.#set({ [name]: value });
        },
      });
  }

  #root = this.attachShadow({ mode: "open" });
  /** What the page has set. */
  #facts = {};
  #offer;
  /** Possible reports of this person and of someone who answered nothing, by the names of their titles. */
  #examples;
  /** The name of the text that says how things stand; empty while the person decides. */
  #stage = "";
  /** The load, of a question or of examples, that counts: what an earlier one brings is dropped. */
  #load = 0;
  #timer;
  #warning;
  /** Whether a text of the page failed, so that the usual ones are shown. */
  #plain = false;
  /** What the client said last about a report that waited. */
  #latest;
  /** Elements whose content changes while others keep the focus. */
  #parts = {};
  /** What ends listening to the page and the client. */
  #listening;

  #set(changes) {
    const { client, collection } = this.#facts;
    Object.assign(this.#facts, changes);
    if (this.#facts.client !== client) this.#listen();
    if (this.#facts.client !== client || this.#facts.collection !== collection) this.#restart();
    else if ("record" in changes) this.#change();
    else {
      this.#plain = false;
      if (this.#stage === "failed") this.#restart();
      else if (this.#root.firstChild) this.#draw();
    }
  }

  attributeChangedCallback(name, before, collection) {
    this.#set({ collection });
  }

  connectedCallback() {
    // set by the page before this module was loaded
    for (const name of NAMES)
      if (Object.hasOwn(this, name)) {
        const value = this[name];
        delete this[name];
        this[name] = value;
      }
    this.#listen();
    if (!this.#offer) this.#restart();
  }

  disconnectedCallback() {
    this.#listen();
  }

  /** Listen to the page and the client as long as the element is part of a page. */
  #listen() {
    this.#listening?.abort();
    if (!this.isConnected) return;
    this.#listening = new AbortController();
    const retry = () => PASSING.includes(this.#stage) && this.#restart();
    const settle = ({ detail }) => this.#settle(detail);
    addEventListener("online", retry, this.#listening);
    this.#facts.client?.addEventListener?.("outcome", settle, this.#listening);
  }

  #tell(event, detail) {
    this.dispatchEvent(new CustomEvent(`keyveil-${event}`, { detail, bubbles: true, composed: true }));
  }

  // -- what happens -------------------------------------------------------------------------------

  /** Drop what was loaded, and load once the page has set all that it sets in one go. */
  #restart() {
    this.#load++;
    this.#offer = this.#examples = null;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.isConnected && this.#start());
  }

  async #start() {
    const { client, collection, record } = this.#facts;
    const given = [client, collection, record !== undefined];
    const names = NAMES.filter((name, i) => i in given && !given[i]).join(", ");
    if (names) {
      if (this.#warning !== names)
        console.warn(`keyveil: <keyveil-consent> shows nothing until its page sets ${names}`);
      this.#warning = names;
      this.#root.replaceChildren();
      return;
    }
    const load = this.#load;
    this.#show("loading");
    try {
      if (!client.offer) throw await fault("option", { client });
      const offer = await client.offer(collection);
      if (load !== this.#load) return;
      this.#offer = offer;
      if (offer.answered) this.#show(stageOf(this.#newest(offer.answered)));
      else await this.#toss();
    } catch (error) {
      if (load === this.#load) this.#fail(error);
    }
  }

  /** The page has set another record. */
  #change() {
    if (!this.#offer) this.#restart();
    else if (this.#isOpen) this.#toss();
  }

  /** Draw other examples of reports. They are shown and forgotten. */
  async #toss() {
    if (!this.#offer) return; // the page has just asked for another question
    const { plan } = this.#offer;
    const load = ++this.#load;
    try {
      const own = await recordOf(this.#facts.record);
      if (load !== this.#load || !this.#isOpen) return;
      const first = !this.#examples;
      this.#examples = {
        fromYou: possibleReports(plan, own, SHOWN),
        fromNone: possibleReports(plan, {}, SHOWN),
      };
      this.#stage = "";
      if (first) this.#draw();
      else this.#attempt(() => this.#fill());
    } catch (error) {
      if (load === this.#load) this.#fail(error);
    }
  }

  async #accept() {
    if (!this.#offer) return;
    const load = this.#load;
    const { client, record } = this.#facts;
    this.#decide("sending");
    try {
      const outcome = await client.accept(this.#offer, record);
      if (load === this.#load) this.#decide(stageOf(this.#newest(outcome), outcome.drawn));
      this.#tell("answer", outcome);
    } catch (error) {
      if (load === this.#load) this.#fail(error);
      else this.#warn(error);
    }
  }

  #decline() {
    if (!this.#offer) return;
    this.#decide("declined");
    this.#tell("decline");
  }

  /** Whether the person has not decided yet. */
  get #isOpen() {
    return ["", "loading"].includes(this.#stage);
  }

  /** What is known last about a report: it may have been sent while its outcome was on its way here. */
  #newest(outcome) {
    return this.#latest?.plan === outcome.plan && !isWaiting(this.#latest) ? this.#latest : outcome;
  }

  /** A report that waited was sent. */
  #settle(outcome) {
    this.#latest = outcome;
    if (this.#stage !== "waiting" || outcome.plan !== this.#offer?.hash || isWaiting(outcome)) return;
    this.#decide(stageOf(outcome, true));
    this.#tell("outcome", outcome);
  }

  #warn(error) {
    console.warn(`keyveil: ${error.message}`);
    this.#tell("error", error);
  }

  async #fail(error) {
    const load = ++this.#load;
    const { code } = error;
    this.#offer = this.#examples = null;
    if (LOADED.includes(code) && texts === STRINGS)
      await import("./messages.js").then(
        ({ TROUBLES }) => (texts = { ...STRINGS, ...TROUBLES }),
        () => {}, // the page's text, or that of a failure, will do
      );
    if (load === this.#load)
      this.#show(LOADED.includes(code) || Object.hasOwn(STRINGS, code) ? code : "failed");
    this.#warn(error);
  }

  // -- what is shown ------------------------------------------------------------------------------

  #say(name, values = {}) {
    let text = texts[name] ?? STRINGS.failed;
    if (!this.#plain)
      try {
        const own = this.#facts.strings?.[name];
        text = String((typeof own === "function" ? own(values) : own) ?? text);
      } catch (cause) {
        this.#plain = true;
        refuse(`the text '${name}' of strings failed, see the error's cause`, "page", cause);
      }
    return text.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
  }

  /** A number for the person: a bound is rounded to the safe side, "ceil" or "floor". */
  #number(value, roundingMode, options = { maximumSignificantDigits: 3 }) {
    const language = this.lang || document.documentElement.lang || "en";
    const written = (locale) => Number(value).toLocaleString(locale, { ...options, roundingMode });
    try {
      return written(language);
    } catch {
      return written("en"); // the page's lang is no language tag
    }
  }

  #show(stage) {
    this.#stage = stage;
    this.#draw();
  }

  /** Tell how things stand after a click, below the notice that the person has read. */
  #decide(stage) {
    this.#stage = stage;
    this.#attempt(() => {
      const { status, buttons } = this.#parts;
      for (const button of buttons ?? []) button.disabled = true;
      status.textContent = this.#say(stage);
    });
  }

  #draw() {
    this.#attempt(() => {
      const focused = this.#root.activeElement?.part.value;
      const title = this.#say("title");
      const status = element(
        "p",
        { role: "status", part: "status" },
        this.#stage && this.#say(this.#stage),
      );
      this.#parts = { status };
      const heading = element("h2", { part: "title" }, title);
      const content = this.#examples ? this.#question() : [];
      const after = PASSING.includes(this.#stage)
        ? [
            element(
              "p",
              {},
              this.#button("retry", () => this.#restart()),
            ),
          ]
        : [];
      const children = [heading, ...content, status, ...after];
      if (!sheet) (sheet = new CSSStyleSheet()).replaceSync(STYLE);
      this.#root.adoptedStyleSheets = [sheet];
      this.#root.replaceChildren(element("section", { part: "notice", ariaLabel: title }, ...children));
      if (focused) this.#root.querySelector(`[part=${focused}]`)?.focus();
    });
  }

  /**
   * Draw. If a text of the page fails before the person decides, the notice fails; afterwards it is reduced
   * to what became of the decision, in the usual words.
   */
  #attempt(draw) {
    try {
      draw();
    } catch (error) {
      if (this.#isOpen) return this.#fail(error);
      if (this.#plain && !this.#examples) throw error;
      this.#plain = true;
      this.#examples = null;
      this.#draw();
      this.#warn(error);
    }
  }

  /** All that the person should know before deciding. */
  #question() {
    const { plan } = this.#offer;
    const count = plan.keys.length;
    const [{ encode, places }, more] = plan.parts;
    const size = encode === "views" ? places[0].length : count;
    const topic = more ? "Some" : size === count ? "All" : size === 1 ? "One" : "Some";
    const what = this.#say("what", { topic: this.#say(`topic${topic}`, { count }) });
    const accept = this.#button("accept", () => this.#accept());
    const decline = this.#button("decline", () => this.#decline());
    const again = this.#button("again", () => this.#toss());
    const buttons = [again, accept, decline];
    for (const button of buttons) button.disabled = this.#stage !== "";
    Object.assign(this.#parts, {
      lists: element("div"),
      note: element("small"),
      buttons,
    });
    const { lists, note } = this.#parts;
    this.#fill();
    return [
      textOf(what),
      element("h3", {}, this.#say("examples")),
      lists,
      element("p", {}, note),
      again,
      ...this.#odds(),
      ...this.#budget(),
      element("p", {}, accept, decline),
    ];
  }

  /** Put the examples in place. */
  #fill() {
    const { lists, note } = this.#parts;
    let coded = "";
    const columns = Object.entries(this.#examples).map(([name, reports]) => {
      if (reports.some(({ says }) => !says)) coded = `${this.#say("codeNote")} `;
      const items = reports.map((report) => element("li", { part: "report" }, this.#inWords(report)));
      return element("div", {}, element("h4", {}, this.#say(name)), element("ul", {}, ...items));
    });
    lists.replaceChildren(...columns);
    note.textContent = coded + this.#say("exampleNote");
  }

  /** A possible report in words. */
  #inWords({ keys, says, cells }) {
    const { labels } = this.#facts;
    const names = keys.map((key) => (labels && Object.hasOwn(labels, key) ? labels[key] : key));
    if (!says) {
      const code = cells.slice(1, 13).join(" ") + (cells.length > 13 ? " …" : "");
      const value = this.#say("code", { code });
      return keys.length ? this.#say("held", { key: names.join(", "), value }) : value;
    }
    const words = says.map((said, i) => {
      const value = said === true ? this.#say("yes") : this.#number(said);
      return this.#say(said === null ? "absent" : "held", { key: names[i], value });
    });
    return words.join(", ");
  }

  #odds() {
    const { plan } = this.#offer;
    const factor = this.#number(oddsFactor(plan), "ceil");
    const style = { style: "percent", maximumFractionDigits: 1 };
    const percent = this.#number(mostCertain(plan), "ceil", style);
    return this.#section("odds", { factor, percent });
  }

  #budget() {
    const { chain, proven } = this.#offer.plan;
    const { cap, left } = this.#offer.budget;
    const cost = chain?.total ?? proven;
    const [title, text] = this.#section("budget", {
      cost: this.#number(cost, "ceil"),
      left: this.#number(left, "floor"),
      cap: this.#number(cap, "floor"),
    });
    const ariaLabel = text.textContent;
    const meter = { max: cap, value: cap - left + +cost, part: "meter", ariaLabel };
    return [title, text, element("meter", meter)];
  }

  #section(name, values) {
    return [element("h3", {}, this.#say(name)), textOf(this.#say(`${name}Text`, values))];
  }

  #button(part, onclick) {
    return element("button", { part, onclick }, this.#say(part));
  }
}

const textOf = (text) => element("p", { part: "text" }, text);

/** The name of the text about a report; `drawn` if the person has just agreed to it. */
function stageOf(outcome, drawn) {
  if (isWaiting(outcome)) return "waiting";
  if (outcome.state === "refused") return "refused";
  return !drawn ? "answered" : outcome.counted ? "counted" : "dropped";
}

const NAME = "keyveil-consent";
const { customElements } = globalThis;
if (customElements && !customElements.get(NAME)) customElements.define(NAME, KeyveilConsent);
