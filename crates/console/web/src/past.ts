// The past: the state at the start of the window, and every change since, which can be undone and done again.

import { Model } from "./model";
import { follow, type StreamStatus } from "./stream";
import type { Change, Hello, Row } from "./types";

/** The changes that are kept, the newest: so much can be rewound. */
const CHANGES_MAX = 5000;

export interface PastChange {
  change: Change;
  before: Row | undefined;
}

export class Past {
  /** The objects as they were at `position`. */
  model = new Model();
  /** Oldest first, by revision. */
  log: PastChange[] = [];
  /** How many changes of the log are done. */
  position = 0;
  /** Follows the present. */
  isLive = true;
  status: StreamStatus = { state: "opening", message: "" };
  isRead = false;
  from = 0;
  isRecording = false;

  start(present: Model): () => void {
    this.model.kinds = present.kinds;
    return follow(
      "/api/past",
      (event, data) => this.take(event, data, present),
      (status) => {
        this.status = status;
        this.model.changed();
      },
    );
  }

  moveTo(position: number): void {
    const target = Math.max(0, Math.min(this.log.length, position));
    while (this.position < target) this.redo(this.log[this.position++]!);
    while (this.position > target) this.undo(this.log[--this.position]!);
    this.isLive = target === this.log.length && !this.isRecording;
    this.model.changed();
  }

  /** Does everything that was made until this time, in milliseconds since 1970. */
  moveToTime(time: number): void {
    let position = this.log.length;
    while (position > 0 && changeTime(this.log[position - 1]!.change) > time) position--;
    this.moveTo(position);
  }

  /** Shows the moment after the step that made the difference; without one, the end. */
  moveToDecisive(): void {
    const place = this.log.findIndex(({ change }) => change.isDecisive);
    this.moveTo(place < 0 ? this.log.length : place + 1);
    this.isLive = false;
  }

  /** Returns when the last change that is done was made, in milliseconds since 1970. */
  time(): number {
    const last = this.log[this.position - 1] ?? this.log[0];
    return last ? changeTime(last.change) : Date.now();
  }

  private take(event: string, data: unknown, present: Model): void {
    if (event === "hello") {
      this.from = (data as Hello).from ?? 0;
      this.isRecording = (data as Hello).recording !== undefined;
      Object.assign(this, { log: [], position: 0, isLive: true, isRead: false });
      this.model.clear();
    } else if (event === "list") {
      for (const row of (data as { rows: Row[] }).rows) this.model.set(row);
    } else if (event === "synced") {
      this.isRead = true;
      this.model.isSynced = true;
      if (this.isRecording) this.moveToDecisive();
    } else if (event === "changes") {
      for (const change of (data as { changes: Change[] }).changes) this.add(change);
    }
    this.model.kinds = present.kinds;
    this.model.clockSkew = present.clockSkew;
    this.model.changed();
  }

  /** Inserts a change where its revision belongs: kinds are watched apart and may arrive out of order. */
  private add(change: Change): void {
    if (this.isRenewal(change)) return;
    let place = this.log.length;
    while (place > 0 && this.log[place - 1]!.change.r > change.r) place--;
    const resume = this.isLive ? Infinity : this.position >= place ? this.position + 1 : this.position;
    if (this.position > place) this.rewind(place);
    // What the object was before: the change of it that came last, or what the window began with.
    const entry: PastChange = { change, before: undefined };
    this.log.splice(place, 0, entry);
    const isLive = this.isLive;
    const target = Math.min(resume, this.log.length);
    while (this.position < target) this.redo(this.log[this.position++]!);
    this.isLive = isLive;
    while (this.log.length > CHANGES_MAX && this.position > 0) {
      this.log.shift();
      this.position -= 1;
    }
  }

  /** A Lease that is renewed is no event; it happens all the time. */
  private isRenewal(change: Change): boolean {
    const before = this.model.rows.get(change.u);
    if (!change.e || change.gone || !this.isLive || !before || before.w !== change.w) return false;
    this.model.set(change);
    return true;
  }

  private rewind(place: number): void {
    while (this.position > place) this.undo(this.log[--this.position]!);
  }

  private redo(entry: PastChange): void {
    if (entry.change.note !== undefined) return;
    entry.before = this.model.rows.get(entry.change.u);
    this.model.takeChange(entry.change);
  }

  private undo(entry: PastChange): void {
    if (entry.change.note !== undefined) return;
    if (entry.before) this.model.set(entry.before);
    else {
      const row = this.model.rows.get(entry.change.u);
      if (row) this.model.remove(row);
    }
  }
}

export function changeTime(change: Change): number {
  return change.at ?? Math.max(change.m, change.c) * 1000;
}
