/**
 * Texts of the notice about a collection that cannot be answered; loaded when it shows one. This module
 * imports nothing, so that bundlers keep it apart.
 */

/** Texts for visitors, by the codes of errors; they belong to those of `texts.js`. */
export const TROUBLES = {
  closed: "Nothing was sent: this question is closed.",
  paused: "Nothing was sent: this question takes no answers now.",
  clock: "Nothing was sent: the clock of this device seems to be wrong.",
  spent: "Nothing was sent: this question costs more than your privacy budget allows.",
  changed: "Nothing was sent: you have answered this already, and the question has changed since.",
  queue: "Nothing was sent: earlier messages of yours still wait.",
};
