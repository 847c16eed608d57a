/** Requests to a collector, and what its answers mean. */
import { refuse } from "./errors.js";
import { isList, isText, max, min } from "./slices.js";

/** Reasons after which a report is dropped: it may have been counted, or never will be. */
const FINAL = ["closed_epoch", "closed_collection", "closed_round", "full", "impossible", "other_plan"];
/** The only 4xx statuses after which the same request is sent again later. */
const LATER = [408, 425, 429];
/** Largest number of seconds that a server may make a client wait. */
export const LONGEST = 86400;
/** Largest size of a response in bytes. */
const MOST_RESPONSE = 2 ** 18;
/** The options of every request: nothing links one request to another. */
const PRIVATE = {
  credentials: "omit",
  cache: "no-store",
  redirect: "error",
  referrerPolicy: "no-referrer",
};

/** A collector's checked address. Another machine needs https, so that nobody can change the plan. */
export function checkedURL(given) {
  let url;
  try {
    url = new URL(given);
  } catch {
    // refused below
  }
  const { protocol, hostname, href } = url ?? {};
  const fault = !/^https?:$/.test(protocol)
    ? "a collector's address begins with https:// (http:// only on this machine)"
    : /[?#]/.test(href)
      ? "leave out ? or # and what follows in the collector's address"
      : href !== url.origin + url.pathname
        ? "a collector's address has no name or password; pass a token as the option token"
        : protocol === "http:" && !/^(localhost|127(\.\d+){3}|\[::1])$/.test(hostname)
          ? "a collector on another machine needs https"
          : "";
  if (fault) refuse(fault, "address");
  return href.replace(/\/+$/, "");
}

/** The response to a request, read up to a size: { status, text, after, long }. Status 0 if there is none. */
export async function ask(fetcher, url, options, most = MOST_RESPONSE) {
  // half a minute, or ten times that for a plan
  const signal = AbortSignal.timeout(most > MOST_RESPONSE ? 3e5 : 3e4);
  try {
    const response = await fetcher(url, { ...PRIVATE, ...options, signal });
    const after = retryAfter(response.headers.get("retry-after"));
    const text = await readText(response, most);
    return text === null ? { status: 0, long: true } : { status: response.status, text, after };
  } catch {
    return { status: 0 };
  }
}

/** The body of a response as text; null if it is longer than `most` bytes. */
async function readText(response, most) {
  const parts = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let part; reader && !(part = await reader.read()).done;) {
    parts.push(part.value);
    size += part.value.length;
    if (size > most) {
      reader.cancel().catch(() => {});
      return null;
    }
  }
  return new Blob(parts).text();
}

/** The seconds of a Retry-After header in either form. */
function retryAfter(given) {
  const seconds = /^\d{1,12}$/.test(given) ? given : (Date.parse(given) - Date.now()) / 1000;
  return min(max(seconds, 0) || 0, LONGEST);
}

/** The JSON object of a response; empty if there is none. */
export function bodyOf({ text }) {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Whether a response says that the same request may be sent again later. */
export const isTemporary = (status) => status < 400 || status >= 500 || LATER.includes(status);

/** A reason that a collector names; another one if it is no short text. */
export const named = (reason, other) => (isText(reason) && reason.length <= 40 ? reason : other);

/**
 * What a response means for the report with an id: { state, reason, after }.
 * Only a collector's own answer settles a report: the login page of a hotel network counts nothing.
 */
export function judge(response, id) {
  const { status, after = 0 } = response;
  const { failed, accepted, held, reason: given } = bodyOf(response);
  const ended = (reason, temporary) => ({
    state: temporary ? "waiting" : FINAL.includes(reason) ? "dropped" : "refused",
    reason,
    after,
  });
  if (status !== 200 && status !== 202)
    return ended(named(given, status ? `status ${status}` : "unreachable"), isTemporary(status));
  if (isList(failed) && Number.isInteger(accepted)) {
    const failure = failed.find((failure) => failure?.id === id);
    if (failure) {
      const reason = named(failure.reason, "unreadable");
      return ended(reason, failure.retry === true && !FINAL.includes(reason));
    }
    if (status === 200 && accepted >= 1) return { state: "counted", reason: "", after: 0 };
    if (status === 202 && held === 1) return { state: "held", reason: "relay", after };
  }
  return ended("unreadable", true);
}
