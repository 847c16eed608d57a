/** An error whose name stays the same when code is minified. */
const named = (name, Base) =>
  class extends Base {
    get name() {
      return name;
    }
  };

/** The base of all errors of this package. A message never names a key or a value that a person holds. */
export const KeyveilError = named("KeyveilError", Error);
/** A plan cannot be read or trusted. */
export const PlanError = named("PlanError", KeyveilError);
/** The person's budget does not allow this answer. */
export const BudgetError = named("BudgetError", KeyveilError);
/** The collector cannot be reached or trusted, or accepts no answers now. Nothing was sent. */
export const ClientError = named("ClientError", KeyveilError);

/** Refuse to answer or to send. */
export function refuse(message) {
  throw new ClientError(message);
}
