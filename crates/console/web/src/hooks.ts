// What connects components to the model and to time.

import { useEffect, useReducer, useRef, useState } from "preact/hooks";
import type { Model } from "./model";

/** Draws again when the model has changed. */
export function useModel(model: Model): void {
  const [, draw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => model.subscribe(() => draw(undefined)), [model]);
}

/** Returns the model's time, once a second: what is too late becomes visible without a change. */
export function useSeconds(model: Model): number {
  const [now, setNow] = useState(model.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(model.now()), 1000);
    return () => clearInterval(timer);
  }, [model]);
  return Math.max(now, 0);
}

/** Returns the part of the address behind `#`. */
export function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const onChange = (): void => setHash(location.hash);
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return hash;
}

/** Returns a value that is computed again only when one of `inputs` differs. */
export function useKept<T>(compute: () => T, inputs: readonly unknown[]): T {
  const kept = useRef<{ inputs: readonly unknown[]; value: T } | undefined>(undefined);
  const old = kept.current;
  if (!old || old.inputs.length !== inputs.length || old.inputs.some((one, index) => one !== inputs[index])) {
    kept.current = { inputs, value: compute() };
  }
  return kept.current!.value;
}
