/** The epoch of a report: its number comes from the device's own clock. */
import { fault } from "./errors.js";
import { floor } from "./slices.js";

/**
 * Lengths of an epoch in seconds that devices answer. The number of the epoch goes with a report: if any
 * length were allowed, a collector could give each device its own and recognise the device by it.
 */
export const EPOCHS = [3600, 21600, 43200, 86400, 604800];
export const MOST_EPOCH = 2 ** 32 - 1;

/** Refuse epochs whose length or number could tell a device from another. */
export async function checkEpoch({ seconds, now }, allowEpoch, time) {
  if (seconds !== allowEpoch && !(EPOCHS.includes(seconds) && seconds > allowEpoch))
    throw await fault("epochs", { seconds, usual: EPOCHS, allowEpoch });
  if (!(time < 1e11)) throw await fault("option");
  const own = floor(time / seconds);
  if (own < 0 || own > MOST_EPOCH || Math.abs(own - now) > 1) throw await fault("clock");
}
