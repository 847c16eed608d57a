/** keyveil for web pages and Node: local differential privacy on a person's own device. */
export { Client } from "./client.js";
export { BudgetError, ClientError, KeyveilError, PlanError } from "./errors.js";
export { readPlan } from "./plan.js";
export { indexedDBStorage, memoryStorage } from "./storage.js";
