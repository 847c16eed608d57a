/**
 * The shape that shows a set of states of a fixed size. Loaded for plans that have it.
 * It imports nothing and is given what it shares with the client, so that bundlers keep it apart.
 */
const { abs, floor, log1p, max, min } = Math;
const WORD = 2 ** 32;
/** Largest number of outputs for which a report is one cell. */
const FEW = 4096;

/** Upper bound on the relative error of one step's logarithm and sum in doubles. */
const STEP_ERROR = 2 ** -48;

/** Number of choices of `size` out of `count`, or Infinity if it is more than `most`. */
function choices(count, size, most) {
  let product = 1;
  for (let i = 1; i <= min(size, count - size); i++) {
    product = (product * (count - i + 1)) / i;
    if (product > most) return Infinity;
  }
  return size < 0 || size > count ? 0 : product;
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
      const taken = need ? sign * log1p(-rest / (need * WORD)) + best[need - 1] : -Infinity;
      const passed = need < left ? sign * log1p(rest / ((left - need) * WORD)) + best[need] : -Infinity;
      take.push(taken > passed);
      sums.push([taken, passed]);
      most = max(most, abs(max(taken, passed)));
    }
    error += STEP_ERROR * (most + left / WORD);
    sums.forEach(([taken, passed], at) => {
      best[low + at] = max(taken, passed);
      if (abs(taken - passed) > 2 * error) return;
      const need = low + at;
      const own = BigInt(weightOf(need, left));
      const difference =
        own * weight(left - 1, need - 1) - (BigInt(WORD) - own) * weight(left - 1, need);
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

/** The shapes of this module, from what it is given. */
export const kinds = ({ ratio, worstOf }) => ({
  release: "0.1.0",
  shapes: {
    subset: [
      { states: [2, FEW], size: [1, FEW], show: [1, WORD - 1] },
      (states, size, show) => {
        const sets = choices(states, size, FEW);
        if (size < states)
          return {
            states,
            cells: states,
            sets,
            code: (marks) =>
              marks.reduce(
                (code, mark, i) => code - choices(states - 1 - mark, size - i, FEW),
                sets - 1,
              ),
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
      (states, size, show) => {
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
    ],
  },
});
