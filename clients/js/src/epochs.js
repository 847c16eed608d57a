/** The epoch of a report: its number comes from the device's own clock. */
import { refuse } from "./errors.js";
import { floor } from "./slices.js";

/**
 * Lengths of an epoch in seconds that devices answer. The number of the epoch goes with a report: if any
 * length were allowed, a collector could give each device its own and recognise the device by it.
 */
export const EPOCHS = [3600, 21600, 43200, 86400, 604800];
export const MOST_EPOCH = 2 ** 32 - 1;

/** Refuse epochs whose length or number could tell a device from another. */
export function checkEpoch({ seconds, now }, allowEpoch, time) {
  if (seconds !== allowEpoch && !(EPOCHS.includes(seconds) && seconds > allowEpoch)) {
    refuse(
      `epochs of ${seconds} seconds could tell devices apart; ${EPOCHS.join(", ")} are answered, ` +
        `from allowEpoch (${allowEpoch}) on; nothing was sent`,
      "epochs",
    );
  }
  if (!(time < 1e11)) refuse("the option clock must return seconds, like Date.now() / 1000");
  const own = floor(time / seconds);
  if (own < 0 || own > MOST_EPOCH || Math.abs(own - now) > 1) {
    refuse("the collector's clock is not this device's: one is wrong; nothing was sent", "clock");
  }
}
