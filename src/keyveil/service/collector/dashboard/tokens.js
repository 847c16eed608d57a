/** Tokens for an admin: list, make, revoke. A new one's text is shown once. */

import { get, send } from "./api.js";
import { choice, confirmed, copier, h, put } from "./dom.js";
import { grid } from "./panel_health.js";

const ROLES = [["analyst", "analyst: reads answers"], ["ingest", "ingest: sends reports"], ["admin", "admin: everything"]];

/** The tokens of a collection, or all of them. */
export function tokens(name = null) {
  let role = "analyst";
  const label = h("input", { maxlength: 100, placeholder: "what it is for" });
  const listing = h("div"), problem = h("div", { role: "alert" });
  const roles = name === null ? ROLES : ROLES.filter(([each]) => each !== "admin");
  const form = h("form", { class: "row", onsubmit: make }, choice("Role", roles, role, (chosen) => { role = chosen; }), h("label", { class: "field" }, h("span", {}, "Label"), label), h("button", {}, "Make a token"));
  const element = h("div", {}, form, problem, listing);

  async function attempt(work) {
    try { put(problem); await work(); await load(); } catch (error) { put(problem, h("p", { class: "problem" }, error.message)); }
  }

  function make(event) {
    event.preventDefault();
    attempt(async () => shown(await send("POST", "/v1/tokens", { role, collection: role === "admin" ? null : name, label: label.value })));
  }

  async function load() {
    const { tokens: rows } = await get("/v1/tokens");
    const mine = rows.filter((row) => !row.revoked && (name === null || row.collection === name));
    put(listing, mine.length ? grid("Tokens", ["Id", "Role", "Collection", "Label", ""], mine.map((row) => [h("code", {}, row.id), row.role, row.collection ?? "all", row.label,
      h("button", { type: "button", class: "danger", "aria-label": `Revoke ${row.id}`, onclick: async () => { if (await confirmed("Revoke this token?", "It stops working at once.", "Revoke")) attempt(() => send("DELETE", `/v1/tokens/${row.id}`)); } }, "Revoke")])) : h("p", { class: "note" }, name === null ? "No token exists, so only this machine can connect, with full access." : "No token is for this collection alone."));
  }

  attempt(async () => {});
  return element;
}

/** The text of a new token, once. */
function shown({ text }) {
  const code = h("code", { "data-role": "token" }, text);
  const dialog = h("dialog", { "aria-labelledby": "made" }, h("h2", { id: "made" }, "The new token"),
    h("p", {}, "Copy it now: only its hash is stored, and it is never shown again."), h("p", { class: "secret" }, code),
    h("div", { class: "row end" }, copier(code), h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Done")));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
