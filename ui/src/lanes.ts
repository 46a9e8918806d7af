/** Lanes of a history: one lane per line of commits that is open at a row. */

import type { Commit } from "./wire";

export interface Placed {
  readonly lane: Map<string, number>;
  /** The lane along which a merged parent is reached, by child and parent. */
  readonly merged: Map<string, number>;
  readonly width: number;
}

/** Place commits, children before parents. A first parent stays in the lane of its child. */
export function assignLanes(commits: readonly Commit[]): Placed {
  const known = new Set(commits.map((commit) => commit.id));
  const lanes: (string | null)[] = [];
  const lane = new Map<string, number>();
  const merged = new Map<string, number>();
  let width = 1;
  const free = (from: number): number => {
    for (let index = from; index < lanes.length; index += 1) if (lanes[index] === null) return index;
    lanes.push(null);
    return lanes.length - 1;
  };
  for (const commit of commits) {
    const here = lanes.flatMap((expected, index) => (expected === commit.id ? [index] : []));
    const own = here[0] ?? free(0);
    for (const other of here.slice(1)) lanes[other] = null;
    lanes[own] = commit.parents[0] ?? null;
    lane.set(commit.id, own);
    for (const parent of commit.parents.slice(1)) {
      if (!known.has(parent)) continue;
      const open = lanes.indexOf(parent);
      const other = open >= 0 ? open : free(own + 1);
      lanes[other] = parent;
      merged.set(`${commit.id} ${parent}`, other);
    }
    width = Math.max(width, lanes.length);
    while (lanes.length > 0 && lanes[lanes.length - 1] === null) lanes.pop();
  }
  return { lane, merged, width };
}
