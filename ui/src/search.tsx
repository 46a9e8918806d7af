/** The search box: keys of entities, names of types and stored queries, commits. */

import { useRef, useState } from "preact/hooks";
import { call, read, readCatalog } from "./api";
import { returnFocus } from "./focus";
import { clip, titleOf } from "./format";
import { type Moment, momentOf } from "./moment";
import { Id, TypeName, entityPath } from "./parts";
import { navigate, view } from "./router";
import type { Catalog } from "./wire";

interface Found {
  readonly group: string;
  readonly key: string;
  readonly shown: preact.ComponentChild;
  readonly url: string;
}

const MOST = 10;
const MOST_SEARCHED = 12;
const REST_MS = 200;

export function Search({ graph }: { readonly graph: string }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<readonly Found[] | null>(null);
  const [selected, setSelected] = useState(0);
  const close = () => setFound(null);
  const running = useRef<AbortController | null>(null);
  const search = async (words: string) => {
    setText(words);
    setSelected(0);
    running.current?.abort();
    const wanted = words.trim();
    if (wanted.length < 2) return close();
    const controller = new AbortController();
    running.current = controller;
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    if (controller.signal.aborted) return;
    const results = await findAll(graph, wanted, controller.signal).catch(() => []);
    if (!controller.signal.aborted) setFound(results);
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
          if (event.key === "Escape") {
            close();
            setText("");
            returnFocus();
          }
          else if (event.key === "Enter") go(selected);
          else if (event.key === "ArrowDown") setSelected((old) => Math.min(old + 1, (found?.length ?? 1) - 1));
          else if (event.key === "ArrowUp") setSelected((old) => Math.max(old - 1, 0));
          else return;
          event.preventDefault();
        }}
      />
      {found && (
        <ul class="results" aria-live="polite" aria-label="Found">
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

/** Look everywhere at once: keys, names, words, stored queries, commits. The first ten of each kind are shown. */
async function findAll(graph: string, text: string, signal: AbortSignal): Promise<Found[]> {
  const moment = momentOf({ path: [], search: new URLSearchParams(location.search) });
  const catalog = await readCatalog(graph, moment, signal);
  const lower = text.toLowerCase();
  const types = [...catalog.nodes, ...catalog.edges]
    .filter((type) => type.name.toLowerCase().includes(lower))
    .map((type): Found => ({ group: "type", key: type.name, shown: <TypeName name={type.name} />, url: view(graph, catalog.nodes.some((each) => each.name === type.name) ? "/explore" : "/schema", { type: type.name }) }));
  const parts = await Promise.all([findKeys(graph, catalog, text, moment, signal), findWords(graph, catalog, text, moment, signal), findQueries(graph, lower, signal), findCommits(graph, lower, signal)]);
  const [keys, words, queries, commits] = parts;
  const known = new Set(keys.map((each) => each.key));
  return [keys, types, words.filter((each) => !known.has(each.key)), queries, commits].flatMap((group) => group.slice(0, MOST));
}

function toEntity(graph: string, group: string, type: string, id: string, text = ""): Found {
  const shown = (
    <>
      <TypeName name={type} /> <code>{id}</code> {text}
    </>
  );
  return { group, key: `${type} ${id}`, shown, url: view(graph, entityPath("node", type, id)) };
}

async function findKeys(graph: string, catalog: Catalog, text: string, moment: Moment, signal: AbortSignal): Promise<Found[]> {
  const reads = catalog.nodes.map(async (type) => {
    const answer = await read(graph, "/rows", { type: type.name, columns: ["id"], filter: JSON.stringify({ id: text }), limit: 1, ...moment }, signal).catch(() => null);
    return (answer?.rows ?? []).map((row) => toEntity(graph, "key", type.name, String(row["id"])));
  });
  return (await Promise.all(reads)).flat();
}

/** Full text over the indexed String properties, a query for each. */
async function findWords(graph: string, catalog: Catalog, text: string, moment: Moment, signal: AbortSignal): Promise<Found[]> {
  const searched = catalog.nodes.flatMap((type) => type.properties.filter((each) => /^String\??$/.test(each.type) && type.indexes.some((index) => index.length === 1 && index[0] === each.name)).map((each) => ({ type: type.name, property: each.name })));
  const reads = searched.slice(0, MOST_SEARCHED).map(async ({ type, property }) => {
    const query = `query search($words: String) { match { $x: ${type} search($x.${property}, $words) } return { $x.id as id, $x.${property} as text } limit ${MOST} }`;
    const answer = await call(graph, "/query", { query, params: { words: text }, ...moment }, { signal }).catch(() => null);
    return (answer?.rows ?? []).map((row) => toEntity(graph, property, type, String(row["id"]), clip(String(row["text"] ?? ""), 80)));
  });
  const found = new Map((await Promise.all(reads)).flat().map((each) => [each.key, each]));
  return [...found.values()];
}

async function findQueries(graph: string, text: string, signal: AbortSignal): Promise<Found[]> {
  const { queries } = await read(graph, "/queries", {}, signal).catch(() => ({ queries: [] }));
  return queries
    .filter((query) => `${query.name} ${query.description ?? ""}`.toLowerCase().includes(text))
    .map((query) => ({ group: "query", key: query.name, shown: <code>{query.name}</code>, url: view(graph, "/query", { stored: query.name }) }));
}

async function findCommits(graph: string, text: string, signal: AbortSignal): Promise<Found[]> {
  const { commits } = await read(graph, "/ancestry", { limit: 200 }, signal).catch(() => ({ commits: [] }));
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
