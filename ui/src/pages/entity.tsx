/** One entity: its properties, its neighbours by edge type, and its history with a way back. */

import { useState } from "preact/hooks";
import { read, readCatalog, routePath } from "../api";
import { curlOf } from "../commands";
import { count, plural } from "../format";
import { Empty, Failure, Show, useLoad, usePages } from "../loading";
import type { ViewProps } from "../main";
import { type Moment, momentKey, momentOf } from "../moment";
import { CommitLine, Heading, TypeName, Value, entityPath, totals } from "../parts";
import { Link, usePlace, view } from "../router";
import { SaveButton } from "../saving";
import { Revert } from "./commits";
import { EditForm } from "./edit";
import type { Degree, HistoryEntry } from "../wire";

export function EntityView({ graph, rest, actions, actor }: ViewProps) {
  const [kind = "node", type = "", ...ids] = rest;
  const id = ids.join("/");
  const moment = momentOf(usePlace());
  const [isEditing, setEditing] = useState(false);
  const query = { entity: kind === "edge" ? "edge" : "node", type, id, numbers: "safe", ...moment } as const;
  const entity = useLoad(`${graph} ${kind} ${type} ${id} ${momentKey(moment)}`, (signal) => read(graph, "/entity", query, signal));
  return (
    <>
      <Heading
        aside={
          <>
            {kind === "node" && <Link to={view(graph, "/explore", { node: `${type}/${id}` })}>Draw it</Link>}
            {actions.has("change") && entity.data && <button onClick={() => setEditing(!isEditing)}>Edit</button>}
          </>
        }
      >
        <TypeName name={type} /> <code>{id}</code>
      </Heading>
      {isEditing && <EditForm graph={graph} kind={kind} type={type} id={id} branch={moment.branch} actor={actor} close={() => (setEditing(false), entity.reload())} />}
      <Show of={entity} what="the entity">
        {(found) => (
          <div class="columns">
            <section>
              <h2>Properties</h2>
              <dl class="properties">
                {Object.entries(found.properties).map(([name, value]) => (
                  <>
                    <dt>
                      {name} <code class="type-of">{found.types[name]}</code>
                    </dt>
                    <dd>
                      <Value value={value} />
                    </dd>
                  </>
                ))}
                <Blobs graph={graph} query={query} kind={kind} />
              </dl>
            </section>
            {found.degrees && (
              <section>
                <h2>Neighbours</h2>
                {found.degrees.length === 0 && <Empty>No edge begins or ends here.</Empty>}
                {found.degrees.map((degree) => (
                  <NeighbourList key={`${type}/${id} ${degree.direction} ${degree.edge}`} graph={graph} type={type} id={id} degree={degree} moment={moment} />
                ))}
              </section>
            )}
          </div>
        )}
      </Show>
      <EntityHistory graph={graph} kind={kind} type={type} id={id} branch={moment.branch} mayRevert={actions.has("change") && moment.at === null} reload={entity.reload} at={moment.at} />
    </>
  );
}

interface NeighbourProps {
  readonly graph: string;
  readonly type: string;
  readonly id: string;
  readonly degree: Degree;
  readonly moment: Moment;
}

const MOST = 100;

function NeighbourList({ graph, type, id, degree, moment }: NeighbourProps) {
  const [open, setOpen] = useState(degree.count <= 20);
  const key = open ? JSON.stringify([graph, type, id, degree.edge, degree.direction, moment]) : null;
  const pages = usePages(key, async (offset: number | null, signal) => {
    const { nodes, next } = await read(graph, "/entity/neighbors", { type, id, edge: degree.edge, direction: degree.direction, limit: MOST, offset, ...moment }, signal);
    return { items: nodes, next: next?.offset ?? null };
  });
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {degree.direction === "out" ? "→" : "←"} {degree.edge} <span class="muted">{count(degree.count)}</span>
      </summary>
      <Show of={pages.first} what="the neighbours">
        {() => (
          <ul class="rows">
            {pages.items.map((node) => (
              <li>
                <TypeName name={node.type} />{" "}
                <Link to={view(graph, entityPath("node", node.type, node.id))}>
                  <code>{node.id}</code>
                </Link>{" "}
                {node.label !== node.id && <span class="muted">{node.label}</span>}
              </li>
            ))}
            {pages.readMore && (
              <li>
                <span class="muted">
                  {count(pages.items.length)} of {count(degree.count)}
                </span>{" "}
                <button onClick={pages.readMore}>Show {MOST} more</button>
              </li>
            )}
            {pages.error && <Failure error={pages.error} />}
          </ul>
        )}
      </Show>
    </details>
  );
}

interface HistoryProps {
  readonly graph: string;
  readonly kind: string;
  readonly type: string;
  readonly id: string;
  readonly branch: string;
  readonly mayRevert: boolean;
  readonly reload: () => void;
  readonly at: string | null;
}

const ENTRIES = 50;
const SIGNS = { inserted: ["+", "came"], updated: ["~", "changed"], deleted: ["−", "went"] } as const;

/** Each commit that touched the entity: who, why, and what changed. */
function EntityHistory({ graph, kind, type, id, branch, mayRevert, reload, at }: HistoryProps) {
  const [made, setMade] = useState<string | null>(null);
  const history = usePages(`${graph} ${kind} ${type} ${id} ${branch} ${at ?? ""} history`, async (before: string | null, signal) => {
    const { entries, next } = await read(graph, "/entity/history", { entity: kind === "edge" ? "edge" : "node", type, id, branch, at, before, limit: ENTRIES, numbers: "safe" }, signal);
    return { items: entries, next };
  });
  return (
    <section>
      <h2>History</h2>
      {made && (
        <p class="notice good" role="status">
          Taken back by the commit <Link to={view(graph, `/commits/${made}`)}><code>{made}</code></Link>. Nothing was erased: the history below has both.
        </p>
      )}
      <Show of={history.first} what="the history">
        {() => (
          <ol class="rows history">
            {history.items.map((entry) => (
              <li key={entry.commit.id}>
                <span class={`sign ${SIGNS[entry.op][1]}`} title={SIGNS[entry.op][1]}>
                  {SIGNS[entry.op][0]}
                </span>
                <div>
                  <CommitLine graph={graph} commit={entry.commit} />
                  {entry.op === "updated" && (
                    <dl class="properties">
                      {entry.changed.map((name) => (
                        <>
                          <dt>{name}</dt>
                          <dd>
                            <del>
                              <Value value={entry.before?.[name]} />
                            </del>{" "}
                            → <ins><Value value={entry.after?.[name]} /></ins>
                          </dd>
                        </>
                      ))}
                    </dl>
                  )}
                  <EntryActions
                    graph={graph}
                    entry={entry}
                    then={view(graph, entityPath(kind, type, id), { at: entry.commit.id })}
                    mayRevert={mayRevert}
                    done={(commit) => {
                      setMade(commit);
                      history.first.reload();
                      reload();
                    }}
                  />
                </div>
              </li>
            ))}
            {history.readMore && (
              <li>
                <button onClick={history.readMore}>Show older changes</button>
              </li>
            )}
            {history.error && <Failure error={history.error} />}
          </ol>
        )}
      </Show>
    </section>
  );
}

interface EntryProps {
  readonly graph: string;
  readonly entry: HistoryEntry;
  readonly then: string;
  readonly mayRevert: boolean;
  readonly done: (commit: string) => void;
}

/** What can be done about one change, and how much else its commit changed. */
function EntryActions({ graph, entry, then, mayRevert, done }: EntryProps) {
  const diff = useLoad(entry.commit.parents.length > 0 ? `${graph} ${entry.commit.id}` : null, (signal) => read(graph, "/diff", { commit: entry.commit.id, view: "summary" }, signal));
  const sums = diff.data ? totals(diff.data.summary) : null;
  const others = sums ? sums.inserted + sums.updated + sums.deleted - 1 : 0;
  return (
    <div class="toolbar">
      {others > 0 && <Link to={view(graph, `/commits/${entry.commit.id}`)}>and {plural(others, "other")}</Link>}
      <Link to={then}>Read it then</Link>
      {mayRevert && entry.commit.parents.length > 0 && <Revert graph={graph} commit={entry.commit} others={others} onDone={done} />}
    </div>
  );
}

/** The blobs of an entity. Reads leave them out, so the schema says which there are; each is only ever saved. */
function Blobs({ graph, query, kind }: { readonly graph: string; readonly query: { readonly type: string; readonly id: string } & Moment; readonly kind: string }) {
  const { type, id, branch, at } = query;
  const catalog = useLoad(`${graph} ${branch} ${at ?? ""} catalog`, (signal) => readCatalog(graph, { branch, at }, signal));
  const own = (kind === "edge" ? catalog.data?.edges : catalog.data?.nodes)?.find((each) => each.name === type);
  return (
    <>
      {catalog.error && <Failure error={catalog.error} retry={catalog.reload} />}
      {own?.properties
        .filter((property) => property.type.startsWith("Blob"))
        .map((property) => {
          const url = routePath(graph, "/blob", { entity: kind === "edge" ? "edge" : "node", type, id, property: property.name, branch, at });
          const name = `${id.slice(0, 60)}-${property.name}.bin`;
          return (
            <>
              <dt>
                {property.name} <code class="type-of">{property.type}</code>
              </dt>
              <dd>
                <SaveButton label={`Download ${property.name}`} url={url} options={{ headers: { Accept: "*/*" } }} name={name} command={curlOf(url, "*/*", name)} />
              </dd>
            </>
          );
        })}
    </>
  );
}
