/** The record of a person, as a page gives it; and what is wrong with one that a developer made up. */
import { refuse } from "./errors.js";
import { floor, isList, min } from "./slices.js";

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

/**
 * What is wrong with a record, a line each, with the key's name and never with a value. Answering is silent
 * about all of it, because a refusal would reveal something about the record.
 */
export function faultsOf(record, { keys, index, rangeOf }) {
  const pairs = pairsOf(record);
  const isRecord = typeof record === "object" && record && typeof record.then !== "function";
  if (!isRecord || (isList(record) && record.length > pairs.length))
    return ["a record is an object like { name: number }, a Map, or a list of pairs"];
  const seen = new Set();
  return pairs.flatMap(([key, value]) => {
    const place = index.get(key);
    if (place === undefined) {
      const near = nearest(String(key), keys);
      return `key '${key}' is not in the plan${near ? `; did you mean '${near}'?` : ""}`;
    }
    const [low, high] = rangeOf(place);
    const isNumber = ["number", "bigint"].includes(typeof value);
    const isFinite = Number.isFinite(Number(isNumber ? value : 0));
    const faults = [
      [seen.has(key), "appears twice; a record has each key at most once"],
      [!isNumber, "a value is not a number"],
      [!isFinite, "a value is NaN or infinite"],
      [
        isNumber && isFinite && !(low <= value && value <= high),
        "a value lies outside the range of its key",
      ],
    ];
    seen.add(key);
    return faults.flatMap(([isFault, fault]) => (isFault ? `key '${key}': ${fault}` : []));
  });
}

/** The key that a misspelt name is nearest to, whatever its case; undefined if none is near. */
function nearest(name, keys) {
  const most = floor(0.4 * name.length);
  let best = most + 1;
  let near;
  for (const key of keys) {
    if (Math.abs(key.length - name.length) > most) continue;
    const changes = changesBetween(name.toLowerCase(), key.toLowerCase());
    if (changes < best) [best, near] = [changes, key];
  }
  return near;
}

/** Number of letters to insert, drop or replace between two texts. */
function changesBetween(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++)
      next.push(min(row[j] + (a[i] !== b[j]), row[j + 1] + 1, next[j] + 1));
    row = next;
  }
  return row.at(-1);
}
