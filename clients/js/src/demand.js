/** Shapes and encodings that few plans have: their modules are loaded with a plan that names one of them. */
import { SHAPES } from "./channels.js";
import { ENCODINGS } from "./encodings.js";
import { refuse } from "./errors.js";
import { extremes, ratio, worstOf } from "./ratios.js";
import { evenSlice, isList, isWhole, scaled, sliceEnds, sliceOf } from "./slices.js";

const MODULES = [
  [() => import("./rows.js"), "symbols", "product", "halfspace", "signs"],
  [() => import("./pools.js"), "hash", "collision", "coco", "items", "pair_items"],
  [() => import("./subset.js"), "subset"],
];
/** The release of the client. A module of another one may share other things, so it is refused. */
const RELEASE = "0.1.0";
/** What these modules share with the client: they import nothing. */
const SHARED = { evenSlice, extremes, isWhole, ratio, scaled, sliceEnds, sliceOf, worstOf };

/** Load what the parts of a plan name. This happens before a record is read, and depends on the plan alone. */
export async function loadKinds(parts) {
  const names = parts.flatMap((part) => [
    part?.encode,
    ...(isList(part?.channels) ? part.channels.map((channel) => channel?.shape) : []),
  ]);
  for (const [load, ...own] of MODULES)
    if (own.some((name) => names.includes(name)))
      try {
        const { release, shapes, encodings } = (await load()).kinds(SHARED);
        if (release !== RELEASE) throw release;
        Object.assign(SHAPES, shapes);
        Object.assign(ENCODINGS, encodings);
      } catch (cause) {
        refuse("a module of keyveil cannot be loaded now; nothing was sent", "unreachable", cause);
      }
}
