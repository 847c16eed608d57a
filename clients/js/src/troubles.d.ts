/** The texts of the notice that are loaded when one is needed, by the codes of errors. */
export interface Troubles {
  readonly closed: string;
  readonly paused: string;
  readonly clock: string;
  readonly spent: string;
  readonly changed: string;
  readonly queue: string;
}

/** These texts, in English. */
export const TROUBLES: Troubles;
