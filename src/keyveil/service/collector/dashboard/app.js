/** The dashboard: who is here, where they are, and the page for it. */

import { get, token } from "./api.js";
import { failure, h, put } from "./dom.js";
import { home } from "./home.js";
import { collectionPage } from "./page.js";
import { address, here } from "./place.js";

const main = document.getElementById("main");
const site = document.getElementById("site");
const THEMES = ["auto", "light", "dark"];
let session = null, page = null, shown = "";

function theme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}
theme(localStorage.getItem("keyveil-theme") ?? "auto");
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("keyveil-theme")));

function themeButton() {
  const now = localStorage.getItem("keyveil-theme") ?? "auto";
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Colours: ${now}` , onclick: () => {
    const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
    localStorage.setItem("keyveil-theme", next);
    theme(next);
    bar();
    window.dispatchEvent(new Event("keyveil-theme"));
  } }, `Colours: ${now}`);
  return button;
}

function bar() {
  put(site, session && !session.collection ? h("a", { href: "#/" }, "Collections") : null, h("a", { href: "/api" }, "API"), themeButton(),
    session?.token ? h("button", { type: "button", class: "quiet", onclick: () => { token.drop(); session = null; leave(); begin(); } }, "Log out") : null);
}

function leave() {
  page?.leave?.();
  page = null;
  shown = "";
}

function login(words = "") {
  leave();
  bar();
  document.title = "Log in · keyveil";
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, id: "token" });
  put(main, h("section", { class: "card login" }, h("h1", {}, "Log in"),
    h("p", {}, "With a token of this collector. It stays in this tab until you close it or log out."),
    words ? h("p", { class: "problem", role: "alert" }, words) : null,
    h("form", { class: "form", onsubmit: (event) => { event.preventDefault(); token.set(input.value.trim()); begin(); } },
      h("label", { class: "field" }, h("span", {}, "Token"), input), h("button", { class: "primary" }, "Log in")),
    h("p", { class: "note" }, "An admin makes one: ", h("code", {}, "keyveil token create --role analyst --store STORE"), ", with the collector's store.")));
  input.focus();
}

async function begin() {
  try {
    session = await get("/v1/session");
  } catch (error) {
    session = null;
    bar();
    return put(main, failure(error, begin));
  }
  if (session.role === null) {
    session = null;
    const given = token.get();
    token.drop();
    return login(given ? "This token is unknown or was revoked." : "");
  }
  if (session.role === "ingest") {
    token.drop();
    session = null;
    return login("This token only sends reports. Log in with an analyst's or an admin's.");
  }
  bar();
  route();
}

function route() {
  if (!session) return;
  const { parts } = here();
  const [kind, name, panel] = parts;
  if (kind === "c" && name) {
    if (shown !== name) {
      leave();
      page = collectionPage(session, name, () => { shown = ""; route(); });
      shown = name;
      put(main, page.element);
      page.start(panel);
    } else page.show(panel);
    return;
  }
  if (session.collection) { location.replace(address(["c", session.collection, "answers"])); return; }
  leave();
  document.title = "Collections · keyveil";
  page = home(session);
  put(main, page.element);
}

window.addEventListener("hashchange", () => { if (location.hash !== "#main") route(); });
window.addEventListener("keyveil-login", () => { if (session) { session = null; token.drop(); login("The token is no longer valid."); } });
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
begin();
