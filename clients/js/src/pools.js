/**
 * Shapes that draw a seed from a public pool and hash what is held to cells: hash, collision, coco; and the
 * encodings of sets of items. Loaded for plans that have one of them.
 * It imports nothing and is given what it shares with the client, so that bundlers keep it apart.
 */
const { ceil, floor, max, min } = Math;
const WORD = 2 ** 32;

const MOST_CELLS = 2 ** 22;

/** A fixed bijection of 32-bit words that looks random. */
function mixed(word) {
  word ^= word >>> 16;
  word = Math.imul(word, 0x7feb352d);
  word ^= word >>> 15;
  word = Math.imul(word, 0x846ca68b);
  return (word ^ (word >>> 16)) >>> 0;
}

const ascending = (a, b) => a - b;

/** Bounds of the integers of shapes whose states are sets of items. */
const BOUNDS = {
  items: [1, 2 ** 31],
  held: [1, MOST_CELLS],
  cells: [2, MOST_CELLS],
  pool: [1, MOST_CELLS],
  salt: [0, WORD - 1],
  high: [1, WORD],
};

const itemNumber = ({ place, sign }) => 2 * place + sign;

/** What the encodings of sets have in common. */
const SETS = {
  kind: "items",
  binary: true,
  words: (places, cap) => 2 * cap,
};

/** The shapes and encodings of this module, from what it is given. */
export function kinds({ evenSlice, isWhole, ratio, scaled }) {
  /**
   * The cell that a word picks: the cells of each group have a weight of their own, in the given order; all
   * other cells share what is left evenly, ascending.
   */
  function pickCell(word, cells, ...groups) {
    const taken = [];
    let left = WORD;
    for (const [own, weight] of groups) {
      const all = own.length * weight;
      if (word < all) return own[floor(word / weight)];
      word -= all;
      left -= all;
      taken.push(...own);
    }
    const free = cells - taken.length;
    const rest = left % free;
    let number = evenSlice(word, (left - rest) / free, rest);
    for (const cell of taken.sort(ascending)) if (number >= cell) number++;
    return number;
  }

  /**
   * The cells of all seeds, and a draw: a seed, then `pick(state, words, wordOf)`, one of its cells.
   * `wordOf(item)` is the 32-bit word of an item under the seed. Undefined if there are too many cells.
   */
  function pooled(pool, salt, cells, pick) {
    if (!(pool & (pool - 1)) && pool * cells <= MOST_CELLS)
      return {
        cells: pool * cells,
        words: 2,
        draw: (state, [first, ...words]) => {
          const seed = scaled(first, pool);
          const wordOf = (item) => mixed(mixed(seed ^ salt) ^ mixed((item + 0x9e3779b9) >>> 0));
          return [seed * cells + pick(state, words, wordOf)];
        },
      };
  }

  /**
   * The worst ratio of a pool. A claim takes `weight` and `width` cells; what is left for one cell has its
   * ends at 0 and at `held` claims.
   */
  function worstOfPool(most, least, weight, held, cells, width) {
    const [none, all] = [0, held].map((count) => (WORD - count * weight) / (cells - count * width));
    return ratio(max(most, ceil(none), ceil(all)), min(least, floor(none), floor(all)));
  }

  /** The kept keys of a set: at most `cap`, every choice equally likely (Floyd's method). */
  function keptItems(held, words, cap) {
    const count = min(cap, held.length);
    const kept = [];
    return held.slice(0, count).map((_, i) => {
      const last = held.length - count + i;
      const number = scaled(words[i], last + 1);
      kept.push(kept.includes(number) ? last : number);
      const { place, digit } = held[kept[i]];
      return { place, sign: digit(words[cap + i]) - 1 };
    });
  }

  const shapes = {
    hash: [
      { items: [1, 2 ** 20], pool: BOUNDS.pool, salt: BOUNDS.salt, inner: 0 },
      (items, pool, salt, inner, readInner) => {
        const one = readInner(inner, "table");
        const silent = one.states - one.cells;
        const seeds = pooled(pool, salt, one.cells, (state, words, wordOf) => {
          const row = state < silent ? one.cells : scaled(wordOf(state - silent), one.cells);
          return one.draw(row, words)[0];
        });
        if (seeds && isWhole(silent, 0, 1)) return { inner: one, states: items + silent, ...seeds };
      },
      (items, pool, salt, _, { inner }) => inner.worst(),
    ],

    collision: [
      BOUNDS,
      (items, held, cells, pool, salt, high) => {
        const seeds = pooled(pool, salt, cells, (state, [word], wordOf) => {
          const own = new Set(state.map((item) => scaled(wordOf(item), cells)));
          return pickCell(word, cells, [[...own].sort(ascending), high]);
        });
        if (seeds && held <= items && held < cells && WORD - held * high >= cells - held)
          return { kind: "items", states: items, held, ...seeds };
      },
      (items, held, cells, pool, salt, high) => worstOfPool(high, high, high, held, cells, 1),
    ],

    coco: [
      { ...BOUNDS, cells: [2, 2 ** 21], low: [1, WORD] },
      (items, held, cells, pool, salt, high, low) => {
        const half = cells / 2;
        const mirror = (cell) => (cell + half) % cells;
        const seeds = pooled(pool, salt, cells, (state, [word, ...words], wordOf) => {
          /** The winning claim of each pair of cells: the lowest rank, then the low cell, then the low sign. */
          const won = [];
          for (let i = 0; i < held; i++) {
            const item = state[i];
            const number = item >= 0 ? wordOf(item >> 1) : words[i];
            const first = scaled(number, cells);
            const sign = item >= 0 ? item % 2 : 1;
            const rank = 4 * (number * cells - first * WORD) + 2 * (first >= half) + sign;
            const pair = first % half;
            if (!(won[pair]?.rank <= rank)) won[pair] = { rank, cell: sign ? first : mirror(first) };
          }
          const own = Object.values(won)
            .map(({ cell }) => cell)
            .sort(ascending);
          return pickCell(word, cells, [own, high], [own.map(mirror), low]);
        });
        const even = !(items % 2 || cells % 2) && 2 * held <= items && held < half;
        if (seeds && even && high >= low && WORD - held * (high + low) >= cells - 2 * held)
          return { kind: "items", states: items, held, ...seeds, words: 2 + held };
      },
      (items, held, cells, pool, salt, high, low) => worstOfPool(high, low, high + low, held, cells, 2),
    ],
  };

  const encodings = {
    items: {
      ...SETS,
      states: (keys) => 2 * keys,
      cap: ({ held }) => held,
      encode: (...task) => keptItems(...task).map(itemNumber),
    },

    pair_items: {
      ...SETS,
      states: (keys) => 2 * keys ** 2,
      /** The cap on keys for which `held` is the largest number of keys and pairs of keys. */
      cap: ({ held }) => (Math.sqrt(8 * held + 1) - 1) / 2,
      fits: ({ shape }) => shape === "collision",
      encode: (held, words, cap, keys) => {
        const items = keptItems(held, words, cap);
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
  };

  return { release: "0.1.0", shapes, encodings };
}
