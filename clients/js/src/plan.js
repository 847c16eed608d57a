/**
 * Plans: read without trust. A plan is refused unless its hash is that of its content and its integers
 * prove the epsilon that it promises.
 */
import { PlanError, refusePlan } from "./errors.js";
import { decimalText, logUp, units } from "./exact.js";
import { checkMechanism, readParts, readSchema } from "./parts.js";
import { worstOf } from "./ratios.js";
import { pairsOf } from "./record.js";
import { ceil, isList, isText, isWhole, memberCount, WORD } from "./slices.js";

const CLIENT = '{"cap":"none","no_number":"not held","outside_range":"clip","unknown_key":"ignore"}';
/** Largest size of a plan in bytes. */
export const MOST_BYTES = 2 ** 24;

/** The canonical text of JSON that holds whole numbers, texts, lists and objects only. */
export function canonical(value) {
  if (isText(value) ? value.isWellFormed() : Number.isSafeInteger(value)) return JSON.stringify(value);
  if (isList(value)) return `[${value.map(canonical).join()}]`;
  const names =
    typeof value === "object" && value ? Object.keys(value).sort() : refusePlan("an unknown value");
  const texts = names.map((name) =>
    /^\w+$/.test(name) ? `"${name}":${canonical(value[name])}` : refusePlan("an unknown member"),
  );
  return `{${texts.join()}}`;
}

/** Bytes in hexadecimal. */
export const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, 0)).join("");

/** SHA-256 of a text, in hexadecimal. */
export const sha256 = async (text) =>
  hex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

/** Whether a value is a hash: 64 lower-case hexadecimal digits. */
export const isHash = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value);

/** A plan that can be trusted, from its text or from its JSON document. */
export async function readPlan(given) {
  if (given?.length > MOST_BYTES) refusePlan("more than 16 MiB");
  let body;
  let text;
  try {
    body = isText(given) ? JSON.parse(given) : given;
    text = canonical(body);
  } catch (error) {
    // SyntaxError: not JSON; RangeError: nested too deeply
    throw error instanceof PlanError ? error : refusePlan("text that is no JSON");
  }
  const { hash, ...content } = body;
  if (body.format !== "keyveil/plan/1") refusePlan("an unknown version");
  if (isText(given) && given.replace(/\n$/, "") !== text)
    refusePlan("text that is not in canonical form");
  if (!isHash(hash) || (await sha256(canonical(content))) !== hash)
    refusePlan("a hash that does not match its content");
  return planOf(JSON.parse(text));
}

/** A plan whose hash is right. */
async function planOf(document) {
  const {
    hash,
    epsilon,
    client,
    mechanism,
    parts: listed,
    channel_of: numbers,
    chain = null,
  } = document;
  const members = listed ? 7 : numbers ? 10 : 9;
  if (memberCount(document) !== members + (chain ? 1 : 0)) refusePlan("unknown members");
  if (canonical(client) !== CLIENT) refusePlan("an unknown client");
  checkMechanism(mechanism);
  if (chain) checkChain(chain);
  const schema = readSchema(document.schema);
  const { keys } = schema;
  const { parts, ends } = await readParts(document, schema);
  const { promised, proven } = epsilon ?? {};
  /** The epsilon that the integers prove, in units of 10^-18. */
  const cost = logUp(
    ...worstOf(
      parts.flatMap(({ channels, encode }) =>
        channels.map((channel) => worstAfter(encode, channel, keys.length)),
      ),
    ),
  );
  const promise = units(promised);
  if (memberCount(epsilon) !== 2 || promise === null || promise > units("20"))
    refusePlan("malformed epsilons");
  if (cost > promise) refusePlan("integers that break its promise of epsilon");
  if (decimalText(cost) !== proven) refusePlan("a proven epsilon other than its integers prove");
  const { name } = mechanism;
  return {
    hash,
    mechanism: name,
    keys,
    promised,
    proven,
    units: cost,
    chain,
    document,
    schema,
    parts,
    ends,
    check: async (record) => {
      const { faultsOf } = await import("./check.js");
      return faultsOf(record, pairsOf(record), schema);
    },
  };
}

function checkChain({ round, parent, total }) {
  const linked = round === 1 ? parent === "" : isHash(parent);
  if (!isWhole(round, 1, 2 ** 20) || !linked || units(total) === null) refusePlan("a malformed chain");
}

/**
 * The worst ratio of a channel after an encoding, between two records. Padding to a length spreads a
 * record over that many states, so a state's own share is at most ceil(2^32 / length).
 */
function worstAfter(encode, { shape, values, states, rest, worst }, keys) {
  const [top, bottom] = worst();
  if (encode !== "padded" || shape !== "symmetric") return [top, bottom];
  const share = BigInt(ceil(WORD / (states / 2 - keys)));
  const heavy = BigInt(values[2] + (rest > 0));
  return [share * top + (BigInt(WORD) - share) * heavy, BigInt(WORD) * bottom];
}
