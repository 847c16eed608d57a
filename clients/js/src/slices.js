/** What all shapes and encodings share: checks of values, and words that are cut into slices. */
export const { ceil, floor, max, min } = Math;
export const isList = Array.isArray;
export const WORD = 2 ** 32;
/** Largest number of outputs for which a report is one cell. */
export const FEW = 4096;
export const isText = (value) => typeof value === "string";

/** Whether a value is a whole number from low to high. */
export const isWhole = (value, low, high) =>
  Number.isSafeInteger(value) && low <= value && value <= high;

export const isCount = (value) => isWhole(value, 1, Infinity);

/**
 * Number of members of a JSON value. If it is the number of those that a reader looks for and finds, there
 * are no others.
 */
export const memberCount = (value) => Object.keys(value ?? {}).length;

/** floor(word * count / 2^32), exact for counts below 2^37. */
export const scaled = (word, count) =>
  floor(((word >>> 16) * count + floor(((word & 65535) * count) / 65536)) / 65536);

/** Upper ends of the slices of `count` weights, each at least `least`; undefined if they do not sum to 2^32. */
export function sliceEnds(weights, count, least) {
  let sum = 0;
  const ends =
    isList(weights) && weights.map((weight) => (sum += isWhole(weight, least, WORD) ? weight : NaN));
  if (ends.length === count && sum === WORD) return ends;
}

/** The number whose slice owns a word. */
export const sliceOf = (word, ends) => ends.findIndex((end) => word < end);

/**
 * The place of `over` among equal slices laid end to end: `rest` slices of width + 1, then slices of
 * width.
 */
export function evenSlice(over, width, rest) {
  const heavy = rest * (width + 1);
  return over < heavy ? floor(over / (width + 1)) : rest + floor((over - heavy) / width);
}
