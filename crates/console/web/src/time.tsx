// Rewind to any revision of the window, and watch what happened.

import { useEffect, useState } from "preact/hooks";
import type { Model } from "./model";
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
  const end = Math.max(start + 1000, Math.ceil(model.now() / 1000) * 1000);
  const problems = useKept(() => findProblems(past.model, now), [past.model.version]);
  return (
    <main class="page time" id="main">
      <h1>
        {past.isLive ? "The present" : `Revision ${current?.change.r ?? past.from}`}
        <small>
          {" "}
          {past.isLive ? "" : `${clock(now)}, ${ago(model.now() - now)} ago; `}
          {plural(past.log.length, "change")} in the window
        </small>
      </h1>
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
            step={1000}
            value={past.isLive ? end : past.position === 0 ? start : past.time()}
            onInput={(event) => past.moveToTime(Number(event.currentTarget.value))}
          />
        </div>
        <button type="button" disabled={past.isLive} onClick={() => past.moveTo(past.log.length)}>
          Now
        </button>
      </div>
      <div class="columns">
        <section class="side changes" aria-label="Changes">
          <VirtualList
            items={past.log}
            height={CHANGE_HEIGHT}
            label="Changes"
            focus={Math.max(0, past.position - 1)}
            keyOf={({ change }) => `${change.r} ${change.u}`}
            line={(entry, index) => <ChangeLine past={past} entry={entry} index={index} now={now} />}
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

function ChangeLine({ past, entry, index, now }: { past: Past; entry: PastChange; index: number; now: number }) {
  const { change, before } = entry;
  const isDone = index < past.position;
  const verb = change.gone ? "deleted" : before || index >= past.position ? (before ? "changed" : "") : "created";
  const name = index === past.position - 1 ? "selected" : isDone ? "" : "future";
  const from = before?.w && before.w !== change.w ? `${before.w} → ` : "";
  return (
    <div class={`change-line ${name}`}>
      <button type="button" class="go" title={`to revision ${change.r}`} onClick={() => past.moveTo(index + 1)}>
        {clock(changeTime(change))}
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
