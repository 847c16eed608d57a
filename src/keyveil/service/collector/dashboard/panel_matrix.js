/** The whole matrix: a statistic of each key given each other key. */

import { get } from "./api.js";
import { framed, heat, heatLegend, ready, sureness } from "./charts.js";
import { choice, figure, h, interval, put, queryText, whole } from "./dom.js";
import { rangeOf } from "./panel_answers.js";
import { address, here, keep } from "./place.js";
import { csv, download } from "./save.js";

const MOST = 200;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export const matrix = { id: "matrix", title: "Matrix", offered: (context) => context.together, make };

function make(context) {
  const { keys } = context.plan.schema;
  const kinds = ["frequency", "mean", "lift"].filter((kind) => kind !== "mean" || context.facts.answers.includes("mean"));
  const asked = here().params.get("kind");
  let kind = kinds.includes(asked) ? asked : "frequency";
  let document = null, cells = [], drawing = null, at = null, seen = 0;
  const holder = h("div");
  const detail = h("p", { "aria-live": "polite", id: "cell" }, "Point at a cell, or move with the arrow keys, to read its interval.");
  const fresh = h("button", { type: "button", hidden: true, onclick: load }, "Update");
  const element = h("section", { class: "card" },
    h("div", { class: "row between" }, h("h2", {}, "Each key given each other"), h("div", { class: "row" }, fresh,
      choice("Statistic", kinds.map((name) => [name, name]), kind, (chosen) => { kind = chosen; keep({ kind }); load(); }),
      h("button", { type: "button", onclick: save }, "CSV"))),
    h("p", { class: "note" }, "Row: the key that is asked about. Column: the key that people have. A small square has a wide interval."), holder, detail);

  async function load() {
    fresh.hidden = true;
    if (keys.length > MOST) return put(holder, h("p", { class: "warning" }, `The matrix is drawn up to ${MOST} keys, and this plan has ${whole(keys.length)}. The explorer answers any of them.`));
    if (!document) put(holder, h("p", { class: "wait" }, "Computing"));
    try {
      document = await get(`${context.path}/conditional`, { kind });
      seen = document.reports;
      await ready();
      draw();
    } catch (error) { put(holder, h("p", { class: "problem" }, error.message)); }
  }

  const ends = (target) => (kind === "frequency" ? [0, 1] : kind === "mean" ? rangeOf(context.plan, target) : [0, 2]);

  function draw() {
    const begun = performance.now();
    cells = document.matrix.flatMap((row, target) => row.map((cell, given) => cell && { ...cell, target, given, sure: sureness(cell, kind, ends(target)) })).filter(Boolean);
    const all = keys.map((_, place) => ends(place));
    const range = [Math.min(...all.map((e) => e[0])), Math.max(...all.map((e) => e[1]))];
    const values = cells.filter((cell) => cell.value !== null && cell.high !== null).map((cell) => cell.value);
    drawing = heat({ keys, cells, kind, ends: range, width: context.width() - 50, describe: words });
    drawing.addEventListener("input", () => { if (drawing.value) say(drawing.value); });
    const figureNode = framed(drawing, { title: `${kind} of the row's key given the column's`, name: `${context.name}-matrix`, legend: heatLegend(kind, range, values, cells.some((cell) => cell.shown === false)), fixed: true });
    const area = figureNode.querySelector(".drawing");
    area.dataset.id = "matrix";
    area.addEventListener("keydown", move);
    put(holder, figureNode);
    if (at) drawing.pick(chosen());
    element.dataset.milliseconds = String(performance.now() - begun);
  }

  function move(event) {
    const step = MOVES[event.key];
    if (!step) return;
    event.preventDefault();
    const limit = (n) => Math.min(keys.length - 1, Math.max(0, n));
    let next = at ? [limit(at[0] + step[0]), limit(at[1] + step[1])] : [0, 1];
    if (next[0] === next[1]) next = [limit(next[0] + step[0]), limit(next[1] + step[1])];
    if (next[0] === next[1]) return;
    at = next;
    drawing.pick(chosen());
    say(chosen());
  }

  const chosen = () => cells.find((cell) => cell.target === at[0] && cell.given === at[1]);

  function words(cell) {
    const sign = cell.shown === false ? "\nno sign that they go together" : "";
    const text = cell.value === null || (cell.low === null && cell.high === null) ? "not estimable" : figure(kind, cell.value, cell.stderr);
    const ending = cell.low === null && cell.high === null ? "" : `\n${interval(kind, cell)}`;
    return `${cell.query}\n${text}${ending}${sign}`;
  }

  function say(cell) {
    const [target, given] = [keys[cell.target], keys[cell.given]];
    put(detail, `${words(cell).replaceAll("\n", "; ")}. `, h("a", { href: address(["c", context.name, "explore"], { kind, target, with: given }) }, "Explore"));
  }

  function save() {
    const rows = cells.map((cell) => [keys[cell.target], keys[cell.given], queryText(kind, keys[cell.target], [[keys[cell.given], true]]), cell.value, cell.stderr, cell.low, cell.high]);
    download(`${context.name}-${kind}-matrix.csv`, csv([["target", "given", "query", "value", "stderr", "low", "high"], ...rows]), "text/csv");
  }

  return {
    element, start: load,
    tally: (facts) => { if (document && facts.reports > seen) { fresh.hidden = false; fresh.textContent = `Update: ${whole(facts.reports - seen)} new reports`; } },
  };
}
