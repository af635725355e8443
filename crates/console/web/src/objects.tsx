// All objects as a forest, filtered while you type.

import { useState } from "preact/hooks";
import type { Model } from "./model";
import { useKept, useModel, useSeconds } from "./hooks";
import { forestLines } from "./tree";
import { TreeView } from "./treeview";
import { plural } from "./words";

export function ObjectsPage({ model }: { model: Model }) {
  useModel(model);
  const now = useSeconds(model);
  const [filter, setFilter] = useState("");
  return (
    <main class="page objects" id="main">
      <h1 class="hidden-title">Objects</h1>
      <label class="filter">
        <span class="hidden-title">Filter</span>
        <input
          type="search"
          placeholder="filter: kind, namespace, name, state   ( / )"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <small>{plural(model.rows.size, "object")}</small>
      </label>
      <Forest model={model} now={now} filter={filter} />
    </main>
  );
}

export function Forest({ model, now, filter }: { model: Model; now: number; filter: string }) {
  const lines = (flips: ReadonlySet<string>) =>
    useKept(() => forestLines(model, filter, flips), [model.version, filter, flips]);
  return <TreeView model={model} now={now} label="Objects" lines={lines} rootDepth={1} />;
}
