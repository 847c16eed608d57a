/** Encodings: how a record becomes a state. A device holds { place, digit(word) }, ascending by place. */
import { refusePlan } from "./errors.js";
import { pairsOf } from "./record.js";
import { floor, isText, isWhole, max, min, scaled, WORD } from "./slices.js";

const HALF = WORD / 2;
/** Largest cap on the keys of a set. */
const MOST_CAP = 64;

/** One of the held keys, each equally likely; undefined if there is none. */
const oneOf = (held, word) => held[scaled(word, held.length)];

/**
 * For each encoding: the `kind` of states ("number" unless stated), whether it is for two levels
 * (`binary`), the number of `states`, `words` that it takes, whatever is held, and `encode`: the state.
 * Some have a `cap` on keys, which comes from the channel, and other demands on the channel (`fits`).
 * `demand.js` adds the encodings that few plans have.
 */
export const ENCODINGS = {
  __proto__: null,

  views: {
    states: (keys, levels, { length }) => (levels + 1) ** length,
    words: ({ length }) => length,
    encode: (held, words, cap, keys, levels, places) => {
      const number = (levels + 1) ** places.length > 2 ** 53 ? BigInt : Number;
      const base = number(levels + 1);
      return places.reduce((state, place, i) => {
        const key = held.find((key) => key.place === place);
        return state * base + number(key ? key.digit(words[i]) : 0);
      }, number(0));
    },
  },

  item: {
    states: (keys) => keys + 1,
    words: () => 1,
    encode: (held, [word]) => 1 + (oneOf(held, word)?.place ?? -1),
  },

  padded: {
    binary: true,
    states: (keys, levels, places, cap) => 2 * (keys + cap),
    cap: ({ positions, states }, keys) => (positions ?? states / 2) - keys,
    fits: ({ shape }) => ["symmetric", "symbols"].includes(shape),
    words: () => 3,
    encode: (held, words, cap, keys) => {
      const key = held[scaled(words[0], max(held.length, cap))];
      return key
        ? 2 * key.place + key.digit(words[2]) - 1
        : 2 * (keys + scaled(words[1], cap)) + (words[2] < HALF);
    },
  },

  size: {
    words: () => 0,
    encode: ({ length }, words, cap, keys, levels, places, states) => {
      const power = 31 - Math.clz32(length);
      return min(length < 8 ? length : 4 * (power - 2) + (length >> (power - 2)), states - 1);
    },
  },

  any_value: {
    states: (keys, levels) => levels + 1,
    words: () => 2,
    encode: (held, words) => oneOf(held, words[0])?.digit(words[1]) ?? 0,
  },
};

/** An encoding by its name in a plan. */
export const encodingNamed = (name) =>
  (isText(name) && ENCODINGS[name]) || refusePlan("an unknown encoding");

/** The cap on keys of an encoding with a channel; undefined if it has none. Refuses if they do not fit. */
export function capFor({ kind = "number", binary, states, cap, fits }, channel, schema, places) {
  const keys = schema.keys.length;
  const most = kind === "items" ? min(keys, MOST_CAP) : keys;
  const capped = cap?.(channel, keys);
  const fitting =
    channel.kind === kind &&
    (!cap || isWhole(capped, 1, most)) &&
    (!states || channel.states === states(keys, schema.levels, places, capped)) &&
    (!binary || schema.levels === 2) &&
    (!fits || fits(channel));
  return fitting ? capped : refusePlan("a channel that does not fit its view");
}

/**
 * The held keys of a record, ascending by place. It never refuses, because a refusal would reveal
 * something about the record: what is not understood is not held.
 */
export function heldKeys(record, { index, rangeOf, levels }) {
  const held = [];
  for (const [name, given] of pairsOf(record)) {
    const place = index.get(name);
    const value = typeof given === "bigint" ? Number(given) : given;
    if (place >= 0 && !held[place] && typeof value === "number" && value === value) {
      held[place] = { place, digit: (word) => digitOf(value, word, rangeOf(place), levels) };
    }
  }
  return Object.values(held);
}

/**
 * The digit of a value, 1 .. levels, rounded without bias by a word. In doubles and exactly in this
 * order, so that every client rounds alike.
 */
function digitOf(value, word, [low, high], levels) {
  if (levels === 1) return 1;
  const t = ((min(max(value, low), high) - low) / (high - low)) * (levels - 1);
  const below = min(floor(t), levels - 2);
  return below + 1 + (word < floor((t - below) * WORD));
}
