/** Options of the client and of its calls: what each may be. */
import { refuse } from "./errors.js";
import { limitOf } from "./ledger.js";
import { isCount, isText } from "./slices.js";

/** The rule of options that count something. */
export const COUNT = [isCount, "a whole number, 1 or more"];
export const NUMBER = [(value) => Number.isFinite(value) && value >= 0, "a number, 0 or more"];

/** A rule for what is checked elsewhere. */
export const ANYTHING = [() => true];
const LIMIT = [
  (value) => limitOf(value) > 0n,
  'a number above zero without an exponent, like 4 or "0.5"',
];
const FUNCTION = [(value) => typeof value === "function", "a function"];
/** The options of a client. */
export const OPTIONS = {
  cap: LIMIT,
  allow: LIMIT,
  allowEpoch: [isCount, "whole seconds, like 3600"],
  token: [
    (value) => isText(value) && /^[\x21-\x7e]+$/.test(value),
    "one word, as keyveil token create prints it",
  ],
  storage: [
    (value) => value?.read && value.update,
    'a storage, like memoryStorage() or fileStorage("ledger.json")',
  ],
  patience: ANYTHING,
  mostWaiting: COUNT,
  fetch: FUNCTION,
  clock: FUNCTION,
};
/** The options of sending again. */
export const REFUSED = { refused: [(value) => typeof value === "boolean", "true or false"] };

/**
 * Refuse options that are no object, that have other names than those of `rules`, or other values than their
 * rules allow: [whether a value is right, what it must be].
 */
export function checkOptions(options, rules, owner) {
  const names = Object.keys(rules);
  if (typeof options !== "object" || !options) refuse(`${owner} takes options like { ${names[0]}: … }`);
  for (const name in options) {
    const [isRight, right] = Object.hasOwn(rules, name)
      ? rules[name]
      : refuse(`${owner} has no option '${name}'; it has ${names.join(", ")}`);
    if (options[name] !== undefined && !isRight(options[name]))
      refuse(`the option ${name} of ${owner} must be ${right}`);
  }
}
