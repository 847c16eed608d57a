/** Requests to a collector, and what its answers mean. */
import { ClientError } from "./errors.js";

/** Reasons after which a report is dropped: it may have been counted, or never will be. */
const FINAL = ["closed_epoch", "closed_collection", "closed_round", "full", "impossible", "other_plan"];
/** The only 4xx statuses after which the same request is sent again later. */
const LATER = [408, 425, 429];
/** Largest number of seconds that a server may make a client wait. */
const LONGEST = 86400;
/** Largest size of a response in bytes, and the seconds within which it must be complete. */
const MOST_RESPONSE = 2 ** 18;
const ANSWER_SECONDS = 30;
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
    throw new ClientError("a collector's address looks like https://example.org");
  }
  const local = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname);
  if (!/^https?:$/.test(url.protocol) || url.search || url.hash || url.username || url.password) {
    throw new ClientError("a collector's address looks like https://example.org");
  }
  if (url.protocol === "http:" && !local)
    throw new ClientError("a collector on another machine needs https");
  return url.href.replace(/\/+$/, "");
}

/** The response to a request, read up to a size: { status, text, after, fault }. Status 0 if there is none. */
export async function ask(fetcher, url, options = {}, most = MOST_RESPONSE) {
  const stop = new AbortController();
  const seconds = most > MOST_RESPONSE ? 10 * ANSWER_SECONDS : ANSWER_SECONDS;
  const timer = setTimeout(() => stop.abort(), 1000 * seconds);
  try {
    const response = await fetcher(url, { ...PRIVATE, ...options, signal: stop.signal });
    const after = retryAfter(response.headers.get("retry-after"));
    const text = await readText(response, most);
    if (text === null) stop.abort();
    return text === null ? { status: 0, fault: true } : { status: response.status, text, after };
  } catch {
    return { status: 0 };
  } finally {
    clearTimeout(timer);
  }
}

/** A request that outlives the page. It has no answer, so the report stays queued. */
export function sendAndLeave(fetcher, url, options) {
  Promise.resolve(fetcher(url, { ...PRIVATE, ...options, keepalive: true })).catch(() => {});
}

/** The body of a response as text; null if it is longer than `most` bytes. */
async function readText(response, most) {
  const parts = [];
  let size = 0;
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  for (let part; reader && !(part = await reader.read()).done;) {
    size += part.value.length;
    if (size > most) {
      reader.cancel().catch(() => {});
      return null;
    }
    parts.push(decoder.decode(part.value, { stream: true }));
  }
  return parts.join("") + decoder.decode();
}

/** The seconds of a Retry-After header in either form. */
function retryAfter(given) {
  const seconds = /^\d{1,12}$/.test(given ?? "")
    ? Number(given)
    : (Date.parse(given) - Date.now()) / 1000;
  return Math.min(Math.max(seconds, 0) || 0, LONGEST);
}

/** The JSON object of a response; empty if there is none. */
export function bodyOf({ text }) {
  try {
    const body = JSON.parse(text);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    return {};
  }
}

/** Whether a response says that the same request may be sent again later. */
export const isTemporary = (status) => status < 400 || status >= 500 || LATER.includes(status);

/**
 * What a response means for the report with an id: { state, reason, after }.
 * Only a collector's own answer settles a report: the login page of a hotel network counts nothing.
 */
export function judge(response, id) {
  const { status, after = 0 } = response;
  const body = bodyOf(response);
  if (status === 200 || status === 202) return judgeTaken(status, body, id, after);
  const named = typeof body.reason === "string" && body.reason.length <= 40;
  const reason = named ? body.reason : status ? `status ${status}` : "unreachable";
  if (isTemporary(status)) return { state: "waiting", reason, after };
  return { state: FINAL.includes(reason) ? "dropped" : "refused", reason, after: 0 };
}

function judgeTaken(status, { failed, accepted, held }, id, after) {
  if (Array.isArray(failed) && Number.isInteger(accepted)) {
    const failure = failed.find((failure) => failure?.id === id);
    if (failure) {
      const reason = String(failure.reason).slice(0, 40);
      const state = FINAL.includes(reason) ? "dropped" : failure.retry === true ? "waiting" : "refused";
      return { state, reason, after };
    }
    if (status === 200 && accepted >= 1) return { state: "counted", reason: "", after: 0 };
    if (status === 202 && held === 1)
      return { state: "held", reason: "a relay waits for others", after };
  }
  return { state: "waiting", reason: "unreadable", after };
}
