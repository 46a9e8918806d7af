/** Where the page is: the path, and the query string as the state that a link carries. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

export interface Place {
  readonly path: readonly string[];
  readonly search: URLSearchParams;
}

function current(): Place {
  const path = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { path, search: new URLSearchParams(location.search) };
}

const watchers = new Set<() => void>();

/** Go to another place, or replace the current one in the history of the browser. */
export function navigate(url: string, replace = false): void {
  if (replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  for (const watcher of watchers) watcher();
}

addEventListener("popstate", () => {
  for (const watcher of watchers) watcher();
});

export function usePlace(): Place {
  const [place, setPlace] = useState(current);
  useEffect(() => {
    const watcher = () => setPlace(current());
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }, []);
  return place;
}

/** The URL of a view of a graph. The moment that is looked at goes along, unless it is overridden. */
export function view(graph: string, rest: string, search: Record<string, string | null | undefined> = {}): string {
  const now = new URLSearchParams(location.search);
  const kept = new URLSearchParams();
  for (const name of ["branch", "at"]) {
    const value = name in search ? search[name] : now.get(name);
    if (value) kept.set(name, value);
  }
  for (const [name, value] of Object.entries(search)) {
    if (name !== "branch" && name !== "at" && value) kept.set(name, value);
  }
  const text = kept.toString();
  return `/ui/${encodeURIComponent(graph)}${rest}${text ? `?${text}` : ""}`;
}

/** Change parts of the query string of the current place. */
export function setSearch(changes: Record<string, string | null>, replace = true): void {
  const search = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  navigate(`${location.pathname}${text ? `?${text}` : ""}`, replace);
}

interface LinkProps {
  readonly to: string;
  readonly class?: string;
  readonly title?: string | undefined;
  readonly "aria-current"?: "page" | undefined;
  readonly children?: ComponentChildren;
}

/** A link within the page. Clicks with a modifier open another tab, as everywhere. */
export function Link({ to, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={to} onClick={follow} {...rest}>
      {children}
    </a>
  );
}
