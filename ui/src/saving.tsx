/** Downloads: fetched whole and saved, up to a size; past it, the command that fetches the same. */

import { useState } from "preact/hooks";
import { type Options, send } from "./api";
import { download } from "./format";
import { Command, Failure } from "./loading";

const LARGEST = 64 * 1024 * 1024;

interface SaveProps {
  readonly label: string;
  readonly url: string;
  readonly options: Options;
  /** The name of the file. */
  readonly name: string;
  /** What fetches the same without a browser. */
  readonly command: string;
  readonly quiet?: boolean;
  /** What the page has already, if it is all of it. */
  readonly shown?: () => { readonly name: string; readonly text: string } | null;
}

/** A button that fetches something and saves it. Nothing that is fetched is ever shown as a page. */
export function SaveButton({ label, url, options, name, command, quiet = false, shown }: SaveProps) {
  const [error, setError] = useState<Error | null>(null);
  const [state, setState] = useState<"ready" | "running" | "too large">("ready");
  const save = async () => {
    setError(null);
    const here = shown?.();
    if (here) return download(here.name, here.text, "application/json");
    setState("running");
    try {
      const parts = await fetchWithin(url, options);
      if (parts) download(name, new Blob(parts), "application/octet-stream");
      setState(parts ? "ready" : "too large");
    } catch (failed) {
      setError(failed as Error);
      setState("ready");
    }
  };
  return (
    <>
      <button class={quiet ? "quiet" : undefined} disabled={state === "running"} onClick={() => void save()}>
        {label}
      </button>
      {error && <Failure error={error} />}
      {state === "too large" && (
        <div class="notice" role="status">
          <p>More than 64 MiB: fetch it with a command instead.</p>
          <Command text={command} />
        </div>
      )}
    </>
  );
}

/** The parts of an answer, or null if it is larger than what is saved from here. */
async function fetchWithin(url: string, options: Options): Promise<Uint8Array<ArrayBuffer>[] | null> {
  const response = await send(url, options);
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  const reader = response.body?.getReader();
  for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
    parts.push(piece.value as Uint8Array<ArrayBuffer>);
    size += piece.value.length;
    if (size > LARGEST) {
      await reader?.cancel();
      return null;
    }
  }
  return parts;
}
