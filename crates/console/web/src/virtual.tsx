// A list of which only the visible lines exist. All lines have the same height, so the position of each is known.

import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Lines drawn beyond the visible ones, so that scrolling shows no gap. */
const OVERSCAN = 12;

interface Properties<T> {
  items: readonly T[];
  height: number;
  label: string;
  role?: "list" | "tree";
  /** The line that is kept in view when it changes. */
  focus?: number;
  class?: string;
  keyOf: (item: T, index: number) => string;
  line: (item: T, index: number) => ComponentChildren;
}

interface ListView {
  top: number;
  lines: number;
}

/**
 * Returns which lines are in view. A hook of its own: a listener lives as long as the list, and with it everything that it
 * can reach, which must not be the items that were there first.
 */
function useListView(box: RefObject<HTMLDivElement | null>, height: number, count: number): [ListView, () => void] {
  const [view, setView] = useState<ListView>({ top: 0, lines: 40 });
  const measure = (): void => {
    const element = box.current;
    if (!element) return;
    const top = Math.floor(element.scrollTop / height);
    const lines = Math.ceil(element.clientHeight / height);
    setView((old) => (old.top === top && old.lines === lines ? old : { top, lines }));
  };
  useLayoutEffect(measure, [count]);
  useEffect(() => {
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, []);
  return [view, measure];
}

/** Keeps a line in view when it changes. */
function useFocusedLine(box: RefObject<HTMLDivElement | null>, height: number, focus: number | undefined): void {
  useEffect(() => {
    const element = box.current;
    if (!element || focus === undefined || focus < 0) return;
    const [start, end] = [focus * height, (focus + 1) * height];
    if (start < element.scrollTop) element.scrollTop = start;
    else if (end > element.scrollTop + element.clientHeight) element.scrollTop = end - element.clientHeight;
  }, [focus]);
}

export function VirtualList<T>(properties: Properties<T>) {
  const { items, height, focus } = properties;
  const box = useRef<HTMLDivElement>(null);
  const [view, measure] = useListView(box, height, items.length);
  useFocusedLine(box, height, focus);
  const first = Math.max(0, Math.min(view.top, items.length - 1) - OVERSCAN);
  const last = Math.min(items.length, view.top + view.lines + OVERSCAN);
  return (
    <div
      ref={box}
      class={`virtual ${properties.class ?? ""}`}
      role={properties.role ?? "list"}
      aria-label={properties.label}
      tabIndex={0}
      onScroll={measure}
    >
      <div class="virtual-all" role="presentation" style={{ height: `${items.length * height}px` }}>
        <div role="presentation" style={{ transform: `translateY(${first * height}px)` }}>
          {items.slice(first, last).map((item, index) => (
            <div
              key={properties.keyOf(item, first + index)}
              class="virtual-line"
              role={properties.role === "tree" ? "presentation" : "listitem"}
              style={{ height: `${height}px` }}
            >
              {properties.line(item, first + index)}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
