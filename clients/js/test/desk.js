/** A collector within the process, for tests of the client: it answers as told and keeps every request. */
import { readFileSync } from "node:fs";

import { canonical, sha256 } from "../src/plan.js";

const FOLDER = new URL("../../../vectors/", import.meta.url);
export const NOW = 1_800_000_000;
export const SECONDS = 86_400;

/** The plan of a vector. */
export const planOf = (name) => JSON.parse(readFileSync(new URL(`${name}.json`, FOLDER), "utf8")).plan;

/** A plan with other members and the hash of what it says. */
export async function sealed(plan, changes) {
  const { hash, ...body } = { ...structuredClone(plan), ...changes };
  return { ...body, hash: await sha256(canonical(body)) };
}

export class Desk {
  constructor(plan) {
    this.plan = plan;
    this.requests = [];
    this.about = {};
    /** Statuses, or whole responses, of the next answers to reports. */
    this.next = [];
    this.counted = new Map();
    this.fetch = async (url, options = {}) => {
      this.requests.push({ url, ...options });
      return this.answer(url, options);
    };
  }

  answer(url, { method = "GET", body }) {
    if (method === "POST") return this.take(JSON.parse(body));
    if (url.endsWith("/plan")) return new Response(this.text ?? canonical(this.plan));
    const epoch = { now: Math.floor(NOW / SECONDS), seconds: SECONDS, ...this.about.epoch };
    return Response.json({ plan: this.plan.hash, state: "open", token: false, ...this.about, epoch });
  }

  take(body) {
    const status = this.next.length ? this.next.shift() : 200;
    if (status === "down") throw new TypeError("fetch failed");
    if (status instanceof Response) return status;
    if (status !== 200) return Response.json({ reason: "busy" }, { status });
    for (const { id, cells } of body.reports) this.counted.set(id, JSON.stringify(cells));
    return Response.json({ accepted: body.reports.length, failed: [] });
  }

  /** The bodies of all requests that carry reports. */
  get reports() {
    return this.requests.filter(({ method }) => method === "POST").map(({ body }) => JSON.parse(body));
  }
}

/** Options of a client that hardly waits. */
export const QUICK = {
  clock: () => NOW + performance.now() / 1000,
  patience: { first: 0.001, settle: 0, spread: 0, longest: 1 },
};
