/** The history: commits in lanes, and one commit with what it changed. */

import { useState } from "preact/hooks";
import { get, graphPath, path, post } from "../api";
import { exactTime, titleOf } from "../format";
import { Empty, Failure, Show, useLoad } from "../loading";
import { assignLanes } from "../lanes";
import type { ViewProps } from "../main";
import { CommitLine, Heading } from "../parts";
import { Link, navigate, setSearch, usePlace, view } from "../router";
import { WriteButton, newKey } from "../writing";
import { Changes } from "./diff";
import type { Commit, MergeAnswer } from "../wire";

const PAGE = 200;
const ROW = 36;
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
    get<{ commits: Commit[]; next: string | null }>(path(graphPath(graph, "/ancestry"), { branch, before, limit: PAGE }), signal),
  );
  const toggle = (id: string) => setSelected((old) => (old.includes(id) ? old.filter((each) => each !== id) : [...old, id].slice(-2)));
  const [older, newer] = orderPair(history.data?.commits ?? [], selected);
  return (
    <>
      <Heading
        aside={
          <>
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
            {commits.length === 0 && <Empty>There are no commits here.</Empty>}
            <Lanes graph={graph} commits={commits} selected={selected} toggle={toggle} matches={(commit) => `${commit.message ?? ""} ${commit.actor ?? ""}`.toLowerCase().includes(wanted)} />
            {next && (
              <p>
                <Link to={view(graph, "/commits", { of: branch, before: next })}>Older commits</Link>
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
  const row = new Map(commits.map((commit, index) => [commit.id, index]));
  const x = (at: number) => 10 + at * LANE;
  const y = (at: number) => ROW / 2 + at * ROW;
  return (
    <div class="lanes">
      <svg width={x(width)} height={commits.length * ROW} aria-hidden="true">
        {commits.flatMap((commit, index) =>
          commit.parents.map((parent) => {
            const target = row.get(parent);
            const own = lane.get(commit.id) ?? 0;
            const along = merged.get(`${commit.id} ${parent}`) ?? own;
            if (target === undefined) return parent === commit.parents[0] ? <path class={`lane hue${along % 10}`} d={`M${x(own)},${y(index)} V${y(index) + ROW * 0.6}`} stroke-dasharray="2 3" /> : null;
            return <path class={`lane hue${along % 10}`} d={linkPath(x(own), y(index), x(along), x(lane.get(parent) ?? 0), y(target))} />;
          }),
        )}
        {commits.map((commit, index) => (
          <circle class={`node hue${(lane.get(commit.id) ?? 0) % 10} ${commit.parents.length > 1 ? "merge" : ""}`} cx={x(lane.get(commit.id) ?? 0)} cy={y(index)} r={4.5} />
        ))}
      </svg>
      <ol class="rows">
        {commits.map((commit) => (
          <li class={matches(commit) ? "" : "faded"}>
            <label>
              <input type="checkbox" checked={selected.includes(commit.id)} onChange={() => toggle(commit.id)} aria-label={`Compare ${titleOf(commit.message) || commit.id}`} />
            </label>
            <CommitLine graph={graph} commit={commit} />
          </li>
        ))}
      </ol>
    </div>
  );
}

function linkPath(x: number, y: number, via: number, toX: number, toY: number): string {
  const curve = (a: number, b: number, c: number, d: number) => `C${a},${(b + d) / 2} ${c},${(b + d) / 2} ${c},${d}`;
  const parts = [`M${x},${y}`];
  let from = y;
  if (via !== x) {
    parts.push(curve(x, y, via, y + ROW));
    from = y + ROW;
  }
  if (via === toX) parts.push(`V${toY}`);
  else {
    const turn = Math.max(from, toY - ROW);
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
          {actions.has("change") && found.parents.length > 0 && <Revert graph={graph} commit={found} />}
          {found.parents.length > 0 && <Changes graph={graph} query={{ commit: found.id }} />}
        </>
      )}
    </Show>
  );
}

/** Take a commit back, after showing what else that touches. */
export function Revert({ graph, commit, onDone }: { readonly graph: string; readonly commit: Commit; readonly onDone?: () => void }) {
  const [by, setBy] = useState<"row" | "property">("row");
  const [preview, setPreview] = useState<MergeAnswer | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [key] = useState(newKey);
  const request = (dry: boolean, level: "row" | "property") =>
    post<MergeAnswer>(
      graphPath(graph, "/reverts"),
      { commit: commit.id, branch: commit.branch, by: level, dry_run: dry, ...(dry ? {} : { message: `Revert ${commit.id}: ${titleOf(commit.message)}` }) },
      dry ? {} : { headers: { "Idempotency-Key": key } },
    );
  const look = async (level: "row" | "property") => {
    setBy(level);
    setError(null);
    try {
      setPreview(await request(true, level));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  if (preview === null && error === null) return <button onClick={() => void look("row")}>Take this commit back…</button>;
  return (
    <section class="notice">
      <strong>Take back "{titleOf(commit.message) || commit.id}"</strong>
      <p class="muted">Nothing is erased: this makes a new commit on {commit.branch} that undoes the changes.</p>
      {error && <Failure error={error} />}
      {preview && preview.conflicts.length > 0 && (
        <>
          <p>
            Later commits changed the same {preview.conflicts.length === 1 ? "entity" : `${preview.conflicts.length} entities`}:{" "}
            {preview.conflicts.slice(0, 10).map((conflict) => (
              <code>{conflict.row_id} </code>
            ))}
          </p>
          {by === "row" && <button onClick={() => void look("property")}>Take back single properties instead</button>}
        </>
      )}
      {preview && preview.conflicts.length === 0 && (
        <WriteButton
          label="Take it back"
          run={() => request(false, by)}
          done={(answer) => {
            onDone?.();
            if (answer.commit) navigate(view(graph, `/commits/${answer.commit}`));
          }}
        />
      )}
      <button class="quiet" onClick={() => (setPreview(null), setError(null))}>
        Cancel
      </button>
    </section>
  );
}
