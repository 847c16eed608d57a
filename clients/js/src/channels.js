/**
 * Channels: the exact law of a report, in the shapes of docs/wire.md.
 *
 * `readChannel` checks the integers of a channel and returns how many states, cells and words it has,
 * and `draw(state, words, at)`: the marked cells, ascending, from the words that begin at `at`.
 */
import { PlanError } from "./errors.js";

export const WORD = 2 ** 32;
/** Largest number of outputs for which a report is one cell. */
const FEW = 4096;
const MOST_CELLS = 2 ** 22;
const MOST_ITEMS = 2 ** 31;

/** Refuse a plan. */
export function refuse(message) {
  throw new PlanError(message);
}

/** Whether a value is a whole number from low to high. */
export const isWhole = (value, low, high) =>
  Number.isSafeInteger(value) && low <= value && value <= high;

/** Whether a value is a JSON object with these members, and no others but the optional ones. */
export function hasMembers(value, needed, optional = []) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const names = Object.keys(value);
  return (
    needed.every((name) => Object.hasOwn(value, name)) &&
    names.every((name) => needed.includes(name) || optional.includes(name))
  );
}

/** floor(word * count / 2^32), exact for counts below 2^37. */
export function scaled(word, count) {
  const low = Math.floor(((word & 0xffff) * count) / 65536);
  return Math.floor(((word >>> 16) * count + low) / 65536);
}

/** Upper ends of the slices of weights that sum to 2^32; refuses other weights. */
export function sliceEnds(weights, least = 0, count = undefined) {
  let sum = 0;
  if (!Array.isArray(weights) || (count !== undefined && weights.length !== count)) refuse(NO_WEIGHTS);
  const ends = weights.map((weight) => (sum += isWhole(weight, least, WORD) ? weight : NaN));
  if (sum !== WORD) refuse(NO_WEIGHTS);
  return ends;
}
const NO_WEIGHTS = "weights are whole numbers that sum to 2^32";
const NO_LAW = "a channel has numbers that are no law of its shape";

/** The number whose slice owns a word. */
export function sliceOf(word, ends) {
  let low = 0;
  let high = ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (word < ends[middle]) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The place of `over` among equal slices laid end to end: `rest` slices of width + 1, then slices of
 * width.
 */
function evenSlice(over, width, rest) {
  const heavy = rest * (width + 1);
  return over < heavy ? Math.floor(over / (width + 1)) : rest + Math.floor((over - heavy) / width);
}

/** Number of choices of `size` out of `count`, or Infinity if it is more than 4,096. */
export function choices(count, size) {
  let product = 1;
  for (let i = 1; i <= Math.min(size, count - size); i++) {
    product = (product * (count - i + 1)) / i;
    if (product > FEW) return Infinity;
  }
  return size < 0 || size > count ? 0 : product;
}

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

/** For each shape: its integer members with their bounds, and the rest of it. */
const SHAPES = {
  table: [
    {},
    ["rows"],
    ({ rows }) => {
      if (!Array.isArray(rows) || !rows.length || !Array.isArray(rows[0])) refuse(NO_LAW);
      const cells = rows[0].length;
      if (cells > FEW || rows.length * cells > 65536) refuse(NO_LAW);
      const ends = rows.map((row) => sliceEnds(row, 0, cells));
      return {
        states: rows.length,
        cells,
        words: 1,
        draw: (state, words, at) => [sliceOf(words[at], ends[state])],
      };
    },
  ],

  symmetric: [
    { states: [2, 2 ** 20], keep: [1, WORD], lie: [1, WORD] },
    [],
    ({ states, keep, lie }) => {
      const rest = WORD - keep - (states - 1) * lie;
      if (keep < lie || rest < 0 || rest >= states - 1) refuse(NO_LAW);
      return {
        states,
        cells: states,
        words: 1,
        rest,
        draw: (state, words, at) => {
          if (words[at] < keep) return [state];
          return [(state + evenSlice(words[at] - keep, lie, rest) + 1) % states];
        },
      };
    },
  ],

  symbols: [
    { positions: [1, 2 ** 20], silent: [0, 1] },
    ["laws"],
    ({ positions, laws, silent }) => {
      if (!Array.isArray(laws) || laws.length < 2) refuse(NO_LAW);
      const letters = laws[0]?.length;
      if (!isWhole(letters, 2, 16)) refuse(NO_LAW);
      // symbol 0 has the last slice
      const ends = laws.map((law) =>
        sliceEnds(Array.isArray(law) && [...law.slice(1), law[0]], 1, letters),
      );
      const own = laws.length - 1;
      const few = letters ** positions <= FEW;
      return {
        states: silent + positions * own,
        cells: few ? letters ** positions : positions * (letters - 1),
        many: !few,
        words: positions,
        align: 4,
        draw: (state, words, at) => {
          const marked = Math.floor((state - silent) / own);
          const law = state < silent ? ends[0] : ends[1 + ((state - silent) % own)];
          const marks = [];
          let code = 0;
          for (let place = 0; place < positions; place++) {
            const number = planeNumber(words, at, place, positions);
            const symbol = (sliceOf(number, place === marked ? law : ends[0]) + 1) % letters;
            if (few) code += symbol * letters ** place;
            else if (symbol) marks.push(place * (letters - 1) + symbol - 1);
          }
          return few ? [code] : marks;
        },
      };
    },
  ],

  subset: [
    { states: [2, FEW], size: [1, FEW], show: [1, WORD - 1] },
    [],
    ({ states, size, show }) => {
      if (size >= states) refuse(NO_LAW);
      const sets = choices(states, size);
      return {
        states,
        cells: sets > FEW ? states : sets,
        many: sets > FEW,
        words: states,
        draw: (state, words, at) => {
          const marks = [];
          let need = size;
          const shown = words[at] < show;
          need -= shown;
          for (let other = 0, j = 0; other < states; other++) {
            if (other === state) {
              if (shown) marks.push(other);
            } else {
              if (words[at + 1 + j] < Math.floor((need * WORD) / (states - 1 - j))) {
                marks.push(other);
                need--;
              }
              j++;
            }
          }
          if (sets > FEW) return marks;
          const after = marks.map((mark, i) => choices(states - 1 - mark, size - i));
          return [sets - 1 - after.reduce((sum, count) => sum + count, 0)];
        },
      };
    },
  ],

  product: [
    { digits: [1, 64] },
    ["inner"],
    ({ digits, inner }) => {
      const one = readInner(inner, ["table", "symmetric"]);
      const cells = one.cells ** digits;
      if (cells > 65536 || one.states ** digits > 2 ** 62) refuse(NO_LAW);
      return {
        inner: one,
        states: one.states ** digits,
        cells,
        words: digits,
        draw: (state, words, at) => {
          const base = BigInt(one.states);
          let left = BigInt(state);
          let output = 0;
          for (let place = digits - 1, weight = 1; place >= 0; place--, weight *= one.cells) {
            output += weight * one.draw(Number(left % base), words, at + place)[0];
            left /= base;
          }
          return [output];
        },
      };
    },
  ],

  hash: [
    { items: [1, 2 ** 20], pool: [1, MOST_CELLS], salt: [0, WORD - 1] },
    ["inner"],
    ({ items, pool, salt, inner }) => {
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

  halfspace: [
    { signs: [1, 65536], keep: [WORD / 2, WORD - 1] },
    [],
    ({ signs, keep }) => {
      const few = 2 ** signs <= FEW;
      return {
        kind: "signs",
        signs,
        cells: few ? 2 ** signs : signs,
        many: !few,
        words: 1 + Math.ceil(signs / 32),
        draw: (state, words, at) => {
          const bit = (j) => (words[at + 1 + (j >> 5)] >>> (j & 31)) & 1;
          let agree = -signs;
          for (let j = 0; j < signs; j++) agree += bit(j) === state[j] ? 2 : 0;
          const flip = agree !== 0 && agree > 0 !== words[at] < keep ? 1 : 0;
          const marks = [];
          for (let j = 0; j < signs; j++) if (bit(j) ^ flip) marks.push(j);
          return few ? [marks.reduce((code, j) => code + 2 ** j, 0)] : marks;
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

/** The 32-bit number of a position, whose bits lie across the words of its group in bit planes. */
function planeNumber(words, at, place, positions) {
  const first = place & ~31;
  const size = Math.min(32, positions - first);
  let number = 0;
  for (let bit = place - first; bit < 32 * size; bit += size) {
    number = (number << 1) | ((words[at + first + (bit >> 5)] >>> (bit & 31)) & 1);
  }
  return number >>> 0;
}

/** The number of cells of all seeds. */
function poolCells(pool, cells) {
  if (pool & (pool - 1) || pool * cells > MOST_CELLS) refuse(NO_LAW);
  return pool * cells;
}

function readInner(inner, shapes) {
  return shapes.includes(inner?.shape) ? readChannel(inner) : refuse(NO_LAW);
}

/** A channel from its document; refuses what is no law. */
export function readChannel(document) {
  const shape = document?.shape;
  if (typeof shape !== "string" || !Object.hasOwn(SHAPES, shape))
    refuse("a channel has an unknown shape");
  const [bounds, others, read] = SHAPES[shape];
  const names = Object.keys(bounds);
  if (!hasMembers(document, ["shape", ...names, ...others])) refuse(NO_LAW);
  for (const name of names) {
    if (!isWhole(document[name], ...bounds[name])) refuse(NO_LAW);
  }
  return { shape, kind: "number", many: false, align: 1, rest: 0, document, ...read(document) };
}
