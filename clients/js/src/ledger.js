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
const OTHER_PLAN = "this collection was answered under another plan; a device answers once";

function refuse(message, code) {
  throw new BudgetError(message, code);
}

/** Whether a report may still be sent; with `refused`, also one that the collector refused. */
export const isWaiting = ({ state }, refused) =>
  ["waiting", "held", refused && "refused"].includes(state);

/** A bound on a sum of epsilons, in units, from a number above zero or its decimal text; or undefined. */
export function checkedLimit(limit, name) {
  if (limit === undefined) return limit;
  const count = units(String(limit).replace(/\.0*$|(\.\d*?)0+$/, "$1"));
  if (count > 0n) return count;
  return refuse(`${name} must be a number above zero without an exponent, like 4 or "0.5"`, "option");
}

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

/** The same; refuses a plan that was answered in another collection. */
export function answerIn(ledger, hash, collection) {
  const answer = answerTo(ledger, hash);
  if (answer && answer.collection !== collection)
    refuse("this plan was answered in another collection", "changed");
  return answer;
}

/**
 * Refuse a plan that costs more than is left or allowed, or that follows other plans than those answered.
 * It looks at plans and earlier answers, never at a record.
 */
export function checkCost(ledger, plan, collection, allow = units(ledger.cap), mostWaiting) {
  const earlier = ledger.answers.filter((answer) => answer.collection === collection);
  const { units: cost, proven, chain } = plan;
  const before = sum(earlier);
  const left = leftOf(ledger);
  if (earlier.some(({ round }) => round >= (chain?.round ?? 1))) refuse(OTHER_PLAN, "changed");
  if (cost > left)
    refuse(`this plan costs epsilon ${proven}, but only ${decimalText(left)} of the cap is left`);
  if (before + cost > allow)
    refuse(`this plan costs epsilon ${proven}; ${decimalText(allow)} is allowed for one collection`);
  if (earlier.length) checkRound(plan, earlier, before);
  else if (chain) {
    const total = units(chain.total);
    if (cost > total) refuse("this plan costs more than it states for all its rounds", "plan");
    if (total > left || total > allow)
      refuse(`all rounds of this plan cost epsilon ${chain.total}; more than is allowed or left`);
  }
  if (ledger.answers.filter((answer) => isWaiting(answer, true)).length >= mostWaiting)
    refuse(`${mostWaiting} reports wait to be sent; no more may wait (mostWaiting)`, "queue");
}

/** A later round follows the plan answered last, within what the first plan stated. */
function checkRound({ chain, mechanism, units: cost, document }, earlier, before) {
  const first = earlier[0].chain;
  const last = earlier.at(-1);
  if (chain?.parent !== last.plan || mechanism !== last.mechanism || !first)
    refuse(OTHER_PLAN, "changed");
  if (before + cost > units(first.total))
    refuse(`this round exceeds the total of epsilon ${first.total} that the first plan stated`);
  if (canonical(document.schema) !== first.schema)
    refuse("this round asks for other keys or ranges than the first", "changed");
}

/** Draw the only report to a plan and add it to the ledger. `checkCost` comes first. */
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
