/** The live feed: each commit of a branch as it comes, newest on top. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, Offline, read, routePath, send } from "../api";
import { clip, count, plural } from "../format";
import { Empty, Failure } from "../loading";
import type { ViewProps } from "../main";
import { momentOf } from "../moment";
import { CommitLine, Heading, TypeName, entityPath, nameChange } from "../parts";
import { Link, usePlace, view } from "../router";
import type { Block } from "../wire";

const RECENT = 10;
const KEPT = 200;
const SHOWN = 12;
const SIGNS = { inserted: ["+", "came"], updated: ["~", "changed"], deleted: ["−", "went"] } as const;

export function ChangeFeed({ graph }: ViewProps) {
  const { branch } = momentOf(usePlace());
  const [blocks, setBlocks] = useState<readonly Block[]>([]);
  const [state, setState] = useState<"connecting" | "live" | "waiting">("connecting");
  const [error, setError] = useState<Error | null>(null);
  const [paused, setPaused] = useState<readonly Block[] | null>(null);
  const holds = useRef(false);
  holds.current = paused !== null;
  useEffect(() => {
    const controller = new AbortController();
    setBlocks([]);
    setError(null);
    const add = (block: Block) => {
      const put = (old: readonly Block[]) => (old.some((each) => each.commit.id === block.commit.id) ? old : [block, ...old].slice(0, KEPT));
      if (holds.current) setPaused((old) => put(old ?? []));
      else setBlocks(put);
    };
    void follow(graph, branch, controller.signal, add, setState).catch((failed: Error) => !controller.signal.aborted && setError(failed));
    return () => controller.abort();
  }, [graph, branch]);
  const resume = () => {
    setBlocks((old) => [...(paused ?? []), ...old].slice(0, KEPT));
    setPaused(null);
  };
  return (
    <>
      <Heading
        aside={
          <>
            <span class="muted" role="status">
              {state === "live" ? `following ${branch}` : state === "waiting" ? "the server is away; trying again" : "connecting"}
            </span>
            {paused === null ? <button onClick={() => setPaused([])}>Pause</button> : <button onClick={resume}>Go on ({plural(paused.length, "new commit")})</button>}
          </>
        }
      >
        Changes
      </Heading>
      {error && <Failure error={error} />}
      {blocks.length === 0 && !error && state === "live" && <Empty>Commits to {branch} show here as they are made.</Empty>}
      <ol class="rows feed" aria-live="polite" data-commits={blocks.map((block) => block.commit.id).join(" ")}>
        {blocks.map((block) => (
          <li key={block.commit.id}>
            <CommitLine graph={graph} commit={block.commit} />
            <span class="chips">
              {block.changes.slice(0, SHOWN).map((change) => (
                <Link class={`chip ${SIGNS[change.op][1]}`} title={SIGNS[change.op][1]} to={view(graph, entityPath(change.kind, change.type, change.id), { at: change.op === "deleted" ? (block.commit.parents[0] ?? null) : block.commit.id })}>
                  {SIGNS[change.op][0]} <TypeName name={change.type} /> {clip(nameChange(change), 60)}
                </Link>
              ))}
              {block.changes.length > SHOWN && <Link to={view(graph, `/commits/${block.commit.id}`)}>and {count(block.changes.length - SHOWN)} others</Link>}
            </span>
          </li>
        ))}
      </ol>
      {blocks.length === KEPT && (
        <p class="muted">
          The newest {KEPT} are shown. <Link to={view(graph, "/commits")}>All commits</Link>
        </p>
      )}
    </>
  );
}

/** Follow a branch until the signal ends it. A cut or a drained server is resumed at the last cursor. */
async function follow(graph: string, branch: string, signal: AbortSignal, add: (block: Block) => void, tell: (state: "live" | "waiting") => void): Promise<void> {
  const { commits } = await read(graph, "/commits", { branch, limit: RECENT + 1 }, signal);
  const first = commits[RECENT];
  let cursor: string | null = null;
  let wait = 1000;
  while (!signal.aborted) {
    try {
      const url = routePath(graph, "/changes", cursor === null ? { branch, start: first ? `after:${first.id}` : "beginning" } : { branch, cursor });
      const response = await send(url, { signal, headers: { Accept: "text/event-stream" } });
      tell("live");
      wait = 1000;
      for await (const event of readEvents(response)) {
        cursor = event.id ?? cursor;
        if (event.name === "block") add(JSON.parse(event.data) as Block);
        if (event.name === "bye") break;
      }
    } catch (error) {
      if (signal.aborted) return;
      const isAway = error instanceof Offline || !(error instanceof ApiError) || error.status === 503;
      if (!isAway) throw error;
    }
    if (signal.aborted) return;
    tell("waiting");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 30_000);
  }
}

interface ServerEvent {
  readonly name: string;
  readonly id: string | null;
  readonly data: string;
}

/** The events of a stream. ``EventSource`` cannot send a token, so they are read here. */
async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) return;
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const event: Record<string, string> = {};
      for (const line of text.slice(0, end).split("\n")) {
        const colon = line.indexOf(":");
        if (colon > 0) event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
      text = text.slice(end + 2);
      if (event["event"]) yield { name: event["event"], id: event["id"] ?? null, data: event["data"] ?? "" };
    }
  }
}
