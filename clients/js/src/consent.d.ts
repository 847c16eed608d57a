import type { Client, Plan, Record } from "./index.js";

/** All texts of the notice. */
export const STRINGS: { readonly [name: string]: string };

/** A possible report in words; `says` is null if it is a code or bits, which say nothing by themselves. */
export interface PossibleReport {
  readonly keys: readonly string[];
  /** A value for each key, null for "not held", true if the plan ignores values. */
  readonly says: ReadonlyArray<number | true | null> | null;
  readonly cells: readonly number[];
}

/** Possible reports of a record, from fresh coins that are never stored or sent: for notices of your own. */
export function possibleReports(plan: Plan, record: Record, count: number): PossibleReport[];
/** The largest factor between the probabilities of one report under two records. */
export function oddsFactor(plan: Plan): number;
/** How sure someone can become who held something about a person for a toss-up: from 1/2 up to this. */
export function mostCertain(plan: Plan): number;

/** `<keyveil-consent>`: tells what a report is before one is drawn, and asks. */
export class KeyveilConsent extends HTMLElement {
  set client(client: Client);
  set collection(collection: string);
  set record(record: Record | (() => Record | Promise<Record>));
  /** Texts that replace those of `STRINGS`. */
  set strings(strings: { readonly [name: string]: string });
}

declare global {
  interface HTMLElementTagNameMap {
    "keyveil-consent": KeyveilConsent;
  }
}
