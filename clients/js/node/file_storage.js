/** A ledger in a file, for Node. Several processes may share it: a lock makes them act as one device. */
import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { ClientError } from "../src/errors.js";

const TRIES = 500;
/** Milliseconds after which a lock is taken over: its process has ended. */
const STALE = 30_000;

/** A storage for `new Client(url, { storage: fileStorage("ledger.json") })`. */
export function fileStorage(path) {
  const read = () => {
    try {
      return JSON.parse(readFileSync(path, "utf8"));
    } catch (error) {
      if (error.code === "ENOENT") return null;
      throw new ClientError("the ledger cannot be read; nothing is answered until it is restored");
    }
  };
  return {
    read: async () => read(),
    async update(change) {
      const lock = await locked(`${path}.lock`);
      try {
        writeWhole(path, JSON.stringify(change(read())));
      } finally {
        closeSync(lock);
        unlinkSync(`${path}.lock`);
      }
    },
  };
}

async function locked(path) {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return openSync(path, "wx", 0o600);
    } catch (error) {
      if (error.code !== "EEXIST") throw new ClientError("the folder of the ledger cannot be written");
    }
    removeStale(path);
    await pause(10 + Math.random() * 10);
  }
  throw new ClientError("another process holds the ledger; nothing was changed");
}

function removeStale(path) {
  try {
    if (Date.now() - statSync(path).mtimeMs > STALE) unlinkSync(path);
  } catch {
    // it is gone already
  }
}

/** Replace a file as a whole, durably, readable by its owner alone. */
function writeWhole(path, text) {
  const fresh = `${path}.new`;
  const file = openSync(fresh, "w", 0o600);
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  renameSync(fresh, path);
}
