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

/** A test of an error's message and code. */
const says = (message, code) => (error) => {
  assert.match(String(error), message);
  assert.equal(error.code, code, String(error));
  return true;
};

test("a call with misspelt or wrong options is refused before the record is read", async () => {
  const desk = new Desk(KVUE);
  const client = device(desk);
  const { hash } = KVUE;
  for (const [call, said] of [
    [() => client.answer("menu", untouched, { plam: hash }), /answer has no option 'plam'; it has plan/],
    [() => client.answer("menu", untouched, { hash }), /answer has no option 'hash'/],
    [() => client.answer("menu", untouched, "abc"), /answer takes options like \{ plan/],
    [() => client.answer("menu", untouched, { plan: "abc" }), /a plan or its hash: 64 hex/],
    [() => client.answer("menu", untouched, { plan: null }), /a plan or its hash: 64 hex/],
    [() => client.answer(undefined, untouched), /name a collection, like 'menu'/],
    [() => client.flush({ refusd: true }), /flush has no option 'refusd'/],
    [() => client.flush({ refused: "yes" }), /must be true or false/],
    [() => client.accept({ plan: hash }, untouched), /accept takes an offer of this client/],
    [() => client.accept(undefined, untouched), /accept takes an offer of this client/],
  ]) {
    await assert.rejects(call, says(said, "option"), String(call));
  }
  assert.deepEqual(desk.requests, []);
  const offer = await device(new Desk(KVUE)).offer("menu");
  const elsewhere = new Client("https://other.example", { cap: 4, storage: memoryStorage(), ...QUICK });
  await assert.rejects(elsewhere.accept(offer, untouched), /an offer of this client/);
});

test("a plan pins as well as its hash", async () => {
  const desk = new Desk(KVUE);
  const other = await device(new Desk(planOf("rr"))).plan("menu");
  await assert.rejects(
    device(desk).answer("menu", untouched, { plan: other }),
    says(/not the expected/, "plan"),
  );
  const own = await device(desk).plan("menu", KVUE.hash);
  assert.equal((await device(desk).answer("menu", RECORD, { plan: own })).state, "counted");
});

test("a collection that cannot be asked is said in one line, without another try", async () => {
  const refusal = (status, reason) => Response.json({ reason }, { status });
  for (const [answer, said, code] of [
    [() => refusal(404, "unknown"), /there is no collection 'menu' here; nothing was sent/, "unknown"],
    [() => refusal(403, "origin"), /does not allow pages of .*--origin of keyveil coll/, "origin"],
    [
      () => new Response("", { status: 404 }),
      /address is not a keyveil collector's: status 404/,
      "collector",
    ],
    [() => refusal(410, "gone"), /the collector refuses: status 410 gone; nothing/, "collector"],
    [() => Response.json({}), /not a keyveil collector's, or the collector has another/, "collector"],
  ]) {
    const desk = new Desk(KVUE);
    desk.answer = answer;
    await assert.rejects(device(desk).answer("menu", untouched), says(said, code));
    assert.equal(desk.requests.length, 1, code);
  }
});

test("why a collection cannot be answered has a code", async () => {
  const fails = (about, said, code, options = {}) => {
    const desk = new Desk(KVUE);
    desk.about = about;
    return assert.rejects(device(desk, options).answer("menu", untouched), says(said, code));
  };
  await fails({ state: "closed" }, /is closed/, "closed");
  await fails({ state: "paused" }, /accepts no answers now/, "paused");
  await fails({ token: true }, /only with a token/, "token");
  const epoch = { seconds: 60, now: Math.floor(NOW / 60) };
  await fails({ epoch }, /3600, 21600, .* are answered, from allowEpoch \(3600\) on/, "epochs");
  await fails({ epoch: { now: 5 } }, /one is wrong/, "clock");
  for (const time of [NOW * 1000, NaN, "now"]) {
    await fails({}, /clock must return seconds, like Date.now\(\) \/ 1000/, "option", {
      clock: () => time,
    });
  }
  await fails({}, /0\.5 of the cap is left/, "spent", { cap: 0.5 });
  const down = new Desk(KVUE);
  down.answer = () => assert.fail("offline");
  await assert.rejects(device(down).answer("menu", untouched), says(/cannot be reached/, "unreachable"));
});

test("a record may be awaited; one that cannot be read sends nothing and spends nothing", async () => {
  const held = async (record) => {
    const client = device(new Desk(KVUE));
    return [await client.check("menu", record), await client.answer("menu", record)];
  };
  for (const record of [Promise.resolve(RECORD), async () => RECORD, () => Promise.resolve(RECORD)]) {
    const [lines, { state }] = await held(record);
    assert.deepEqual([lines, state], [[], "counted"]);
  }
  const desk = new Desk(KVUE);
  const client = device(desk);
  const cause = new Error("no such field");
  const broken = [() => Promise.reject(cause), () => { throw cause; }]; // prettier-ignore
  for (const record of broken) {
    await assert.rejects(client.answer("menu", record), (error) => {
      assert.equal(error.cause, cause);
      return says(/record cannot be read.*nothing was sent/, "page")(error);
    });
  }
  assert.deepEqual(desk.reports, []);
  assert.equal((await client.budget()).spent, "0");
});

test("a developer can ask what is wrong with a record; answering stays silent", async () => {
  const client = device(new Desk(KVUE));
  const plan = await client.plan("menu");
  const [key, other] = plan.keys;
  for (const [record, lines] of [
    [{ [key]: 4, [other]: 1.5 }, []],
    [
      { [key.toLowerCase()]: 4 },
      [`key '${key.toLowerCase()}' is not in the plan; did you mean '${key}'?`],
    ],
    [{ [`${key}s`]: 4 }, [`key '${key}s' is not in the plan; did you mean '${key}'?`]],
    [{ Zabaglione: 4 }, ["key 'Zabaglione' is not in the plan"]],
    [{ [key]: "4" }, [`key '${key}': a value is not a number`]],
    [{ [key]: NaN }, [`key '${key}': a value is NaN or infinite`]],
    [{ [key]: 1e9 }, [`key '${key}': a value lies outside the range of its key`]],
    [new Map([[key, -1e9]]), [`key '${key}': a value lies outside the range of its key`]],
    [[[key, 4], [key, 4]], [`key '${key}': appears twice; a record has each key at most once`]], // prettier-ignore
    ...["text", undefined, null, 4, [4]].map((record) => [
      record,
      ["a record is an object like { name: number }, a Map, or a list of pairs"],
    ]),
  ]) {
    assert.deepEqual(await plan.check(record), lines);
    assert.deepEqual(await client.check("menu", record), lines);
    assert.deepEqual(await client.check(plan, record), lines);
    const { state } = await device(new Desk(KVUE)).answer("menu", record);
    assert.equal(state, "counted");
  }
  assert.match((await plan.check(Promise.resolve(RECORD)))[0], /a record is an object/);
});

test("who waits for a report learns what became of it", async () => {
  const desk = new Desk(KVUE);
  const storage = memoryStorage();
  desk.next = Array(9).fill("down");
  const client = device(desk, { storage });
  const outcomes = [];
  client.addEventListener("outcome", ({ detail }) => outcomes.push(detail.state));
  assert.equal((await client.answer("menu", RECORD)).state, "waiting");
  assert.deepEqual(outcomes, []);
  desk.next = [];
  await new Promise((resolve) => setTimeout(resolve, 20));
  const again = device(desk, { storage, clock: () => QUICK.clock() + 60 });
  again.addEventListener("outcome", ({ detail }) => outcomes.push(detail.state));
  await again.flush();
  assert.deepEqual(outcomes, ["counted"]);
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
  const begins = /begins with https:\/\/ \(http:\/\/ only on this machine\)/;
  for (const [url, said] of [
    ["http://collector.example", /needs https/],
    ["collector", begins],
    ["localhost:8750", begins],
    ["ftp://x", begins],
    [undefined, begins],
    ["https://c.example/?x=1", /leave out \? or # and what follows/],
    ["https://c.example/#menu", /leave out \? or # and what follows/],
    ["https://a:b@c.example", /no name or password; pass a token/],
  ]) {
    assert.throws(() => new Client(url, { cap: 4, storage }), says(said, "address"), url);
  }
  for (const [option, value, said] of [
    ["cap", 0, /option cap of the client must be a number above zero/],
    ["cap", 1e-7, /without an exponent, like 4 or "0.5"/],
    ["cap", 1e21, /without an exponent/],
    ["allow", "much", /option allow of the client must be a number above zero/],
    ["allowEpoch", 0.5, /whole seconds/],
    ["mostWaiting", 0, /mostWaiting of the client must be a whole number, 1 or more/],
    ["clock", 3, /the option clock of the client must be a function/],
    ["fetch", 3, /the option fetch of the client must be a function/],
    ["storage", "ledger.json", /must be a storage, like .* fileStorage\("ledger.json"\)/],
    ["storage", memoryStorage, /must be a storage/],
    ["token", "two words", /the option token of the client must be one word/],
    ["patience", { attemps: 2 }, /patience has no option 'attemps'; it has attempts, /],
    ["patience", { attempts: 0 }, /option attempts of patience must be a whole number, 1 or more/],
    ["patience", { settle: "1" }, /option settle of patience must be a number, 0 or more/],
    ["patience", 4, /patience takes options like \{ attempts/],
  ]) {
    assert.throws(() => device(desk, { [option]: value }), says(said, "option"), `${option} ${value}`);
  }
  assert.throws(() => new Client(URL_, "cap"), /the client takes options like \{ cap/);
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
  await assert.rejects(
    device(desk, { storage, cap: undefined }).budget(),
    says(/needs a cap: pass the option cap the first/, "cap"),
  );
  await device(desk, { storage }).answer("menu", RECORD);
  await assert.rejects(
    device(desk, { storage, cap: 5 }).budget(),
    says(/has the cap 4, not 5; it is set once, so leave the option cap out/, "cap"),
  );
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
