/** The graphs that one may read. A single one opens at once. */

import { useEffect } from "preact/hooks";
import { get, graphPath } from "../api";
import { count } from "../format";
import { Empty, Show, useLoad } from "../loading";
import { CommitLine, Heading } from "../parts";
import { Link, navigate } from "../router";
import type { GraphsAnswer } from "../requests";
import type { Caller, GraphInfo } from "../wire";

export function GraphList({ caller }: { readonly caller: Caller }) {
  const graphs = useLoad("graphs", (signal) => get<GraphsAnswer>("/graphs", signal));
  const only = graphs.data?.graphs.length === 1 ? graphs.data.graphs[0] : undefined;
  useEffect(() => {
    if (only) navigate(`/ui/${encodeURIComponent(only.graph_id)}`, true);
  }, [only]);
  return (
    <main class="graphs" id="content">
      <Heading aside={<span class="muted">{caller.actor}</span>}>Graphs</Heading>
      <Show of={graphs} what="the graphs">
        {({ graphs: items }) =>
          items.length === 0 ? (
            <Empty command="omnigraph serve -g brain.og">No graph is served that you may read.</Empty>
          ) : (
            <ul class="cards">
              {items.map((item) => (
                <li>{item.state === "serving" ? <GraphCard id={item.graph_id} /> : <p>{item.graph_id}: cannot be opened now; the server tries again</p>}</li>
              ))}
            </ul>
          )
        }
      </Show>
    </main>
  );
}

function GraphCard({ id }: { readonly id: string }) {
  const info = useLoad(id, (signal) => get<GraphInfo>(graphPath(id), signal));
  return (
    <>
      <h2>
        <Link to={`/ui/${encodeURIComponent(id)}`}>{id}</Link>
      </h2>
      <Show of={info} what={id}>
        {({ nodes, edges, head }) => (
          <>
            <p>
              {count(sum(nodes))} nodes of {Object.keys(nodes).length} types, {count(sum(edges))} edges of {Object.keys(edges).length}
            </p>
            {head && (
              <p>
                <CommitLine graph={id} commit={head} />
              </p>
            )}
          </>
        )}
      </Show>
    </>
  );
}

export function sum(counts: Record<string, number>): number {
  return Object.values(counts).reduce((total, each) => total + each, 0);
}
