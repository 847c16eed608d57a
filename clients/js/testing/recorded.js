/**
 * Reports from recorded words, for vectors and tests. A person's device never uses this: whoever knows
 * the words knows the record. The `Client` accepts no words.
 */
import { KeyveilError } from "../src/errors.js";
import { cellsOf, picked } from "../src/report.js";

/** The cells that a record marks with exactly these words. */
export function recordedCells(plan, record, words) {
  const { total } = picked(plan, words);
  if (words.length !== total)
    throw new KeyveilError(`this report takes ${total} words, not ${words.length}`);
  return cellsOf(plan, record, Uint32Array.from(words));
}
