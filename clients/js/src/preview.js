/** What a plan means for a person: odds, and possible reports that are never stored or sent. */
import { drawCells } from "./report.js";

/**
 * Possible reports of a record, from fresh coins, in words: [{ keys, says }]. `keys` are the names that a
 * report speaks of; `says` has a value, or null for "not held", for each of them. `says` is null if the
 * report is a code or a row of bits, which says nothing by itself; then `cells` are its numbers.
 */
export function possibleReports(plan, record, count) {
  return Array.from({ length: count }, () => described(plan, drawCells(plan, record)));
}

/** The largest factor between the probabilities of one report under two records: e^epsilon. */
export const oddsFactor = (plan) => Math.exp(Number(plan.proven));

/** How sure someone can become who held something about a person for a toss-up: from 1/2 up to this. */
export const mostCertain = (plan) => 1 / (1 + Math.exp(-Number(plan.proven)));

function described(plan, cells) {
  const part = plan.parts.findLast(({ own }) => own[0] <= cells[0]);
  const view = part.own.indexOf(cells[0]);
  const channel = part.channelOf(view);
  const { keys, low, high, levels } = part.schema;
  const places = part.encode === "views" ? part.views.places[view] : [];
  const report = { keys: places.map((place) => keys[place]), says: null, cells };
  if (part.encode !== "views" || (channel.inner ?? channel).shape !== "symmetric") return report;
  let output = cells[1] - cells[0] - 1; // "state i", the first key being the most significant digit
  report.says = places.map(() => null);
  for (let i = places.length - 1; i >= 0; i--) {
    const digit = output % (levels + 1);
    output = Math.floor(output / (levels + 1));
    const [from, to] = [low[places[i]], high[places[i]]];
    if (digit) report.says[i] = levels > 1 ? from + ((digit - 1) / (levels - 1)) * (to - from) : true;
  }
  return report;
}
