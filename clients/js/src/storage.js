/**
 * Where the ledger is kept. A storage has two methods:
 *
 * - `read()`: the stored document, or null.
 * - `update(change)`: reads the document, passes it to `change`, and stores what `change` returns, all in
 *   one transaction. It resolves when that is durable. If `change` throws, nothing is stored.
 */
import { refuse } from "./errors.js";

const STORE = "ledger";

/** The browser's IndexedDB: shared by all tabs of one origin, kept across visits. */
export function indexedDBStorage() {
  let opened;
  const open = () =>
    (opened ??= new Promise((resolve, reject) => {
      const request = indexedDB.open("keyveil", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      request.onsuccess = () => {
        const { result } = request;
        // another tab deletes the site's data, or the browser does: open it anew next time
        result.onversionchange = result.onclose = () => {
          result.close();
          opened = null;
        };
        resolve(result);
      };
      request.onerror = reject;
    }));

  const transact = async (mode, change) => {
    let failure;
    try {
      const database = await open();
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
      if (failure) throw failure;
      opened = null;
      return refuse("this browser cannot keep the ledger", "storage");
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
