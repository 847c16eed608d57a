/** The error so far against the plan's forecast, and against more people. */

import { get } from "./api.js";
import { errors, framed, ready } from "./charts.js";
import { compact, errorOf, errorText, h, put, whole } from "./dom.js";

export const error = { id: "error", title: "Error", offered: () => true, make };

const EVERY = 5000;
const TITLES = { frequency: "Error of a frequency", mean: "Error of a mean" };
const cell = (part, value) => (value === null || value === undefined ? "unknown" : String(errorOf(part, value)));
const title = (part) => (part === "frequency" ? "frequency (percentage points)" : part);

function make(context) {
  const holder = h("div", {}, h("p", { class: "wait" }, "Computing"));
  const element = h("section", { class: "card" }, h("h2", {}, "How exact the answers are"), holder);
  let last = 0;

  async function load() {
    last = Date.now();
    try {
      const document = await get(`${context.path}/forecast`);
      await ready();
      put(holder, content(document));
    } catch (error) { put(holder, h("p", { class: "problem" }, error.message)); }
  }

  function content(document) {
    const width = context.width() > 900 ? context.width() / 2 - 45 : context.width() - 40;
    const parts = ["frequency", "mean"].filter((part) => document.curve.some((row) => row.raw?.[part] || row.together?.[part]));
    if (!parts.length) return h("p", { class: "note" }, "No error is predicted for this plan.");
    return [
      ...parts.map((part) => h("p", {}, sentence(document, part))),
      h("div", { class: "two" }, parts.map((part) => drawn(document, part, width))),
      h("p", { class: "note" }, "Lines are predictions made from the plan alone, for people of whom nothing is known: they hold three keys in ten. Dots are the errors of this collection's own answers, a root mean square over all keys."),
      listed(document, parts),
    ];
  }

  function drawn(document, part, width) {
    const names = { raw: "raw", shrunk: "shrunk", together: "pairs" };
    const lines = Object.entries(names).flatMap(([step, name]) => document.curve.filter((row) => row[step]?.[part] > 0).map((row) => ({ name, people: row.people, error: errorOf(part, row[step][part]) })));
    const dots = document.so_far ? [["raw", "raw"], ["best", "shrunk"]].map(([step, name]) => ({ name, ring: step === "raw", people: document.reports, error: errorOf(part, document.so_far[step][part]), words: `${name} answers so far: ${errorText(part, document.so_far[step][part])}` })).filter((dot) => dot.error > 0) : [];
    const scale = part === "mean" ? `, for values from ${document.scale.low} to ${document.scale.high}` : "";
    const { drawing, legend } = errors({ lines, dots, reports: document.reports, label: part === "frequency" ? "error, percentage points" : "error", width });
    const pairs = lines.some((line) => line.name === "pairs") ? "Pairs: the same statistic given one other key. " : "";
    return framed(drawing, { title: TITLES[part] + scale, name: `${context.name}-error-${part}`, legend, words: `${pairs}Both scales are logarithmic.` });
  }

  return { element, start: load, tally: () => { if (Date.now() - last > EVERY) load(); } };
}

/** The row of the curve whose number of people is nearest. */
function nearest(curve, people) {
  return curve.reduce((best, row) => (Math.abs(Math.log(row.people / people)) < Math.abs(Math.log(best.people / people)) ? row : best));
}

function sentence(document, part) {
  const what = part === "frequency" ? "A frequency" : "A mean";
  if (!document.so_far) return `${what}: there are no reports yet; the forecast is below.`;
  const forecast = nearest(document.curve, Math.max(document.reports, 1)).raw?.[part];
  return `${what} is typically off by ${errorText(part, document.so_far.best[part])} (raw: ${errorText(part, document.so_far.raw[part])}) after ${whole(document.reports)} reports; the forecast for raw answers is ${errorText(part, forecast)}.`;
}

function listed(document, parts) {
  const rows = document.curve.filter((_, place) => place % 2 === 0);
  return h("details", {}, h("summary", {}, "The forecast as a table"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Forecast" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "number" }, "People"), parts.flatMap((part) => ["raw", "shrunk", "together"].map((step) => h("th", { scope: "col", class: "number" }, `${title(part)}, ${step === "together" ? "pairs" : step}`))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "number" }, compact(row.people)), parts.flatMap((part) => ["raw", "shrunk", "together"].map((step) => h("td", { class: "number" }, cell(part, row[step]?.[part])))))))))); 
}
