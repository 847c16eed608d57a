/** What a plan means for a person: odds, and possible reports that are never stored or sent. */
import { drawCells } from "./report.js";
import { floor } from "./slices.js";

/**
 * Possible reports of a record, from fresh coins, in words: [{ keys, says }]. `keys` are the names that a
 * report speaks of; `says` has a value, or null for "not held", for each of them. `says` is null if the
 * report is a code or a row of bits, which says nothing by itself; then `cells` are its numbers.
 */
export function possibleReports(plan, record, count) {
  return Array.from({ length: count }, () => described(plan, drawCells(plan, record)));
}

/** The largest factor between the probabilities of one report under two records: e^epsilon. */
export const oddsFactor = (plan) => Math.exp(plan.proven);

/** How sure someone can become who held something about a person for a toss-up: from 1/2 up to this. */
export const mostCertain = (plan) => 1 / (1 + Math.exp(-plan.proven));

function described({ parts }, cells) {
  const part = parts.findLast(({ own }) => own[0] <= cells[0]);
  const view = part.own.indexOf(cells[0]);
  const channel = part.channelOf(view);
  const { keys, rangeOf, levels } = part.schema;
  const places = part.encode === "views" ? part.places[view] : [];
  const told = places.length && (channel.inner ?? channel).shape === "symmetric";
  let output = cells[1] - cells[0] - 1; // "state i", the first key being the most significant digit
  const said = (place) => {
    const digit = output % (levels + 1);
    output = floor(output / (levels + 1));
    const [low, high] = rangeOf(place);
    if (!digit) return null;
    return levels > 1 ? low + ((digit - 1) / (levels - 1)) * (high - low) : true;
  };
  const says = told ? places.toReversed().map(said).reverse() : null;
  return { keys: places.map((place) => keys[place]), says, cells };
}
