/**
 * The errors of this package. A message is for developers: it never names a key or a value that a person
 * holds. `code` stays the same across releases, so that a page can say it in its visitors' language.
 */
class CodedError extends Error {
  constructor(message, code, cause) {
    super(message, cause && { cause });
    this.code = code;
  }
}

/** An error whose name stays the same when code is minified, with its usual code. */
const named = (name, Base, usual) =>
  class extends Base {
    constructor(message, code = usual, cause) {
      super(message, code, cause);
    }

    get name() {
      return name;
    }
  };

/** The base of all errors of this package. */
export const KeyveilError = named("KeyveilError", CodedError, "option");
/** A plan cannot be read or trusted. */
export const PlanError = named("PlanError", KeyveilError, "plan");
/** The person's budget does not allow this answer. */
export const BudgetError = named("BudgetError", KeyveilError, "spent");
/** The collector cannot be reached or trusted, accepts no answers now, or was asked in a wrong way. */
export const ClientError = named("ClientError", KeyveilError, "option");

/** Refuse to answer or to send. */
export function refuse(message, code, cause) {
  throw new ClientError(message, code, cause);
}

/** Refuse options that are no object, or that have other names than these. */
export function checkOptions(options, names, owner) {
  if (typeof options !== "object" || !options) refuse(`${owner} takes options like { ${names[0]}: … }`);
  for (const name in options)
    if (!names.includes(name)) refuse(`${owner} has no option '${name}'; it has ${names.join(", ")}`);
}
