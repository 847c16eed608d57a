import type { Storage } from "../src/index.js";

/** A ledger in a file, for Node. */
export function fileStorage(path: string): Storage;
