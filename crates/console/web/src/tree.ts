// The forest of objects as lines: kinds, below them what has no owner, below that what it owns.

import type { Model } from "./model";
import type { Row } from "./types";

export type TreeLine =
  | { is: "kind"; id: string; kind: string; count: number; isOpen: boolean }
  | { is: "object"; id: string; row: Row; depth: number; children: number; isOpen: boolean };

/** Owners may form a circle, and no tree of owners is this deep. */
const DEPTH_MAX = 12;

/** Kinds whose objects nobody looks for first: they start closed. */
const QUIET_GROUPS = new Set([
  "rbac.authorization.k8s.io",
  "flowcontrol.apiserver.k8s.io",
  "apiregistration.k8s.io",
  "coordination.k8s.io",
  "apiextensions.k8s.io",
  "scheduling.k8s.io",
]);
const QUIET_KINDS = new Set(["configmaps", "secrets", "serviceaccounts", "namespaces", "nodes"]);
const FIRST_KINDS = ["apps/deployments", "apps/statefulsets", "apps/daemonsets", "batch/cronjobs", "batch/jobs", "pods"];

export function isQuietKind(kind: string): boolean {
  return QUIET_KINDS.has(kind) || QUIET_GROUPS.has(kind.split("/")[0] ?? "");
}

function kindOrder(kind: string): string {
  const place = FIRST_KINDS.indexOf(kind);
  if (place >= 0) return `1${place}`;
  const isCustom = kind.includes(".") && !kind.includes(".k8s.io/");
  return `${isCustom ? 0 : isQuietKind(kind) ? 3 : 2}${kind}`;
}

/** Returns the lines of the forest. `flips` has the ids of lines that are not as they start: open instead of closed. */
export function forestLines(model: Model, filter: string, flips: ReadonlySet<string>): TreeLine[] {
  const roots = new Map<string, Row[]>();
  const matching = filter ? matchingRows(model, filter) : undefined;
  for (const row of model.rows.values()) {
    if (matching && !matching.has(row.u)) continue;
    if ((row.o ?? []).some((uid) => model.rows.has(uid))) continue;
    const list = roots.get(row.k);
    if (list) list.push(row);
    else roots.set(row.k, [row]);
  }
  const lines: TreeLine[] = [];
  const kinds = [...roots.keys()].map((kind): [string, string] => [kindOrder(kind), kind]).sort(byFirst);
  for (const [, kind] of kinds) {
    const rows = roots.get(kind)!;
    const id = `kind ${kind}`;
    const isOpen = matching ? true : isQuietKind(kind) === flips.has(id);
    lines.push({ is: "kind", id, kind, count: rows.length, isOpen });
    if (!isOpen) continue;
    rows.sort(byName);
    for (const row of rows) addObject(model, row, 1, lines, flips, matching);
  }
  return lines;
}

/** Returns the lines of one tree. */
export function treeLines(model: Model, root: Row, flips: ReadonlySet<string>): TreeLine[] {
  const lines: TreeLine[] = [];
  addObject(model, root, 0, lines, flips, undefined);
  return lines;
}

function addObject(
  model: Model,
  row: Row,
  depth: number,
  lines: TreeLine[],
  flips: ReadonlySet<string>,
  matching: ReadonlySet<string> | undefined,
): void {
  const children = childRows(model, row);
  const isOpen = children.length > 0 && !flips.has(row.u) && depth < DEPTH_MAX;
  lines.push({ is: "object", id: row.u, row, depth, children: children.length, isOpen });
  if (!isOpen) return;
  for (const child of children) {
    if (!matching || matching.has(child.u)) addObject(model, child, depth + 1, lines, flips, matching);
  }
}

function childRows(model: Model, row: Row): Row[] {
  const uids = model.children.get(row.u);
  if (!uids) return [];
  const rows: Row[] = [];
  for (const uid of uids) {
    const child = model.rows.get(uid);
    // An object with several owners is shown below the first one.
    if (child && (child.o ?? []).find((owner) => model.rows.has(owner)) === row.u) rows.push(child);
  }
  return rows.sort(byKindAndName);
}

/** Returns the rows that match, and their owners, so that they can be found in the tree. */
function matchingRows(model: Model, filter: string): Set<string> {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Set<string>();
  for (const row of model.rows.values()) {
    const text = `${row.k} ${row.ns}/${row.n} ${row.s ?? ""} ${row.w ?? ""}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    let current: Row | undefined = row;
    for (let depth = 0; current && depth < DEPTH_MAX && !found.has(current.u); depth++) {
      found.add(current.u);
      current = (current.o ?? []).map((uid) => model.rows.get(uid)).find((one) => one !== undefined);
    }
  }
  return found;
}

function byFirst(one: [string, string], other: [string, string]): number {
  return one[0] < other[0] ? -1 : one[0] > other[0] ? 1 : 0;
}

function byName(one: Row, other: Row): number {
  if (one.ns !== other.ns) return one.ns < other.ns ? -1 : 1;
  return one.n < other.n ? -1 : one.n > other.n ? 1 : 0;
}

function byKindAndName(one: Row, other: Row): number {
  if (one.k !== other.k) return one.k < other.k ? -1 : 1;
  // New ones below old ones, so that nothing moves.
  if (one.c !== other.c) return one.c - other.c;
  return byName(one, other);
}
