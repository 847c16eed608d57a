/** The types as a user meets them; compiled, never run. */
import { BudgetError, Client, memoryStorage, readPlan, type Outcome, type Plan } from "keyveil";
import { KeyveilConsent, mostCertain, possibleReports, STRINGS } from "keyveil/consent";
import { fileStorage } from "keyveil/node";
import { recordedCells } from "keyveil/testing";

const client = new Client("https://collector.example", { cap: 4, allow: "1", storage: memoryStorage() });
new Client("https://collector.example", { storage: fileStorage("ledger.json") });
const outcome: Outcome = await client.answer("menu", { Pepsi: 4.5 });
await client.answer("menu", async () => new Map([["Pepsi", 4.5]]), { plan: outcome.plan });
const plan: Plan = await readPlan("{}");
const cells: number[] = recordedCells(plan, [["Pepsi", 4]], [1, 2, 3]);
const notice: KeyveilConsent = document.createElement("keyveil-consent");
notice.client = client;
notice.strings = { title: STRINGS["title"] ?? "" };
console.log(possibleReports(plan, { Pepsi: 4 }, 3)[0]?.keys, mostCertain(plan) < 1);
console.log(cells, outcome.state === "counted", BudgetError);

// @ts-expect-error: recorded words are no option of the client
new Client("https://collector.example", { words: [1, 2, 3] });
// @ts-expect-error: a state that does not exist
console.log(outcome.state === "sent");
