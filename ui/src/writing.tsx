/** Writes: a key that makes a repeated request safe, and a button that is locked while it runs. */

import { useState } from "preact/hooks";
import { Failure } from "./loading";

/** A key for one intended write. Sent again, it gives the same answer instead of a second commit. */
export function newKey(): string {
  return crypto.randomUUID();
}

interface WriteButtonProps<T> {
  readonly label: string;
  readonly run: () => Promise<T>;
  readonly done: (answer: T) => void;
  readonly disabled?: boolean;
}

export function WriteButton<T>({ label, run, done, disabled }: WriteButtonProps<T>) {
  const [isRunning, setRunning] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const press = async () => {
    setRunning(true);
    setError(null);
    try {
      done(await run());
    } catch (failed) {
      setError(failed as Error);
    } finally {
      setRunning(false);
    }
  };
  return (
    <>
      <button class="primary" disabled={isRunning || disabled} onClick={() => void press()}>
        {isRunning ? "Working…" : label}
      </button>
      {error && <Failure error={error} />}
    </>
  );
}
