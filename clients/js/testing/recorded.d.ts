import type { Plan, PersonRecord } from "../src/index.js";

/** The cells that a record marks with exactly these words; for vectors and tests alone. */
export function recordedCells(plan: Plan, record: PersonRecord, words: ArrayLike<number>): number[];
