/** A survey whose answers stay on the device. README.md beside it says how to run it. */
import { Client } from "./keyveil/index.js";
import "./keyveil/consent.js";

const FOODS = ["Hamburger", "Fries", "Pepsi", "Salad", "Tea"];
const setting = (name) =>
  document.querySelector(`meta[name=keyveil-${name}]`).content;
const client = new Client(setting("collector"), { cap: 4, allow: 2 });
const form = document.querySelector("#survey");

for (const food of FOODS) {
  const row = document.createElement("div");
  row.className = "food";
  const held = Object.assign(document.createElement("input"), {
    type: "checkbox",
    name: food,
  });
  const label = document.createElement("label");
  label.append(held, ` ${food}`);
  const rating = Object.assign(document.createElement("input"), {
    type: "range",
    min: 1,
    max: 5,
    step: 0.5,
  });
  rating.name = `rating of ${food}`;
  rating.value = 3;
  rating.setAttribute("aria-label", `Rating of ${food}`);
  row.append(label, rating);
  document.querySelector("#foods").append(row);
}

/** The record as it is now: the foods that are ticked, with their ratings. */
function record() {
  const ticked = FOODS.filter((food) => form.elements[food].checked);
  return Object.fromEntries(
    ticked.map((food) => [
      food,
      Number(form.elements[`rating of ${food}`].value),
    ]),
  );
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const notice = document.createElement("keyveil-consent");
  Object.assign(notice, { client, collection: setting("collection"), record });
  document.querySelector("#notice").replaceChildren(notice);
});
