/** What the page does, as commands, Python and curl: each action has the same beside it for a terminal. */

import { graphPath } from "./api";
import type { Moment } from "./moment";
import { parametersOf } from "./signature";
import type { Json } from "./wire";

/** A word of a shell command, in quotes if it needs them. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command about a graph of this server. Empty words are left out. */
export function commandOf(graph: string, ...words: readonly (string | null | undefined | false)[]): string {
  return ["omnigraph", "-g", location.origin + graphPath(graph), ...words].filter((word): word is string => Boolean(word)).map(quoteWord).join(" ");
}

/** The words of an option, or none if it is not given or says what is meant anyway. */
export function option(name: string, value: string | null | undefined, usual: string | null = null): readonly string[] {
  return value && value !== usual ? [name, value] : [];
}

/** The command that fetches a path of the server into a file. */
export function curlOf(url: string, accept: string, name: string): string {
  return `curl ${quoteWord(location.origin + url)} -H "Authorization: Bearer $OMNIGRAPH_TOKEN" -H ${quoteWord(`Accept: ${accept}`)} -o ${quoteWord(name)}`;
}

/** A query as it was asked. */
export interface Asked {
  readonly graph: string;
  readonly query: string;
  readonly params: Record<string, Json>;
  readonly moment: Moment;
}

export function toCommand({ graph, query, params, moment }: Asked): string {
  const given = Object.keys(params).length > 0 ? JSON.stringify(params) : null;
  return commandOf(graph, "query", "-e", query, ...option("--branch", moment.branch, "main"), ...option("--at", moment.at), ...option("--params", given));
}

export function toPython({ graph, query, params, moment }: Asked): string {
  const types = new Map(parametersOf(query).map(({ name, type }) => [name, type]));
  const given = Object.entries(params).map(([name, value]) => `${JSON.stringify(name)}: ${toLiteral(value, types.get(name) ?? "")}`);
  const words = [
    toBlock(query),
    ...(given.length > 0 ? [`params={${given.join(", ")}}`] : []),
    ...(moment.branch === "main" ? [] : [`branch=${JSON.stringify(moment.branch)}`]),
    ...(moment.at ? [`at=${JSON.stringify(moment.at)}`] : []),
  ];
  return `import omnigraph as og\n\ngraph = og.open(${JSON.stringify(location.origin + graphPath(graph))})\nresult = graph.query(${words.join(", ")})`;
}

/** A value as Python writes it. Integers of 64 bits travel as texts, and are integers there. */
function toLiteral(value: Json, type: string): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map((each) => toLiteral(each, type)).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${toLiteral(each, "")}`).join(", ")}}`;
  if (typeof value === "string" && /^\[?[IU](32|64)/.test(type) && /^-?\d+$/.test(value)) return value;
  return JSON.stringify(value);
}

/** A text as a block of Python, whatever quotes are in it. */
function toBlock(text: string): string {
  return `"""${text.replaceAll("\\", "\\\\").replaceAll('"""', '\\"\\"\\"').replace(/"$/, '\\"')}"""`;
}

export function toCurl({ graph, query, params, moment }: Asked): string {
  const body = { query, params, branch: moment.branch, ...(moment.at ? { at: moment.at } : {}) };
  return `curl ${location.origin}${graphPath(graph)}/query -H "Authorization: Bearer $OMNIGRAPH_TOKEN" -H 'Content-Type: application/json' -d ${quoteWord(JSON.stringify(body))}`;
}
