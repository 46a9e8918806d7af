/** What a drawn neighbourhood is, and how it grows, shrinks and moves through time. */

import { call, read } from "./api";
import type { DrawnEdge, DrawnNode } from "./drawing";
import { type Moment, momentKey } from "./moment";
import { count } from "./format";
import type { Catalog, Json, Row } from "./wire";

export const PAGE = 100;
export const FIRST = 500;
export const MOST_NODES = 10_000;
export const MOST_EDGES = 30_000;
const AT_ONCE = 200;
const MOST_BETWEEN = 2000;

export interface Drawn {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly DrawnEdge[];
  /** How many neighbours of a node along an edge and direction are drawn, to go on from there. */
  readonly pages: ReadonlyMap<string, number>;
  /** Said beside the drawing if it began with a part only. */
  readonly note?: string;
}

export const NOTHING: Drawn = { nodes: [], edges: [], pages: new Map() };

export function parseKey(key: string): { type: string; id: string } {
  const slash = key.indexOf("/");
  return { type: key.slice(0, slash), id: key.slice(slash + 1) };
}

/** Pages are of one moment: at another one a node has other edges. */
function pageKey(key: string, edge: string, direction: string, moment: Moment): string {
  return `${key} ${direction} ${edge} ${momentKey(moment)}`;
}

/** The first nodes of a type. */
export async function sample(graph: string, type: string, moment: Moment): Promise<Drawn> {
  const answer = await read(graph, "/rows", { type, columns: ["id"], limit: FIRST, ...moment });
  const nodes = answer.rows.map((row) => ({ key: `${type}/${String(row["id"])}`, type, label: String(row["id"]) }));
  if (!answer.next) return { ...NOTHING, nodes };
  const { tables } = await read(graph, "/snapshot", { ...moment });
  const all = tables.find((table) => table.kind === "node" && table.type === type)?.row_count ?? 0;
  return { ...NOTHING, nodes, note: `The first ${count(nodes.length)} of ${count(all)} are drawn.` };
}

/** The nodes that a query gives, and the edges between them. */
export async function drawResult(graph: string, catalog: Catalog, query: string, params: Record<string, Json>, moment: Moment): Promise<Drawn> {
  const answer = await call(graph, "/query", { query, params, limit: FIRST, numbers: "safe", branch: moment.branch, at: moment.at });
  const nodes = new Map<string, DrawnNode>();
  for (const { type, column } of nodeColumns(query, answer.columns, catalog)) {
    for (const row of answer.rows) {
      const id = row[column];
      if (typeof id === "string") nodes.set(`${type}/${id}`, { key: `${type}/${id}`, type, label: id });
    }
  }
  const edges: DrawnEdge[] = [];
  for (const { name, from, to } of catalog.edges) {
    const [starts, ends] = [from, to].map((type) => [...nodes.values()].filter((node) => node.type === type).map((node) => parseKey(node.key).id));
    if (!starts?.length || !ends?.length) continue;
    const filter = JSON.stringify([["from", "in", starts], ["to", "in", ends]]);
    const found = await read(graph, "/rows", { entity: "edge", type: name, filter, columns: ["id", "from", "to"], limit: MOST_BETWEEN, ...moment });
    edges.push(...found.rows.map((row) => ({ key: `${name}/${String(row["id"])}`, type: name, from: `${from}/${String(row["from"])}`, to: `${to}/${String(row["to"])}` })));
  }
  const drawn = { ...NOTHING, nodes: [...nodes.values()], edges };
  return answer.next ? { ...drawn, note: `The nodes of the first ${count(FIRST)} rows are drawn.` } : drawn;
}

/** The columns of a result that name nodes: a returned variable, its id, or the key of its type. */
export function nodeColumns(query: string, columns: readonly string[], catalog: Catalog): { readonly type: string; readonly column: string }[] {
  const aliases = new Map([...query.matchAll(/\$(\w+(?:\.\w+)?)\s+as\s+(\w+)/g)].map((match) => [match[1] ?? "", match[2] ?? ""]));
  return [...query.matchAll(/\$(\w+)\s*:\s*(\w+)/g)].flatMap((match) => {
    const type = catalog.nodes.find((node) => node.name === match[2]);
    const variable = match[1] ?? "";
    const names = [variable, `${variable}.id`, ...(type?.key?.length === 1 ? [`${variable}.${type.key[0] ?? ""}`] : [])];
    const column = names.map((name) => aliases.get(name) ?? name).find((name) => columns.includes(name));
    return type && column ? [{ type: type.name, column }] : [];
  });
}

/** Add a page of neighbours, of one edge type or of all. Nodes that are drawn already stay where they are. */
export async function expand(drawn: Drawn, graph: string, catalog: Catalog, key: string, moment: Moment, edge?: string, direction?: "in" | "out"): Promise<Drawn> {
  const { type, id } = parseKey(key);
  const offset = edge && direction ? (drawn.pages.get(pageKey(key, edge, direction, moment)) ?? 0) : 0;
  const answer = await read(graph, "/entity/neighbors", { type, id, edge, direction: direction ?? "both", limit: PAGE, offset, ...moment });
  const nodes = new Map(drawn.nodes.map((node) => [node.key, node]));
  const edges = new Map(drawn.edges.map((each) => [each.key, each]));
  nodes.set(key, nodes.get(key) ?? { key, type, label: id });
  const ends = new Map(catalog.edges.map((each) => [each.name, [each.from, each.to] as const]));
  const pages = new Map(drawn.pages);
  for (const found of answer.edges) {
    const [fromType, toType] = ends.get(found.type) ?? ["", ""];
    const [from, to] = [`${fromType}/${found.from}`, `${toType}/${found.to}`];
    if (nodes.size >= MOST_NODES || edges.size >= MOST_EDGES) break;
    for (const [end, endType, endId] of [[from, fromType, found.from], [to, toType, found.to]] as const) {
      nodes.set(end, nodes.get(end) ?? { key: end, type: endType, label: endId });
    }
    edges.set(`${found.type}/${found.id}`, { key: `${found.type}/${found.id}`, type: found.type, from, to });
    const page = pageKey(key, found.type, found.direction, moment);
    pages.set(page, (pages.get(page) ?? 0) + 1);
  }
  return { nodes: [...nodes.values()], edges: [...edges.values()], pages };
}

/** Take away the neighbours that hang on this node only. */
export function collapse(drawn: Drawn, key: string): Drawn {
  const degree = new Map<string, number>();
  for (const edge of drawn.edges) for (const end of [edge.from, edge.to]) degree.set(end, (degree.get(end) ?? 0) + 1);
  const leaves = new Set(drawn.edges.filter((edge) => edge.from === key || edge.to === key).map((edge) => (edge.from === key ? edge.to : edge.from)));
  const gone = new Set([...leaves].filter((end) => end !== key && degree.get(end) === 1));
  return withoutNodes(drawn, gone, (page) => page.startsWith(`${key} `));
}

export function withoutNodes(drawn: Drawn, gone: ReadonlySet<string>, forgets: (page: string) => boolean = () => false): Drawn {
  return {
    nodes: drawn.nodes.filter((node) => !gone.has(node.key)),
    edges: drawn.edges.filter((edge) => !gone.has(edge.from) && !gone.has(edge.to)),
    pages: new Map([...drawn.pages].filter(([page]) => !forgets(page))),
  };
}

/** The rows of the drawn nodes at a moment, by key: which of them are there, and what they are called. */
export async function readRows(graph: string, catalog: Catalog, nodes: readonly DrawnNode[], moment: Moment, signal: AbortSignal): Promise<Map<string, Row>> {
  const rows = new Map<string, Row>();
  for (const type of catalog.nodes) {
    const ids = nodes.filter((node) => node.type === type.name).map((node) => parseKey(node.key).id);
    const columns = ["id", ...type.properties.filter((each) => !/Blob|Vector|\[/.test(each.type)).map((each) => each.name)];
    for await (const row of readByIds(graph, "node", type.name, ids, columns, moment, signal)) rows.set(`${type.name}/${String(row["id"])}`, row);
  }
  return rows;
}

/** The drawn edges that are there at a moment, by key. */
export async function readEdges(graph: string, catalog: Catalog, edges: readonly DrawnEdge[], moment: Moment, signal: AbortSignal): Promise<Set<string>> {
  const there = new Set<string>();
  for (const { name } of catalog.edges) {
    const ids = edges.filter((edge) => edge.type === name).map((edge) => parseKey(edge.key).id);
    for await (const row of readByIds(graph, "edge", name, ids, ["id"], moment, signal)) there.add(`${name}/${String(row["id"])}`);
  }
  return there;
}

async function* readByIds(graph: string, entity: "node" | "edge", type: string, ids: readonly string[], columns: readonly string[], moment: Moment, signal: AbortSignal): AsyncGenerator<Row> {
  for (let first = 0; first < ids.length; first += AT_ONCE) {
    const filter = JSON.stringify([["id", "in", ids.slice(first, first + AT_ONCE)]]);
    yield* (await read(graph, "/rows", { entity, type, filter, columns: [columns.join(",")], limit: AT_ONCE, numbers: "safe", ...moment }, signal)).rows;
  }
}

/** The drawn nodes as queries, one for each type. */
export function toQueries(drawn: Drawn): string {
  const types = [...new Set(drawn.nodes.map((node) => node.type))].sort();
  return types
    .map((type) => {
      const ids = drawn.nodes.filter((node) => node.type === type).map((node) => JSON.stringify(parseKey(node.key).id));
      return `query drawn_${type.toLowerCase()}() {\n  match {\n    $n: ${type}\n    $n.id in [${ids.join(", ")}]\n  }\n  return { $n.* }\n}\n`;
    })
    .join("\n");
}
