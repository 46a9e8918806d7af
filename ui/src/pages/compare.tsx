/** One query at two moments, side by side: rows only in A, only in B, changed, and the same. */

import { useState } from "preact/hooks";
import { ApiError, graphPath, post } from "../api";
import { plural, valueText } from "../format";
import { Failure, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, Value } from "../parts";
import { Link, setSearch, usePlace, view } from "../router";
import type { Json, QueryResult, Row } from "../wire";

type Side = QueryResult | Error;

export function Compare({ graph }: ViewProps) {
  const search = usePlace().search;
  const [q, p, a, b] = ["q", "p", "a", "b"].map((name) => search.get(name) ?? "") as [string, string, string, string];
  const sides = useLoad(q && a && b ? JSON.stringify([graph, q, p, a, b]) : null, (signal) => Promise.all([read(graph, q, p, a, signal), read(graph, q, p, b, signal)]));
  return (
    <>
      <Heading aside={<Link to={view(graph, "/query", { q, p: p || null })}>Change the query</Link>}>Compare</Heading>
      <pre class="plan">{q}</pre>
      <div class="pair">
        {(["a", "b"] as const).map((name) => (
          <label>
            {name.toUpperCase()} <input value={search.get(name) ?? ""} placeholder="branch, commit, tag or time" onChange={(event) => setSearch({ [name]: event.currentTarget.value })} />
          </label>
        ))}
        <button class="quiet" onClick={() => setSearch({ a: b, b: a })}>
          Swap
        </button>
        {a && b && <Link to={view(graph, "/diff", { a, b })}>The diff between them</Link>}
      </div>
      {sides.error && <Failure error={sides.error} />}
      {sides.data && <SideBySide a={sides.data[0]} b={sides.data[1]} />}
    </>
  );
}

async function read(graph: string, query: string, params: string, reference: string, signal: AbortSignal): Promise<Side> {
  const body = { query, params: params ? (JSON.parse(params) as Json) : {}, limit: 1000, numbers: "safe" };
  try {
    return await post<QueryResult>(graphPath(graph, "/query"), { ...body, branch: reference }, { signal });
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) return error as Error;
  }
  try {
    return await post<QueryResult>(graphPath(graph, "/query"), { ...body, at: reference }, { signal });
  } catch (error) {
    return error as Error;
  }
}

function SideBySide({ a, b }: { readonly a: Side; readonly b: Side }) {
  const columns = a instanceof Error ? (b instanceof Error ? [] : b.columns) : a.columns;
  const types = a instanceof Error ? (b instanceof Error ? {} : b.types) : a.types;
  const [keys, setKeys] = useState<readonly string[]>(() => columns.filter((column) => !/^[IUF](32|64)/.test(types[column] ?? "")));
  if (a instanceof Error || b instanceof Error) {
    return (
      <div class="columns">
        {[a, b].map((side) => (
          <section>{side instanceof Error ? <Failure error={side} /> : <p>{plural(side.row_count, "row")}</p>}</section>
        ))}
      </div>
    );
  }
  const matched = match(a.rows, b.rows, columns, keys);
  return (
    <>
      <fieldset class="keys">
        <legend>Rows are matched by</legend>
        {columns.map((column) => (
          <label>
            <input type="checkbox" checked={keys.includes(column)} onChange={() => setKeys(keys.includes(column) ? keys.filter((each) => each !== column) : [...keys, column])} /> {column}
          </label>
        ))}
      </fieldset>
      <p>
        <span class="went">{plural(matched.filter((row) => row.b === null).length, "row")} only in A</span>, <span class="came">{plural(matched.filter((row) => row.a === null).length, "row")} only in B</span>,{" "}
        <span class="changed">{matched.filter((row) => row.changed.length > 0).length} changed</span>, {matched.filter((row) => row.a && row.b && row.changed.length === 0).length} the same
      </p>
      <div class="scroll" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span class="hidden">difference</span>
              </th>
              {columns.map((column) => (
                <th scope="col">{column}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {matched
              .filter((row) => row.a === null || row.b === null || row.changed.length > 0)
              .map((row) => (
                <tr class={row.b === null ? "went" : row.a === null ? "came" : "changed"}>
                  <td>{row.b === null ? "− A" : row.a === null ? "+ B" : "~"}</td>
                  {columns.map((column) => (
                    <td>{row.changed.includes(column) ? <ChangedCell a={row.a?.[column] ?? null} b={row.b?.[column] ?? null} /> : <Value value={(row.b ?? row.a)?.[column]} />}</td>
                  ))}
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function ChangedCell({ a, b }: { readonly a: Json; readonly b: Json }) {
  const difference = typeof a === "number" && typeof b === "number" ? ` (${b - a > 0 ? "+" : ""}${Number((b - a).toPrecision(6))})` : "";
  return (
    <>
      <del>{valueText(a)}</del> → <ins>{valueText(b)}</ins>
      {difference}
    </>
  );
}

interface Matched {
  readonly a: Row | null;
  readonly b: Row | null;
  readonly changed: readonly string[];
}

/** Pair rows whose key columns are equal; equal keys pair in order. */
function match(a: readonly Row[], b: readonly Row[], columns: readonly string[], keys: readonly string[]): Matched[] {
  const keyOf = (row: Row) => JSON.stringify(keys.map((key) => row[key]));
  const waiting = new Map<string, Row[]>();
  for (const row of b) waiting.set(keyOf(row), [...(waiting.get(keyOf(row)) ?? []), row]);
  const found: Matched[] = a.map((row) => {
    const other = waiting.get(keyOf(row))?.shift() ?? null;
    return { a: row, b: other, changed: other ? columns.filter((column) => JSON.stringify(row[column]) !== JSON.stringify(other[column])) : [] };
  });
  for (const rows of waiting.values()) found.push(...rows.map((row): Matched => ({ a: null, b: row, changed: [] })));
  return found;
}
