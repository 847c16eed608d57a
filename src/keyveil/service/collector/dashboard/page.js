/** The page of one collection: its head, its tabs, and the stream of what arrives. */

import { collection, get, live } from "./api.js";
import { epsilon, failure, h, put, whole } from "./dom.js";
import { rate } from "./home.js";
import { PANELS } from "./panels.js";
import { address } from "./place.js";

export function collectionPage(session, name, reload) {
  const path = collection(name);
  const gone = new AbortController();
  const holder = h("div"), tabs = h("nav", { class: "tabs", "aria-label": "Views of this collection" });
  const state = h("span", { class: "badge" }), stream = h("span", { class: "live" }, "connecting");
  const reports = h("dd", { class: "big", "data-role": "reports" }), speed = h("dd", {}, "…");
  const summary = h("dl", { class: "facts" });
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, name, " ", state), stream), summary, tabs, holder);
  const samples = [];
  let context = null, panel = null, chosen = "";

  async function start(id) {
    // asked for at once, because most visits begin with the answers
    const early = (id ?? "answers") === "answers" ? get(`${path}/estimates`).catch(() => null) : null;
    try {
      const [status, plan, facts] = await Promise.all([get(`${path}/status`), get(`${path}/plan`), get(`${path}/plan-facts`)]);
      context = { name, path, plan, facts, status, session, early, together: knowsPairs(plan), width: () => Math.min(element.clientWidth || 900, 1120), reload };
      shown(status.state);
      count(status.rounds.at(-1).reports);
      put(summary, fact("Reports", reports), fact("Rate", speed), fact("Epsilon promised", h("dd", {}, epsilon(facts.promised))), fact("Epsilon proven", h("dd", {}, epsilon(facts.proven))), fact("Keys", h("dd", {}, whole(facts.keys))), fact("Mechanism", h("dd", {}, facts.mechanism)), status.rounds.length > 1 || plan.chain ? fact("Round", h("dd", {}, String(status.round))) : null);
      show(id);
      live(name, heard, gone.signal);
    } catch (error) {
      if (error.status !== 401) put(holder, failure(error, reload));
    }
  }

  const fact = (title, cell) => h("div", {}, h("dt", {}, title), cell);

  function show(id) {
    if (!context) return;
    const offered = PANELS.filter((each) => each.offered(context));
    const next = offered.find((each) => each.id === id) ?? offered[0];
    put(tabs, offered.map((each) => h("a", { href: address(["c", name, each.id]), "data-id": each.id, "aria-current": each === next ? "page" : undefined }, each.title)));
    tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    panel?.leave?.();
    chosen = next.id;
    panel = next.make(context);
    put(holder, panel.element);
    panel.start?.();
    document.title = `${name}: ${next.title} · keyveil`;
  }

  function shown(now) {
    state.className = `badge ${now}`;
    state.textContent = now.replace("_", " ");
  }

  function count(number) {
    reports.textContent = whole(number);
    samples.push([performance.now(), number]);
    while (samples.length > 2 && samples[0][0] < performance.now() - 30000) samples.shift();
    const [[then, before], [now, after]] = [samples[0], samples.at(-1)];
    if (samples.length > 1) speed.textContent = rate((after - before) / Math.max(0.001, (now - then) / 1000));
  }

  function heard(event, document) {
    stream.classList.toggle("on", !["lost", "ended", "refused", "deleted"].includes(event));
    if (event === "connected") stream.textContent = "live";
    if (event === "lost") stream.textContent = "not connected; trying again";
    if (event === "ended" || event === "refused") stream.textContent = document.message ?? document.detail;
    if (event === "deleted") stream.textContent = "deleted";
    if (event === "tally") {
      if (document.round !== context.status.round) return reload();
      shown(document.state);
      context.status.state = document.state;
      count(document.reports);
      panel?.tally?.(document);
    }
    if (event === "estimates") panel?.update?.(document);
  }

  const idle = setInterval(() => { if (samples.length) count(samples.at(-1)[1]); }, 5000);
  const drawn = () => { if (context) show(chosen); };
  window.addEventListener("keyveil-theme", drawn);
  return { element, start, show, leave: () => { gone.abort(); clearInterval(idle); panel?.leave?.(); window.removeEventListener("keyveil-theme", drawn); } };
}

/** Whether the plan asks about keys together. */
function knowsPairs(plan) {
  const parts = plan.parts ?? [plan];
  return parts.some((part) => part.encode === "pair_items" || (part.encode === "views" && part.views.keys !== "singles" && (part.views.keys === "whole" ? plan.schema.keys.length > 1 : part.views.keys.some((view) => view.length > 1))));
}
