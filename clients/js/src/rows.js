/**
 * Shapes whose output is a row: of symbols, of a product's digits, of signs; and the encoding of signs.
 * Loaded for plans that have one of them.
 * It imports nothing and is given what it shares with the client, so that bundlers keep it apart.
 */
const { ceil, floor, min } = Math;
const isList = Array.isArray;
const WORD = 2 ** 32;

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

/** The shapes and encodings of this module, from what it is given. */
export const kinds = ({ extremes, isWhole, ratio, sliceEnds, sliceOf, worstOf }) => ({
  release: "0.1.0",
  shapes: {
    symbols: [
      { positions: [1, 2 ** 20], silent: [0, 1], laws: 0 },
      (positions, silent, laws) => {
        const letters = laws?.[0]?.length;
        if (!isList(laws) || laws.length < 2 || !isWhole(letters, 2, 16)) return;
        // symbol 0 has the last slice
        const ends = laws.map((law) => sliceEnds(isList(law) && [...law.slice(1), law[0]], letters, 1));
        const own = laws.length - 1;
        if (!ends.every(isList)) return;
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
      (positions, silent, [back, ...own]) => {
        const columns = back.map((weight, symbol) => [weight, ...extremes(own, symbol)]);
        const up = worstOf(columns.map(([weight, most]) => ratio(most, weight)));
        const down = worstOf(columns.map(([weight, , least]) => ratio(weight, least)));
        return worstOf([
          ...columns.map(([, most, least]) => ratio(most, least)),
          ...(silent ? [up, down] : []),
          ...(positions > 1 ? [[up[0] * down[0], up[1] * down[1]]] : []),
        ]);
      },
    ],

    product: [
      { digits: [1, 64], inner: 0 },
      (digits, inner, readInner) => {
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
      (digits, _, { inner }) => inner.worst().map((end) => end ** BigInt(digits)),
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
      (signs, keep) => ratio(keep, WORD - keep),
    ],
  },

  encodings: {
    signs: {
      kind: "signs",
      binary: true,
      states: (keys) => keys,
      words: ({ length }) => length,
      encode: (held, words, cap, keys, levels, places) => {
        const signs = places.map((place) => +(words[place] < WORD / 2));
        for (const { place, digit } of held) signs[place] = digit(words[place]) - 1;
        return signs;
      },
    },
  },
});
