/** The types as a user meets them; compiled, never run. */
import {
  BudgetError,
  Client,
  memoryStorage,
  readPlan,
  type ErrorCode,
  type Outcome,
  type PersonRecord,
  type Plan,
} from "keyveil";
import { KeyveilConsent, mostCertain, possibleReports, STRINGS } from "keyveil/consent";
import { TROUBLES } from "keyveil/troubles";
import { fileStorage } from "keyveil/node";
import { recordedCells } from "keyveil/testing";

const client = new Client("https://collector.example", { cap: 4, allow: "1", storage: memoryStorage() });
new Client("https://collector.example", { storage: fileStorage("ledger.json") });
const outcome: Outcome = await client.answer("menu", { Pepsi: 4.5 });
await client.answer("menu", async () => new Map([["Pepsi", 4.5]]), { plan: outcome.plan });
interface Rating {
  Pepsi: number;
}
const rating: Rating = { Pepsi: 4 };
await client.answer("menu", rating);
await client.answer("menu", Promise.resolve(rating));
const plan: Plan = await readPlan("{}");
await client.answer("menu", () => rating, { plan });
const typed: Record<string, number> = { Pepsi: 4 };
const record: PersonRecord = typed;
const lines: string[] = [...(await plan.check(record)), ...(await client.check("menu", rating))];

const cells: number[] = recordedCells(plan, [["Pepsi", 4]], [1, 2, 3]);
const notice: KeyveilConsent = document.createElement("keyveil-consent");
notice.client = client;
notice.strings = { ...TROUBLES, title: STRINGS.title, topicSome: ({ count }) => `${count} Fragen` };
notice.labels = { Pepsi: "Cola" };
notice.record = () => rating;
notice.addEventListener("keyveil-answer", ({ detail }) => console.log(detail.counted, lines));
document.addEventListener("keyveil-outcome", ({ detail }) => console.log(detail.state));
notice.addEventListener("keyveil-error", ({ detail }) => console.log(detail.code === "clock"));
client.addEventListener("outcome", ({ detail }) => console.log(detail.state));
const code: ErrorCode = new BudgetError("").code;
console.log(code === "spent");
console.log(possibleReports(plan, { Pepsi: 4 }, 3)[0]?.keys, mostCertain(plan) < 1);
console.log(cells, outcome.state === "counted", BudgetError);

// @ts-expect-error: recorded words are no option of the client
new Client("https://collector.example", { words: [1, 2, 3] });
// @ts-expect-error: a text that the notice does not have
notice.strings = { titel: "" };
// @ts-expect-error: a text is no record
await client.answer("menu", "Pepsi");
// @ts-expect-error: a misspelt option
await client.answer("menu", rating, { plam: plan });
// @ts-expect-error: a state that does not exist
console.log(outcome.state === "sent");
