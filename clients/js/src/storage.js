/**
 * Where the ledger is kept. A storage has two methods:
 *
 * - `read()`: the stored document, or null.
 * - `update(change)`: reads the document, passes it to `change`, and stores what `change` returns, all in
 *   one transaction. It resolves when that is durable. If `change` throws, nothing is stored.
 */
import { ClientError } from "./errors.js";

const STORE = "ledger";

/**
 * The browser's IndexedDB: shared by all tabs of one origin, kept across visits. It is open for one
 * transaction at a time, so that it never stands in the way of another tab or of the browser.
 */
export function indexedDBStorage() {
  const transact = async (mode, change) => {
    let failure;
    let database;
    try {
      database = await new Promise((resolve, reject) => {
        const opening = indexedDB.open("keyveil", 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
        opening.onsuccess = () => resolve(opening.result);
        opening.onerror = reject;
      });
      return await new Promise((resolve, reject) => {
        const transaction = database.transaction(STORE, mode, { durability: "strict" });
        const store = transaction.objectStore(STORE);
        const request = store.get(STORE);
        let document;
        request.onsuccess = () => {
          try {
            document = change(request.result ?? null);
            if (mode === "readwrite") store.put(document, STORE);
          } catch (error) {
            failure = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => resolve(document);
        transaction.onabort = reject;
      });
    } catch {
      throw failure ?? new ClientError("this browser cannot keep the ledger", "storage");
    } finally {
      database?.close();
    }
  };

  return {
    read: () => transact("readonly", (document) => document),
    update: (change) => transact("readwrite", change),
  };
}

/** A storage that forgets everything when the page or process ends: for tests. */
export function memoryStorage() {
  let text = "null";
  return {
    read: async () => JSON.parse(text),
    async update(change) {
      text = JSON.stringify(change(JSON.parse(text)));
    },
  };
}
