// What the operators of this process and of other processes are doing, as one.

import type { Operators, OtherOperator, Others, SilentOperator } from "./types";

export const NO_OPERATORS: Operators = { failures: [], hot: [] };
export const NO_OTHERS: Others = { operators: [], notes: [] };

/** Joins what the operators of this process are doing with what others answered. */
export function joinOperators(own: Operators, others: Others): Operators {
  const named = others.operators.flatMap((one) => (one.activity ? [nameOperator(one.operator, one.activity)] : []));
  if (named.length === 0) return own;
  const all = [own, ...named];
  return {
    failures: all.flatMap((one) => one.failures),
    hot: all.flatMap((one) => one.hot),
    controllers: all.flatMap((one) => one.controllers ?? []),
    watches: all.flatMap((one) => one.watches ?? []),
    worlds: Object.assign({}, ...all.map((one) => one.worlds ?? {})),
  };
}

/** Operators may have controllers and worlds of the same name. */
function nameOperator(operator: string, activity: Operators): Operators {
  const by = (name: string): string => (name === operator ? name : `${name} of ${operator}`);
  return {
    failures: activity.failures.map((one) => ({ ...one, by: by(one.by) })),
    hot: activity.hot.map((one) => ({ ...one, by: by(one.by) })),
    controllers: (activity.controllers ?? []).map((one) => ({ ...one, operator })),
    watches: activity.watches ?? [],
    worlds: Object.fromEntries(Object.entries(activity.worlds ?? {}).map(([name, world]) => [by(name), world])),
  };
}

/** Returns the operators that were asked and did not answer. */
export function silentOperators(others: Others): SilentOperator[] {
  return others.operators.flatMap(({ operator, error, advice }: OtherOperator) => (error === undefined ? [] : [{ operator, error, advice: advice ?? "" }]));
}

/** Returns what else is missing, in words. */
export function missingWords(others: Others): string[] {
  const omitted = others.operators.filter((one) => one.omitted);
  return [...omitted.map((one) => `${one.operator} has ${one.omitted!.toLocaleString("en")} more failing objects, which are not shown`), ...others.notes];
}
