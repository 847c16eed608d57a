/** The worst ratio of the probabilities of an output between two records, as two exact integers. */
import { max, min, WORD } from "./slices.js";

/** The largest of some ratios. */
export const worstOf = (ratios) =>
  ratios.reduce((worst, ratio) => (ratio[0] * worst[1] > worst[0] * ratio[1] ? ratio : worst));

export const ratio = (top, bottom) => [BigInt(top), BigInt(bottom)];

/** The largest and the smallest weight of a column; there may be too many rows for an argument list. */
export const extremes = (rows, column) =>
  rows.reduce(([most, least], row) => [max(most, row[column]), min(least, row[column])], [0, WORD]);
