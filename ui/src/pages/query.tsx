/** Ask: an editor, parameters as JSON, and the answer as a table with its plan. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { get, graphPath, path, post, send } from "../api";
import { count, download } from "../format";
import { Copy, Failure, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentKey, momentOf, momentQuery } from "../moment";
import { Heading, Id, Table } from "../parts";
import { Link, setSearch, usePlace, view } from "../router";
import type { Catalog, Json, Problem, QueryResult, StoredQuery } from "../wire";

const Editor = lazy(() => import("../editor").then((m) => m.Editor));
const PAGE = 1000;
const FIRST = "query first() {\n  match { $x: TYPE }\n  return { $x.* }\n  limit 20\n}";

interface Frame {
  readonly result: QueryResult | null;
  readonly plan: string | null;
  readonly error: Error | null;
}

export function QueryView({ graph }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const catalog = useLoad(`${graph} ${momentKey(moment)} catalog`, (signal) => get<Catalog>(path(graphPath(graph, "/schema"), { view: "catalog", ...momentQuery(moment) }), signal));
  const stored = useLoad(`${graph} queries`, (signal) => get<{ queries: StoredQuery[] }>(graphPath(graph, "/queries"), signal).catch(() => ({ queries: [] })));
  const [given, setGiven] = useState({ text: place.search.get("q") ?? "" });
  const [text, setText] = useState(given.text);
  const open = (source: string) => {
    setGiven({ text: source });
    setText(source);
  };
  const [params, setParams] = useState(place.search.get("p") ?? "");
  const [frame, setFrame] = useState<Frame | null>(null);
  const [running, setRunning] = useState<AbortController | null>(null);
  const firstType = catalog.data?.nodes[0]?.name;
  useEffect(() => {
    if (text === "" && firstType) open(FIRST.replace("TYPE", firstType));
  }, [firstType]);
  const request = () => ({ query: text, params: params.trim() ? (JSON.parse(params) as Json) : {}, branch: moment.branch, at: moment.at });
  const run = async (kind: "query" | "explain" | "profile", offset = 0) => {
    running?.abort();
    const controller = new AbortController();
    setRunning(controller);
    setSearch({ q: text.length < 6000 ? text : null, p: params || null });
    try {
      const body = kind === "query" ? { ...request(), limit: PAGE, offset, numbers: "safe" } : request();
      const answer = await post<QueryResult & { plan?: string }>(graphPath(graph, `/${kind}`), body, { signal: controller.signal });
      setFrame(kind === "query" ? { result: answer, plan: null, error: null } : { result: null, plan: answer.plan ?? "", error: null });
    } catch (error) {
      if (!controller.signal.aborted) setFrame({ result: null, plan: null, error: error as Error });
    } finally {
      setRunning(null);
    }
  };
  useEffect(() => {
    if (place.search.get("q")) void run("query");
  }, []);
  const lint = async (): Promise<readonly Problem[]> => {
    const answer = await post<{ results: { problems?: Problem[] }[] }>(graphPath(graph, "/lint"), { query: text, branch: moment.branch, at: moment.at });
    return answer.results.flatMap((each) => each.problems ?? []);
  };
  const csv = async () => {
    const response = await send(graphPath(graph, "/query"), { body: request(), method: "POST", headers: { Accept: "text/csv" } });
    download("result.csv", await response.text(), "text/csv");
  };
  return (
    <>
      <Heading>Query</Heading>
      <div class="ask">
        <div>
          <Suspense fallback={<textarea class="editor" value={text} readOnly />}>
            <Editor given={given} change={setText} run={() => void run("query")} lint={lint} catalog={catalog.data} />
          </Suspense>
          <label class="params">
            Parameters as JSON
            <textarea rows={2} value={params} placeholder='{"compound": "cmp-001"}' onInput={(event) => setParams(event.currentTarget.value)} />
          </label>
          <div class="toolbar">
            <button class="primary" onClick={() => void run("query")} disabled={running !== null}>
              Run
            </button>
            <button onClick={() => void run("explain")}>Explain</button>
            <button onClick={() => void run("profile")}>Profile</button>
            {running && <button onClick={() => running.abort()}>Cancel</button>}
            <Copy text={location.href} label="Copy link" />
            <Copy text={commandOf(graph, text, params, moment)} label="Copy as command" />
            <Link to={view(graph, "/compare", { q: text, p: params || null, a: moment.at ?? moment.branch, b: "" })}>Run at two moments</Link>
          </div>
        </div>
        {stored.data && stored.data.queries.length > 0 && (
          <aside>
            <h2>Stored queries</h2>
            <ul class="rows">
              {stored.data.queries.map((query) => (
                <li>
                  <StoredLink graph={graph} query={query} open={open} />
                </li>
              ))}
            </ul>
          </aside>
        )}
      </div>
      <div aria-live="polite">
        {frame?.error && <Failure error={frame.error} />}
        {frame?.plan && <pre class="plan">{frame.plan}</pre>}
        {frame?.result && (
          <section class="frame">
            <p class="toolbar">
              <strong>{count(frame.result.row_count)} rows</strong>
              <span class="muted">
                {frame.result.elapsed_ms?.toFixed(1)} ms on {frame.result.branch} {frame.result.commit && <Id id={frame.result.commit} />}
              </span>
              {frame.result.next && <button onClick={() => void run("query", frame.result?.next?.offset)}>Next {count(PAGE)}</button>}
              <button class="quiet" onClick={() => download("result.json", JSON.stringify(frame.result?.rows, null, 2), "application/json")}>
                JSON
              </button>
              <button class="quiet" onClick={() => void csv()}>
                CSV
              </button>
            </p>
            <Table columns={frame.result.columns} rows={frame.result.rows} types={frame.result.types} caption={`Rows of ${frame.result.query_name}`} />
          </section>
        )}
      </div>
    </>
  );
}

function StoredLink({ graph, query, open }: { readonly graph: string; readonly query: StoredQuery; readonly open: (text: string) => void }) {
  const show = async () => {
    const found = await get<{ source: string }>(graphPath(graph, `/queries/${query.name}`));
    open(found.source);
  };
  return (
    <>
      <button class="quiet" onClick={() => void show()}>
        {query.name}
      </button>{" "}
      <span class="muted">{query.description}</span>
    </>
  );
}

function commandOf(graph: string, text: string, params: string, moment: { branch: string; at: string | null }): string {
  const quoted = `'${text.replaceAll("'", "'\\''")}'`;
  const options = [moment.branch !== "main" && `--branch ${moment.branch}`, moment.at && `--at ${moment.at}`, params && `--params '${params}'`].filter(Boolean).join(" ");
  return `omnigraph -g ${location.origin}/graphs/${graph} query -e ${quoted} ${options}`.trim();
}
