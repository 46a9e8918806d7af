/** Who one is, what one may do here, and which rule says so. */

import { useState } from "preact/hooks";
import { get, read } from "../api";
import { exactTime } from "../format";
import { Failure, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { momentOf } from "../moment";
import { Heading } from "../parts";
import { usePlace } from "../router";
import type { Caller, Decision } from "../wire";

const MEANING = {
  read: "read rows, schema, history and diffs",
  export: "export whole types",
  invoke_query: "run stored queries",
  change: "write by mutations, loads and reverts",
  branch_create: "create branches",
  branch_delete: "delete branches",
  branch_merge: "merge branches",
  tag: "create and delete tags",
  schema_apply: "change the schema",
  admin: "upkeep, metrics and the requests of others",
} as const;

type Action = keyof typeof MEANING;
const ACTIONS = Object.keys(MEANING) as Action[];
const TARGETED: ReadonlySet<Action> = new Set<Action>(["branch_create", "branch_delete", "branch_merge", "schema_apply"]);

export function Access({ graph, actions }: ViewProps) {
  const { branch } = momentOf(usePlace());
  const [actor, setActor] = useState("");
  const caller = useLoad("whoami", (signal) => get<Caller>("/whoami", signal));
  const decisions = useLoad(`${graph} ${branch} ${actor}`, (signal) =>
    Promise.all(
      ACTIONS.map((action) =>
        read(graph, "/policy/explain", { action, actor: actor || null, ...(TARGETED.has(action) ? { target_branch: branch } : { branch }) }, signal).then(
          (decision) => ({ action, decision }),
          (error: Error) => {
            if (signal.aborted) throw error;
            return { action, decision: error };
          },
        ),
      ),
    ),
  );
  return (
    <>
      <Heading>Access</Heading>
      <Show of={caller} what="who you are">
        {({ actor: own, role, token }) => (
          <dl class="facts">
            <div>
              <dt>actor</dt>
              <dd>{own}</dd>
            </div>
            <div>
              <dt>role</dt>
              <dd>{role}</dd>
            </div>
            <div>
              <dt>token</dt>
              <dd>
                {token.name ?? "no name"} <code>{token.id}</code>, {token.expires_at ? `until ${exactTime(token.expires_at)}` : "without an end"}
              </dd>
            </div>
          </dl>
        )}
      </Show>
      <h2>
        What {actor || "you"} may do with {graph}, on the branch {branch}
      </h2>
      {actions.has("admin") && (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            setActor(String(new FormData(event.currentTarget).get("actor") ?? "").trim());
          }}
        >
          <label>
            Another actor <input name="actor" placeholder="act-ines" />
          </label>
          <button>Ask</button>
        </form>
      )}
      <Show of={decisions} what="what the policy says">
        {(found) => (
          <div class="scroll" tabIndex={0}>
            <table>
              <thead>
                <tr>
                  {["action", "allowed", "rule", "meaning"].map((title) => (
                    <th scope="col">{title}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {found.map(({ action, decision }) => (
                  <tr>
                    <th scope="row">
                      <code>{action}</code>
                    </th>
                    <td>{decision instanceof Error ? "" : isAllowed(decision, action, actor, actions) ? <span class="came">✓ yes</span> : <span class="went">✗ no</span>}</td>
                    <td>{decision instanceof Error ? <Failure error={decision} /> : decision.rule ? <code>{decision.rule}</code> : <span class="muted">{decision.message}</span>}</td>
                    <td class="muted">{MEANING[action]}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Show>
    </>
  );
}

/** Of oneself, the role of the token is known too: it is a ceiling that no rule lifts. */
function isAllowed(decision: Decision, action: Action, actor: string, own: ReadonlySet<string>): boolean {
  return decision.allowed && (actor !== "" || own.has(action));
}
