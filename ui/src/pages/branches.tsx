/** Branches and tags: where they stand, and making and deleting them. */

import { useState } from "preact/hooks";
import { get, graphPath, path, post, remove } from "../api";
import { Empty, Show, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Counts, Heading, Id, Time, totals } from "../parts";
import { Link, usePlace, view } from "../router";
import { momentOf, reference } from "../moment";
import { WriteButton } from "../writing";
import type { Branch, Diff, Tag } from "../wire";

export function Branches({ graph, actions }: ViewProps) {
  const branches = useLoad(`${graph} branches`, (signal) => get<{ items: Branch[] }>(graphPath(graph, "/branches"), signal));
  return (
    <>
      <Heading aside={<Link to={view(graph, "/tags")}>Tags</Link>}>Branches</Heading>
      {actions.has("branch_create") && <NewName graph={graph} what="branch" done={branches.reload} />}
      <Show of={branches} what="the branches">
        {({ items }) => (
          <table class="compact">
            <thead>
              <tr>
                {["branch", "from", "head", "beside main", ""].map((title) => (
                  <th scope="col">{title}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {items.map((branch) => (
                <tr>
                  <th scope="row">
                    <Link to={view(graph, "", { branch: branch.name === "main" ? null : branch.name, at: null })}>{branch.name}</Link> {branch.protected && <span class="name">protected</span>}
                  </th>
                  <td>
                    {branch.parent ?? ""} {branch.created_at && <Time time={branch.created_at} />}
                  </td>
                  <td>{branch.head && <Id id={branch.head} />}</td>
                  <td>{branch.name !== "main" && <Beside graph={graph} branch={branch.name} />}</td>
                  <td>
                    {branch.name !== "main" && <Link to={view(graph, `/review/${branch.name.split("/").map(encodeURIComponent).join("/")}`, { branch: null, at: null })}>Review</Link>}{" "}
                    {branch.name !== "main" && !branch.protected && actions.has("branch_delete") && <Delete what={branch.name} url={graphPath(graph, `/branches/${branch.name.split("/").map(encodeURIComponent).join("/")}`)} done={branches.reload} />}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Show>
    </>
  );
}

function Beside({ graph, branch }: { readonly graph: string; readonly branch: string }) {
  const diff = useLoad(`${graph} ${branch}`, (signal) => get<Diff>(path(graphPath(graph, "/diff"), { a: "main", b: branch, view: "summary" }), signal));
  return diff.data ? <Counts {...totals(diff.data.summary)} /> : null;
}

export function Tags({ graph, actions }: ViewProps) {
  const tags = useLoad(`${graph} tags`, (signal) => get<{ tags: Tag[] }>(graphPath(graph, "/tags"), signal));
  return (
    <>
      <Heading aside={<Link to={view(graph, "/branches")}>Branches</Link>}>Tags</Heading>
      {actions.has("tag") && <NewName graph={graph} what="tag" done={tags.reload} />}
      <Show of={tags} what="the tags">
        {({ tags: items }) =>
          items.length === 0 ? (
            <Empty command="omnigraph tag create v1">A tag names a commit, and keeps it.</Empty>
          ) : (
            <table class="compact">
              <tbody>
                {items.map((tag) => (
                  <tr>
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
                    <td>{actions.has("tag") && <Delete what={tag.name} url={graphPath(graph, `/tags/${encodeURIComponent(tag.name)}`)} done={tags.reload} />}</td>
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
  return (
    <p class="form">
      <label>
        New {what} at {reference(moment)} <input value={name} placeholder={what === "branch" ? "review/june" : "v1"} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <WriteButton
        label={`Create the ${what}`}
        disabled={name.trim() === ""}
        run={() => post(graphPath(graph, what === "branch" ? "/branches" : "/tags"), body)}
        done={() => {
          setName("");
          done();
        }}
      />
    </p>
  );
}

function Delete({ what, url, done }: { readonly what: string; readonly url: string; readonly done: () => void }) {
  const [asked, setAsked] = useState(false);
  if (!asked) {
    return (
      <button class="quiet" onClick={() => setAsked(true)} aria-label={`Delete ${what}`}>
        Delete…
      </button>
    );
  }
  return <WriteButton label={`Delete ${what}`} run={() => remove(url)} done={done} />;
}
