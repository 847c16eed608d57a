/** The epoch of a report: its number comes from the device's own clock. */
import { ClientError } from "./errors.js";

/**
 * Lengths of an epoch in seconds that devices answer. The number of the epoch goes with a report: if any
 * length were allowed, a collector could give each device its own and recognise the device by it.
 */
export const EPOCHS = [3600, 21600, 43200, 86400, 604800];
export const MOST_EPOCH = 2 ** 32 - 1;

/**
 * The number of the epoch by the device's clock, if the length of epochs and the collector's number tell
 * no device from another.
 */
export function ownEpoch({ seconds, now }, allowEpoch, time) {
  if (seconds !== allowEpoch && !(EPOCHS.includes(seconds) && seconds > allowEpoch)) {
    throw new ClientError(
      `the collection's epochs have ${seconds} seconds, which could tell devices apart; nothing was sent`,
    );
  }
  const own = Math.floor(time / seconds);
  if (own < 0 || own > MOST_EPOCH || Math.abs(own - now) > 1) {
    throw new ClientError("the collector's epoch is not that of this device's clock; nothing was sent");
  }
  return own;
}
