/**
 * The parts of a plan, checked: its schema, its views, its channels, and what a device does with them.
 * A plan without parts has one.
 */
import { readChannel } from "./channels.js";
import { loadKinds } from "./demand.js";
import { capFor, encodingNamed, heldKeys } from "./encodings.js";
import { refusePlan } from "./errors.js";
import { isDecimal } from "./exact.js";
import {
  ceil,
  isList,
  isText,
  isWhole,
  max,
  memberCount,
  scaled,
  sliceEnds,
  sliceOf,
} from "./slices.js";

const MOST = 2 ** 20;
const MOST_TALLY = 2 ** 24;
const MOST_SUBSET_STATES = 2 ** 13;
const MOST_MIXED = 4096;
const TOO_MUCH = "too many views or cells";
const BAD_VIEWS = "malformed views";
const BAD_LEVELS = "malformed levels";
const BAD_PARTS = "malformed parts";

/** Refuse a mechanism that no plan names so. Its name does not matter to a device. */
export function checkMechanism(mechanism) {
  const { name, calibrate, parameters } = mechanism ?? {};
  const plain =
    typeof parameters === "object" &&
    !isList(parameters) &&
    Object.values(parameters).every((value) => typeof value !== "object");
  const known = isText(name) && ["paper", "tight"].includes(calibrate);
  if (memberCount(mechanism) !== 3 || !known || !plain) refusePlan("a malformed mechanism");
}

/** The schema of a plan: its keys with their ranges, and the levels of values. */
export function readSchema(schema) {
  const { keys, ranges, levels } = schema ?? {};
  const names = isList(keys) && keys.every(isName) ? keys : [];
  const index = new Map(names.map((key, place) => [key, place]));
  const { size } = index;
  const fitting =
    memberCount(schema) === 3 &&
    isWhole(size, 1, MOST) &&
    size === keys.length &&
    isList(ranges) &&
    [1, size].includes(ranges.length) &&
    ranges.every(isRange) &&
    // equal ranges are written once
    (ranges.length === 1 || new Set(ranges.map(String)).size > 1);
  if (!fitting) refusePlan("malformed keys or ranges");
  const ends = ranges.map((range) => range.map(Number));
  return { keys, index, rangeOf: (place) => ends[place] ?? ends[0], levels: checkLevels(levels) };
}

const isName = (key) => isText(key) && /^(?!.*\p{Cc})\S(.{0,254}\S)?$/su.test(key);

const isRange = (range) =>
  isList(range) &&
  range.length === 2 &&
  range.every(isDecimal) &&
  range[1] - range[0] > 0 &&
  range[1] - range[0] < Infinity;

const checkLevels = (levels) => (isWhole(levels, 1, 64) ? levels : refusePlan(BAD_LEVELS));

const endsOf = (weights, count) => sliceEnds(weights, count, 1) ?? refusePlan("malformed weights");

/** Views over some keys: the places of each view, and which view a word picks. */
function readViews(views, keys, whole) {
  const { keys: listed, weights } = views ?? {};
  const all = [...Array(keys).keys()];
  const named = listed === "singles" ? all.map((place) => [place]) : listed === "whole" && [all];
  const places = named || listed;
  const isView = (view) =>
    isList(view) &&
    view.length > 0 &&
    new Set(view).size === view.length &&
    view.every((place) => isWhole(place, 0, keys - 1));
  const fitting =
    memberCount(views) === 2 &&
    isList(places) &&
    isWhole(places.length, 1, MOST) &&
    (named || places.every(isView)) &&
    !(whole && (places.length > 1 || String(places) !== String(all)));
  if (!fitting) refusePlan(BAD_VIEWS);
  const ends = weights === "even" ? null : endsOf(weights, places.length);
  return { places, pick: (word) => (ends ? sliceOf(word, ends) : scaled(word, places.length)) };
}

/**
 * What a device does for a plan without parts, or for one part. `before` has the numbers of views, cells
 * and states of subsets of the parts before this one.
 */
function readPart(document, schema, before) {
  const { encode, views, channels: listed, channel_of: numbers } = document;
  const encoding = encodingNamed(encode);
  const keys = schema.keys.length;
  const { places, pick } = readViews(views, keys, encode !== "views");
  const count = places.length;
  if (!isList(listed) || !listed.length) refusePlan("no channels");
  const channels = listed.map((channel) => {
    if (channel?.shape === "subset") before.subsets += channel.states;
    return before.subsets > MOST_SUBSET_STATES ? refusePlan(TOO_MUCH) : readChannel(channel);
  });
  const isChannel = (number) => isWhole(number, 0, channels.length - 1);
  if (
    numbers !== undefined &&
    !(isList(numbers) && numbers.length === count && numbers.every(isChannel))
  )
    refusePlan("a malformed channel_of");
  const channelOf = (view) => channels[numbers ? numbers[view] : 0];
  const { many } = channelOf(0);
  /** The own cell of each view, after those of the parts before, and its cap on keys. */
  const own = [];
  const caps = [];
  places.forEach((place, view) => {
    const channel = channelOf(view);
    caps.push(capFor(encoding, channel, schema, place));
    if (channel.many !== many) refusePlan(BAD_VIEWS);
    if (!many) before.widest = max(before.widest, channel.cells);
    own.push(before.cells);
    before.cells += 1 + channel.cells;
  });
  before.many ||= many;
  before.views += count;
  const mixed = before.many && before.widest > MOST_MIXED;
  if (before.views > MOST || before.cells > MOST_TALLY || mixed) refusePlan(TOO_MUCH);

  /** Where the words of a view's channel begin. */
  const startOf = (view) => {
    const { align } = channelOf(view);
    return ceil((1 + encoding.words(places[view], caps[view])) / align) * align;
  };
  return {
    encode,
    schema,
    places,
    channels,
    own,
    pick,
    channelOf,

    /** Number of words of a report of a view. */
    wordCount: (view) => startOf(view) + channelOf(view).words,

    /** The cells of a report of a view: its own, then the marked ones. */
    cells: (view, record, words) => {
      const { states, draw } = channelOf(view);
      const held = heldKeys(record, schema);
      const task = [caps[view], keys, schema.levels, places[view], states];
      const state = encoding.encode(held, words.subarray(1), ...task);
      const marks = draw(state, words.subarray(startOf(view)));
      return [own[view], ...marks.map((mark) => own[view] + 1 + mark)];
    },
  };
}

/** The parts of a plan: those that it lists, or itself as the only one; and the ends of their slices. */
export async function readParts({ parts: listed, ...body }, schema) {
  const before = { views: 0, cells: 0, subsets: 0, widest: 0, many: false };
  if (listed !== undefined && !(isList(listed) && isWhole(listed.length, 2, 8))) refusePlan(BAD_PARTS);
  await loadKinds(listed ?? [body]);
  if (!listed) return { parts: [readPart(body, schema, before)] };
  const parts = listed.map((part) => {
    if (memberCount(part) !== (part.channel_of === undefined ? 6 : 7)) refusePlan(BAD_PARTS);
    checkMechanism(part.mechanism);
    return readPart(part, { ...schema, levels: checkLevels(part.levels) }, before);
  });
  const levels = max(...parts.map((part) => part.schema.levels));
  if (schema.levels !== levels) refusePlan(BAD_LEVELS);
  const weights = listed.map(({ weight }) => weight);
  return { parts, ends: endsOf(weights, parts.length) };
}
