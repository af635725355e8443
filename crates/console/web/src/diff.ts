// What differs between two states of an object, field by field.

import type { Json, JsonObject } from "./types";

export interface FieldChange {
  path: string;
  before: Json | undefined;
  after: Json | undefined;
}

/** Fields that differ in every revision and say nothing. */
const SILENT = new Set(["metadata.resourceVersion", "metadata.managedFields", "metadata.generation"]);

/** Names by which items of a list are told apart, as Kubernetes does. */
const ITEM_KEYS = ["name", "type", "containerPort", "port", "uid", "key", "ip"];

const CHANGES_MAX = 500;

export function diffObjects(before: Json | undefined, after: Json | undefined): FieldChange[] {
  const changes: FieldChange[] = [];
  compare("", before, after, changes);
  return changes;
}

export function describeChange({ path, before, after }: FieldChange): string {
  if (before === undefined) return `${path}: + ${short(after!)}`;
  if (after === undefined) return `${path}: - ${short(before)}`;
  return `${path}: ${short(before)} → ${short(after)}`;
}

export function short(value: Json): string {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 118)}…` : text;
}

function compare(path: string, before: Json | undefined, after: Json | undefined, changes: FieldChange[]): void {
  if (before === after || SILENT.has(path) || changes.length >= CHANGES_MAX) return;
  if (isObject(before) && isObject(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    for (const name of names) compare(path ? `${path}.${name}` : name, before[name], after[name], changes);
    return;
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    compareLists(path, before, after, changes);
    return;
  }
  changes.push({ path, before, after });
}

function compareLists(path: string, before: Json[], after: Json[], changes: FieldChange[]): void {
  const itemKey = ITEM_KEYS.find((name) => [...before, ...after].every((item) => isObject(item) && item[name] !== undefined));
  const label = (item: Json, index: number): string => (itemKey ? `${itemKey}=${String((item as JsonObject)[itemKey])}` : String(index));
  const olds = new Map(before.map((item, index) => [label(item, index), item]));
  const news = new Map(after.map((item, index) => [label(item, index), item]));
  for (const name of new Set([...olds.keys(), ...news.keys()])) compare(`${path}[${name}]`, olds.get(name), news.get(name), changes);
}

function isObject(value: Json | undefined): value is JsonObject {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
