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
  for (const group of drawing.querySelectorAll("g[aria-label]")) group.removeAttribute("aria-label");
  return h("figure", {},
    h("div", { class: "row between" }, h("h3", {}, title),
      h("button", { type: "button", class: "quiet", "data-id": `save-${name}`, "aria-label": `Save as SVG: ${title}`, onclick: () => download(`${name}.svg`, svg(drawing), "image/svg+xml") }, "Save as SVG")),
    h("div", { class: fixed ? "drawing fixed" : "drawing", tabindex: fixed ? 0 : undefined, role: fixed ? "group" : undefined, "aria-label": fixed ? title : undefined }, drawing), legend, words ? h("figcaption", {}, words) : null);
}

const short = (name, most = 22) => (name.length > most ? name.slice(0, most - 1) + "…" : name);

/** Values with intervals, a row for each key. */
export function intervals(rows, kind, ends, width) {
  const bounded = rows.filter((row) => row.estimate && row.estimate.low !== null && row.estimate.high !== null);
  const valued = bounded.filter((row) => row.estimate.value !== null);
  const percent = kind === "frequency";
  const scale = percent ? 100 : 1;
  const most = percent ? Math.min(1, Math.max(0.02, ...bounded.map((row) => row.estimate.high)) * 1.04) : ends[1];
  const tip = (row) => `${row.key}\n${shown(kind, row.estimate.value, row.estimate.stderr)}\n${row.words}`;
  const names = new Map(rows.map((row) => [row.id, short(row.key, width < 500 ? 14 : 22)]));
  return Plot.plot({
    width, marginLeft: width < 500 ? 96 : 150, marginRight: 16, marginBottom: 44, height: 66 + 24 * rows.length, style: STYLE,
    x: { domain: [percent ? 0 : ends[0], most * scale], grid: true, label: percent ? "share of people, %" : kind, labelAnchor: "center", labelArrow: "none", labelOffset: 38, ticks: width < 500 ? 4 : 6, ...AXIS, clamp: true },
    y: { domain: rows.map((row) => row.id), label: null, tickFormat: (id) => names.get(id), ...AXIS },
    marks: [
      Plot.ruleY(bounded, { y: "id", x1: (row) => row.estimate.low * scale, x2: (row) => row.estimate.high * scale, stroke: "var(--band)", strokeWidth: 7, strokeLinecap: "round" }),
      Plot.dot(valued, { y: "id", x: (row) => row.estimate.value * scale, fill: (row) => (row.mark ? "var(--other)" : "var(--accent)"), r: 4 }),
      Plot.text(rows.filter((row) => !row.estimate || row.estimate.low === null || row.estimate.high === null), { y: "id", text: (row) => row.words || "not estimable", frameAnchor: "middle", fill: "var(--muted)", fontStyle: "italic" }),
      Plot.tip(valued, Plot.pointerY({ y: "id", x: (row) => row.estimate.value * scale, title: tip, fill: "var(--card)", stroke: "var(--field)" })),
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

/**
 * The matrix: colour is the value, the size of a square how sure it is; it is round where there is no sign
 * that the two go together, and hatched cells are not estimable.
 * ``pick(cell)`` of the drawing marks a cell; to draw everything anew takes too long for a key press.
 */
export function heat({ keys, cells, kind, ends, width, describe }) {
  const size = Math.max(7, Math.min(64, Math.floor((width - 130) / keys.length)));
  const margin = { left: 118, top: 96 };
  const [known, unknown] = [[], []];
  for (const cell of cells) (cell.value !== null && (cell.low !== null || cell.high !== null) ? known : unknown).push(cell);
  const colour = colours(kind, known.map((cell) => cell.value), ends);
  const side = (cell) => size * Math.sqrt(0.12 + 0.88 * cell.sure) - 1;
  const names = keys.map((key) => short(key, 15));
  const step = Math.ceil(13 / size);
  const every = d3.range(0, keys.length, step);
  const dims = { width: margin.left + size * keys.length + 8, height: margin.top + size * keys.length + 8 };
  const square = (more) => ({ x: "given", y: "target", ...more });
  const drawing = Plot.plot({
    ...dims, marginLeft: margin.left, marginTop: margin.top, marginBottom: 8, marginRight: 8, style: STYLE,
    x: { domain: d3.range(keys.length), axis: null, padding: 0, round: false }, y: { domain: d3.range(keys.length), axis: null, padding: 0, round: false },
    marks: [
      hatching,
      Plot.cell(unknown, square({ fill: "url(#hatched)", inset: 0.5 })),
      sized(known.filter((cell) => cell.shown !== false), side, (cell) => colour(cell.value), SQUARE),
      sized(known.filter((cell) => cell.shown === false), side, (cell) => colour(cell.value), ROUND),
      size < 40 ? null : Plot.text(known.filter((cell) => cell.sure > 0.5), { x: "given", y: "target", text: (cell) => (kind === "frequency" ? Math.round(100 * cell.value) + " %" : cell.value.toFixed(1)), fill: { value: (cell) => inkOn(colour(cell.value)), scale: null }, fontSize: 12 }),
      Plot.axisY(every, { tickSize: 0, tickFormat: (i) => names[i], label: null, fontSize: 11 }),
      Plot.axisX(every, { anchor: "top", tickSize: 0, tickRotate: -55, textAnchor: "start", tickFormat: (i) => names[i], label: null, fontSize: 11 }),
      Plot.tip(cells, Plot.pointer({ x: "given", y: "target", title: describe, fill: "var(--card)", stroke: "var(--field)", maxRadius: size })),
    ],
  });
  const [x, y] = [drawing.scale("x"), drawing.scale("y")];
  drawing.pick = ({ given, target }) => {
    drawing.querySelector(".picked")?.remove();
    const place = { x: x.apply(given), y: y.apply(target), width: x.bandwidth, height: y.bandwidth };
    drawing.append(s("rect", { class: "picked", ...place, fill: "none", stroke: "var(--other)", "stroke-width": 2, "pointer-events": "none" }));
  };
  return drawing;
}

const SQUARE = { draw: (context, area) => { const a = Math.sqrt(area); context.rect(-a / 2, -a / 2, a, a); } };
const ROUND = { draw: (context, area) => { context.arc(0, 0, Math.sqrt(area) / 2, 0, 2 * Math.PI); } };

/** Squares, or circles that fit into them, around the middle of their cells, with sides in pixels. */
function sized(data, side, fill, symbol) {
  return Plot.dot(data, {
    x: "given", y: "target", symbol, r: { value: (cell) => side(cell) / Math.sqrt(Math.PI), scale: null }, fill: { value: fill, scale: null }, stroke: "none",
  });
}

/** The pattern of cells that are not estimable. */
function hatching() {
  return s("defs", {}, s("pattern", { id: "hatched", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    s("rect", { width: 6, height: 6, fill: "var(--ground)" }), s("line", { x1: 0, y1: 0, x2: 0, y2: 6, stroke: "var(--unsure)", "stroke-width": 2 })));
}

/** Legend of the matrix; ``round`` if some cells are. */
export function heatLegend(kind, ends, values, round) {
  const colour = colours(kind, values, ends);
  const stops = kind === "lift" ? [1 / 3, 0.6, 1, 1.7, 3] : d3.ticks(kind === "mean" ? ends[0] : 0, kind === "mean" ? ends[1] : Math.max(0.05, d3.max(values) ?? 1), 4);
  const block = (fill, side = 13) => s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { x: 7 - side / 2, y: 7 - side / 2, width: side, height: side, fill }));
  return h("div", { class: "legend" },
    stops.map((stop) => h("span", {}, block(colour(stop)), kind === "frequency" ? `${Math.round(100 * stop)} %` : kind === "lift" ? `${stop.toFixed(1)} ×` : String(stop))),
    h("span", {}, block("var(--unsure)", 5), "small: wide interval"),
    round ? h("span", {}, s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("circle", { cx: 7, cy: 7, r: 6.5, fill: "var(--unsure)" })), "round: no sign that they go together") : null,
    h("span", {}, s("svg", { width: 14, height: 14, "aria-hidden": "true" }, s("rect", { width: 14, height: 14, fill: "var(--ground)", stroke: "var(--unsure)" }), s("path", { d: "M1 13 13 1M0 8 8 0M6 14l8-8", stroke: "var(--unsure)", "stroke-width": 1.6 })), "hatched: not estimable"));
}

/** Predicted errors against people, and the error so far. */
export function errors({ lines, dots, reports, label, width }) {
  const names = [...new Set(lines.map((line) => line.name))];
  const colour = new Map(names.map((name, place) => [name, ["var(--accent)", "var(--other)", "var(--good)"][place % 3]]));
  const across = d3.extent(lines, (line) => line.people), up = d3.extent([...lines, ...dots], (line) => line.error);
  const drawing = Plot.plot({
    width, height: 280, marginLeft: 56, marginRight: 16, marginBottom: 44, style: STYLE,
    x: { type: "log", domain: across, label: "people who answer", labelAnchor: "center", labelArrow: "none", labelOffset: 38, tickFormat: compact, ticks: steps(across, [1]), grid: true, ...AXIS },
    y: { type: "log", domain: up, label, labelArrow: "none", tickFormat: (value) => String(Number(value.toPrecision(1))), grid: true, ticks: steps(up, up[1] / up[0] > 60 ? [1, 3] : [1, 2, 5]), ...AXIS },
    marks: [
      reports ? Plot.ruleX([reports], { stroke: "var(--field)", strokeDasharray: "2,3" }) : null,
      Plot.line(lines, { x: "people", y: "error", z: "name", stroke: (line) => colour.get(line.name), strokeWidth: 2 }),
      Plot.dot(dots, { x: "people", y: "error", r: (dot) => (dot.ring ? 7.5 : 4.5), fill: (dot) => (dot.ring ? "none" : colour.get(dot.name)), stroke: (dot) => colour.get(dot.name), strokeWidth: 2 }),
      Plot.tip(dots, Plot.pointer({ x: "people", y: "error", title: "words", fill: "var(--card)", stroke: "var(--field)" })),
    ],
  });
  const dash = (name) => s("svg", { width: 22, height: 12, "aria-hidden": "true" }, s("line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: colour.get(name), "stroke-width": 3 }));
  return { drawing, legend: h("div", { class: "legend" }, names.map((name) => h("span", {}, dash(name), name)), dots.length ? h("span", {}, "ring and dot: so far") : null) };
}

/** Ticks of a logarithmic scale: these digits in every power of ten. */
function steps([low, high], digits) {
  const powers = d3.range(Math.floor(Math.log10(low)), Math.ceil(Math.log10(high)) + 1);
  return powers.flatMap((power) => digits.map((digit) => Number(`${digit}e${power}`))).filter((tick) => tick >= low && tick <= high);
}

/** The channel: for each true state (row), how likely each output is. */
export function law({ rows, states, outputs, width }) {
  const cells = rows.flatMap((row, state) => row.map((share, output) => ({ state, output, share })));
  const colour = d3.scaleSequentialSqrt([0, d3.max(cells, (cell) => cell.share)], d3.interpolateRgb(css("--cell-low"), css("--cell-high")));
  const left = Math.min(170, 16 + 7 * Math.max(...states.map((name) => name.length)));
  const right = 44; // the last name leans over the edge
  const size = Math.max(16, Math.min(60, (width - left - right) / outputs.length));
  const tall = Math.min(size, 34);
  const long = Math.max(...outputs.map((name) => name.length)) * 7 > size;
  return Plot.plot({
    width: left + size * outputs.length + right, height: (long ? 96 : 40) + tall * states.length, marginLeft: left, marginTop: long ? 92 : 36, marginBottom: 4, marginRight: right, style: STYLE,
    x: { domain: d3.range(outputs.length), axis: null, padding: 0.04 }, y: { domain: d3.range(states.length), axis: null, padding: 0.04 },
    marks: [
      Plot.axisX({ anchor: "top", tickSize: 0, tickFormat: (i) => short(outputs[i], 16), tickRotate: long ? -50 : 0, textAnchor: long ? "start" : "middle", label: null }),
      Plot.axisY({ tickSize: 0, tickFormat: (i) => short(states[i], 24), label: null }),
      Plot.cell(cells, { x: "output", y: "state", fill: { value: (cell) => colour(cell.share), scale: null }, rx: 3 }),
      size < 27 ? null : Plot.text(cells, { x: "output", y: "state", text: (cell) => (100 * cell.share).toFixed(cell.share < 0.0995 ? 1 : 0), fill: { value: (cell) => inkOn(colour(cell.share)), scale: null }, fontSize: size < 34 ? 10 : 11 }),
      Plot.tip(cells, Plot.pointer({ x: "output", y: "state", title: (cell) => `true: ${states[cell.state]}\nsent: ${outputs[cell.output]}\n${(100 * cell.share).toFixed(2)} % of the time`, fill: "var(--card)", stroke: "var(--field)" })),
    ],
  });
}

const inkOn = (fill) => (d3.lab(fill).l > 55 ? "#10151c" : "#ffffff");

/** Probabilities of a few outcomes, for channels that are no small table. */
export function shares(rows, width) {
  return Plot.plot({
    width, height: 66 + 30 * rows.length, marginLeft: Math.min(260, width * 0.45), marginRight: 50, marginBottom: 44, style: STYLE,
    x: { domain: [0, 100], grid: true, label: "% of the time", labelAnchor: "center", labelArrow: "none", labelOffset: 38, ...AXIS }, y: { domain: rows.map((row) => row.name), label: null, ...AXIS },
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
    width: Math.min(width, 420), height: 280, marginLeft: 46, marginBottom: 44, style: STYLE,
    x: { label: "belief before, %", labelAnchor: "center", labelArrow: "none", labelOffset: 38, grid: true, ticks: 5, ...AXIS }, y: { label: "belief after one report, %", labelArrow: "none", grid: true, ticks: 5, ...AXIS },
    marks: [Plot.areaY(at, { x: "p", y1: "low", y2: "high", fill: "var(--band)", fillOpacity: 0.55 }), Plot.line(at, { x: "p", y: "p", stroke: "var(--muted)", strokeDasharray: "3,3" })],
  });
}
