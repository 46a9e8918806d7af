/** A field for a reference: a branch, tag, commit or time, with those that are there offered. */

import { get, graphPath, read } from "./api";
import { relativeTime, titleOf } from "./format";
import { useLoad } from "./loading";
import type { Commit } from "./wire";

interface RefFieldProps {
  readonly graph: string;
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
}

export function RefField({ graph, label, value, change }: RefFieldProps) {
  return (
    <label class="ref-field">
      {label} <input list={`refs-${graph}`} value={value} placeholder="branch, tag, commit or time" onChange={(event) => change(event.currentTarget.value.trim())} />
    </label>
  );
}

/** What the fields offer; once on a page. */
export function RefChoices({ graph }: { readonly graph: string }) {
  const found = useLoad(`${graph} refs`, async (signal) => {
    const [branches, tags, commits] = await Promise.all([
      read(graph, "/branches", {}, signal),
      read(graph, "/tags", {}, signal),
      read(graph, "/commits", { limit: 30 }, signal),
    ]);
    return { branches: branches.items, tags: tags.tags, commits: commits.commits };
  });
  return (
    <datalist id={`refs-${graph}`}>
      {found.data?.branches.map((branch) => <option value={branch.name}>branch</option>)}
      {found.data?.tags.map((tag) => <option value={tag.name}>tag</option>)}
      {found.data?.commits.map((commit) => (
        <option value={commit.id}>
          {titleOf(commit.message)}, {relativeTime(commit.time)}
        </option>
      ))}
    </datalist>
  );
}

/** The commit that a reference means: the head of a branch, or what is at a tag, commit, version or time. */
export async function resolveRef(graph: string, reference: string, signal?: AbortSignal): Promise<Commit> {
  const { items } = await read(graph, "/branches", {}, signal);
  const head = items.find((branch) => branch.name === reference)?.head;
  return get<Commit>(graphPath(graph, `/commits/${encodeURIComponent(head ?? reference)}`), signal);
}
