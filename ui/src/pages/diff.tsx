/** What differs between two moments: counts per type, entities, properties; as a list or drawn on the graph. */

import { lazy, Suspense } from "preact/compat";
import { read, routePath } from "../api";
import { commandOf, curlOf } from "../commands";
import { count, plural } from "../format";
import { Copy, Empty, Failure, Show, useLoad, usePages } from "../loading";
import type { ViewProps } from "../main";
import { Change, Counts, Heading, TypeName, totals } from "../parts";
import { RefChoices, RefField } from "../refs";
import { setSearch, usePlace } from "../router";
import { SaveButton } from "../saving";
import type { Reads } from "../requests";
import type { Side, TypeChanges } from "../wire";

const Drawing = lazy(() => import("../drawing").then((m) => m.DiffDrawing));
const PAGE = 500;
const DRAWN = 2000;
const LINES = "application/x-ndjson";

export function DiffView({ graph }: ViewProps) {
  const search = usePlace().search;
  const a = search.get("a") || "main";
  const b = search.get("b") || "";
  return (
    <>
      <Heading>Diff</Heading>
      <RefPair graph={graph} a={a} b={b} />
      {b === "" ? <Empty command={commandOf(graph, "diff", "main", "review/june")}>Choose two branches, commits, tags or times to compare.</Empty> : <Changes graph={graph} query={{ a, b }} />}
    </>
  );
}

function RefPair({ graph, a, b }: { readonly graph: string; readonly a: string; readonly b: string }) {
  return (
    <div class="pair">
      <RefChoices graph={graph} />
      <RefField graph={graph} label="from" value={a} change={(value) => setSearch({ a: value })} />
      <RefField graph={graph} label="to" value={b} change={(value) => setSearch({ b: value })} />
      <button class="quiet" onClick={() => setSearch({ a: b, b: a })} disabled={b === ""}>
        Swap
      </button>
    </div>
  );
}

/** The changes of a diff. ``query`` says what is compared. */
export function Changes({ graph, query }: { readonly graph: string; readonly query: Reads["/diff"] }) {
  const search = usePlace().search;
  const type = search.get("type");
  const op = search.get("op");
  const drawn = search.get("view") === "graph";
  const key = JSON.stringify([graph, query]);
  const summary = useLoad(key, (signal) => read(graph, "/diff", { ...query, view: "summary" }, signal));
  return (
    <Show of={summary} what="the differences">
      {(diff) => {
        const sums = totals(diff.summary);
        const total = sums.inserted + sums.updated + sums.deleted;
        if (total === 0) return <Empty>Nothing differs.</Empty>;
        return (
          <>
            <TypeTable summary={diff.summary} chosen={type} />
            <div class="toolbar">
              <div role="group" aria-label="View">
                <button aria-pressed={!drawn} onClick={() => setSearch({ view: null })}>
                  List
                </button>
                <button aria-pressed={drawn} onClick={() => setSearch({ view: "graph" })}>
                  On the graph
                </button>
              </div>
              <div role="group" aria-label="Kind of change">
                {(["inserted", "updated", "deleted"] as const).map((each) => (
                  <button aria-pressed={op === each} disabled={sums[each] === 0} onClick={() => setSearch({ op: op === each ? null : each })}>
                    {{ inserted: "came", updated: "changed", deleted: "went" }[each]}
                  </button>
                ))}
              </div>
              <span class="muted">{plural(total, "changed entity")}</span>
              {diff.types_hidden && <span class="muted">Some types are hidden from you.</span>}
            </div>
            <Entities graph={graph} diff={diff} query={{ ...query, type: type ? [type] : null, op: op ? [op] : null }} drawn={drawn} total={type ? countOf(diff.summary, type) : total} summary={diff.summary} />
          </>
        );
      }}
    </Show>
  );
}

function countOf(summary: readonly TypeChanges[], type: string): number {
  const sums = totals(summary.filter((each) => each.type === type));
  return sums.inserted + sums.updated + sums.deleted;
}

function TypeTable({ summary, chosen }: { readonly summary: readonly TypeChanges[]; readonly chosen: string | null }) {
  return (
    <ul class="types" aria-label="Changes per type">
      {summary.map((each) => (
        <li>
          <button aria-pressed={chosen === each.type} title={each.kind} onClick={() => setSearch({ type: chosen === each.type ? null : each.type })}>
            <TypeName name={each.type} /> <Counts {...each} />
          </button>
        </li>
      ))}
    </ul>
  );
}

interface EntitiesProps {
  readonly graph: string;
  readonly diff: { readonly before: Side; readonly after: Side };
  readonly query: Reads["/diff"];
  readonly drawn: boolean;
  readonly total: number;
  readonly summary: readonly TypeChanges[];
}

function Entities({ graph, diff, query, drawn, total, summary }: EntitiesProps) {
  const pages = usePages(JSON.stringify([graph, query, drawn]), async (cursor: number | null, signal) => {
    const found = await read(graph, "/diff", { ...query, view: "entities", numbers: "safe", limit: drawn && cursor === null ? DRAWN : PAGE, cursor }, signal);
    return { ...found, items: found.entities ?? [] };
  });
  return (
    <Show of={pages.first} what="the changed entities">
      {() => {
        const entities = pages.items;
        const all = routePath(graph, "/diff", { ...query, view: "entities" });
        return (
          <>
            <div class={drawn ? "beside" : ""}>
              {drawn && (
                <Suspense fallback={<div class="drawing skeleton" />}>
                  <Drawing graph={graph} entities={entities} summary={total > DRAWN ? summary : null} before={diff.before} after={diff.after} />
                </Suspense>
              )}
              <div class="changes" data-count={entities.length}>
                {entities.map((change) => (
                  <Change key={`${change.type}/${change.id} ${change.op} ${drawn}`} graph={graph} change={change} before={diff.before} after={diff.after} folded={drawn} />
                ))}
              </div>
            </div>
            {pages.readMore && (
              <p>
                {plural(entities.length, "entity")} of {count(total)}. <button onClick={pages.readMore}>Show {PAGE} more</button>
              </p>
            )}
            {pages.error && <Failure error={pages.error} />}
            <p>
              <Copy text={commandOf(graph, "diff", ...(query.commit == null ? [query.a, query.b] : [diff.before.commit, diff.after.commit]))} label="Copy as command" />
              <SaveButton quiet label="Download all as JSON lines" url={all} options={{ headers: { Accept: LINES } }} name="diff.jsonl" command={curlOf(all, LINES, "diff.jsonl")} />
            </p>
          </>
        );
      }}
    </Show>
  );
}
