/**
 * What the notice asks: possible reports, the odds and the budget.
 *
 * `say(name, values)` gives a text of the page or the usual one, `number(value, rounding, options)` a number in
 * the person's language.
 */
import { mostCertain, oddsFactor } from "./preview.js";

/** An element with some properties and children. */
export function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

const textOf = (text) => element("p", { part: "text" }, text);

const section = (say, name, values) => [
  element("h3", {}, say(name)),
  textOf(say(`${name}Text`, values)),
];

/** All that the person should know before deciding, around the examples and with three buttons. */
export function questionOf({ plan, budget }, say, number, [lists, note], [again, ...decisions]) {
  const count = plan.keys.length;
  const [{ encode, places }, more] = plan.parts;
  const size = encode === "views" ? places[0].length : count;
  const topic = more ? "Some" : size === count ? "All" : size === 1 ? "One" : "Some";
  return [
    textOf(say("what", { topic: say(`topic${topic}`, { count }) })),
    element("h3", {}, say("examples")),
    lists,
    element("p", {}, note),
    again,
    ...odds(plan, say, number),
    ...costs(plan, budget, say, number),
    element("p", {}, ...decisions),
  ];
}

function odds(plan, say, number) {
  const style = { style: "percent", maximumFractionDigits: 1 };
  return section(say, "odds", {
    factor: number(oddsFactor(plan), "ceil"),
    percent: number(mostCertain(plan), "ceil", style),
  });
}

function costs({ chain, proven }, { cap, left }, say, number) {
  const cost = chain?.total ?? proven;
  const [title, text] = section(say, "budget", {
    cost: number(cost, "ceil"),
    left: number(left, "floor"),
    cap: number(cap, "floor"),
  });
  const ariaLabel = text.textContent;
  const meter = { max: cap, value: cap - left + +cost, part: "meter", ariaLabel };
  return [title, text, element("meter", meter)];
}

/** Put examples in place: lists of possible reports by the names of their titles, and a note. */
export function fillExamples(examples, labels, say, number, [lists, note]) {
  let coded = "";
  const columns = Object.entries(examples).map(([name, reports]) => {
    if (reports.some(({ says }) => !says)) coded = `${say("codeNote")} `;
    const items = reports.map((report) =>
      element("li", { part: "report" }, inWords(report, labels, say, number)),
    );
    return element("div", {}, element("h4", {}, say(name)), element("ul", {}, ...items));
  });
  lists.replaceChildren(...columns);
  note.textContent = coded + say("exampleNote");
}

/** A possible report in words. */
function inWords({ keys, says, cells }, labels, say, number) {
  const names = keys.map((key) => (labels && Object.hasOwn(labels, key) ? labels[key] : key));
  if (!says) {
    const code = cells.slice(1, 13).join(" ") + (cells.length > 13 ? " …" : "");
    const value = say("code", { code });
    return keys.length ? say("held", { key: names.join(", "), value }) : value;
  }
  const words = says.map((said, i) => {
    const value = said === true ? say("yes") : number(said);
    return say(said === null ? "absent" : "held", { key: names[i], value });
  });
  return words.join(", ");
}
