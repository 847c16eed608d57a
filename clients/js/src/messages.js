/**
 * What is said when something is wrong; loaded only then. This module imports nothing, so that bundlers keep
 * it apart.
 */

const SENT = "; nothing was sent";

/** Messages for developers: from the facts of an error with a code to one line. */
export const MESSAGES = {
  changed: ({ elsewhere, keys }) => {
    if (elsewhere) return "this plan was answered in another collection";
    if (keys) return "this round asks for other keys or ranges than the first";
    return "this collection was answered under another plan; a device answers once";
  },
  clock: () => `the collector's clock is not this device's: one is wrong${SENT}`,
  closed: () => `the collection is closed${SENT}`,
  collector: ({ status, reason }) => {
    if (status === 0) return `the collector sent too much${SENT}`;
    if (status === 200)
      return "the address is not a keyveil collector's, or the collector has another version";
    const what = status === 404 ? "the address is not a keyveil collector's:" : "the collector refuses:";
    return `${what} status ${status} ${reason}`.trim() + SENT;
  },
  epochs: ({ seconds, usual, allowEpoch }) =>
    `epochs of ${seconds} seconds could tell devices apart; ${usual.join(", ")} are answered, ` +
    `from allowEpoch (${allowEpoch}) on${SENT}`,
  option: ({ client, expected, offer }) => {
    if (client) return "client of <keyveil-consent> must be a Client of keyveil";
    if (expected) return "the expected plan must be a plan or its hash: 64 hexadecimal digits";
    if (offer) return "accept takes an offer of this client: client.offer(name)";
    return "the option clock must return seconds, like Date.now() / 1000";
  },
  origin: ({ name }) =>
    `the collection '${name}' does not allow pages of ${globalThis.location?.origin}: ` +
    `see --origin of keyveil collection create${SENT}`,
  paused: () => `the collection accepts no answers now${SENT}`,
  plan: ({ expected, named }) => {
    if (expected) return "the collection's plan is not the expected one";
    if (named) return "the collector sent a plan other than the one it names";
    return "this plan costs more than it states for all its rounds";
  },
  queue: ({ most }) => `${most} reports wait to be sent; no more may wait (mostWaiting)`,
  spent: ({ cost, left, allow, total, first }) => {
    if (first) return `this round exceeds the total of epsilon ${first} that the first plan stated`;
    if (total) return `all rounds of this plan cost epsilon ${total}; more than is allowed or left`;
    if (allow) return `this plan costs epsilon ${cost}; ${allow} is allowed for one collection`;
    return `this plan costs epsilon ${cost}, but only ${left} of the cap is left`;
  },
  token: () => `the collection accepts reports only with a token${SENT}`,
  unknown: ({ name }) => `there is no collection '${name}' here${SENT}`,
};
