/** The schema as a picture and as text; and what a new one would mean. */

import { lazy, Suspense } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, call, read, readCatalog, readSchemaText } from "../api";
import { commandOf } from "../commands";
import { useFocusInside } from "../focus";
import { count, titleOf } from "../format";
import { Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { type Moment, momentKey, momentOf } from "../moment";
import { CommitLine, Heading, TypeName } from "../parts";
import { Link, setSearch, usePlace, view } from "../router";
import { SchemaPicture } from "../schema-picture";
import { WriteButton, newKey } from "../writing";
import type { Catalog, EdgeType, Json, Plan, Problem } from "../wire";

const SchemaEditor = lazy(() => import("../schema-editor").then((m) => m.SchemaEditor));

export function SchemaView({ graph, actions }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const chosen = place.search.get("type");
  const key = `${graph} ${momentKey(moment)}`;
  const loaded = useLoad(key, async (signal) => {
    const [catalog, source, tables] = await Promise.all([
      readCatalog(graph, moment, signal),
      readSchemaText(graph, moment, signal),
      read(graph, "/snapshot", { ...moment }, signal),
    ]);
    return { catalog, text: source.schema_source, rows: new Map(tables.tables.map((table) => [`${table.kind}:${table.type}`, table.row_count])) };
  });
  return (
    <>
      <Heading>Schema</Heading>
      <Show of={loaded} what="the schema">
        {({ catalog, text, rows }) => (
          <>
            <SchemaPicture catalog={catalog} rows={rows} chosen={chosen} choose={(type) => setSearch({ type: type === chosen ? null : type })} />
            {chosen && <TypeDetails catalog={catalog} type={chosen} rows={rows} />}
            <h2>Text</h2>
            <SchemaText text={text} catalog={catalog} chosen={chosen} />
            {moment.at === null && moment.branch === "main" && <NewSchema graph={graph} text={text} rows={rows} commit={catalog.commit} mayApply={actions.has("schema_apply")} applied={loaded.reload} />}
            <SchemaHistory graph={graph} moment={moment} />
          </>
        )}
      </Show>
    </>
  );
}

/** The text of the schema. The name of a type leads to its place in the picture, and a chosen type is marked. */
function SchemaText({ text, catalog, chosen }: { readonly text: string; readonly catalog: Catalog; readonly chosen: string | null }) {
  const names = new Set([...catalog.nodes, ...catalog.edges].map((type) => type.name));
  const shown = useRef<HTMLElement>(null);
  const holder = useRef<HTMLPreElement>(null);
  // Only the text scrolls: the picture stays in view.
  useEffect(() => {
    if (holder.current && shown.current) holder.current.scrollTop = shown.current.offsetTop - holder.current.offsetTop - 12;
  }, [chosen]);
  let current: string | null = null;
  return (
    <pre ref={holder} class="plan schema-text" tabIndex={0} aria-label="Text of the schema">
      {text.split("\n").map((line) => {
        const head = /^(node|edge)\s+(\w+)/.exec(line);
        if (head) current = head[2] ?? null;
        const own = current;
        if (/^\}/.test(line) || line === "") current = null;
        const isChosen = own !== null && own === chosen;
        if (!head || !names.has(head[2] ?? "")) return <span class={isChosen ? "marked" : undefined}>{`${line}\n`}</span>;
        return (
          <span class={isChosen ? "marked" : undefined} ref={isChosen ? shown : undefined}>
            {head[1]}{" "}
            <button class="inline-link" onClick={() => setSearch({ type: own })}>
              {head[2]}
            </button>
            {`${line.slice(head[0].length)}\n`}
          </span>
        );
      })}
    </pre>
  );
}

const LOOKED_AT = 50;

/** The commits at which the schema changed, among the newest of the branch. Read when it is opened. */
function SchemaHistory({ graph, moment }: { readonly graph: string; readonly moment: Moment }) {
  const [isOpen, setOpen] = useState(false);
  const found = useLoad(isOpen ? `${graph} ${momentKey(moment)} schemas` : null, async (signal) => {
    const { commits, next } = await read(graph, "/commits", { branch: moment.branch, limit: LOOKED_AT }, signal);
    const hashes: string[] = [];
    const texts: string[] = [];
    for (const commit of commits) {
      const found = await readSchemaText(graph, { branch: moment.branch, at: commit.id }, signal);
      hashes.push(found.hash);
      texts.push(found.schema_source);
    }
    const changes = commits.flatMap((commit, index) => (hashes[index] === hashes[index + 1] ? [] : [{ commit, text: texts[index] ?? "", before: texts[index + 1] ?? null }]));
    return { changes, isWhole: next === null || commits.length < LOOKED_AT };
  });
  return (
    <details class="schema-history" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>History of the schema</summary>
      <Show of={found} what="the schemas of older commits">
        {({ changes, isWhole }) => (
          <ul class="rows">
            {changes.map(({ commit, text, before }) => (
              <li key={commit.id}>
                <CommitLine graph={graph} commit={commit} /> <Link to={view(graph, "/schema", { at: commit.id })}>Read it then</Link>
                {before !== null && <WhatChanged title={titleOf(commit.message) || commit.id} text={text} before={before} />}
              </li>
            ))}
            {!isWhole && <li class="muted">Only the newest {LOOKED_AT} commits were looked at.</li>}
          </ul>
        )}
      </Show>
    </details>
  );
}

/** How a commit changed the text of the schema, shown when it is asked for. */
function WhatChanged({ title, text, before }: { readonly title: string; readonly text: string; readonly before: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>What changed</summary>
      {isOpen && (
        <Suspense fallback={<div class="skeleton" />}>
          <SchemaEditor label={`Changes of the schema: ${title}`} text={text} original={before} />
        </Suspense>
      )}
    </details>
  );
}

function TypeDetails({ catalog, type, rows }: { readonly catalog: Catalog; readonly type: string; readonly rows: ReadonlyMap<string, number> }) {
  const node = catalog.nodes.find((each) => each.name === type);
  const edge = catalog.edges.find((each) => each.name === type);
  const found = node ?? edge;
  if (!found) return null;
  return (
    <section class="panel">
      <h2>
        <TypeName name={type} /> <span class="muted">{count(rows.get(`${node ? "node" : "edge"}:${type}`) ?? 0)} rows</span>
      </h2>
      {found.description && <p>{found.description}</p>}
      <dl class="properties">
        {edge && (
          <>
            <dt>leads</dt>
            <dd>
              <TypeLink name={edge.from} /> → <TypeLink name={edge.to} />, {describeCardinality(edge)}
            </dd>
          </>
        )}
        {node && <Sets title="key" sets={node.key ? [node.key] : []} />}
        <Sets title="unique" sets={found.unique} />
        <Sets title="indexes" sets={found.indexes} />
        {node && <Sets title="implements" sets={node.implements.map((each) => [each])} />}
      </dl>
      <div class="scroll" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {["property", "type", "default", "description"].map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {found.properties.map((property) => (
            <tr>
              <th scope="row">
                <code>{property.name}</code> {node?.key?.includes(property.name) && <span class="name">key</span>}
              </th>
              <td>
                <code>{property.type}</code>
              </td>
              <td>{property.default}</td>
              <td class="muted">{property.description}</td>
            </tr>
          ))}
        </tbody>
      </table>
      </div>
    </section>
  );
}

/** How many edges may begin at a node. */
function describeCardinality({ from, cardinality: { minimum, maximum } }: EdgeType): string {
  if (minimum === 0 && maximum === null) return "any number";
  const most = maximum === null ? "" : minimum === maximum ? "" : ` and at most ${maximum}`;
  return `${minimum === maximum ? "exactly" : "at least"} ${minimum}${most} for each ${from}`;
}

function TypeLink({ name }: { readonly name: string }) {
  return (
    <button class="inline-link" onClick={() => setSearch({ type: name })}>
      {name}
    </button>
  );
}

/** Sets of properties that a rule of the schema is about. */
function Sets({ title, sets }: { readonly title: string; readonly sets: readonly (readonly string[])[] }) {
  if (sets.length === 0) return null;
  return (
    <>
      <dt>{title}</dt>
      <dd>
        {sets.map((names) => (
          <code class="set">{names.join(", ")}</code>
        ))}
      </dd>
    </>
  );
}

/** Paste a new schema: the steps with their cost, the queries that would break, and the change itself. */
interface NewSchemaProps {
  readonly graph: string;
  readonly text: string;
  readonly rows: ReadonlyMap<string, number>;
  readonly commit: string | null;
  readonly mayApply: boolean;
  readonly applied: () => void;
}

const COSTS: Record<string, string> = { metadata: "changes no row", validated: "reads all rows", rewrite: "rewrites all rows", destructive: "loses data" };

function NewSchema({ graph, text, rows, commit, mayApply, applied }: NewSchemaProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [key] = useState(newKey);
  const { opener, opened } = useFocusInside<HTMLElement>(draft !== null);
  if (draft === null) return <button ref={opener} onClick={() => setDraft(text)}>Plan a change…</button>;
  const look = async () => {
    setError(null);
    setPlan(null);
    try {
      setPlan(await call(graph, "/schema/plan", { schema_source: draft }));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  return (
    <section class="panel" ref={opened}>
      <h2>A new schema</h2>
      <p class="muted">Write it here, or paste it. What differs from the schema of now is marked.</p>
      <Suspense fallback={<textarea class="editor" rows={18} aria-label="The new schema" value={draft} readOnly />}>
        <SchemaEditor label="The new schema" text={text} original={text} change={(changed) => (setDraft(changed), setPlan(null))} lint={(written) => findProblems(graph, written)} />
      </Suspense>
      <div class="toolbar">
        <button onClick={() => void look()}>Show what it means</button>
        <button class="quiet" onClick={() => (setDraft(null), setPlan(null))}>
          Cancel
        </button>
      </div>
      {error && <Failure error={error} />}
      {plan && (
        <>
          <div class="scroll" tabIndex={0}>
          <table>
            <tbody>
              {plan.steps.map((step) => (
                <tr>
                  <td>
                    <span class="name">{String(step["tier"] ?? "")}</span>
                  </td>
                  <td>{describeStep(step)}</td>
                  <td class="muted">{costOf(step, rows)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          </div>
          {plan.hints.map((hint) => (
            <p class="muted">{hint}</p>
          ))}
          {plan.steps.length === 0 && <p>It changes nothing.</p>}
          {plan.breaks.length > 0 && <p class="went">Stored queries that would break: {plan.breaks.join(", ")}</p>}
          {mayApply && plan.supported && plan.steps.length > 0 && (
            <WriteButton
              label="Change the schema"
              command={commandOf(graph, "schema", "apply", "new.pg")}
              run={() => call(graph, "/schema/apply", { schema_source: draft, if_commit: commit }, { headers: { "Idempotency-Key": key } })}
              asks={{ graph, branch: "main", key }}
              done={() => {
                setDraft(null);
                applied();
              }}
            />
          )}
        </>
      )}
    </section>
  );
}

/** What is wrong with a schema: planning it says so. */
async function findProblems(graph: string, text: string): Promise<readonly Problem[]> {
  try {
    await call(graph, "/schema/plan", { schema_source: text });
    return [];
  } catch (error) {
    return error instanceof ApiError ? (error.body.problems ?? []).filter((problem) => typeof problem !== "string") : [];
  }
}

/** What a step costs: the rows of its table that it reads or rewrites. */
function costOf(step: Record<string, Json>, rows: ReadonlyMap<string, number>): string {
  const tier = String(step["tier"] ?? "");
  const own = rows.get(`${String(step["type_kind"])}:${String(step["type_name"] ?? step["name"])}`);
  const cost = COSTS[tier] ?? tier;
  return own === undefined || tier === "metadata" ? cost : `${cost} (${count(own)})`;
}

/** A step of a migration as a line: its kind in words, and what it is about. */
function describeStep(step: Record<string, Json>): string {
  const { kind, tier: _tier, type_kind, type_name, property_name, name, from, to: into, ...facts } = step;
  const subject = [type_name ?? name, property_name].filter(Boolean).join(".");
  const move = from !== undefined && into !== undefined ? `: ${textOf(from)} → ${textOf(into)}` : "";
  const rest = Object.values(facts).filter((value) => value !== null && value !== "" && typeof value !== "object").map(String);
  const values = step["added_values"];
  return `${String(kind).replaceAll("_", " ")} ${type_kind === "edge" ? "of the edge " : ""}${subject}${move}${Array.isArray(values) ? `: ${values.map(String).join(", ")}` : ""}${rest.length ? ` (${rest.join(", ")})` : ""}`;
}

function textOf(value: Json): string {
  if (value === null || typeof value !== "object") return String(value);
  return Array.isArray(value) ? value.map(textOf).join(", ") : Object.entries(value).map(([name, each]) => `${name} ${textOf(each ?? null)}`).join(", ");
}
