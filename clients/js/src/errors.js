/**
 * The errors of this package. A message is for developers: it never names a key or a value that a person
 * holds. `code` stays the same across releases, so that a page can say it in its visitors' language.
 */

/** The base of all errors of this package. */
export class KeyveilError extends Error {
  constructor(message, code = "option", cause) {
    super(message, cause && { cause });
    this.code = code;
  }

  get name() {
    return "KeyveilError";
  }
}

/** An error whose name stays the same when code is minified, with its usual code. */
const named = (name, usual) =>
  class extends KeyveilError {
    constructor(message, code = usual, cause) {
      super(message, code, cause);
    }

    get name() {
      return name;
    }
  };

/** A plan cannot be read or trusted. */
export const PlanError = named("PlanError", "plan");
/** The person's budget does not allow this answer. */
export const BudgetError = named("BudgetError", "spent");
/** The collector cannot be reached or trusted, accepts no answers now, or was asked in a wrong way. */
export const ClientError = named("ClientError", "option");

/** Refuse a plan for what it has. */
export function refusePlan(fault) {
  throw new PlanError(`the plan has ${fault}`);
}

/** Refuse to answer or to send. */
export function refuse(message, code, cause) {
  throw new ClientError(message, code, cause);
}

/**
 * An error whose message is loaded now: pages do not load such messages as long as all is well. None of them
 * says anything about a record, not even by being loaded. If loading fails, the code tells the fault.
 */
export async function fault(code, facts = {}, Type = ClientError) {
  let message = `refused: ${code}; nothing was sent`;
  try {
    message = (await import("./messages.js")).MESSAGES[code](facts);
  } catch {
    // the code tells the fault
  }
  return new Type(message, code);
}
