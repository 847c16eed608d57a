/** All vectors, byte for byte: the same plan, record and words give the same cells as in Python. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";

import { PlanError, readPlan } from "../src/index.js";
import { recordedCells } from "../testing/recorded.js";

const FOLDER = new URL("../../../vectors/", import.meta.url);
const load = (name) => JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

test("there are vectors", () => assert.ok(FILES.length >= 50));

for (const name of FILES) {
  test(`the vector ${name} replays`, async () => {
    const vector = load(name);
    assert.equal(vector.format, "keyveil/vector/1");
    const plan = await readPlan(vector.plan);
    assert.equal(plan.hash, vector.plan.hash);
    assert.equal(plan.proven, vector.plan.epsilon.proven);
    for (const { record, words, cells } of vector.cases) {
      assert.deepEqual(recordedCells(plan, record, words), cells);
      assert.throws(() => recordedCells(plan, record, words.slice(0, -1)), /words/);
      assert.throws(() => recordedCells(plan, record, [...words, 0]), /words/);
    }
  });
}

const BAD = load("bad/plans.json");
for (const { what, text } of BAD.cases) {
  test(`a bad plan is refused: ${what}`, async () => {
    await assert.rejects(readPlan(text), PlanError);
  });
}

test("a plan of more laws than a function takes arguments is proven", async () => {
  const { canonical, sha256 } = await import("../src/plan.js");
  const { hash, ...plan } = load("kvue.json").plan;
  const keys = Array.from({ length: 17 }, (_, place) => `k${place}`);
  const schema = { keys, ranges: [["0", "1"]], levels: 1 };
  const half = [2 ** 31, 2 ** 31];
  const laws = [half, ...Array(2 ** 17 - 1).fill(half), [3 * 2 ** 30, 2 ** 30]];
  const channels = [{ shape: "symbols", positions: 1, silent: 0, laws }];
  const body = { ...plan, schema, channels, views: { keys: "whole", weights: "even" } };
  const text = (proven) => canonical({ ...body, epsilon: { promised: "1", proven } });
  await assert.rejects(sealed(text("1")), /other than its integers prove/);
  const log2 = "0.69314718055994531";
  assert.equal((await sealed(text(log2))).proven, log2);
  async function sealed(content) {
    return readPlan({ ...JSON.parse(content), hash: await sha256(content) });
  }
});

test("a plan is read from its text, with or without the line feed of a file", async () => {
  const { canonical } = await import("../src/plan.js");
  const text = canonical(load("kvue.json").plan);
  assert.equal((await readPlan(text)).hash, (await readPlan(`${text}\n`)).hash);
  await assert.rejects(readPlan(` ${text}`), PlanError);
  await assert.rejects(readPlan("x".repeat(2 ** 24 + 1)), /16 MiB/);
});

test("names of shapes and encodings that are no texts are refused", async () => {
  const { canonical, sha256 } = await import("../src/plan.js");
  const { hash, ...plan } = load("coco.json").plan;
  const [channel] = plan.channels;
  for (const name of [{ toString: 1 }, ["coco"], 7, "", "constructor", "__proto__"])
    for (const changes of [
      { encode: name },
      { channels: [{ ...channel, shape: name }] },
      { channels: name },
    ]) {
      const body = { ...plan, ...changes };
      await assert.rejects(readPlan({ ...body, hash: await sha256(canonical(body)) }), PlanError);
    }
});

test("what a mechanism is called does not matter", async () => {
  const { canonical, sha256 } = await import("../src/plan.js");
  const { plan, cases } = load("kvue.json");
  const renamed = { ...plan, mechanism: { ...plan.mechanism, name: "made_tomorrow" } };
  delete renamed.hash;
  renamed.hash = await sha256(canonical(renamed));
  const read = await readPlan(renamed);
  for (const { record, words, cells } of cases)
    assert.deepEqual(recordedCells(read, record, words), cells);
});

test("a record that cannot even be read holds nothing", async () => {
  const { plan, cases } = load("kvue.json");
  const read = await readPlan(plan);
  const { words } = cases[0];
  const empty = recordedCells(read, {}, words);
  const thrower = {
    get Fries() {
      throw new Error("no");
    },
  };
  for (const record of [thrower, undefined, () => 1, Symbol("x"), [["Fries"]], new Date()]) {
    assert.deepEqual(recordedCells(read, record, words), empty);
  }
  const full = recordedCells(read, { Fries: 5 }, words);
  assert.deepEqual(recordedCells(read, new Map([["Fries", 5]]), words), full);
  assert.deepEqual(recordedCells(read, { Fries: 10n ** 400n }, words), full);
});
