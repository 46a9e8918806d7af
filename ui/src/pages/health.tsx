/** For whoever keeps the server running: what is unfinished, what runs now, how compact and indexed the tables are. */

import { useEffect, useState } from "preact/hooks";
import { get, graphPath, post, remove, routePath, to } from "../api";
import { count, exactTime, relativeTime } from "../format";
import { Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, Time, TypeName } from "../parts";
import { WriteButton } from "../writing";
import type { Json } from "../wire";

interface TableHealth {
  readonly table_key: string;
  readonly rows: number;
  readonly fragments: number;
  readonly deleted_rows: number;
  readonly indexes: readonly { readonly column: string; readonly kind: string; readonly rows: number }[];
}

interface GraphHealth {
  readonly locks: string;
  readonly sidecars: number;
  readonly branches: number;
  readonly commits: number;
  readonly manifest_rows: number;
  readonly last_cleanup?: string | null;
  readonly tables: readonly TableHealth[];
}

interface Running {
  readonly request_id: string;
  readonly actor: string;
  readonly route: string;
  readonly since_ms: number;
}

interface Operation {
  readonly id: string;
  readonly kind: string;
  readonly actor: string;
  readonly state: string;
  readonly progress: Json;
  readonly result: Json;
  readonly error: { readonly error?: string } | null;
  readonly started_at: string;
  readonly ended_at: string | null;
}

const EVERY_MS = 2000;
/** Requests that are done in no time only flicker; those of this page are among them. */
const SHORT_MS = 1000;

export function HealthView({ graph, actions }: ViewProps) {
  const health = useLoad(`${graph} health`, (signal) => get<GraphHealth>(routePath(graph, "/health", {}), signal));
  const recoveries = useLoad(`${graph} recoveries`, (signal) => get<{ recoveries: Record<string, Json>[] }>(routePath(graph, "/recoveries", {}), signal));
  const work = useLoad(`${graph} work`, async (signal) => {
    const [requests, operations] = await Promise.all([
      get<{ requests: Running[] }>(routePath(graph, "/requests", {}), signal),
      get<{ operations: Operation[] }>(routePath(graph, "/operations", {}), signal),
    ]);
    return { requests: requests.requests.filter((each) => each.since_ms >= SHORT_MS), operations: operations.operations };
  });
  useEffect(() => {
    const timer = window.setInterval(() => document.visibilityState === "visible" && work.reload(), EVERY_MS);
    return () => window.clearInterval(timer);
  }, []);
  return (
    <>
      <Heading>Health</Heading>
      <Show of={health} what="the health of the graph">
        {(found) => (
          <dl class="facts">
            <Fact name="unfinished writes" value={count(found.sidecars)} isBad={found.sidecars > 0} />
            <Fact name="recoveries" value={recoveries.data ? count(recoveries.data.recoveries.length) : "…"} />
            <Fact name="locks" value={found.locks} />
            <Fact name="branches" value={count(found.branches)} />
            <Fact name="commits of main" value={count(found.commits)} />
            <Fact name="manifest rows" value={count(found.manifest_rows)} />
            {found.last_cleanup && <Fact name="last cleanup" value={<Time time={found.last_cleanup} />} />}
          </dl>
        )}
      </Show>
      <div class="columns">
        <section>
          <h2>Running now</h2>
          <Show of={work} what="what runs">{({ requests }) => (requests.length === 0 ? <Empty>No request has been under way for a second.</Empty> : <RequestTable graph={graph} requests={requests} done={work.reload} />)}</Show>
          <h2>Operations</h2>
          {actions.has("admin") && <Upkeep graph={graph} started={work.reload} operations={work.data?.operations ?? []} />}
          <Show of={work} what="the operations">
            {({ operations }) => (operations.length === 0 ? <Empty command="omnigraph optimize">Upkeep that was started here or over HTTP is listed for seven days.</Empty> : <OperationList graph={graph} operations={operations} changed={work.reload} />)}
          </Show>
        </section>
        <section>
          <h2>Tables</h2>
          <Show of={health} what="the tables">{({ tables }) => <TableList tables={tables} />}</Show>
        </section>
      </div>
      {recoveries.data && recoveries.data.recoveries.length > 0 && (
        <>
          <h2>Recoveries</h2>
          <p class="muted">Writes whose process died, and how another one finished them.</p>
          <ul class="rows">
            {recoveries.data.recoveries.slice(0, 50).map((each) => (
              <li>
                <code>{JSON.stringify(each)}</code>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}

function Fact({ name, value, isBad = false }: { readonly name: string; readonly value: preact.ComponentChildren; readonly isBad?: boolean }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd class={isBad ? "went" : undefined}>{value}</dd>
    </div>
  );
}

function RequestTable({ graph, requests, done }: { readonly graph: string; readonly requests: readonly Running[]; readonly done: () => void }) {
  return (
    <table class="compact wide">
      <caption class="hidden">Running requests</caption>
      <tbody>
        {requests.map((each) => (
          <tr>
            <td>{each.actor}</td>
            <td>
              <code>{each.route.replace("/graphs/{graph_id}", "")}</code>
            </td>
            <td class="number">{(each.since_ms / 1000).toFixed(1)} s</td>
            <td>
              <button class="quiet" aria-label={`Cancel request ${each.request_id}`} onClick={() => void remove(graphPath(graph, `/requests/${each.request_id}`)).then(done, done)}>
                Cancel
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function OperationList({ graph, operations, changed }: { readonly graph: string; readonly operations: readonly Operation[]; readonly changed: () => void }) {
  return (
    <ul class="rows">
      {operations.slice(0, 20).map((each) => (
        <li key={each.id}>
          <details>
            <summary>
              <strong>{each.kind}</strong> <span class={each.state === "failed" || each.state === "lost" ? "went" : each.state === "succeeded" ? "came" : "changed"}>{each.state}</span>{" "}
              <span class="muted" title={exactTime(each.started_at)}>
                {each.actor}, {relativeTime(each.started_at)}
              </span>
            </summary>
            <pre class="plan">{each.error?.error ?? JSON.stringify(each.result ?? each.progress, null, 2)}</pre>
          </details>
          {each.state === "running" && (
            <button class="quiet" onClick={() => void remove(graphPath(graph, `/operations/${each.id}`)).then(changed, changed)}>
              Cancel
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Upkeep. What removes something shows first what it would remove. */
function Upkeep({ graph, started, operations }: { readonly graph: string; readonly started: () => void; readonly operations: readonly Operation[] }) {
  const [preview, setPreview] = useState<{ readonly kind: "cleanup" | "repair"; readonly id: string } | null>(null);
  const [keep, setKeep] = useState("100");
  const start = (kind: "index" | "optimize" | "verify" | "cleanup" | "repair", args: Record<string, unknown> = {}) =>
    post<{ operation: Operation }>(...to(graph, "/operations", { kind, args }));
  const argumentsOf = (kind: "cleanup" | "repair") => (kind === "cleanup" ? { keep: Number(keep) } : {});
  const shown = preview && operations.find((each) => each.id === preview.id);
  return (
    <>
      <div class="toolbar">
        {(["index", "optimize", "verify"] as const).map((kind) => (
          <WriteButton plain label={kind} run={() => start(kind)} done={started} />
        ))}
        <label>
          keep the last <input class="short" inputMode="numeric" value={keep} onInput={(event) => setKeep(event.currentTarget.value)} /> commits
        </label>
        {(["cleanup", "repair"] as const).map((kind) => (
          <WriteButton
            plain
            label={`${kind}…`}
            disabled={!/^[1-9]\d*$/.test(keep)}
            run={() => start(kind, argumentsOf(kind))}
            done={({ operation }) => {
              setPreview({ kind, id: operation.id });
              started();
            }}
          />
        ))}
      </div>
      {preview && (
        <section class="notice">
          <strong>What {preview.kind} would do</strong>
          <pre class="plan">{shown?.result ? JSON.stringify(shown.result, null, 2) : (shown?.error?.error ?? "looking…")}</pre>
          {shown?.state === "succeeded" && (
            <WriteButton
              label={`${preview.kind} now`}
              run={() => start(preview.kind, { ...argumentsOf(preview.kind), confirm: true })}
              done={() => {
                setPreview(null);
                started();
              }}
            />
          )}
          <button class="quiet" onClick={() => setPreview(null)}>
            Cancel
          </button>
        </section>
      )}
    </>
  );
}

function TableList({ tables }: { readonly tables: readonly TableHealth[] }) {
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <caption class="hidden">Tables</caption>
        <thead>
          <tr>
            <th scope="col">type</th>
            <th scope="col" class="number">
              rows
            </th>
            <th scope="col" class="number">
              fragments
            </th>
            <th scope="col" class="number">
              deleted
            </th>
            <th scope="col">rows in each index</th>
          </tr>
        </thead>
        <tbody>
          {tables.map((table) => (
            <tr>
              <th scope="row">
                <TypeName name={table.table_key.split(":")[1] ?? ""} />
              </th>
              <td class="number">{count(table.rows)}</td>
              <td class="number">{count(table.fragments)}</td>
              <td class="number">{count(table.deleted_rows)}</td>
              <td>
                {table.indexes.map((index) => (
                  <span class="index" title={index.kind}>
                    {index.column} {table.rows === 0 ? "–" : `${Math.floor((100 * Math.min(index.rows, table.rows)) / table.rows)} %`}
                  </span>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
