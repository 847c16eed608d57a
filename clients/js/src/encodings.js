/**
 * Encodings: how a record becomes a state. `held` is a list of { place, value }, ascending by place.
 *
 * Each has `fits(channel, view, schema)`: whether a channel takes its states; `words(view, cap)`: how
 * many words it takes, whatever is held; and `encode(task)`: the state. A task has the view's places,
 * the held keys, `digit(key, word)`, the words and where they begin, the cap, and the schema.
 */
import { refuse, scaled, WORD } from "./slices.js";

const MOST_CAP = 64;

/** Number of states of a view of some keys. */
const viewStates = (levels, keys) => (levels + 1) ** keys;

/** The kept keys of a set: at most `cap`, every choice equally likely (Floyd's method). */
function keptItems({ held, digit, words, at, cap }) {
  const count = Math.min(cap, held.length);
  const kept = [];
  const items = [];
  for (let i = 0; i < count; i++) {
    const last = held.length - count + i;
    const number = scaled(words[at + i], last + 1);
    kept.push(kept.includes(number) ? last : number);
    const key = held[kept[i]];
    items.push({ place: key.place, sign: digit(key, words[at + cap + i]) - 1 });
  }
  return items;
}

const itemNumber = ({ place, sign }) => 2 * place + sign;

/** Whether a channel takes sets of `items` items of at most `cap` keys. */
const fitsSets = (channel, schema, cap, items) =>
  channel.kind === "items" &&
  cap > 0 &&
  cap <= Math.min(schema.keys.length, MOST_CAP) &&
  channel.document.items === items &&
  schema.levels === 2;

/** The cap on keys for which `held` is the largest number of keys and pairs of keys; 0 if there is none. */
function pairCap(held) {
  const cap = Math.floor((Math.sqrt(8 * held + 1) - 1) / 2);
  return (cap * (cap + 1)) / 2 === held ? cap : 0;
}

const WHOLE = {
  words: () => 0,
  cap: () => 0,
  whole: true,
};

export const ENCODINGS = {
  views: {
    ...WHOLE,
    whole: false,
    fits: (channel, view, { levels }) =>
      channel.kind === "number" &&
      viewStates(levels, view.length) <= 2 ** 62 &&
      channel.states === viewStates(levels, view.length),
    words: (view) => view.length,
    encode: ({ view, held, digit, words, at, schema }) => {
      const base = schema.levels + 1;
      const big = viewStates(schema.levels, view.length) > Number.MAX_SAFE_INTEGER;
      const byPlace = new Map(held.map((key) => [key.place, key]));
      const digits = view.map((place, i) =>
        byPlace.has(place) ? digit(byPlace.get(place), words[at + i]) : 0,
      );
      if (big) return digits.reduce((state, next) => state * BigInt(base) + BigInt(next), 0n);
      return digits.reduce((state, next) => state * base + next, 0);
    },
  },

  item: {
    ...WHOLE,
    fits: (channel, view, { keys }) => channel.kind === "number" && channel.states === keys.length + 1,
    words: () => 1,
    encode: ({ held, words, at }) => (held.length ? 1 + held[scaled(words[at], held.length)].place : 0),
  },

  signs: {
    ...WHOLE,
    fits: (channel, view, { keys, levels }) =>
      channel.kind === "signs" && channel.signs === keys.length && levels === 2,
    words: (view) => view.length,
    encode: ({ view, held, digit, words, at }) => {
      const signs = view.map((_, place) => (words[at + place] < WORD / 2 ? 1 : 0));
      for (const key of held) signs[key.place] = digit(key, words[at + key.place]) - 1;
      return signs;
    },
  },

  items: {
    ...WHOLE,
    cap: (channel) => channel.document.held ?? 0,
    fits: (channel, view, schema) =>
      fitsSets(channel, schema, channel.document.held, 2 * schema.keys.length),
    words: (view, cap) => 2 * cap,
    encode: (task) => keptItems(task).map(itemNumber),
  },

  pair_items: {
    ...WHOLE,
    cap: (channel) => pairCap(channel.document.held ?? 0),
    fits: (channel, view, schema) =>
      channel.shape === "collision" &&
      fitsSets(channel, schema, pairCap(channel.document.held), 2 * schema.keys.length ** 2),
    words: (view, cap) => 2 * cap,
    encode: (task) => {
      const keys = task.schema.keys.length;
      const items = keptItems(task);
      const state = items.map(itemNumber);
      items.sort((a, b) => a.place - b.place);
      items.forEach((a, i) => {
        for (const b of items.slice(i + 1)) {
          const rank = (a.place * (2 * keys - a.place - 1)) / 2 + b.place - a.place - 1;
          state.push(2 * keys + 4 * rank + 2 * a.sign + b.sign);
        }
      });
      return state;
    },
  },

  padded: {
    ...WHOLE,
    cap: (channel, keys) =>
      Math.max(
        0,
        (channel.shape === "symbols" ? channel.document.positions : Math.floor(channel.states / 2)) -
          keys,
      ),
    fits: (channel, view, { keys, levels }) => {
      const length = ENCODINGS.padded.cap(channel, keys.length);
      const shape =
        channel.shape === "symmetric" || (channel.shape === "symbols" && !channel.document.silent);
      return (
        shape &&
        length > 0 &&
        length <= keys.length &&
        channel.states === 2 * (keys.length + length) &&
        levels === 2
      );
    },
    words: () => 3,
    encode: ({ held, digit, words, at, cap, schema }) => {
      const number = scaled(words[at], Math.max(held.length, cap));
      const dummy =
        2 * (schema.keys.length + scaled(words[at + 1], cap)) + (words[at + 2] < WORD / 2 ? 1 : 0);
      if (number >= held.length) return dummy;
      return 2 * held[number].place + digit(held[number], words[at + 2]) - 1;
    },
  },

  size: {
    ...WHOLE,
    cap: (channel) => channel.states,
    fits: (channel) => channel.kind === "number",
    encode: ({ held, cap }) => {
      const count = held.length;
      const power = 31 - Math.clz32(count);
      const bucket = count < 8 ? count : 4 * (power - 1) + (count >> (power - 2)) - 4;
      return Math.min(bucket, cap - 1);
    },
  },

  any_value: {
    ...WHOLE,
    fits: (channel, view, { levels }) => channel.kind === "number" && channel.states === levels + 1,
    words: () => 2,
    encode: ({ held, digit, words, at }) =>
      held.length ? digit(held[scaled(words[at], held.length)], words[at + 1]) : 0,
  },
};

/** An encoding by its name in a plan. */
export function encodingNamed(name) {
  return Object.hasOwn(ENCODINGS, name) ? ENCODINGS[name] : refuse("the plan has an unknown encoding");
}

/**
 * The digit of a value, 1 .. levels, rounded without bias by a word. In doubles and exactly in this
 * order, so that every client rounds alike.
 */
export function digitOf({ place, value }, word, { low, high, levels }) {
  if (levels === 1) return 1;
  const t = ((value - low[place]) / (high[place] - low[place])) * (levels - 1);
  const below = Math.min(Math.floor(t), levels - 2);
  return below + 1 + (word < Math.floor((t - below) * WORD) ? 1 : 0);
}

/**
 * The held keys of a record, ascending by place. It never refuses, because a refusal would reveal
 * something about the record: what is not understood is not held.
 */
export function heldKeys(record, { index, low, high }) {
  const held = new Map();
  for (const [name, given] of pairsOf(record)) {
    const place = index.get(name);
    if (place === undefined || held.has(place)) continue;
    const value = typeof given === "bigint" ? Number(given) : given;
    if (typeof value === "number" && value === value) {
      held.set(place, Math.min(Math.max(value, low[place]), high[place]));
    }
  }
  return [...held].map(([place, value]) => ({ place, value })).sort((a, b) => a.place - b.place);
}

function pairsOf(record) {
  try {
    if (record instanceof Map) return [...record];
    if (Array.isArray(record)) {
      return record.every((pair) => Array.isArray(pair) && pair.length === 2) ? record : [];
    }
    return typeof record === "object" && record !== null ? Object.entries(record) : [];
  } catch {
    return [];
  }
}
