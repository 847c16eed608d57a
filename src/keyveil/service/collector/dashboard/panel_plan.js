/** The plan: what a client sends, the channel as a picture, epsilon explained, forecasts, downloads. */

import { bytes, get } from "./api.js";
import { pictures, partsOf } from "./channel.js";
import { beliefs, framed, ready } from "./charts.js";
import { compact, epsilon as short, errorOf, h, put, whole } from "./dom.js";
import { csv, download } from "./save.js";

export const plan = { id: "plan", title: "Plan", offered: () => true, make };

function make(context) {
  const drawings = h("div"), odds = h("div"), outlook = h("div", {}, h("p", { class: "wait" }, "Computing")), problem = h("div");
  const { facts } = context;
  const epsilon = Number(facts.proven), factor = Math.exp(epsilon);
  const sure = Math.round((1000 * factor) / (1 + factor)) / 10;
  const element = h("div", {},
    h("section", { class: "card" }, h("h2", {}, "What a client sends"), problem,
      h("p", {}, `A report of ${facts.mechanism} speaks of ${facts.speaks_of}. The device draws the report and sends ${facts.bits < 10 ? facts.bits.toFixed(1) : Math.round(facts.bits)} bits; the record itself never leaves it. Source: ${facts.source}.`),
      facts.note ? h("p", { class: "note" }, `${facts.note}.`) : null, views(context), factsOf(context), drawings),
    h("section", { class: "card" }, h("h2", {}, `Epsilon ${short(facts.promised)}`),
      h("div", { class: "two" }, h("div", {},
        h("p", {}, `Whatever a report says, it is at most ${factor < 100 ? factor.toFixed(2) : compact(factor)} times as likely from one record as from any other. That factor is e to the power of epsilon.`),
        h("p", {}, `Someone who gives even odds on anything about a person, such as "has ${context.plan.schema.keys[0]}", can be at most ${sure} % sure after seeing the report.`),
        h("p", { class: "note" }, `Promised: ${facts.promised}. Proven from the plan's integers: ${facts.proven}. A person who answers other collections too spends the sum.`)), odds)),
    h("section", { class: "card" }, h("h2", {}, "Forecast"), outlook),
    h("section", { class: "card" }, h("h2", {}, "Files"), h("div", { class: "row" },
      h("button", { type: "button", onclick: () => attempt(async () => download(`${context.name}-plan.json`, await bytes(`${context.path}/plan`), "application/json")) }, "Plan (JSON)"),
      h("button", { type: "button", onclick: () => attempt(async () => download(`${context.name}-tally.kv`, await bytes(`${context.path}/tally`))) }, "Tally"),
      h("button", { type: "button", onclick: () => attempt(saveAnswers) }, "Answers (CSV)")),
      h("p", { class: "note" }, "With the plan and the tally, keyveil estimate and keyveil query give the same answers.")));

  async function attempt(work) {
    try { put(problem); await work(); } catch (error) { put(problem, h("p", { class: "problem" }, error.message)); }
  }

  async function saveAnswers() {
    const document = await get(`${context.path}/estimates`);
    const numbers = ["value", "stderr", "low", "high"];
    const parts = facts.answers.filter((part) => part !== "mass");
    download(`${context.name}-answers.csv`, csv([["key", ...parts.flatMap((p) => numbers.map((n) => `${p}_${n}`))], ...document.keys.map((row) => [row.key, ...parts.flatMap((p) => numbers.map((n) => row[p]?.[n] ?? null))])]), "text/csv");
  }

  async function start() {
    await ready();
    const width = context.width() - 50;
    put(drawings, pictures(context.plan, context.name, width));
    put(odds, framed(beliefs(epsilon, width), { title: "What one report can teach", name: `${context.name}-epsilon`, words: "A belief on the dashed line moves into the shaded area and no further." }));
    try {
      put(outlook, forecastTable(await get(`${context.path}/forecast`, { people: 1e5 })));
    } catch (error) { put(outlook, h("p", { class: "note" }, error.message)); }
  }
  return { element, start };
}

function forecastTable({ curve, scale }) {
  const columns = [["shrunk", "frequency", "Frequency, points"], ["shrunk", "mean", "Mean"], ["together", "frequency", "Frequency given a key, points"], ["together", "mean", "Mean given a key"]];
  const rows = curve.filter((row) => [1e3, 1e4, 1e5, 1e6, 1e7].includes(row.people));
  const known = columns.filter(([step, part]) => rows.some((row) => row[step]?.[part]));
  if (!known.length) return h("p", { class: "note" }, "No error is predicted for this plan.");
  return [h("p", { class: "note" }, `The typical error of an answer, by the number of people: of a frequency in percentage points, of a mean for values from ${scale.low} to ${scale.high}. A frequency with an error above 25 points is no answer. Columns of one key are of the default answers, over all keys; columns given a key are before shrinkage, over the half of the keys that most people have.`),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Forecast" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "People"), known.map(([, , title]) => h("th", { scope: "col", class: "number" }, title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "number" }, whole(row.people)), known.map(([step, part]) => h("td", { class: "number" }, row[step]?.[part] ? String(errorOf(part, row[step][part])) : "")))))))];
}

function views(context) {
  const parts = partsOf(context.plan);
  const about = parts.map((part) => {
    const { keys } = part.views ?? {};
    if (keys === "singles") return `one of ${whole(context.plan.schema.keys.length)} keys`;
    if (keys === "whole") return "all keys at once";
    return Array.isArray(keys) ? `one of ${whole(keys.length)} sets of keys, such as ${keys[0].slice(0, 3).map((place) => context.plan.schema.keys[place]).join(" and ")}` : "the whole record";
  });
  return h("p", {}, `A report is about ${about.join("; or ")}. Which one it is about is drawn first, before the record is looked at.`);
}

function factsOf({ facts, plan, status }) {
  const rows = [["Mechanism", facts.mechanism], ["Keys", whole(facts.keys)], ["Epsilon, proven", short(facts.proven)], ["Bits of a report", facts.bits < 10 ? facts.bits.toFixed(1) : whole(facts.bits)], ["Cells of the tally", whole(facts.cells)], ["Levels of a value", plan.schema.levels], ["Round", status.round]];
  return [h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value))))), h("p", { class: "note" }, "Hash ", h("code", {}, plan.hash))];
}
