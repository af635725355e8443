// All objects that the viewer may see, as rows, with the tree of their owners. Changes are applied as they arrive; the views
// are notified at most once per frame.
//
// Memory follows the number of objects and not the number of changes.

import type { Change, Fight, Hello, Kind, Operators, Others, Row } from "./types";
import { joinOperators, NO_OPERATORS, NO_OTHERS } from "./operators";
import { follow, type StreamStatus } from "./stream";

/** Shared texts that are kept: names of kinds, namespaces, writers and states. There are few, unless every object has its own. */
const TEXTS_MAX = 5000;

const NO_OWNERS: string[] = [];

export class Model {
  rows = new Map<string, Row>();
  /** The uids of an object's children. */
  children = new Map<string, Set<string>>();
  /** The uids of rows that are not good, or lapse. */
  troubled = new Set<string>();
  kinds = new Map<string, Kind>();
  hidden = new Map<string, string>();
  /** What all operators are doing, those of other processes included. */
  operators: Operators = NO_OPERATORS;
  others: Others = NO_OTHERS;
  fights: Fight[] = [];
  /** The newest revision of each kind. */
  newest = new Map<string, number>();
  hello: Hello | undefined;
  status: StreamStatus = { state: "opening", message: "" };
  isSynced = false;
  revision = 0;
  /** Rises with every change, so that views know whether what they computed still holds. */
  version = 0;
  /** The server's time minus ours, in milliseconds. */
  clockSkew = 0;
  changesSeen = 0;

  private ownOperators: Operators = NO_OPERATORS;
  private listeners = new Set<() => void>();
  private isScheduled = false;
  private listing = new Map<string, Set<string>>();
  /** Kinds of which a list came since the stream began. */
  private listed = new Set<string>();
  private byKind = new Map<string, Set<string>>();
  private texts = new Map<string, string>();
  private byName = new Map<string, string>();

  start(path = "/api/now"): () => void {
    return follow(
      path,
      (event, data) => this.take(event, data),
      (status) => {
        this.status = status;
        this.changed();
      },
    );
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  now(): number {
    return Date.now() + this.clockSkew;
  }

  /** Finds an object by its kind, namespace and name. */
  find(kind: string, ns: string, name: string): Row | undefined {
    const uid = this.byName.get(nameKey(kind, ns, name));
    return uid === undefined ? undefined : this.rows.get(uid);
  }

  kindName(id: string): string {
    return this.kinds.get(id)?.kind ?? id;
  }

  kindCounts(): [string, number][] {
    return [...this.byKind].map(([kind, uids]): [string, number] => [kind, uids.size]).filter(([, count]) => count > 0);
  }

  private take(event: string, data: unknown): void {
    switch (event) {
      case "hello":
        this.hello = data as Hello;
        this.clockSkew = this.hello.now - Date.now();
        this.hidden.clear();
        this.others = NO_OTHERS;
        this.operators = joinOperators(this.ownOperators, this.others);
        this.listing.clear();
        this.listed.clear();
        break;
      case "kinds":
        this.kinds = new Map((data as Kind[]).map((kind) => [kind.group ? `${kind.group}/${kind.resource}` : kind.resource, kind]));
        break;
      case "list":
        this.takeList(data as { kind: string; ns: string | null; first: boolean; last: boolean; rows: Row[] });
        break;
      case "changes":
        for (const change of (data as { changes: Change[] }).changes) this.takeChange(change);
        break;
      case "operators":
        this.ownOperators = data as Operators;
        this.operators = joinOperators(this.ownOperators, this.others);
        break;
      case "others":
        this.others = data as Others;
        this.operators = joinOperators(this.ownOperators, this.others);
        break;
      case "fights":
        this.fights = data as Fight[];
        break;
      case "hidden": {
        const { kind, ns, message } = data as { kind: string; ns: string | null; message: string };
        this.hidden.set(ns ? `${kind} in ${ns}` : kind, message);
        break;
      }
      case "synced":
        this.isSynced = true;
        // What was there before the stream began again, and is in no list: its kind has no objects any more.
        for (const row of [...this.rows.values()]) if (!this.listed.has(row.k)) this.remove(row);
        break;
    }
    this.changed();
  }

  /** A kind that is listed again loses what the list does not have. */
  private takeList(list: { kind: string; ns: string | null; first: boolean; last: boolean; rows: Row[] }): void {
    const name = `${list.kind} ${list.ns ?? ""}`;
    this.listed.add(list.kind);
    const seen = list.first ? new Set<string>() : (this.listing.get(name) ?? new Set<string>());
    for (const row of list.rows) {
      seen.add(row.u);
      this.set(row);
    }
    this.listing.set(name, seen);
    if (!list.last) return;
    this.listing.delete(name);
    for (const uid of [...(this.byKind.get(list.kind) ?? [])]) {
      const row = this.rows.get(uid);
      if (row && !seen.has(uid) && (list.ns === null || row.ns === list.ns)) this.remove(row);
    }
  }

  takeChange(change: Change): void {
    this.changesSeen += 1;
    if (change.gone) {
      const row = this.rows.get(change.u);
      if (row) this.remove(row);
      this.revision = Math.max(this.revision, change.r);
    } else {
      this.listed.add(change.k);
      this.set(change);
    }
  }

  /** Keeps one copy of texts that many rows share. */
  private share(text: string): string {
    const known = this.texts.get(text);
    if (known !== undefined) return known;
    if (this.texts.size < TEXTS_MAX) this.texts.set(text, text);
    return text;
  }

  /** Returns a row as it is kept: all rows have the same fields, so that each takes the same little memory. */
  private keep(row: Row, before: Row | undefined): Row {
    return {
      u: before?.u ?? row.u,
      k: this.share(row.k),
      ns: this.share(row.ns),
      n: before?.n ?? row.n,
      o: row.o ?? NO_OWNERS,
      r: row.r,
      c: row.c,
      m: row.m,
      by: this.share(row.by ?? ""),
      s: row.s ?? "",
      w: this.share(row.w ?? ""),
      x: row.x ?? "",
      t: row.t ?? 0,
      e: row.e ?? 0,
    };
  }

  set(sent: Row): void {
    const before = this.rows.get(sent.u);
    const row = this.keep(sent, before);
    if (before) this.unlink(before);
    else {
      getOrAdd(this.byKind, row.k).add(row.u);
      this.byName.set(nameKey(row.k, row.ns, row.n), row.u);
    }
    this.rows.set(row.u, row);
    for (const owner of row.o ?? []) getOrAdd(this.children, owner).add(row.u);
    if (row.s === "bad" || row.s === "wait" || row.e) this.troubled.add(row.u);
    this.revision = Math.max(this.revision, row.r);
    if (row.r > (this.newest.get(row.k) ?? 0)) this.newest.set(row.k, row.r);
  }

  clear(): void {
    for (const map of [this.rows, this.children, this.byKind, this.byName]) map.clear();
    this.troubled.clear();
  }

  remove(row: Row): void {
    this.unlink(row);
    this.rows.delete(row.u);
    this.byKind.get(row.k)?.delete(row.u);
    const name = nameKey(row.k, row.ns, row.n);
    if (this.byName.get(name) === row.u) this.byName.delete(name);
  }

  private unlink(row: Row): void {
    for (const owner of row.o ?? []) {
      const set = this.children.get(owner);
      set?.delete(row.u);
      if (set?.size === 0) this.children.delete(owner);
    }
    this.troubled.delete(row.u);
  }

  changed(): void {
    this.version += 1;
    if (this.isScheduled) return;
    this.isScheduled = true;
    // A hidden page gets no frames; it is drawn when it is looked at.
    requestAnimationFrame(() => {
      this.isScheduled = false;
      for (const listener of this.listeners) listener();
    });
  }
}

function nameKey(kind: string, ns: string, name: string): string {
  return `${kind} ${ns}/${name}`;
}

function getOrAdd(map: Map<string, Set<string>>, key: string): Set<string> {
  let set = map.get(key);
  if (!set) map.set(key, (set = new Set()));
  return set;
}
