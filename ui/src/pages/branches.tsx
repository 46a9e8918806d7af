/** Branches and tags: where they stand, and making and deleting them. */

import { useState } from "preact/hooks";
import { branchPath, call, graphPath, post, read, remove } from "../api";
import { commandOf, option } from "../commands";
import { useFocusInside } from "../focus";
import { Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Counts, Heading, Id, Time, totals } from "../parts";
import { Link, usePlace, view } from "../router";
import { momentOf, reference } from "../moment";
import { WriteButton, keyed } from "../writing";

export function Branches({ graph, actions }: ViewProps) {
  const branches = useLoad(`${graph} branches`, (signal) => read(graph, "/branches", {}, signal));
  return (
    <>
      <Heading aside={<Link to={view(graph, "/tags")}>Tags</Link>}>Branches</Heading>
      {actions.has("branch_create") && <NewName graph={graph} what="branch" done={branches.reload} />}
      <Show of={branches} what="the branches">
        {({ items }) => (
          <div class="scroll" tabIndex={0}><table>
            <thead>
              <tr>
                {["branch", "from", "head", "ahead of main", "behind", "actions"].map((title) => (
                  <th scope="col">{title}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {items.map((branch) => (
                <tr key={branch.name}>
                  <th scope="row">
                    <Link to={view(graph, "", { branch: branch.name === "main" ? null : branch.name, at: null })}>{branch.name}</Link> {branch.protected && <span class="name">protected</span>}
                  </th>
                  <td>
                    {branch.parent ?? ""} {branch.created_at && <Time time={branch.created_at} />}
                  </td>
                  <td>{branch.head && <Id id={branch.head} />}</td>
                  {branch.name === "main" ? (
                    <>
                      <td />
                      <td />
                    </>
                  ) : (
                    <Beside graph={graph} branch={branch.name} />
                  )}
                  <td>
                    {branch.name !== "main" && <Link to={view(graph, `/review/${branchPath(branch.name)}`, { branch: null, at: null })}>Review</Link>}{" "}
                    {branch.name !== "main" && !branch.protected && actions.has("branch_delete") && <Delete what={branch.name} command={commandOf(graph, "branch", "delete", branch.name)} url={graphPath(graph, `/branches/${branchPath(branch.name)}`)} done={branches.reload} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table></div>
        )}
      </Show>
    </>
  );
}

function Beside({ graph, branch }: { readonly graph: string; readonly branch: string }) {
  const beside = useLoad(`${graph} ${branch}`, async (signal) => {
    const { base } = await call(graph, "/merges", { source: branch, target: "main", dry_run: true }, { signal });
    const [ahead, behind] = await Promise.all(
      [branch, "main"].map((side) => read(graph, "/diff", { a: base ?? "main", b: side, view: "summary" }, signal)),
    );
    return { ahead: ahead?.summary ?? [], behind: behind?.summary ?? [] };
  });
  return (
    <>
      <td>{beside.data && <Counts {...totals(beside.data.ahead)} />}</td>
      <td>{beside.data && <Counts {...totals(beside.data.behind)} />}</td>
    </>
  );
}

export function Tags({ graph, actions }: ViewProps) {
  const tags = useLoad(`${graph} tags`, (signal) => read(graph, "/tags", {}, signal));
  return (
    <>
      <Heading aside={<Link to={view(graph, "/branches")}>Branches</Link>}>Tags</Heading>
      {actions.has("tag") && <NewName graph={graph} what="tag" done={tags.reload} />}
      <Show of={tags} what="the tags">
        {({ tags: items }) =>
          items.length === 0 ? (
            <Empty command={commandOf(graph, "tag", "create", "release-1")}>A tag names a commit, and keeps it.</Empty>
          ) : (
            <table class="compact">
              <thead>
                <tr>
                  {["tag", "commit", "made by", "actions"].map((title) => (
                    <th scope="col">{title}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {items.map((tag) => (
                  <tr key={tag.name}>
                    <th scope="row">
                      <Link to={view(graph, "", { branch: tag.branch === "main" ? null : tag.branch, at: tag.name })}>{tag.name}</Link>
                    </th>
                    <td>
                      <Link to={view(graph, `/commits/${tag.commit}`)}>
                        <Id id={tag.commit} />
                      </Link>
                    </td>
                    <td>
                      {tag.actor} <Time time={tag.created_at} />
                    </td>
                    <td>{actions.has("tag") && <Delete what={tag.name} command={commandOf(graph, "tag", "delete", tag.name)} url={graphPath(graph, `/tags/${encodeURIComponent(tag.name)}`)} done={tags.reload} />}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Show>
    </>
  );
}

/** Make a branch or a tag at the moment that the ref bar shows. */
function NewName({ graph, what, done }: { readonly graph: string; readonly what: "branch" | "tag"; readonly done: () => void }) {
  const [name, setName] = useState("");
  const moment = momentOf(usePlace());
  const body = what === "branch" ? { name, from: reference(moment) } : { name, ref: moment.at, branch: moment.branch };
  const command = what === "branch" ? commandOf(graph, "branch", "create", name.trim(), ...option("--from", reference(moment), "main")) : commandOf(graph, "tag", "create", name.trim(), moment.at, ...option("--branch", moment.branch, "main"));
  return (
    <div class="form">
      <label>
        New {what} at {reference(moment)} <input value={name} placeholder={what === "branch" ? "review/june" : "release-1"} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <WriteButton
        label={`Create the ${what}`}
        disabled={name.trim() === ""}
        command={command}
        run={(key) => post(graphPath(graph, what === "branch" ? "/branches" : "/tags"), body, keyed(key))}
        done={() => {
          setName("");
          done();
        }}
      />
    </div>
  );
}

function Delete({ what, command, url, done }: { readonly what: string; readonly command: string; readonly url: string; readonly done: () => void }) {
  const [asked, setAsked] = useState(false);
  const { opener, opened } = useFocusInside<HTMLSpanElement>(asked);
  if (!asked) {
    return (
      <button ref={opener} class="quiet" onClick={() => setAsked(true)} aria-label={`Delete ${what}`}>
        Delete…
      </button>
    );
  }
  return (
    <span ref={opened}>
      <WriteButton label={`Delete ${what}`} command={command} run={(key) => remove(url, keyed(key))} done={done} />
      <button class="quiet" onClick={() => setAsked(false)}>
        Cancel
      </button>
    </span>
  );
}
