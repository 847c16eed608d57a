/** The client: a device that answers each collection once and sends its report until it is counted. */
import { checkEpoch, EPOCHS, MOST_EPOCH } from "./epochs.js";
import { BudgetError, fault, PlanError, refuse } from "./errors.js";
import {
  addAnswer,
  answerTo,
  budgetOf,
  isWaiting,
  limitOf,
  markAnswer,
  openLedger,
  refusalOf,
} from "./ledger.js";
import { ANYTHING, checkOptions, OPTIONS, REFUSED } from "./options.js";
import { chance, Patience, pause } from "./patience.js";
import { isHash, MOST_BYTES, readPlan } from "./plan.js";
import { recordOf } from "./record.js";
import { floor, isCount, isText, isWhole, max, min } from "./slices.js";
import { indexedDBStorage } from "./storage.js";
import { ask, bodyOf, checkedURL, isTemporary, judge, LONGEST, named } from "./transport.js";

/**
 * One device and one collector. It fires `outcome` (detail: the outcome) when a report that waited was sent
 * again, or was sent by another tab.
 */
export class Client extends EventTarget {
  #url;
  #cap;
  #allow;
  #allowEpoch;
  #mostWaiting;
  #fetch;
  #clock;
  #patience;
  #storage;
  #headers = { "content-type": "application/json" };
  #pending = new Map();
  /** What ends listening to the page; null if there is none. */
  #page = null;
  #timer;

  constructor(url, options = {}) {
    super();
    checkOptions(options, OPTIONS, "the client");
    const {
      cap,
      allow,
      allowEpoch = EPOCHS[0],
      token,
      storage,
      patience,
      mostWaiting = 100,
      fetch = globalThis.fetch,
      clock = () => Date.now() / 1000,
    } = options;
    const { isSecureContext, crypto, indexedDB, document } = globalThis;
    if (isSecureContext === false || !crypto?.subtle)
      refuse(
        "this page is not a secure context (https or localhost), so no report can be made here",
        "insecure",
      );
    this.#url = checkedURL(url);
    this.#cap = limitOf(cap);
    this.#allow = limitOf(allow);
    this.#allowEpoch = allowEpoch;
    this.#mostWaiting = mostWaiting;
    this.#fetch = fetch;
    this.#clock = clock;
    this.#patience = new Patience(patience);
    if (token) this.#headers.authorization = `Bearer ${token}`;
    if (!storage && !indexedDB) refuse("there is no IndexedDB here: pass a storage", "storage");
    this.#storage = storage ?? indexedDBStorage();
    if (document) this.#listen();
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
    const place = name === undefined || this.#place(name);
    const { answers } = await this.#ledger();
    return answers.filter(({ collection }) => place === true || collection === place).map(outcomeOf);
  }

  /** The collector's description of a collection, checked; and its plan is the expected one. */
  async about(name, expected) {
    const pinned = expected?.hash ?? expected;
    if (pinned !== undefined && !isHash(pinned)) throw await fault("option", { expected: true });
    const about = bodyOf(await this.#fetched(name));
    const { now, seconds } = about.epoch ?? {};
    const timed = isWhole(now, 0, MOST_EPOCH) && isCount(seconds);
    if (!isHash(about.plan) || !timed || !isText(about.state))
      throw await fault("collector", { status: 200 });
    if (pinned && about.plan !== pinned) throw await fault("plan", { expected: true }, PlanError);
    return about;
  }

  /** A collection's plan, verified: its hash, its proof, and the expected hash. Nothing is sent. */
  async plan(name, expected) {
    return this.#plan(name, await this.about(name, expected));
  }

  /**
   * What is wrong with a record that you made up, a line each; `plan` is a plan or a collection's name. For
   * developers: the lines name keys, so never log or send them for a person's record.
   */
  async check(plan, record) {
    return (isText(plan) ? await this.plan(plan) : plan).check(await recordOf(record));
  }

  async #plan(name, about) {
    const { text } = await this.#fetched(name, "/plan", MOST_BYTES);
    const plan = await readPlan(text);
    if (plan.hash !== about.plan) throw await fault("plan", { named: true }, PlanError);
    return plan;
  }

  async #fetched(name, path = "", most) {
    const url = this.#place(name) + path;
    const { attempts, longest } = this.#patience;
    for (let tries = 1; tries <= attempts; tries++) {
      const response = await ask(this.#fetch, url, {}, most);
      const { status, long, after } = response;
      if (status === 200) return response;
      if (long || !isTemporary(status)) throw await faultOf(response, name);
      const delay = this.#patience.delay(tries, after);
      if (delay > longest || tries === attempts) break;
      await pause(delay);
    }
    return refuse("the collector cannot be reached now; nothing was sent", "unreachable");
  }

  // -- answering ----------------------------------------------------------------------------------

  /**
   * What a collection asks, verified and affordable. Everything that may be refused is refused here,
   * before a record is read. `plan` is null if this device has answered; `answered` is then the outcome,
   * which is known without a connection as long as the report waits.
   */
  async offer(name, expected) {
    const collection = this.#place(name);
    const offered = async (hash, seconds, plan = null) => {
      const ledger = await this.#ledger();
      const answer = answerTo(ledger, hash);
      await this.#check(this.#refusal(ledger, hash, collection, plan));
      return {
        collection,
        hash,
        plan: answer ? null : plan,
        budget: budgetOf(ledger),
        answered: answer ? outcomeOf(answer) : null,
        seconds,
      };
    };
    let about;
    try {
      about = await this.about(name, expected);
    } catch (error) {
      const answered = (await this.answers(name)).find((answer) => isWaiting(answer, true));
      if (error.code !== "unreachable" || !answered) throw error;
      return offered(answered.plan, 0);
    }
    const { plan: hash, state, token, epoch } = about;
    const before = await offered(hash, epoch.seconds);
    if (before.answered) return before;
    if (state !== "open") throw await fault(state === "closed" ? state : "paused");
    if (token === true && !this.#headers.authorization) throw await fault("token");
    await checkEpoch(epoch, this.#allowEpoch, this.#clock());
    return offered(hash, epoch.seconds, await this.#plan(name, about));
  }

  /**
   * Answer a collection once and send the report, or send an earlier answer again. `record` is an object
   * of names and values, a promise of one, or a function that returns either and is called after all checks.
   * `plan` is the plan that the page expects, or its hash.
   */
  async answer(name, record, options = {}) {
    checkOptions(options, { plan: ANYTHING }, "answer");
    return this.accept(await this.offer(name, options.plan), record);
  }

  /** Answer an offer of this client. The report is drawn, stored, and sent as soon as that is possible. */
  async accept(offer, record) {
    const { collection, hash, plan, seconds } = offer ?? {};
    if (!isHash(hash) || !this.#isOwn(offer)) throw await fault("option", { offer: true });
    let drawn = false;
    if (plan) {
      // the time of sending is drawn before the record is read
      const begun = this.#clock();
      const jitter = chance();
      const held = await recordOf(record);
      const refusal = await this.#change((ledger) => {
        const refusal = this.#refusal(ledger, hash, collection, plan);
        if (refusal || answerTo(ledger, hash)) return refusal; // another tab was faster
        const epoch = floor(begun / seconds); // a person may take days to agree
        const after = begun + this.#patience.hold(0, jitter);
        addAnswer(ledger, plan, held, { collection, epoch, after });
        drawn = true;
      });
      await this.#check(refusal);
      this.#pending.set(hash, answerTo(await this.#ledger(), hash));
      await pause(this.#patience.hold(this.#clock() - begun, jitter));
    }
    const outcome = await this.#send(hash, plan).catch((error) => {
      if (drawn) return outcomeOf(this.#pending.get(hash)); // it is stored, and may have been sent
      throw error;
    });
    this.#wakeLater();
    return { ...outcome, drawn };
  }

  /** Send the waiting reports of this collector whose time has come; with `refused`, also those refused. */
  async flush(options = {}) {
    checkOptions(options, REFUSED, "flush");
    const outcomes = [];
    for (const { plan } of await this.#waiting(options.refused))
      outcomes.push(this.#tell(await this.#send(plan, false, options.refused)));
    return outcomes;
  }

  #tell(outcome) {
    this.dispatchEvent(new CustomEvent("outcome", { detail: outcome }));
    return outcome;
  }

  /** Stop listening to the page. Waiting reports stay stored. */
  close() {
    clearTimeout(this.#timer);
    this.#page?.abort();
    this.#page = null;
  }

  get #places() {
    return `${this.#url}/v1/collections/`;
  }

  #place(name) {
    return (
      this.#places +
      encodeURIComponent(isText(name) && name ? name : refuse("name a collection, like 'menu'"))
    );
  }

  #isOwn({ collection }) {
    return isText(collection) && collection.startsWith(this.#places);
  }

  #refusal(...asked) {
    return refusalOf(...asked, this.#allow, this.#mostWaiting);
  }

  async #check([code, facts] = []) {
    if (code) throw await fault(code, facts, BudgetError);
  }

  async #ledger() {
    return openLedger(await this.#storage.read(), this.#cap);
  }

  /** The answers to this collector that wait; with `refused`, also those refused. */
  async #waiting(refused) {
    const { answers } = await this.#ledger();
    return answers.filter((answer) => isWaiting(answer, refused) && this.#isOwn(answer));
  }

  async #change(act) {
    let result;
    await this.#storage.update((document) => {
      const ledger = openLedger(document, this.#cap);
      result = act(ledger);
      return ledger;
    });
    return result;
  }

  // -- sending ------------------------------------------------------------------------------------

  /** Try to send within the patience of one call. `now` ignores the planned time of the first try. */
  async #send(hash, now, refused) {
    const { attempts, longest } = this.#patience;
    let answer;
    for (let attempt = 1; ; attempt++) {
      const claimed = await this.#claim(hash, now && attempt === 1, refused);
      if (claimed) {
        const { state, reason, after } = judge(await this.#post(claimed), claimed.id);
        const next = this.#clock() + this.#patience.delay(claimed.tries, after);
        await this.#change((ledger) =>
          markAnswer(answerTo(ledger, hash), { state, reason, after: next }),
        );
      }
      answer = answerTo(await this.#ledger(), hash);
      const delay = answer.after - this.#clock();
      // without a claim, another tab is sending the report
      const over = !(claimed || now) || answer.state !== "waiting";
      if (over || attempt >= attempts || delay > longest) break;
      await pause(delay + 0.001); // the stored time is rounded
    }
    if (isWaiting(answer, true)) this.#pending.set(hash, answer);
    else this.#pending.delete(hash);
    return outcomeOf(answer);
  }

  /** Note a try before it is made, in one transaction, so that no other tab makes it too. */
  #claim(hash, now, refused) {
    return this.#change((ledger) => {
      const answer = answerTo(ledger, hash);
      const time = this.#clock();
      const tries = answer.tries + 1;
      // further in the future: the clock was set back
      const early = time < answer.after && answer.after <= time + 2 * LONGEST;
      if (!isWaiting(answer, refused) || (early && !(now && tries === 1))) return null;
      markAnswer(answer, { state: "waiting", tries, after: time + this.#patience.delay(tries) + 1 });
      return { ...answer };
    });
  }

  /** Send a report. With `keepalive` the request outlives the page. */
  #post({ collection, plan, epoch, id, cells }, keepalive) {
    const body = JSON.stringify({ plan, epoch, reports: [{ id, cells }] });
    const options = { method: "POST", headers: this.#headers, body, keepalive };
    return ask(this.#fetch, `${collection}/reports`, options);
  }

  // -- the page -----------------------------------------------------------------------------------

  #listen() {
    this.#page = new AbortController();
    const wake = () => this.#wake();
    const leave = () => this.#pending.forEach((answer) => this.#post(answer, true));
    addEventListener("online", wake, this.#page);
    addEventListener("pagehide", leave, this.#page);
    this.#timer = setTimeout(wake);
  }

  /** Send what waits, and again when the next report's time has come. */
  async #wake() {
    try {
      await this.flush();
      const ledger = await this.#ledger();
      for (const hash of this.#pending.keys()) {
        const answer = answerTo(ledger, hash);
        if (!answer || isWaiting(answer, true)) continue;
        this.#pending.delete(hash); // another tab has sent it
        this.#tell(outcomeOf(answer));
      }
    } catch {
      // what waits is stored, and is sent at the next chance
    }
    this.#wakeLater();
  }

  async #wakeLater() {
    if (!this.#page) return;
    clearTimeout(this.#timer);
    try {
      const times = (await this.#waiting()).map(({ after }) => after);
      const next = min(...times) - this.#clock();
      if (next < Infinity) this.#timer = setTimeout(() => this.#wake(), 1000 * min(max(next, 1), 3600));
    } catch {
      // without storage nothing waits
    }
  }
}

/** The fault of what a collector, or another server, says instead of a collection. */
function faultOf(response, name) {
  const { status } = response;
  const reason = named(bodyOf(response).reason, "");
  const isUnknown = status === 404 && reason === "unknown";
  const code = isUnknown || reason === "origin" ? reason : "collector";
  return fault(code, { status, reason, name });
}

/** What happened to a report, without the report itself. */
function outcomeOf({ id, cells, chain, ...facts }) {
  return { ...facts, counted: facts.state === "counted" };
}
