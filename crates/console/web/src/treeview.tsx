// A tree of objects with live status, of which only the visible lines exist.

import { useState } from "preact/hooks";
import type { Model } from "./model";
import type { Row } from "./types";
import { useLineKeys } from "./keys";
import { severityOf } from "./problems";
import type { TreeLine } from "./tree";
import { objectHash, rowName } from "./words";
import { VirtualList } from "./virtual";

const LINE_HEIGHT = 28;

interface Properties {
  model: Model;
  now: number;
  label: string;
  lines: (flips: ReadonlySet<string>) => TreeLine[];
  current?: string | undefined;
  /** The depth of lines directly below the name of their kind. */
  rootDepth: number;
}

export function TreeView({ model, now, label, lines: linesOf, current, rootDepth }: Properties) {
  const [flips, setFlips] = useState<ReadonlySet<string>>(new Set());
  const lines = linesOf(flips);
  const flip = (id: string): void => {
    const next = new Set(flips);
    if (!next.delete(id)) next.add(id);
    setFlips(next);
  };
  const open = (line: TreeLine | undefined): void => {
    if (line?.is === "object") location.hash = objectHash(rowName(line.row));
    else if (line) flip(line.id);
  };
  const selected = useLineKeys(
    lines.length,
    (index) => open(lines[index]),
    (key, index) => {
      const line = lines[index];
      if (line && ((key === "h" && line.isOpen) || (key === "l" && !line.isOpen))) flip(line.id);
    },
  );
  return (
    <VirtualList
      items={lines}
      height={LINE_HEIGHT}
      label={label}
      role="tree"
      focus={selected}
      class="tree"
      keyOf={(line) => line.id}
      line={(line, index) =>
        line.is === "kind" ? (
          <KindLine model={model} line={line} isSelected={index === selected} onFlip={flip} />
        ) : (
          <ObjectLine model={model} line={line} now={now} isSelected={index === selected} isCurrent={line.id === current} isRoot={line.depth === rootDepth} onFlip={flip} />
        )
      }
    />
  );
}

function KindLine(properties: { model: Model; line: Extract<TreeLine, { is: "kind" }>; isSelected: boolean; onFlip: (id: string) => void }) {
  const { model, line, isSelected, onFlip } = properties;
  return (
    <div
      class={`tree-line kind-line ${isSelected ? "selected" : ""}`}
      role="treeitem"
      aria-level={1}
      aria-expanded={line.isOpen}
      aria-selected={isSelected}
      onClick={() => onFlip(line.id)}
    >
      <span class="twist" aria-hidden="true">
        {line.isOpen ? "▾" : "▸"}
      </span>
      <span class="kind">{model.kindName(line.kind)}</span>
      <span class="badge">{line.count.toLocaleString("en")}</span>
    </div>
  );
}

interface ObjectLineProperties {
  model: Model;
  line: Extract<TreeLine, { is: "object" }>;
  now: number;
  isSelected: boolean;
  isCurrent: boolean;
  isRoot: boolean;
  onFlip: (id: string) => void;
}

function ObjectLine({ model, line, now, isSelected, isCurrent, isRoot, onFlip }: ObjectLineProperties) {
  const { row, depth } = line;
  return (
    <div
      class={`tree-line ${isSelected ? "selected" : ""} ${isCurrent ? "current" : ""}`}
      role="treeitem"
      aria-level={depth + 1}
      aria-selected={isSelected || isCurrent}
      {...(line.children > 0 ? { "aria-expanded": line.isOpen } : {})}
      style={{ paddingLeft: `${depth * 18 + 4}px` }}
      onClick={() => {
        location.hash = objectHash(rowName(row));
      }}
    >
      <span
        class="twist"
        aria-hidden="true"
        onClick={(event) => {
          if (line.children === 0) return;
          event.stopPropagation();
          onFlip(line.id);
        }}
      >
        {line.children > 0 ? (line.isOpen ? "▾" : "▸") : ""}
      </span>
      <span class={`mark ${markOf(row, now)}`} aria-hidden="true" />
      {(!isRoot || depth === 0) && <span class="kind">{model.kindName(row.k)}</span>}
      <span class="name">{row.n}</span>
      {row.ns && isRoot && <span class="ns">{row.ns}</span>}
      <span class="words">{row.w}</span>
    </div>
  );
}

export function markOf(row: Row, now: number): string {
  return severityOf(row, now) ?? (row.s || "none");
}
