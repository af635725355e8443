// What the server sends: the names are those of crates/console/src/row.rs and its neighbours.

export type State = "" | "good" | "wait" | "bad";

/** One object in a list. */
export interface Row {
  u: string;
  k: string;
  ns: string;
  n: string;
  o?: string[];
  r: number;
  c: number;
  m: number;
  by?: string;
  s?: State;
  w?: string;
  x?: string;
  t?: number;
  e?: number;
}

export interface Kind {
  group: string;
  version: string;
  resource: string;
  kind: string;
  isNamespaced: boolean;
}

export interface Hello {
  user: string;
  title: string;
  now: number;
  from: number | null;
  operators: boolean;
}

export interface Failure {
  what: string;
  error: string;
  failures: number;
  since: number;
  next: number | null;
}

export interface Controller {
  name: string;
  running: number;
  queued: number;
  backoff: number;
  reconciles: number;
  failures: number;
  writes: number;
  reconcilesPerSecond: number;
  writesPerSecond: number;
  slowestMs: number;
}

export interface World {
  at: number;
  things: number;
  owned: number;
  suspects: number;
  leaks: number;
  deleted: number;
  withheld: string | null;
}

export interface Operators {
  failures: { key: string; by: string; failure: Failure }[];
  hot: { key: string; by: string; perSecond: number }[];
  controllers?: Controller[];
  watches?: { by: string; resource: string; failing: { error: string; since: number } }[];
  worlds?: Record<string, World>;
}

export type Change = Row & { gone?: boolean };

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type JsonObject = { [name: string]: Json };

/** A record of the journal: `entry` says which fields there are. */
export interface JournalRecord {
  at: string;
  source: string;
  entry: { entry: string; [name: string]: unknown };
}

export interface ObjectEvent {
  uid: string;
  type: string;
  reason: string;
  message: string;
  count: number;
  at: string | null;
  by: string | null;
}

/** Names an object: its kind's id, namespace and name. */
export interface ObjectName {
  kind: string;
  ns: string;
  name: string;
}
