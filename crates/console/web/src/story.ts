// What happened to an object, as steps: its revisions, and the runs of its reconcilers from trigger to result. Runs that
// say the same are told once, with their number.

import { describeChange, diffObjects } from "./diff";
import type { JournalRecord, JsonObject, ObjectEvent, WriteRecord } from "./types";
import { duration, parseKey } from "./words";

/** One state of the object. */
export interface Revision {
  number: number;
  at: number;
  by: string;
  gone: boolean;
  object: JsonObject;
}

export interface StoryStep {
  id: string;
  at: number;
  /** The last time, if it happened several times. */
  until: number;
  count: number;
  kind: "edit" | "run" | "event" | "quiet";
  state: "good" | "bad" | "wait" | "none";
  who: string;
  title: string;
  trigger: string;
  lines: { label: string; text: string; state?: "bad" | undefined }[];
}

export function makeRevision(object: JsonObject, gone: boolean, at: number): Revision {
  const meta = object.metadata as JsonObject;
  const entries = (meta.managedFields ?? []) as JsonObject[];
  const last = entries.reduce<JsonObject | undefined>((best, one) => (!best || String(one.time ?? "") >= String(best.time ?? "") ? one : best), undefined);
  const written = Date.parse(String((gone ? undefined : last?.time) ?? "")) || at;
  const by = String(last?.manager ?? "") + (last?.subresource ? ` (${String(last.subresource)})` : "");
  return { number: Number(meta.resourceVersion ?? 0), at: gone ? at : written, by: gone ? "" : by, gone, object };
}

/** What a story is made of. */
export interface StoryFacts {
  revisions: readonly Revision[];
  records: readonly JournalRecord[];
  writes: readonly WriteRecord[];
  events: readonly ObjectEvent[];
}

export function tellStory({ revisions, records, writes, events }: StoryFacts): StoryStep[] {
  const steps = [...stepsOfRevisions(revisions, timesOfWrites(records), writes), ...stepsOfRefusals(writes), ...stepsOfRecords(records), ...stepsOfEvents(events)];
  steps.sort((one, other) => one.at - other.at);
  return groupSame(steps).reverse();
}

/** Returns when each revision was written, where a controller of ours wrote it: managed fields know only the second. */
function timesOfWrites(records: readonly JournalRecord[]): Map<number, number> {
  const times = new Map<number, number>();
  for (const { at, entry } of records) {
    const outcome = entry.outcome as { revision?: unknown } | undefined;
    if (entry.entry === "wrote" && outcome?.revision) times.set(Number(outcome.revision), Date.parse(at));
  }
  return times;
}

function stepsOfRevisions(revisions: readonly Revision[], times: Map<number, number>, writes: readonly WriteRecord[]): StoryStep[] {
  const byRevision = new Map(writes.filter((write) => write.after !== null).map((write) => [Number(write.after), write]));
  return revisions.map((revision, index) => {
    const write = byRevision.get(revision.number);
    const at = (write && Date.parse(write.at)) || times.get(revision.number) || revision.at;
    const before = revisions[index - 1];
    const changes = before ? diffObjects(before.object, revision.object) : [];
    const isNew = !before;
    const title = revision.gone ? "was deleted" : isNew ? `is at revision ${revision.number}` : `changed to revision ${revision.number}`;
    return {
      id: `revision ${revision.number} ${revision.gone}`,
      at,
      until: at,
      count: 1,
      kind: "edit",
      state: "none",
      who: write ? writerName(write) : revision.by,
      title,
      trigger: write ? writerWords(write) : "",
      lines: changes.map((change) => ({ label: "", text: describeChange(change) })),
    };
  });
}

/** The field manager of a write: managed fields know only the second, so they may name another one. */
function writerName(write: WriteRecord): string {
  const name = write.manager || write.agent.split(/[ /]/)[0] || write.user;
  return write.subresource ? `${name} (${write.subresource})` : name;
}

/** Who sent a write, with which program. */
function writerWords(write: WriteRecord): string {
  const program = write.agent.split(/[ /]/)[0];
  return `${write.verb}${write.subresource ? ` of ${write.subresource}` : ""} by ${write.user}${program ? ` with ${program}` : ""}`;
}

function stepsOfRefusals(writes: readonly WriteRecord[]): StoryStep[] {
  const refused = writes.filter((write) => write.refusal !== null);
  return refused.map((write, index) => ({
    id: `refusal ${write.at} ${index}`,
    at: Date.parse(write.at),
    until: Date.parse(write.at),
    count: 1,
    kind: "run",
    state: "bad",
    who: write.user,
    title: `was refused (${write.refusal!.code})`,
    trigger: writerWords(write),
    lines: [{ label: "error", text: write.refusal!.message, state: "bad" }],
  }));
}

function stepsOfEvents(events: readonly ObjectEvent[]): StoryStep[] {
  return events.map((event) => {
    const at = Date.parse(event.at ?? "") || 0;
    return {
      id: `event ${event.uid}`,
      at,
      until: at,
      count: event.count,
      kind: "event",
      state: event.type === "Warning" ? "bad" : "none",
      who: event.by ?? "",
      title: event.reason,
      trigger: "",
      lines: [{ label: "", text: event.message }],
    };
  });
}

/** Gathers the records of each run: everything of one controller from its start to its end. */
function stepsOfRecords(records: readonly JournalRecord[]): StoryStep[] {
  const steps: StoryStep[] = [];
  const open = new Map<string, StoryStep>();
  for (const [index, record] of records.entries()) {
    const { entry } = record;
    const at = Date.parse(record.at);
    const begin = (title: string): StoryStep => {
      const step: StoryStep = {
        id: `run ${record.at} ${record.source} ${index}`,
        at,
        until: at,
        count: 1,
        kind: "run",
        state: "wait",
        who: record.source,
        title,
        trigger: "",
        lines: [],
      };
      steps.push(step);
      return step;
    };
    if (entry.entry === "observed" || entry.entry === "queued") continue;
    if (entry.entry === "started") {
      const step = begin("is reconciling");
      step.trigger = (entry.causes as Cause[]).map(causeWords).join("; ");
      open.set(record.source, step);
      continue;
    }
    const step = open.get(record.source) ?? begin("");
    step.until = at;
    addRecord(step, entry);
    if (["settled", "failed", "cancelled", "quarantined"].includes(entry.entry)) open.delete(record.source);
  }
  return steps;
}

function addRecord(step: StoryStep, entry: JournalRecord["entry"]): void {
  const text = (name: string): string => String(entry[name] ?? "");
  switch (entry.entry) {
    case "read":
      step.lines.push({ label: "read", text: entry.revision ? `${keyWords(text("read"))} at ${text("revision")}` : `${keyWords(text("read"))}: not found` });
      break;
    case "wrote": {
      const outcome = entry.outcome as { outcome: string; revision?: unknown; error?: string };
      const words =
        outcome.outcome === "done"
          ? outcome.revision
            ? `now ${String(outcome.revision)}`
            : "done"
          : outcome.outcome === "skipped"
            ? "nothing to change"
            : outcome.outcome === "fenced"
              ? "not sent: the lease is lost"
              : `failed: ${outcome.error ?? ""}`;
      const diff = (entry.diff as unknown[] | undefined) ?? [];
      step.lines.push({ label: "wrote", text: `${text("verb")} ${keyWords(text("target"))}: ${words}`, state: outcome.outcome === "failed" ? "bad" : undefined });
      for (const change of diff) step.lines.push({ label: "", text: typeof change === "string" ? change : JSON.stringify(change) });
      break;
    }
    case "drifted":
      step.lines.push({ label: "drift", text: `${text("target")} at ${((entry.diff as string[]) ?? []).join(" ")}` });
      break;
    case "handled": {
      const outcome = entry.outcome as { outcome: string; error?: string };
      step.lines.push({ label: "handler", text: `${text("handler")} in ${duration(entry.took)}: ${outcome.error ?? "done"}`, state: outcome.error ? "bad" : undefined });
      break;
    }
    case "failed": {
      const fault = entry.fault as { fault: string; after?: unknown };
      step.state = "bad";
      step.title = `failed after ${duration(entry.took)}`;
      step.lines.push({ label: "error", text: text("error"), state: "bad" });
      step.lines.push({ label: "next", text: fault.fault === "terminal" ? "not retried until it changes" : `retried in ${duration(fault.after)}` });
      break;
    }
    case "settled": {
      const next = entry.next as { next: string; after?: unknown };
      const wrote = step.lines.some((line) => line.label === "wrote" && !line.text.endsWith("nothing to change"));
      step.state = "good";
      step.title = wrote ? `acted, in ${duration(entry.took)}` : "had nothing to do";
      if (!wrote && !step.lines.some((line) => line.state === "bad")) step.kind = "quiet";
      step.lines.push({ label: "next", text: next.next === "requeue" ? `again in ${duration(next.after)}` : next.next === "gone" ? "it is gone" : "waits for a change" });
      break;
    }
    case "cancelled":
      step.title = "was cut off: the operator stopped or lost its lease";
      break;
    case "quarantined":
      step.state = "bad";
      step.title = "cannot decode it";
      step.lines.push({ label: "error", text: text("error"), state: "bad" });
      break;
    case "panicked":
      step.state = "bad";
      step.title = `${text("function")} panicked`;
      step.lines.push({ label: "error", text: text("message"), state: "bad" });
      break;
  }
}

/** Joins neighbours that say the same: retries, and looks that found nothing to do. */
function groupSame(steps: StoryStep[]): StoryStep[] {
  const grouped: StoryStep[] = [];
  for (const step of steps) {
    const last = grouped.at(-1);
    if (last?.kind === "quiet" && step.kind === "quiet") {
      const names = last.who.split(", ");
      const who = names.includes(step.who) ? last.who : `${last.who}, ${step.who}`;
      grouped[grouped.length - 1] = { ...step, id: last.id, at: last.at, count: last.count + step.count, who };
    } else if (last && last.kind === "run" && step.kind === "run" && last.who === step.who && last.state === step.state && sameness(last) === sameness(step)) {
      grouped[grouped.length - 1] = { ...step, id: last.id, at: last.at, count: last.count + step.count };
    } else grouped.push(step);
  }
  return grouped;
}

function sameness(step: StoryStep): string {
  const isRetry = step.state === "bad";
  const lines = step.lines.filter((line) => (isRetry ? line.label === "error" : line.label === "wrote"));
  return (isRetry ? "failed" : step.title.replace(/, in .*/, "")) + lines.map((line) => line.text.replace(/now \d+$/, "now")).join("\n");
}

interface Cause {
  cause: string;
  child?: string;
  other?: string;
  change?: string;
  source?: string;
}

function causeWords(cause: Cause): string {
  switch (cause.cause) {
    case "listed":
      return "it existed when the operator started";
    case "created":
      return "it was created";
    case "edited":
      return "it was edited";
    case "changed":
      return "its status changed";
    case "deleted":
      return "it was deleted";
    case "owned":
      return `its ${keyWords(cause.child ?? "")} was ${cause.change ?? ""}`;
    case "related":
    case "referenced":
      return `the ${cause.cause} ${keyWords(cause.other ?? "")} was ${cause.change ?? ""}`;
    case "outside":
      return `${cause.source ?? ""} asked`;
    case "requeued":
      return "it asked to run again";
    case "retried":
      return "its backoff is over";
    case "resync":
      return "its periodic run was due";
    case "interrupted":
      return "its last run was cut off";
    default:
      return cause.cause;
  }
}

function keyWords(key: string): string {
  const { kind, ns, name } = parseKey(key);
  return `${kind.split("/").at(-1)} ${ns ? `${ns}/` : ""}${name}`;
}
