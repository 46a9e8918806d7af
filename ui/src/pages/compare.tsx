/** One query at two moments, side by side: rows only in A, only in B, changed, and the same. */

import { useState } from "preact/hooks";
import { ApiError, call, readCatalog } from "../api";
import { count, growth, parseExact, plural, valueText } from "../format";
import { Empty, Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, Id, Value } from "../parts";
import { RefChoices, RefField, resolveRef } from "../refs";
import { Link, setSearch, usePlace, view } from "../router";
import { NUMBERS } from "../table";
import type { Catalog, Commit, Json, QueryResult, Row } from "../wire";

interface Side {
  readonly reference: string;
  readonly result: QueryResult | Error;
  readonly commit: Commit | null;
}

const MOST = 1000;

export function Compare({ graph }: ViewProps) {
  const search = usePlace().search;
  const [q, p, a, b] = ["q", "p", "a", "b"].map((name) => search.get(name) ?? "") as [string, string, string, string];
  const sides = useLoad(q && a && b ? JSON.stringify([graph, q, p, a, b]) : null, async (signal) => {
    const [catalog, ...both] = await Promise.all([readCatalog(graph, {}, signal), runAt(graph, q, p, a, signal), runAt(graph, q, p, b, signal)]);
    return { catalog, both };
  });
  return (
    <>
      <RefChoices graph={graph} />
      <Heading aside={<Link to={view(graph, "/query", { q, p: p || null })}>Change the query</Link>}>Compare</Heading>
      {q === "" ? (
        <Empty>
          Write a query first; the page <Link to={view(graph, "/query")}>Query</Link> runs it again at another moment.
        </Empty>
      ) : (
        <pre class="plan">{q}</pre>
      )}
      {p && (
        <p class="muted">
          with <code>{p}</code>
        </p>
      )}
      <div class="pair">
        <RefField graph={graph} label="A" value={a} change={(value) => setSearch({ a: value })} />
        <RefField graph={graph} label="B" value={b} change={(value) => setSearch({ b: value })} />
        <button class="quiet" onClick={() => setSearch({ a: b, b: a })}>
          Swap
        </button>
        {a && b && <Link to={view(graph, "/diff", { a, b })}>The diff between them</Link>}
      </div>
      {q && (!a || !b) && <Empty>Choose the two moments.</Empty>}
      {q && a && b && (
        <Show of={sides} what="both results">
          {({ catalog, both: [one, other] }) => (one && other ? <SideBySide a={one} b={other} defaults={keyColumns(q, catalog)} key={JSON.stringify([q, one.reference, other.reference])} /> : null)}
        </Show>
      )}
    </>
  );
}

/** Run the query at a reference: a branch, or what is at a tag, commit or time. */
async function runAt(graph: string, query: string, params: string, reference: string, signal: AbortSignal): Promise<Side> {
  try {
    const commit = await resolveRef(graph, reference, signal);
    const body = { query, params: params ? (parseExact(params) as Record<string, Json>) : {}, limit: MOST, numbers: "safe" as const, at: commit.id };
    const result = await call(graph, "/query", body, { signal }).catch((error: Error) => error);
    if (result instanceof Error && signal.aborted) throw result;
    return { reference, result, commit };
  } catch (error) {
    if (signal.aborted || !(error instanceof ApiError || error instanceof SyntaxError)) throw error;
    return { reference, result: error, commit: null };
  }
}

/** The columns that name an entity: a returned variable, or the key of its type. */
function keyColumns(query: string, catalog: Catalog): (columns: readonly string[]) => readonly string[] {
  const types = new Map([...query.matchAll(/\$(\w+)\s*:\s*(\w+)/g)].map((match) => [match[1] ?? "", match[2] ?? ""]));
  const keys = new Set<string>();
  for (const [variable, type] of types) {
    keys.add(variable).add(`${variable}.id`);
    for (const name of catalog.nodes.find((node) => node.name === type)?.key ?? []) keys.add(`${variable}.${name}`);
  }
  const aliases = new Map([...query.matchAll(/\$(\w+(?:\.\w+)?)\s+as\s+(\w+)/g)].map((match) => [match[2] ?? "", match[1] ?? ""]));
  return (columns) => columns.filter((column) => keys.has(aliases.get(column) ?? column));
}

interface SideBySideProps {
  readonly a: Side;
  readonly b: Side;
  readonly defaults: (columns: readonly string[]) => readonly string[];
}

function SideBySide({ a, b, defaults }: SideBySideProps) {
  const good = [a.result, b.result].filter((each) => !(each instanceof Error)) as QueryResult[];
  const columns = [...new Set(good.flatMap((each) => each.columns))];
  const types = Object.assign({}, ...good.map((each) => each.types)) as Record<string, string>;
  const [keys, setKeys] = useState<readonly string[]>(() => {
    const named = defaults(columns);
    return named.length > 0 ? named : columns.filter((column) => !NUMBERS.test(types[column] ?? ""));
  });
  const heads = (
    <div class="columns sides">
      {([["A", a], ["B", b]] as const).map(([name, side]) => (
        <section aria-label={`Side ${name}`}>
          <h2>
            {name} <code>{side.reference}</code> {side.commit && <Id id={side.commit.id} />}
          </h2>
          {side.result instanceof Error ? <Failure error={side.result} /> : <p class="muted">{plural(side.result.row_count, "row")}{side.result.next && `; only the first ${count(MOST)} are compared`}</p>}
        </section>
      ))}
    </div>
  );
  if (a.result instanceof Error || b.result instanceof Error) return heads;
  const matched = match(a.result.rows, b.result.rows, columns, keys);
  const differing = matched.filter((row) => row.a === null || row.b === null || row.changed.length > 0);
  const same = matched.filter((row) => row.a && row.b && row.changed.length === 0);
  return (
    <>
      {heads}
      <fieldset class="keys">
        <legend>Rows are matched by</legend>
        {columns.map((column) => (
          <label>
            <input type="checkbox" checked={keys.includes(column)} onChange={() => setKeys(keys.includes(column) ? keys.filter((each) => each !== column) : [...keys, column])} /> {column}
          </label>
        ))}
      </fieldset>
      <p class="counts" aria-live="polite">
        <span class="went">− {plural(matched.filter((row) => row.b === null).length, "row")} only in A</span> <span class="came">+ {plural(matched.filter((row) => row.a === null).length, "row")} only in B</span>{" "}
        <span class="changed">~ {count(matched.filter((row) => row.changed.length > 0).length)} changed</span> <span class="muted">{count(same.length)} the same</span>
      </p>
      {differing.length === 0 && <Empty>Both moments give the same rows.</Empty>}
      {differing.length > 0 && <Matches caption="Rows that differ" rows={differing} columns={columns} types={types} />}
      {same.length > 0 && (
        <details class="same">
          <summary>{plural(same.length, "row")} the same</summary>
          <Matches caption="Rows that are the same" rows={same} columns={columns} types={types} />
        </details>
      )}
    </>
  );
}

interface MatchesProps {
  readonly caption: string;
  readonly rows: readonly Matched[];
  readonly columns: readonly string[];
  readonly types: Readonly<Record<string, string>>;
}

function Matches({ caption, rows, columns, types }: MatchesProps) {
  const isNumber = (column: string) => NUMBERS.test(types[column] ?? "");
  return (
    <div class="scroll" tabIndex={0}>
      <table class="compare">
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            <th scope="col">
              <span class="hidden">difference</span>
            </th>
            {columns.map((column) => (
              <th scope="col" class={isNumber(column) ? "number" : undefined}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr>
              <td class={row.b === null ? "went" : row.a === null ? "came" : "changed"}>{row.b === null ? "− A" : row.a === null ? "+ B" : row.changed.length > 0 ? "~" : ""}</td>
              {columns.map((column) => (
                <td class={`${isNumber(column) ? "number" : ""} ${row.changed.includes(column) ? "cell-changed" : ""}`}>
                  {row.changed.includes(column) ? <ChangedCell a={row.a?.[column] ?? null} b={row.b?.[column] ?? null} type={types[column] ?? ""} /> : <Value value={(row.b ?? row.a)?.[column]} />}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function ChangedCell({ a, b, type }: { readonly a: Json; readonly b: Json; readonly type: string }) {
  const difference = growth(a, b, type);
  return (
    <>
      <del>{valueText(a)}</del> → <ins>{valueText(b)}</ins> {difference && <span class="muted">({difference})</span>}
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
  const keyOf = (row: Row) => JSON.stringify(keys.map((key) => row[key] ?? null));
  const waiting = new Map<string, Row[]>();
  for (const row of b) {
    const key = keyOf(row);
    const queue = waiting.get(key);
    if (queue) queue.push(row);
    else waiting.set(key, [row]);
  }
  const found: Matched[] = a.map((row) => {
    const other = waiting.get(keyOf(row))?.shift() ?? null;
    return { a: row, b: other, changed: other ? columns.filter((column) => JSON.stringify(row[column] ?? null) !== JSON.stringify(other[column] ?? null)) : [] };
  });
  for (const rows of waiting.values()) found.push(...rows.map((row): Matched => ({ a: null, b: row, changed: [] })));
  return found;
}
