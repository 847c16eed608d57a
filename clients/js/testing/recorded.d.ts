import type { Plan, Record } from "../src/index.js";

/** The cells that a record marks with exactly these words; for vectors and tests alone. */
export function recordedCells(plan: Plan, record: Record, words: ArrayLike<number>): number[];
