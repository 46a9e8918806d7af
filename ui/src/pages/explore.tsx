/** Explore: a drawn neighbourhood that grows by edge type, with a list of the same beside it. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { get, graphPath, path } from "../api";
import { count } from "../format";
import { Empty, Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentKey, momentOf, momentQuery } from "../moment";
import { Heading, TypeName, Value, entityPath } from "../parts";
import { Link, setSearch, usePlace, view } from "../router";
import type { DrawnEdge, DrawnNode } from "../drawing";
import type { Catalog, Entity, Neighbours, QueryResult } from "../wire";

const Canvas = lazy(() => import("../drawing").then((m) => m.Canvas));
const FIRST = 50;
const PAGE = 100;
const MOST = 10_000;

interface Drawn {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly DrawnEdge[];
}

const NOTHING: Drawn = { nodes: [], edges: [] };

export function Explore({ graph }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const type = place.search.get("type");
  const start = place.search.get("node");
  const [past, setPast] = useState<readonly Drawn[]>([]);
  const [drawn, setDrawn] = useState<Drawn>(NOTHING);
  const [selected, setSelected] = useState<string | null>(start);
  const [error, setError] = useState<Error | null>(null);
  const catalog = useLoad(`${graph} ${momentKey(moment)}`, (signal) => get<Catalog>(path(graphPath(graph, "/schema"), { view: "catalog", ...momentQuery(moment) }), signal));
  const change = (next: Drawn) => {
    setPast((old) => [...old, drawn].slice(-50));
    setDrawn(next);
  };
  const undo = () => {
    const last = past.at(-1);
    if (last === undefined) return;
    setDrawn(last);
    setPast(past.slice(0, -1));
  };
  useEffect(() => {
    const read = async () => {
      setError(null);
      try {
        if (start) setDrawn(await expand(NOTHING, graph, start, momentQuery(moment)));
        else if (type) setDrawn(await sample(graph, type, momentQuery(moment)));
        setPast([]);
      } catch (failed) {
        setError(failed as Error);
      }
    };
    void read();
  }, [graph, start, type, momentKey(moment)]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key === "z" && (event.ctrlKey || event.metaKey) && !["INPUT", "TEXTAREA"].includes((event.target as HTMLElement).tagName)) undo();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  });
  const grow = async (key: string, edge?: string, direction?: string) => {
    try {
      change(await expand(drawn, graph, key, momentQuery(moment), edge, direction));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  const hide = (key: string) => change({ nodes: drawn.nodes.filter((node) => node.key !== key), edges: drawn.edges.filter((edge) => edge.from !== key && edge.to !== key) });
  return (
    <>
      <Heading
        aside={
          <>
            <label>
              <span class="hidden">Type</span>
              <select value={type ?? ""} onChange={(event) => setSearch({ type: event.currentTarget.value, node: null }, false)}>
                <option value="">choose a type</option>
                {catalog.data?.nodes.map((node) => (
                  <option value={node.name}>{node.name}</option>
                ))}
              </select>
            </label>
            <button onClick={undo} disabled={past.length === 0}>
              Undo
            </button>
          </>
        }
      >
        Explore
      </Heading>
      {error && <Failure error={error} />}
      {drawn.nodes.length === 0 && !error && <Empty>Choose a type, or search for an entity by its key.</Empty>}
      {drawn.nodes.length > 0 && (
        <div class="explore">
          <Suspense fallback={<div class="drawing skeleton" />}>
            <Canvas nodes={drawn.nodes} edges={drawn.edges} onSelect={setSelected} onOpen={(key) => void grow(key)} />
          </Suspense>
          <aside>
            {selected ? <Selected graph={graph} node={selected} moment={momentQuery(moment)} grow={grow} hide={hide} /> : <p class="muted">Press a node for its properties; press it twice for its neighbours.</p>}
            <Twin graph={graph} drawn={drawn} select={setSelected} />
          </aside>
        </div>
      )}
    </>
  );
}

function parse(key: string): { type: string; id: string } {
  const slash = key.indexOf("/");
  return { type: key.slice(0, slash), id: key.slice(slash + 1) };
}

async function sample(graph: string, type: string, moment: Record<string, unknown>): Promise<Drawn> {
  const answer = await get<QueryResult>(path(graphPath(graph, "/rows"), { type, columns: "id", limit: FIRST, branch: String(moment["branch"]), at: (moment["at"] as string | null) ?? null }));
  return { nodes: answer.rows.map((row) => ({ key: `${type}/${String(row["id"])}`, type, label: String(row["id"]) })), edges: [] };
}

/** Add a page of neighbours. Nodes that are drawn already stay where they are. */
async function expand(drawn: Drawn, graph: string, key: string, moment: Record<string, unknown>, edge?: string, direction?: string): Promise<Drawn> {
  const { type, id } = parse(key);
  const answer = await get<Neighbours>(
    path(graphPath(graph, "/entity/neighbors"), { type, id, edge: edge ?? null, direction: direction ?? "both", limit: PAGE, branch: String(moment["branch"]), at: (moment["at"] as string | null) ?? null }),
  );
  const nodes = new Map(drawn.nodes.map((node) => [node.key, node]));
  nodes.set(key, nodes.get(key) ?? { key, type, label: id });
  const edges = new Map(drawn.edges.map((each) => [each.key, each]));
  answer.edges.forEach((found, index) => {
    const other = answer.nodes[index] ?? answer.nodes.find((node) => node.id === (found.direction === "out" ? found.to : found.from));
    if (!other || nodes.size >= MOST) return;
    const otherKey = `${other.type}/${other.id}`;
    nodes.set(otherKey, nodes.get(otherKey) ?? { key: otherKey, type: other.type, label: other.label });
    const [from, to] = found.direction === "out" ? [key, otherKey] : [otherKey, key];
    edges.set(`${found.type}/${found.id}`, { key: `${found.type}/${found.id}`, type: found.type, from, to });
  });
  return { nodes: [...nodes.values()], edges: [...edges.values()] };
}

interface SelectedProps {
  readonly graph: string;
  readonly node: string;
  readonly moment: Record<string, unknown>;
  readonly grow: (key: string, edge?: string, direction?: string) => Promise<void>;
  readonly hide: (key: string) => void;
}

function Selected({ graph, node, moment, grow, hide }: SelectedProps) {
  const { type, id } = parse(node);
  const entity = useLoad(JSON.stringify([graph, node, moment]), (signal) =>
    get<Entity>(path(graphPath(graph, "/entity"), { entity: "node", type, id, numbers: "safe", branch: String(moment["branch"]), at: (moment["at"] as string | null) ?? null }), signal),
  );
  return (
    <section class="panel">
      <h2>
        <TypeName name={type} /> <Link to={view(graph, entityPath("node", type, id))}>{id}</Link>
      </h2>
      <Show of={entity} what="the entity">
        {(found) => (
          <>
            <div class="toolbar">
              {(found.degrees ?? []).map((degree) => (
                <button onClick={() => void grow(node, degree.edge, degree.direction)}>
                  {degree.direction === "out" ? "→" : "←"} {degree.edge} {count(degree.count)}
                  {degree.count > PAGE && <span class="muted"> ({PAGE} of them)</span>}
                </button>
              ))}
              <button class="quiet" onClick={() => hide(node)}>
                Hide
              </button>
            </div>
            <dl class="properties">
              {Object.entries(found.properties).map(([name, value]) => (
                <>
                  <dt>{name}</dt>
                  <dd>
                    <Value value={value} />
                  </dd>
                </>
              ))}
            </dl>
          </>
        )}
      </Show>
    </section>
  );
}

/** The same as the drawing, as a list by type: for keyboards, readers and small screens. */
function Twin({ graph, drawn, select }: { readonly graph: string; readonly drawn: Drawn; readonly select: (key: string) => void }) {
  const types = [...new Set(drawn.nodes.map((node) => node.type))].sort();
  return (
    <section aria-label="What is drawn">
      <p class="muted">
        {count(drawn.nodes.length)} nodes, {count(drawn.edges.length)} edges{drawn.nodes.length >= MOST && `; no more than ${count(MOST)} are drawn`}
      </p>
      {types.map((type) => {
        const own = drawn.nodes.filter((node) => node.type === type);
        return (
          <details>
            <summary>
              <TypeName name={type} /> <span class="muted">{count(own.length)}</span>
            </summary>
            <ul class="rows">
              {own.map((node) => (
                <li>
                  <button class="quiet" onClick={() => select(node.key)}>
                    {node.label}
                  </button>{" "}
                  <Link to={view(graph, entityPath("node", type, parse(node.key).id))}>open</Link>
                </li>
              ))}
            </ul>
          </details>
        );
      })}
    </section>
  );
}
