/**
 * What is wrong with a record that a developer made up. This is loaded when someone asks, and imports nothing,
 * so that bundlers keep it apart.
 */

/**
 * What is wrong with a record, whose pairs are given as well: a line each, with the key's name and never with
 * a value. Answering is silent about all of it, because a refusal would reveal something about the record.
 */
export function faultsOf(record, pairs, { keys, index, rangeOf }) {
  const isRecord = typeof record === "object" && record && typeof record.then !== "function";
  if (!isRecord || (Array.isArray(record) && record.length > pairs.length))
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
  const changes = (key) => changesBetween(name.toLowerCase(), key.toLowerCase());
  const [best] = keys.map((key) => [changes(key), key]).sort(([a], [b]) => a - b);
  return best[0] <= 0.4 * name.length ? best[1] : undefined;
}

/** Number of letters to insert, drop or replace between two texts. */
function changesBetween(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < b.length; j++)
      next.push(Math.min(row[j] + (a[i] !== b[j]), row[j + 1] + 1, next[j] + 1));
    row = next;
  }
  return row.at(-1);
}
