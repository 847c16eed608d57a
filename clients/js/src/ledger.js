/**
 * The ledger of a device: every answer with its cost, its report and what became of it.
 *
 * A ledger is a plain document. These functions are synchronous, so that a storage runs each of them in
 * one transaction: two tabs never draw two reports to one plan.
 */
import { BudgetError } from "./errors.js";
import { decimalText, units } from "./exact.js";
import { canonical } from "./plan.js";
import { drawCells } from "./report.js";

const FORMAT = "keyveil/ledger/1";
/** States of a report that may still be sent. */
export const WAITING = ["waiting", "held", "refused"];
const OTHER_PLAN = "this collection was answered under another plan; a device answers once";

function refuse(message) {
  throw new BudgetError(message);
}

/** A bound on a sum of epsilons, in units: a number above zero, or its decimal text. */
export function checkedLimit(limit, name) {
  const count = units(
    String(limit)
      .replace(/(\.\d*?)0+$/, "$1")
      .replace(/\.$/, ""),
  );
  return count > 0n ? count : refuse(`${name} must be a number above zero, like 4 or 0.5`);
}

/** The stored ledger, or a new one with this cap; refuses a damaged one and another cap. */
export function openLedger(document, cap) {
  if (document === null) {
    if (cap === undefined)
      refuse("a new ledger needs a cap on the total epsilon: pass cap the first time");
    return { format: FORMAT, cap: decimalText(checkedLimit(cap, "cap")), answers: [] };
  }
  if (document?.format !== FORMAT || !(units(document.cap) > 0n) || !Array.isArray(document.answers)) {
    refuse("the ledger cannot be read; nothing is answered until it is restored");
  }
  if (cap !== undefined && checkedLimit(cap, "cap") !== units(document.cap)) {
    refuse("this ledger has another cap; a cap is set once, when the ledger is created");
  }
  return document;
}

const sum = (answers) => answers.reduce((total, answer) => total + units(answer.epsilon), 0n);

/** Cap, spent and left of a ledger, as decimal texts. */
export function budgetOf(ledger) {
  const [cap, spent] = [units(ledger.cap), sum(ledger.answers)];
  return { cap: ledger.cap, spent: decimalText(spent), left: decimalText(cap - spent) };
}

/** The answer to a plan, if there is one; refuses a plan that was answered in another collection. */
export function answerTo(ledger, hash, collection) {
  const found = ledger.answers.find((answer) => answer.plan === hash);
  if (found && found.collection !== collection) {
    refuse("this plan was answered in another collection; a report belongs to one collection");
  }
  return found;
}

/**
 * Refuse a plan that costs more than is left or allowed, or that follows other plans than those answered.
 * It looks at plans and earlier answers, never at a record.
 */
export function checkCost(ledger, plan, collection, allow, mostWaiting) {
  const earlier = ledger.answers.filter((answer) => answer.collection === collection);
  const [cost, before] = [plan.units, sum(earlier)];
  const left = units(ledger.cap) - sum(ledger.answers);
  if (earlier.some((answer) => answer.round >= (plan.chain?.round ?? 1))) refuse(OTHER_PLAN);
  if (cost > left) {
    refuse(`this plan costs epsilon ${plan.proven}, but only ${decimalText(left)} of the cap is left`);
  }
  if (allow !== undefined && before + cost > allow) {
    refuse(
      `this plan costs epsilon ${plan.proven}; ${decimalText(allow)} is allowed for one collection`,
    );
  }
  if (earlier.length) checkRound(plan, earlier, before);
  else if (plan.chain) {
    const total = units(plan.chain.total);
    if (cost > total) refuse("this plan costs more than it states for all its rounds");
    if (total > left || (allow !== undefined && total > allow)) {
      refuse(
        `all rounds of this plan cost epsilon ${plan.chain.total}, which is more than is allowed or left`,
      );
    }
  }
  if (ledger.answers.filter((answer) => WAITING.includes(answer.state)).length >= mostWaiting) {
    refuse(`${mostWaiting} reports wait to be sent: send them before answering more`);
  }
}

/** A later round follows the plan answered last, within what the first plan stated. */
function checkRound(plan, earlier, before) {
  const [first, last] = [earlier[0], earlier.at(-1)];
  if (plan.chain?.parent !== last.plan || plan.mechanism !== last.mechanism || !first.chain)
    refuse(OTHER_PLAN);
  if (before + plan.units > units(first.chain.total)) {
    refuse(`this round exceeds the total of epsilon ${first.chain.total} that the first plan stated`);
  }
  if (canonical(plan.document.schema) !== first.chain.schema) {
    refuse("this round asks for other keys or ranges than the first; it is not answered");
  }
}

/** Draw the only report to a plan and add it to the ledger. `checkCost` comes first. */
export function addAnswer(ledger, plan, record, facts) {
  const id = [...crypto.getRandomValues(new Uint8Array(16))];
  const answer = {
    plan: plan.hash,
    mechanism: plan.mechanism,
    epsilon: plan.proven,
    round: plan.chain?.round ?? 1,
    id: id.map((byte) => byte.toString(16).padStart(2, "0")).join(""),
    cells: drawCells(plan, record),
    state: "waiting",
    reason: "",
    tries: 0,
    ...facts,
  };
  if (plan.chain) answer.chain = { total: plan.chain.total, schema: canonical(plan.document.schema) };
  ledger.answers.push(answer);
  return answer;
}

/** Set facts of an answer. One that was counted or dropped never changes. */
export function markAnswer(ledger, hash, facts) {
  const answer = ledger.answers.find(({ plan }) => plan === hash);
  if (answer && !["counted", "dropped"].includes(answer.state)) Object.assign(answer, facts);
  return answer;
}
