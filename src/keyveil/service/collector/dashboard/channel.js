/** A plan's channels as pictures: from the integers of the plan's document, of 2^32 words each. */

import { framed, law, shares } from "./charts.js";
import { h } from "./dom.js";

const WORDS = 2 ** 32;
/** Most states, and most possible reports, of a channel that is drawn. */
const MOST = 32;
const MOST_OUTPUTS = 64;

/** The parts of a plan; a plan without parts is one. */
export function partsOf(plan) {
  return plan.parts ?? [{ ...plan, weight: WORDS, levels: plan.schema.levels }];
}

/** Names of the states of one key: absent, then its levels. */
function levelNames(plan, levels, place) {
  if (levels === 1) return ["absent", "present"];
  const { ranges } = plan.schema;
  const [low, high] = (ranges.length === 1 ? ranges[0] : ranges[place]).map(Number);
  const names = Array.from({ length: levels }, (_, level) => Number((low + ((high - low) * level) / (levels - 1)).toPrecision(3)).toString());
  return ["absent", ...names];
}

/** Names of the states of a view, the first key the most significant digit. */
function stateNames(plan, part, count) {
  const views = part.views.keys;
  const keys = views === "singles" ? 1 : views === "whole" ? plan.schema.keys.length : views[0].length;
  const own = levelNames(plan, part.levels, 0);
  if (part.encode !== "views" || own.length ** keys !== count) return Array.from({ length: count }, (_, state) => `state ${state}`);
  return Array.from({ length: count }, (_, state) => {
    const digits = [];
    for (let rest = state, key = 0; key < keys; key++, rest = Math.floor(rest / own.length)) digits.unshift(own[rest % own.length]);
    return digits.join(", ");
  });
}

/** Rows of probabilities for channels that are small tables; null for others. */
export function rowsOf(channel) {
  if (channel.shape === "table") return channel.rows.map((row) => row.map((weight) => weight / WORDS));
  if (channel.shape === "symmetric" && channel.states <= MOST) {
    return Array.from({ length: channel.states }, (_, state) => Array.from({ length: channel.states }, (_, output) => (state === output ? channel.keep : channel.lie) / WORDS));
  }
  return null;
}

/** Outcomes with their probabilities, for channels that are no small table. */
function outcomesOf(channel) {
  switch (channel.shape) {
    case "symmetric": return [{ name: "the true state", share: channel.keep / WORDS, own: true }, { name: "one certain other state", share: channel.lie / WORDS }];
    case "symbols": return channel.laws.flatMap((weights, place) => weights.map((weight, symbol) => ({ name: `${place === 0 ? "another position" : "the own position"}: ${symbol}`, share: weight / WORDS, own: place > 0 })));
    case "subset": return [{ name: "the true state is in the set", share: channel.show / WORDS, own: true }];
    case "halfspace": return [{ name: "a vector on the own side", share: channel.keep / WORDS, own: true }, { name: "a vector on the other side", share: 1 - channel.keep / WORDS }];
    case "collision": return [{ name: "the cell of a held item", share: channel.high / WORDS, own: true }, { name: "another cell, on average", share: (1 - (channel.held * channel.high) / WORDS) / (channel.cells - channel.held) }];
    case "coco": return [{ name: "the cell of a held value", share: channel.high / WORDS, own: true }, { name: "the mirrored cell", share: channel.low / WORDS }];
    default: return [];
  }
}

const SENTENCES = {
  table: "Each row is a true state, each column a report: the colour, and the number in percent where there is room, say how often the device sends it.",
  symmetric: "The device sends the true state with one probability, and each other state with another.",
  symbols: "The device sends a symbol for every position, and each is drawn on its own.",
  subset: "The device sends a set of states; the true one is in it more often than any other.",
  halfspace: "The device sends a random vector of signs, more often on the side of its own signs.",
  collision: "The device draws a public seed, which scatters items over cells, and sends one cell.",
  coco: "The device draws a public seed, which scatters keys over cells, and sends one cell; the two signs of a key mirror each other.",
};

/** A figure for each different channel of a plan. */
export function pictures(plan, name, width) {
  return partsOf(plan).flatMap((part, number, parts) => {
    const share = parts.length > 1 ? ` (${((100 * part.weight) / WORDS).toFixed(1)} % of people)` : "";
    return part.channels.slice(0, 3).map((channel, place) => picture(plan, part, channel, `${name}-channel-${number}-${place}`, share, width));
  });
}

function picture(plan, part, channel, name, share, width) {
  let inner = channel, before = "";
  if (channel.shape === "hash") { inner = channel.inner; before = "The device draws a public seed, which turns its item into one of a few cells. "; }
  if (channel.shape === "product") { inner = channel.inner; before = `Each of ${channel.digits} keys goes through this channel on its own. `; }
  const rows = rowsOf(inner);
  const words = before + SENTENCES[inner.shape];
  const title = `The channel${share}`;
  if (rows && rows.length <= MOST && rows[0].length <= MOST_OUTPUTS) {
    const states = inner === channel ? stateNames(plan, part, rows.length) : rows.map((_, state) => `state ${state}`);
    const outputs = rows.length === rows[0].length && inner.shape === "symmetric" ? states : rows[0].map((_, output) => `report ${output}`);
    return framed(law({ rows, states, outputs, width }), { title, name, words, fixed: true });
  }
  const outcomes = outcomesOf(inner);
  if (!outcomes.length) return h("p", { class: "note" }, `${title}: a table of ${rows?.length ?? "many"} states, too large to draw.`);
  return framed(shares(outcomes, Math.min(width, 720)), { title, name, words });
}
