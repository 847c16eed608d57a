/**
 * Reports: the cells that a record marks under a plan. This module only computes; it keeps and sends
 * nothing. A device that answers a collection uses the `Client`, which answers once and keeps a ledger.
 */
import { sliceOf } from "./slices.js";

/** Words that the choice of the part takes: one is used, the others keep a part's words aligned. */
const BEFORE = 4;
/** Largest number of words that `crypto.getRandomValues` fills at once. */
const AT_ONCE = 16384;

/** Fresh random 32-bit words from `crypto.getRandomValues`. */
export function secureWords(count) {
  const words = new Uint32Array(count);
  for (let at = 0; at < count; at += AT_ONCE) crypto.getRandomValues(words.subarray(at, at + AT_ONCE));
  return words;
}

/** The part and view that the first words pick, where the part's words begin, and how many there are. */
export function picked({ parts, ends }, words) {
  const at = ends ? BEFORE : 0;
  const part = parts[ends ? sliceOf(words[0], ends) : 0];
  const view = part.pick(words[at]);
  return { part, view, at, total: at + part.wordCount(view) };
}

/** The cells of a report from all its words. */
export function cellsOf(plan, record, words) {
  const { part, view, at } = picked(plan, words);
  return part.cells(view, record, words.subarray(at));
}

/** The cells of a report from fresh words, all drawn before the record is looked at. */
export function drawCells(plan, record) {
  const first = secureWords(BEFORE + 1);
  const words = secureWords(Math.max(picked(plan, first).total, BEFORE + 1));
  words.set(first);
  return cellsOf(plan, record, words);
}
