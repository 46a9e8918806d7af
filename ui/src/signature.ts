/** The parameters of the queries in a text, for forms; and the commands that run one elsewhere. */

import { graphPath } from "./api";
import type { Moment } from "./moment";
import type { Json } from "./wire";

export interface Parameter {
  readonly name: string;
  readonly type: string;
}

/** The parameters that the first query of a text declares. */
export function parametersOf(text: string): readonly Parameter[] {
  const declared = /\bquery\s+\w+\s*\(([^)]*(?:\([^)]*\)[^)]*)*)\)/.exec(text)?.[1] ?? "";
  return [...declared.matchAll(/\$(\w+)\s*:\s*(\[?\w+(?:\(\s*\d+\s*\))?\]?\??)/g)].map((match) => ({ name: match[1] ?? "", type: match[2] ?? "String" }));
}

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

export interface Asked {
  readonly graph: string;
  readonly query: string;
  readonly params: Record<string, Json>;
  readonly moment: Moment;
}

export function toCommand({ graph, query, params, moment }: Asked): string {
  const options = [
    moment.branch !== "main" && `--branch ${quote(moment.branch)}`,
    moment.at && `--at ${quote(moment.at)}`,
    Object.keys(params).length > 0 && `--params ${quote(JSON.stringify(params))}`,
  ].filter(Boolean);
  return ["omnigraph", "-g", `${location.origin}${graphPath(graph)}`, "query", "-e", quote(query), ...options].join(" ");
}

export function toPython({ graph, query, params, moment }: Asked): string {
  const text = (value: unknown) => JSON.stringify(value);
  const given = Object.entries(params).map(([name, value]) => `${text(name)}: ${value === null ? "None" : value === true ? "True" : value === false ? "False" : text(value)}`);
  const options = [given.length > 0 && `params={${given.join(", ")}}`, moment.branch !== "main" && `branch=${text(moment.branch)}`, moment.at && `at=${text(moment.at)}`].filter(Boolean);
  return `import omnigraph as og\n\ngraph = og.open(${text(`${location.origin}${graphPath(graph)}`)})\nresult = graph.query(${[`"""${query.replaceAll("\\", "\\\\")}"""`, ...options].join(", ")})`;
}

export function toCurl({ graph, query, params, moment }: Asked): string {
  const body = { query, params, branch: moment.branch, ...(moment.at ? { at: moment.at } : {}) };
  return `curl ${location.origin}${graphPath(graph)}/query -H "Authorization: Bearer $OMNIGRAPH_TOKEN" -H 'Content-Type: application/json' -d ${quote(JSON.stringify(body))}`;
}
