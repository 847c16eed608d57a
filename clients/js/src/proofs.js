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

const RATIOS = {
  table: ({ rows }) =>
    worstOf([
      ratio(1, 1),
      ...rows[0].map((_, output) => {
        const column = rows.map((row) => row[output]);
        const [most, least] = [max(...column), min(...column)];
        if (most > 0 && least === 0) refuse("a channel that no epsilon covers");
        return most > 0 ? ratio(most, least) : ratio(1, 1);
      }),
    ]),

  symmetric: ({ keep, lie }, { rest }) => ratio(max(keep, rest ? lie + 1 : 0), lie),

  symbols: ({ laws: [back, ...own], positions, silent }) => {
    const columns = back.map((weight, symbol) => ({ weight, own: own.map((law) => law[symbol]) }));
    const up = worstOf(columns.map((column) => ratio(max(...column.own), column.weight)));
    const down = worstOf(columns.map((column) => ratio(column.weight, min(...column.own))));
    const found = columns.map((column) => ratio(max(...column.own), min(...column.own)));
    if (silent) found.push(up, down);
    if (positions > 1) found.push([up[0] * down[0], up[1] * down[1]]);
    return worstOf([ratio(1, 1), ...found]);
  },

  subset: ({ states, size, show }) => {
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

  product: ({ digits }, { inner }) => ratioOf(inner).map((end) => end ** BigInt(digits)),

  hash: (_, { inner }) => ratioOf(inner),

  halfspace: ({ keep }) => ratio(keep, WORD - keep),

  collision: ({ high, held, cells }) =>
    pooled(high, high, held, (count) => [WORD - count * high, cells - count]),

  coco: ({ high, low, held, cells }) =>
    pooled(high, low, held, (count) => [WORD - count * (high + low), cells - 2 * count]),
};

/** The worst ratio of a pool: what is left for one cell has its ends at 0 and at `held` claims. */
function pooled(most, least, held, left) {
  for (const count of [0, held]) {
    const [weight, cells] = left(count);
    most = max(most, ceil(weight / cells));
    least = min(least, floor(weight / cells));
  }
  return ratio(most, least);
}

/** The worst ratio of a channel between two states. */
function ratioOf(channel) {
  return RATIOS[channel.shape](channel.document, channel);
}

/**
 * The worst ratio of a channel after an encoding, between two records. Padding to a length spreads a
 * record over that many states, so a state's own share is at most ceil(2^32 / length).
 */
export function proof(encode, channel, keys) {
  if (encode !== "padded" || channel.shape !== "symmetric") return ratioOf(channel);
  const length = floor(channel.states / 2) - keys;
  if (length < 1) return ratioOf(channel);
  const share = BigInt(ceil(WORD / length));
  const { keep, lie } = channel.document;
  const heavy = lie + (channel.rest > 0 ? 1 : 0);
  return [share * BigInt(max(keep, heavy)) + (WHOLE - share) * BigInt(heavy), WHOLE * BigInt(lie)];
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
