/** Who one is, and what one may do here. */

import { get } from "../api";
import { Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading } from "../parts";
import type { Caller } from "../wire";

const MEANING: Record<string, string> = {
  read: "read rows, schema, history and diffs",
  export: "export whole types",
  change: "write by mutations, loads and reverts",
  schema_apply: "change the schema",
  branch_create: "create branches",
  branch_delete: "delete branches",
  branch_merge: "merge branches",
  tag: "create and delete tags",
  invoke_query: "run stored queries",
  graph_list: "list the graphs of the server",
  admin: "upkeep, metrics and the requests of others",
};

export function Access({ graph, actions }: ViewProps) {
  const caller = useLoad("whoami", (signal) => get<Caller>("/whoami", signal));
  return (
    <>
      <Heading>Access</Heading>
      <Show of={caller} what="who you are">
        {({ actor, role, token }) => (
          <dl class="properties">
            <dt>actor</dt>
            <dd>{actor}</dd>
            <dt>role</dt>
            <dd>{role}</dd>
            <dt>token</dt>
            <dd>
              {token.name ?? "without a name"} <code>{token.id}</code>, {token.expires_at ? `until ${token.expires_at}` : "without an end"}
            </dd>
          </dl>
        )}
      </Show>
      <h2>What you may do with {graph}</h2>
      <table class="compact">
        <tbody>
          {Object.entries(MEANING).map(([action, meaning]) => (
            <tr>
              <th scope="row">
                <code>{action}</code>
              </th>
              <td>{actions.has(action) ? "yes" : <span class="muted">no</span>}</td>
              <td class="muted">{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}
