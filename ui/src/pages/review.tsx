/** Review a branch: what it changes, whether it can be merged, conflicts to decide, and the merge. */

import { useState } from "preact/hooks";
import { branchPath, call, graphPath, post, read, remove } from "../api";
import { commandOf, option } from "../commands";
import { download, parseExact, plural, valueText } from "../format";
import { Copy, Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, TypeName, Value, entityPath } from "../parts";
import { Link, navigate, usePlace, view } from "../router";
import { Table } from "../table";
import { WriteButton, keyed, newKey } from "../writing";
import { Changes } from "./diff";
import type { Conflict, Json, MergeAnswer, QueryResult } from "../wire";

const DECISIONS = "decisions.json";

type Side = "base" | "ours" | "theirs";
/** A side, or the values that were typed in. */
type Choice = Side | { readonly [property: string]: string };

export function Review({ graph, rest, actions }: ViewProps) {
  const branch = rest.join("/");
  const into = usePlace().search.get("into") || "main";
  const preview = useLoad(`${graph} ${branch} ${into}`, (signal) =>
    call(graph, "/merges", { source: branch, target: into, dry_run: true, numbers: "safe" }, { signal }),
  );
  return (
    <>
      <Heading aside={<Copy text={location.href} label="Copy the link" />}>
        Review <code>{branch}</code> into <code>{into}</code>
      </Heading>
      <Show of={preview} what="the preview of the merge">
        {(answer) => <MergePanel graph={graph} branch={branch} into={into} answer={answer} mayMerge={actions.has("branch_merge")} mayDelete={actions.has("branch_delete")} reload={preview.reload} />}
      </Show>
      {preview.data && (
        <>
          <Checks graph={graph} branch={branch} />
          <h2>What it changes</h2>
          <Changes graph={graph} query={{ a: preview.data.base ?? into, b: branch }} />
        </>
      )}
    </>
  );
}

interface PanelProps {
  readonly graph: string;
  readonly branch: string;
  readonly into: string;
  readonly answer: MergeAnswer;
  readonly mayMerge: boolean;
  readonly mayDelete: boolean;
  readonly reload: () => void;
}

function MergePanel({ graph, branch, into, answer, mayMerge, mayDelete, reload }: PanelProps) {
  const [key] = useState(newKey);
  const [message, setMessage] = useState(`merge branch '${branch}' into '${into}'`);
  const [deletes, setDeletes] = useState(true);
  const [choices, setChoices] = useState<ReadonlyMap<string, Choice>>(new Map());
  const [merged, setMerged] = useState<MergeAnswer | null>(null);
  const conflicts = answer.conflicts;
  const open = conflicts.filter((conflict) => !choices.has(nameOf(conflict)));
  if (merged) {
    return (
      <div class="notice good" role="status">
        <strong>Merged</strong>
        <p>
          {merged.commit && <Link to={view(graph, `/commits/${merged.commit}`, { branch: null, at: null })}>The merge commit</Link>}
          {merged.branch_deleted && `; the branch ${branch} is deleted`}
          {merged.branch_kept && `; the branch was kept: ${merged.branch_kept}`}
        </p>
        <LeftOut answer={merged} />
      </div>
    );
  }
  if (answer.outcome === "already-up-to-date" || answer.outcome === "already_up_to_date") {
    return (
      <Empty>
        {into} has merged everything of {branch}. {mayDelete && <DeleteBranch graph={graph} branch={branch} />}
        <LeftOut answer={answer} />
      </Empty>
    );
  }
  const run = () =>
    call(graph, "/merges", {
        source: branch,
        target: into,
        message,
        if_commit: answer.target_commit,
        delete_branch: deletes && mayDelete,
        ...(conflicts.length > 0 ? { resolve: toResolution(conflicts, choices) } : {}),
      },
      { headers: { "Idempotency-Key": key } });
  const command = commandOf(graph, "merge", branch, ...option("--into", into, "main"), ...option("--resolve", conflicts.length > 0 ? DECISIONS : null), deletes && mayDelete && "--delete-branch", ...option("-m", message));
  return (
    <section class="panel">
      {conflicts.length > 0 ? (
        <Conflicts graph={graph} conflicts={conflicts} choices={choices} choose={(names, choice) => setChoices(new Map([...choices, ...names.map((name) => [name, choice] as const)]))} branch={branch} into={into} />
      ) : (
        <p>No conflicts: this can be merged.</p>
      )}
      {mayMerge ? (
        <div class="form">
          <label>
            Message <input class="wide" value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          </label>
          {mayDelete && (
            <label>
              <input type="checkbox" checked={deletes} onChange={(event) => setDeletes(event.currentTarget.checked)} /> delete the branch afterwards
            </label>
          )}
          <WriteButton label={`Merge into ${into}`} disabled={open.length > 0} command={command} run={run} done={setMerged} asks={{ graph, branch: into, key }} />
          {conflicts.length > 0 && open.length === 0 && (
            <button class="quiet" onClick={() => download(DECISIONS, `${JSON.stringify(toResolution(conflicts, choices), null, 2)}\n`, "application/json")}>
              Save the decisions for it
            </button>
          )}
          {open.length > 0 && <span class="muted">{plural(open.length, "conflict")} to decide</span>}
          <button class="quiet" onClick={reload}>
            Look again
          </button>
        </div>
      ) : (
        <p class="muted">You may read this, not merge it.</p>
      )}
    </section>
  );
}

function DeleteBranch({ graph, branch }: { readonly graph: string; readonly branch: string }) {
  return (
    <WriteButton
      label={`Delete ${branch}`}
      command={commandOf(graph, "branch", "delete", branch)}
      run={(key) => remove(graphPath(graph, `/branches/${branchPath(branch)}`), keyed(key))}
      done={() => navigate(view(graph, "/branches", { branch: null, at: null }))}
    />
  );
}

/** The changes that the merge leaves out. */
function LeftOut({ answer }: { readonly answer: MergeAnswer }) {
  return (
    <>
      {answer.left_out.map((each) => (
        <p class="muted">
          Left out: {plural(each.count, "change")} of {each.type} ({each.reason.replace("-", " ")}{each.property ? ` ${each.property}` : ""})
        </p>
      ))}
    </>
  );
}

function typeOf(conflict: Conflict): string {
  return conflict.type ?? conflict.table_key.split(":")[1] ?? "";
}

function nameOf(conflict: Conflict): string {
  return `${conflict.table_key} ${conflict.row_id}`;
}

/** The content of a resolution file: the decision for each conflict. The base is chosen by giving its values. */
function toResolution(conflicts: readonly Conflict[], choices: ReadonlyMap<string, Choice>) {
  return {
    conflicts: conflicts.map((conflict) => {
      const choice = choices.get(nameOf(conflict));
      const names = conflict.properties?.length ? conflict.properties : namesOf(conflict);
      return {
        kind: conflict.kind.replace(/(?:^|_)(.)/g, (_, letter: string) => letter.toUpperCase()),
        table_key: conflict.table_key,
        type: typeOf(conflict),
        id: conflict.row_id,
        ...(conflict.properties?.length ? { properties: conflict.properties } : {}),
        choose: choice === "base" ? Object.fromEntries(names.map((name) => [name, conflict.base?.[name] ?? null])) : typeof choice === "object" ? typedValues(conflict, choice) : choice,
      };
    }),
  };
}

/** Values that were typed in, of the kind that the sides have: numbers stay numbers. */
function typedValues(conflict: Conflict, typed: Readonly<Record<string, string>>): Record<string, Json> {
  return Object.fromEntries(
    Object.entries(typed).map(([name, text]) => {
      const like = conflict.ours?.[name] ?? conflict.theirs?.[name] ?? conflict.base?.[name];
      if (text === "null") return [name, null];
      // An integer that a number would round is sent as the text that it is.
      if (typeof like === "number" && /^-?\d{16,}$/.test(text.trim())) return [name, text.trim()];
      if (typeof like === "number" && text.trim() !== "" && Number.isFinite(Number(text))) return [name, Number(text)];
      if (typeof like === "boolean") return [name, text === "true"];
      return [name, typeof like === "object" ? parseExact(text) : text];
    }),
  );
}

interface ConflictsProps {
  readonly graph: string;
  readonly conflicts: readonly Conflict[];
  readonly choices: ReadonlyMap<string, Choice>;
  readonly choose: (names: readonly string[], choice: Choice) => void;
  readonly branch: string;
  readonly into: string;
}

function Conflicts({ graph, conflicts, choices, choose, branch, into }: ConflictsProps) {
  const sides: readonly (readonly [Side, string])[] = [
    ["ours", into],
    ["theirs", branch],
    ["base", "before both"],
  ];
  const types = [...new Set(conflicts.map(typeOf))];
  return (
    <>
      <h2>{plural(conflicts.length, "conflict")} to decide</h2>
      <div class="toolbar">
        {conflicts.length > 1 && types.map((type) => (
          <span class="decide">
            All {conflicts.filter((conflict) => typeOf(conflict) === type).length} of <TypeName name={type} />{" "}
            {sides.map(([choice, title]) => (
              <button onClick={() => choose(conflicts.filter((conflict) => typeOf(conflict) === type).map(nameOf), choice)}>
                {choice} ({title})
              </button>
            ))}
          </span>
        ))}
      </div>
      {conflicts.map((conflict) => {
        const [kind = "node", type = ""] = conflict.table_key.split(":");
        const names = conflict.properties?.length ? conflict.properties : namesOf(conflict);
        const choice = choices.get(nameOf(conflict));
        const typed = typeof choice === "object" ? choice : null;
        return (
          <fieldset class="conflict">
            <legend>
              <TypeName name={conflict.type ?? type} />{" "}
              <Link to={view(graph, entityPath(kind, conflict.type ?? type, conflict.row_id))}>
                <code>{conflict.row_id}</code>
              </Link>{" "}
              <span class="muted">{conflict.message}</span>
            </legend>
            <div class="scroll" tabIndex={0}><table>
              <thead>
                <tr>
                  <th scope="col">property</th>
                  {sides.map(([choice, title]) => (
                    <th scope="col">
                      <label>
                        <input type="radio" name={nameOf(conflict)} disabled={choice === "base" && !conflict.base} checked={choices.get(nameOf(conflict)) === choice} onChange={() => choose([nameOf(conflict)], choice)} /> {choice} ({title})
                      </label>
                    </th>
                  ))}
                  <th scope="col">
                    <label>
                      <input type="radio" name={nameOf(conflict)} checked={typed !== null} onChange={() => choose([nameOf(conflict)], Object.fromEntries(names.map((name) => [name, valueText(conflict.ours?.[name])])))} /> a value
                    </label>
                  </th>
                </tr>
              </thead>
              <tbody>
                {names.map((name) => (
                  <tr>
                    <th scope="row">{name}</th>
                    {sides.map(([choice]) => (
                      <td>{conflict[choice] ? <Value value={conflict[choice]?.[name]} /> : <span class="muted">not there</span>}</td>
                    ))}
                    <td>
                      {typed && <input aria-label={`Value of ${name}`} value={typed[name] ?? ""} onInput={(event) => choose([nameOf(conflict)], { ...typed, [name]: event.currentTarget.value })} />}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table></div>
          </fieldset>
        );
      })}
    </>
  );
}

function namesOf(conflict: Conflict): string[] {
  const all = new Set([conflict.base, conflict.ours, conflict.theirs].flatMap((side) => Object.keys(side ?? {})));
  return [...all].filter((name) => JSON.stringify(conflict.ours?.[name]) !== JSON.stringify(conflict.theirs?.[name]));
}

/** Stored queries whose names begin with check_: no rows is good. */
function Checks({ graph, branch }: { readonly graph: string; readonly branch: string }) {
  const checks = useLoad(`${graph} ${branch} checks`, async (signal) => {
    const { queries } = await read(graph, "/queries", {}, signal).catch(() => ({ queries: [] }));
    const wanted = queries.filter((query) => query.name.startsWith("check_") && !query.mutation);
    return Promise.all(
      wanted.map(async (query) => {
        const answer = await post<QueryResult>(graphPath(graph, `/queries/${query.name}`), { branch, limit: 100, numbers: "safe" }, { signal }).catch((error: Error) => error);
        return { query, answer };
      }),
    );
  });
  if (!checks.data || checks.data.length === 0) return null;
  return (
    <>
      <h2>Checks</h2>
      <ul class="rows">
        {checks.data.map(({ query, answer }) => (
          <li>
            <code>{query.name}</code>{" "}
            {answer instanceof Error ? <span class="went">{answer.message}</span> : answer.row_count === 0 ? <span class="came">✓ finds nothing</span> : <FoundRows answer={answer} />} {query.description && <span class="muted">{query.description}</span>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** The rows that a check found, folded. */
function FoundRows({ answer }: { readonly answer: QueryResult }) {
  return (
    <details class="inline">
      <summary class="went">✗ finds {answer.next ? "more than 100 rows" : plural(answer.row_count, "row")}</summary>
      <Table columns={answer.columns} rows={answer.rows} types={answer.types} caption={`Rows of ${answer.query_name}`} />
    </details>
  );
}
