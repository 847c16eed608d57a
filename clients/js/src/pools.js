/** Shapes that draw a seed from a public pool and hash what is held to cells: hash, collision, coco. */
import { evenSlice, isWhole, NO_LAW, refuse, scaled, WORD } from "./slices.js";

const MOST_CELLS = 2 ** 22;

/** A fixed bijection of 32-bit words that looks random. */
function mixed(word) {
  word ^= word >>> 16;
  word = Math.imul(word, 0x7feb352d);
  word ^= word >>> 15;
  word = Math.imul(word, 0x846ca68b);
  return (word ^ (word >>> 16)) >>> 0;
}

/** The 32-bit word of an item under a seed. */
const itemWord = (seed, salt, item) => mixed(mixed(seed ^ salt) ^ mixed((item + 0x9e3779b9) >>> 0));

/**
 * The cell that a word picks: the cells of each group have a weight of their own, in the given order; all
 * other cells share what is left evenly, ascending.
 */
function pickCell(word, cells, ...groups) {
  const taken = [];
  let left = WORD;
  for (const [own, weight] of groups) {
    const all = own.length * weight;
    if (word < all) return own[Math.floor(word / weight)];
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

const ascending = (a, b) => a - b;

/** Bounds of the integers of shapes whose states are sets of items. */
const SETS = {
  items: [1, 2 ** 31],
  held: [1, MOST_CELLS],
  cells: [2, MOST_CELLS],
  pool: [1, MOST_CELLS],
  salt: [0, WORD - 1],
  high: [1, WORD],
};

/** The shapes, written as those of `channels.js`. */
export const POOLS = {
  hash: [
    { items: [1, 2 ** 20], pool: SETS.pool, salt: SETS.salt, inner: null },
    ({ items, pool, salt, inner }, readInner) => {
      const one = readInner(inner, ["table"]);
      const silent = one.states - one.cells;
      if (!isWhole(silent, 0, 1)) refuse(NO_LAW);
      return {
        inner: one,
        states: items + silent,
        cells: poolCells(pool, one.cells),
        words: 2,
        draw: (state, words, at) => {
          const seed = scaled(words[at], pool);
          const row =
            state < silent ? one.cells : scaled(itemWord(seed, salt, state - silent), one.cells);
          return [seed * one.cells + one.draw(row, words, at + 1)[0]];
        },
      };
    },
  ],

  collision: [
    SETS,
    ({ items, held, cells, pool, salt, high }) => {
      if (held > items || held >= cells || WORD - held * high < cells - held) refuse(NO_LAW);
      return {
        kind: "items",
        cells: poolCells(pool, cells),
        words: 2,
        draw: (state, words, at) => {
          const seed = scaled(words[at], pool);
          const own = new Set(state.map((item) => scaled(itemWord(seed, salt, item), cells)));
          return [seed * cells + pickCell(words[at + 1], cells, [[...own].sort(ascending), high])];
        },
      };
    },
  ],

  coco: [
    { ...SETS, cells: [2, 2 ** 21], low: [1, WORD] },
    ({ items, held, cells, pool, salt, high, low }) => {
      const half = cells / 2;
      if (items % 2 || cells % 2 || 2 * held > items || held >= half) refuse(NO_LAW);
      if (high < low || WORD - held * (high + low) < cells - 2 * held) refuse(NO_LAW);
      return {
        kind: "items",
        cells: poolCells(pool, cells),
        words: 2 + held,
        draw: (state, words, at) => {
          const seed = scaled(words[at], pool);
          const won = cocoClaims(state, held, (item, i) => {
            const number = item < 0 ? words[at + 2 + i] : itemWord(seed, salt, item >> 1);
            const first = scaled(number, cells);
            const sign = item < 0 ? 1 : item % 2;
            const cell = sign ? first : (first + half) % cells;
            return { pair: first % half, rank: number * cells - first * WORD, first, sign, cell };
          });
          const own = won.map(({ cell }) => cell).sort(ascending);
          const mirrors = own.map((cell) => (cell + half) % cells);
          return [seed * cells + pickCell(words[at + 1], cells, [own, high], [mirrors, low])];
        },
      };
    },
  ],
};

/** The winning claim of each pair: the lowest rank, then the lower first cell, then the low sign. */
function cocoClaims(state, held, claimOf) {
  const won = new Map();
  for (let i = 0; i < held; i++) {
    const claim = claimOf(i < state.length ? state[i] : -1, i);
    const best = won.get(claim.pair);
    const order = best && (claim.rank - best.rank || claim.first - best.first || claim.sign - best.sign);
    if (!best || order < 0) won.set(claim.pair, claim);
  }
  return [...won.values()];
}

/** The number of cells of all seeds. */
function poolCells(pool, cells) {
  if (pool & (pool - 1) || pool * cells > MOST_CELLS) refuse(NO_LAW);
  return pool * cells;
}
