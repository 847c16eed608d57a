/**
 * Channels: the exact law of a report, in the shapes of docs/wire.md.
 *
 * `readChannel` checks the integers of a channel and returns how many states, cells and words it has,
 * and `draw(state, words, at)`: the marked cells, ascending, from the words that begin at `at`.
 */
import { POOLS } from "./pools.js";
import {
  choices,
  evenSlice,
  FEW,
  hasMembers,
  isWhole,
  NO_LAW,
  refuse,
  sliceEnds,
  sliceOf,
  WORD,
} from "./slices.js";

/** For each shape: its members, with bounds if they are integers, and what reads them. */
const SHAPES = {
  ...POOLS,

  table: [
    { rows: null },
    ({ rows }) => {
      if (!Array.isArray(rows) || !rows.length || !Array.isArray(rows[0])) refuse(NO_LAW);
      const cells = rows[0].length;
      if (cells > FEW || rows.length * cells > 65536) refuse(NO_LAW);
      const ends = rows.map((row) => sliceEnds(row, 0, cells));
      return {
        states: rows.length,
        cells,
        draw: (state, words, at) => [sliceOf(words[at], ends[state])],
      };
    },
  ],

  symmetric: [
    { states: [2, 2 ** 20], keep: [1, WORD], lie: [1, WORD] },
    ({ states, keep, lie }) => {
      const rest = WORD - keep - (states - 1) * lie;
      if (keep < lie || rest < 0 || rest >= states - 1) refuse(NO_LAW);
      return {
        states,
        cells: states,
        rest,
        draw: (state, words, at) => {
          if (words[at] < keep) return [state];
          return [(state + evenSlice(words[at] - keep, lie, rest) + 1) % states];
        },
      };
    },
  ],

  symbols: [
    { positions: [1, 2 ** 20], silent: [0, 1], laws: null },
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
    { digits: [1, 64], inner: null },
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

  halfspace: [
    { signs: [1, 65536], keep: [WORD / 2, WORD - 1] },
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
};

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

function readInner(inner, shapes) {
  return shapes.includes(inner?.shape) ? readChannel(inner) : refuse(NO_LAW);
}

/** A channel from its document; refuses what is no law. */
export function readChannel(document) {
  const shape = document?.shape;
  if (typeof shape !== "string" || !Object.hasOwn(SHAPES, shape))
    refuse("a channel has an unknown shape");
  const [members, read] = SHAPES[shape];
  if (!hasMembers(document, ["shape", ...Object.keys(members)])) refuse(NO_LAW);
  for (const [name, bounds] of Object.entries(members)) {
    if (bounds && !isWhole(document[name], ...bounds)) refuse(NO_LAW);
  }
  return {
    shape,
    kind: "number",
    many: false,
    align: 1,
    rest: 0,
    words: 1,
    document,
    ...read(document, readInner),
  };
}
