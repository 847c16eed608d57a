/** Association rules above noise. */

import { get } from "./api.js";
import { choice, figure, h, interval, put, whole } from "./dom.js";
import { address, here, keep } from "./place.js";
import { csv, download } from "./save.js";
import { keepView, table, viewOf } from "./table.js";

export const rules = { id: "rules", title: "Rules", offered: (context) => context.together, make };

const people = (rule) => rule.antecedent.map(({ key, held }) => `${held ? "with" : "without"} ${key}`).join(" and ");

function make(context) {
  const { params } = here();
  let rate = params.get("rate") ?? "0.05", given = params.get("given") ?? "held";
  let document = null;
  const view = viewOf(params);
  const cell = (kind, estimate) => [h("td", { class: "number", "data-kind": kind, "data-value": estimate.value },
    h("div", { class: "value" }, kind === "lift" ? `${figure(kind, estimate.value, estimate.stderr)} ×` : figure(kind, estimate.value, estimate.stderr)),
    h("div", { class: "under" }, interval(kind, estimate)))];
  const columns = [
    { id: "people", title: "People", sort: people, cells: (rule) => [h("td", { class: "key" }, h("a", { "data-id": `${people(rule)}>${rule.consequent}`, href: address(["c", context.name, "explore"], { target: rule.consequent, with: rule.antecedent.filter((c) => c.held).map((c) => c.key), without: rule.antecedent.filter((c) => !c.held).map((c) => c.key) }) }, people(rule)))] },
    { id: "also", title: "also have", sort: (rule) => rule.consequent, cells: (rule) => [h("td", { class: "key" }, rule.consequent)] },
    { id: "frequency", title: "Share of them", number: true, sort: (rule) => rule.frequency.value, cells: (rule) => cell("frequency", rule.frequency) },
    { id: "reverse", title: "The other way", number: true, sort: (rule) => rule.reverse.value, cells: (rule) => cell("frequency", rule.reverse) },
    { id: "lift", title: "Lift", number: true, sort: (rule) => rule.lift.value, cells: (rule) => cell("lift", rule.lift) },
    { id: "support", title: "Of all people", number: true, sort: (rule) => rule.support.value, cells: (rule) => cell("frequency", rule.support) },
  ];
  const listing = table({ label: "Association rules", columns, name: "rule", view, changed: () => keepView(view) });
  listing.hidden = true; // "0 rules" would be said too early
  const words = h("p", { class: "note" });
  const problem = h("div");
  const fresh = h("button", { type: "button", hidden: true, onclick: load }, "Update");
  const element = h("section", { class: "card" },
    h("div", { class: "row between" }, h("h2", {}, "Who has this also has that"), h("div", { class: "row" }, fresh,
      choice("False rules, at most", [["0.01", "1 %"], ["0.05", "5 %"], ["0.1", "10 %"], ["0.2", "20 %"]], rate, (chosen) => { rate = chosen; keep({ rate }); load(); }),
      choice("Conditions", [["held", "keys that people have"], ["absent", "keys that they lack"], ["either", "either"]], given, (chosen) => { given = chosen; keep({ given }); load(); }),
      h("button", { type: "button", onclick: save }, "CSV"))), words, problem, listing);

  async function load() {
    fresh.hidden = true;
    words.textContent = "Computing";
    try {
      document = await get(`${context.path}/rules`, { false_discovery: rate, given });
      put(problem);
      words.textContent = document.found
        ? `${whole(document.found)} of ${whole(document.tested)} tested rules are above noise; the surest are listed first. On average at most ${Math.round(100 * rate)} % of such a list are false. The small numbers are ${Math.round(100 * document.level)} % intervals.`
        : `None of ${whole(document.tested)} tested rules is above noise. More reports may show some.`;
      listing.show(document.rules);
      listing.hidden = !document.rules.length;
    } catch (error) { words.textContent = ""; put(problem, h("p", { class: "problem" }, error.message)); }
  }

  function save() {
    const parts = ["frequency", "reverse", "lift", "support"], numbers = ["value", "low", "high"];
    const rows = (document?.rules ?? []).map((rule) => [people(rule), rule.consequent, ...parts.flatMap((part) => numbers.map((n) => rule[part][n])), rule.p_value, rule.adjusted]);
    download(`${context.name}-rules.csv`, csv([["people", "also_have", ...parts.flatMap((part) => numbers.map((n) => `${part}_${n}`)), "p_value", "adjusted"], ...rows]), "text/csv");
  }

  return { element, start: load, tally: (facts) => { if (document && facts.reports > document.reports) { fresh.hidden = false; fresh.textContent = `Update: ${whole(facts.reports - document.reports)} new reports`; } } };
}
