/** Writes: a key that makes a repeated request safe, a locked button, and what happened when the connection was cut. */

import { useState } from "preact/hooks";
import { Offline, read } from "./api";
import { Copy, Failure } from "./loading";
import type { Commit } from "./wire";

/** A key for one intended write. Sent again, it gives the same answer instead of a second commit. */
export function newKey(): string {
  return crypto.randomUUID();
}

/** The name of the event that says that this page wrote something. */
export const WRITTEN = "omnigraph-written";

/** Where to ask whether a write arrived. */
export interface KeyedWrite {
  readonly graph: string;
  readonly branch: string;
  readonly key: string;
}

interface WriteButtonProps<T> {
  readonly label: string;
  /** Sends the write, under a key that is the same until it is done. A form whose write makes a commit has its own. */
  readonly run: (key: string) => Promise<T>;
  readonly done: (answer: T) => void;
  readonly disabled?: boolean;
  /** What does the same in a terminal. */
  readonly command?: string | undefined;
  /** Not the main thing to do here. */
  readonly plain?: boolean;
  readonly asks?: KeyedWrite;
  /** Called when a write whose answer was lost turns out to be there. */
  readonly found?: (commit: Commit) => void;
}

type Fate = { readonly kind: "asking" } | { readonly kind: "written"; readonly commit: Commit } | { readonly kind: "lost" };

export function WriteButton<T>({ label, run, done, disabled, command, plain, asks, found }: WriteButtonProps<T>) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [fate, setFate] = useState<Fate | null>(null);
  const [key, setKey] = useState(newKey);
  const press = async () => {
    setRunning(true);
    setError(null);
    setFate(null);
    const cut = () => setFate({ kind: "asking" });
    try {
      const answer = await (asks ? run(key) : repeat(() => run(key), cut));
      setFate(null);
      setKey(newKey());
      dispatchEvent(new Event(WRITTEN));
      done(answer);
    } catch (failed) {
      setFate(null);
      if (failed instanceof Offline && asks) {
        setFate({ kind: "asking" });
        const commit = await askFate(asks);
        setFate(commit ? { kind: "written", commit } : { kind: "lost" });
        if (commit) found?.(commit);
      } else {
        setKey(newKey());
        setError(failed as Error);
      }
    } finally {
      setRunning(false);
    }
  };
  return (
    <>
      <button class={plain ? undefined : "primary"} disabled={isRunning || disabled} onClick={() => void press()}>
        {isRunning ? "Working…" : label}
      </button>
      {command && !disabled && <Copy text={command} label="Copy as command" />}
      {error && <Failure error={error} />}
      {fate && <FateNotice fate={fate} />}
    </>
  );
}

function FateNotice({ fate }: { readonly fate: Fate }) {
  if (fate.kind === "asking") {
    return (
      <div class="notice offline" role="status">
        <strong>The connection was cut</strong>
        <p>Asking the server whether the write arrived, until it answers.</p>
      </div>
    );
  }
  if (fate.kind === "lost") {
    return (
      <div class="notice error" role="alert">
        <strong>Nothing was written</strong>
        <p>The connection was cut before the write was done. It can be tried again.</p>
      </div>
    );
  }
  return (
    <div class="notice good" role="status">
      <strong>It was written</strong>
      <p>
        The connection was cut after the write: commit <code>{fate.commit.id}</code>.
      </p>
    </div>
  );
}

/** Send a write that makes no commit until it is answered: under its key the server does it once. */
async function repeat<T>(send: () => Promise<T>, cut: () => void): Promise<T> {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 30_000)) {
    try {
      return await send();
    } catch (error) {
      if (!(error instanceof Offline) && !isBusy(error)) throw error;
      cut();
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

/** The header of a write under a key. */
export function keyed(key: string): { readonly headers: Record<string, string> } {
  return { headers: { "Idempotency-Key": key } };
}

/** Ask by key, after 1, 2, 4 ... 30 seconds, until the server answers. A branch that is not there has no such commit. */
async function askFate({ graph, branch, key }: KeyedWrite): Promise<Commit | null> {
  for (let wait = 1000; ; wait = Math.min(wait * 2, 30_000)) {
    try {
      const { commits } = await read(graph, "/commits", { branch, key, limit: 1 });
      return commits[0] ?? null;
    } catch (error) {
      if (!(error instanceof Offline) && !isBusy(error)) return null;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

function isBusy(error: unknown): boolean {
  return (error as { status?: number }).status === 503;
}
