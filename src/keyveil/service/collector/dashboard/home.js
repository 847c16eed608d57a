/** Collections at a glance; an admin makes new ones and tokens here. */

import { collection, get, send } from "./api.js";
import { choice, epsilon, h, originsField, put, whole } from "./dom.js";
import { address } from "./place.js";
import { tokens } from "./tokens.js";

const EVERY = 2000;
/** Milliseconds after which health is computed again if reports have arrived. */
const CHECK_AGAIN = 60000;

export function home(session) {
  const cards = h("div", { class: "cards" });
  const problem = h("div", { role: "alert" });
  const admin = session.role === "admin";
  const known = new Map();
  let timer = 0, left = false;
  const element = h("div", {}, h("div", { class: "head" }, h("h1", {}, "Collections"), admin ? h("button", { type: "button", class: "primary", onclick: () => creation(load) }, "New collection") : null), problem, cards,
    admin ? h("section", { class: "card" }, h("h2", {}, "Tokens"), tokens()) : null);

  async function load() {
    try {
      const { collections } = await get("/v1/overview");
      put(problem);
      if (left) return;
      show(collections);
    } catch (error) {
      if (error.status === 401) return;
      put(problem, h("p", { class: "problem" }, error.message));
    }
    clearTimeout(timer);
    if (!left) timer = setTimeout(load, EVERY);
  }

  function show(rows) {
    const names = new Set(rows.map((row) => row.name));
    for (const [name, card] of known) if (!names.has(name)) { card.element.remove(); known.delete(name); }
    for (const row of rows) {
      if (!known.has(row.name)) { const made = card(row.name); known.set(row.name, made); cards.append(made.element); }
      known.get(row.name).show(row);
    }
    if (!rows.length) put(cards, h("p", { class: "muted" }, admin ? "There is no collection yet. Make a plan with keyveil plan, then a collection here." : "There is no collection yet."));
    else cards.querySelector(":scope > p")?.remove();
    check(rows);
  }

  /** Health is computed one collection after the other: it is the heaviest figure here. */
  let checking = false;
  async function check(rows) {
    if (checking) return;
    checking = true;
    for (const row of rows) {
      const made = known.get(row.name);
      if (left || !made || !row.reports || made.checked === row.reports || performance.now() < made.again) continue;
      made.checked = row.reports;
      try { made.health((await get(`${collection(row.name)}/checks`)).suspicious ? "suspicious" : "fine"); } catch { made.health("not checked"); }
      made.again = performance.now() + CHECK_AGAIN;
    }
    checking = false;
  }

  load();
  return { element, leave: () => { left = true; clearTimeout(timer); } };
}

/** The card of a collection. */
function card(name) {
  const state = h("span", { class: "badge" }), health = h("dd", {}, "checking");
  const cells = Object.fromEntries(["Reports", "Rate", "Epsilon promised", "Epsilon proven", "Keys", "Mechanism", "Refused"].map((title) => [title, h("dd", { class: title === "Reports" ? "big" : "" })]));
  const samples = [];
  const element = h("article", { class: "card", "data-collection": name }, h("div", { class: "row between" }, h("h2", {}, h("a", { href: address(["c", name, "answers"]) }, name)), state),
    h("dl", { class: "facts" }, Object.entries(cells).map(([title, cell]) => h("div", {}, h("dt", {}, title), cell)), h("div", {}, h("dt", {}, "Health"), health)));
  return {
    element, checked: 0, again: 0,
    health: (verdict) => put(health, h("span", { class: `badge ${verdict}` }, verdict)),
    show(row) {
      state.className = `badge ${row.state}`;
      state.textContent = row.state.replace("_", " ");
      samples.push([performance.now(), row.reports]);
      if (samples.length > 15) samples.shift();
      const [[then, before], [now, reports]] = [samples[0], samples.at(-1)];
      cells.Reports.textContent = whole(row.reports) + (row.people ? ` of ${whole(row.people)}` : "");
      cells.Rate.textContent = samples.length < 2 ? "…" : rate((reports - before) / ((now - then) / 1000));
      cells["Epsilon promised"].textContent = epsilon(row.promised);
      cells["Epsilon proven"].textContent = epsilon(row.proven);
      cells.Keys.textContent = whole(row.keys);
      cells.Mechanism.textContent = row.mechanism;
      cells.Refused.textContent = whole(row.refused);
      if (!row.reports) health.textContent = "no reports";
    },
  };
}

export function rate(perSecond) {
  if (perSecond <= 0) return "none now";
  if (perSecond >= 10) return `${whole(perSecond)} a second`;
  return perSecond >= 1 ? `${perSecond.toFixed(1)} a second` : `${Math.max(1, Math.round(60 * perSecond))} a minute`;
}

/** The form of a new collection. */
function creation(done) {
  let state = "open";
  const name = h("input", { required: true, pattern: "[a-z0-9]([a-z0-9\\-]*[a-z0-9])?", maxlength: 64, placeholder: "menu" });
  const file = h("input", { type: "file", accept: ".json,application/json", required: true });
  const people = h("input", { type: "number", min: 1, placeholder: "no limit" });
  const pages = originsField();
  const problem = h("div", { role: "alert" });
  const buttons = h("div", { class: "row end" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { class: "primary" }, "Create"));
  const form = h("form", { class: "form", onsubmit: create }, h("h2", { id: "new" }, "New collection"), problem,
    h("label", { class: "field" }, h("span", {}, "Name: small letters, digits, hyphens"), name),
    h("label", { class: "field" }, h("span", {}, "Plan, as keyveil plan writes it"), file),
    h("label", { class: "field" }, h("span", {}, "Reports of a round, at most"), people),
    pages,
    choice("Begin", [["open", "open"], ["paused", "paused"]], state, (chosen) => { state = chosen; }), buttons);
  const dialog = h("dialog", { "aria-labelledby": "new" }, form);

  async function create(event) {
    event.preventDefault();
    try {
      let plan;
      try { plan = JSON.parse(await file.files[0].text()); } catch { throw new Error("The file is no plan: it is not JSON."); }
      const made = await send("POST", "/v1/collections", { name: name.value, plan, state, terms: { origins: pages.origins, ...(people.value && { people: Number(people.value) }) } });
      done();
      if (!made.warnings.length) return dialog.close();
      put(problem, made.warnings.map((words) => h("p", { class: "warning" }, words)));
      put(buttons, h("button", { type: "button", class: "primary", onclick: () => dialog.close() }, "Done"));
    } catch (error) { put(problem, h("p", { class: "problem" }, error.message)); }
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
