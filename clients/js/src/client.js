/** The client: a device that answers each collection once and sends its report until it is counted. */
import { EPOCHS, MOST_EPOCH, ownEpoch } from "./epochs.js";
import { ClientError, PlanError } from "./errors.js";
import {
  addAnswer,
  answerTo,
  budgetOf,
  checkCost,
  checkedLimit,
  markAnswer,
  openLedger,
  WAITING,
} from "./ledger.js";
import { chance, Patience, pause } from "./patience.js";
import { isHex, MOST_BYTES, readPlan } from "./plan.js";
import { indexedDBStorage } from "./storage.js";
import { ask, bodyOf, checkedURL, isTemporary, judge, sendAndLeave } from "./transport.js";

const LONGEST = 86400;
const OPTIONS = [
  "cap",
  "allow",
  "allowEpoch",
  "token",
  "storage",
  "patience",
  "mostWaiting",
  "fetch",
  "clock",
];
const UNREACHABLE = "the collector cannot be reached now; nothing was sent";

function refuse(message) {
  throw new ClientError(message);
}

/** One device and one collector. */
export class Client {
  #url;
  #options;
  #patience;
  #storage;
  #headers;
  #pending = new Map();
  #listeners = [];
  #timer;

  constructor(url, options = {}) {
    if (globalThis.isSecureContext === false || !globalThis.crypto?.subtle) {
      refuse("this page is not a secure context (https or localhost), so no report can be made here");
    }
    const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
    if (unknown) refuse(`the client has no option '${unknown}'; it has ${OPTIONS.join(", ")}`);
    this.#url = checkedURL(url);
    const { cap, allow, allowEpoch = EPOCHS[0], token, mostWaiting = 100 } = options;
    if (!Number.isInteger(allowEpoch) || allowEpoch < 1)
      refuse("allowEpoch must be whole seconds, like 3600");
    const { fetch = (...request) => globalThis.fetch(...request), clock = () => Date.now() / 1000 } =
      options;
    const limit = allow === undefined ? undefined : checkedLimit(allow, "allow");
    this.#options = { cap, allow: limit, allowEpoch, mostWaiting, fetch, clock };
    if (cap !== undefined) checkedLimit(cap, "cap");
    this.#patience = new Patience(options.patience);
    this.#headers = {
      "content-type": "application/json",
      ...(token && { authorization: `Bearer ${token}` }),
    };
    if (!options.storage && !globalThis.indexedDB) refuse("there is no IndexedDB here: pass a storage");
    this.#storage = options.storage ?? indexedDBStorage();
    if (globalThis.document) this.#listen();
  }

  /** The collector's address. */
  get url() {
    return this.#url;
  }

  // -- reading ------------------------------------------------------------------------------------

  /** Cap, spent and left: decimal texts. */
  async budget() {
    return budgetOf(await this.#ledger());
  }

  /** All answers with their costs, for the person to read; or those to one collection. */
  async answers(name) {
    const { answers } = await this.#ledger();
    const chosen =
      name === undefined
        ? answers
        : answers.filter(({ collection }) => collection === this.#place(name));
    return chosen.map(outcomeOf);
  }

  /** The collector's description of a collection, checked. */
  async about(name) {
    const about = bodyOf(await this.#fetched(this.#place(name)));
    const { now, seconds } = about.epoch ?? {};
    const inside =
      Number.isInteger(now) &&
      now >= 0 &&
      now <= MOST_EPOCH &&
      Number.isInteger(seconds) &&
      seconds >= 1;
    if (!isHex(about.plan, 64) || !inside || typeof about.state !== "string") {
      refuse("the address is not a keyveil collector's, or the collector has another version");
    }
    return about;
  }

  /** A collection's plan, verified: its hash, its proof, and the expected hash. Nothing is sent. */
  async plan(name, expected) {
    const about = await this.about(name);
    checkExpected(about, expected);
    return this.#plan(name, about);
  }

  async #plan(name, about) {
    const { text } = await this.#fetched(`${this.#place(name)}/plan`, MOST_BYTES);
    const plan = await readPlan(text);
    if (plan.hash !== about.plan)
      throw new PlanError("the collector sent a plan other than the one it names");
    return plan;
  }

  async #fetched(url, most) {
    const { attempts, longest } = this.#patience;
    for (let tries = 1; tries <= attempts; tries++) {
      const response = await ask(this.#options.fetch, url, {}, most);
      if (response.fault)
        refuse("the collector sent more than a collector has to say; nothing was sent");
      if (response.status === 200) return response;
      if (!isTemporary(response.status)) refuse(`the collector refuses: status ${response.status}`);
      const delay = this.#patience.delay(tries, response.after);
      if (delay > longest || tries === attempts) break;
      await pause(delay);
    }
    return refuse(UNREACHABLE);
  }

  // -- answering ----------------------------------------------------------------------------------

  /**
   * What a collection asks, verified and affordable. Everything that may be refused is refused here,
   * before a record is read. `plan` is null if this device has answered; `answered` is then the outcome.
   */
  async offer(name, expected) {
    const collection = this.#place(name);
    const about = await this.about(name);
    checkExpected(about, expected);
    const offered = (ledger, plan) => {
      const found = answerTo(ledger, about.plan, collection);
      if (plan && !found) this.#checkCost(ledger, plan, collection);
      const answered = found ? outcomeOf(found) : null;
      return {
        collection,
        hash: about.plan,
        plan: found ? null : plan,
        budget: budgetOf(ledger),
        answered,
      };
    };
    const before = offered(await this.#ledger(), null);
    if (before.answered) return before;
    this.#check(about);
    const plan = await this.#plan(name, about);
    return { ...offered(await this.#ledger(), plan), seconds: about.epoch.seconds };
  }

  /**
   * Answer a collection once and send the report, or send an earlier answer again. `record` is an object
   * of names and values, or a function that returns one and is called after all checks.
   * `plan` is the hash of the plan that the page expects.
   */
  async answer(name, record, { plan } = {}) {
    try {
      return await this.accept(await this.offer(name, plan), record);
    } catch (error) {
      const [waiting] = (await this.answers(name)).filter(({ state }) => WAITING.includes(state));
      if (waiting && error.message === UNREACHABLE) return waiting;
      throw error;
    }
  }

  /** Answer an offer of this client. The report is drawn, stored, and sent as soon as that is possible. */
  async accept({ collection, hash, plan, seconds }, record) {
    let drawn = false;
    if (plan) {
      // the time of sending is drawn before the record is read
      const [begun, jitter] = [this.#options.clock(), chance()];
      const held = typeof record === "function" ? await record() : record;
      await this.#change((ledger) => {
        if (answerTo(ledger, hash, collection)) return; // another tab was faster
        this.#checkCost(ledger, plan, collection);
        const epoch = Math.floor(begun / seconds); // a person may take days to agree
        const after = begun + this.#patience.hold(0, jitter);
        addAnswer(ledger, plan, held, { collection, epoch, after });
        drawn = true;
      });
      this.#pending.set(hash, await this.#answer(hash));
      await pause(this.#patience.hold(this.#options.clock() - begun, jitter));
    }
    const outcome = await this.#send(hash, plan);
    this.#wakeLater();
    return { ...outcome, drawn };
  }

  /** Send the waiting reports of this collector whose time has come; with `refused`, also those refused. */
  async flush({ refused = false } = {}) {
    const { answers } = await this.#ledger();
    const ours = answers.filter(({ collection }) =>
      collection.startsWith(`${this.#url}/v1/collections/`),
    );
    const outcomes = [];
    for (const { plan, state } of ours) {
      if (WAITING.includes(state) && (refused || state !== "refused"))
        outcomes.push(await this.#send(plan, false, refused));
    }
    return outcomes;
  }

  /** Stop listening to the page. Waiting reports stay stored. */
  close() {
    clearTimeout(this.#timer);
    for (const [event, listener] of this.#listeners) removeEventListener(event, listener);
    this.#listeners = [];
  }

  #place(name) {
    return `${this.#url}/v1/collections/${encodeURIComponent(name)}`;
  }

  /** Refuse a collection that is not open, or whose epochs could tell devices apart. */
  #check({ state, token, epoch }) {
    if (state !== "open") refuse("the collection accepts no answers now; nothing was sent");
    if (token === true && !this.#headers.authorization) {
      refuse("the collection accepts reports only with a token; nothing was sent");
    }
    ownEpoch(epoch, this.#options.allowEpoch, this.#options.clock());
  }

  #checkCost(ledger, plan, place) {
    checkCost(ledger, plan, place, this.#options.allow, this.#options.mostWaiting);
  }

  async #ledger() {
    return openLedger(await this.#storage.read(), this.#options.cap);
  }

  async #change(act) {
    let result;
    await this.#storage.update((document) => {
      const ledger = openLedger(document, this.#options.cap);
      result = act(ledger);
      return ledger;
    });
    return result;
  }

  async #answer(hash) {
    return (await this.#ledger()).answers.find(({ plan }) => plan === hash);
  }

  // -- sending ------------------------------------------------------------------------------------

  /** Try to send within the patience of one call. `now` ignores the planned time of the first try. */
  async #send(hash, now, refused = false) {
    const states = refused ? WAITING : ["waiting", "held"];
    for (let attempt = 1; ; attempt++) {
      const claimed = await this.#claim(hash, states, now && attempt === 1);
      if (!claimed) break;
      const { collection, id } = claimed;
      const response = await ask(this.#options.fetch, `${collection}/reports`, this.#request(claimed));
      const { state, reason, after } = judge(response, id);
      const next = this.#options.clock() + this.#patience.delay(claimed.tries, after);
      await this.#change((ledger) => markAnswer(ledger, hash, { state, reason, after: next }));
      const delay = next - this.#options.clock();
      if (state !== "waiting" || attempt >= this.#patience.attempts || delay > this.#patience.longest)
        break;
      await pause(delay + 0.001); // the stored time is rounded
    }
    const answer = await this.#answer(hash);
    if (WAITING.includes(answer.state)) this.#pending.set(hash, answer);
    else this.#pending.delete(hash);
    return outcomeOf(answer);
  }

  /** Note a try before it is made, in one transaction, so that no other tab makes it too. */
  #claim(hash, states, now) {
    return this.#change((ledger) => {
      const answer = ledger.answers.find(({ plan }) => plan === hash);
      const time = this.#options.clock();
      // further in the future: the clock was set back
      const early = time < answer.after && answer.after <= time + 2 * LONGEST;
      if (!states.includes(answer.state) || (early && !(now && !answer.tries))) return null;
      const tries = answer.tries + 1;
      return {
        ...markAnswer(ledger, hash, {
          state: "waiting",
          tries,
          after: time + this.#patience.delay(tries) + 1,
        }),
      };
    });
  }

  #request({ plan, epoch, id, cells }) {
    const body = JSON.stringify({ plan, epoch, reports: [{ id, cells }] });
    return { method: "POST", headers: this.#headers, body };
  }

  // -- the page -----------------------------------------------------------------------------------

  #listen() {
    const wake = () => this.#wake();
    const leave = () => {
      for (const answer of this.#pending.values()) {
        sendAndLeave(this.#options.fetch, `${answer.collection}/reports`, this.#request(answer));
      }
    };
    this.#listeners = [
      ["online", wake],
      ["pagehide", leave],
    ];
    for (const [event, listener] of this.#listeners) addEventListener(event, listener);
    this.#timer = setTimeout(wake, 0);
  }

  /** Send what waits, and again when the next report's time has come. */
  async #wake() {
    try {
      await this.flush();
    } catch {
      // what waits is stored, and is sent at the next chance
    }
    this.#wakeLater();
  }

  async #wakeLater() {
    if (!this.#listeners.length) return;
    clearTimeout(this.#timer);
    try {
      const waiting = (await this.answers()).filter(
        ({ state }) => state === "waiting" || state === "held",
      );
      if (!waiting.length) return;
      const next = Math.min(...waiting.map(({ after }) => after)) - this.#options.clock();
      this.#timer = setTimeout(() => this.#wake(), 1000 * Math.min(Math.max(next, 1), 3600));
    } catch {
      // without storage nothing waits
    }
  }
}

function checkExpected({ plan }, expected) {
  if (expected !== undefined && plan !== expected) {
    throw new PlanError("the collection's plan is not the expected one");
  }
}

/** What happened to a report, without the report itself. */
function outcomeOf({ collection, plan, mechanism, epsilon, round, epoch, state, reason, tries, after }) {
  const counted = state === "counted";
  return { collection, plan, mechanism, epsilon, round, epoch, state, reason, tries, after, counted };
}
