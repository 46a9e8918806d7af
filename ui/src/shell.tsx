/** The frame of every view of a graph: the rail, the ref bar, the search box and the keys. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, graphPath, read, signOut, watchServer } from "./api";
import { lendFocus, returnFocus } from "./focus";
import { clip, plural, titleOf } from "./format";
import { readAnew, useLoad } from "./loading";
import { momentOf } from "./moment";
import { Id, Time } from "./parts";
import { RefChoices } from "./refs";
import { Link, type Place, navigate, setSearch, view } from "./router";
import { Search } from "./search";
import { WRITTEN } from "./writing";
import { type Rows, type Theme, chooseRows, chooseTheme, chosenRows, chosenTheme } from "./theme";
import type { Caller, Commit } from "./wire";

const RAIL: readonly (readonly [string, string, string | null])[] = [
  ["", "Overview", null],
  ["schema", "Schema", "s"],
  ["explore", "Explore", "e"],
  ["query", "Query", "q"],
  ["commits", "Commits", "c"],
  ["diff", "Diff", "d"],
  ["branches", "Branches", "b"],
  ["changes", "Changes", null],
  ["load", "Load", null],
];

interface ShellProps {
  readonly graph: string;
  readonly view: string;
  readonly caller: Caller;
  readonly actions: ReadonlySet<string>;
  readonly place: Place;
  readonly children: ComponentChildren;
}

export function Shell({ graph, view: current, caller, actions, place, children }: ShellProps) {
  const [helps, setHelps] = useState(false);
  const [theme, setTheme] = useState<Theme>(chosenTheme);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [place]);
  useKeys(graph, place, () => setHelps(true));
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <nav class={isOpen ? "rail open" : "rail"} aria-label="Views">
        <Link to="/" class="brand">
          OmniGraph
        </Link>
        <button class="menu-button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Views
        </button>
        <ul>
          {RAIL.map(([name, title, key]) => (
            <li>
              <Link to={view(graph, name && `/${name}`)} aria-current={current === name ? "page" : undefined} title={key ? `g ${key}` : undefined}>
                {title}
              </Link>
            </li>
          ))}
        </ul>
        <ul class="upkeep">
          {actions.has("admin") && (
            <li>
              <Link to={view(graph, "/health")} aria-current={current === "health" ? "page" : undefined}>
                Health
              </Link>
            </li>
          )}
          <li>
            <Link to={view(graph, "/access")} aria-current={current === "access" ? "page" : undefined}>
              Access
            </Link>
          </li>
        </ul>
        <div class="who">
          <span title={`role ${caller.role}`}>{caller.actor}</span>
          <label>
            <span>Theme</span>
            <select
              value={theme}
              onChange={(event) => {
                const chosen = event.currentTarget.value as Theme;
                chooseTheme(chosen);
                setTheme(chosen);
              }}
            >
              <option value="system">system</option>
              <option value="light">light</option>
              <option value="dark">dark</option>
            </select>
          </label>
          <label>
            <span>Rows</span>
            <select value={chosenRows()} onChange={(event) => chooseRows(event.currentTarget.value as Rows)}>
              <option value="compact">compact</option>
              <option value="comfortable">comfortable</option>
            </select>
          </label>
          <button class="quiet" onClick={signOut}>
            Sign out
          </button>
          <button class="quiet" onClick={() => setHelps(true)}>
            Keys
          </button>
        </div>
      </nav>
      <div class="body">
        <AwayBar />
        <header class="top">
          <RefBar graph={graph} place={place} />
          <Search graph={graph} />
        </header>
        <main id="content" tabIndex={-1}>
          {children}
        </main>
      </div>
      {helps && <KeyList close={() => setHelps(false)} />}
    </div>
  );
}

/** Said once for the whole page while the server cannot be reached. */
function AwayBar() {
  const [isAway, setAway] = useState(false);
  useEffect(() => watchServer(setAway), []);
  return (
    <div class="away" role="status">
      {isAway && "The server does not answer. Trying again by itself."}
    </div>
  );
}

/** Which branch and moment is looked at. A past moment tints the bar. */
function RefBar({ graph, place }: { readonly graph: string; readonly place: Place }) {
  const moment = momentOf(place);
  const branches = useLoad(`${graph} branches`, (signal) => read(graph, "/branches", {}, signal));
  const commits = useLoad(`${graph} ${moment.branch} ${moment.at ?? ""}`, (signal) =>
    read(graph, "/commits", { branch: moment.branch, limit: 50 }, signal),
  );
  const listed = commits.data?.commits ?? [];
  const at = listed.findIndex((commit) => commit.id === moment.at);
  const isKnown = moment.at === null || at >= 0;
  const then = useLoad(isKnown || commits.data === null ? null : `${graph} ${moment.at ?? ""}`, (signal) => get<Commit>(graphPath(graph, `/commits/${encodeURIComponent(moment.at ?? "")}`), signal));
  const shown = moment.at === null ? listed[0] : (listed[at] ?? then.data);
  // What this page writes is no news to its reader: the bar follows at once.
  useEffect(() => {
    addEventListener(WRITTEN, commits.reload);
    addEventListener(WRITTEN, branches.reload);
    return () => {
      removeEventListener(WRITTEN, commits.reload);
      removeEventListener(WRITTEN, branches.reload);
    };
  }, []);
  const newer = useNewCommits(graph, moment.branch, commits.data?.commits[0]?.id);
  const move = (index: number) => {
    const target = listed[index];
    if (target) setSearch({ at: index === 0 ? null : target.id }, false);
  };
  return (
    <div class={`refbar ${moment.at === null ? "" : "past"}`} role="group" aria-label="Moment">
      <label>
        <span class="hidden">Branch</span>
        <select
          id="ref-branch"
          value={moment.branch}
          onChange={(event) => setSearch({ branch: event.currentTarget.value === "main" ? null : event.currentTarget.value, at: null }, false)}
        >
          {(branches.data?.items ?? [{ name: moment.branch }]).map((branch) => (
            <option value={branch.name}>{branch.name}</option>
          ))}
        </select>
      </label>
      <button class="quiet" aria-label="Older commit" disabled={listed.length < 2 || at === listed.length - 1} onClick={() => move((at < 0 ? 0 : at) + 1)}>
        ‹
      </button>
      <input
        type="range"
        aria-label="Commit, newest to the right"
        min={0}
        max={Math.max(listed.length - 1, 0)}
        value={listed.length - 1 - Math.max(at, 0)}
        onChange={(event) => move(listed.length - 1 - Number(event.currentTarget.value))}
      />
      <button class="quiet" aria-label="Newer commit" disabled={moment.at === null} onClick={() => move(at - 1)}>
        ›
      </button>
      <span class="where">
        {moment.at === null ? (
          "now"
        ) : (
          <>
            then <button onClick={() => setSearch({ at: null }, false)}>Back to now</button>
          </>
        )}{" "}
        {shown ? (
          <span class="muted" title={shown.message ?? ""}>
            <Time time={shown.time} /> <Id id={shown.id} /> {clip(titleOf(shown.message), 40)}
          </span>
        ) : (
          moment.at !== null && <code>{moment.at}</code>
        )}
      </span>
      <label>
        <span class="hidden">Tag, commit or time</span>
        <input class="at" list={`refs-${graph}`} value="" placeholder="tag, commit or time" onChange={(event) => event.currentTarget.value && setSearch({ at: event.currentTarget.value.trim() }, false)} />
      </label>
      {!OWN_CHOICES.has(place.path[2] ?? "") && <RefChoices graph={graph} />}
      {newer > 0 && moment.at === null && (
        <button class="newer" onClick={readAnew}>
          {moment.branch} has {plural(newer, "new commit")}: show
        </button>
      )}
    </div>
  );
}

/** Views that bring the choices of references themselves. */
const OWN_CHOICES: ReadonlySet<string> = new Set(["query", "compare", "diff"]);
const LOOK_MS = 10_000;

/** How many commits a branch got since it was read. Nothing changes under the reader: a button shows them. */
function useNewCommits(graph: string, branch: string, head: string | undefined): number {
  const [newer, setNewer] = useState(0);
  useEffect(() => {
    setNewer(0);
    if (!head) return;
    const look = async () => {
      if (document.visibilityState !== "visible") return;
      const { commits } = await read(graph, "/commits", { branch, limit: 100 }).catch(() => ({ commits: [] as Commit[] }));
      const known = commits.findIndex((commit) => commit.id === head);
      setNewer(commits.length === 0 ? 0 : known < 0 ? commits.length : known);
    };
    const timer = window.setInterval(() => void look(), LOOK_MS);
    return () => window.clearInterval(timer);
  }, [graph, branch, head]);
  return newer;
}

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["g q, g s, g e, g c, g b, g d", "query, schema, explore, commits, branches, diff"],
  [".", "the ref bar"],
  ["[ and ]", "older and newer commit"],
  ["j and k, or arrows", "next and previous in a list"],
  ["Enter, Space", "open; select for comparison"],
  ["Ctrl+Enter", "run the query"],
  ["Ctrl+Z", "undo in the drawing"],
  ["Esc", "close"],
  ["?", "this list"],
];

function KeyList({ close }: { readonly close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={close} aria-label="Keys">
      <h2>Keys</h2>
      <dl class="properties">
        {KEYS.map(([key, what]) => (
          <>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <button onClick={() => dialog.current?.close()}>Close</button>
    </dialog>
  );
}

function useKeys(graph: string, place: Place, help: () => void): void {
  useEffect(() => {
    let prefix = 0;
    const handle = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && target.id === "ref-branch") return returnFocus();
      const dialog = document.querySelector<HTMLDialogElement>("dialog[open]");
      if (dialog) return event.key === "?" ? dialog.close() : undefined;
      const types = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
      if (types || event.ctrlKey || event.metaKey || event.altKey) return;
      const view_ = RAIL.find(([, , key]) => key === event.key);
      if (Date.now() - prefix < 1500 && view_) navigate(view(graph, `/${view_[0]}`));
      else if (event.key === "g") prefix = Date.now();
      else if (event.key === "/") focus(event, "search");
      else if (event.key === ".") focus(event, "ref-branch");
      else if (event.key === "[") press("Older commit");
      else if (event.key === "]") press("Newer commit");
      else if (event.key === "j" || event.key === "ArrowDown") moveInList(event, 1);
      else if (event.key === "k" || event.key === "ArrowUp") moveInList(event, -1);
      else if (event.key === " ") selectRow(event);
      else if (event.key === "?") help();
    };
    addEventListener("keydown", handle);
    return () => removeEventListener("keydown", handle);
  }, [graph, place]);
}

const ITEMS = "#content .rows > li a:first-of-type, #content tbody th a, #content .change a";

/** Move the focus along the lists of the view. Arrows only do so within a list: they scroll elsewhere. */
function moveInList(event: KeyboardEvent, step: 1 | -1): void {
  const items = [...document.querySelectorAll<HTMLElement>(ITEMS)].filter((item) => item.offsetParent !== null);
  const at = items.indexOf(document.activeElement as HTMLElement);
  if (at < 0 && event.key.startsWith("Arrow")) return;
  const target = items[at < 0 ? 0 : at + step];
  if (!target) return;
  event.preventDefault();
  target.focus();
}

/** Space in the row of a commit selects it for comparison. */
function selectRow(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  const box = target.tagName === "A" ? target.closest("li")?.querySelector<HTMLInputElement>('input[type="checkbox"]') : null;
  if (!box) return;
  event.preventDefault();
  box.click();
}

function focus(event: Event, id: string): void {
  event.preventDefault();
  lendFocus(id);
}

function press(label: string): void {
  document.querySelector<HTMLButtonElement>(`button[aria-label="${label}"]`)?.click();
}
