// Rewind to any revision of the window, and watch what happened: in a cluster, or in a failing run of a simulation.

import { useEffect, useState } from "preact/hooks";
import type { Model } from "./model";
import type { Recording } from "./types";
import { useKept, useModel, useSeconds } from "./hooks";
import { isTyping } from "./keys";
import { Forest } from "./objects";
import { changeTime, Past, type PastChange } from "./past";
import { findProblems } from "./problems";
import { markOf } from "./treeview";
import { VirtualList } from "./virtual";
import { ago, clock, isoTime, objectHash, plural, rowName } from "./words";

const CHANGE_HEIGHT = 28;
const BARS = 120;
/** Changes shown per second while playing. */
const PLAY_MS = 120;

export function TimePage({ model }: { model: Model }) {
  const [past] = useState(() => new Past());
  const [isPlaying, setPlaying] = useState(false);
  useModel(past.model);
  useSeconds(model);
  useEffect(() => past.start(model), []);
  useEffect(() => {
    if (!isPlaying) return undefined;
    const timer = setInterval(() => {
      if (past.position >= past.log.length) setPlaying(false);
      else past.moveTo(past.position + 1);
    }, PLAY_MS);
    return () => clearInterval(timer);
  }, [isPlaying]);
  const play = (): void => {
    if (!isPlaying && past.position >= past.log.length) past.moveTo(0);
    setPlaying(!isPlaying);
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event)) return;
      if (event.key === "p") play();
      else if (event.key === "[") past.moveTo(past.position - 1);
      else if (event.key === "]") past.moveTo(past.position + 1);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const now = past.isLive ? model.now() : past.time();
  const current = past.log[past.position - 1];
  const start = past.log[0] ? changeTime(past.log[0].change) - 1000 : now - 1000;
  const recording = model.hello?.recording;
  const last = past.log.at(-1);
  const end = recording && last ? Math.max(start + 1000, changeTime(last.change)) : Math.max(start + 1000, Math.ceil(model.now() / 1000) * 1000);
  const problems = useKept(() => findProblems(past.model, now), [past.model.version]);
  return (
    <main class="page time" id="main">
      <h1>
        {past.isLive ? "The present" : `Revision ${current?.change.r ?? past.from}`}
        <small>
          {" "}
          {past.isLive ? "" : recording ? `${shownTime(now, recording)} into the run; ` : `${clock(now)}, ${ago(model.now() - now)} ago; `}
          {recording ? plural(past.log.length, "step") : `${plural(past.log.length, "change")} in the window`}
          {recording && recording.omitted > 0 ? `, ${recording.omitted.toLocaleString("en")} more were not saved` : ""}
        </small>
      </h1>
      {recording && <FailureReport title={model.hello!.title} report={recording.report} />}
      {past.status.state === "refused" && <p role="alert">{past.status.message}</p>}
      <div class="player">
        <button type="button" onClick={play} aria-label={isPlaying ? "Pause" : "Play"}>
          {isPlaying ? "❚❚" : "▶"}
        </button>
        <div class="rail">
          <Density past={past} start={start} end={end} />
          <input
            type="range"
            aria-label="Revision"
            aria-valuetext={`revision ${current?.change.r ?? past.from}`}
            min={start}
            max={end}
            step={recording ? 1 : 1000}
            value={past.isLive ? end : past.position === 0 ? start : past.time()}
            onInput={(event) => past.moveToTime(Number(event.currentTarget.value))}
          />
        </div>
        {recording ? (
          <button type="button" onClick={() => past.moveToDecisive()}>
            The difference
          </button>
        ) : (
          <button type="button" disabled={past.isLive} onClick={() => past.moveTo(past.log.length)}>
            Now
          </button>
        )}
      </div>
      <div class="columns">
        <section class="side changes" aria-label="Changes">
          <VirtualList
            items={past.log}
            height={CHANGE_HEIGHT}
            label="Changes"
            focus={Math.max(0, past.position - 1)}
            keyOf={({ change }) => `${change.r} ${change.u}`}
            line={(entry, index) =>
              entry.change.note === undefined ? (
                <ChangeLine past={past} entry={entry} index={index} now={now} recording={recording} />
              ) : (
                <NoteLine past={past} entry={entry} index={index} recording={recording} />
              )
            }
          />
        </section>
        <section class="main" aria-label="Objects at this revision">
          <p class="calm">
            {plural(past.model.rows.size, "object")}, {plural(problems.length, "problem")} then
            {problems[0] && (
              <>
                :{" "}
                {problems.slice(0, 3).map((problem) => (
                  <span key={problem.id} class="then">
                    <span class={`mark ${problem.severity}`} aria-hidden="true" /> {problem.object?.name ?? problem.title} {problem.words}
                  </span>
                ))}
              </>
            )}
          </p>
          <Forest model={past.model} now={now} filter="" />
        </section>
      </div>
    </main>
  );
}

/** The time of day; in a recording, the time since it began. */
function shownTime(ms: number, recording: Recording | undefined): string {
  return recording ? `${((ms - recording.start) / 1000).toFixed(3)} s` : clock(ms);
}

function FailureReport({ title, report }: { title: string; report: string }) {
  return (
    <details class="report">
      <summary>{title}: the report</summary>
      <pre tabIndex={0}>{report}</pre>
    </details>
  );
}

interface LineProperties {
  past: Past;
  entry: PastChange;
  index: number;
  recording: Recording | undefined;
}

/** A line of a recording's timeline: what somebody did, or a fault. */
function NoteLine({ past, entry: { change }, index, recording }: LineProperties) {
  const place = index === past.position - 1 ? "selected" : index < past.position ? "" : "future";
  const isFault = change.s === "bad";
  return (
    <div class={`change-line note ${place} ${isFault ? "fault" : ""} ${change.isDecisive ? "decisive" : ""}`}>
      <button type="button" class="go" title="to this step" onClick={() => past.moveTo(index + 1)}>
        {shownTime(changeTime(change), recording)}
      </button>
      <span class={`mark ${isFault ? "bad" : "none"}`} aria-hidden="true" />
      {change.isDecisive && <strong>This makes the difference:</strong>}
      <span class="words" title={change.note}>
        {change.note}
      </span>
      <span class="who">{change.by}</span>
    </div>
  );
}

function ChangeLine({ past, entry, index, now, recording }: LineProperties & { now: number }) {
  const { change, before } = entry;
  const isDone = index < past.position;
  const verb = change.gone ? "deleted" : before || index >= past.position ? (before ? "changed" : "") : "created";
  const name = index === past.position - 1 ? "selected" : isDone ? "" : "future";
  const from = before?.w && before.w !== change.w ? `${before.w} → ` : "";
  return (
    <div class={`change-line ${name}`}>
      <button type="button" class="go" title={`to revision ${change.r}`} onClick={() => past.moveTo(index + 1)}>
        {shownTime(changeTime(change), recording)}
      </button>
      <span class={`mark ${change.gone ? "none" : markOf(change, now)}`} aria-hidden="true" />
      <a href={objectHash(rowName(change))} title={`${isoTime(changeTime(change))} revision ${change.r}`}>
        <span class="kind">{past.model.kindName(change.k)}</span> {change.n}
      </a>
      <span class="words">
        {verb} {change.gone ? "" : `${from}${change.w ?? ""}`}
      </span>
      <span class="who">{change.by}</span>
    </div>
  );
}

/** How much happened when, as bars; failures stand out. */
function Density({ past, start, end }: { past: Past; start: number; end: number }) {
  const { counts, bad } = useKept(() => countBars(past.log, start, end), [past.log.length, start, Math.floor(end / 1000)]);
  const highest = Math.max(1, ...counts);
  return (
    <svg class="density" viewBox={`0 0 ${BARS} 20`} preserveAspectRatio="none" aria-hidden="true">
      {counts.map((count, index) => {
        // Logarithmic: one change among hundreds still shows.
        const height = count === 0 ? 0 : 3 + (Math.log1p(count) / Math.log1p(highest)) * 17;
        return <rect key={index} class={bad[index] ? "bad" : ""} x={index + 0.1} y={20 - height} width={0.8} height={height} />;
      })}
    </svg>
  );
}

function countBars(log: readonly PastChange[], start: number, end: number): { counts: number[]; bad: boolean[] } {
  const counts = new Array<number>(BARS).fill(0);
  const bad = new Array<boolean>(BARS).fill(false);
  for (const { change } of log) {
    const share = (changeTime(change) - start) / Math.max(1, end - start);
    const place = Math.max(0, Math.min(BARS - 1, Math.floor(share * BARS)));
    counts[place]! += 1;
    if (change.s === "bad") bad[place] = true;
  }
  return { counts, bad };
}
