/**
 * The ledger of a device: every answer with its cost, its report and what became of it.
 *
 * A ledger is a plain document. These functions are synchronous, so that a storage runs each of them in
 * one transaction: two tabs never draw two reports to one plan.
 */
import { BudgetError } from "./errors.js";
import { decimalText, units } from "./exact.js";
import { canonical, hex } from "./plan.js";
import { drawCells } from "./report.js";
import { isList } from "./slices.js";

const FORMAT = "keyveil/ledger/1";

function refuse(message, code) {
  throw new BudgetError(message, code);
}

/** Whether a report may still be sent; with `refused`, also one that the collector refused. */
export const isWaiting = ({ state }, refused) =>
  ["waiting", "held", refused && "refused"].includes(state);

/** A bound on a sum of epsilons, in units, from a number above zero or its decimal text; null for others. */
export const limitOf = (limit) => units(String(limit).replace(/\.0*$|(\.\d*?)0+$/, "$1"));

/** The stored ledger, or a new one with this cap in units; refuses a damaged one and another cap. */
export function openLedger(document, limit) {
  if (document === null) {
    if (!limit) refuse("a new ledger needs a cap: pass the option cap the first time", "cap");
    return { format: FORMAT, cap: decimalText(limit), answers: [] };
  }
  const held = units(document?.cap);
  if (document?.format !== FORMAT || !held || !isList(document.answers))
    refuse("the ledger cannot be read", "storage");
  if (limit && limit !== held) {
    const caps = `the cap ${decimalText(held)}, not ${decimalText(limit)}`;
    refuse(`this ledger has ${caps}; it is set once, so leave the option cap out`, "cap");
  }
  return document;
}

const sum = (answers) => answers.reduce((total, { epsilon }) => total + units(epsilon), 0n);

/** What is left of the cap, in units. */
const leftOf = ({ cap, answers }) => units(cap) - sum(answers);

/** Cap, spent and left of a ledger, as decimal texts. */
export function budgetOf(ledger) {
  const { cap, answers } = ledger;
  return { cap, spent: decimalText(sum(answers)), left: decimalText(leftOf(ledger)) };
}

/** The answer to a plan, if there is one. */
export const answerTo = ({ answers }, hash) => answers.find(({ plan }) => plan === hash);

/**
 * Why a plan may not be answered in a collection, as a code and facts; nothing if it may, or was answered
 * there. Without the plan, only what its hash tells. It looks at plans and earlier answers, never at a record.
 */
export function refusalOf(ledger, hash, collection, plan, allow, most) {
  const answer = answerTo(ledger, hash);
  if (answer && answer.collection !== collection) return ["changed", { elsewhere: true }];
  if (answer || !plan) return;
  const { answers } = ledger;
  const earlier = answers.filter((answer) => answer.collection === collection);
  const { units: cost, proven, chain, mechanism, document } = plan;
  const spent = sum(earlier) + cost;
  const left = leftOf(ledger);
  const last = earlier.at(-1);
  if (earlier.some(({ round }) => round >= (chain?.round ?? 1))) return ["changed"];
  if (cost > left) return ["spent", { cost: proven, left: decimalText(left) }];
  allow ??= units(ledger.cap);
  if (spent > allow) return ["spent", { cost: proven, allow: decimalText(allow) }];
  if (last) {
    // a later round follows the plan answered last, within what the first plan stated
    const first = earlier[0].chain;
    if (chain?.parent !== last.plan || mechanism !== last.mechanism || !first) return ["changed"];
    if (spent > units(first.total)) return ["spent", { first: first.total }];
    if (canonical(document.schema) !== first.schema) return ["changed", { keys: true }];
  } else if (chain) {
    const total = units(chain.total);
    if (cost > total) return ["plan"];
    if (total > left || total > allow) return ["spent", { total: chain.total }];
  }
  if (answers.filter((answer) => isWaiting(answer, true)).length >= most) return ["queue", { most }];
}

/** Draw the only report to a plan and add it to the ledger. `refusalOf` comes first. */
export function addAnswer(ledger, plan, record, facts) {
  const { hash, mechanism, proven, chain, document } = plan;
  ledger.answers.push({
    plan: hash,
    mechanism,
    epsilon: proven,
    round: chain?.round ?? 1,
    id: hex(crypto.getRandomValues(new Uint8Array(16))),
    cells: drawCells(plan, record),
    state: "waiting",
    reason: "",
    tries: 0,
    ...facts,
    ...(chain && { chain: { total: chain.total, schema: canonical(document.schema) } }),
  });
}

/** Set facts of an answer. One that was counted or dropped never changes. */
export function markAnswer(answer, facts) {
  if (isWaiting(answer, true)) Object.assign(answer, facts);
}
