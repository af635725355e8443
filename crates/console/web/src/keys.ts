// Keys: j/k or arrows move, enter opens, / filters, g then n, o or t goes to a page, ? lists the keys.

import { useEffect, useRef, useState } from "preact/hooks";

export const KEYS: [string, string][] = [
  ["j / k", "next, previous line"],
  ["enter", "open the line"],
  ["h / l", "close, open a branch of the tree"],
  ["/", "filter"],
  ["g n", "go to Now"],
  ["g o", "go to Objects"],
  ["g t", "go to Time"],
  ["1 … 6", "parts of an object's page"],
  ["p", "Time: play or pause"],
  ["[ / ]", "Time: one change back, forward"],
  ["u", "back"],
  ["?", "these keys"],
];

/** How long the page waits for the second letter after `g`. */
const SEQUENCE_MS = 1200;

const PAGES: Record<string, string> = { n: "#/now", o: "#/objects", t: "#/time" };

export function isTyping(event: KeyboardEvent): boolean {
  const element = event.target as HTMLElement;
  return element.matches?.("input:not([type=range]), textarea, select") || event.ctrlKey || event.metaKey || event.altKey;
}

/** Handles the keys that work everywhere. */
export function useGlobalKeys(toggleHelp: () => void): void {
  const pending = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event)) {
        if (event.key === "Escape") (event.target as HTMLElement).blur();
        return;
      }
      if (Date.now() - pending.current < SEQUENCE_MS && PAGES[event.key]) {
        pending.current = 0;
        location.hash = PAGES[event.key]!;
        event.preventDefault();
      } else if (event.key === "g") pending.current = Date.now();
      else if (event.key === "?") toggleHelp();
      else if (event.key === "u") history.back();
      else if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("input[type=search]");
        if (filter) filter.focus();
        else location.hash = "#/objects";
        event.preventDefault();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

/** Moves a selection through `count` lines; returns it, -1 if nothing is selected. */
export function useLineKeys(
  count: number,
  onOpen: (index: number) => void,
  onOther?: (key: string, index: number) => void,
): number {
  const [selected, setSelected] = useState(-1);
  const current = useRef({ count, onOpen, onOther, selected });
  current.current = { count, onOpen, onOther, selected };
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (isTyping(event)) return;
      const { count, onOpen, onOther, selected } = current.current;
      const isOnLink = (event.target as HTMLElement).matches?.("a, button");
      if (event.key === "j" || event.key === "ArrowDown") setSelected(Math.min(count - 1, selected + 1));
      else if (event.key === "k" || event.key === "ArrowUp") setSelected(Math.max(0, selected - 1));
      else if (event.key === "Enter" && selected >= 0 && !isOnLink) onOpen(selected);
      else {
        onOther?.(event.key, selected);
        return;
      }
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return Math.min(selected, count - 1);
}
