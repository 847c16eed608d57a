/**
 * Channels: the exact law of a report, in the shapes of docs/wire.md.
 *
 * `readChannel` checks the integers of a channel and returns how many states, cells and words it has,
 * and `draw(state, words)`: the marked cells, ascending, from the first of these words.
 */
import { POOLS } from "./pools.js";
import {
  BAD_CHANNELS,
  ceil,
  choices,
  evenSlice,
  FEW,
  floor,
  isList,
  isText,
  isWhole,
  memberCount,
  min,
  refuse,
  sliceEnds,
  sliceOf,
  WORD,
} from "./slices.js";

/**
 * For each shape: its members, with bounds if they are integers, and what reads them in this order;
 * undefined refuses.
 * A shape whose output is a set has `sets`, the number of possible ones, and `code(marks)`, the number of
 * one of them, which a report sends if there are few.
 */
const SHAPES = {
  __proto__: null,
  ...POOLS,

  table: [
    { rows: 0 },
    (rows) => {
      const cells = rows?.[0]?.length;
      if (isList(rows) && cells <= FEW && rows.length * cells <= 65536) {
        const ends = rows.map((row) => sliceEnds(row, cells, 0));
        return { states: rows.length, cells, draw: (state, [word]) => [sliceOf(word, ends[state])] };
      }
    },
  ],

  symmetric: [
    { states: [2, 2 ** 20], keep: [1, WORD], lie: [1, WORD] },
    (states, keep, lie) => {
      const rest = WORD - keep - (states - 1) * lie;
      if (keep >= lie && rest >= 0 && rest < states - 1)
        return {
          states,
          cells: states,
          rest,
          draw: (state, [word]) => [
            word < keep ? state : (state + evenSlice(word - keep, lie, rest) + 1) % states,
          ],
        };
    },
  ],

  symbols: [
    { positions: [1, 2 ** 20], silent: [0, 1], laws: 0 },
    (positions, silent, laws) => {
      const letters = laws?.[0]?.length;
      if (!isList(laws) || laws.length < 2 || !isWhole(letters, 2, 16)) return;
      // symbol 0 has the last slice
      const ends = laws.map((law) => sliceEnds(isList(law) && [...law.slice(1), law[0]], letters, 1));
      const own = laws.length - 1;
      return {
        states: silent + positions * own,
        positions: silent ? NaN : positions, // of no use to pad if a state is silent
        cells: positions * (letters - 1),
        sets: letters ** positions,
        code: placeCode(letters),
        words: positions,
        align: 4,
        draw: (state, words) => {
          const marked = floor((state - silent) / own);
          const law = state < silent ? 0 : 1 + ((state - silent) % own);
          const marks = [];
          for (let place = 0; place < positions; place++) {
            const number = planeNumber(words, place, positions);
            const symbol = (sliceOf(number, ends[place === marked ? law : 0]) + 1) % letters;
            if (symbol) marks.push(place * (letters - 1) + symbol - 1);
          }
          return marks;
        },
      };
    },
  ],

  subset: [
    { states: [2, FEW], size: [1, FEW], show: [1, WORD - 1] },
    (states, size, show) => {
      const sets = choices(states, size);
      if (size < states)
        return {
          states,
          cells: states,
          sets,
          code: (marks) =>
            marks.reduce((code, mark, i) => code - choices(states - 1 - mark, size - i), sets - 1),
          words: states,
          draw: (state, [word, ...words]) => {
            const marks = [];
            let need = size - (word < show);
            for (let other = 0, left = states - 1; other < states; other++) {
              if (other === state) {
                if (word < show) marks.push(other);
              } else if (words[states - 1 - left] < floor((need * WORD) / left--)) {
                marks.push(other);
                need--;
              }
            }
            return marks;
          },
        };
    },
  ],

  product: [
    { digits: [1, 64], inner: 0 },
    (digits, inner) => {
      const one = readInner(inner, "table", "symmetric");
      const cells = one.cells ** digits;
      const states = one.states ** digits;
      if (cells <= 65536 && states <= 2 ** 62)
        return {
          inner: one,
          states,
          cells,
          words: digits,
          draw: (state, words) => {
            const base = BigInt(one.states);
            let left = BigInt(state);
            let output = 0;
            for (let place = digits, weight = 1; place--; weight *= one.cells) {
              output += weight * one.draw(Number(left % base), [words[place]])[0];
              left /= base;
            }
            return [output];
          },
        };
    },
  ],

  halfspace: [
    { signs: [1, 65536], keep: [WORD / 2, WORD - 1] },
    (signs, keep) => ({
      kind: "signs",
      states: signs,
      cells: signs,
      sets: 2 ** signs,
      code: placeCode(2),
      words: 1 + ceil(signs / 32),
      draw: (state, words) => {
        const bits = state.map((_, place) => bitOf(words, 32 + place));
        const agree = bits.reduce((sum, bit, place) => sum + (bit === state[place] ? 2 : 0), -signs);
        const flip = agree && agree > 0 !== words[0] < keep ? 1 : 0;
        return bits.flatMap((bit, place) => (bit === flip ? [] : place));
      },
    }),
  ],
};

/** The number of a row of symbols, from the marks of those that are not 0. */
const placeCode = (letters) => (marks) =>
  marks.reduce(
    (code, mark) => code + ((mark % (letters - 1)) + 1) * letters ** floor(mark / (letters - 1)),
    0,
  );

/** A bit of some words. */
const bitOf = (words, bit) => (words[bit >> 5] >>> (bit & 31)) & 1;

/** The 32-bit number of a position, whose bits lie across the words of its group in bit planes. */
function planeNumber(words, place, positions) {
  const first = place & ~31;
  const size = min(32, positions - first);
  let number = 0;
  for (let bit = place - first; bit < 32 * size; bit += size) {
    number = (number << 1) | bitOf(words, 32 * first + bit);
  }
  return number >>> 0;
}

/** The channel inside another, of one of these shapes. */
const readInner = (inner, ...shapes) =>
  shapes.includes(inner?.shape) ? readChannel(inner) : refuse(BAD_CHANNELS);

/** A channel from its document; refuses what is no law. */
export function readChannel(document) {
  const shape = document?.shape;
  const [members, read] = (isText(shape) && SHAPES[shape]) || refuse("an unknown shape");
  const values = Object.keys(members).map((name) => document[name]);
  const whole = Object.values(members).every((bounds, i) => !bounds || isWhole(values[i], ...bounds));
  const channel =
    (whole && memberCount(document) === 1 + values.length && read(...values, readInner)) ||
    refuse(BAD_CHANNELS);
  const { sets, code, draw } = channel;
  return {
    shape,
    kind: "number",
    align: 1,
    words: 1,
    values,
    many: sets > FEW,
    ...channel,
    ...(sets <= FEW && { cells: sets, draw: (state, words) => [code(draw(state, words))] }),
  };
}
