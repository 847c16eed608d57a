/** A ledger in a file, for Node. Several processes may share it: a lock makes them act as one device. */
import {
  closeSync,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

import { ClientError } from "../src/errors.js";

const TRIES = 500;
/** Milliseconds after which a lock is taken over: its process has ended. */
const STALE = 30_000;

/** A storage for `new Client(url, { storage: fileStorage("ledger.json") })`. */
export function fileStorage(path) {
  if (typeof path !== "string" || !path)
    throw new ClientError('fileStorage needs the path of the ledger, like "ledger.json"');
  const read = () => {
    try {
      return JSON.parse(readFileSync(path, "utf8"));
    } catch (error) {
      if (error.code === "ENOENT") return null;
      throw new ClientError(
        `the ledger ${path} cannot be read; nothing is answered until it is restored`,
        "storage",
      );
    }
  };
  return {
    read: async () => read(),
    async update(change) {
      const lock = await locked(`${path}.lock`);
      const holds = () => isSame(lock, `${path}.lock`);
      try {
        writeWhole(path, JSON.stringify(change(read())), holds);
      } finally {
        if (holds()) unlinkSync(`${path}.lock`);
        closeSync(lock);
      }
    },
  };
}

async function locked(path) {
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return openSync(path, "wx", 0o600);
    } catch (error) {
      if (error.code !== "EEXIST")
        throw new ClientError(
          `the folder of the ledger, ${dirname(resolve(path))}, cannot be written (${error.code})`,
          "storage",
        );
    }
    removeStale(path);
    await pause(10 + Math.random() * 10);
  }
  throw new ClientError("another process holds the ledger; nothing was changed", "storage");
}

/**
 * Remove the lock of a process that has ended. One process at a time may do so: if two looked at the same
 * lock, the second would remove the lock that the first has taken.
 */
function removeStale(path) {
  const isStale = () => Date.now() - statSync(path).mtimeMs > STALE;
  const right = `${path}.old`;
  try {
    if (!isStale()) return;
    closeSync(openSync(right, "wx", 0o600));
  } catch {
    return; // it is gone already, or another process removes it
  }
  try {
    if (isStale()) unlinkSync(path);
  } catch {
    // it is gone already
  } finally {
    unlinkSync(right);
  }
}

/** Whether an open file is still the one at a path. */
function isSame(file, path) {
  try {
    return fstatSync(file).ino === statSync(path).ino;
  } catch {
    return false;
  }
}

/** Replace a file as a whole, durably, readable by its owner alone; not if the lock was lost meanwhile. */
function writeWhole(path, text, holds) {
  const fresh = `${path}.${process.pid}.new`;
  const file = openSync(fresh, "w", 0o600);
  writeSync(file, text);
  fsyncSync(file);
  closeSync(file);
  if (!holds()) {
    unlinkSync(fresh);
    throw new ClientError("this process lost the ledger's lock; nothing was changed", "storage");
  }
  renameSync(fresh, path);
}
