/** A page that asks visitors. The record stays here; the client draws and sends one report. */

import { Client } from "/client/index.js";
import "/client/consent.js";

const COLLECTION = "menu";
const client = new Client(location.origin, { cap: "4", allow: "2" });
const form = document.getElementById("survey");
const notice = document.getElementById("notice");

function made(tag, properties, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** A food: whether it is ordered, and its rating. */
function row(food, place) {
  const held = made("input", { type: "checkbox", name: `held ${place}` });
  const rating = made("input", { type: "range", min: 1, max: 5, step: 0.5, value: 3, name: `rating ${place}` });
  rating.setAttribute("aria-label", `Rating of ${food}`);
  const said = made("span", { className: "rating", ariaHidden: "true" });
  const show = () => {
    rating.disabled = !held.checked;
    said.textContent = held.checked ? Number(rating.value).toFixed(1) : "";
  };
  held.addEventListener("change", show);
  rating.addEventListener("input", show);
  show();
  return made("div", { className: "row between" }, made("label", {}, held, ` ${food}`), made("div", { className: "row" }, rating, said));
}

const plan = await client.plan(COLLECTION);
document.getElementById("foods").append(...plan.keys.map(row));

/** The record as it is now. */
function record() {
  const { elements } = form;
  const held = plan.keys.map((food, place) => [food, place]).filter(([, place]) => elements[`held ${place}`].checked);
  return Object.fromEntries(held.map(([food, place]) => [food, Number(elements[`rating ${place}`].value)]));
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const asked = Object.assign(document.createElement("keyveil-consent"), { client, collection: COLLECTION, record });
  notice.replaceChildren(asked);
  notice.scrollIntoView({ behavior: "smooth" });
});
