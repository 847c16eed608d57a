/**
 * The parts of a plan, checked: its schema, its views, its channels, and what a device does with them.
 * A plan without parts has one.
 */
import { readChannel } from "./channels.js";
import { digitOf, encodingNamed } from "./encodings.js";
import { hasMembers, isWhole, refuse, scaled, sliceEnds, sliceOf } from "./slices.js";

const MOST = 2 ** 20;
const MOST_TALLY = 2 ** 24;
const MOST_SUBSET_STATES = 2 ** 13;
const MOST_MIXED = 4096;
const NO_MECHANISM = "a plan's mechanism has a name, a calibration and parameters";
const NO_RANGE = "a range is a list of two decimal texts, the lower one first";
const NO_KEYS = "a schema has a list of different keys, their ranges and levels";
const NO_VIEWS = "views are lists of different places of keys, with weights";
const TOO_LARGE = "the plan is larger than a tally may be";
/** Members that a plan has for itself, or each of its parts has. */
export const OWN = ["encode", "views", "channels", "mechanism"];

/** Refuse a mechanism that no plan names so. Its name does not matter to a device. */
export function checkMechanism(mechanism) {
  if (!hasMembers(mechanism, ["name", "calibrate", "parameters"])) refuse(NO_MECHANISM);
  const { name, calibrate, parameters } = mechanism;
  const listed = typeof parameters === "object" && parameters !== null && !Array.isArray(parameters);
  const plain = listed && Object.values(parameters).every((value) => typeof value !== "object");
  if (typeof name !== "string" || !["paper", "tight"].includes(calibrate) || !plain) {
    refuse(NO_MECHANISM);
  }
}

/** The schema of a plan: its keys with their ranges, and the levels of values. */
export function readSchema(schema) {
  if (!hasMembers(schema, ["keys", "ranges", "levels"])) refuse(NO_KEYS);
  const { keys, ranges, levels } = schema;
  if (!Array.isArray(keys) || !isWhole(keys.length, 1, MOST) || !keys.every(isName)) {
    refuse(NO_KEYS);
  }
  const index = new Map(keys.map((key, place) => [key, place]));
  if (index.size !== keys.length) refuse(NO_KEYS);
  if (!Array.isArray(ranges) || ![1, keys.length].includes(ranges.length)) {
    refuse(NO_KEYS);
  }
  const ends = ranges.map(readRange);
  if (ranges.length > 1 && ranges.every((range) => String(range) === String(ranges[0]))) {
    refuse(NO_KEYS);
  }
  const endOf = (end) => Float64Array.from(keys, (_, place) => ends[ends.length > 1 ? place : 0][end]);
  return { keys, index, low: endOf(0), high: endOf(1), levels: checkLevels(levels) };
}

function readRange(range) {
  if (!Array.isArray(range) || range.length !== 2 || !range.every(isDecimal)) {
    refuse(NO_RANGE);
  }
  const [low, high] = range.map(Number);
  if (!(low < high && Number.isFinite(high - low))) refuse(NO_RANGE);
  return [low, high];
}

const isName = (key) =>
  typeof key === "string" &&
  /^\S(.*\S)?$/su.test(key) &&
  [...key].length <= 256 &&
  !/[\p{Cc}\p{Cs}]/u.test(key);
const isDecimal = (text) =>
  typeof text === "string" && text !== "-0" && /^-?(0|[1-9]\d{0,400})(\.\d{0,400}[1-9])?$/.test(text);

function checkLevels(levels) {
  return isWhole(levels, 1, 64) ? levels : refuse("levels are a whole number from 1 to 64");
}

/** Views over some keys: how many there are, the places of each, and which one a word picks. */
class Views {
  constructor(document, keys) {
    if (!hasMembers(document, ["keys", "weights"])) refuse(NO_VIEWS);
    const { keys: listed, weights } = document;
    const all = Array.from({ length: keys }, (_, place) => place);
    if (listed === "singles") this.places = all.map((place) => [place]);
    else if (listed === "whole") this.places = [all];
    else this.places = Array.isArray(listed) && listed.every((view) => isView(view, keys)) ? listed : [];
    this.count = this.places.length;
    if (!isWhole(this.count, 1, MOST)) refuse(NO_VIEWS);
    this.ends = weights === "even" ? null : sliceEnds(weights, 1, this.count);
    /** Whether there is one view of all keys, in order. */
    this.whole = this.count === 1 && String(this.places[0]) === String(all);
  }

  /** The view that a word picks. */
  pick(word) {
    return this.ends ? sliceOf(word, this.ends) : scaled(word, this.count);
  }
}

const isView = (view, keys) =>
  Array.isArray(view) &&
  view.length > 0 &&
  new Set(view).size === view.length &&
  view.every((place) => isWhole(place, 0, keys - 1));

/** What a device does for a plan without parts, or for one part. */
export class Part {
  /** `before` has the numbers of views, cells and states of subsets of the parts before this one. */
  constructor(document, schema, before) {
    this.schema = schema;
    this.encode = document.encode;
    this.encoding = encodingNamed(document.encode);
    this.views = new Views(document.views, schema.keys.length);
    const { channels, channel_of: numbers } = document;
    if (!Array.isArray(channels) || !channels.length) refuse("a plan has a list of channels");
    this.channels = channels.map((channel) => {
      before.subsets += channel?.shape === "subset" ? Number(channel.states) : 0;
      if (before.subsets > MOST_SUBSET_STATES) refuse(TOO_LARGE);
      return readChannel(channel);
    });
    const named = Array.isArray(numbers) && numbers.length === this.views.count;
    if (numbers !== undefined && !(named && numbers.every((n) => isWhole(n, 0, channels.length - 1)))) {
      refuse("channel_of names one channel for each view");
    }
    this.numbers = numbers;
    if (this.encoding.whole && !this.views.whole) refuse("this encoding speaks of all keys in one view");
    this.layOut(before);
  }

  /** Give each view its own cell, after those of the parts before. */
  layOut(before) {
    const many = this.channelOf(0).many;
    this.own = new Float64Array(this.views.count);
    this.views.places.forEach((places, view) => {
      const channel = this.channelOf(view);
      if (!this.encoding.fits(channel, places, this.schema)) refuse("a channel does not fit its view");
      if (channel.many !== many) refuse("the views of a plan all mark one cell, or all mark many");
      before.widest = Math.max(before.widest, many ? 0 : channel.cells);
      this.own[view] = before.cells;
      before.cells += 1 + channel.cells;
    });
    before.many ||= many;
    before.views += this.views.count;
    if (before.views > MOST || before.cells > MOST_TALLY) refuse(TOO_LARGE);
    if (before.many && before.widest > MOST_MIXED) refuse(TOO_LARGE);
  }

  /** The channel of a view. */
  channelOf(view) {
    return this.channels[this.numbers ? this.numbers[view] : 0];
  }

  /** Where the words of a view's channel begin, and how many words a report of the view takes in all. */
  words(view) {
    const channel = this.channelOf(view);
    const cap = this.encoding.cap(channel, this.schema.keys.length);
    const taken = 1 + this.encoding.words(this.views.places[view], cap);
    const start = Math.ceil(taken / channel.align) * channel.align;
    return { start, total: start + channel.words };
  }

  /** The cells of a report of a view, from the words that begin at `at`: its own, then the marked ones. */
  cells(view, held, words, at) {
    const channel = this.channelOf(view);
    const state = this.encoding.encode({
      view: this.views.places[view],
      held,
      digit: (key, word) => digitOf(key, word, this.schema),
      words,
      at: at + 1,
      cap: this.encoding.cap(channel, this.schema.keys.length),
      schema: this.schema,
    });
    const own = this.own[view];
    return [
      own,
      ...channel.draw(state, words, at + this.words(view).start).map((mark) => own + 1 + mark),
    ];
  }
}

/** The parts of a plan: those that it lists, or itself as the only one. */
export function readParts(body, schema) {
  const before = { views: 0, cells: 0, subsets: 0, widest: 0, many: false };
  if (!Object.hasOwn(body, "parts")) return [new Part(body, schema, before)];
  if (!Array.isArray(body.parts) || !isWhole(body.parts.length, 2, 8)) refuse("a plan has 2 to 8 parts");
  const parts = body.parts.map((part) => {
    if (!hasMembers(part, [...OWN, "weight", "levels"], ["channel_of"]))
      refuse("a part has other members");
    checkMechanism(part.mechanism);
    return new Part(part, { ...schema, levels: checkLevels(part.levels) }, before);
  });
  if (schema.levels !== Math.max(...parts.map((part) => part.schema.levels))) {
    refuse("the plan's levels are not those of its parts");
  }
  return parts;
}
