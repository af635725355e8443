// One object: its tree, its story, its fields, its revisions, its log, and why, as text.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Model } from "./model";
import { useKept, useModel, useSeconds } from "./hooks";
import { isTyping } from "./keys";
import { ChangesPart, EventsPart, SilentOperators, StoryPart, WhyPart, YamlPart } from "./parts";
import { LogPart } from "./log";
import { rootOf } from "./problems";
import { makeRevision, tellStory, type Revision } from "./story";
import { follow, type StreamStatus } from "./stream";
import { treeLines } from "./tree";
import { markOf, TreeView } from "./treeview";
import type { JournalRecord, JsonObject, ObjectEvent, ObjectName, Row, SilentOperator, WriteRecord } from "./types";
import { objectHash, rowName } from "./words";

/** The revisions that are kept, the newest: a hot loop must not fill the memory of the page. */
const REVISIONS_MAX = 200;
const EVENTS_MAX = 200;

export interface ObjectFacts {
  revisions: Revision[];
  records: JournalRecord[];
  writes: WriteRecord[];
  events: ObjectEvent[];
  /** Operators whose part of the story is missing. */
  silent: SilentOperator[];
  status: StreamStatus;
  isRead: boolean;
}

const PARTS = ["Story", "YAML", "Changes", "Events", "Log", "Why"] as const;
type Part = (typeof PARTS)[number];

export function ObjectPage({ model, object }: { model: Model; object: ObjectName }) {
  useModel(model);
  const now = useSeconds(model);
  const facts = useFacts(object);
  const [part, setPart] = useState<Part>("Story");
  const parts = PARTS.filter((one) => one !== "Log" || object.kind === "pods");
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const chosen = parts[Number(event.key) - 1];
      if (!isTyping(event) && chosen) setPart(chosen);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [parts.length]);
  const row = model.find(object.kind, object.ns, object.name);
  const steps = useMemo(() => tellStory(facts), [facts]);
  return (
    <main class="page object" id="main">
      <ObjectHead model={model} object={object} row={row} now={now} />
      {facts.status.state === "refused" && <p role="alert">{facts.status.message}</p>}
      <div class="columns">
        <section class="side" aria-label="Owners and what they own">
          {row ? <OwnTree model={model} row={row} now={now} /> : <p class="calm">It does not exist at present.</p>}
        </section>
        <section class="main">
          <div class="tabs" role="tablist" aria-label="Parts">
            {parts.map((one) => (
              <button key={one} type="button" role="tab" id={`tab-${one}`} aria-controls="part" aria-selected={part === one} onClick={() => setPart(one)}>
                {one}
              </button>
            ))}
          </div>
          <div class="part" id="part" role="tabpanel" aria-labelledby={`tab-${part}`} tabIndex={0}>
            {(part === "Story" || part === "Why") && <SilentOperators silent={facts.silent} />}
            {part === "Story" && <StoryPart steps={steps} now={now} isRead={facts.isRead} />}
            {part === "YAML" && <YamlPart revisions={facts.revisions} />}
            {part === "Changes" && <ChangesPart revisions={facts.revisions} now={now} />}
            {part === "Events" && <EventsPart events={facts.events} now={now} />}
            {part === "Log" && <LogPart object={object} facts={facts} />}
            {part === "Why" && <WhyPart model={model} object={object} row={row} steps={steps} now={now} />}
          </div>
        </section>
      </div>
    </main>
  );
}

function ObjectHead({ model, object, row, now }: { model: Model; object: ObjectName; row: Row | undefined; now: number }) {
  const owners = (row?.o ?? []).map((uid) => model.rows.get(uid)).filter((one) => one !== undefined);
  return (
    <div class="object-head">
      <h1>
        <span class={`mark ${row ? markOf(row, now) : "none"}`} aria-hidden="true" />
        <span class="kind">{model.kindName(object.kind)}</span> {object.name}
        {object.ns && <small> in {object.ns}</small>}
        {row?.w && <small class="words"> {row.w}</small>}
      </h1>
      {row?.x && row.s !== "good" && <p class="cause">{row.x}</p>}
      {owners.length > 0 && (
        <p class="owners">
          owned by{" "}
          {owners.map((owner) => (
            <a key={owner.u} href={objectHash(rowName(owner))}>
              {model.kindName(owner.k)} {owner.n}
            </a>
          ))}
        </p>
      )}
    </div>
  );
}

function OwnTree({ model, row, now }: { model: Model; row: Row; now: number }) {
  const root = rootOf(model, row);
  const lines = (flips: ReadonlySet<string>) => useKept(() => treeLines(model, root, flips), [model.version, root.u, flips]);
  return <TreeView model={model} now={now} label="Tree of owners" lines={lines} current={row.u} rootDepth={0} />;
}

/** Follows the object: its revisions in the window, its Events, and what operators did. */
function useFacts(object: ObjectName): ObjectFacts {
  const [facts, setFacts] = useState<ObjectFacts>({ revisions: [], records: [], writes: [], events: [], silent: [], status: { state: "opening", message: "" }, isRead: false });
  useEffect(() => {
    const query = new URLSearchParams({ kind: object.kind, namespace: object.ns, name: object.name });
    let state = facts;
    let isScheduled = false;
    const update = (change: Partial<ObjectFacts>): void => {
      state = { ...state, ...change };
      if (isScheduled) return;
      isScheduled = true;
      requestAnimationFrame(() => {
        isScheduled = false;
        setFacts(state);
      });
    };
    const onEvent = (event: string, data: unknown): void => {
      switch (event) {
        case "object": {
          const { current, before } = data as { current: JsonObject | null; before: JsonObject | null };
          const first = [before, current].filter((one) => one !== null).map((one) => makeRevision(one, false, Date.now()));
          update({ revisions: mergeRevisions([], first), isRead: true });
          break;
        }
        case "revision": {
          const { gone, at, object } = data as { gone: boolean; at: number; object: JsonObject };
          update({ revisions: mergeRevisions(state.revisions, [makeRevision(object, gone, at)]) });
          break;
        }
        case "event": {
          const one = data as ObjectEvent;
          update({ events: [...state.events.filter((other) => other.uid !== one.uid), one].slice(-EVENTS_MAX) });
          break;
        }
        case "records":
          update({ records: data as JournalRecord[] });
          break;
        case "writes":
          update({ writes: data as WriteRecord[] });
          break;
        case "silent":
          update({ silent: data as SilentOperator[] });
          break;
      }
    };
    return follow(`/api/object?${query}`, onEvent, (status) => update({ status }));
  }, [object.kind, object.ns, object.name]);
  return facts;
}

function mergeRevisions(known: readonly Revision[], more: readonly Revision[]): Revision[] {
  const last = known.at(-1);
  if (more.length === 1 && last && more[0]!.number > last.number) return [...known, more[0]!].slice(-REVISIONS_MAX);
  const byNumber = new Map([...known, ...more].map((one) => [`${one.number} ${one.gone}`, one]));
  return [...byNumber.values()].sort((one, other) => one.number - other.number).slice(-REVISIONS_MAX);
}
