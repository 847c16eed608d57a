/** When a report is sent, and sent again. All times are in seconds; docs/client.md says why. */
import { checkOptions, COUNT, NUMBER } from "./options.js";
import { secureWords } from "./report.js";
import { ceil, max, min, WORD } from "./slices.js";

/** Let some seconds pass, and never less: a timer may fire early. */
export async function pause(seconds) {
  const end = performance.now() + 1000 * seconds;
  for (let left; (left = end - performance.now()) > 0;)
    await new Promise((resolve) => setTimeout(resolve, left));
}

/** A secure random number, uniform on [0, 1). */
export const chance = () => secureWords(1)[0] / WORD;

const RULES = {
  attempts: COUNT,
  first: NUMBER,
  most: NUMBER,
  longest: NUMBER,
  settle: NUMBER,
  spread: NUMBER,
};

/** Exponential backoff with full jitter, and a first try whose time does not depend on the record. */
export class Patience {
  attempts = 4;
  first = 1;
  most = 3600;
  longest = 30;
  settle = 0.25;
  spread = 0.25;

  constructor(changes = {}) {
    checkOptions(changes, RULES, "patience");
    for (const name in changes) this[name] = changes[name] ?? this[name];
  }

  /** Seconds to wait before the first try, after answering took some seconds; a multiple of a drawn time. */
  hold(taken, jitter) {
    const whole = this.settle + jitter * this.spread;
    const past = max(0, taken);
    return whole > 0 ? max(1, ceil(past / whole)) * whole - past : 0;
  }

  /** Seconds to wait after a number of tries, never less than the server asks for. */
  delay(tries, after = 0) {
    return after + chance() * min(this.most, this.first * 2 ** (tries - 1));
  }
}
