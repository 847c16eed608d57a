/** A person's record: names and values, or pairs of them. It never leaves the device. */
export type PersonRecord =
  | { readonly [key: string]: any }
  | ReadonlyMap<string, unknown>
  | ReadonlyArray<readonly [string, unknown]>;

/** A record, a promise of one, or a function that returns either. */
export type RecordSource =
  PersonRecord | Promise<PersonRecord> | (() => PersonRecord | Promise<PersonRecord>);

/** What went wrong, for texts in the visitor's language. The same across releases; new ones may be added. */
export type ErrorCode =
  | "address"
  | "cap"
  | "changed"
  | "clock"
  | "closed"
  | "collector"
  | "epochs"
  | "insecure"
  | "option"
  | "origin"
  | "page"
  | "paused"
  | "plan"
  | "queue"
  | "spent"
  | "storage"
  | "token"
  | "unknown"
  | "unreachable";

/** Its message is for developers; it never names a key or a value that a person holds. */
export class KeyveilError extends Error {
  readonly code: ErrorCode;
}
/** A plan cannot be read or trusted. */
export class PlanError extends KeyveilError {}
/** The person's budget does not allow this answer. */
export class BudgetError extends KeyveilError {}
/** The collector cannot be reached or trusted, or accepts no answers now. Nothing was sent. */
export class ClientError extends KeyveilError {}

/** A verified plan. */
export interface Plan {
  readonly hash: string;
  readonly mechanism: string;
  readonly keys: readonly string[];
  /** Epsilons as decimal texts: what the plan promises, and what its integers prove. */
  readonly promised: string;
  readonly proven: string;
  readonly chain: { readonly round: number; readonly parent: string; readonly total: string } | null;
  /**
   * What is wrong with a record that you made up, a line each. The lines name keys: never log or send them
   * for a person's record.
   */
  check(record: PersonRecord): Promise<string[]>;
}

/** A plan that can be trusted, from its text or its JSON document: its hash and its proof are checked. */
export function readPlan(document: string | object): Promise<Plan>;

/** Where the ledger is kept. */
export interface Storage {
  read(): Promise<unknown>;
  /** Store what `change` makes of the stored document, in one transaction; nothing if it throws. */
  update(change: (document: any) => unknown): Promise<void>;
}

/** IndexedDB: shared by all tabs of one origin, kept across visits. */
export function indexedDBStorage(): Storage;
/** A storage that forgets everything at the end: for tests. */
export function memoryStorage(): Storage;

export type State = "waiting" | "held" | "counted" | "dropped" | "refused";

/** What happened to a device's report to a collection. */
export interface Outcome {
  readonly collection: string;
  readonly plan: string;
  readonly mechanism: string;
  readonly epsilon: string;
  readonly round: number;
  readonly epoch: number;
  readonly state: State;
  readonly reason: string;
  readonly tries: number;
  /** Seconds since 1970 before which a waiting report is not sent. */
  readonly after: number;
  readonly counted: boolean;
  /** Of `answer` and `accept`: whether this call drew the report. If not, it stood before. */
  readonly drawn?: boolean;
}

export interface Budget {
  readonly cap: string;
  readonly spent: string;
  readonly left: string;
}

/** What a collection asks, verified and affordable. */
export interface Offer {
  readonly collection: string;
  readonly hash: string;
  /** Null if this device has answered. */
  readonly plan: Plan | null;
  readonly budget: Budget;
  readonly answered: Outcome | null;
  /** Length of an epoch in seconds; 0 if this device has answered and there is no connection. */
  readonly seconds: number;
}

/** When a report is sent and sent again; all times in seconds. */
export interface Patience {
  /** Number of tries in one call, 4 by default. */
  attempts?: number;
  /** Seconds before the second try, 1 by default; doubled with each further try, and shortened at random. */
  first?: number;
  /** Largest number of seconds between two tries, 3600 by default. */
  most?: number;
  /** Largest number of seconds that a call waits for a try, 30 by default. */
  longest?: number;
  /** Seconds from reading the plan to sending the report, 0.25 by default. */
  settle?: number;
  /** Largest number of further seconds, drawn at random; 0.25 by default. */
  spread?: number;
}

export interface ClientOptions {
  /** Largest total epsilon of all answers; set once, when the ledger is created. */
  cap?: number | string;
  /** Largest epsilon of one collection over all its rounds. */
  allow?: number | string;
  /** Shortest epoch, in seconds, that the device answers; 3600 by default. */
  allowEpoch?: number;
  /** An ingest token, if the collection requires one. */
  token?: string;
  /** IndexedDB by default. */
  storage?: Storage;
  patience?: Patience;
  /** Number of reports that may wait to be sent, 100 by default. */
  mostWaiting?: number;
  fetch?: typeof globalThis.fetch;
  /** Seconds since 1970. */
  clock?: () => number;
}

/**
 * One device and one collector. It fires `outcome`, a CustomEvent whose detail is an `Outcome`, when a report
 * that waited was sent.
 */
export class Client extends EventTarget {
  constructor(url: string, options?: ClientOptions);
  readonly url: string;
  budget(): Promise<Budget>;
  answers(name?: string): Promise<Outcome[]>;
  /** `expected` is the plan that the page expects, or its hash. */
  about(name: string, expected?: Plan | string): Promise<{ readonly [name: string]: unknown }>;
  plan(name: string, expected?: Plan | string): Promise<Plan>;
  /** What is wrong with a record that you made up; `plan` is a plan or the name of a collection. */
  check(plan: Plan | string, record: RecordSource): Promise<string[]>;
  offer(name: string, expected?: Plan | string): Promise<Offer>;
  answer(name: string, record: RecordSource, options?: { plan?: Plan | string }): Promise<Outcome>;
  accept(offer: Offer, record: RecordSource): Promise<Outcome>;
  flush(options?: { refused?: boolean }): Promise<Outcome[]>;
  addEventListener(type: "outcome", listener: (event: CustomEvent<Outcome>) => void): void;
  addEventListener(...given: Parameters<EventTarget["addEventListener"]>): void;
  close(): void;
}
