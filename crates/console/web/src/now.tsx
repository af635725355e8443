// The first page: what is stuck or failing, then how the operators are doing.

import type { Model } from "./model";
import type { Controller, Watch, World } from "./types";
import { useKept, useModel, useSeconds } from "./hooks";
import { findProblems, type Problem } from "./problems";
import { useLineKeys } from "./keys";
import { missingWords, silentOperators } from "./operators";
import { SilentOperators } from "./parts";
import { ago, isoTime, objectHash, plural } from "./words";
import { VirtualList } from "./virtual";

const PROBLEM_HEIGHT = 64;

const SEVERITY_WORDS = { bad: "failing", stuck: "stuck", alarm: "alarm" } as const;

export function NowPage({ model }: { model: Model }) {
  useModel(model);
  const now = useSeconds(model);
  const problems = useKept(() => findProblems(model, now), [model.version, Math.floor(now / 1000)]);
  const selected = useLineKeys(problems.length, (index) => {
    const object = problems[index]?.object;
    if (object) location.hash = objectHash(object);
  });
  return (
    <main class="page now" id="main">
      <section aria-labelledby="problems-title" class="problems">
        <h1 id="problems-title">
          {problems.length > 0 ? plural(problems.length, "problem") : model.isSynced ? "All is well" : "Reading…"}
          <small>
            {" "}
            in {plural(model.rows.size, "object")}
            {model.hidden.size > 0 && <HiddenKinds model={model} />}
          </small>
        </h1>
        {problems.length === 0 && model.isSynced && (
          <p class="calm">Nothing fails, and nothing has been on its way for longer than half a minute.</p>
        )}
        {problems.length > 0 && (
          <VirtualList
            items={problems}
            height={PROBLEM_HEIGHT}
            label="Problems"
            focus={selected}
            class="problem-list"
            keyOf={(problem) => problem.id}
            line={(problem, index) => <ProblemLine problem={problem} now={now} isSelected={index === selected} />}
          />
        )}
      </section>
      <Operators model={model} now={now} />
    </main>
  );
}

function HiddenKinds({ model }: { model: Model }) {
  const names = [...model.hidden.keys()];
  return (
    <span title={names.join(", ")}>
      ; {plural(names.length, "kind")} not readable as {model.hello?.user}
    </span>
  );
}

function ProblemLine({ problem, now, isSelected }: { problem: Problem; now: number; isSelected: boolean }) {
  const { object, root } = problem;
  const body = (
    <>
      <span class={`mark ${problem.severity}`} role="img" aria-label={SEVERITY_WORDS[problem.severity]} />
      <span class="problem-head">
        <span class="kind">{problem.title}</span> <b>{object?.name ?? ""}</b>
        {object?.ns && <span class="ns"> in {object.ns}</span>}
        {problem.count > 1 && <span class="badge">×{problem.count}</span>}
        {root && <span class="ns"> of {root.name}</span>}
        <span class="words"> {problem.words}</span>
      </span>
      <time dateTime={isoTime(problem.since)} title={isoTime(problem.since)}>
        {ago(now - problem.since)}
      </time>
      <span class="cause" title={problem.cause}>
        {problem.cause}
      </span>
    </>
  );
  const name = isSelected ? "problem selected" : "problem";
  return object ? (
    <a class={name} href={objectHash(object)}>
      {body}
    </a>
  ) : (
    <div class={name}>{body}</div>
  );
}

function Operators({ model, now }: { model: Model; now: number }) {
  const { controllers, worlds, watches } = model.operators;
  const worldEntries = Object.entries(worlds ?? {});
  if (!model.hello) return null;
  if (!model.hello.operators)
    return (
      <>
        <p class="calm">What operators do is shown to those who may read the server's metrics.</p>
        <MissingOperators model={model} />
      </>
    );
  const hasOthers = !!controllers?.some((one) => one.operator !== undefined);
  return (
    <section class="operators" aria-labelledby="operators-title">
      <h2 id="operators-title">Controllers</h2>
      {!controllers?.length && <p class="calm">No controller has had anything to do yet.</p>}
      {!!controllers?.length && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of controllers">
          <table>
            <thead>
              <tr>
                <th scope="col">controller</th>
                {hasOthers && <th scope="col">operator</th>}
                <th scope="col">workers</th>
                <th scope="col">running</th>
                <th scope="col">queued</th>
                <th scope="col">in backoff</th>
                <th scope="col">reconciles/s</th>
                <th scope="col">writes/s</th>
                <th scope="col">slowest</th>
                <th scope="col">failures</th>
              </tr>
            </thead>
            <tbody>
              {controllers.map((one) => (
                <ControllerLine key={`${one.operator ?? ""} ${one.name}`} one={one} hasOthers={hasOthers} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <MissingOperators model={model} />
      {worldEntries.length > 0 && <Worlds worlds={worldEntries} now={now} />}
      {!!watches?.length && <Watches model={model} watches={watches} now={now} />}
    </section>
  );
}

/** Operators of other processes that did not answer, and what else is not shown. */
function MissingOperators({ model }: { model: Model }) {
  return (
    <>
      <SilentOperators silent={silentOperators(model.others)} />
      {missingWords(model.others).map((words) => (
        <p key={words} class="calm">
          {words}.
        </p>
      ))}
    </>
  );
}

function ControllerLine({ one, hasOthers }: { one: Controller; hasOthers: boolean }) {
  const quiet = (value: number | string, isQuiet: boolean) => <td class={isQuiet ? "number quiet" : "number"}>{value}</td>;
  return (
    <tr>
      <th scope="row">{one.name}</th>
      {hasOthers && <td class={one.operator === undefined ? "quiet" : ""}>{one.operator ?? "this process"}</td>}
      {quiet(one.workers || "–", one.running < one.workers || one.workers === 0)}
      {quiet(one.running, one.running === 0)}
      {quiet(one.queued, one.queued === 0)}
      {quiet(one.backoff, one.backoff === 0)}
      {quiet(one.reconcilesPerSecond.toFixed(1), one.reconcilesPerSecond === 0)}
      {quiet(one.writesPerSecond.toFixed(1), one.writesPerSecond === 0)}
      {quiet(one.slowestMs ? `${one.slowestMs} ms` : "0", one.slowestMs === 0)}
      {quiet(one.failures.toLocaleString("en"), one.failures === 0)}
    </tr>
  );
}

function Worlds({ worlds, now }: { worlds: [string, World][]; now: number }) {
  return (
    <>
      <h2>Worlds</h2>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of worlds">
        <table>
          <thead>
            <tr>
              <th scope="col">world</th>
              <th scope="col">wanted</th>
              <th scope="col">found</th>
              <th scope="col">ours</th>
              <th scope="col">drifted</th>
              <th scope="col">leaks</th>
              <th scope="col">deleted</th>
              <th scope="col">last pass</th>
              <th scope="col">circuit breaker</th>
            </tr>
          </thead>
          <tbody>
            {worlds.map(([name, pass]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{pass.wanted}</td>
                <td class="number">{pass.things}</td>
                <td class="number">{pass.owned}</td>
                <td class="number">{pass.suspects}</td>
                <td class="number">{pass.leaks}</td>
                <td class="number">{pass.deleted}</td>
                <td class="number">{pass.at ? `${ago(now - pass.at)} ago` : "never"}</td>
                <td class={pass.error === null ? "number quiet" : "number bad-words"}>
                  {pass.isBlocked ? "open: only probes" : pass.error === null ? "closed" : "closed, list fails"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Watches({ model, watches, now }: { model: Model; watches: { by: string; resource: string; watch: Watch }[]; now: number }) {
  return (
    <>
      <h2>Watches</h2>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of watches">
        <table>
          <thead>
            <tr>
              <th scope="col">watch</th>
              <th scope="col">of</th>
              <th scope="col">state</th>
              <th scope="col">last change</th>
              <th scope="col">at revision</th>
              <th scope="col">behind</th>
            </tr>
          </thead>
          <tbody>
            {watches.map(({ by, resource, watch }) => {
              // Revisions count the changes of all kinds, so this is a measure and no number of changes.
              const behind = watch.revision ? Math.max(0, (model.newest.get(resource) ?? 0) - watch.revision) : 0;
              return (
                <tr key={`${by} ${resource}`}>
                  <th scope="row">{resource}</th>
                  <td>{by}</td>
                  <td class={watch.error === null ? "quiet" : "bad-words"}>{watch.error === null ? "in step" : `cut off for ${ago(now - watch.since)}`}</td>
                  <td class="number">{watch.heard ? `${ago(now - watch.heard)} ago` : "none yet"}</td>
                  <td class="number">{watch.revision || ""}</td>
                  <td class={behind ? "number" : "number quiet"}>{behind}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}
