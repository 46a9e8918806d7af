/** Ask: an editor, parameters as a form, and the answers as frames, newest first. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, get, graphPath, read, readCatalog } from "../api";
import { nodeColumns } from "../exploring";
import { count, download, plural } from "../format";
import { toCommand, toCurl, toPython } from "../commands";
import { Copy, Empty, Failure, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { type Moment, momentKey, momentOf } from "../moment";
import { Heading, Id } from "../parts";
import { RefChoices, RefField } from "../refs";
import { Link, navigate, setSearch, usePlace, view } from "../router";
import { SaveButton } from "../saving";
import { Table } from "../table";
import { type Parameter, parametersOf, readParams, writeParams } from "../signature";
import { ValueInput, findValues } from "../values";
import { type Slot, slotOfParameter } from "../slots";
import { parseValue } from "./edit";
import type { Catalog, Json, Problem, QueryResult, StoredQuery } from "../wire";

const Editor = lazy(() => import("../editor").then((m) => m.Editor));
const PAGE = 1000;
const LONGEST = 8000;
const LARGEST_JSON = 256 * 1024;
const DRAFT = "omnigraph-draft";
const FIRST = "query first() {\n  match { $x: TYPE }\n  return { $x.* }\n  limit 20\n}";

type Kind = "query" | "explain" | "profile";

interface Frame {
  readonly number: number;
  readonly kind: Kind;
  readonly text: string;
  readonly params: Record<string, Json>;
  readonly moment: Moment;
  readonly offset: number;
  readonly pinned: boolean;
  readonly result: QueryResult | null;
  readonly plan: string | null;
  readonly error: Error | null;
}

export function QueryView({ graph }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const catalog = useLoad(`${graph} ${momentKey(moment)} catalog`, (signal) => readCatalog(graph, moment, signal));
  const stored = useLoad(`${graph} queries`, (signal) => read(graph, "/queries", {}, signal).catch(() => ({ queries: [] })));
  const [given, setGiven] = useState({ text: place.search.get("q") ?? sessionStorage.getItem(`${DRAFT} ${graph}`) ?? "" });
  const [text, setText] = useState(given.text);
  const [values, setValues] = useState<Record<string, string>>(() => readValues(place.search.get("p")));
  const [frames, setFrames] = useState<readonly Frame[]>([]);
  const [running, setRunning] = useState<AbortController | null>(null);
  const numbers = useRef(0);
  const parameters = parametersOf(text);
  const [params, problem] = collect(parameters, values);
  const open = (source: string) => {
    setGiven({ text: source });
    setText(source);
  };
  const firstType = catalog.data?.nodes[0]?.name;
  useEffect(() => {
    if (text === "" && firstType) open(FIRST.replace("TYPE", firstType));
  }, [firstType]);
  const put = (frame: Frame, replaces: number | null) =>
    setFrames((old) => (replaces === null ? [frame, ...old.filter((each) => each.pinned)] : old.map((each) => (each.number === replaces ? frame : each))));
  const run = async (kind: Kind, asked: { readonly text: string; readonly params: Record<string, Json>; readonly moment: Moment }, offset = 0, replaces: number | null = null) => {
    running?.abort();
    const controller = new AbortController();
    setRunning(controller);
    numbers.current += 1;
    const frame = { number: replaces ?? numbers.current, kind, ...asked, offset, pinned: replaces !== null && (frames.find((each) => each.number === replaces)?.pinned ?? false), result: null, plan: null, error: null };
    const body = { query: asked.text, params: asked.params, branch: asked.moment.branch, at: asked.moment.at };
    try {
      if (kind === "query") put({ ...frame, result: await call(graph, "/query", { ...body, limit: PAGE, offset, numbers: "safe" }, { signal: controller.signal }) }, replaces);
      else if (kind === "explain") put({ ...frame, plan: (await call(graph, "/explain", body, { signal: controller.signal })).plan }, replaces);
      else put({ ...frame, plan: (await call(graph, "/profile", body, { signal: controller.signal })).text }, replaces);
    } catch (error) {
      if (!controller.signal.aborted) put({ ...frame, error: error as Error }, replaces);
    } finally {
      setRunning(null);
    }
  };
  const ask = (kind: Kind) => {
    if (problem) return;
    const isShort = fits(linkOf(graph, text, params, moment));
    if (!isShort) sessionStorage.setItem(`${DRAFT} ${graph}`, text);
    setSearch({ q: isShort ? text : null, p: isShort ? writeParams(params) : null, frame: kind === "query" ? null : kind });
    void run(kind, { text, params, moment });
  };
  const named = place.search.get("stored");
  useEffect(() => {
    if (named) void readSource(graph, named).then(open, () => undefined);
  }, [named]);
  useEffect(() => {
    const kind = place.search.get("frame");
    if (place.search.get("q")) void run(kind === "explain" || kind === "profile" ? kind : "query", { text, params, moment });
  }, [momentKey(moment)]);
  const lint = async (): Promise<readonly Problem[]> => {
    const answer = await call(graph, "/lint", { query: text, branch: moment.branch, at: moment.at });
    return answer.results.flatMap((each) => each.problems ?? []);
  };
  const asked = { graph, query: text, params, moment };
  return (
    <>
      <RefChoices graph={graph} />
      <Heading>Query</Heading>
      <div class="ask">
        <div>
          <Suspense fallback={<textarea class="editor" aria-label="Query" value={text} readOnly />}>
            <Editor given={given} change={setText} run={() => ask("query")} lint={lint} catalog={catalog.data} findValues={(slot, prefix) => findValues(graph, slot, prefix, moment)} />
          </Suspense>
          {parameters.length > 0 && <ParameterForm parameters={parameters} values={values} change={setValues} field={(name) => ({ graph, moment, slot: catalog.data && slotOfParameter(name, text, catalog.data) })} />}
          {problem && <p class="went">{problem}</p>}
          <div class="toolbar">
            <button class="primary" onClick={() => ask("query")} disabled={problem !== ""} title="Ctrl+Enter">
              Run
            </button>
            <button onClick={() => ask("explain")}>Explain</button>
            <button onClick={() => ask("profile")}>Profile</button>
            {running && <button onClick={() => running.abort()}>Cancel</button>}
            <span class="grow" />
            <RunAgain graph={graph} text={text} params={params} moment={moment} />
            <details class="menu">
              <summary>Copy as…</summary>
              <div>
                {fits(linkOf(graph, text, params, moment)) ? <Copy text={linkOf(graph, text, params, moment)} label="link" /> : <button class="quiet" onClick={() => download("query.gq", text, "text/plain")}>The text is too long for a link: download it</button>}
                <Copy text={toCommand(asked)} label="command" />
                <Copy text={toPython(asked)} label="Python" />
                <Copy text={toCurl(asked)} label="curl" />
              </div>
            </details>
          </div>
          <div aria-live="polite" aria-busy={running !== null}>
            {frames.map((frame) => (
              <FrameView
                key={frame.number}
                graph={graph}
                frame={frame}
                catalog={catalog.data}
                page={(offset) => void run("query", frame, offset, frame.number)}
                again={() => void run(frame.kind, frame, frame.offset, frame.number)}
                pin={() => setFrames((old) => old.map((each) => (each.number === frame.number ? { ...each, pinned: !each.pinned } : each)))}
                close={() => setFrames((old) => old.filter((each) => each.number !== frame.number))}
              />
            ))}
          </div>
        </div>
        {stored.data && stored.data.queries.length > 0 && <StoredQueries graph={graph} queries={stored.data.queries} open={open} />}
      </div>
    </>
  );
}

/** The text of a stored query. */
async function readSource(graph: string, name: string): Promise<string> {
  return (await get<StoredQuery>(graphPath(graph, `/queries/${encodeURIComponent(name)}`))).source ?? "";
}

/** The values of an address as texts of the form. */
function readValues(text: string | null): Record<string, string> {
  return Object.fromEntries(Object.entries(readParams(text)).map(([name, value]) => [name, typeof value === "string" ? value : JSON.stringify(value)]));
}

/** The values of a form, and what is wrong with them. */
function collect(parameters: readonly Parameter[], values: Record<string, string>): [Record<string, Json>, string] {
  const params: Record<string, Json> = {};
  for (const { name, type } of parameters) {
    const text = values[name] ?? "";
    if (text === "" && type.endsWith("?")) continue;
    try {
      params[name] = parseValue(text, type.startsWith("Vector") ? "[F32]" : type);
    } catch {
      if (text !== "") return [params, `$${name}: "${text}" is not a value of the type ${type}`];
    }
  }
  return [params, ""];
}

interface ParameterFormProps {
  readonly parameters: readonly Parameter[];
  readonly values: Record<string, string>;
  readonly change: (values: Record<string, string>) => void;
  /** Where the values of a parameter come from. */
  readonly field: (name: string) => { readonly graph: string; readonly moment: Moment; readonly slot: Slot | null };
}

function ParameterForm({ parameters, values, change, field }: ParameterFormProps) {
  return (
    <div class="fields params">
      {parameters.map(({ name, type }) => (
        <>
          <label for={`param-${name}`}>
            ${name} <code class="muted">{type}</code>
          </label>
          <ValueInput {...field(name)} id={`param-${name}`} placeholder={/^Date\??$/.test(type) ? "2026-01-31" : ""} value={values[name] ?? ""} change={(value) => change({ ...values, [name]: value })} />
        </>
      ))}
    </div>
  );
}

/** Run the same query at another moment, beside this one. */
function RunAgain({ graph, text, params, moment }: { readonly graph: string; readonly text: string; readonly params: Record<string, Json>; readonly moment: Moment }) {
  const go = (reference: string) => {
    if (reference) navigate(view(graph, "/compare", { q: text, p: writeParams(params), a: reference, b: moment.at ?? moment.branch }));
  };
  return <RefField graph={graph} label="Run again at" value="" change={go} />;
}

function linkOf(graph: string, text: string, params: Record<string, Json>, moment: Moment): string {
  return location.origin + view(graph, "/query", { q: text, p: writeParams(params), branch: moment.branch === "main" ? null : moment.branch, at: moment.at });
}

/** Whether an address is short enough to be sent. */
function fits(link: string): boolean {
  return link.length <= LONGEST;
}

interface FrameProps {
  readonly graph: string;
  readonly frame: Frame;
  readonly catalog: Catalog | null;
  readonly page: (offset: number) => void;
  readonly again: () => void;
  readonly pin: () => void;
  readonly close: () => void;
}

function FrameView({ graph, frame, catalog, page, again, pin, close }: FrameProps) {
  const { result } = frame;
  const isDrawable = result && catalog ? nodeColumns(frame.text, result.columns, catalog).length > 0 && result.row_count > 0 : false;
  return (
    <section class="frame" aria-label={`Frame ${frame.number}`}>
      <div class="toolbar">
        {result && (
          <>
            <strong>{plural(result.row_count, "row")}</strong>
            {(frame.offset > 0 || result.next) && (
              <span class="muted">
                from {count(frame.offset + 1)} {frame.offset > 0 && <button onClick={() => page(Math.max(frame.offset - PAGE, 0))}>Back</button>} {result.next && <button onClick={() => page(result.next?.offset ?? 0)}>Next {count(PAGE)}</button>}
              </span>
            )}
            <span class="muted">
              {result.elapsed_ms?.toFixed(1)} ms on {result.branch} {result.commit && <Id id={result.commit} />}
            </span>
          </>
        )}
        {frame.kind !== "query" && <strong>{frame.kind}</strong>}
        <span class="grow" />
        {isDrawable && fits(linkOf(graph, frame.text, frame.params, frame.moment)) && <Link to={view(graph, "/explore", { q: frame.text, p: writeParams(frame.params) })}>Draw it</Link>}
        {result && <Downloads graph={graph} frame={frame} result={result} />}
        <button class="quiet" aria-pressed={frame.pinned} onClick={pin}>
          Pin
        </button>
        <button class="quiet" aria-label={`Close frame ${frame.number}`} onClick={close}>
          Close
        </button>
      </div>
      {frame.pinned && <pre class="plan">{frame.text}</pre>}
      {frame.error && <Failure error={frame.error} retry={again} />}
      {frame.plan !== null && <pre class="plan">{frame.plan}</pre>}
      {result && result.rows.length === 0 && <Empty>The query finds nothing.</Empty>}
      {result && result.rows.length > 0 && <Table columns={result.columns} rows={result.rows} types={result.types} caption={`Rows of ${result.query_name}`} />}
    </section>
  );
}

function Downloads({ graph, frame, result }: { readonly graph: string; readonly frame: Frame; readonly result: QueryResult }) {
  const body = { query: frame.text, params: frame.params, branch: frame.moment.branch, at: frame.moment.at ?? result.commit };
  const command = toCommand({ graph, query: frame.text, params: frame.params, moment: frame.moment });
  const whole = (accept: string) => ({ url: graphPath(graph, "/query"), options: { body, method: "POST", headers: { Accept: accept } }, quiet: true });
  const shown = () => {
    const text = result.next ? null : JSON.stringify(result.rows, null, 2);
    return text === null || text.length > LARGEST_JSON ? null : { name: "result.json", text };
  };
  return (
    <>
      <SaveButton label="JSON" {...whole("application/x-ndjson")} shown={shown} name="result.jsonl" command={`${command} --format jsonl`} />
      <SaveButton label="CSV" {...whole("text/csv")} name="result.csv" command={`${command} --format csv`} />
      <SaveButton label="Arrow" {...whole("application/vnd.apache.arrow.stream")} name="result.arrows" command={toCurl({ graph, query: frame.text, params: frame.params, moment: frame.moment })} />
    </>
  );
}

function StoredQueries({ graph, queries, open }: { readonly graph: string; readonly queries: readonly StoredQuery[]; readonly open: (text: string) => void }) {
  const show = async (name: string) => open(await readSource(graph, name));
  return (
    <aside class="stored">
      <h2>Stored queries</h2>
      <ul class="rows">
        {queries.map((query) => (
          <li>
            <button class="quiet" onClick={() => void show(query.name)}>
              {query.name}
            </button>{" "}
            {query.mutation && <span class="name">writes</span>}
            {query.problems && query.problems.length > 0 && <span class="went">broken</span>}
            {query.description && <div class="muted">{query.description}</div>}
          </li>
        ))}
      </ul>
    </aside>
  );
}
