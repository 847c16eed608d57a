/**
 * Epsilon as exact arithmetic. An epsilon is a BigInt that counts units of 10^-18.
 */

const PLACES = 18;
const UNIT = 10n ** BigInt(PLACES);
const BITS = 192n;

/**
 * The units of a decimal text without exponent, cut off after 18 decimals.
 * Returns null if the text is no such decimal, or if it is not written in the one way that plans use.
 */
export function units(text) {
  const found =
    typeof text === "string" && text.length < 500 && /^(0|[1-9]\d*)(?:\.(\d*[1-9]))?$/.exec(text);
  if (!found) return null;
  const decimals = (found[2] ?? "").slice(0, PLACES).padEnd(PLACES, "0");
  return BigInt(found[1]) * UNIT + BigInt(decimals);
}

/** Units as a decimal text: no exponent, no trailing zeros. */
export function decimalText(count) {
  const sign = count < 0n ? "-" : "";
  const digits = String(count < 0n ? -count : count).padStart(PLACES + 1, "0");
  return sign + digits.slice(0, -PLACES) + ("." + digits.slice(-PLACES)).replace(/\.?0+$/, "");
}

/** The logarithm of a ratio of at least 1, in units, rounded up: never less than the truth. */
export function logUp(numerator, denominator) {
  if (numerator === denominator) return 0n;
  const long = bitLength(denominator) - 320;
  if (long > 0) {
    // 320 bits decide; both ends are moved to the safe side
    numerator = (numerator >> BigInt(long)) + 1n;
    denominator >>= BigInt(long);
  }
  const shift = BigInt(bitLength(numerator) - bitLength(denominator));
  const whole = doubleArtanh(numerator - (denominator << shift), numerator + (denominator << shift));
  const log = whole + shift * doubleArtanh(1n, 3n);
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

function bitLength(number) {
  const digits = number.toString(16);
  return digits.length * 4 - Math.clz32(parseInt(digits[0], 16)) + 28;
}
