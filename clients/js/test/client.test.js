/** What the client promises, against a collector that is honest, slow or hostile. */
import assert from "node:assert/strict";
import test from "node:test";

import { BudgetError, Client, ClientError, memoryStorage, PlanError } from "../src/index.js";
import { Desk, NOW, planOf, QUICK, sealed, SECONDS } from "./desk.js";

const URL_ = "https://collector.example";
const KVUE = planOf("kvue");
const RECORD = { Fries: 3, Pepsi: 5 };

function device(desk, options = {}) {
  const storage = options.storage ?? memoryStorage();
  return new Client(URL_, { cap: 4, storage, fetch: desk.fetch, ...QUICK, ...options });
}

/** A record that fails the test if it is read. */
const untouched = () => assert.fail("the record was read");

test("a device answers once; the first report, its id and its epoch stand", async () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  const first = await device(desk, { storage }).answer("menu", RECORD);
  assert.equal(first.state, "counted");
  assert.equal(first.epsilon, KVUE.epsilon.proven);
  const again = await device(desk, { storage }).answer("menu", { Salad: 1 });
  assert.equal(again.counted, true);
  assert.equal(desk.reports.length, 1);
  const [{ plan, epoch, reports }] = desk.reports;
  assert.deepEqual(Object.keys(desk.reports[0]), ["plan", "epoch", "reports"]);
  assert.equal(plan, KVUE.hash);
  assert.equal(epoch, Math.floor(NOW / SECONDS));
  assert.match(reports[0].id, /^[0-9a-f]{32}$/);
  assert.deepEqual(Object.keys(reports[0]), ["id", "cells"]);
});

test("every request is the same for everyone, without cookies, referrer or cache", async () => {
  const desk = new Desk(KVUE);
  await device(desk).answer("menu", RECORD);
  for (const { credentials, cache, redirect, referrerPolicy } of desk.requests) {
    assert.deepEqual(
      [credentials, cache, redirect, referrerPolicy],
      ["omit", "no-store", "error", "no-referrer"],
    );
  }
  assert.deepEqual(
    desk.requests.map(({ method = "GET" }) => method),
    ["GET", "GET", "POST"],
  );
});

test("a report waits until it is acknowledged, and keeps its id and cells", async () => {
  const desk = new Desk(KVUE);
  desk.next = [
    "down",
    503,
    429,
    new Response("<html>log in</html>"),
    Response.json({ accepted: 0, failed: [] }),
  ];
  const storage = memoryStorage();
  const waiting = await device(desk, { storage }).answer("menu", RECORD);
  assert.equal(waiting.state, "waiting");
  const later = device(desk, { storage, clock: () => QUICK.clock() + 3600 });
  const [outcome] = await later.flush();
  assert.equal(outcome.state, "counted");
  assert.equal(new Set(desk.reports.map((body) => JSON.stringify(body))).size, 1);
  assert.equal(desk.counted.size, 1);
  assert.deepEqual(await later.flush(), []);
});

test("a collector's own refusal drops a report or keeps it, and its cost stays", async () => {
  for (const [reason, status, state] of [
    ["closed_epoch", 410, "dropped"],
    ["full", 409, "dropped"],
    ["token", 401, "refused"],
    ["rate", 429, "waiting"],
  ]) {
    const desk = new Desk(KVUE);
    desk.next = Array.from({ length: 4 }, () => Response.json({ reason }, { status }));
    const client = device(desk);
    assert.equal((await client.answer("menu", RECORD)).state, state);
    assert.equal((await client.budget()).spent, KVUE.epsilon.proven);
  }
});

test("a relay that holds a report is asked again later", async () => {
  const desk = new Desk(KVUE);
  desk.next = [Response.json({ accepted: 0, failed: [], held: 1 }, { status: 202 })];
  assert.equal((await device(desk).answer("menu", RECORD)).state, "held");
});

test("a hostile collector is refused before the record is read, and nothing is spent", async () => {
  const [channel] = KVUE.channels;
  const text = JSON.stringify(KVUE);
  const hostile = {
    "a false hash": { plan: { ...KVUE, hash: "0".repeat(64) } },
    "a plan other than the named one": { about: { plan: planOf("rr").hash } },
    "an epsilon that the integers do not keep": {
      plan: await sealed(KVUE, { epsilon: { promised: "0.1", proven: "0.1" } }),
    },
    "malformed integers": { plan: await sealed(KVUE, { channels: [{ ...channel, keep: 2 ** 31 }] }) },
    "a plan of more than 16 MiB": { text: `${text}${" ".repeat(2 ** 24)}` },
    "an answer that never ends": { about: { padding: "x".repeat(2 ** 19) } },
    "a collection that is closed": { about: { state: "closed" } },
    "a collection that is full": { about: { state: "full" } },
    "a token that the device lacks": { about: { token: true } },
    "epochs that tell devices apart": {
      about: { epoch: { seconds: 86_399, now: Math.floor(NOW / 86_399) } },
    },
    "an epoch that tells devices apart": { about: { epoch: { now: 77 } } },
    "no collector at all": { about: { plan: "menu" } },
  };
  for (const [what, { plan = KVUE, about = {}, text: sent }] of Object.entries(hostile)) {
    const desk = new Desk(plan);
    Object.assign(desk, { about, text: sent });
    const client = device(desk);
    await assert.rejects(client.answer("menu", untouched), (error) => {
      assert.ok(error instanceof ClientError || error instanceof PlanError, `${what}: ${error}`);
      return true;
    });
    assert.equal((await client.budget()).spent, "0", what);
    assert.deepEqual(desk.reports, [], what);
  }
});

test("an epsilon above the page's limit is refused before the record is read", async () => {
  const desk = new Desk(KVUE);
  await assert.rejects(device(desk, { allow: "0.9" }).answer("menu", untouched), /0\.9 is allowed/);
  await assert.rejects(device(desk, { cap: 0.5 }).answer("menu", untouched), BudgetError);
  await assert.rejects(
    device(desk).answer("menu", untouched, { plan: "0".repeat(64) }),
    /not the expected/,
  );
  assert.deepEqual(desk.reports, []);
});

test("a plan that is renamed or changed a little is not answered again, or is charged and capped", async () => {
  const storage = memoryStorage();
  await device(new Desk(KVUE), { storage }).answer("menu", RECORD);
  // the same plan in another collection
  await assert.rejects(
    device(new Desk(KVUE), { storage }).answer("other", untouched),
    /another collection/,
  );
  // the same collection with a changed plan
  const changed = await sealed(KVUE, { mechanism: { ...KVUE.mechanism, name: "kvue2" } });
  await assert.rejects(device(new Desk(changed), { storage }).answer("menu", untouched), /answers once/);
  // changed plans in new collections: each is charged, until the cap is reached
  for (let number = 1; ; number++) {
    const renamed = await sealed(KVUE, { mechanism: { ...KVUE.mechanism, name: `kvue${number}` } });
    const client = device(new Desk(renamed), { storage });
    if (number <= 3) {
      await client.answer(`menu${number}`, RECORD);
      continue;
    }
    await assert.rejects(client.answer(`menu${number}`, untouched), /cap is left/);
    const { spent, left } = await client.budget();
    assert.ok(Number(spent) <= 4 && Number(left) >= 0);
    assert.equal((await client.answers()).length, 4);
    break;
  }
});

test("a later round follows the first, within its total", async () => {
  const base = planOf("privkvm_round_2");
  const first = await sealed(base, { chain: { ...base.chain, round: 1, parent: "" } });
  const followed = (plan, changes = {}) =>
    sealed(plan, {
      ...changes,
      chain: { ...plan.chain, round: plan.chain.round + 1, parent: plan.hash },
    });
  const storage = memoryStorage();
  const answer = (plan, record, options = {}) =>
    device(new Desk(plan), { storage, ...options }).answer("menu", record);
  const fresh = () => ({ storage: memoryStorage() });
  await assert.rejects(answer(first, untouched, { ...fresh(), cap: "0.1" }), /of the cap is left/);
  await assert.rejects(answer(first, untouched, { ...fresh(), allow: "0.7" }), /all rounds/);
  await answer(first, RECORD, { allow: first.chain.total });
  const next = await followed(first);
  const stranger = await sealed(next, { chain: { ...next.chain, parent: "a".repeat(64) } });
  await assert.rejects(answer(stranger, untouched), /answers once/);
  const renamed = await sealed(next, { mechanism: { ...next.mechanism, name: "other" } });
  await assert.rejects(answer(renamed, untouched), /answers once/);
  const other = await sealed(next, { schema: { ...next.schema, keys: ["Fries", "Pepsi", "Beer"] } });
  await assert.rejects(answer(other, untouched), /other keys/);
  await answer(next, RECORD);
  let plan = next;
  const refusal = (async () => {
    // later plans may state what they like
    for (let round = 3; round < 40; round++) {
      const later = await followed(plan);
      plan = await sealed(later, { chain: { ...later.chain, total: "20" } });
      await answer(plan, RECORD);
    }
  })();
  await assert.rejects(refusal, /exceeds the total of epsilon 2 /);
  assert.ok(Number((await device(new Desk(first), { storage }).budget()).spent) <= 2);
});

test("recorded words and unknown options are refused", () => {
  const desk = new Desk(KVUE);
  for (const option of ["words", "coins", "random"]) {
    assert.throws(() => device(desk, { [option]: [1, 2, 3] }), new RegExp(`no option '${option}'`));
  }
});

test("what is missing is said in one line", () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  assert.throws(() => new Client(URL_, { cap: 4 }), /no IndexedDB here: pass a storage/);
  assert.throws(() => new Client("http://collector.example", { cap: 4, storage }), /needs https/);
  for (const url of ["collector", "ftp://x", "https://a:b@c.example", "https://c.example/?x=1"]) {
    assert.throws(() => new Client(url, { cap: 4, storage }), /looks like https/);
  }
  assert.throws(() => device(desk, { cap: 0 }), /above zero/);
  assert.throws(() => device(desk, { allow: "much" }), /above zero/);
  assert.throws(() => device(desk, { allowEpoch: 0.5 }), /whole seconds/);
  globalThis.isSecureContext = false;
  try {
    assert.throws(() => device(desk), /^ClientError: this page is not a secure context/);
  } finally {
    delete globalThis.isSecureContext;
  }
});

test("a ledger has one cap, and a damaged one is refused", async () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  await assert.rejects(device(desk, { storage, cap: undefined }).budget(), /needs a cap/);
  await device(desk, { storage }).answer("menu", RECORD);
  await assert.rejects(device(desk, { storage, cap: 5 }).budget(), /another cap/);
  assert.equal((await device(desk, { storage, cap: undefined }).budget()).cap, "4");
  await storage.update(() => ({ format: "something else" }));
  await assert.rejects(device(desk, { storage }).answer("menu", untouched), /cannot be read/);
});

test("no more reports wait than the page allows", async () => {
  const storage = memoryStorage();
  const down = new Desk(KVUE);
  down.next = Array(9).fill("down");
  await device(down, { storage }).answer("menu", RECORD);
  const other = new Desk(planOf("rr"));
  await assert.rejects(
    device(other, { storage, mostWaiting: 1 }).answer("two", untouched),
    /1 reports wait/,
  );
});

test("two tabs at once draw one report, and each says that it is counted", async () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  const patience = { ...QUICK.patience, longest: 2 };
  const tabs = Array.from({ length: 8 }, () =>
    device(desk, { storage, patience }).answer("menu", RECORD),
  );
  const outcomes = await Promise.all(tabs);
  assert.equal(desk.counted.size, 1);
  assert.equal(new Set(desk.reports.map((body) => JSON.stringify(body))).size, 1);
  assert.ok(outcomes.every(({ counted }) => counted));
});

test("the time of the first try does not depend on how long the record took", async () => {
  for (const taken of [0, 40]) {
    const desk = new Desk(KVUE);
    const patience = { ...QUICK.patience, settle: 0.15 };
    const client = device(desk, { patience, clock: () => Date.now() / 1000 });
    desk.about = { epoch: { now: Math.floor(Date.now() / 1000 / SECONDS) } };
    const begun = Date.now();
    await client.answer(
      "menu",
      () => new Promise((resolve) => setTimeout(() => resolve(RECORD), taken)),
    );
    const milliseconds = Date.now() - begun;
    assert.ok(milliseconds >= 149, `${milliseconds}`);
  }
});

test("a report that was sent is not lost if the ledger cannot be written then", async () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  let writes = 0;
  const failing = {
    ...storage,
    update: (change) =>
      ++writes > 2 ? Promise.reject(new ClientError("no room")) : storage.update(change),
  };
  const outcome = await device(desk, { storage: failing }).answer("menu", RECORD);
  assert.deepEqual([outcome.state, outcome.drawn, desk.counted.size], ["waiting", true, 1]);
  const later = device(desk, { storage, clock: () => QUICK.clock() + 60 });
  assert.equal((await later.flush())[0].state, "counted");
  assert.equal(desk.counted.size, 1);
});

test("a page waits for the reports of its own collector alone", async () => {
  const storage = memoryStorage();
  const desk = new Desk(KVUE);
  desk.next = Array(9).fill("down");
  await device(desk, { storage }).answer("menu", RECORD);
  const delays = [];
  const { setTimeout } = globalThis;
  const page = { document: {}, addEventListener() {}, removeEventListener() {} };
  Object.assign(globalThis, page, {
    setTimeout: (act, delay) => (delays.push(delay), setTimeout(act, delay && 1e6).unref()),
  });
  try {
    for (const [url, timers] of [
      ["https://other.example", 1],
      [URL_, 2],
    ]) {
      delays.length = 0;
      const client = new Client(url, { storage, fetch: desk.fetch, ...QUICK });
      await new Promise((resolve) => setTimeout(resolve, 50));
      client.close();
      assert.equal(delays.length, timers, url);
    }
  } finally {
    globalThis.setTimeout = setTimeout;
    for (const name in page) delete globalThis[name];
  }
});

test("limits are numbers or decimal texts", async () => {
  const desk = new Desk(KVUE);
  for (const cap of [4, "4", "4.0", "4.50", 0.25]) {
    assert.equal(Number((await device(desk, { cap }).budget()).cap), Number(cap));
  }
  for (const cap of [0, -1, "1e3", "four", NaN, Infinity, null]) {
    assert.throws(() => device(desk, { cap }), /above zero/, String(cap));
  }
});

test("a person who takes days to agree answers in the epoch of that day", async () => {
  const desk = new Desk(KVUE);
  let days = 0;
  const client = device(desk, { clock: () => QUICK.clock() + days * SECONDS });
  const offer = await client.offer("menu");
  days = 3;
  await client.accept(offer, RECORD);
  assert.equal(desk.reports[0].epoch, Math.floor(NOW / SECONDS) + 3);
});
