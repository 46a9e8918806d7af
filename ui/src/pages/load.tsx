/** Load a file of records: check first, then onto a branch. */

import { useState } from "preact/hooks";
import { graphPath, path, post } from "../api";
import { plural } from "../format";
import { Failure } from "../loading";
import type { ViewProps } from "../main";
import { Heading } from "../parts";
import { Link, view } from "../router";
import { WriteButton, newKey } from "../writing";
import { sum } from "./graphs";

interface LoadAnswer {
  readonly commit: string | null;
  readonly nodes: Record<string, number>;
  readonly edges: Record<string, number>;
}

export function LoadView({ graph, actions }: ViewProps) {
  const [file, setFile] = useState<File | null>(null);
  const [branch, setBranch] = useState(`load/${new Date().toISOString().slice(0, 10)}`);
  const [checked, setChecked] = useState<LoadAnswer | null>(null);
  const [loaded, setLoaded] = useState<LoadAnswer | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [key, setKey] = useState(newKey);
  if (!actions.has("change")) return <Heading>You may not load into {graph}</Heading>;
  const upload = (check: boolean) =>
    post<LoadAnswer>(path(graphPath(graph, "/load"), { branch: check ? "main" : branch, from: check ? null : "main", mode: "merge", check }), file, {
      headers: { "Content-Type": "application/x-ndjson", ...(check ? {} : { "Idempotency-Key": key }) },
    });
  const choose = async (chosen: File | null) => {
    setFile(chosen);
    setChecked(null);
    setLoaded(null);
    setError(null);
    setKey(newKey());
  };
  const check = async () => {
    setError(null);
    try {
      setChecked(await upload(true));
    } catch (failed) {
      setError(failed as Error);
    }
  };
  return (
    <>
      <Heading>Load</Heading>
      <p>A file of records, one JSON object on each line. It is checked first, and lands on a branch that you review.</p>
      <div class="form">
        <label>
          File <input type="file" accept=".jsonl,.ndjson,.json" onChange={(event) => void choose(event.currentTarget.files?.[0] ?? null)} />
        </label>
        <button disabled={file === null} onClick={() => void check()}>
          Check
        </button>
      </div>
      {error && <Failure error={error} />}
      {checked && (
        <section class="panel">
          <p>
            Nothing is wrong with it: {plural(sum(checked.nodes), "node")}, {plural(sum(checked.edges), "edge")}.
          </p>
          <div class="form">
            <label>
              Onto the branch <input value={branch} onInput={(event) => setBranch(event.currentTarget.value)} />
            </label>
            <WriteButton label="Load" disabled={branch.trim() === "" || loaded !== null} run={() => upload(false)} done={setLoaded} />
          </div>
        </section>
      )}
      {loaded && (
        <p class="notice good" role="status">
          Loaded. <Link to={view(graph, `/review/${branch.split("/").map(encodeURIComponent).join("/")}`, { branch: null, at: null })}>Review {branch}</Link>
        </p>
      )}
    </>
  );
}
