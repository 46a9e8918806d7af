/** The history: commits in lanes, and one commit with what it changed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, graphPath, read } from "../api";
import { commandOf, option } from "../commands";
import { count, exactTime, plural, titleOf, valueText } from "../format";
import { useFocusInside } from "../focus";
import { Empty, Failure, Show, useLoad } from "../loading";
import { assignLanes } from "../lanes";
import type { ViewProps } from "../main";
import { CommitLine, Counts, Heading, TypeName, totals } from "../parts";
import { Link, navigate, setSearch, usePlace, view } from "../router";
import { chosenRows, watchLook } from "../theme";
import { WriteButton, keyed, newKey } from "../writing";
import { Changes } from "./diff";
import type { Commit, MergeAnswer } from "../wire";

const PAGE = 200;
const SMALL = "(max-width: 600px)";
const LANE = 16;

export function Commits(props: ViewProps) {
  const [id] = props.rest;
  return id === undefined ? <CommitList {...props} /> : <OneCommit {...props} id={id} />;
}

function CommitList({ graph }: ViewProps) {
  const search = usePlace().search;
  const branch = search.get("of");
  const before = search.get("before");
  const wanted = (search.get("find") ?? "").toLowerCase();
  const [selected, setSelected] = useState<readonly string[]>([]);
  const history = useLoad(`${graph} ${branch ?? ""} ${before ?? ""}`, (signal) =>
    read(graph, "/ancestry", { branch, before, limit: PAGE }, signal),
  );
  const branches = useLoad(`${graph} branches`, (signal) => read(graph, "/branches", {}, signal));
  const since = search.get("since") ?? "";
  const toggle = (id: string) => setSelected((old) => (old.includes(id) ? old.filter((each) => each !== id) : [...old, id].slice(-2)));
  const [older, newer] = orderPair(history.data?.commits ?? [], selected);
  return (
    <>
      <Heading
        aside={
          <>
            <label>
              <span class="hidden">Branch</span>
              <select value={branch ?? ""} onChange={(event) => setSearch({ of: event.currentTarget.value, before: null })}>
                <option value="">all branches</option>
                {branches.data?.items.map((each) => (
                  <option value={each.name}>{each.name}</option>
                ))}
              </select>
            </label>
            <label>
              since <input type="date" value={since} onChange={(event) => setSearch({ since: event.currentTarget.value })} />
            </label>
            <input
              type="search"
              aria-label="Find in messages and actors"
              placeholder="Message or actor"
              value={search.get("find") ?? ""}
              onInput={(event) => setSearch({ find: event.currentTarget.value })}
            />
            <button disabled={!older || !newer} onClick={() => older && newer && navigate(view(graph, "/diff", { a: older, b: newer }))}>
              Compare two
            </button>
          </>
        }
      >
        Commits
      </Heading>
      <Show of={history} what="the history">
        {({ commits, next }) => (
          <>
            {commits.length === 0 && <Empty command={commandOf(graph, "commit", "list", "--dag")}>There are no commits here.</Empty>}
            {next && (wanted || since) && <p class="muted">Only the {count(commits.length)} commits of this page are looked through.</p>}
            <Lanes graph={graph} commits={commits} selected={selected} toggle={toggle} matches={(commit) => `${commit.message ?? ""} ${commit.actor ?? ""} ${commit.id}`.toLowerCase().includes(wanted) && commit.time >= since} />
            {next && (
              <p>
                <Link to={view(graph, "/commits", { of: branch, before: next, find: search.get("find"), since })}>Older commits</Link>
              </p>
            )}
          </>
        )}
      </Show>
    </>
  );
}

function orderPair(commits: readonly Commit[], selected: readonly string[]): readonly (string | undefined)[] {
  const order = commits.filter((commit) => selected.includes(commit.id)).map((commit) => commit.id);
  return order.length === 2 ? [order[1], order[0]] : [];
}

interface LanesProps {
  readonly graph: string;
  readonly commits: readonly Commit[];
  readonly selected: readonly string[];
  readonly toggle: (id: string) => void;
  readonly matches: (commit: Commit) => boolean;
}

/** The list of commits, with the lines between them drawn beside it. */
function Lanes({ graph, commits, selected, toggle, matches }: LanesProps) {
  const { lane, merged, width } = assignLanes(commits);
  const rowHeight = useRowHeight();
  const row = new Map(commits.map((commit, index) => [commit.id, index]));
  const x = (at: number) => 10 + at * LANE;
  const y = (at: number) => rowHeight / 2 + at * rowHeight;
  return (
    <div class="lanes" style={{ "--lane-row": `${rowHeight}px` }}>
      <svg width={x(width)} height={commits.length * rowHeight} aria-hidden="true">
        {commits.flatMap((commit, index) =>
          commit.parents.map((parent) => {
            const target = row.get(parent);
            const own = lane.get(commit.id) ?? 0;
            const along = merged.get(`${commit.id} ${parent}`) ?? own;
            if (target === undefined) return parent === commit.parents[0] ? <path class={`lane hue${along % 10}`} d={`M${x(own)},${y(index)} V${y(index) + rowHeight * 0.6}`} stroke-dasharray="2 3" /> : null;
            return <path class={`lane hue${along % 10}`} d={linkPath(x(own), y(index), x(along), x(lane.get(parent) ?? 0), y(target), rowHeight)} />;
          }),
        )}
        {commits.map((commit, index) => (
          <circle class={`node hue${(lane.get(commit.id) ?? 0) % 10} ${commit.parents.length > 1 ? "merge" : ""}`} cx={x(lane.get(commit.id) ?? 0)} cy={y(index)} r={4.5} />
        ))}
      </svg>
      <ol class="rows">
        {commits.map((commit) => (
          <li key={commit.id} class={matches(commit) ? "" : "faded"}>
            <label>
              <input type="checkbox" checked={selected.includes(commit.id)} onChange={() => toggle(commit.id)} aria-label={`Compare ${titleOf(commit.message) || commit.id}`} />
            </label>
            <CommitLine graph={graph} commit={commit} />
            {commit.parents.length > 0 && <LazyCounts graph={graph} id={commit.id} />}
          </li>
        ))}
      </ol>
    </div>
  );
}

/** The height of a row: two lines on a small screen, else what was chosen. */
function useRowHeight(): number {
  const [, setLook] = useState(0);
  useEffect(() => {
    const small = matchMedia(SMALL);
    const look = () => setLook((old) => old + 1);
    const leave = watchLook(look);
    small.addEventListener("change", look);
    return () => {
      leave();
      small.removeEventListener("change", look);
    };
  }, []);
  return matchMedia(SMALL).matches ? 44 : chosenRows() === "comfortable" ? 36 : 28;
}

/** What a commit changed, read when its row comes into view. */
function LazyCounts({ graph, id }: { readonly graph: string; readonly id: string }) {
  const own = useRef<HTMLSpanElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    if (!own.current) return;
    const watcher = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && setSeen(true));
    watcher.observe(own.current);
    return () => watcher.disconnect();
  }, []);
  const diff = useLoad(isSeen ? `${graph} ${id}` : null, (signal) => read(graph, "/diff", { commit: id, view: "summary" }, signal));
  return (
    <span ref={own} class="lazy-counts" title={diff.data?.summary.map((each) => `${each.type} +${each.inserted} ~${each.updated} −${each.deleted}`).join("\n")}>
      {diff.data && <Counts {...totals(diff.data.summary)} />}
    </span>
  );
}

function linkPath(x: number, y: number, via: number, toX: number, toY: number, row: number): string {
  const curve = (a: number, b: number, c: number, d: number) => `C${a},${(b + d) / 2} ${c},${(b + d) / 2} ${c},${d}`;
  const parts = [`M${x},${y}`];
  let from = y;
  if (via !== x) {
    parts.push(curve(x, y, via, y + row));
    from = y + row;
  }
  if (via === toX) parts.push(`V${toY}`);
  else {
    const turn = Math.max(from, toY - row);
    parts.push(`V${turn}`, curve(via, turn, toX, toY));
  }
  return parts.join(" ");
}

function OneCommit({ graph, id, actions }: ViewProps & { readonly id: string }) {
  const commit = useLoad(`${graph} ${id}`, (signal) => get<Commit>(graphPath(graph, `/commits/${id}`), signal));
  return (
    <Show of={commit} what="the commit">
      {(found) => (
        <>
          <Heading aside={<Link to={view(graph, "", { branch: found.branch === "main" ? null : found.branch, at: found.id })}>Read the graph then</Link>}>
            {titleOf(found.message) || "Commit"}
          </Heading>
          <dl class="properties">
            <dt>commit</dt>
            <dd>
              <code>{found.id}</code>
            </dd>
            <dt>actor</dt>
            <dd>{found.actor ?? "nobody"}</dd>
            <dt>time</dt>
            <dd>{exactTime(found.time)}</dd>
            <dt>branch</dt>
            <dd>{found.branch}</dd>
            <dt>parents</dt>
            <dd>
              {found.parents.map((parent) => (
                <>
                  <Link to={view(graph, `/commits/${parent}`)}>
                    <code>{parent}</code>
                  </Link>{" "}
                </>
              ))}
              {found.parents.length === 0 && "none: the graph began here"}
            </dd>
          </dl>
          {found.message && found.message.includes("\n") && <pre class="message">{found.message}</pre>}
          <div class="toolbar">
            {actions.has("tag") && <NameIt graph={graph} what="tag" commit={found} />}
            {actions.has("branch_create") && <NameIt graph={graph} what="branch" commit={found} />}
            {actions.has("change") && found.parents.length > 0 && <Revert graph={graph} commit={found} />}
          </div>
          {found.parents.length > 0 && <Changes graph={graph} query={{ commit: found.id }} />}
        </>
      )}
    </Show>
  );
}

/** Make a tag or a branch at a commit. */
function NameIt({ graph, what, commit }: { readonly graph: string; readonly what: "tag" | "branch"; readonly commit: Commit }) {
  const [name, setName] = useState<string | null>(null);
  const [made, setMade] = useState("");
  const { opener, opened } = useFocusInside<HTMLSpanElement>(name !== null);
  if (name === null) return <button ref={opener} onClick={() => setName("")}>{what === "tag" ? "Tag it…" : "Branch from here…"}</button>;
  const command = what === "tag" ? commandOf(graph, "tag", "create", name.trim(), commit.id, ...option("--branch", commit.branch, "main")) : commandOf(graph, "branch", "create", name.trim(), "--from", commit.id);
  const run = (key: string) => (what === "tag" ? call(graph, "/tags", { name, ref: commit.id, branch: commit.branch }, keyed(key)) : call(graph, "/branches", { name, from: commit.id }, keyed(key)));
  return (
    <span class="form" ref={opened}>
      <label>
        Name of the {what} <input value={name} placeholder={what === "tag" ? "release-1" : "review/june"} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <WriteButton label={`Create the ${what}`} disabled={name.trim() === ""} command={command} run={run} done={() => setMade(name)} />
      <button class="quiet" onClick={() => (setName(null), setMade(""))}>
        {made ? "Close" : "Cancel"}
      </button>
      {made && <span role="status">{made} is made.</span>}
    </span>
  );
}

interface RevertProps {
  readonly graph: string;
  readonly commit: Commit;
  /** Where the page shows an entity: the other changes of the commit are counted. */
  readonly others?: number;
  readonly onDone?: (made: string) => void;
}

const SHOWN_CONFLICTS = 10;

/** Take a commit back, after showing what else that touches. */
export function Revert({ graph, commit, others, onDone }: RevertProps) {
  const [by, setBy] = useState<"row" | "property">("row");
  const [preview, setPreview] = useState<MergeAnswer | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [key] = useState(newKey);
  const [prefers, setPrefers] = useState(false);
  const message = `Revert ${commit.id}: ${titleOf(commit.message)}`;
  const side = commit.parents.length > 1 && ["--side", "1"];
  const command = commandOf(graph, "revert", commit.id, ...option("--branch", commit.branch, "main"), ...(side || []), ...option("--by", by, "row"), prefers && "--theirs", ...option("-m", message));
  const request = (dry: boolean, level: "row" | "property") =>
    call(graph, "/reverts", {
        commit: commit.id,
        branch: commit.branch,
        by: level,
        dry_run: dry,
        numbers: "safe",
        ...(commit.parents.length > 1 ? { side: 1 } : {}),
        ...(dry ? {} : { message, if_commit: preview?.target_commit, prefer: prefers ? "theirs" : null }),
      },
      dry ? {} : { headers: { "Idempotency-Key": key } });
  const look = async (level: "row" | "property") => {
    setBy(level);
    setError(null);
    try {
      setPreview(await request(true, level));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  const { opener, opened } = useFocusInside<HTMLElement>(preview !== null || error !== null);
  if (preview === null && error === null) return <button ref={opener} onClick={() => void look("row")}>Take this commit back…</button>;
  return (
    <section class="notice" ref={opened}>
      <strong>Take back "{titleOf(commit.message) || commit.id}"</strong>
      <p class="muted">Nothing is erased: this makes a new commit on {commit.branch} that undoes the changes.</p>
      {error && <Failure error={error} />}
      {preview && <WhatGoes preview={preview} />}
      {others !== undefined && others > 0 && (
        <p>
          The commit changed {plural(others, "other entity")} too: <Link to={view(graph, `/commits/${commit.id}`)}>they are taken back with it</Link>.
        </p>
      )}
      {preview && preview.conflicts.length > 0 && (
        <>
          <p>
            Later commits changed the same {preview.conflicts.length === 1 ? "entity" : `${count(preview.conflicts.length)} entities`}:
          </p>
          <ul class="plain">
            {preview.conflicts.slice(0, SHOWN_CONFLICTS).map((conflict) => (
              <li>
                <code>{conflict.row_id}</code> {(conflict.properties ?? []).map((name) => `${name} is now ${valueText(conflict.ours?.[name])}, would become ${valueText(conflict.theirs?.[name])}`).join("; ")}
              </li>
            ))}
            {preview.conflicts.length > SHOWN_CONFLICTS && <li class="muted">and {count(preview.conflicts.length - SHOWN_CONFLICTS)} more</li>}
          </ul>
          {by === "row" && <button onClick={() => void look("property")}>Take back single properties instead</button>}
          {by === "property" && (
            <label>
              <input type="checkbox" checked={prefers} onChange={(event) => setPrefers(event.currentTarget.checked)} /> take the older values all the same
            </label>
          )}
        </>
      )}
      {preview && (preview.conflicts.length === 0 || prefers) && (
        <WriteButton
          label="Take it back"
          command={command}
          asks={{ graph, branch: commit.branch, key }}
          run={() => request(false, by)}
          done={(answer) => {
            setPreview(null);
            if (answer.commit && onDone) onDone(answer.commit);
            else if (answer.commit) navigate(view(graph, `/commits/${answer.commit}`));
          }}
        />
      )}
      <button class="quiet" onClick={() => (setPreview(null), setError(null))}>
        Cancel
      </button>
    </section>
  );
}

/** What a revert would write, by type. */
function WhatGoes({ preview }: { readonly preview: MergeAnswer }) {
  const changes = Object.entries({ ...preview.nodes, ...preview.edges }) as [string, { inserted?: number; updated?: number; deleted?: number }][];
  if (changes.length === 0) return null;
  return (
    <ul class="types" aria-label="What is taken back">
      {changes.map(([type, each]) => (
        <li>
          <TypeName name={type} /> <Counts inserted={each.inserted ?? 0} updated={each.updated ?? 0} deleted={each.deleted ?? 0} />
        </li>
      ))}
    </ul>
  );
}
