/** Small pieces that many views share: times, ids, types, values and counts of changes. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { count, exactTime, hueOf, isLink, relativeTime, shortId, titleOf, valueText } from "./format";
import { Folded } from "./loading";
import { Link, view } from "./router";
import type { Commit, EntityChange, Json, Side, TypeChanges } from "./wire";

export function Time({ time }: { readonly time: string }) {
  return (
    <time dateTime={time} title={exactTime(time)} tabIndex={0}>
      {relativeTime(time)}
    </time>
  );
}

export function Id({ id }: { readonly id: string }) {
  return (
    <code class="id" title={id}>
      {shortId(id)}
    </code>
  );
}

export function TypeName({ name }: { readonly name: string }) {
  return (
    <span class="type">
      <i class={`dot hue${hueOf(name)}`} aria-hidden="true" />
      {name}
    </span>
  );
}

/** A value as text only. Long ones fold, and https addresses are links. */
export function Value({ value }: { readonly value: Json | undefined }) {
  if (value === null || value === undefined) return <span class="null">null</span>;
  const text = valueText(value);
  if (isLink(value)) {
    return (
      <a href={value} target="_blank" rel="noopener noreferrer">
        {text}
      </a>
    );
  }
  return <span class={typeof value === "number" ? "number" : undefined}><Folded text={text} /></span>;
}

/** Counts of what came, changed and went. The sign says it as well as the colour. */
export function Counts({ inserted, updated, deleted }: Pick<TypeChanges, "inserted" | "updated" | "deleted">) {
  return (
    <span class="counts">
      {inserted > 0 && <span class="came">+{count(inserted)}</span>}
      {updated > 0 && <span class="changed">~{count(updated)}</span>}
      {deleted > 0 && <span class="went">−{count(deleted)}</span>}
      {inserted + updated + deleted === 0 && <span class="muted">no changes</span>}
    </span>
  );
}

export function totals(summary: readonly TypeChanges[]): { inserted: number; updated: number; deleted: number } {
  const sum = { inserted: 0, updated: 0, deleted: 0 };
  for (const each of summary) {
    sum.inserted += each.inserted;
    sum.updated += each.updated;
    sum.deleted += each.deleted;
  }
  return sum;
}

export function entityPath(kind: string, type: string, id: string): string {
  return `/entity/${kind}/${encodeURIComponent(type)}/${encodeURIComponent(id)}`;
}

export function CommitLine({ graph, commit }: { readonly graph: string; readonly commit: Commit }) {
  return (
    <span class="commit-line">
      <Link to={view(graph, `/commits/${commit.id}`)}>
        {titleOf(commit.message) || <span class="muted">no message</span>}
      </Link>{" "}
      {commit.heads?.map((name) => <span class="name branch">{name}</span>)}
      {commit.tags?.map((name) => <span class="name tag">{name}</span>)}
      <span class="muted">
        {commit.actor ?? "nobody"}, <Time time={commit.time} /> <Id id={commit.id} />
      </span>
    </span>
  );
}

const WORDS = { inserted: "came", updated: "changed", deleted: "went" } as const;
const SIGNS = { inserted: "+", updated: "~", deleted: "−" } as const;

interface ChangeProps {
  readonly graph: string;
  readonly change: EntityChange;
  readonly before: Side;
  readonly after: Side;
  readonly folded?: boolean;
}

/** One changed entity: its name, and each property before and after. Its link leads to the moment that has it. */
export function Change({ graph, change, before, after, folded = false }: ChangeProps) {
  const side = change.op === "deleted" ? before : after;
  const moment = { branch: side.branch === "main" ? null : side.branch, at: side.commit };
  const names = change.op === "updated" ? change.changed : Object.keys(change.after ?? change.before ?? {});
  const [isOpen, setOpen] = useState(change.op === "updated" && !folded);
  const shown = names.filter((name) => change.op === "updated" || valueOf(change, name) !== null);
  return (
    <div class={`change ${WORDS[change.op]}`}>
      <div>
        <button class="quiet fold" aria-expanded={isOpen} aria-label={`Properties of ${change.id}`} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "▾" : "▸"}
        </button>
        <span class="sign" aria-hidden="true">
          {SIGNS[change.op]}
        </span>
        <span class="hidden">{WORDS[change.op]}</span>
        <TypeName name={change.type} />{" "}
        <Link to={view(graph, entityPath(change.kind, change.type, change.id), moment)}>
          <code title={change.id}>{nameChange(change)}</code>
        </Link>
        {change.op === "updated" && <span class="muted"> {change.changed.join(", ")}</span>}
      </div>
      <dl class="properties" hidden={!isOpen}>
        {shown.map((name) => (
          <>
            <dt>{name}</dt>
            <dd>
              {change.op === "updated" ? (
                <>
                  <del>
                    <Value value={change.before?.[name]} />
                  </del>{" "}
                  <span aria-hidden="true">→</span>{" "}
                  <ins>
                    <Value value={change.after?.[name]} />
                  </ins>
                </>
              ) : (
                <Value value={valueOf(change, name)} />
              )}
            </dd>
          </>
        ))}
      </dl>
    </div>
  );
}

/** How an entity is called in a list: an edge by its ends, since its id says nothing. */
export function nameChange(change: Pick<EntityChange, "kind" | "id" | "before" | "after">): string {
  const image = change.after ?? change.before;
  const [from, to] = [image?.["from"], image?.["to"]];
  return change.kind === "edge" && typeof from === "string" && typeof to === "string" ? `${from} → ${to}` : change.id;
}

function valueOf(change: EntityChange, name: string): Json {
  return (change.after ?? change.before)?.[name] ?? null;
}

/** A heading with what belongs beside it. */
export function Heading({ children, aside }: { readonly children: ComponentChildren; readonly aside?: ComponentChildren }) {
  return (
    <header class="heading">
      <h1>{children}</h1>
      {aside && <div class="aside">{aside}</div>}
    </header>
  );
}
