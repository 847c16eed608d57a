/** The conditional explorer: a statistic of a key among people who meet conditions. */

import { get } from "./api.js";
import { framed, intervals, ready } from "./charts.js";
import { choice, copier, figure, h, interval, put, queryText, whole } from "./dom.js";
import { rangeOf } from "./panel_answers.js";
import { here, keep } from "./place.js";

const KINDS = [["frequency", "Frequency: how many have it"], ["mean", "Mean: how they value it"], ["lift", "Lift: how much more often"]];
const WHY = {
  "no view": "No report speaks of these keys together, so no number of people would do. Plan a collection that asks for them: keyveil plan --ask.",
  "no reports": "There are no reports yet.",
  nobody: "Nobody seems to meet these conditions, so it is not known how many people it would take.",
};
const EVERY = 3000;

export const explore = { id: "explore", title: "Explore", offered: (context) => context.together, make };

function make(context) {
  const { params } = here();
  const keys = context.plan.schema.keys;
  const places = new Map(keys.map((key, place) => [key, place]));
  const kinds = KINDS.filter(([kind]) => kind !== "mean" || context.facts.answers.includes("mean"));
  let kind = kinds.some(([name]) => name === params.get("kind")) ? params.get("kind") : "frequency";
  let target = places.has(params.get("target")) ? params.get("target") : keys[0];
  let given = [...params.getAll("with").map((key) => [key, true]), ...params.getAll("without").map((key) => [key, false])].filter(([key]) => places.has(key) && key !== target);
  const unknown = ["target", "with", "without"].flatMap((name) => params.getAll(name)).filter((key) => !places.has(key));
  let asked = 0, last = 0;

  const list = h("datalist", { id: "keys" }, keys.slice(0, 2000).map((key) => h("option", { value: key })));
  const targetInput = h("input", { list: "keys", value: target, "data-id": "target", autocomplete: "off", onchange: () => setTarget(targetInput.value) });
  const conditionInput = h("input", { list: "keys", "data-id": "condition", autocomplete: "off", placeholder: "a key", onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); add(true); } } });
  const wrong = h("p", { class: "problem", role: "alert", hidden: true });
  const chips = h("ul", { class: "chips", "aria-label": "Conditions" });
  const text = h("code", { id: "query" });
  const result = h("div", { "aria-live": "polite" });
  const drawing = h("div");
  const element = h("section", { class: "card" },
    h("h2", {}, "What goes together"), list,
    h("form", { class: "row ask", onsubmit: (event) => event.preventDefault() },
      choice("Statistic", kinds, kind, (chosen) => { kind = chosen; changed(); }),
      h("label", { class: "field" }, h("span", {}, "Of the key"), targetInput),
      h("label", { class: "field" }, h("span", {}, "Among people"), conditionInput),
      h("span", { class: "row together" },
        h("button", { type: "button", onclick: () => add(true) }, "who have it"),
        h("button", { type: "button", onclick: () => add(false) }, "who do not"))),
    wrong, chips,
    h("div", { class: "query" }, h("span", { class: "muted" }, "Query"), text,
      copier(text, { class: "quiet" })),
    result, drawing);

  function refuse(words) { wrong.textContent = words; wrong.hidden = !words; }

  function setTarget(name) {
    if (!places.has(name)) return refuse(`There is no key "${name}" in this plan.`);
    target = name;
    given = given.filter(([key]) => key !== target);
    changed();
  }

  function add(held) {
    const name = conditionInput.value;
    if (!places.has(name)) return refuse(name ? `There is no key "${name}" in this plan.` : "Choose the key of a condition first.");
    if (name === target) return refuse("The key itself cannot be a condition.");
    given = [...given.filter(([key]) => key !== name), [name, held]];
    conditionInput.value = "";
    changed();
  }

  function changed() {
    refuse("");
    targetInput.value = target;
    keep({ kind: kind === "frequency" ? null : kind, target, with: given.filter(([, held]) => held).map(([key]) => key), without: given.filter(([, held]) => !held).map(([key]) => key) });
    put(chips, given.map(([key, held]) => h("li", {}, held ? `with ${key}` : `without ${key}`,
      h("button", { type: "button", "aria-label": `Remove ${key}`, onclick: () => { given = given.filter(([other]) => other !== key); changed(); } }, "×"))));
    text.textContent = queryText(kind, target, given);
    load();
  }

  async function load() {
    const number = ++asked;
    last = Date.now();
    if (kind === "lift" && !given.length) return put(result, h("p", { class: "note" }, "A lift compares with a condition: add one.")), put(drawing);
    const queries = [text.textContent, ...(kind === "lift" || !given.length ? [] : [queryText(kind, target)])];
    try {
      const document = await get(`${context.path}/queries`, { q: queries });
      const [answer, alone = null] = document.answers;
      const short = poor(answer) ? (await get(`${context.path}/needed`, { q: queries.slice(0, 1) })).answers[0] : null;
      if (number === asked) await show(answer, alone, short, document.reports);
    } catch (error) {
      if (number === asked) put(result, h("p", { class: "problem" }, error.message)), put(drawing);
    }
  }

  /** Whether an answer says nothing: it has no bound, or covers all that is possible. */
  function poor(answer) {
    if (answer.how !== "view" || answer.interval === "unbounded") return true;
    const ends = kind === "frequency" ? [0, 1] : kind === "mean" ? rangeOf(context.plan, places.get(target)) : [0, Infinity];
    return answer.low <= ends[0] && answer.high >= ends[1];
  }

  async function show(answer, alone, short, reports) {
    const who = given.length ? `Among people ${given.map(([key, held]) => `${held ? "with" : "without"} ${key}`).join(" and ")}` : "Among all people";
    const all = kind === "lift" ? null : alone;
    put(result, h("div", { class: "answer" },
      block(who, answer, short, true), all ? block("Among all people", all, null, false) : null),
      answer.shown === false ? h("p", { class: "note" }, "The tally does not show that these go together: the value is close to the one without the condition.") : null,
      answer.how === "range" ? h("p", { class: "warning" }, "The interval holds every value that agrees with the reports.", answer.guess === null ? "" : ` A guess without an error bound: ${figure(kind, answer.guess, 0.01)}.`) : null,
      h("p", { class: "note" }, `From ${whole(reports)} reports${answer.estimator ? ` (estimator: ${answer.estimator})` : ""}.`));
    await ready();
    const ends = kind === "mean" ? rangeOf(context.plan, places.get(target)) : kind === "lift" ? [0, Math.max(2, (answer.high ?? 2) * 1.1)] : [0, 1];
    const rows = [{ id: "given", key: given.length ? "given these" : "all people", estimate: answer, words: interval(kind, answer), mark: true }];
    if (all) rows.push({ id: "alone", key: "all people", estimate: all, words: interval(kind, all) });
    put(drawing, framed(intervals(rows, kind, ends, context.width() - 50), { title: text.textContent, name: `${context.name}-query` }));
  }

  function block(who, answer, short, main) {
    const words = short ? need(short) : null;
    const none = poorly(answer);
    return h("div", { class: main ? "main" : "" }, h("div", { class: "muted" }, who),
      h("div", { class: "big", "data-role": main ? "answer" : "alone", "data-value": answer.value, "data-low": answer.low, "data-high": answer.high }, none ? "not estimable" : figure(kind, answer.value, answer.stderr)),
      answer.low === null && answer.high === null ? null : h("div", {}, `95 % interval: ${interval(kind, answer)}`),
      words ? h("p", { class: "warning", "data-role": "needed" }, words) : null);
  }

  const poorly = (answer) => answer.value === null || (answer.interval === "unbounded" && !answer.raw);
  const need = (short) => (short.people === null ? WHY[short.why] || WHY.nobody : `Not estimable; needs about ${whole(short.people)} people.`);

  function start() {
    changed();
    if (unknown.length) refuse(`There is no key "${unknown[0]}" in this plan; the link's query is not shown.`);
  }

  return { element, start, tally: () => { if (Date.now() - last > EVERY) load(); } };
}
