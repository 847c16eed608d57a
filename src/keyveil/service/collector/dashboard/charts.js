/** Figures by Observable Plot, in the colours of the theme. */

import { compact, figure as shown, h, s } from "./dom.js";
import { download, svg } from "./save.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const AXIS = { tickSize: 0 };
const STYLE = { background: "transparent", color: "var(--ink)", fontSize: "12px", overflow: "visible" };

/** Wait until the libraries are there; they load beside the page. */
export async function ready() {
  while (!(window.Plot && window.d3)) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A figure with its words and a button that saves it as SVG. */
export function framed(drawing, { title, words, name, legend, fixed = false }) {
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `${title}. ${words ?? ""}`.trim());
  return h("figure", {},
    h("div", { class: "row between" }, h("h3", {}, title),
      h("button", { type: "button", class: "quiet", "data-id": `save-${name}`, "aria-label": `Save as SVG: ${title}`, onclick: () => download(`${name}.svg`, svg(drawing), "image/svg+xml") }, "Save as SVG")),
    h("div", { class: fixed ? "drawing fixed" : "drawing", tabindex: fixed ? 0 : undefined, role: fixed ? "group" : undefined, "aria-label": fixed ? title : undefined }, drawing), legend, words ? h("figcaption", {}, words) : null);
}

const short = (name, most = 22) => (name.length > most ? name.slice(0, most - 1) + "…" : name);

/** Values with intervals, a row for each key. */
export function intervals(rows, kind, ends, width) {
  const known = rows.filter((row) => row.estimate?.value !== null && row.estimate);
  const bounded = known.filter((row) => row.estimate.low !== null && row.estimate.high !== null);
  const percent = kind === "frequency";
  const scale = percent ? 100 : 1;
  const most = percent ? Math.min(1, Math.max(0.02, ...bounded.map((row) => row.estimate.high)) * 1.04) : ends[1];
  const tip = (row) => `${row.key}\n${shown(kind, row.estimate.value, row.estimate.stderr)}\n${row.words}`;
  const names = new Map(rows.map((row) => [row.id, short(row.key, width < 500 ? 14 : 22)]));
  return Plot.plot({
    width, marginLeft: width < 500 ? 96 : 150, marginRight: 16, height: 44 + 22 * rows.length, style: STYLE,
    x: { domain: [percent ? 0 : ends[0], most * scale], grid: true, label: percent ? "share of people, %" : kind, labelAnchor: "center", ...AXIS, clamp: true },
    y: { domain: rows.map((row) => row.id), label: null, tickFormat: (id) => names.get(id), ...AXIS },
    marks: [
      Plot.ruleY(bounded, { y: "id", x1: (row) => row.estimate.low * scale, x2: (row) => row.estimate.high * scale, stroke: "var(--band)", strokeWidth: 7, strokeLinecap: "round" }),
      Plot.dot(bounded, { y: "id", x: (row) => row.estimate.value * scale, fill: (row) => (row.mark ? "var(--other)" : "var(--accent)"), r: 4 }),
      Plot.text(rows.filter((row) => !bounded.includes(row)), { y: "id", text: (row) => row.words || "not estimable", frameAnchor: "middle", fill: "var(--muted)", fontStyle: "italic" }),
      Plot.tip(bounded, Plot.pointerY({ y: "id", x: (row) => row.estimate.value * scale, title: tip, fill: "var(--card)", stroke: "var(--field)" })),
    ],
  });
}

/** How sure a cell is: 1 for a point, 0 for an interval as wide as the range. */
export function sureness(cell, kind, ends) {
  if (!cell || cell.value === null || cell.low === null || cell.high === null) return 0;
  const span = kind === "lift" ? 2 : ends[1] - ends[0];
  return Math.max(0, 1 - (cell.high - cell.low) / span);
}

/** The colour of a value. */
function colours(kind, values, ends) {
  if (kind === "lift") {
    const scale = d3.scaleDivergingLog([1 / 3, 1, 3], d3.interpolateRgbBasis([css("--cell-less"), css("--cell-mid"), css("--cell-high")])).clamp(true);
    return (value) => scale(Math.max(value, 1e-6));
  }
  const domain = kind === "mean" ? ends : [0, Math.max(0.05, d3.max(values) ?? 1)];
  return d3.scaleSequential(domain, d3.interpolateRgb(css("--cell-low"), css("--cell-high"))).clamp(true);
}

/** The matrix: colour is the value, the size of a square how sure it is; hatched cells are not estimable. */
export function heat({ keys, cells, kind, ends, width, describe, picked }) {
  const size = Math.max(7, Math.min(46, Math.floor((width - 130) / keys.length)));
  const margin = { left: 118, top: 96 };
  const known = cells.filter((cell) => cell.value !== null && cell.low !== null && cell.high !== null);
  const colour = colours(kind, known.map((cell) => cell.value), ends);
  const side = (cell) => size * Math.sqrt(0.12 + 0.88 * cell.sure) - 1;
  const names = keys.map((key) => short(key, 15));
  const step = Math.ceil(13 / size);
  const every = d3.range(0, keys.length, step);
  const dims = { width: margin.left + size * keys.length + 8, height: margin.top + size * keys.length + 8 };
  const square = (more) => ({ x: "given", y: "target", ...more });
  return Plot.plot({
    ...dims, marginLeft: margin.left, marginTop: margin.top, marginBottom: 8, marginRight: 8, style: STYLE,
    x: { domain: d3.range(keys.length), axis: null, padding: 0, round: false }, y: { domain: d3.range(keys.length), axis: null, padding: 0, round: false },
    marks: [
      hatching,
      Plot.cell(cells.filter((cell) => !known.includes(cell)), square({ fill: "url(#hatched)", inset: 0.5 })),
      squares(known, side, (cell) => colour(cell.value)),
      Plot.axisY(every, { tickSize: 0, tickFormat: (i) => names[i], label: null, fontSize: 11 }),
      Plot.axisX(every, { anchor: "top", tickSize: 0, tickRotate: -55, textAnchor: "start", tickFormat: (i) => names[i], label: null, fontSize: 11 }),
      Plot.tip(cells, Plot.pointer({ x: "given", y: "target", title: describe, fill: "var(--card)", stroke: "var(--field)", maxRadius: size })),
      picked ? Plot.cell([picked], square({ stroke: "var(--other)", strokeWidth: 2, fill: "none" })) : null,
    ],
  });
}

/** Squares around the middle of their cells, of any size: a mark of Plot's rect, placed in pixels. */
function squares(data, side, fill) {
  return Plot.dot(data, {
    x: "given", y: "target", symbol: { draw: (context, area) => { const a = Math.sqrt(area); context.rect(-a / 2, -a / 2, a, a); } },
    r: { value: (cell) => side(cell) / Math.sqrt(Math.PI), scale: null }, fill: { value: fill, scale: null }, stroke: "none",
  });
}

/** The pattern of cells that are not estimable. */
function hatching() {
  return s("defs", {}, s("pattern", { id: "hatched", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 6, height: 6, fill: "var(--ground)" }), s("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "var(--unsure)", "stroke-width": 2 })));
}

/** Legend of the matrix. */
export function heatLegend(kind, ends, values) {
  const colour = colours(kind, values, ends);
  const stops = kind === "lift" ? [1 / 3, 0.6, 1, 1.7, 3] : d3.ticks(kind === "mean" ? ends[0] : 0, kind === "mean" ? ends[1] : Math.max(0.05, d3.max(values) ?? 1), 4);
  const block = (fill, side = 13) => s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { x: 7 - side / 2, y: 7 - side / 2, width: side, height: side, fill }));
  return h("div", { class: "legend" },
    stops.map((stop) => h("span", {}, block(colour(stop)), kind === "frequency" ? `${Math.round(100 * stop)} %` : kind === "lift" ? `${stop.toFixed(1)} ×` : String(stop))),
    h("span", {}, block("var(--unsure)", 5), "small: wide interval"),
    h("span", {}, s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { width: 14, height: 14, fill: "var(--ground)", stroke: "var(--unsure)" }), s("path", { d: "M1 13 13 1M0 8 8 0M6 14l8-8", stroke: "var(--unsure)", "stroke-width": 1.6 })), "hatched: not estimable"));
}

/** Predicted errors against people, and the error so far. */
export function errors({ lines, dots, reports, label, width }) {
  const names = [...new Set(lines.map((line) => line.name))];
  const colour = new Map(names.map((name, place) => [name, ["var(--accent)", "var(--other)", "var(--good)"][place % 3]]));
  const last = names.map((name) => lines.filter((line) => line.name === name).at(-1));
  return Plot.plot({
    width, height: 270, marginLeft: 56, marginRight: width < 500 ? 60 : 84, marginBottom: 40, style: STYLE,
    x: { type: "log", label: "people who answer", labelAnchor: "center", tickFormat: compact, ticks: width < 460 ? 3 : 5, grid: true, ...AXIS },
    y: { type: "log", label, tickFormat: (value) => String(Number(value.toPrecision(1))), grid: true, ticks: 4, ...AXIS },
    marks: [
      reports ? Plot.ruleX([reports], { stroke: "var(--field)", strokeDasharray: "2,3" }) : null,
      Plot.line(lines, { x: "people", y: "error", z: "name", stroke: (line) => colour.get(line.name), strokeWidth: 2 }),
      Plot.text(last, { x: "people", y: "error", text: "name", textAnchor: "start", dx: 6, fill: (line) => colour.get(line.name) }),
      Plot.dot(dots, { x: "people", y: "error", r: 5.5, fill: (dot) => colour.get(dot.name) ?? "var(--ink)", stroke: "var(--card)", strokeWidth: 1.5 }),
      Plot.tip(dots, Plot.pointer({ x: "people", y: "error", title: "words", fill: "var(--card)", stroke: "var(--field)" })),
    ],
  });
}

/** The channel: for each true state (row), how likely each output is. */
export function law({ rows, states, outputs, width }) {
  const cells = rows.flatMap((row, state) => row.map((share, output) => ({ state, output, share })));
  const colour = d3.scaleSequential([0, d3.max(cells, (cell) => cell.share)], d3.interpolateRgb(css("--cell-low"), css("--cell-high")));
  const left = Math.min(170, 16 + 7 * Math.max(...states.map((name) => name.length)));
  const size = Math.max(16, Math.min(60, (width - left - 10) / outputs.length));
  const tall = Math.min(size, 34);
  const long = Math.max(...outputs.map((name) => name.length)) * 7 > size;
  return Plot.plot({
    width: left + size * outputs.length + 10, height: (long ? 96 : 40) + tall * states.length, marginLeft: left, marginTop: long ? 92 : 36, marginBottom: 4, marginRight: 10, style: STYLE,
    x: { domain: d3.range(outputs.length), axis: null, padding: 0.04 }, y: { domain: d3.range(states.length), axis: null, padding: 0.04 },
    marks: [
      Plot.axisX({ anchor: "top", tickSize: 0, tickFormat: (i) => short(outputs[i], 16), tickRotate: long ? -50 : 0, textAnchor: long ? "start" : "middle", label: null }),
      Plot.axisY({ tickSize: 0, tickFormat: (i) => short(states[i], 24), label: null }),
      Plot.cell(cells, { x: "output", y: "state", fill: { value: (cell) => colour(cell.share), scale: null }, rx: 3 }),
      size < 34 ? null : Plot.text(cells, { x: "output", y: "state", text: (cell) => (100 * cell.share).toFixed(cell.share < 0.0995 ? 1 : 0), fill: { value: (cell) => inkOn(colour(cell.share)), scale: null }, fontSize: 11 }),
      Plot.tip(cells, Plot.pointer({ x: "output", y: "state", title: (cell) => `true: ${states[cell.state]}\nsent: ${outputs[cell.output]}\n${(100 * cell.share).toFixed(2)} % of the time`, fill: "var(--card)", stroke: "var(--field)" })),
    ],
  });
}

const inkOn = (fill) => (d3.lab(fill).l > 55 ? "#10151c" : "#ffffff");

/** Probabilities of a few outcomes, for channels that are no small table. */
export function shares(rows, width) {
  return Plot.plot({
    width, height: 40 + 30 * rows.length, marginLeft: Math.min(260, width * 0.45), marginRight: 50, style: STYLE,
    x: { domain: [0, 100], grid: true, label: "% of the time", labelAnchor: "center", ...AXIS }, y: { domain: rows.map((row) => row.name), label: null, ...AXIS },
    marks: [
      Plot.barX(rows, { x: (row) => 100 * row.share, y: "name", fill: (row) => (row.own ? "var(--accent)" : "var(--band)"), insetTop: 4, insetBottom: 4 }),
      Plot.text(rows, { x: (row) => 100 * row.share, y: "name", text: (row) => `${(100 * row.share).toFixed(1)} %`, textAnchor: "start", dx: 5 }),
    ],
  });
}

/** What one report can teach: belief after against belief before. */
export function beliefs(epsilon, width) {
  const odds = Math.exp(epsilon);
  const at = d3.range(0, 1.0001, 0.02).map((p) => ({ p: 100 * p, low: (100 * p) / (p + (1 - p) * odds), high: (100 * p * odds) / (p * odds + 1 - p) }));
  return Plot.plot({
    width: Math.min(width, 420), height: 280, marginLeft: 46, marginBottom: 38, style: STYLE,
    x: { label: "belief before, %", labelAnchor: "center", grid: true, ticks: 5, ...AXIS }, y: { label: "belief after one report, %", grid: true, ticks: 5, ...AXIS },
    marks: [Plot.areaY(at, { x: "p", y1: "low", y2: "high", fill: "var(--band)", fillOpacity: 0.55 }), Plot.line(at, { x: "p", y: "p", stroke: "var(--muted)", strokeDasharray: "3,3" })],
  });
}
