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
import { element, fillExamples, questionOf } from "./question.js";
import { recordOf } from "./record.js";
import { styleSheet } from "./style.js";
import { nameOfTrouble, numberText, PASSING, STRINGS, usualText } from "./texts.js";

export { mostCertain, oddsFactor, possibleReports, STRINGS };

/** Number of possible reports that are shown for each person. */
const SHOWN = 3;
/** What a page sets; a notice needs the first three. */
const NAMES = ["client", "collection", "record", "strings", "labels"];

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
    this.#offer = this.#examples = null;
    const name = await nameOfTrouble(error.code);
    if (load === this.#load) this.#show(name);
    this.#warn(error);
  }

  // -- what is shown ------------------------------------------------------------------------------

  #say = (name, values = {}) => {
    let text = usualText(name);
    if (!this.#plain)
      try {
        const own = this.#facts.strings?.[name];
        text = String((typeof own === "function" ? own(values) : own) ?? text);
      } catch (cause) {
        this.#plain = true;
        refuse(`the text '${name}' of strings failed, see the error's cause`, "page", cause);
      }
    return text.replace(/\{(\w+)\}/g, (all, key) => values[key] ?? all);
  };

  #number = (value, ...style) =>
    numberText(value, this.lang || document.documentElement.lang || "en", ...style);

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
      const text = this.#stage && this.#say(this.#stage);
      const status = element("p", { role: "status", part: "status" }, text);
      this.#parts = { status };
      const heading = element("h2", { part: "title" }, title);
      const content = this.#examples ? this.#question() : [];
      const children = [heading, ...content, status];
      if (PASSING.includes(this.#stage)) children.push(this.#button("retry", () => this.#restart()));
      this.#root.adoptedStyleSheets = [styleSheet()];
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
    const buttons = [
      this.#button("again", () => this.#toss()),
      this.#button("accept", () => this.#accept()),
      this.#button("decline", () => this.#decline()),
    ];
    for (const button of buttons) button.disabled = this.#stage !== "";
    const places = [element("div"), element("small")];
    Object.assign(this.#parts, { places, buttons });
    this.#fill();
    return questionOf(this.#offer, this.#say, this.#number, places, buttons);
  }

  /** Put the examples in place. */
  #fill() {
    fillExamples(this.#examples, this.#facts.labels, this.#say, this.#number, this.#parts.places);
  }

  #button(part, onclick) {
    return element("button", { part, onclick }, this.#say(part));
  }
}

/** The name of the text about a report; `drawn` if the person has just agreed to it. */
function stageOf(outcome, drawn) {
  if (isWaiting(outcome)) return "waiting";
  if (outcome.state === "refused") return "refused";
  return !drawn ? "answered" : outcome.counted ? "counted" : "dropped";
}

const NAME = "keyveil-consent";
const elements = globalThis.customElements;
if (!elements?.get(NAME)) elements?.define(NAME, KeyveilConsent);
