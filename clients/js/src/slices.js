/** What all shapes and encodings share: checks of numbers, and words that are cut into slices. */
import { PlanError } from "./errors.js";

export const WORD = 2 ** 32;
/** Largest number of outputs for which a report is one cell. */
export const FEW = 4096;

/** Refuse a plan. */
export function refuse(message) {
  throw new PlanError(message);
}

/** Whether a value is a whole number from low to high. */
export const isWhole = (value, low, high) =>
  Number.isSafeInteger(value) && low <= value && value <= high;

/** Whether a value is a JSON object with these members, and no others but the optional ones. */
export function hasMembers(value, needed, optional = []) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const names = Object.keys(value);
  return (
    needed.every((name) => Object.hasOwn(value, name)) &&
    names.every((name) => needed.includes(name) || optional.includes(name))
  );
}

/** floor(word * count / 2^32), exact for counts below 2^37. */
export function scaled(word, count) {
  const low = Math.floor(((word & 0xffff) * count) / 65536);
  return Math.floor(((word >>> 16) * count + low) / 65536);
}

/** Upper ends of the slices of weights that sum to 2^32; refuses other weights. */
export function sliceEnds(weights, least = 0, count = undefined) {
  let sum = 0;
  if (!Array.isArray(weights) || (count !== undefined && weights.length !== count)) refuse(NO_WEIGHTS);
  const ends = weights.map((weight) => (sum += isWhole(weight, least, WORD) ? weight : NaN));
  if (sum !== WORD) refuse(NO_WEIGHTS);
  return ends;
}
const NO_WEIGHTS = "weights are whole numbers that sum to 2^32";
export const NO_LAW = "a channel has numbers that are no law of its shape";

/** The number whose slice owns a word. */
export function sliceOf(word, ends) {
  let low = 0;
  let high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (word < ends[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The place of `over` among equal slices laid end to end: `rest` slices of width + 1, then slices of
 * width.
 */
export function evenSlice(over, width, rest) {
  const heavy = rest * (width + 1);
  return over < heavy ? Math.floor(over / (width + 1)) : rest + Math.floor((over - heavy) / width);
}

/** Number of choices of `size` out of `count`, or Infinity if it is more than 4,096. */
export function choices(count, size) {
  let product = 1;
  for (let i = 1; i <= Math.min(size, count - size); i++) {
    product = (product * (count - i + 1)) / i;
    if (product > FEW) return Infinity;
  }
  return size < 0 || size > count ? 0 : product;
}
