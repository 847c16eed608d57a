/** For admins: open, pause, close, the next round, delete; limits; tokens of this collection. */

import { send } from "./api.js";
import { confirmed, h, originsField, put, say } from "./dom.js";
import { tokens } from "./tokens.js";

export const manage = { id: "manage", title: "Manage", offered: (context) => context.session.role === "admin", make };

const STATES = {
  closed: "Closed for good.",
  paused: "Paused: devices send again later.",
  full: "Full: the round has as many reports as it may take. A larger limit opens it again.",
};

function make(context) {
  const problem = h("div", { role: "alert" });
  const { status } = context;
  const { state: now } = status;
  const closed = now === "closed";
  const chained = Boolean(context.plan.chain);
  const act = (work, words) => async () => {
    try { put(problem); await work(); say(words); context.reload(); } catch (error) { put(problem, h("p", { class: "problem" }, error.message)); }
  };
  const state = (next) => send("POST", `${context.path}/state`, { state: next });
  const asking = (title, words, verb, work, said) => async () => { if (await confirmed(title, words, verb)) await act(work, said)(); };
  const people = h("input", { type: "number", min: 1, value: status.terms.people ?? "", placeholder: "no limit" });
  const pages = originsField(status.terms.origins);
  const save = (terms) => (event) => { event.preventDefault(); act(() => send("PATCH", context.path, terms()), "Saved")(); };
  const element = h("div", {},
    h("section", { class: "card" }, h("h2", {}, "State"), problem,
      h("p", {}, STATES[now] ?? "Takes reports."),
      h("div", { class: "row" },
        closed || now === "open" || now === "full" ? null : h("button", { type: "button", class: "primary", onclick: act(() => state("open"), "Open") }, "Open"),
        closed || now === "paused" ? null : h("button", { type: "button", onclick: act(() => state("paused"), "Paused") }, "Pause"),
        chained && !closed ? h("button", { type: "button", onclick: asking("Start the next round?", "The current round closes for good, and its answers become the next plan.", "Start", () => send("POST", `${context.path}/rounds`), "The next round has started") }, "Next round") : null,
        closed ? null : h("button", { type: "button", class: "danger", onclick: asking("Close this collection?", "It takes no more reports, and it cannot be opened again. Its answers stay.", "Close", () => state("closed"), "Closed") }, "Close"),
        closed ? h("button", { type: "button", class: "danger", onclick: asking("Delete this collection?", "Its reports and answers are removed for good.", "Delete", async () => { await send("DELETE", context.path); location.hash = "#/"; }, "Deleted") }, "Delete") : null)),
    h("section", { class: "card" }, h("h2", {}, "Who may send, and how many"),
      h("form", { class: "row", onsubmit: save(() => ({ people: people.value ? Number(people.value) : null })) },
        h("label", { class: "field" }, h("span", {}, "Reports of a round, at most"), people), h("button", {}, "Save")),
      h("form", { class: "row", onsubmit: save(() => ({ origins: pages.origins })) }, pages, h("button", { "aria-label": "Save origins" }, "Save"))),
    h("section", { class: "card" }, h("h2", {}, "Tokens of this collection"), tokens(context.name)));
  return { element };
}
