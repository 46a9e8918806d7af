/** Load a file of records: check first, then onto a branch. */

import { useState } from "preact/hooks";
import { branchPath, graphPath, path, post, read } from "../api";
import { commandOf } from "../commands";
import { count, plural } from "../format";
import { Failure, useLoad } from "../loading";
import type { ViewProps } from "../main";
import { Heading, TypeName } from "../parts";
import { Link, view } from "../router";
import { WriteButton, newKey } from "../writing";
import { sum } from "./graphs";
import type { LoadAnswer } from "../wire";

const MODES = [
  ["merge", "change what is there, add what is not"],
  ["append", "add only; what is there already is an error"],
  ["update", "change only; what is not there is an error"],
] as const;

export function LoadView({ graph, actions }: ViewProps) {
  const [file, setFile] = useState<File | null>(null);
  const [branch, setBranch] = useState(`load/${new Date().toISOString().slice(0, 10)}`);
  const [mode, setMode] = useState<string>("merge");
  const [checked, setChecked] = useState<LoadAnswer | null>(null);
  const [loaded, setLoaded] = useState<LoadAnswer | "found" | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [isChecking, setChecking] = useState(false);
  const [isOver, setOver] = useState(false);
  const [key, setKey] = useState(newKey);
  const branches = useLoad(`${graph} branches`, (signal) => read(graph, "/branches", {}, signal));
  if (!actions.has("change")) {
    return (
      <>
        <Heading>Load</Heading>
        <p class="notice forbidden">You may read {graph}, not load into it. The page Access says why.</p>
      </>
    );
  }
  const isProtected = branches.data?.items.some((each) => each.name === branch.trim() && each.protected) ?? false;
  const upload = () =>
    post<LoadAnswer>(path(graphPath(graph, "/load"), { branch: branch.trim(), from: "main", mode, message: `load ${file?.name ?? ""}` }), file, {
      headers: { "Content-Type": "application/x-ndjson", "Idempotency-Key": key },
    });
  const choose = (chosen: File | null) => {
    setFile(chosen);
    setChecked(null);
    setLoaded(null);
    setError(null);
    setKey(newKey());
    if (chosen) void check(chosen);
  };
  const check = async (chosen = file) => {
    if (!chosen) return;
    setError(null);
    setChecked(null);
    setChecking(true);
    try {
      setChecked(
        await post<LoadAnswer>(path(graphPath(graph, "/load"), { branch: "main", mode, check: true }), chosen, { headers: { "Content-Type": "application/x-ndjson" } }),
      );
    } catch (failed) {
      setError(failed as Error);
    } finally {
      setChecking(false);
    }
  };
  return (
    <>
      <Heading>Load</Heading>
      <p>A file of records, one JSON object on each line. It is checked first, and lands on a branch that you review.</p>
      <div
        class={`drop ${isOver ? "over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          choose(event.dataTransfer?.files[0] ?? null);
        }}
      >
        <label>
          File <input type="file" accept=".jsonl,.ndjson,.json" onChange={(event) => choose(event.currentTarget.files?.[0] ?? null)} />
        </label>
        <span class="muted">or drop one here</span>
        <label>
          Mode{" "}
          <select value={mode} onChange={(event) => (setMode(event.currentTarget.value), setChecked(null))}>
            {MODES.map(([name, meaning]) => (
              <option value={name} title={meaning}>
                {name}: {meaning}
              </option>
            ))}
          </select>
        </label>
        <button disabled={file === null || isChecking} onClick={() => void check()}>
          {isChecking ? "Checking…" : "Check"}
        </button>
      </div>
      {error && (
        <>
          <Failure error={error} />
          <p>Nothing was written.</p>
        </>
      )}
      {checked && (
        <section class="panel" aria-label="Checked">
          <p class="came">
            ✓ Nothing is wrong with it: {plural(sum(checked.nodes), "node")}, {plural(sum(checked.edges), "edge")}.
          </p>
          <ul class="types">
            {Object.entries({ ...checked.nodes, ...checked.edges }).map(([type, rows]) => (
              <li>
                <TypeName name={type} /> {count(rows)}
              </li>
            ))}
          </ul>
          <div class="form">
            <label>
              Onto the branch <input value={branch} onInput={(event) => setBranch(event.currentTarget.value)} />
            </label>
            <WriteButton label="Load" disabled={branch.trim() === "" || isProtected || loaded !== null} command={commandOf(graph, "load", file?.name, "--mode", mode, "--branch", branch.trim(), "--from", "main", "-m", `load ${file?.name ?? ""}`)} run={upload} done={setLoaded} asks={{ graph, branch: branch.trim(), key }} found={() => setLoaded("found")} />
            {isProtected && <span class="went">{branch} is protected: load onto a branch and review it.</span>}
          </div>
        </section>
      )}
      {loaded && (
        <p class="notice good" role="status">
          {loaded === "found" ? "It was loaded before the connection was cut." : loaded.commit ? `Loaded: ${plural(sum(loaded.nodes), "node")}, ${plural(sum(loaded.edges), "edge")}.` : "All of it was there already: no commit was made."}{" "}
          <Link to={view(graph, `/review/${branchPath(branch.trim())}`, { branch: null, at: null })}>Review {branch}</Link>
        </p>
      )}
    </>
  );
}
