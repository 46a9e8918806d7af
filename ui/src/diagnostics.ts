/** Problems of a text that the server found, at their places in an editor. */

import type { Diagnostic } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import type { Problem } from "./wire";

export function toDiagnostics(text: Text, problems: readonly Problem[]): Diagnostic[] {
  return problems.map((problem) => {
    const line = text.line(Math.min(Math.max(problem.position?.line ?? 1, 1), text.lines));
    const from = Math.min(line.from + Math.max((problem.position?.column ?? 1) - 1, 0), line.to);
    const to = Math.min(Math.max(line.from + (problem.position?.end_column ?? 0) - 1, from + 1), line.to);
    return { from, to: Math.max(to, from), severity: "error", message: `${problem.code ?? ""} ${problem.message}${problem.hint ? `\n${problem.hint}` : ""}` };
  });
}
