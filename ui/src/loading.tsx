/** Reading from the server: what is shown while it takes, when it fails, and when the page moves on. */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, Offline, read } from "./api";
import { FOLD, count, exactTime, titleOf } from "./format";
import { Link, usePlace, view } from "./router";
import type { Json } from "./wire";

export interface Loaded<T> {
  readonly data: T | null;
  readonly error: Error | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
  readonly cancel: () => void;
}

const readers = new Set<() => void>();

/** Read everything on the page anew: the reader asked for what came since. */
export function readAnew(): void {
  for (const reader of readers) reader();
}

/** Read again whenever ``key`` changes. What was read before stays until there is something newer. */
export function useLoad<T>(key: string | null, read: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; error: Error | null; isLoading: boolean }>({
    data: null,
    error: null,
    isLoading: key !== null,
  });
  const [round, setRound] = useState(0);
  const running = useRef<AbortController | null>(null);
  useEffect(() => {
    if (key === null) return setState({ data: null, error: null, isLoading: false });
    const controller = new AbortController();
    running.current = controller;
    setState((old) => ({ ...old, isLoading: true }));
    let again: number | undefined;
    let wait = 1000;
    const attempt = () => {
      read(controller.signal).then(
        (data) => !controller.signal.aborted && setState({ data, error: null, isLoading: false }),
        (error: Error) => {
          if (controller.signal.aborted) return;
          setState((old) => ({ data: old.data, error, isLoading: false }));
          if (error instanceof Offline) {
            again = window.setTimeout(attempt, wait);
            wait = Math.min(wait * 2, 30_000);
          }
        },
      );
    };
    attempt();
    return () => {
      controller.abort();
      window.clearTimeout(again);
    };
  }, [key, round]);
  const reload = useCallback(() => setRound((old) => old + 1), []);
  useEffect(() => {
    readers.add(reload);
    return () => void readers.delete(reload);
  }, []);
  const cancel = useCallback(() => {
    running.current?.abort();
    setState((old) => ({ ...old, isLoading: false }));
  }, []);
  return { ...state, reload, cancel };
}

export interface Pages<T, P> {
  readonly first: Loaded<{ readonly items: readonly T[]; readonly next: P | null }>;
  readonly items: readonly T[];
  /** Read the page after those that are shown; null if there is none. */
  readonly readMore: (() => void) | null;
  readonly error: Error | null;
}

/** A list that is read page by page: the first at once, each other one when it is asked for. */
export function usePages<T, P>(key: string | null, read: (page: P | null, signal?: AbortSignal) => Promise<{ items: readonly T[]; next: P | null }>): Pages<T, P> {
  const [more, setMore] = useState<{ readonly items: readonly T[]; readonly next: P | null } | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const first = useLoad(key, async (signal) => {
    const found = await read(null, signal);
    setMore(null);
    setError(null);
    return found;
  });
  const next = more ? more.next : (first.data?.next ?? null);
  const items = useMemo(() => [...(first.data?.items ?? []), ...(more?.items ?? [])], [first.data, more]);
  const readMore = () => {
    setError(null);
    read(next).then((found) => setMore((old) => ({ items: [...(old?.items ?? []), ...found.items], next: found.next })), setError);
  };
  return { first, items, readMore: next === null ? null : readMore, error };
}

interface ViewProps<T> {
  readonly of: Loaded<T>;
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}

/** Show what was loaded; before that a skeleton, and an error beside rows that are out of date. */
export function Show<T>({ of, what, children }: ViewProps<T>) {
  const { data, error, isLoading, reload, cancel } = of;
  return (
    <>
      {error && <Failure error={error} retry={reload} />}
      {data !== null ? (
        <div class={error ? "stale" : undefined} aria-busy={isLoading}>
          {children(data)}
        </div>
      ) : (
        isLoading && <Waiting what={what} cancel={cancel} />
      )}
    </>
  );
}

function Waiting({ what, cancel }: { readonly what: string; readonly cancel: () => void }) {
  const [step, setStep] = useState(0);
  useEffect(() => {
    const timers = [window.setTimeout(() => setStep(1), 150), window.setTimeout(() => setStep(2), 2000)];
    return () => timers.forEach(window.clearTimeout);
  }, []);
  if (step === 0) return null;
  return (
    <div class="waiting" role="status">
      <div class="skeleton" />
      <div class="skeleton short" />
      <div class="skeleton" />
      {step === 2 && (
        <p>
          Reading {what}. <button onClick={cancel}>Cancel</button>
        </p>
      )}
    </div>
  );
}

/** An error as the server said it: sentence, hint, place, request id, and what to do next. */
export function Failure({ error, retry }: { readonly error: Error; readonly retry?: () => void }) {
  const body = error instanceof ApiError ? error.body : null;
  const status = error instanceof ApiError ? error.status : 0;
  const kind = status === 403 ? "forbidden" : status === 410 ? "gone" : status === 412 ? "stale" : error instanceof Offline ? "offline" : "error";
  return (
    <div class={`notice ${kind}`} role="alert">
      <strong>{headings[kind]}</strong>
      <p>{error.message}</p>
      {body?.hint && <p class="muted">{body.hint}</p>}
      {body?.problems && body.problems.length > 0 && (
        <ul class="plain">
          {body.problems.map((problem) =>
            typeof problem === "string" ? (
              problem !== error.message && <li>{problem}</li>
            ) : (
              <li>
                <code>{problem.position ? `${problem.position.line}:${problem.position.column} ` : ""}</code>
                <code>{problem.code ?? problem.field ?? problem.parameter}</code> {problem.message} {problem.hint && <span class="muted">({problem.hint})</span>}
              </li>
            ),
          )}
        </ul>
      )}
      {body?.violations && body.violations.length > 0 && <Violations violations={body.violations} total={Number(body.details?.["count"] ?? body.violations.length)} />}
      {body?.type === "precondition_failed" && body.details && <CameBetween details={body.details} />}
      {status === 403 && <p class="muted">Whoever keeps the policy, or the tokens, of this server can allow it. The page Access says which rule decides.</p>}
      {status === 410 && <OldestMoment />}
      <p class="muted">
        {error instanceof Offline && "Trying again by itself. "}
        {body?.request_id && (
          <>
            request <code>{body.request_id}</code>{" "}
          </>
        )}
        {retry && <button onClick={retry}>Try again</button>}
      </p>
    </div>
  );
}

/** Rules that records break: where, which, and by what value. */
function Violations({ violations, total }: { readonly violations: readonly Record<string, Json>[]; readonly total: number }) {
  const text = (value: Json | undefined) => (value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value));
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <caption class="hidden">Violations</caption>
        <thead>
          <tr>
            {["line", "type", "id", "property", "rule", "value"].map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {violations.map((each) => (
            <tr title={text(each["message"])}>
              <td class="number">{text(each["line"])}</td>
              <td>{text(each["type"])}</td>
              <td>
                <code>{text(each["id"])}</code>
              </td>
              <td>{text(each["property"])}</td>
              <td>
                <code>{text(each["rule"])}</code>
              </td>
              <td>{each["value"] === null && each["property"] ? <span class="null">missing</span> : <Folded text={text(each["value"])} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {total > violations.length && <p class="muted">The first {count(violations.length)} of {count(total)}.</p>}
    </div>
  );
}

/** A text whose end is folded away if it is long. */
export function Folded({ text }: { readonly text: string }) {
  const [open, setOpen] = useState(false);
  if (text.length <= FOLD) return <>{text}</>;
  return (
    <span>
      {open ? text : `${text.slice(0, FOLD)}…`}{" "}
      <button class="quiet" onClick={() => setOpen(!open)}>
        {open ? "Fold" : `Show all ${count(text.length)} characters`}
      </button>
    </span>
  );
}

/** A write that was based on an older state: the commits that came between, and their diff. */
function CameBetween({ details }: { readonly details: Record<string, Json> }) {
  const [, graph = ""] = usePlace().path;
  const [expected, actual, branch] = [details["expected"], details["actual"], details["branch"]].map((each) => (typeof each === "string" ? each : ""));
  const between = useLoad(expected && branch ? `${graph} ${expected} ${actual ?? ""}` : null, async (signal) => {
    const { commits } = await read(graph, "/commits", { branch, limit: 50 }, signal);
    const end = commits.findIndex((commit) => commit.id === expected);
    return end < 0 ? commits : commits.slice(0, end);
  });
  if (!expected || !actual) return null;
  return (
    <div>
      <p>What came between:</p>
      <ul class="plain">
        {between.data?.map((commit) => (
          <li>
            <Link to={view(graph, `/commits/${commit.id}`)}>{titleOf(commit.message) || "no message"}</Link> <span class="muted">{commit.actor}</span>
          </li>
        ))}
      </ul>
      <p>
        <Link to={view(graph, "/diff", { a: expected, b: actual, branch: null, at: null })}>Show all that changed</Link>
      </p>
    </div>
  );
}

/** The oldest moment of the branch that can still be read. */
function OldestMoment() {
  const place = usePlace();
  const [, graph = ""] = place.path;
  const branch = place.search.get("branch") || "main";
  const oldest = useLoad(`${graph} ${branch} oldest`, async (signal) => {
    const { commits } = await read(graph, "/commits", { branch, limit: 10_000 }, signal);
    return commits.at(-1) ?? null;
  });
  if (!oldest.data) return null;
  return (
    <p>
      The oldest that can be read is of {exactTime(oldest.data.time)}: <Link to={view(graph, "", { at: oldest.data.id })}>{titleOf(oldest.data.message) || oldest.data.id}</Link>
    </p>
  );
}

const headings = {
  forbidden: "You may not do this",
  gone: "This moment can no longer be read",
  offline: "The server does not answer",
  stale: "Others were faster",
  error: "That did not work",
} as const;

interface EmptyProps {
  readonly children: ComponentChildren;
  readonly command?: string;
}

/** What would be here, and the command that makes it. */
export function Empty({ children, command }: EmptyProps) {
  return (
    <div class="empty">
      <p>{children}</p>
      {command && <Command text={command} />}
    </div>
  );
}

export function Command({ text }: { readonly text: string }) {
  return (
    <div class="command">
      <code>{text}</code>
      <Copy text={text} />
    </div>
  );
}

export function Copy({ text, label = "Copy" }: { readonly text: string; readonly label?: string }) {
  const [done, setDone] = useState(false);
  const copy = () => {
    void navigator.clipboard.writeText(text).then(() => {
      setDone(true);
      window.setTimeout(() => setDone(false), 1500);
    });
  };
  return (
    <button class="quiet" title={text.length < 1000 ? text : undefined} onClick={copy}>
      {done ? "Copied" : label}
    </button>
  );
}

export function NotFound({ graph }: { readonly graph?: string }) {
  return (
    <div class="notice">
      <h1>There is no such page</h1>
      <p>{graph ? <Link to={view(graph, "")}>Go to {graph}</Link> : <Link to="/">Go to the graphs</Link>}</p>
    </div>
  );
}
