/** The texts of the notice, and numbers as a person reads them. */

/**
 * The texts. Replace some or all of them with `element.strings = { ... }`: each by a text, or by a function
 * from the values of its placeholders to a text. Those named like the code of an error are shown for it;
 * `TROUBLES` of `troubles.js` has more of them.
 */
export const STRINGS = {
  title: "Share an answer without giving it away",
  what: "If you agree, this device sends one short coded message. It picks {topic} and throws coins before it says anything, so the message is often untrue. Your answers stay on this device.",
  topicOne: "one of {count} questions at random",
  topicSome: "a few of {count} questions at random",
  topicAll: "all {count} questions together",
  examples: "What the message could look like",
  fromYou: "From your answers",
  fromNone: "From someone who answered nothing",
  exampleNote: "Thrown just now, only to show you: neither kept nor sent.",
  again: "Throw the coins again",
  held: "{key}: {value}",
  yes: "yes",
  absent: "{key}: no",
  code: "code {code}",
  codeNote: "Any answers can lead to any code; some only do so more often.",
  odds: "What it gives away",
  oddsText:
    "Any other answers could lead to the same message, at most {factor} times less often. Someone who guesses 50:50 about you can become at most {percent} sure.",
  budget: "Your privacy budget",
  budgetText:
    "All your answers on this site may cost {cap} together. This one costs {cost}, of {left} left before it.",
  accept: "Send one message",
  decline: "Do not send",
  retry: "Try again",
  loading: "Loading …",
  sending: "Sending …",
  counted: "Sent and counted. Thank you.",
  waiting: "Your message is stored and sent again until it counts.",
  dropped: "Sent, but not counted.",
  refused:
    "The collector did not accept your message. It is stored on this device. The people who run this site can mend that.",
  answered: "You have answered this already. Nothing more is sent.",
  declined: "Nothing was sent.",
  failed: "Nothing was sent. Something on this page is not set up right.",
  unreachable: "Nothing was sent: there is no connection now.",
  storage: "Nothing was sent: this browser keeps no data for this site.",
};

/** Codes of errors that may be over when the person tries again. */
export const PASSING = ["unreachable", "storage", "paused", "clock", "queue"];
/** Codes of errors whose text is in `TROUBLES`. None of these errors depends on a record. */
const LOADED = ["paused", "clock", "queue", "closed", "spent", "changed"];

/** The texts that are known by now. */
const texts = { ...STRINGS };

/** The usual text of a name. */
export const usualText = (name) => texts[name] ?? STRINGS.failed;

/** The name of the text about an error with a code; what is loaded for it is there then. */
export async function nameOfTrouble(code) {
  if (LOADED.includes(code))
    try {
      Object.assign(texts, (await import("./troubles.js")).TROUBLES);
    } catch {
      // the page's text, or that of a failure, will do
    }
  return LOADED.includes(code) || Object.hasOwn(STRINGS, code) ? code : "failed";
}

/** A number for the person: a bound is rounded to the safe side, "ceil" or "floor". */
export function numberText(value, language, roundingMode, options = { maximumSignificantDigits: 3 }) {
  const written = (locale) => Number(value).toLocaleString(locale, { ...options, roundingMode });
  try {
    return written(language);
  } catch {
    return written("en"); // the page's lang is no language tag
  }
}
