/** Shapes and encodings that few plans have: their modules are loaded with a plan that names one of them. */
import { SHAPES } from "./channels.js";
import { ENCODINGS } from "./encodings.js";
import { refuse } from "./errors.js";
import { extremes, ratio, worstOf } from "./ratios.js";
import { evenSlice, FEW, isList, isWhole, scaled, sliceEnds, sliceOf } from "./slices.js";

const MODULES = [
  [() => import("./rows.js"), "symbols", "product", "halfspace", "signs"],
  [() => import("./pools.js"), "hash", "collision", "coco", "items", "pair_items"],
  [() => import("./subset.js"), "subset"],
];
/** What these modules share with the client: they import nothing. */
const SHARED = { evenSlice, extremes, FEW, isList, isWhole, ratio, scaled, sliceEnds, sliceOf, worstOf };

/** Load what the parts of a plan name. This happens before a record is read, and depends on the plan alone. */
export async function loadKinds(parts) {
  const names = parts.flatMap((part) => [
    part?.encode,
    ...(isList(part?.channels) ? part.channels.map((channel) => channel?.shape) : []),
  ]);
  for (const [load, ...own] of MODULES)
    if (own.some((name) => names.includes(name))) {
      const { kinds } = await load().catch((cause) =>
        refuse("a module of keyveil cannot be loaded now; nothing was sent", "unreachable", cause),
      );
      const { shapes, encodings } = kinds(SHARED);
      Object.assign(SHAPES, shapes);
      Object.assign(ENCODINGS, encodings);
    }
}
