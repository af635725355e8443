// What is stuck or failing, with the cause. A parent that only waits for its children is not a problem of its own: the
// child that fails is, and the parent is named beside it.

import type { Model } from "./model";
import type { Failure, ObjectName, Row } from "./types";
import { ago, parseKey, rowName } from "./words";

/** How long something may be on its way before it counts as stuck. */
const STUCK_MS = 30_000;

export type Severity = "bad" | "stuck" | "alarm";

export interface Problem {
  id: string;
  severity: Severity;
  /** What to look at. */
  object: ObjectName | undefined;
  /** How many objects have the same problem. */
  count: number;
  /** What people know it as: the topmost owner. */
  root: ObjectName | undefined;
  title: string;
  words: string;
  cause: string;
  /** In milliseconds since 1970. */
  since: number;
}

/** In which order problems were first seen: what is there does not move when another one comes. */
const firstSeen = new Map<string, number>();
const FIRST_SEEN_MAX = 5000;
let seenCount = 0;

export function findProblems(model: Model, now: number): Problem[] {
  const problems = [...problemsOfRows(model, now), ...problemsOfOperators(model, now)];
  const byId = new Map<string, Problem>();
  for (const problem of problems) {
    const known = byId.get(problem.id);
    if (known) {
      known.count += problem.count;
      known.since = Math.min(known.since, problem.since);
    } else byId.set(problem.id, problem);
  }
  if (firstSeen.size > FIRST_SEEN_MAX) firstSeen.clear();
  for (const id of byId.keys()) if (!firstSeen.has(id)) firstSeen.set(id, seenCount++);
  const rank: Record<Severity, number> = { bad: 0, alarm: 1, stuck: 2 };
  return [...byId.values()].sort(
    (one, other) => rank[one.severity] - rank[other.severity] || firstSeen.get(one.id)! - firstSeen.get(other.id)!,
  );
}

/** Returns how a row is doing now: waiting for too long is stuck. */
export function severityOf(row: Row, now: number): Severity | undefined {
  if (row.e && row.e < now) return "bad";
  if (row.s === "bad") return "bad";
  if (row.s === "wait" && now - waitingSince(row) > STUCK_MS) return "stuck";
  return undefined;
}

function waitingSince(row: Row): number {
  return (row.t || row.m || row.c) * 1000;
}

/** Returns the topmost owner that is known. */
export function rootOf(model: Model, row: Row): Row {
  let current = row;
  // Owners may form a circle; no chain is this long.
  for (let depth = 0; depth < 20; depth++) {
    const owner = (current.o ?? []).map((uid) => model.rows.get(uid)).find((one) => one !== undefined);
    if (!owner) break;
    current = owner;
  }
  return current;
}

function* problemsOfRows(model: Model, now: number): Generator<Problem> {
  const failing = failuresByName(model);
  for (const uid of model.troubled) {
    const row = model.rows.get(uid);
    const severity = row && severityOf(row, now);
    // What an operator says about an object is closer to the cause than the object's own status.
    if (!row || !severity || failing.has(nameOf(row)) || hasTroubledChild(model, row, now, failing, 0)) continue;
    const root = rootOf(model, row);
    const cause = (row.e && row.e < now ? `${row.x}, since ${ago(now - row.e)}` : row.x) || row.w || "";
    yield {
      id: `row ${root.u} ${row.k} ${row.w} ${withoutName(row)}`,
      severity,
      object: rowName(row),
      count: 1,
      root: root === row ? undefined : rowName(root),
      title: model.kindName(row.k),
      words: row.e && row.e < now ? "lapsed" : (row.w ?? ""),
      cause,
      since: row.e && row.e < now ? row.e : waitingSince(row),
    };
  }
}

function hasTroubledChild(model: Model, row: Row, now: number, failing: Map<string, unknown>, depth: number): boolean {
  if (depth > 6) return false;
  for (const uid of model.children.get(row.u) ?? []) {
    const child = model.rows.get(uid);
    if (!child) continue;
    if (severityOf(child, now) || failing.has(nameOf(child)) || hasTroubledChild(model, child, now, failing, depth + 1)) return true;
  }
  return false;
}

/** The same failure of several Pods differs in their names only. */
function withoutName(row: Row): string {
  return (row.x ?? "").replaceAll(row.n, "…").replaceAll(row.u, "…");
}

function nameOf(row: Row): string {
  return `${row.k} ${row.ns}/${row.n}`;
}

function failuresByName(model: Model): Map<string, Failure> {
  return new Map(
    model.operators.failures.map(({ key, failure }) => {
      const { kind, ns, name } = parseKey(key);
      return [`${kind} ${ns}/${name}`, failure];
    }),
  );
}

function* problemsOfOperators(model: Model, now: number): Generator<Problem> {
  const undecodable = new Set(model.operators.failures.filter(({ failure }) => failure.what === "undecodable").map(({ key }) => key));
  for (const { key, by, failure } of model.operators.failures) {
    // The controller of an object that cannot be decoded fails for the same reason.
    if (undecodable.has(key) && failure.what !== "undecodable") continue;
    const object = parseKey(key);
    const next = failure.next === null ? "not retried until it changes" : `next try ${inTime(failure.next - now)}`;
    const times = failure.failures > 1 ? `${failure.failures} times in a row, ` : "";
    const words = failure.what === "undecodable" ? "cannot be decoded" : `${by}: ${failure.what} ${times}${next}`;
    yield {
      id: `failure ${key} ${by}`,
      severity: "bad",
      object,
      root: undefined,
      count: 1,
      title: model.kindName(object.kind),
      words,
      cause: failure.error,
      since: failure.since,
    };
  }
  for (const { key, by, perSecond } of model.operators.hot) {
    const object = parseKey(key);
    yield {
      id: `hot ${key} ${by}`,
      severity: "alarm",
      object,
      root: undefined,
      count: 1,
      title: model.kindName(object.kind),
      words: "hot loop",
      cause: `${by} reconciles it ${perSecond.toFixed(0)} times a second and never rests: does it change what it watches?`,
      since: now,
    };
  }
  for (const { by, resource, watch } of model.operators.watches ?? []) {
    if (watch.error === null) continue;
    yield {
      id: `watch ${by} ${resource}`,
      severity: "bad",
      object: undefined,
      root: undefined,
      count: 1,
      title: by,
      words: `cannot watch ${resource}`,
      cause: watch.error,
      since: watch.since,
    };
  }
  for (const fight of model.fights) {
    const object = parseKey(fight.target);
    yield {
      id: `fight ${fight.target} ${fight.path}`,
      severity: "alarm",
      object,
      root: undefined,
      count: 1,
      title: model.kindName(object.kind),
      words: `two writers fight over ${fight.path}`,
      cause: `${fight.writers.join(" and ")} undo each other's ${fight.path}: ${fight.reverts} times in the last minute. Let one of them own the field.`,
      since: Date.parse(fight.since) || now,
    };
  }
  for (const [world, pass] of Object.entries(model.operators.worlds ?? {})) {
    if (pass.error !== null)
      yield {
        id: `world ${world} fails`,
        severity: "bad",
        object: undefined,
        root: undefined,
        count: 1,
        title: world,
        words: pass.isBlocked ? `does not answer; circuit breaker open, next probe ${inTime(pass.next - now)}` : `cannot be listed; next try ${inTime(pass.next - now)}`,
        cause: pass.error,
        since: pass.since,
      };
    if (!pass.withheld) continue;
    yield {
      id: `world ${world}`,
      severity: "alarm",
      object: undefined,
      root: undefined,
      count: 1,
      title: world,
      words: "leaks are not deleted",
      cause: pass.withheld,
      since: pass.at,
    };
  }
}

function inTime(ms: number): string {
  return ms <= 0 ? "now" : `in ${ago(ms)}`;
}
