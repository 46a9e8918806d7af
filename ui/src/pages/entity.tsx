/** One entity: its properties, its neighbours by edge type, and its history with a way back. */

import { useState } from "preact/hooks";
import { get, graphPath, path } from "../api";
import { count } from "../format";
import { Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentKey, momentOf, momentQuery } from "../moment";
import { CommitLine, Heading, TypeName, Value, entityPath } from "../parts";
import { Link, usePlace, view } from "../router";
import { Revert } from "./commits";
import type { Degree, Entity, HistoryEntry, Neighbours } from "../wire";

export function EntityView({ graph, rest, actions }: ViewProps) {
  const [kind = "node", type = "", ...ids] = rest;
  const id = ids.join("/");
  const moment = momentOf(usePlace());
  const query = { entity: kind, type, id, numbers: "safe", ...momentQuery(moment) };
  const entity = useLoad(`${graph} ${kind} ${type} ${id} ${momentKey(moment)}`, (signal) => get<Entity>(path(graphPath(graph, "/entity"), query), signal));
  return (
    <>
      <Heading aside={kind === "node" && <Link to={view(graph, "/explore", { node: `${type}/${id}` })}>Draw it</Link>}>
        <TypeName name={type} /> <code>{id}</code>
      </Heading>
      <Show of={entity} what="the entity">
        {(found) => (
          <div class="columns">
            <section>
              <h2>Properties</h2>
              <dl class="properties">
                {Object.entries(found.properties).map(([name, value]) => (
                  <>
                    <dt title={found.types[name]}>{name}</dt>
                    <dd>
                      <Value value={value} />
                    </dd>
                  </>
                ))}
              </dl>
            </section>
            {found.degrees && (
              <section>
                <h2>Neighbours</h2>
                {found.degrees.length === 0 && <Empty>No edge begins or ends here.</Empty>}
                {found.degrees.map((degree) => (
                  <NeighbourList graph={graph} type={type} id={id} degree={degree} moment={momentQuery(moment)} />
                ))}
              </section>
            )}
          </div>
        )}
      </Show>
      <EntityHistory graph={graph} kind={kind} type={type} id={id} branch={moment.branch} mayRevert={actions.has("change") && moment.at === null} reload={entity.reload} />
    </>
  );
}

interface NeighbourProps {
  readonly graph: string;
  readonly type: string;
  readonly id: string;
  readonly degree: Degree;
  readonly moment: Record<string, unknown>;
}

const MOST = 100;

function NeighbourList({ graph, type, id, degree, moment }: NeighbourProps) {
  const [open, setOpen] = useState(degree.count <= 20);
  const key = open ? JSON.stringify([graph, type, id, degree.edge, degree.direction, moment]) : null;
  const found = useLoad(key, (signal) =>
    get<Neighbours>(path(graphPath(graph, "/entity/neighbors"), { type, id, edge: degree.edge, direction: degree.direction, limit: MOST, branch: String(moment["branch"]), at: (moment["at"] as string | null) ?? null }), signal),
  );
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {degree.direction === "out" ? "→" : "←"} {degree.edge} <span class="muted">{count(degree.count)}</span>
      </summary>
      <Show of={found} what="the neighbours">
        {({ nodes, next }) => (
          <ul class="rows">
            {nodes.map((node) => (
              <li>
                <TypeName name={node.type} />{" "}
                <Link to={view(graph, entityPath("node", node.type, node.id))}>
                  <code>{node.id}</code>
                </Link>{" "}
                {node.label !== node.id && <span class="muted">{node.label}</span>}
              </li>
            ))}
            {next && (
              <li class="muted">
                {MOST} of {count(degree.count)}
              </li>
            )}
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
}

const SIGNS = { inserted: ["+", "came"], updated: ["~", "changed"], deleted: ["−", "went"] } as const;

/** Each commit that touched the entity: who, why, and what changed. */
function EntityHistory({ graph, kind, type, id, branch, mayRevert, reload }: HistoryProps) {
  const history = useLoad(`${graph} ${kind} ${type} ${id} ${branch} history`, (signal) =>
    get<{ entries: HistoryEntry[]; next: string | null }>(path(graphPath(graph, "/entity/history"), { entity: kind, type, id, branch, limit: 50 }), signal),
  );
  return (
    <section>
      <h2>History</h2>
      <Show of={history} what="the history">
        {({ entries, next }) => (
          <ol class="rows history">
            {entries.map((entry) => (
              <li>
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
                  <p>
                    <Link to={view(graph, entityPath(kind, type, id), { at: entry.commit.id })}>Read it then</Link>{" "}
                    {mayRevert && entry.commit.parents.length > 0 && (
                      <Revert
                        graph={graph}
                        commit={entry.commit}
                        onDone={() => {
                          history.reload();
                          reload();
                        }}
                      />
                    )}
                  </p>
                </div>
              </li>
            ))}
            {next && <li class="muted">There are older changes: omnigraph changes shows all.</li>}
          </ol>
        )}
      </Show>
    </section>
  );
}
