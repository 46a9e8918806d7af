/** A form for one entity. It writes to a branch of one's own, which is then reviewed; to main only by a switch. */

import { useState } from "preact/hooks";
import { ApiError, branchPath, call, read, readCatalog } from "../api";
import { commandOf, option } from "../commands";
import { parseExact, valueText } from "../format";
import { Copy, Show, useLoad } from "../loading";
import { navigate, view } from "../router";
import { edgeWord } from "../slots";
import { WriteButton, newKey } from "../writing";
import type { Entity, Json, Property } from "../wire";

interface EditProps {
  readonly graph: string;
  readonly kind: string;
  readonly type: string;
  readonly id: string;
  readonly branch: string;
  readonly actor: string;
  readonly close: () => void;
}

/** The branch on which somebody edits today. */
export function editBranch(actor: string, today = new Date()): string {
  return `edit/${actor.replace(/[^A-Za-z0-9._-]/g, "-")}/${today.toISOString().slice(0, 10)}`;
}

interface Form {
  readonly entity: Entity;
  readonly properties: readonly Property[];
  readonly ends: readonly [string, string] | null;
  /** Whether the branch of the edits is there already; the form then shows what is on it. */
  readonly continues: boolean;
}

export function EditForm(props: EditProps) {
  const { graph, kind, type, id, branch, actor } = props;
  const own = branch === "main" ? editBranch(actor) : branch;
  const loaded = useLoad(JSON.stringify([graph, kind, type, id, branch]), async (signal): Promise<Form> => {
    const catalog = await readCatalog(graph, { branch }, signal);
    const entity = kind === "edge" ? "edge" : "node";
    const readFrom = (from: string) => read(graph, "/entity", { entity, type, id, numbers: "safe", branch: from }, signal);
    const { branches } = await read(graph, "/branches", {}, signal);
    const continues = own !== branch && branches.includes(own);
    const edge = catalog.edges.find((each) => each.name === type);
    const node = catalog.nodes.find((each) => each.name === type);
    const properties = ((entity === "edge" ? edge : node)?.properties ?? []).filter((each) => !node?.key?.includes(each.name) && !/Blob|Vector/.test(each.type));
    return { entity: await readFrom(continues ? own : branch), properties, ends: edge ? [edge.from, edge.to] : null, continues };
  });
  return (
    <section class="panel" aria-label="Edit">
      <Show of={loaded} what="the form">{(form) => <Fields {...props} form={form} own={own} again={loaded.reload} key={form.entity.commit ?? ""} />}</Show>
    </section>
  );
}

function Fields({ graph, kind, type, id, branch, form, own, close, again }: EditProps & { readonly form: Form; readonly own: string; readonly again: () => void }) {
  const old = form.entity.properties;
  const [values, setValues] = useState<Record<string, string | null>>(() => Object.fromEntries(form.properties.map(({ name }) => [name, old[name] === null || old[name] === undefined ? null : valueText(old[name])])));
  const [onMain, setOnMain] = useState(false);
  const [message, setMessage] = useState(`edit ${type} ${id}`);
  const [key] = useState(newKey);
  const target = onMain ? branch : own;
  const changed = form.properties.filter(({ name }) => (values[name] ?? null) !== (old[name] === null || old[name] === undefined ? null : valueText(old[name])));
  const text = mutationText(kind, type, changed, form.ends);
  const params: Record<string, Json> = { id, ...(kind === "edge" ? { from: String(old["from"]), to: String(old["to"]) } : {}) };
  let problem = "";
  for (const property of changed) {
    try {
      params[property.name] = parseValue(values[property.name] ?? null, property.type);
    } catch {
      problem = `${property.name} is not a value of the type ${property.type}`;
    }
  }
  const save = async () => {
    if (target !== branch && !form.continues) {
      // The branch begins at the state that the form shows, so nothing can come between.
      await call(graph, "/branches", { name: target, from: form.entity.commit ?? branch }).catch((error: Error) => {
        if (!(error instanceof ApiError && error.status === 409)) throw error;
      });
    }
    return call(graph, "/mutate", { query: text, params, branch: target, message, if_commit: form.entity.commit }, { headers: { "Idempotency-Key": key } });
  };
  const leave = () => {
    close();
    if (target === "main") navigate(view(graph, `/entity/${kind}/${encodeURIComponent(type)}/${encodeURIComponent(id)}`));
    else navigate(view(graph, `/review/${branchPath(target)}`, { branch: null, at: null }));
  };
  return (
    <>
      <h2>Edit</h2>
      {form.continues && !onMain && (
        <p class="muted">
          This goes on where <code>{own}</code> is: the values are those of that branch.
        </p>
      )}
      <div class="fields">
        {form.properties.map((property) => (
          <Field property={property} value={values[property.name] ?? null} change={(value) => setValues({ ...values, [property.name]: value })} />
        ))}
      </div>
      {changed.length > 0 && (
        <details open>
          <summary>What is sent</summary>
          <pre class="plan">{`${text}\n${JSON.stringify(params)}`}</pre>
          <Copy text={commandOf(graph, "mutate", "-e", text, "--params", JSON.stringify(params), ...option("--branch", target, "main"), ...option("-m", message))} label="Copy as command" />
        </details>
      )}
      {problem && (
        <p class="went" role="alert">
          {problem}
        </p>
      )}
      <div class="form">
        <label>
          Message <input class="wide" value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
        </label>
        {own !== branch && (
          <label>
            <input type="checkbox" checked={onMain} onChange={(event) => setOnMain(event.currentTarget.checked)} /> write straight to {branch}
          </label>
        )}
        <WriteButton label={`Save on ${target}`} disabled={changed.length === 0 || problem !== ""} run={save} done={leave} asks={{ graph, branch: target, key }} found={leave} />
        <button class="quiet" onClick={again}>
          Read again
        </button>
        <button class="quiet" onClick={close}>
          Cancel
        </button>
      </div>
    </>
  );
}

function Field({ property, value, change }: { readonly property: Property; readonly value: string | null; readonly change: (value: string | null) => void }) {
  const type = property.type.replace(/\?$/, "");
  const id = `field-${property.name}`;
  const choices = /^enum\((.*)\)$/.exec(type)?.[1]?.split(",").map((each) => each.trim()) ?? (type === "Bool" ? ["true", "false"] : null);
  return (
    <>
      <label for={id}>
        {property.name} <code class="muted">{property.type}</code>
      </label>
      <div>
        {choices ? (
          <select id={id} value={value ?? ""} onChange={(event) => change(event.currentTarget.value || null)}>
            {property.nullable && <option value="">null</option>}
            {choices.map((choice) => (
              <option value={choice}>{choice}</option>
            ))}
          </select>
        ) : type === "String" && (value ?? "").length > 80 ? (
          <textarea id={id} rows={4} value={value ?? ""} onInput={(event) => change(event.currentTarget.value)} />
        ) : (
          <input id={id} class="wide" placeholder={value === null ? "null" : type === "Date" ? "2026-01-31" : ""} value={value ?? ""} onInput={(event) => change(event.currentTarget.value === "" && type !== "String" ? null : event.currentTarget.value)} />
        )}
        {property.nullable && value !== null && !choices && (
          <button class="quiet" aria-label={`Set ${property.name} to null`} onClick={() => change(null)}>
            null
          </button>
        )}
      </div>
    </>
  );
}

/** A typed-in text as a value. Integers stay texts, so that no digit is lost. */
export function parseValue(text: string | null, type: string): Json {
  if (text === null) return null;
  const bare = type.replace(/\?$/, "");
  if (/^[IU](32|64)$/.test(bare)) {
    if (!/^-?\d+$/.test(text.trim())) throw new Error("no integer");
    return text.trim().length > 15 ? text.trim() : Number(text);
  }
  if (/^F(32|64)$/.test(bare)) {
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw new Error("no number");
    return Number(text);
  }
  if (bare === "Bool") return text === "true";
  if (bare.startsWith("[")) return parseExact(text);
  return text;
}

function mutationText(kind: string, type: string, changed: readonly Property[], ends: readonly [string, string] | null): string {
  const declared = changed.map(({ name, type: own }) => `$${name}: ${/^enum/.test(own) ? `String${own.endsWith("?") ? "?" : ""}` : own}`);
  const sets = changed.map(({ name }) => `${name}: $${name}`).join(", ");
  if (kind === "edge" && ends) {
    return `query edit(${["$id: String", "$from: String", "$to: String", ...declared].join(", ")}) {\n  match {\n    $a: ${ends[0]} { id: $from }\n    $b: ${ends[1]} { id: $to }\n    $a $e:${edgeWord(type)} $b\n    $e.id = $id\n  }\n  update $e set { ${sets} }\n}`;
  }
  return `query edit(${["$id: String", ...declared].join(", ")}) {\n  update ${type} set { ${sets} } where id = $id\n}`;
}
