/** The record of a person, as a page gives it. */
import { refuse } from "./errors.js";
import { isList } from "./slices.js";

/** The record itself, from a record, a promise of one, or a function that returns either. */
export async function recordOf(given) {
  try {
    return await (typeof given === "function" ? given() : given);
  } catch (cause) {
    return refuse(
      "the page's record cannot be read, see the error's cause; nothing was sent",
      "page",
      cause,
    );
  }
}

/** The pairs of a record; none if it cannot be read as one. */
export function pairsOf(record) {
  try {
    if (record instanceof Map) return [...record];
    if (!isList(record)) return Object.entries(record);
    return record.every((pair) => isList(pair) && pair.length === 2) ? record : [];
  } catch {
    return [];
  }
}
