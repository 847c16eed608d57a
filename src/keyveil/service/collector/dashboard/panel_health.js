/** Health of the data: what no honest population could have sent, refusals, epochs. */

import { get } from "./api.js";
import { h, put, whole } from "./dom.js";

export const health = { id: "health", title: "Health", offered: () => true, make };

function make(context) {
  const holder = h("div", {}, h("p", { class: "wait" }, "Computing"));
  const counts = h("div");
  const element = h("div", {}, h("section", { class: "card" }, h("div", { class: "row between" }, h("h2", {}, "Do the reports look honest?"), h("button", { type: "button", onclick: load }, "Check again")), holder), h("section", { class: "card" }, h("h2", {}, "What was counted"), counts));

  async function load() {
    try {
      const status = await get(`${context.path}/status`);
      put(counts, countsOf(status));
      put(holder, findingsOf(await get(`${context.path}/checks`)));
    } catch (error) { put(holder, h("p", { class: "note" }, error.message)); }
  }
  return { element, start: load };
}

function findingsOf(document) {
  return [
    h("p", {}, h("span", { class: `badge ${document.suspicious ? "suspicious" : "fine"}` }, document.suspicious ? "suspicious" : "fine"), ` ${whole(document.reports)} reports. A collection of honest people looks suspicious with a chance of at most ${Number(document.false_alarm.toPrecision(2))}.`),
    grid("Checks", ["Check", "Verdict", "p-value", "What it means"], document.findings.map((finding) => [finding.check, h("span", { class: `badge ${finding.verdict}` }, finding.verdict), finding.p_value === null ? "" : Number(finding.p_value.toPrecision(2)).toString(), finding.meaning + (finding.where.length ? ` Where: ${finding.where.join(", ")}.` : "")])),
  ];
}

function countsOf(status) {
  const rounds = status.rounds.map((round) => [`round ${round.round}`, whole(round.reports), round.closed ? "closed" : "open", `${round.open_epochs.length} open, ${round.sealed_epochs.length} sealed`]);
  const refusals = Object.entries(status.refusals);
  return [grid("Rounds", ["Round", "Reports", "State", "Epochs"], rounds),
    refusals.length ? grid("Refusals", ["Refused because", "Reports"], refusals.map(([reason, number]) => [reason, whole(number)])) : h("p", { class: "note" }, "No report was refused."),
    status.changed ? h("p", { class: "warning" }, `${whole(status.changed)} reports came again with other cells; the first stands.`) : null];
}

export function grid(label, heads, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", { class: cell?.length > 40 ? "words" : undefined }, cell)))))));
}
