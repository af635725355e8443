// The parts of an object's page.

import { useMemo, useState } from "preact/hooks";
import type { Model } from "./model";
import { diffObjects, short } from "./diff";
import type { Revision, StoryStep } from "./story";
import type { ObjectEvent, ObjectName, Row, SilentOperator } from "./types";
import { rootOf } from "./problems";
import { VirtualList } from "./virtual";
import { ago, clock, isoTime, plural } from "./words";
import { managersOf, yamlLines } from "./yaml";

const YAML_HEIGHT = 20;
const COLOURS = 8;
/** Steps shown at first: a story is read from its newest end. */
const STEPS_SHOWN = 60;

/** Operators that were asked and did not answer, and what to do about it. */
export function SilentOperators({ silent }: { silent: readonly SilentOperator[] }) {
  if (silent.length === 0) return null;
  return (
    <ul class="silent" aria-label="Operators that did not answer">
      {silent.map((one) => (
        <li key={one.operator}>
          <b>{one.operator}</b> <span class="bad-words">did not answer: {one.error}.</span> {one.advice}
        </li>
      ))}
    </ul>
  );
}

export function StoryPart({ steps, now, isRead }: { steps: StoryStep[]; now: number; isRead: boolean }) {
  const [shown, setShown] = useState(STEPS_SHOWN);
  if (!isRead) return <p class="calm">Reading…</p>;
  if (steps.length === 0) return <p class="calm">Nothing happened to it within the window of the server's history.</p>;
  return (
    <>
      <ol class="story">
        {steps.slice(0, shown).map((step) => (
          <Step key={step.id} step={step} now={now} />
        ))}
      </ol>
      {steps.length > shown && (
        <button type="button" onClick={() => setShown(shown + STEPS_SHOWN)}>
          {plural(steps.length - shown, "older step")}
        </button>
      )}
    </>
  );
}

function Step({ step, now }: { step: StoryStep; now: number }) {
  const isShort = step.lines.length <= 4 && step.kind !== "quiet";
  const head = (
    <>
      <time dateTime={isoTime(step.until)} title={isoTime(step.until)}>
        {clock(step.until, step.until % 1000 !== 0)}
      </time>
      <span class={`mark ${step.state}`} aria-hidden="true" />
      <span class="who">{step.who || "somebody"}</span>
      <span class="title">{step.title}</span>
      {step.count > 1 && (
        <span class="badge" title={`since ${isoTime(step.at)}`}>
          ×{step.count} in {ago(step.until - step.at)}
        </span>
      )}
      <span class="ago">{ago(now - step.until)} ago</span>
      {step.trigger && step.kind !== "quiet" && <span class="trigger">{because(step)}</span>}
    </>
  );
  if (step.lines.length === 0) return <li class={`step ${step.kind}`}>{head}</li>;
  return (
    <li class={`step ${step.kind}`}>
      <details open={isShort || step.state === "bad"}>
        <summary>{head}</summary>
        <dl>
          {step.trigger && step.kind === "quiet" && (
            <div>
              <dt>because</dt>
              <dd>{step.trigger}</dd>
            </div>
          )}
          {step.lines.slice(0, 100).map((line, index) => (
            <div key={index} class={line.state}>
              <dt>{line.label}</dt>
              <dd>{line.text}</dd>
            </div>
          ))}
        </dl>
      </details>
    </li>
  );
}

export function YamlPart({ revisions }: { revisions: Revision[] }) {
  const last = revisions.at(-1);
  const lines = useMemo(() => (last ? yamlLines(last.object) : []), [last]);
  const managers = useMemo(() => managersOf(lines), [lines]);
  const colour = (by: string): string => (by ? `by-${managers.indexOf(by) % COLOURS}` : "");
  if (!last) return <p class="calm">Nothing to show.</p>;
  return (
    <div class="yaml">
      <p class="legend">
        {managers.map((manager) => (
          <span key={manager} class={`manager ${colour(manager)}`}>
            {manager}
          </span>
        ))}
      </p>
      <VirtualList
        items={lines}
        height={YAML_HEIGHT}
        label="Fields, coloured by who wrote them"
        keyOf={(_, index) => String(index)}
        line={(line) => (
          <span class={`yaml-line ${colour(line.by)}`} title={line.by ? `${line.path}: ${line.by}` : line.path}>
            {"  ".repeat(line.indent)}
            {line.text}
          </span>
        )}
      />
    </div>
  );
}

export function ChangesPart({ revisions, now }: { revisions: Revision[]; now: number }) {
  const [chosen, setChosen] = useState<{ from?: number; to?: number }>({});
  const to = revisions.find((one) => one.number === chosen.to) ?? revisions.at(-1);
  const before = to && revisions[revisions.indexOf(to) - 1];
  const from = revisions.find((one) => one.number === chosen.from) ?? before;
  const changes = useMemo(() => (to ? diffObjects(from?.object, to.object) : []), [from, to]);
  if (!to) return <p class="calm">Nothing to show.</p>;
  const select = (label: string, value: Revision | undefined, onChange: (number: number) => void) => (
    <label>
      {label}{" "}
      <select value={value?.number ?? ""} onChange={(event) => onChange(Number(event.currentTarget.value))}>
        {!value && <option value="">nothing</option>}
        {[...revisions].reverse().map((one) => (
          <option key={`${one.number} ${one.gone}`} value={one.number}>
            {one.number} {one.gone ? "deleted" : one.by}, {ago(now - one.at)} ago
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <p class="choose">
        {select("from", from, (number) => setChosen({ ...chosen, from: number }))}
        {select("to", to, (number) => setChosen({ ...chosen, to: number }))}
      </p>
      {!from && <p class="calm">This is the oldest revision in the window.</p>}
      {from && changes.length === 0 && <p class="calm">The two are equal.</p>}
      {from && (
        <dl class="diff">
          {changes.map((change) => (
            <div key={change.path}>
              <dt>{change.path}</dt>
              {change.before !== undefined && <dd class="before">{short(change.before)}</dd>}
              {change.after !== undefined && <dd class="after">{short(change.after)}</dd>}
            </div>
          ))}
        </dl>
      )}
    </>
  );
}

export function EventsPart({ events, now }: { events: ObjectEvent[]; now: number }) {
  if (events.length === 0) return <p class="calm">Nobody recorded an Event about it.</p>;
  const sorted = [...events].sort((one, other) => (one.at ?? "") < (other.at ?? "") ? 1 : -1);
  return (
    <ol class="story">
      {sorted.map((event) => (
        <li key={event.uid} class="step event">
          <time dateTime={event.at ?? ""} title={event.at ?? ""}>
            {ago(now - (Date.parse(event.at ?? "") || now))}
          </time>
          <span class={`mark ${event.type === "Warning" ? "bad" : "none"}`} aria-hidden="true" />
          <span class="who">{event.by ?? ""}</span>
          <span class="title">{event.reason}</span>
          {event.count > 1 && <span class="badge">×{event.count}</span>}
          <span class="trigger">{event.message}</span>
        </li>
      ))}
    </ol>
  );
}

interface WhyProperties {
  model: Model;
  object: ObjectName;
  row: Row | undefined;
  steps: StoryStep[];
  now: number;
}

/** The story as text, for a report or a question to somebody else. */
export function WhyPart({ model, object, row, steps, now }: WhyProperties) {
  const [isCopied, setCopied] = useState(false);
  const text = whyText(model, object, row, steps, now);
  return (
    <>
      <button
        type="button"
        onClick={() => {
          void navigator.clipboard.writeText(text).then(() => setCopied(true));
        }}
      >
        {isCopied ? "Copied" : "Copy"}
      </button>
      <pre class="why" tabIndex={0}>
        {text}
      </pre>
    </>
  );
}

/** The trigger of a run as a reason; who made a write is none. */
function because(step: StoryStep): string {
  return step.id.startsWith("run") ? `because ${step.trigger}` : step.trigger;
}

function whyText(model: Model, object: ObjectName, row: Row | undefined, steps: StoryStep[], now: number): string {
  const lines = [`${model.kindName(object.kind)} ${object.ns ? `${object.ns}/` : ""}${object.name} at ${isoTime(now)}`];
  if (!row) lines.push("does not exist now");
  else {
    lines.push(`is ${row.w || "there"}${row.x ? `: ${row.x}` : ""}`);
    const root = rootOf(model, row);
    if (root !== row) lines.push(`belongs to ${model.kindName(root.k)} ${root.n}`);
  }
  lines.push("", "newest first:");
  for (const step of steps.slice(0, 100)) {
    const times = step.count > 1 ? ` (×${step.count} since ${isoTime(step.at)})` : "";
    lines.push(`${isoTime(step.until)}  ${step.who || "somebody"} ${step.title}${times}${step.trigger ? `, ${because(step)}` : ""}`);
    for (const line of step.lines.slice(0, 20)) lines.push(`    ${line.label ? `${line.label}: ` : ""}${line.text}`);
  }
  return lines.join("\n");
}
