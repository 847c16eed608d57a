/**
 * The proof of epsilon: the worst ratio of the probabilities of any output between two records, as two
 * exact integers, for every shape.
 */
import { ceil, floor, max, min, refuse, WORD } from "./slices.js";

const WHOLE = BigInt(WORD);
/** Upper bound on the relative error of one step's logarithm and sum in doubles. */
const STEP_ERROR = 2 ** -48;

/** Whether one ratio, a pair of integers, is larger than another. */
const exceeds = ([a, b], [c, d]) => a * d > c * b;

/** The largest of some ratios. */
export const worstOf = (ratios) =>
  ratios.reduce((worst, ratio) => (exceeds(ratio, worst) ? ratio : worst));

const ratio = (top, bottom) => [BigInt(top), BigInt(bottom)];

/** The largest and the smallest weight of a column; there may be too many rows for an argument list. */
const extremes = (rows, column) =>
  rows.reduce(([most, least], row) => [max(most, row[column]), min(least, row[column])], [0, WORD]);

/** The worst ratio of each shape, from its members in the order of `channels.js` and what was read. */
const RATIOS = {
  table: (rows) =>
    worstOf([
      ratio(1, 1),
      ...rows[0].map((_, output) => {
        const [most, least] = extremes(rows, output);
        if (most && !least) refuse("a channel that no epsilon covers");
        return most ? ratio(most, least) : ratio(1, 1);
      }),
    ]),

  symmetric: (states, keep, lie, { rest }) => ratio(max(keep, lie + (rest > 0)), lie),

  symbols: (positions, silent, [back, ...own]) => {
    const columns = back.map((weight, symbol) => [weight, ...extremes(own, symbol)]);
    const up = worstOf(columns.map(([weight, most]) => ratio(most, weight)));
    const down = worstOf(columns.map(([weight, , least]) => ratio(weight, least)));
    return worstOf([
      ratio(1, 1),
      ...columns.map(([, most, least]) => ratio(most, least)),
      ...(silent ? [up, down] : []),
      ...(positions > 1 ? [[up[0] * down[0], up[1] * down[1]]] : []),
    ]);
  },

  subset: (states, size, show) => {
    const [most, least] = [1, -1].map((sign) => choiceWalk(states - 1, size, sign));
    const [withMost, withLeast] = [most(states - 1, size - 1), least(states - 1, size - 1)];
    const [withoutMost, withoutLeast] = [most(states - 1, size), least(states - 1, size)];
    const [own, other] = ratio(show, WORD - show);
    return worstOf([
      [own * withMost, other * withoutLeast],
      [other * withoutMost, own * withLeast],
      [withMost, withLeast],
      [withoutMost, withoutLeast],
    ]);
  },

  product: (digits, _, { inner }) => ratioOf(inner).map((end) => end ** BigInt(digits)),

  hash: (items, pool, salt, _, { inner }) => ratioOf(inner),

  halfspace: (signs, keep) => ratio(keep, WORD - keep),

  collision: (items, held, cells, pool, salt, high) => pooled(high, high, high, held, cells, 1),

  coco: (items, held, cells, pool, salt, high, low) => pooled(high, low, high + low, held, cells, 2),
};

/**
 * The worst ratio of a pool. A claim takes `weight` and `width` cells; what is left for one cell has its
 * ends at 0 and at `held` claims.
 */
function pooled(most, least, weight, held, cells, width) {
  const [none, all] = [0, held].map((count) => (WORD - count * weight) / (cells - count * width));
  return ratio(max(most, ceil(none), ceil(all)), min(least, floor(none), floor(all)));
}

/** The worst ratio of a channel between two states. */
const ratioOf = (channel) => RATIOS[channel.shape](...channel.values, channel);

/**
 * The worst ratio of a channel after an encoding, between two records. Padding to a length spreads a
 * record over that many states, so a state's own share is at most ceil(2^32 / length).
 */
export function proof(encode, channel, keys) {
  const { shape, values, states } = channel;
  const [top, bottom] = ratioOf(channel);
  if (encode !== "padded" || shape !== "symmetric") return [top, bottom];
  const share = BigInt(ceil(WORD / (states / 2 - keys)));
  const [, , lie] = values;
  const heavy = BigInt(lie + (channel.rest > 0));
  return [share * top + (WHOLE - share) * heavy, WHOLE * bottom];
}

/**
 * The likeliest (sign 1) or unlikeliest (-1) choice of states by the sampler of `subset`.
 * Returns a function of the number of states left and of the number to take: the exact weight of that
 * choice, over 2^(32 left).
 *
 * Without rounding all choices of one size are equally likely, so they differ by what rounding adds to
 * the logarithms of their steps. Doubles hold these sums; where two are too near, exact products decide.
 */
function choiceWalk(others, size, sign) {
  const steps = [];
  const weightOf = (need, left) => floor((need * WORD) / left);
  const weight = (left, need) => {
    const factors = [1n];
    for (let states = left; states > 0; states--) {
      const [low, take] = steps[states - 1];
      const own = weightOf(need, states);
      const taken = take[need - low];
      factors.push(BigInt(taken ? own : WORD - own));
      need -= taken ? 1 : 0;
    }
    return multiplied(factors);
  };
  const best = new Float64Array(size + 1);
  let error = 0;
  for (let left = 1; left <= others; left++) {
    const low = max(0, size - 1 - (others - left));
    const high = min(left, size);
    const take = [];
    const sums = [];
    let most = 0;
    for (let need = low; need <= high; need++) {
      const rest = (need * WORD) % left;
      const taken = need ? sign * Math.log1p(-rest / (need * WORD)) + best[need - 1] : -Infinity;
      const passed =
        need < left ? sign * Math.log1p(rest / ((left - need) * WORD)) + best[need] : -Infinity;
      take.push(taken > passed);
      sums.push([taken, passed]);
      most = max(most, Math.abs(max(taken, passed)));
    }
    error += STEP_ERROR * (most + left / WORD);
    sums.forEach(([taken, passed], at) => {
      best[low + at] = max(taken, passed);
      if (Math.abs(taken - passed) > 2 * error) return;
      const need = low + at;
      const own = BigInt(weightOf(need, left));
      const difference = own * weight(left - 1, need - 1) - (WHOLE - own) * weight(left - 1, need);
      take[at] = BigInt(sign) * difference > 0n;
    });
    steps.push([low, take]);
  }
  return weight;
}

/** A product, in pairs, so that the numbers grow evenly. */
function multiplied(factors) {
  while (factors.length > 1) {
    factors = factors.flatMap((factor, i) => (i % 2 ? [] : [factor * (factors[i + 1] ?? 1n)]));
  }
  return factors[0];
}
