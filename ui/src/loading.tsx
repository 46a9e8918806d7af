/** Reading from the server: what is shown while it takes, when it fails, and when the page moves on. */

import type { ComponentChildren } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, Offline } from "./api";
import { Link, view } from "./router";
import type { ErrorBody } from "./wire";

export interface Loaded<T> {
  readonly data: T | null;
  readonly error: Error | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
  readonly cancel: () => void;
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
  const cancel = useCallback(() => {
    running.current?.abort();
    setState((old) => ({ ...old, isLoading: false }));
  }, []);
  return { ...state, reload, cancel };
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
  const body: ErrorBody | null = error instanceof ApiError ? error.body : null;
  const status = error instanceof ApiError ? error.status : 0;
  const kind = status === 403 ? "forbidden" : status === 410 ? "gone" : error instanceof Offline ? "offline" : "error";
  return (
    <div class={`notice ${kind}`} role="alert">
      <strong>{headings[kind]}</strong>
      <p>{error.message}</p>
      {body?.hint && <p class="muted">{body.hint}</p>}
      {body?.problems && body.problems.length > 0 && (
        <ul class="plain">
          {body.problems.map((problem) => (
            <li>
              <code>{problem.position ? `${problem.position.line}:${problem.position.column} ` : ""}</code>
              <code>{problem.code}</code> {problem.message} {problem.hint && <span class="muted">({problem.hint})</span>}
            </li>
          ))}
        </ul>
      )}
      {body?.violations && body.violations.length > 0 && (
        <ul class="plain">
          {body.violations.slice(0, 100).map((violation) => (
            <li>
              <code>{String(violation["place"] ?? violation["line"] ?? "")}</code> {String(violation["message"] ?? violation["rule"] ?? JSON.stringify(violation))}
            </li>
          ))}
        </ul>
      )}
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

const headings = {
  forbidden: "You may not do this",
  gone: "This moment can no longer be read",
  offline: "The server does not answer",
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
    <button class="quiet" onClick={copy}>
      {done ? "Copied" : label}
    </button>
  );
}

export function NotFound({ graph }: { readonly graph?: string }) {
  return (
    <div class="notice">
      <strong>There is no such page</strong>
      <p>{graph ? <Link to={view(graph, "")}>Go to {graph}</Link> : <Link to="/">Go to the graphs</Link>}</p>
    </div>
  );
}
