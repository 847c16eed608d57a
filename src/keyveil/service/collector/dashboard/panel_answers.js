/** Frequency and mean of every key, with intervals. */

import { get } from "./api.js";
import { framed, intervals, ready } from "./charts.js";
import { choice, figure, glyph, h, interval, put } from "./dom.js";
import { address, here, keep } from "./place.js";
import { csv, download } from "./save.js";
import { keepView, table, viewOf } from "./table.js";

const WORDS = {
  shrunk: "Each answer is moved towards what all keys have in common, as far as the tally shows that this lowers the error. Its interval still covers its own key.",
  raw: "Each answer uses its own key's reports alone. It is unbiased, its error is larger, and it can lie outside the possible range.",
};
const DRAWN = 20;

export const answers = { id: "answers", title: "Answers", offered: () => true, make };

/** The range of a key's values. */
export function rangeOf(plan, place) {
  const { ranges } = plan.schema;
  return (ranges.length === 1 ? ranges[0] : ranges[place]).map(Number);
}

function make(context) {
  const { params } = here();
  const view = viewOf(params);
  let raw = params.get("values") === "raw";
  let level = params.get("level") ?? "0.95";
  let document = null, tallest = 1;
  const parts = ["frequency", "mean"].filter((part) => context.facts.answers.includes(part));
  const places = new Map(context.plan.schema.keys.map((key, place) => [key, place]));
  const ends = (part, key) => (part === "frequency" ? [0, tallest] : rangeOf(context.plan, places.get(key)));
  const estimate = (row, part) => (raw && row.raw ? row.raw[part] : row[part]);

  const columns = [{ id: "key", title: "Key", sort: (row) => row.key, cells: (row) => [h("td", { class: "key" }, linked(context, row.key))] },
    ...parts.map((part) => ({
      id: part, title: part === "frequency" ? "Frequency" : "Mean", number: true, wide: 3, sort: (row) => estimate(row, part)?.value,
      cells: (row) => cellsOf(part, estimate(row, part), ends(part, row.key), raw),
    }))];
  const listing = table({ label: "Answers for every key", columns, name: "key", view, changed: () => keepView(view) });
  const figures = h("div", { class: "two" });
  const note = h("p", { class: "note" });
  const problem = h("div", { role: "alert" });
  const element = h("div", {}, h("section", { class: "card" },
    h("div", { class: "row between" }, h("h2", {}, "Every key"), h("div", { class: "row" },
      valuesChoice(raw, (chosen) => { raw = chosen; keep({ values: raw ? "raw" : null }); draw(); }),
      choice("Intervals", [["0.8", "80 %"], ["0.9", "90 %"], ["0.95", "95 %"], ["0.99", "99 %"]], level, (chosen) => { level = chosen; keep({ level: level === "0.95" ? null : level }); load(); }),
      h("button", { type: "button", onclick: () => download(`${context.name}-answers.csv`, table2csv(document, parts), "text/csv") }, "CSV"))),
    note, problem, listing), h("section", { class: "card", "aria-label": "Figures" }, figures));
  listing.addEventListener("drawn", drawFigures);

  async function load() {
    try {
      const early = level === "0.95" ? await context.early : null;
      context.early = null;
      document = early ?? (await get(`${context.path}/estimates`, { level }));
      put(problem);
      draw();
    } catch (error) { put(problem, h("p", { class: "problem" }, error.message)); }
  }

  function draw() {
    if (!document) return;
    const some = document.keys.some((row) => row.raw);
    note.textContent = `${some ? WORDS[raw ? "raw" : "shrunk"] : `These are the answers of ${document.estimator}; this plan has no others beside them.`} ${raw ? "" : sentence(document.note)}`;
    tallest = Math.min(1, Math.max(0.05, ...document.keys.map((row) => estimate(row, "frequency")?.high ?? 0)));
    if (parts.includes("frequency")) note.textContent += ` Bars of frequencies are drawn from 0 to ${figure("frequency", tallest)}.`;
    listing.show(document.keys);
    element.dataset.version = document.version;
  }

  async function drawFigures() {
    await ready();
    const shown = (listing.shown ?? []).slice(0, DRAWN);
    if (!document || !shown.length) return put(figures);
    const width = Math.max(280, Math.min(context.width() - 50, parts.length > 1 && context.width() > 900 ? context.width() / 2 - 45 : context.width()));
    put(figures, parts.map((part) => {
      const rows = shown.map((row) => ({ id: row.key, key: row.key, estimate: estimate(row, part), words: interval(part, estimate(row, part)) }));
      const all = shown.map((row) => ends(part, row.key));
      const range = [Math.min(...all.map((e) => e[0])), Math.max(...all.map((e) => e[1]))];
      const title = part === "frequency" ? "Who has it" : "How they value it";
      return framed(intervals(rows, part, range, width), { title, name: `${context.name}-${part}`, words: `${Math.round(100 * level)} % intervals of the first ${rows.length} keys of the table.` });
    }));
  }

  return {
    element, start: load,
    update: (estimates) => { if (level === "0.95") { document = estimates; draw(); } else load(); },
  };
}

/** The estimator's own note as a sentence. */
function sentence(note) {
  const what = /^shrunk towards what all keys have in common: (.*)$/.exec(note);
  if (what) return `Here this concerns the ${what[1]}.`;
  return note ? `${note[0].toUpperCase()}${note.slice(1)}.` : "";
}

/** A key as a link to the explorer, if conditions can be asked. */
function linked(context, key) {
  if (!context.together) return key;
  return h("a", { href: address(["c", context.name, "explore"], { target: key }), "data-id": `key-${key}` }, key);
}

export function valuesChoice(raw, onchange) {
  const option = (value, words) => h("label", {}, h("input", { type: "radio", name: "values", value, "data-id": `values-${value}`, checked: (value === "raw") === raw, onchange: () => onchange(value === "raw") }), words);
  return h("fieldset", {}, h("legend", { class: "unseen" }, "Values"), option("shrunk", "Shrunk"), option("raw", "Raw"));
}

/** Value, picture and interval of an estimate; a raw value without a bound is noise and is not shown. */
export function cellsOf(kind, estimate, ends, raw = false) {
  if (!estimate) return [h("td"), h("td"), h("td", { class: "ends" })];
  const open = estimate.interval === "unbounded";
  const text = open && raw ? "unknown" : figure(kind, estimate.value, estimate.stderr);
  return [
    h("td", { class: "number value", "data-kind": kind, "data-value": estimate.value, "data-low": estimate.low, "data-high": estimate.high }, text),
    h("td", { class: "picture" }, glyph(estimate, ends)),
    h("td", { class: "ends" }, interval(kind, estimate)),
  ];
}

function table2csv(document, parts) {
  const numbers = ["value", "stderr", "low", "high"];
  const heads = ["key", ...parts.flatMap((part) => [...numbers.map((n) => `${part}_${n}`), ...numbers.map((n) => `raw_${part}_${n}`)])];
  const cells = (estimate) => numbers.map((name) => estimate?.[name] ?? null);
  return csv([heads, ...document.keys.map((row) => [row.key, ...parts.flatMap((part) => [...cells(row[part]), ...cells(row.raw?.[part])])])]);
}
