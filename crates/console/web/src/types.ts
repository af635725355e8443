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
  recording?: Recording;
}

/** A failing run of a simulation, in the place of a cluster. */
export interface Recording {
  report: string;
  /** When the run began, in milliseconds since 1970. */
  start: number;
  /** How many changes and lines were not saved. */
  omitted: number;
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
  /** The operator, if it is one of another process. */
  operator?: string;
  /** How many objects it reconciles at a time; 0 if that is not known. */
  workers: number;
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

/** The last pass over a world; `error` says why the one after it did not end. */
export interface World {
  at: number;
  error: string | null;
  next: number;
  since: number;
  isBlocked: boolean;
  /** How many resources the objects want. */
  wanted: number;
  things: number;
  owned: number;
  suspects: number;
  leaks: number;
  deleted: number;
  withheld: string | null;
}

/** A watch of an operator: the last revision it saw, and why it was cut off. */
export interface Watch {
  revision: number;
  heard: number;
  error: string | null;
  since: number;
}

/** A field that two writers change back and forth. */
export interface Fight {
  target: string;
  path: string;
  writers: string[];
  reverts: number;
  since: string;
}

/** A write, as the server remembers it. */
export interface WriteRecord {
  at: string;
  user: string;
  agent: string;
  verb: string;
  subresource: string;
  manager: string;
  after: number | string | null;
  diff: string[];
  refusal: { code: number; message: string } | null;
}

export interface Operators {
  failures: { key: string; by: string; failure: Failure }[];
  hot: { key: string; by: string; perSecond: number }[];
  controllers?: Controller[];
  watches?: { by: string; resource: string; watch: Watch }[];
  worlds?: Record<string, World>;
}

/** What an operator of another process answered: what it is doing, or why there is no answer. */
export interface OtherOperator {
  operator: string;
  activity?: Operators;
  /** Failing objects that were left out. */
  omitted?: number;
  error?: string;
  advice?: string;
}

/** What the operators of other processes answered, and what else is missing. */
export interface Others {
  operators: OtherOperator[];
  notes: string[];
}

/** An operator that did not answer, why, and what to do. */
export interface SilentOperator {
  operator: string;
  error: string;
  advice: string;
}

/** A change of an object; in a recording also a line of its timeline, which has a `note` and no object. */
export type Change = Row & { gone?: boolean; at?: number; note?: string; isDecisive?: boolean };

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
