/** The moment that a view looks at: a branch, and perhaps a commit, tag, version or time of it. */

import type { Query } from "./api";
import type { Place } from "./router";

export interface Moment {
  readonly branch: string;
  readonly at: string | null;
}

export function momentOf(place: Place): Moment {
  return { branch: place.search.get("branch") || "main", at: place.search.get("at") || null };
}

/** The parameters of a read at this moment. */
export function momentQuery({ branch, at }: Moment): Query {
  return { branch, at };
}

export function momentKey({ branch, at }: Moment): string {
  return `${branch}@${at ?? ""}`;
}

/** The moment as a reference that stands alone, for diffs and links. */
export function reference({ branch, at }: Moment): string {
  return at ?? branch;
}
