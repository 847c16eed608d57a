import type { Client, ErrorCode, Outcome, PersonRecord, Plan, RecordSource } from "./index.js";
import type { Troubles } from "./troubles.js";

/** The texts of the notice. `docs/browser.md` lists the placeholders of each. */
export interface Strings extends Troubles {
  readonly title: string;
  readonly what: string;
  readonly topicOne: string;
  readonly topicSome: string;
  readonly topicAll: string;
  readonly examples: string;
  readonly fromYou: string;
  readonly fromNone: string;
  readonly exampleNote: string;
  readonly again: string;
  readonly held: string;
  readonly yes: string;
  readonly absent: string;
  readonly code: string;
  readonly codeNote: string;
  readonly odds: string;
  readonly oddsText: string;
  readonly budget: string;
  readonly budgetText: string;
  readonly accept: string;
  readonly decline: string;
  readonly retry: string;
  readonly loading: string;
  readonly sending: string;
  readonly counted: string;
  readonly waiting: string;
  readonly dropped: string;
  readonly refused: string;
  readonly answered: string;
  readonly declined: string;
  readonly failed: string;
  readonly unreachable: string;
  readonly storage: string;
}

/** The texts of the notice, in English, without those of `TROUBLES` in `keyveil/troubles`. */
export const STRINGS: Omit<Strings, keyof Troubles>;

/** A text, or a function from the values of its placeholders to a text. */
export type Wording = string | ((values: { readonly [placeholder: string]: string | number }) => string);

/** A possible report in words; `says` is null if it is a code or bits, which say nothing by themselves. */
export interface PossibleReport {
  readonly keys: readonly string[];
  /** A value for each key, null for "not held", true if the plan ignores values. */
  readonly says: ReadonlyArray<number | true | null> | null;
  readonly cells: readonly number[];
}

/** Possible reports of a record, from fresh coins that are never stored or sent: for notices of your own. */
export function possibleReports(plan: Plan, record: PersonRecord, count: number): PossibleReport[];
/** The largest factor between the probabilities of one report under two records. */
export function oddsFactor(plan: Plan): number;
/** How sure someone can become who held something about a person for a toss-up: from 1/2 up to this. */
export function mostCertain(plan: Plan): number;

/** `<keyveil-consent>`: tells what a report is before one is drawn, and asks. */
export class KeyveilConsent extends HTMLElement {
  set client(client: Client);
  /** Also an attribute. */
  set collection(collection: string);
  set record(record: RecordSource);
  /** Texts that replace those of `STRINGS` and `TROUBLES`. */
  set strings(strings: { readonly [name in keyof Strings]?: Wording });
  /** What a person reads instead of a key. */
  set labels(labels: { readonly [key: string]: string });
}

/** The events of the notice. They bubble. */
export interface KeyveilConsentEventMap {
  /** The person has agreed; the detail is what happened to the report. */
  "keyveil-answer": CustomEvent<Outcome>;
  /** A report that waited was sent; the detail is what happened to it. */
  "keyveil-outcome": CustomEvent<Outcome>;
  "keyveil-decline": CustomEvent<null>;
  "keyveil-error": CustomEvent<Error & { readonly code?: ErrorCode }>;
}

declare global {
  interface HTMLElementTagNameMap {
    "keyveil-consent": KeyveilConsent;
  }
  interface GlobalEventHandlersEventMap extends KeyveilConsentEventMap {}
}
