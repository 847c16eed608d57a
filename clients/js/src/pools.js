/** Shapes that draw a seed from a public pool and hash what is held to cells: hash, collision, coco. */
import { evenSlice, isWhole, NO_LAW, refuse, scaled, WORD } from "./slices.js";

const MOST_CELLS = 2 ** 22;
const MOST_ITEMS = 2 ** 31;

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

/** The number of a cell that is not among `taken`, which is ascending. */
function skipping(number, taken) {
  for (const cell of taken) if (number >= cell) number++;
  return number;
}

const ascending = (a, b) => a - b;

/** The shapes, written as those of `channels.js`. */
export const POOLS = {
  hash: [
    { items: [1, 2 ** 20], pool: [1, MOST_CELLS], salt: [0, WORD - 1] },
    ["inner"],
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
    {
      items: [1, MOST_ITEMS],
      held: [1, MOST_CELLS],
      cells: [2, MOST_CELLS],
      pool: [1, MOST_CELLS],
      salt: [0, WORD - 1],
      high: [1, WORD],
    },
    [],
    ({ items, held, cells, pool, salt, high }) => {
      if (held > items || held >= cells || WORD - held * high < cells - held) refuse(NO_LAW);
      return {
        kind: "items",
        cells: poolCells(pool, cells),
        words: 2,
        draw: (state, words, at) => {
          const seed = scaled(words[at], pool);
          const word = words[at + 1];
          const own = [...new Set(state.map((item) => scaled(itemWord(seed, salt, item), cells)))].sort(
            ascending,
          );
          const over = word - own.length * high;
          if (over < 0) return [seed * cells + own[Math.floor(word / high)]];
          const left = WORD - own.length * high;
          const rest = left % (cells - own.length);
          const number = evenSlice(over, (left - rest) / (cells - own.length), rest);
          return [seed * cells + skipping(number, own)];
        },
      };
    },
  ],

  coco: [
    {
      items: [2, MOST_ITEMS],
      held: [1, MOST_CELLS],
      cells: [2, 2 ** 21],
      pool: [1, MOST_CELLS],
      salt: [0, WORD - 1],
      high: [1, WORD],
      low: [1, WORD],
    },
    [],
    ({ items, held, cells, pool, salt, high, low }) => {
      const both = high + low;
      if (items % 2 || cells % 2 || 2 * held > items || 2 * held >= cells) refuse(NO_LAW);
      if (high < low || WORD - held * both < cells - 2 * held) refuse(NO_LAW);
      const half = cells / 2;
      return {
        kind: "items",
        cells: poolCells(pool, cells),
        words: 2 + held,
        draw: (state, words, at) => {
          const seed = scaled(words[at], pool);
          const word = words[at + 1];
          const won = cocoClaims(state, held, (item, i) => {
            const number = item < 0 ? words[at + 2 + i] : itemWord(seed, salt, item >> 1);
            const first = scaled(number, cells);
            const sign = item < 0 ? 1 : item % 2;
            const cell = sign ? first : (first + half) % cells;
            return { pair: first % half, rank: number * cells - first * WORD, first, sign, cell };
          });
          const own = won.map(({ cell }) => cell).sort(ascending);
          const mirrors = own.map((cell) => (cell + half) % cells);
          if (word < own.length * high) return [seed * cells + own[Math.floor(word / high)]];
          const over = word - own.length * high;
          if (over < own.length * low) return [seed * cells + mirrors[Math.floor(over / low)]];
          const left = WORD - own.length * both;
          const rest = left % (cells - 2 * own.length);
          const number = evenSlice(
            word - own.length * both,
            (left - rest) / (cells - 2 * own.length),
            rest,
          );
          return [seed * cells + skipping(number, [...own, ...mirrors].sort(ascending))];
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
