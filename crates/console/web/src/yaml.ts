// An object as lines of YAML, each with who manages it.

import type { Json, JsonObject } from "./types";

export interface YamlLine {
  text: string;
  indent: number;
  /** The managers of the field; empty if nobody claims it. */
  by: string;
  path: string;
}

/** One manager's claim on a part of the object. */
interface Claim {
  manager: string;
  fields: JsonObject;
}

/** Returns the lines of an object. Its managed fields are told by the colours. */
export function yamlLines(object: JsonObject): YamlLine[] {
  const meta = (object.metadata ?? {}) as JsonObject;
  const claims = ((meta.managedFields ?? []) as JsonObject[]).map((entry): Claim => ({
    manager: String(entry.manager ?? "") + (entry.subresource ? `/${String(entry.subresource)}` : ""),
    fields: (entry.fieldsV1 ?? {}) as JsonObject,
  }));
  const { managedFields: _, ...shownMeta } = meta;
  const lines: YamlLine[] = [];
  addFields({ ...object, metadata: shownMeta }, 0, "", claims, "", lines);
  return lines;
}

export function managersOf(lines: readonly YamlLine[]): string[] {
  return [...new Set(lines.map((line) => line.by).filter(Boolean))];
}

function addFields(object: JsonObject, indent: number, path: string, claims: Claim[], owner: string, lines: YamlLine[]): void {
  for (const [name, value] of Object.entries(object)) {
    const [inner, by] = descend(claims, `f:${name}`, owner);
    addValue(`${key(name)}:`, value, indent, `${path}.${name}`, inner, by, lines);
  }
}

function addValue(head: string, value: Json, indent: number, path: string, claims: Claim[], by: string, lines: YamlLine[]): void {
  const line = (text: string): void => void lines.push({ text, indent, by, path: path.slice(1) });
  if (Array.isArray(value)) {
    line(value.length === 0 ? `${head} []` : head);
    for (const [index, item] of value.entries()) addItem(item, indent, `${path}[${index}]`, claims, by, lines);
  } else if (value !== null && typeof value === "object") {
    const isEmpty = Object.keys(value).length === 0;
    line(isEmpty ? `${head} {}` : head);
    addFields(value, indent + 1, path, claims, by, lines);
  } else if (typeof value === "string" && value.includes("\n")) {
    line(`${head} |${value.endsWith("\n") ? "" : "-"}`);
    for (const text of value.replace(/\n$/, "").split("\n")) lines.push({ text, indent: indent + 1, by, path: path.slice(1) });
  } else line(`${head} ${scalar(value)}`);
}

function addItem(item: Json, indent: number, path: string, claims: Claim[], owner: string, lines: YamlLine[]): void {
  const [inner, by] = descend(claims, (name) => isItem(name, item), owner);
  if (item !== null && typeof item === "object" && !Array.isArray(item) && Object.keys(item).length > 0) {
    const start = lines.length;
    addFields(item, indent + 1, path, inner, by, lines);
    const first = lines[start]!;
    lines[start] = { ...first, text: `- ${first.text}`, indent };
  } else addValue("-", item, indent, path, inner, by, lines);
}

/** Returns the claims on a part, and who owns it: who claims exactly this part, or all of a larger one. */
function descend(claims: Claim[], step: string | ((name: string) => boolean), owner: string): [Claim[], string] {
  const inner: Claim[] = [];
  for (const { manager, fields } of claims) {
    const name = typeof step === "string" ? step : Object.keys(fields).find(step);
    const found = name === undefined ? undefined : fields[name];
    if (found !== undefined && found !== null) inner.push({ manager, fields: found as JsonObject });
  }
  const owners = inner.filter(({ fields }) => "." in fields || Object.keys(fields).length === 0);
  const whole = inner.filter(({ fields }) => Object.keys(fields).length === 0);
  return [inner, owners.length > 0 ? owners.map((claim) => claim.manager).join(", ") : inner.length > 0 && whole.length === 0 ? "" : owner];
}

/** Returns whether a claim's name, `k:{"name":"app"}` or `v:"text"`, means this item. */
function isItem(name: string, item: Json): boolean {
  try {
    const wanted = JSON.parse(name.slice(2)) as Json;
    if (name.startsWith("v:")) return JSON.stringify(wanted) === JSON.stringify(item);
    if (!name.startsWith("k:") || item === null || typeof item !== "object" || Array.isArray(item)) return false;
    return Object.entries(wanted as JsonObject).every(([field, value]) => item[field] === value);
  } catch {
    return false;
  }
}

function key(name: string): string {
  return /^[\w.\/-]+$/.test(name) ? name : JSON.stringify(name);
}

function scalar(value: Json): string {
  if (typeof value !== "string") return String(value);
  const isPlain = /^[A-Za-z\/_(][\w .,\/:@()+=*'-]*$/.test(value) && !/: |^(true|false|null|yes|no|on|off|y|n)$|[ :]$/i.test(value);
  return isPlain ? value : JSON.stringify(value);
}
