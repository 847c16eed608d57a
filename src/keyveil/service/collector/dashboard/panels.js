/**
 * The panels of a collection, in the order of their tabs. To add one, write a module and add its line.
 *
 * A panel is {id, title, offered(context), make(context)}. ``make`` returns {element, update(estimates),
 * tally(facts), leave()}; all but the element are optional. ``update`` is called with the estimates of
 * every key when they have changed, ``tally`` when reports have arrived.
 * A context has: name, path (of the API), plan (its document), facts, status, session, early (a promise
 * of estimates, once), together (whether the plan knows of keys together), width() and reload().
 */

import { answers } from "./panel_answers.js";
import { error } from "./panel_error.js";
import { explore } from "./panel_explore.js";
import { health } from "./panel_health.js";
import { manage } from "./panel_manage.js";
import { matrix } from "./panel_matrix.js";
import { plan } from "./panel_plan.js";
import { rules } from "./panel_rules.js";

export const PANELS = [answers, explore, matrix, rules, error, health, plan, manage];
