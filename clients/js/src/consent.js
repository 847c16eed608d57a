/**
 * `<keyveil-consent>`: tells a person what a report is before one is drawn, and asks.
 *
 * Set `client`, `collection` and `record` (an object, or a function that returns one). When the person
 * agrees, the element answers the collection under the plan that it has shown. It fires
 * `keyveil-answer` (detail: the outcome), `keyveil-decline` and `keyveil-error` (detail: the error).
 */
import { isWaiting } from "./ledger.js";
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
  sending: "Sending …",
  counted: "Sent and counted. Thank you.",
  waiting: "Your message is stored and will be sent when there is a connection.",
  dropped: "Sent, but not counted.",
  answered: "You have answered this already. Nothing more is sent.",
  declined: "Nothing was sent.",
  failed: "Nothing was sent: {reason}.",
};

const STYLE = new CSSStyleSheet();
STYLE.replaceSync(`
:host{display:block;color-scheme:light dark}
section{
--line:var(--keyveil-line,light-dark(#ccc,#444));
--soft:var(--keyveil-soft,light-dark(#555,#aaa));
--accent:var(--keyveil-accent,light-dark(#05a,#7bf));
color:var(--keyveil-ink,light-dark(#222,#eee));
background:var(--keyveil-paper,light-dark(#fff,#111));
font:var(--keyveil-font,1rem/1.5 system-ui,sans-serif);
border:1px solid var(--line);border-radius:.5rem;padding:1.25rem;max-width:42rem;box-sizing:border-box}
h2,h3,h4,p,ul{margin:.25rem 0;padding:0;font-size:1em}
h2{font-size:1.25em}
h3{margin-top:1.25rem}
h4,small{color:var(--soft);font-size:.85em}
section>div{display:grid;grid-template-columns:repeat(auto-fit,minmax(12rem,1fr));gap:.75rem}
li{display:block;border:1px solid var(--line);border-radius:.5rem;padding:.25rem .75rem;margin:.25rem 0;overflow-wrap:anywhere}
meter{width:100%}
button{font:inherit;color:var(--accent);background:none;border:1px solid var(--accent);border-radius:.5rem;padding:.5rem 1rem;margin:.25rem .5rem .25rem 0}
[part=accept]{color:var(--keyveil-on-accent,light-dark(#fff,#111));background:var(--accent)}
:disabled{opacity:.5}
[role=status]{font-weight:600}`);

/** Number of possible reports that are shown for each person. */
const SHOWN = 3;

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export class KeyveilConsent extends HTMLElement {
  #set = notice(this);

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
    this.#set({ strings });
  }

  connectedCallback() {
    this.#set({});
  }
}

/** The notice of an element: a function that takes what its page sets. */
function notice(host) {
  const root = host.attachShadow({ mode: "open" });
  /** What the page has set: client, collection, record and strings. */
  const facts = {};
  let offer;
  let toss;
  let loading;

  function set(changes) {
    const { client, collection, record } = Object.assign(facts, changes);
    if (offer) changes.strings ? render() : toss?.();
    else if (host.isConnected && client && collection && record !== undefined) load();
  }

  const say = (name, values) =>
    (facts.strings?.[name] ?? STRINGS[name]).replace(/\{(\w+)\}/g, (all, key) => values?.[key] ?? all);

  /** A number for the person: a bound is rounded to the safe side, "ceil" or "floor". */
  function number(value, roundingMode, options = { maximumSignificantDigits: 3 }) {
    const language = host.lang || document.documentElement.lang || "en";
    return Number(value).toLocaleString(language, { ...options, roundingMode });
  }

  function tell(event, detail) {
    host.dispatchEvent(new CustomEvent(`keyveil-${event}`, { detail, bubbles: true, composed: true }));
  }

  async function load() {
    if (loading) return;
    loading = true;
    try {
      offer = await facts.client.offer(facts.collection);
      render();
    } catch (error) {
      fail(error);
    }
    loading = false;
  }

  function fail(error) {
    offer = toss = null;
    show(say("failed", { reason: error.message }));
    tell("error", error);
  }

  /** Put parts into the notice, below its title. Returns the element that tells how things stand. */
  function show(text, ...parts) {
    const title = say("title");
    const status = element("p", { role: "status", part: "status" }, text);
    const children = [element("h2", { part: "title" }, title), ...parts, status];
    root.adoptedStyleSheets = [STYLE];
    root.replaceChildren(element("section", { part: "notice", ariaLabel: title }, ...children));
    return status;
  }

  function render() {
    const { plan, answered } = offer;
    if (answered) {
      show(say(answered.state === "waiting" ? "waiting" : "answered"));
      return;
    }
    const count = plan.keys.length;
    const [{ encode, places }, more] = plan.parts;
    const size = encode === "views" ? places[0].length : count;
    const topic = more ? "Some" : size === count ? "All" : size === 1 ? "One" : "Some";
    const what = say("what", { topic: say(`topic${topic}`, { count }) });
    const buttons = element("p");
    ask(buttons, show("", textOf(what), ...examples(), ...odds(), ...budget(), buttons));
    toss();
  }

  const textOf = (text) => element("p", { part: "text" }, text);

  function examples() {
    const side = element("div");
    const note = element("small");
    toss = async () => {
      const { record } = facts;
      const own = typeof record === "function" ? await record() : record;
      let coded = "";
      const lists = Object.entries({ fromYou: own, fromNone: {} }).map(([name, held]) => {
        const reports = possibleReports(offer.plan, held, SHOWN);
        if (reports.some(({ says }) => !says)) coded = `${say("codeNote")} `;
        const items = reports.map((report) => element("li", { part: "report" }, inWords(report)));
        return element("div", {}, element("h4", {}, say(name)), element("ul", {}, ...items));
      });
      side.replaceChildren(...lists);
      note.textContent = coded + say("exampleNote");
    };
    const again = button("again", () => toss());
    return [element("h3", {}, say("examples")), side, element("p", {}, note), again];
  }

  /** A possible report in words. */
  function inWords({ keys, says, cells }) {
    if (!says) {
      const code = cells.slice(1, 13).join(" ") + (cells.length > 13 ? " …" : "");
      const value = say("code", { code });
      return keys.length ? say("held", { key: keys.join(", "), value }) : value;
    }
    const words = says.map((said, i) => {
      const value = said === true ? say("yes") : number(said);
      return say(said === null ? "absent" : "held", { key: keys[i], value });
    });
    return words.join(", ");
  }

  function odds() {
    const { plan } = offer;
    const factor = number(oddsFactor(plan), "ceil");
    const style = { style: "percent", maximumFractionDigits: 1 };
    const percent = number(mostCertain(plan), "ceil", style);
    return section("odds", { factor, percent });
  }

  function budget() {
    const { chain, proven } = offer.plan;
    const { cap, left } = offer.budget;
    const cost = chain?.total ?? proven;
    const [title, text] = section("budget", {
      cost: number(cost, "ceil"),
      left: number(left, "floor"),
      cap: number(cap, "floor"),
    });
    const ariaLabel = text.textContent;
    const meter = { max: cap, value: cap - left + +cost, part: "meter", ariaLabel };
    return [title, text, element("meter", meter)];
  }

  const section = (name, values) => [element("h3", {}, say(name)), textOf(say(`${name}Text`, values))];

  const button = (part, onclick) => element("button", { part, onclick }, say(part));

  function ask(buttons, status) {
    const end = (name) => {
      accept.disabled = decline.disabled = true;
      status.textContent = say(name);
    };
    const accept = button("accept", async () => {
      end("sending");
      try {
        const outcome = await facts.client.accept(offer, facts.record);
        const { drawn, counted } = outcome;
        const then = counted ? "counted" : isWaiting(outcome) ? "waiting" : "dropped";
        end(drawn ? then : "answered");
        tell("answer", outcome);
      } catch (error) {
        fail(error);
      }
    });
    const decline = button("decline", () => {
      end("declined");
      tell("decline");
    });
    buttons.append(accept, decline);
  }

  return set;
}

const NAME = "keyveil-consent";
if (!customElements.get(NAME)) customElements.define(NAME, KeyveilConsent);
