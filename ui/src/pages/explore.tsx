/** Explore: a drawn neighbourhood that grows by edge type, with a list of the same beside it. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { read, readCatalog } from "../api";
import { count, download, hueOf, valueText } from "../format";
import { Empty, Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { type Moment, momentKey, momentOf } from "../moment";
import { Heading, TypeName, Value, entityPath } from "../parts";
import { Link, setSearch, usePlace, view } from "../router";
import type { DrawnNode } from "../drawing";
import { type Drawn, MOST_EDGES, MOST_NODES, NOTHING, PAGE, collapse, drawResult, expand, parseKey, readEdges, readRows, sample, toQueries, withoutNodes } from "../exploring";
import { readParams } from "../signature";
import type { Catalog, Row } from "../wire";

const Canvas = lazy(() => import("../drawing").then((m) => m.Canvas));

interface Past {
  readonly before: readonly Drawn[];
  readonly now: Drawn;
  readonly after: readonly Drawn[];
}

const BLANK: Past = { before: [], now: NOTHING, after: [] };

export function Explore({ graph }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const type = place.search.get("type");
  const start = place.search.get("node");
  const query = place.search.get("q");
  const params = place.search.get("p");
  const begins = start ?? query ?? type;
  const [past, setPast] = useState<Past>(BLANK);
  const drawn = past.now;
  const [selected, setSelected] = useState<string | null>(start);
  const [pins, setPins] = useState<ReadonlySet<string>>(new Set());
  const [error, setError] = useState<Error | null>(null);
  const toImage = useRef<(() => string) | null>(null);
  const catalog = useLoad(`${graph} ${momentKey(moment)}`, (signal) => readCatalog(graph, moment, signal));
  const known = catalog.data;
  const change = (next: Drawn) => setPast((old) => ({ before: [...old.before, old.now].slice(-50), now: next, after: [] }));
  const undo = () => setPast((old) => (old.before.length === 0 ? old : { before: old.before.slice(0, -1), now: old.before.at(-1) ?? NOTHING, after: [old.now, ...old.after] }));
  const redo = () => setPast((old) => (old.after.length === 0 ? old : { before: [...old.before, old.now], now: old.after[0] ?? NOTHING, after: old.after.slice(1) }));
  // Another moment keeps the drawing: what is not there then is hidden, and nothing moves.
  useEffect(() => {
    if (!known || !begins) return setPast(BLANK);
    setError(null);
    const first = start ? expand(NOTHING, graph, known, start, moment) : query ? drawResult(graph, known, query, readParams(params), moment) : sample(graph, type ?? "", moment);
    first.then((now) => setPast({ before: [], now, after: [] }), setError);
  }, [graph, begins, params, known !== null]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || ["INPUT", "TEXTAREA"].includes((event.target as HTMLElement).tagName)) return;
      event.preventDefault();
      if (event.shiftKey) redo();
      else undo();
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const grow = async (key: string, edge?: string, direction?: "in" | "out") => {
    if (!known) return;
    try {
      change(await expand(drawn, graph, known, key, moment, edge, direction));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  const there = useLoad(known && drawn.nodes.length > 0 ? JSON.stringify([graph, momentKey(moment), drawn.nodes.length, drawn.edges.length, drawn.nodes.at(-1)?.key]) : null, async (signal) => {
    const [rows, edges] = await Promise.all([readRows(graph, known as Catalog, drawn.nodes, moment, signal), readEdges(graph, known as Catalog, drawn.edges, moment, signal)]);
    return { rows, edges };
  });
  const shown = useShown(drawn, there.data, pins, place.search);
  const hidden = shown.nodes.filter((node) => node.hidden).length;
  const toggle = (key: string) => setPins((old) => new Set(old.has(key) ? [...old].filter((each) => each !== key) : [...old, key]));
  return (
    <>
      <Heading
        aside={
          <>
            <label>
              <span class="hidden">Type</span>
              <select value={type ?? ""} onChange={(event) => setSearch({ type: event.currentTarget.value, node: null, q: null, p: null }, false)}>
                <option value="">choose a type</option>
                {known?.nodes.map((node) => (
                  <option value={node.name}>{node.name}</option>
                ))}
              </select>
            </label>
            <button onClick={undo} disabled={past.before.length === 0}>
              Undo
            </button>
            <button onClick={redo} disabled={past.after.length === 0}>
              Redo
            </button>
          </>
        }
      >
        Explore
      </Heading>
      {error && <Failure error={error} />}
      {!begins && known && (
        <div class="panel">
          <p>Begin with a type, or search for an entity by its key, name or words.</p>
          <div class="toolbar">
            {known.nodes.map((node) => (
              <button onClick={() => setSearch({ type: node.name }, false)}>
                <TypeName name={node.name} />
              </button>
            ))}
          </div>
        </div>
      )}
      {begins && !error && drawn.nodes.length === 0 && known && <Empty>Nothing is drawn.</Empty>}
      {drawn.note && (
        <p class="muted" role="status">
          {drawn.note} Search or a query finds others.
        </p>
      )}
      {drawn.nodes.length > 0 && known && (
        <>
          <Looks catalog={known} drawn={drawn} image={() => toImage.current?.() ?? ""} />
          {(drawn.nodes.length >= MOST_NODES || drawn.edges.length >= MOST_EDGES) && (
            <p class="notice" role="status">
              No more than {count(MOST_NODES)} nodes and {count(MOST_EDGES)} edges are drawn. Hide some, or ask a query.
            </p>
          )}
          <div class="explore">
            <Suspense fallback={<div class="drawing skeleton" />}>
              <Canvas nodes={shown.nodes} edges={shown.edges} selected={selected} onSelect={setSelected} onOpen={(key) => void grow(key)} onReady={(make) => (toImage.current = make)} />
            </Suspense>
            <aside>
              {selected ? (
                <Selected
                  graph={graph}
                  node={selected}
                  moment={moment}
                  edges={there.data ? drawn.edges.filter((edge) => there.data?.edges.has(edge.key)) : drawn.edges}
                  pinned={pins.has(selected)}
                  grow={grow}
                  pin={() => toggle(selected)}
                  hide={() => change(withoutNodes(drawn, new Set([selected])))}
                  collapse={() => change(collapse(drawn, selected))}
                />
              ) : (
                <p class="muted">Press a node for its properties; press it twice for its neighbours.</p>
              )}
              <Twin graph={graph} nodes={shown.nodes.filter((node) => !node.hidden)} edges={shown.edges.filter((edge) => !edge.hidden)} hidden={hidden} select={setSelected} />
            </aside>
          </div>
        </>
      )}
    </>
  );
}

interface There {
  readonly rows: ReadonlyMap<string, Row>;
  readonly edges: ReadonlySet<string>;
}

/** What is drawn as it looks: hidden where it is not there or filtered away, with labels, hues and sizes of the rows. */
function useShown(drawn: Drawn, there: There | null, pins: ReadonlySet<string>, search: URLSearchParams): Pick<Drawn, "nodes" | "edges"> {
  const filter = (search.get("filter") ?? "").toLowerCase();
  const hue = search.get("colour") ?? "";
  const size = search.get("size") ?? "";
  return useMemo(() => {
    const numbers = size && there ? [...there.rows.values()].map((row) => Number(row[size])).filter(Number.isFinite) : [];
    const largest = Math.max(...numbers.map(Math.abs), 1);
    const nodes = drawn.nodes.map((node): DrawnNode => {
      const row = there?.rows.get(node.key);
      const label = labelOf(node.label, row);
      const matches = filter === "" || `${node.key} ${label} ${row ? Object.values(row).map(valueText).join(" ") : ""}`.toLowerCase().includes(filter);
      const value = row?.[hue];
      const amount = Math.abs(Number(row?.[size]));
      return {
        ...node,
        label,
        pinned: pins.has(node.key),
        hidden: !matches || (there !== null && row === undefined),
        ...(hue && value !== undefined && value !== null ? { hue: hueOf(valueText(value)) } : {}),
        ...(size ? { size: Number.isFinite(amount) ? 5 + 13 * Math.sqrt(amount / largest) : 4 } : {}),
      };
    });
    const visible = new Set(nodes.filter((node) => !node.hidden).map((node) => node.key));
    const edges = drawn.edges.map((edge) => ({ ...edge, hidden: !visible.has(edge.from) || !visible.has(edge.to) || (there !== null && !there.edges.has(edge.key)) }));
    return { nodes, edges };
  }, [drawn, there, pins, filter, hue, size]);
}

function labelOf(id: string, row: Row | undefined): string {
  const name = row?.["name"] ?? row?.["title"] ?? row?.["label"];
  return typeof name === "string" && name !== "" ? name : id;
}

/** Colour and size by a property, a filter, and saving. */
function Looks({ catalog, drawn, image }: { readonly catalog: Catalog; readonly drawn: Drawn; readonly image: () => string }) {
  const search = usePlace().search;
  const types = new Set(drawn.nodes.map((node) => node.type));
  const properties = catalog.nodes.filter((node) => types.has(node.name)).flatMap((node) => node.properties);
  const names = [...new Set(properties.filter((each) => !/Blob|Vector|\[/.test(each.type)).map((each) => each.name))].sort();
  const numeric = [...new Set(properties.filter((each) => /^[IUF](32|64)/.test(each.type)).map((each) => each.name))].sort();
  const save = () => {
    const bytes = Uint8Array.from(atob(image().split(",")[1] ?? ""), (each) => each.charCodeAt(0));
    download("drawing.png", bytes, "image/png");
  };
  return (
    <div class="toolbar">
      {(
        [
          ["colour", "Colour by", "type", names],
          ["size", "Size by", "nothing", numeric],
        ] as const
      ).map(([name, title, none, choices]) => (
        <label>
          {title}{" "}
          <select value={search.get(name) ?? ""} onChange={(event) => setSearch({ [name]: event.currentTarget.value })}>
            <option value="">{none}</option>
            {choices.map((each) => (
              <option value={each}>{each}</option>
            ))}
          </select>
        </label>
      ))}
      <label>
        <span class="hidden">Filter</span>
        <input type="search" placeholder="Filter what is drawn" value={search.get("filter") ?? ""} onInput={(event) => setSearch({ filter: event.currentTarget.value })} />
      </label>
      <button class="quiet" onClick={save}>
        Save PNG
      </button>
      <button class="quiet" onClick={() => download("drawing.gq", toQueries(drawn), "text/plain")}>
        Save as .gq
      </button>
    </div>
  );
}

interface SelectedProps {
  readonly graph: string;
  readonly node: string;
  readonly moment: Moment;
  /** The drawn edges that are there at this moment. */
  readonly edges: Drawn["edges"];
  readonly pinned: boolean;
  readonly grow: (key: string, edge?: string, direction?: "in" | "out") => Promise<void>;
  readonly pin: () => void;
  readonly hide: () => void;
  readonly collapse: () => void;
}

function Selected({ graph, node, moment, edges, pinned, grow, pin, hide, collapse: fold }: SelectedProps) {
  const { type, id } = parseKey(node);
  const entity = useLoad(JSON.stringify([graph, node, moment]), (signal) => read(graph, "/entity", { entity: "node", type, id, numbers: "safe", ...moment }, signal));
  return (
    <section class="panel" aria-label="Selected">
      <h2>
        <TypeName name={type} /> <Link to={view(graph, entityPath("node", type, id))}>{id}</Link>
      </h2>
      <Show of={entity} what="the entity">
        {(found) => (
          <>
            <div class="toolbar" role="group" aria-label="Expand">
              {(found.degrees ?? []).map((degree) => {
                const have = edges.filter((edge) => edge.type === degree.edge && (degree.direction === "out" ? edge.from : edge.to) === node).length;
                return (
                  <button disabled={have >= degree.count} onClick={() => void grow(node, degree.edge, degree.direction)}>
                    {degree.direction === "out" ? "→" : "←"} {degree.edge} {have > 0 || degree.count > PAGE ? `${count(have)} of ${count(degree.count)}` : count(degree.count)}
                  </button>
                );
              })}
            </div>
            <div class="toolbar">
              <button class="quiet" onClick={fold}>
                Collapse
              </button>
              <button class="quiet" onClick={hide}>
                Hide
              </button>
              <button class="quiet" aria-pressed={pinned} onClick={pin}>
                Pin
              </button>
            </div>
            <dl class="properties">
              {Object.entries(found.properties)
                .filter(([name]) => name !== "id")
                .map(([name, value]) => (
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

interface TwinProps extends Pick<Drawn, "nodes" | "edges"> {
  readonly graph: string;
  readonly hidden: number;
  readonly select: (key: string) => void;
}

/** The same as the drawing, as a list by type: for keyboards, readers and small screens. It is the legend, too. */
function Twin({ graph, nodes, edges, hidden, select }: TwinProps) {
  const types = [...new Set(nodes.map((node) => node.type))].sort();
  const kinds = [...new Set(edges.map((edge) => edge.type))].sort();
  const names = new Map(nodes.map((node) => [node.key, node.label]));
  return (
    <section aria-label="What is drawn" class="twin" data-nodes={nodes.length} data-edges={edges.length}>
      <p class="muted">
        {count(nodes.length)} nodes, {count(edges.length)} edges{hidden > 0 && `; ${count(hidden)} not there, or filtered away`}
      </p>
      {types.map((type) => {
        const own = nodes.filter((node) => node.type === type);
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
                  <Link to={view(graph, entityPath("node", type, parseKey(node.key).id))}>{parseKey(node.key).id}</Link>
                </li>
              ))}
            </ul>
          </details>
        );
      })}
      {kinds.map((kind) => {
        const own = edges.filter((edge) => edge.type === kind);
        return (
          <details>
            <summary>
              → {kind} <span class="muted">{count(own.length)}</span>
            </summary>
            <ul class="rows">
              {own.map((edge) => (
                <li>
                  <Link to={view(graph, entityPath("edge", kind, parseKey(edge.key).id))}>
                    {names.get(edge.from)} → {names.get(edge.to)}
                  </Link>
                </li>
              ))}
            </ul>
          </details>
        );
      })}
    </section>
  );
}
