/** The ledger in a file: kept across processes, replaced as a whole, shared with a lock. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, statSync, unlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { fileStorage } from "../node/file_storage.js";
import { Client } from "../src/index.js";
import { Desk, planOf, QUICK } from "./desk.js";

const folder = () => mkdtempSync(join(tmpdir(), "keyveil-"));

test("a device in Node answers once across restarts", async () => {
  const [path, desk] = [join(folder(), "ledger.json"), new Desk(planOf("kvue"))];
  const device = () =>
    new Client("http://127.0.0.1:1", {
      cap: 4,
      storage: fileStorage(path),
      fetch: desk.fetch,
      ...QUICK,
    });
  assert.equal((await device().answer("menu", { Pepsi: 4 })).state, "counted");
  assert.equal((await device().answer("menu", { Fries: 1 })).state, "counted");
  assert.equal(desk.reports.length, 1);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test("a ledger that has no place is said in one line", async () => {
  for (const path of [undefined, ""]) assert.throws(() => fileStorage(path), /needs the path/);
  const missing = join(folder(), "missing");
  await assert.rejects(
    fileStorage(join(missing, "ledger.json")).update(() => ({})),
    (error) => {
      assert.ok(error.message.includes(`${missing}, cannot be written (ENOENT)`), error.message);
      return error.code === "storage";
    },
  );
});

test("the notice can be imported where there is no page", async () => {
  assert.ok((await import("../src/consent.js")).STRINGS.title);
});

test("many changes at once are all kept", async () => {
  const path = join(folder(), "ledger.json");
  const add = () => fileStorage(path).update((document) => ({ count: (document?.count ?? 0) + 1 }));
  await Promise.all(Array.from({ length: 40 }, add));
  assert.deepEqual(await fileStorage(path).read(), { count: 40 });
});

test("a change that throws changes nothing and leaves no lock", async () => {
  const home = folder();
  const storage = fileStorage(join(home, "ledger.json"));
  await storage.update(() => ({ count: 1 }));
  const broken = () => {
    throw new Error("no");
  };
  await assert.rejects(storage.update(broken), /no/);
  assert.deepEqual(await storage.read(), { count: 1 });
  assert.deepEqual(readdirSync(home), ["ledger.json"]);
  writeFileSync(join(home, "ledger.json"), "{");
  await assert.rejects(storage.read(), /cannot be read/);
});

test("the lock of a process that has ended is taken over by one process at a time", async () => {
  const home = folder();
  const path = join(home, "ledger.json");
  const add = () => fileStorage(path).update((document) => ({ count: (document?.count ?? 0) + 1 }));
  const left = (name) => {
    writeFileSync(join(home, name), "");
    utimesSync(join(home, name), 1, 1);
  };
  left("ledger.json.lock");
  await Promise.all(Array.from({ length: 20 }, add));
  assert.deepEqual(await fileStorage(path).read(), { count: 20 });
  assert.deepEqual(readdirSync(home), ["ledger.json"]);
});

test("a process whose lock was taken over changes nothing", async () => {
  const home = folder();
  const path = join(home, "ledger.json");
  const taken = () => {
    // the process slept for long: another removed its lock and took its own
    unlinkSync(`${path}.lock`);
    writeFileSync(`${path}.lock`, "");
    return { count: 1 };
  };
  await assert.rejects(fileStorage(path).update(taken), /lost the ledger's lock/);
  assert.equal(await fileStorage(path).read(), null);
  assert.ok(readdirSync(home).includes("ledger.json.lock"));
});
