/** Requests to the collector. The token is sent in a header alone: never in an address or a log. */

const KEPT = "keyveil-token";

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (text) => sessionStorage.setItem(KEPT, text),
  drop: () => sessionStorage.removeItem(KEPT),
};

/** A refusal of the collector. */
export class Refusal extends Error {
  constructor(status, document) {
    super(document.detail ?? document.title ?? `the collector answers ${status}`);
    this.status = status;
    this.reason = document.reason ?? "";
    this.retry = Boolean(document.retry);
  }
}

function headers(more = {}) {
  const text = token.get();
  return text ? { ...more, authorization: `Bearer ${text}` } : more;
}

async function ask(path, options = {}) {
  const sent = fetch(path, { ...options, headers: headers(options.headers), cache: "no-store", redirect: "error" });
  const response = await sent.catch((cause) => { throw new Error("the collector cannot be reached now", { cause }); });
  if (response.ok) return response;
  let document = {};
  try { document = await response.json(); } catch { /* a proxy's page */ }
  if (response.status === 401) window.dispatchEvent(new CustomEvent("keyveil-login", { detail: document.detail }));
  throw new Refusal(response.status, document);
}

/** Parameters of a query; a list repeats its name. */
function asked(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params ?? {})) {
    if (value === undefined || value === null || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) query.append(name, each);
  }
  const text = query.toString();
  return text ? "?" + text : "";
}

export const get = async (path, params, signal) => (await ask(path + asked(params), { signal })).json();
export const bytes = async (path, params) => (await ask(path + asked(params))).blob();

export async function send(method, path, body) {
  const options = { method };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers = { "content-type": "application/json" };
  }
  const response = await ask(path, options);
  return response.status === 204 ? null : response.json();
}

export const collection = (name) => `/v1/collections/${encodeURIComponent(name)}`;

/** Server-sent events with a header, so by a stream of fetch. Connects again until ``signal`` ends it. */
export async function live(name, on, signal) {
  let pause = 1000;
  while (!signal.aborted) {
    try {
      const response = await ask(`${collection(name)}/live?estimates=true`, { signal, headers: { accept: "text/event-stream" } });
      on("connected", null);
      pause = 1000;
      for await (const [event, document] of events(response.body)) {
        on(event, document);
        if (event === "deleted" || event === "refused") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && !error.retry) { on("ended", error); return; }
    }
    on("lost", null);
    await new Promise((resolve) => setTimeout(resolve, pause * (0.75 + Math.random() / 2)));
    pause = Math.min(2 * pause, 30000);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const lines = part.split("\n");
      const event = lines.find((line) => line.startsWith("event: "))?.slice(7);
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6);
      if (event && data) yield [event, JSON.parse(data)];
    }
  }
}
