/** A graph at a glance: rows per type, branches that are ahead of main, the newest commits. */

import { branchPath, call, read } from "../api";
import { commandOf } from "../commands";
import { count, plural } from "../format";
import { Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentKey, momentOf, momentQuery } from "../moment";
import { CommitLine, Counts, Heading, TypeName, totals } from "../parts";
import { Link, usePlace, view } from "../router";
import { edgeWord } from "../slots";
import type { StoredQuery } from "../wire";

const SHOWN_BRANCHES = 20;

export function Overview({ graph, actions }: ViewProps) {
  const moment = momentOf(usePlace());
  const tables = useLoad(`${graph} ${momentKey(moment)} tables`, (signal) => read(graph, "/snapshot", momentQuery(moment), signal));
  const commits = useLoad(`${graph} ${momentKey(moment)}`, (signal) =>
    read(graph, "/commits", { branch: moment.branch, limit: 200 }, signal),
  );
  const branches = useLoad(`${graph} branches`, (signal) => read(graph, "/branches", {}, signal));
  const stored = useLoad(`${graph} queries`, (signal) => read(graph, "/queries", {}, signal).catch(() => ({ queries: [] })));
  return (
    <>
      <Heading>{graph}</Heading>
      <div class="columns">
        <section>
          <h2>Types</h2>
          <Show of={tables} what="the counts">
            {({ tables: items }) => (
              <>
                {(["node", "edge"] as const).map((kind) => (
                  <table class="compact wide">
                    <caption>{kind === "node" ? "Nodes" : "Edges"}</caption>
                    <tbody>
                      {items
                        .filter((item) => item.kind === kind)
                        .map((item) => (
                          <tr>
                            <th scope="row">
                              <Link to={view(graph, kind === "node" ? "/explore" : "/query", kind === "node" ? { type: item.type } : { q: sample(item.type) })}>
                                <TypeName name={item.type} />
                              </Link>
                            </th>
                            <td class="number">{count(item.row_count)}</td>
                          </tr>
                        ))}
                    </tbody>
                  </table>
                ))}
              </>
            )}
          </Show>
        </section>
        <section>
          <h2>Branches to review</h2>
          <Show of={branches} what="the branches">
            {({ items }) =>
              items.length < 2 ? (
                <Empty command={commandOf(graph, "branch", "create", "review/june")}>Work on a branch shows here until it is merged.</Empty>
              ) : (
                <ul class="rows">
                  {items
                    .filter((branch) => branch.name !== "main")
                    .slice(0, SHOWN_BRANCHES)
                    .map((branch) => (
                      <li key={branch.name}>
                        <AheadOfMain graph={graph} branch={branch.name} mayMerge={actions.has("branch_merge")} />
                      </li>
                    ))}
                  {items.length - 1 > SHOWN_BRANCHES && (
                    <li>
                      <Link to={view(graph, "/branches")}>All {count(items.length - 1)} branches</Link>
                    </li>
                  )}
                </ul>
              )
            }
          </Show>
          {stored.data && stored.data.queries.length > 0 && (
            <>
              <h2>Stored queries</h2>
              <ul class="rows">
                {stored.data.queries.slice(0, 12).map((query) => (
                  <li>
                    <StoredQueryLink graph={graph} query={query} />
                  </li>
                ))}
              </ul>
              {stored.data.queries.length > 12 && <Link to={view(graph, "/query")}>All {count(stored.data.queries.length)}</Link>}
            </>
          )}
        </section>
        <section class="wider">
          <h2>Newest commits</h2>
          <Show of={commits} what="the commits">
            {({ commits: items }) => (
              <ul class="rows">
                {items.slice(Math.max(items.findIndex((commit) => commit.id === moment.at), 0)).slice(0, 8).map((commit) => (
                  <li>
                    <CommitLine graph={graph} commit={commit} />
                  </li>
                ))}
              </ul>
            )}
          </Show>
          <p>
            <Link to={view(graph, "/commits")}>All commits</Link> · <Link to={view(graph, "/changes")}>Follow live</Link>
          </p>
        </section>
      </div>
    </>
  );
}

function sample(edge: string): string {
  return `query sample() {\n  match { $a ${edgeWord(edge)} $b }\n  return { id($a) as from, id($b) as to }\n  limit 100\n}`;
}

function AheadOfMain({ graph, branch, mayMerge }: { readonly graph: string; readonly branch: string; readonly mayMerge: boolean }) {
  const ahead = useLoad(`${graph} ${branch} ahead`, (signal) => call(graph, "/merges", { source: branch, target: "main", dry_run: true }, { signal }));
  const isMerged = ahead.data?.outcome?.startsWith("already") ?? false;
  const diff = useLoad(ahead.data && !isMerged ? `${graph} ${branch} ${ahead.data.base ?? ""}` : null, async (signal) => {
    const found = await read(graph, "/diff", { a: ahead.data?.base ?? "main", b: branch, view: "summary" }, signal);
    return found.summary;
  });
  const conflicts = ahead.data?.conflicts.length ?? 0;
  return (
    <>
      <Link to={view(graph, `/review/${branchPath(branch)}`, { branch: null, at: null })}>{branch}</Link>{" "}
      {isMerged && <span class="muted">main has all of it</span>}
      {diff.data && <Counts {...totals(diff.data)} />}{" "}
      {conflicts > 0 ? <span class="went">{plural(conflicts, "conflict")}</span> : diff.data && mayMerge && <span class="muted">can be merged</span>}
    </>
  );
}

function StoredQueryLink({ graph, query }: { readonly graph: string; readonly query: StoredQuery }) {
  return (
    <>
      <Link to={view(graph, "/query", { stored: query.name })}>{query.name}</Link>{" "}
      <span class="muted">{query.description}</span>
    </>
  );
}
