import type { Client, Record } from "./index.js";

/** All texts of the notice. */
export const STRINGS: { readonly [name: string]: string };

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
