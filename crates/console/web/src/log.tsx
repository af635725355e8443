// The log of a Pod's container, followed while it is looked at.

import { useEffect, useState } from "preact/hooks";
import type { ObjectFacts } from "./object";
import { request } from "./stream";
import type { JsonObject, ObjectName } from "./types";
import { VirtualList } from "./virtual";

const LINES_MAX = 2000;
const LINE_HEIGHT = 18;

export function LogPart({ object, facts }: { object: ObjectName; facts: ObjectFacts }) {
  const spec = (facts.revisions.at(-1)?.object.spec ?? {}) as JsonObject;
  const containers = [...((spec.containers ?? []) as JsonObject[]), ...((spec.initContainers ?? []) as JsonObject[])].map((one) => String(one.name));
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const [isPrevious, setPrevious] = useState(false);
  const container = chosen ?? containers[0];
  const { lines, message } = useLog(object, container, isPrevious);
  return (
    <div class="log">
      <p class="choose">
        <label>
          container{" "}
          <select value={container ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
            {containers.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={isPrevious} onChange={(event) => setPrevious(event.currentTarget.checked)} /> of the run before
        </label>
      </p>
      {message && <p role="status">{message}</p>}
      <VirtualList
        items={lines}
        height={LINE_HEIGHT}
        label="Log"
        focus={lines.length - 1}
        keyOf={(_, index) => String(index)}
        line={(line) => <span class="log-line">{line}</span>}
      />
    </div>
  );
}

function useLog(object: ObjectName, container: string | undefined, isPrevious: boolean): { lines: string[]; message: string } {
  const [log, setLog] = useState<{ lines: string[]; message: string }>({ lines: [], message: "" });
  useEffect(() => {
    if (!container) return undefined;
    const controller = new AbortController();
    const query = new URLSearchParams({ namespace: object.ns, name: object.name, container, previous: String(isPrevious) });
    setLog({ lines: [], message: "Reading…" });
    readLog(`/api/log?${query}`, controller.signal, setLog).catch((error: Error) => {
      if (!controller.signal.aborted) setLog((old) => ({ ...old, message: error.message }));
    });
    return () => controller.abort();
  }, [object.ns, object.name, container, isPrevious]);
  return log;
}

async function readLog(path: string, signal: AbortSignal, show: (log: { lines: string[]; message: string }) => void): Promise<void> {
  const answer = await request(path, signal);
  if (!answer.ok) {
    const said = (await answer.json().catch(() => ({}))) as { message?: string };
    throw new Error(said.message ?? `the console answered ${answer.status}`);
  }
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let [lines, rest]: [string[], string] = [[], ""];
  show({ lines, message: "" });
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop()!;
    lines = [...lines, ...parts].slice(-LINES_MAX);
    show({ lines, message: "" });
  }
  show({ lines: rest ? [...lines, rest] : lines, message: lines.length === 0 && !rest ? "The container wrote nothing." : "The log has ended." });
}
