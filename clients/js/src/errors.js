/** The base of all errors of this package. A message never names a key or a value that a person holds. */
export class KeyveilError extends Error {
  get name() {
    return "KeyveilError";
  }
}

/** A plan cannot be read or trusted. */
export class PlanError extends KeyveilError {
  get name() {
    return "PlanError";
  }
}

/** The person's budget does not allow this answer. */
export class BudgetError extends KeyveilError {
  get name() {
    return "BudgetError";
  }
}

/** The collector cannot be reached or trusted, or accepts no answers now. Nothing was sent. */
export class ClientError extends KeyveilError {
  get name() {
    return "ClientError";
  }
}
