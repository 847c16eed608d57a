/**
 * Plans: read without trust. A plan is refused unless its hash is that of its content and its integers
 * prove the epsilon that it promises.
 */
import { decimalText, logUp, units } from "./exact.js";
import { checkMechanism, OWN, readParts, readSchema } from "./parts.js";
import { proof, worstOf } from "./proofs.js";
import { hasMembers, isWhole, refuse, sliceEnds } from "./slices.js";

const FORMAT = "keyveil/plan/1";
const CLIENT = '{"cap":"none","no_number":"not held","outside_range":"clip","unknown_key":"ignore"}';
/** Largest size of a plan in bytes. */
export const MOST_BYTES = 2 ** 24;
const LARGEST = 20n * 10n ** 18n;

/** The canonical text of JSON that holds whole numbers, texts, lists and objects only. */
export function canonical(value) {
  if (typeof value === "string" || Number.isSafeInteger(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  if (typeof value !== "object" || value === null)
    refuse("a plan holds whole numbers, texts, lists and objects");
  const names = Object.keys(value).sort();
  if (!names.every((name) => /^\w+$/.test(name))) refuse("the plan has an unknown member");
  return `{${names.map((name) => `"${name}":${canonical(value[name])}`).join()}}`;
}

/** SHA-256 of a text, in hexadecimal. */
export async function sha256(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Whether a value is text of so many lower-case hexadecimal digits. */
export const isHex = (value, digits) =>
  typeof value === "string" && value.length === digits && /^[0-9a-f]*$/.test(value);

/** A plan that can be trusted, from its text or from its JSON document. */
export async function readPlan(given) {
  let body;
  let text;
  try {
    if (typeof given === "string" && given.length > MOST_BYTES) refuse("a plan has at most 16 MiB");
    body = typeof given === "string" ? JSON.parse(given) : given;
    text = canonical(body);
  } catch (error) {
    // SyntaxError: not JSON; RangeError: nested too deeply
    if (error instanceof SyntaxError || error instanceof RangeError) refuse("a plan is a JSON object");
    throw error;
  }
  if (body.format !== FORMAT) refuse(`the plan has an unknown version; this reads ${FORMAT}`);
  if (typeof given === "string" && given.replace(/\n$/, "") !== text)
    refuse("the plan is not written in its canonical form");
  // an odd number of backslashes: an escaped half of a character
  if (/(?<!\\)(\\\\)*\\ud[89a-f]/.test(text)) refuse("the plan has broken text");
  const { hash, ...content } = body;
  if (!isHex(hash, 64) || (await sha256(canonical(content))) !== hash)
    refuse("the plan's hash does not match its content");
  return new Plan(JSON.parse(text));
}

/** A verified plan. Use `readPlan` to make one. */
export class Plan {
  constructor(body) {
    const parted = Object.hasOwn(body, "parts");
    const members = ["format", "hash", "epsilon", "schema", "client", "mechanism"];
    const own = parted ? ["parts"] : OWN;
    if (!hasMembers(body, [...members, ...own], parted ? ["chain"] : ["channel_of", "chain"])) {
      refuse("the plan has other members than plans have");
    }
    if (canonical(body.client) !== CLIENT) refuse("the plan maps records in an unknown way");
    checkMechanism(body.mechanism);
    this.hash = body.hash;
    this.mechanism = body.mechanism.name;
    this.document = body;
    this.schema = readSchema(body.schema);
    this.chain = body.chain === undefined ? null : readChain(body.chain);
    this.parts = readParts(body, this.schema);
    /** Ends of the slices of the parts; null if the plan has no parts. */
    this.ends = parted
      ? sliceEnds(
          body.parts.map((part) => part.weight),
          1,
        )
      : null;
    this.promised = body.epsilon?.promised;
    this.proven = body.epsilon?.proven;
    /** The epsilon that the integers prove, in units of 10^-18. */
    this.units = logUp(...worstOf(this.parts.flatMap(proofs)));
    const promise = units(this.promised);
    if (!hasMembers(body.epsilon, ["promised", "proven"]) || promise === null || promise > LARGEST) {
      refuse("the plan's epsilons are decimal texts from 0 to 20");
    }
    if (this.units > promise) refuse("the plan breaks its promise of epsilon");
    if (decimalText(this.units) !== this.proven) {
      refuse("the plan claims another epsilon than its integers prove");
    }
  }

  /** The names of the keys. */
  get keys() {
    return this.schema.keys;
  }
}

/** The worst ratio of each channel of a part between two records. */
function proofs({ channels, encode, schema }) {
  return channels.map((channel) => proof(encode, channel, schema.keys.length));
}

function readChain(chain) {
  const { round, parent, total } = chain ?? {};
  const linked = round === 1 ? parent === "" : isHex(parent, 64);
  if (!isWhole(round, 1, 2 ** 20) || !linked || units(total) === null) {
    refuse("the plan's chain has no round, parent or total");
  }
  return { round, parent, total };
}
