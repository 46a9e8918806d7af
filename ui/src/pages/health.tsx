/** For whoever keeps the server running: what is unfinished, what runs now, how compact and indexed the tables are. */

import { useEffect, useState } from "preact/hooks";
import { call, graphPath, read, remove } from "../api";
import { commandOf } from "../commands";
import { count, exactTime, relativeTime, valueText } from "../format";
import { Command, Copy, Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, Id, Time, TypeName } from "../parts";
import { Link, view } from "../router";
import { WriteButton, keyed } from "../writing";
import type { Operation, Recovery, RunningRequest, TableHealth } from "../wire";

const EVERY_MS = 2000;
const SHOWN_OPERATIONS = 20;
const SHOWN_RECOVERIES = 50;
/** Requests that are done in no time only flicker; those of this page are among them. */
const SHORT_MS = 1000;

export function HealthView({ graph, actions }: ViewProps) {
  const health = useLoad(`${graph} health`, (signal) => read(graph, "/health", {}, signal));
  const recoveries = useLoad(`${graph} recoveries`, (signal) => read(graph, "/recoveries", {}, signal));
  const work = useLoad(`${graph} work`, async (signal) => {
    const [requests, operations] = await Promise.all([
      read(graph, "/requests", {}, signal),
      read(graph, "/operations", {}, signal),
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
            {({ operations }) => (operations.length === 0 ? <Empty command={commandOf(graph, "optimize")}>Upkeep that was started here or over HTTP is listed for seven days.</Empty> : <OperationList graph={graph} operations={operations} changed={work.reload} />)}
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
            {recoveries.data.recoveries.slice(0, SHOWN_RECOVERIES).map((each) => (
              <li key={each.operation_id}>
                <RecoveryLine graph={graph} recovery={each} />
              </li>
            ))}
            {recoveries.data.recoveries.length > SHOWN_RECOVERIES && (
              <li>
                <span class="muted">The newest {SHOWN_RECOVERIES} of {count(recoveries.data.recoveries.length)}; all of them:</span> <Command text={commandOf(graph, "commit", "list", "--recoveries")} />
              </li>
            )}
          </ul>
        </>
      )}
    </>
  );
}

const ENDS: Readonly<Record<string, string>> = {
  RolledForward: "finished",
  RolledBack: "rolled back",
  OrphanedBranchDiscarded: "its branch was discarded",
  DriftDiscarded: "its drift was discarded",
  TornDiscarded: "discarded: a power cut had torn it",
};

/** How a write whose process died was ended, and in which tables. */
function RecoveryLine({ graph, recovery }: { readonly graph: string; readonly recovery: Recovery }) {
  return (
    <>
      <strong>{recovery.writer_kind}</strong> of {recovery.for_actor ?? "nobody"} <span class={recovery.kind === "RolledForward" ? "came" : "changed"}>{ENDS[recovery.kind] ?? recovery.kind}</span>{" "}
      <Link to={view(graph, `/commits/${recovery.graph_commit_id}`)}>
        <Id id={recovery.graph_commit_id} />
      </Link>{" "}
      <span class="muted">
        <Time time={recovery.created_at} />
      </span>{" "}
      {recovery.outcomes.map((outcome) => (
        <span class="name" title={`version ${outcome.from_version} → ${outcome.to_version}`}>
          {outcome.table_key}
        </span>
      ))}
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

function RequestTable({ graph, requests, done }: { readonly graph: string; readonly requests: readonly RunningRequest[]; readonly done: () => void }) {
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
  const [isWhole, setWhole] = useState(false);
  return (
    <ul class="rows">
      {operations.slice(0, isWhole ? undefined : SHOWN_OPERATIONS).map((each) => (
        <li key={each.id}>
          <details>
            <summary>
              <strong>{each.kind}</strong> <span class={each.state === "failed" || each.state === "lost" ? "went" : each.state === "succeeded" ? "came" : "changed"}>{each.state}</span>{" "}
              <span class="muted" title={exactTime(each.started_at)}>
                {each.actor}, {relativeTime(each.started_at)}
              </span>
            </summary>
            <pre class="plan">{whatCame(each)}</pre>
          </details>
          {each.state === "running" && (
            <button class="quiet" onClick={() => void remove(graphPath(graph, `/operations/${each.id}`)).then(changed, changed)}>
              Cancel
            </button>
          )}
        </li>
      ))}
      {!isWhole && operations.length > SHOWN_OPERATIONS && (
        <li>
          <button class="quiet" onClick={() => setWhole(true)}>
            Show all {count(operations.length)}
          </button>
        </li>
      )}
    </ul>
  );
}

/** What an operation gave so far, or why it failed. */
function whatCame({ error, result, progress }: Operation): string {
  return error ? valueText(error["error"]) : JSON.stringify(result ?? progress, null, 2);
}

/** Upkeep. What removes something shows first what it would remove. */
function Upkeep({ graph, started, operations }: { readonly graph: string; readonly started: () => void; readonly operations: readonly Operation[] }) {
  const [preview, setPreview] = useState<{ readonly kind: "cleanup" | "repair"; readonly id: string } | null>(null);
  const [keep, setKeep] = useState("100");
  const start = (kind: "index" | "optimize" | "verify" | "cleanup" | "repair", key: string, args: Record<string, unknown> = {}) =>
    call(graph, "/operations", { kind, args }, keyed(key));
  const argumentsOf = (kind: "cleanup" | "repair") => (kind === "cleanup" ? { keep: Number(keep) } : {});
  const shown = preview && operations.find((each) => each.id === preview.id);
  return (
    <>
      <div class="toolbar">
        {(["index", "optimize", "verify"] as const).map((kind) => (
          <WriteButton plain label={kind} run={(key) => start(kind, key)} done={started} />
        ))}
        <label>
          keep the last <input class="short" inputMode="numeric" value={keep} onInput={(event) => setKeep(event.currentTarget.value)} /> commits
        </label>
        {(["cleanup", "repair"] as const).map((kind) => (
          <WriteButton
            plain
            label={`${kind}…`}
            disabled={!/^[1-9]\d*$/.test(keep)}
            run={(key) => start(kind, key, argumentsOf(kind))}
            done={({ operation }) => {
              setPreview({ kind, id: operation.id });
              started();
            }}
          />
        ))}
        <details class="menu">
          <summary>Copy as…</summary>
          <div>
            {(["index", "optimize", "verify", "cleanup", "repair"] as const).map((kind) => (
              <Copy text={commandOf(graph, kind, ...(kind === "cleanup" ? ["--keep", keep] : []))} label={`omnigraph ${kind}`} />
            ))}
          </div>
        </details>
      </div>
      {preview && (
        <section class="notice">
          <strong>What {preview.kind} would do</strong>
          <pre class="plan">{shown && shown.state !== "running" ? whatCame(shown) : "looking…"}</pre>
          {shown?.state === "succeeded" && (
            <WriteButton
              label={`${preview.kind} now`}
              command={commandOf(graph, preview.kind, ...(preview.kind === "cleanup" ? ["--keep", keep] : []), "--yes")}
              run={(key) => start(preview.kind, key, { ...argumentsOf(preview.kind), confirm: true })}
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
            <th scope="col">rows that each index has</th>
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
