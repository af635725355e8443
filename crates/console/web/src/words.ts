// Times, numbers and names as people read them.

import type { ObjectName, Row } from "./types";

/** `12s`, `4m`, `3h`, `5d`. */
export function ago(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)}h`;
  return `${Math.round(seconds / 86_400)}d`;
}

/** `12:30:01`, and with milliseconds where they are known. */
export function clock(ms: number, withMilliseconds = false): string {
  const time = new Date(ms);
  const two = (number: number): string => String(number).padStart(2, "0");
  const text = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return withMilliseconds ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** A duration of the journal: `{secs, nanos}`. */
export function duration(value: unknown): string {
  const { secs = 0, nanos = 0 } = (value ?? {}) as { secs?: number; nanos?: number };
  const ms = secs * 1000 + nanos / 1e6;
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(1)} s`;
  return ago(ms);
}

/** A key of the journal, `group/resource/namespace/name`; a group or namespace may be empty. */
export function parseKey(key: string): ObjectName {
  const [group = "", resource = "", ns = "", ...name] = key.split("/");
  return { kind: group ? `${group}/${resource}` : resource, ns, name: name.join("/") };
}

export function objectHash(object: ObjectName): string {
  const part = encodeURIComponent;
  return `#/object/${part(object.kind)}/${part(object.ns || "-")}/${part(object.name)}`;
}

export function rowName(row: Row): ObjectName {
  return { kind: row.k, ns: row.ns, name: row.n };
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
