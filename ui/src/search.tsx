/** The search box: keys of entities, names of types and stored queries, commits. */

import { useState } from "preact/hooks";
import { get, graphPath, path } from "./api";
import { titleOf } from "./format";
import { Id, TypeName, entityPath } from "./parts";
import { navigate, view } from "./router";
import type { Catalog, Commit, QueryResult } from "./wire";

interface Found {
  readonly group: string;
  readonly key: string;
  readonly shown: preact.ComponentChild;
  readonly url: string;
}

const MOST = 10;

export function Search({ graph }: { readonly graph: string }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<readonly Found[] | null>(null);
  const [selected, setSelected] = useState(0);
  const close = () => setFound(null);
  const search = async (words: string) => {
    setText(words);
    setSelected(0);
    const wanted = words.trim();
    if (wanted.length < 2) return close();
    const results = await findAll(graph, wanted).catch(() => []);
    setFound(results);
  };
  const go = (index: number) => {
    const target = found?.[index];
    if (!target) return;
    close();
    setText("");
    navigate(target.url);
  };
  return (
    <div class="search" role="search">
      <input
        id="search"
        type="search"
        placeholder="Search  /"
        aria-label="Search"
        autocomplete="off"
        value={text}
        onInput={(event) => void search(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") close();
          else if (event.key === "Enter") go(selected);
          else if (event.key === "ArrowDown") setSelected((old) => Math.min(old + 1, (found?.length ?? 1) - 1));
          else if (event.key === "ArrowUp") setSelected((old) => Math.max(old - 1, 0));
          else return;
          event.preventDefault();
        }}
      />
      {found && (
        <ul class="results" aria-live="polite">
          {found.length === 0 && <li class="muted">nothing found</li>}
          {found.map((each, index) => (
            <li>
              <button class={index === selected ? "selected" : ""} onClick={() => go(index)}>
                <span class="muted">{each.group}</span> {each.shown}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

async function findAll(graph: string, text: string): Promise<Found[]> {
  const catalog = await get<Catalog>(path(graphPath(graph, "/schema"), { view: "catalog" }));
  const lower = text.toLowerCase();
  const types = [...catalog.nodes, ...catalog.edges]
    .filter((type) => type.name.toLowerCase().includes(lower))
    .slice(0, MOST)
    .map((type): Found => ({ group: "type", key: type.name, shown: <TypeName name={type.name} />, url: view(graph, "/explore", { type: type.name }) }));
  const [entities, commits] = await Promise.all([findEntities(graph, catalog, text), findCommits(graph, lower)]);
  return [...entities.slice(0, MOST), ...types, ...commits.slice(0, MOST)];
}

async function findEntities(graph: string, catalog: Catalog, text: string): Promise<Found[]> {
  const moment = new URLSearchParams(location.search);
  const reads = catalog.nodes.map(async (type) => {
    const answer = await get<QueryResult>(
      path(graphPath(graph, "/rows"), {
        type: type.name,
        columns: "id",
        filter: JSON.stringify({ id: text }),
        limit: 1,
        branch: moment.get("branch"),
        at: moment.get("at"),
      }),
    ).catch(() => null);
    return (answer?.rows ?? []).map((row): Found => {
      const id = String(row["id"]);
      return {
        group: "entity",
        key: `${type.name} ${id}`,
        shown: (
          <>
            <TypeName name={type.name} /> <code>{id}</code>
          </>
        ),
        url: view(graph, entityPath("node", type.name, id)),
      };
    });
  });
  return (await Promise.all(reads)).flat();
}

async function findCommits(graph: string, text: string): Promise<Found[]> {
  const { commits } = await get<{ commits: Commit[] }>(path(graphPath(graph, "/ancestry"), { limit: 200 }));
  return commits
    .filter((commit) => commit.id.toLowerCase().endsWith(text) || commit.id.toLowerCase() === text || (commit.message ?? "").toLowerCase().includes(text))
    .map((commit) => ({
      group: "commit",
      key: commit.id,
      shown: (
        <>
          <Id id={commit.id} /> {titleOf(commit.message)}
        </>
      ),
      url: view(graph, `/commits/${commit.id}`),
    }));
}
