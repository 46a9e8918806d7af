/** The schema as a picture and as text; and what a new one would mean. */

import { useState } from "preact/hooks";
import { get, graphPath, path, post } from "../api";
import { count } from "../format";
import { Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentKey, momentOf, momentQuery } from "../moment";
import { Heading, TypeName } from "../parts";
import { setSearch, usePlace } from "../router";
import { SchemaPicture } from "../schema-picture";
import { WriteButton } from "../writing";
import type { Catalog, Json } from "../wire";

interface Plan {
  readonly supported: boolean;
  readonly steps: readonly Record<string, Json>[];
  readonly breaks?: readonly Json[];
}

interface Tables {
  readonly tables: readonly { readonly kind: string; readonly type: string; readonly row_count: number }[];
}

export function SchemaView({ graph, actions }: ViewProps) {
  const place = usePlace();
  const moment = momentOf(place);
  const chosen = place.search.get("type");
  const key = `${graph} ${momentKey(moment)}`;
  const loaded = useLoad(key, async (signal) => {
    const [catalog, source, tables] = await Promise.all([
      get<Catalog>(path(graphPath(graph, "/schema"), { view: "catalog", ...momentQuery(moment) }), signal),
      get<{ schema_source: string }>(path(graphPath(graph, "/schema"), momentQuery(moment)), signal),
      get<Tables>(path(graphPath(graph, "/snapshot"), momentQuery(moment)), signal),
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
            <pre class="plan">{text}</pre>
            {moment.at === null && moment.branch === "main" && <NewSchema graph={graph} text={text} mayApply={actions.has("schema_apply")} applied={loaded.reload} />}
          </>
        )}
      </Show>
    </>
  );
}

function TypeDetails({ catalog, type, rows }: { readonly catalog: Catalog; readonly type: string; readonly rows: ReadonlyMap<string, number> }) {
  const node = catalog.nodes.find((each) => each.name === type);
  const found = node ?? catalog.edges.find((each) => each.name === type);
  if (!found) return null;
  return (
    <section class="panel">
      <h2>
        <TypeName name={type} /> <span class="muted">{count(rows.get(`${node ? "node" : "edge"}:${type}`) ?? 0)} rows</span>
      </h2>
      {found.description && <p>{found.description}</p>}
      <table class="compact">
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
    </section>
  );
}

/** Paste a new schema: the steps with their cost, the queries that would break, and the change itself. */
function NewSchema({ graph, text, mayApply, applied }: { readonly graph: string; readonly text: string; readonly mayApply: boolean; readonly applied: () => void }) {
  const [draft, setDraft] = useState<string | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [error, setError] = useState<Error | null>(null);
  if (draft === null) return <button onClick={() => setDraft(text)}>Plan a change…</button>;
  const look = async () => {
    setError(null);
    setPlan(null);
    try {
      setPlan(await post<Plan>(graphPath(graph, "/schema/plan"), { schema_source: draft }));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  return (
    <section class="panel">
      <h2>A new schema</h2>
      <textarea class="editor" rows={18} aria-label="The new schema" value={draft} onInput={(event) => (setDraft(event.currentTarget.value), setPlan(null))} />
      <div class="toolbar">
        <button onClick={() => void look()}>Show what it means</button>
        <button class="quiet" onClick={() => (setDraft(null), setPlan(null))}>
          Cancel
        </button>
      </div>
      {error && <Failure error={error} />}
      {plan && (
        <>
          <table class="compact">
            <tbody>
              {plan.steps.map((step) => (
                <tr>
                  <td>
                    <span class="name">{String(step["tier"] ?? "")}</span>
                  </td>
                  <td>{describeStep(step)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {plan.steps.length === 0 && <p>It changes nothing.</p>}
          {(plan.breaks ?? []).length > 0 && <p class="went">Stored queries that would break: {(plan.breaks ?? []).map(String).join(", ")}</p>}
          {mayApply && plan.supported && plan.steps.length > 0 && (
            <WriteButton
              label="Change the schema"
              run={() => post(graphPath(graph, "/schema/apply"), { schema_source: draft })}
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

/** A step of a migration as a line: its kind in words, and what it is about. */
function describeStep(step: Record<string, Json>): string {
  const { kind, tier: _tier, ...facts } = step;
  const about = Object.values(facts).filter((value) => value !== null && value !== "");
  return `${String(kind).replaceAll("_", " ")}: ${about.map((value) => (typeof value === "object" ? JSON.stringify(value) : String(value))).join(" ")}`;
}
