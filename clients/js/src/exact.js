/**
 * Epsilon as exact arithmetic. An epsilon is a BigInt that counts units of 10^-18.
 */
import { isText } from "./slices.js";

const PLACES = 18;
const UNIT = 10n ** 18n;
const BITS = 192n;

/** Whether a value is a decimal text without exponent, written in the one way that plans use. */
export const isDecimal = (text) =>
  isText(text) && /^(?!-0$)-?(0|[1-9]\d{0,400})(\.\d{0,400}[1-9])?$/.test(text);

/** The units of a decimal text that is not negative, cut off after 18 decimals; null for other values. */
export function units(text) {
  if (!isDecimal(text) || text < "0") return null;
  const [whole, decimals = ""] = text.split(".");
  return BigInt(whole + decimals.slice(0, PLACES).padEnd(PLACES, "0"));
}

/** Units as a decimal text: no exponent, no trailing zeros. */
export function decimalText(count) {
  const digits = String(count).padStart(PLACES + 1, "0");
  return (digits.slice(0, -PLACES) + "." + digits.slice(-PLACES)).replace(/\.?0+$/, "");
}

/** The logarithm of a ratio of at least 1, in units, rounded up: never less than the truth. */
export function logUp(numerator, denominator) {
  if (numerator === denominator) return 0n;
  const long = bitLength(denominator) - 320n;
  if (long > 0n) {
    // 320 bits decide; both ends are moved to the safe side
    numerator = (numerator >> long) + 1n;
    denominator >>= long;
  }
  const shift = bitLength(numerator) - bitLength(denominator);
  denominator <<= shift;
  const log =
    doubleArtanh(numerator - denominator, numerator + denominator) + shift * doubleArtanh(1n, 3n);
  return ((log * UNIT) >> BITS) + 1n;
}

/** 2 artanh(top / bottom) in units of 2^-192, for a quotient between -1/3 and 1/3. */
function doubleArtanh(top, bottom) {
  let power = (top << BITS) / bottom;
  const square = (power * power) >> BITS;
  let sum = 0n;
  for (let odd = 1n; power > 1n || power < -1n; odd += 2n) {
    sum += power / odd;
    power = (power * square) >> BITS;
  }
  return 2n * sum;
}

const bitLength = (number) => BigInt(number.toString(2).length);
