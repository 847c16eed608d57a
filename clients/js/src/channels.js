/**
 * Channels: the exact law of a report, in the shapes of docs/wire.md.
 *
 * `readChannel` checks the integers of a channel and returns how many states, cells and words it has,
 * and `draw(state, words)`: the marked cells, ascending, from the first of these words.
 */
import { refusePlan } from "./errors.js";
import { extremes, ratio, worstOf } from "./ratios.js";
import {
  evenSlice,
  FEW,
  isList,
  isText,
  isWhole,
  max,
  memberCount,
  sliceEnds,
  sliceOf,
  WORD,
} from "./slices.js";

const BAD_CHANNELS = "malformed channels";

/**
 * For each shape: its members, with bounds if they are integers; what reads them in this order, and
 * `readInner` (undefined refuses); and the worst ratio of the channel, from the members and what was read.
 * `demand.js` adds the shapes that few plans have.
 * A shape whose output is a set has `sets`, the number of possible ones, and `code(marks)`, the number of
 * one of them, which a report sends if there are few.
 */
export const SHAPES = {
  __proto__: null,

  table: [
    { rows: 0 },
    (rows) => {
      const cells = rows?.[0]?.length;
      if (isList(rows) && cells <= FEW && rows.length * cells <= 65536) {
        const ends = rows.map((row) => sliceEnds(row, cells, 0));
        if (ends.every(isList))
          return { states: rows.length, cells, draw: (state, [word]) => [sliceOf(word, ends[state])] };
      }
    },
    (rows) =>
      worstOf(
        rows[0].map((_, output) => {
          const [most, least] = extremes(rows, output);
          if (most && !least) refusePlan("a channel that no epsilon covers");
          return most ? ratio(most, least) : ratio(1, 1);
        }),
      ),
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
    (states, keep, lie, { rest }) => ratio(max(keep, lie + (rest > 0)), lie),
  ],
};

/** The channel inside another, of one of these shapes. */
const readInner = (inner, ...shapes) =>
  shapes.includes(inner?.shape) ? readChannel(inner) : refusePlan(BAD_CHANNELS);

/** A channel from its document; refuses what is no law. */
export function readChannel(document) {
  const shape = document?.shape;
  const [members, read, worst] = (isText(shape) && SHAPES[shape]) || refusePlan("an unknown shape");
  const values = Object.keys(members).map((name) => document[name]);
  const whole = Object.values(members).every((bounds, i) => !bounds || isWhole(values[i], ...bounds));
  const channel =
    (whole && memberCount(document) === 1 + values.length && read(...values, readInner)) ||
    refusePlan(BAD_CHANNELS);
  const { sets, code, draw } = channel;
  return {
    shape,
    kind: "number",
    align: 1,
    words: 1,
    values,
    many: sets > FEW,
    ...channel,
    worst: () => worst(...values, channel),
    ...(sets <= FEW && { cells: sets, draw: (state, words) => [code(draw(state, words))] }),
  };
}
