/** The editor of queries: colours, completion from the schema, and problems under the words they are about. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import type { Catalog, Problem } from "./wire";

const KEYWORDS = new Set(
  "query match return order by limit offset distinct having optional exists not or and union insert update delete set where with as asc desc in is null true false case when then else end count sum avg min max collect shortest path search nearest bm25 rrf fuzzy match_text contains starts_with ends_with".split(" "),
);

const language = StreamLanguage.define<null>({
  startState: () => null,
  token: (stream) => {
    if (stream.match(/^\/\/.*/)) return "comment";
    if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
    if (stream.match(/^\$[A-Za-z_]\w*/)) return "variableName";
    if (stream.match(/^-?\d+(?:\.\d+)?/)) return "number";
    if (stream.match(/^@\w+/)) return "meta";
    if (stream.match(/^[A-Z]\w*/)) return "typeName";
    const word = stream.match(/^[a-z_]\w*/) as RegExpMatchArray | null;
    if (word) return KEYWORDS.has(word[0]) ? "keyword" : "propertyName";
    stream.next();
    return null;
  },
});

const colours = HighlightStyle.define([
  { tag: tags.keyword, class: "tok-keyword" },
  { tag: tags.typeName, class: "tok-type" },
  { tag: tags.variableName, class: "tok-variable" },
  { tag: tags.string, class: "tok-string" },
  { tag: tags.number, class: "tok-number" },
  { tag: tags.comment, class: "tok-comment" },
  { tag: tags.meta, class: "tok-meta" },
]);

/** A text that was put into the editor from outside. What is typed goes out only: a round trip could undo keys. */
export interface Given {
  readonly text: string;
}

interface EditorProps {
  readonly given: Given;
  readonly change: (text: string) => void;
  readonly run: () => void;
  readonly lint: () => Promise<readonly Problem[]>;
  readonly catalog: Catalog | null;
}

export function Editor(props: EditorProps) {
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    if (!holder.current) return;
    const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
    editor.current = new EditorView({
      parent: holder.current,
      state: EditorState.create({
        doc: latest.current.given.text,
        extensions: [
          EditorView.cspNonce.of(nonce),
          EditorView.contentAttributes.of({ "aria-label": "Query" }),
          keymap.of([{ key: "Mod-Enter", run: () => (latest.current.run(), true) }]),
          lineNumbers(),
          history(),
          bracketMatching(),
          closeBrackets(),
          language,
          syntaxHighlighting(colours),
          autocompletion({ override: [(context) => complete(context, latest.current.catalog)] }),
          linter(async (view) => toDiagnostics(view, await latest.current.lint().catch(() => [])), { delay: 250 }),
          lintGutter(),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) latest.current.change(update.state.doc.toString());
          }),
        ],
      }),
    });
    return () => editor.current?.destroy();
  }, []);
  useEffect(() => {
    const view = editor.current;
    if (view && view.state.doc.toString() !== props.given.text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: props.given.text } });
  }, [props.given]);
  return <div class="editor" ref={holder} />;
}

/** Problems of the checker, at their places. */
function toDiagnostics(view: EditorView, problems: readonly Problem[]): Diagnostic[] {
  return problems.map((problem) => {
    const lines = view.state.doc.lines;
    const line = view.state.doc.line(Math.min(Math.max(problem.position?.line ?? 1, 1), lines));
    const from = Math.min(line.from + Math.max((problem.position?.column ?? 1) - 1, 0), line.to);
    const to = Math.min(Math.max(line.from + (problem.position?.end_column ?? 0) - 1, from + 1), line.to);
    return { from, to: Math.max(to, from), severity: "error", message: `${problem.code} ${problem.message}${problem.hint ? `\n${problem.hint}` : ""}` };
  });
}

/** Offer types, edges, properties of the type of a variable, and words of the language. */
function complete(context: CompletionContext, catalog: Catalog | null) {
  const property = context.matchBefore(/\$(\w+)\.(\w*)$/);
  if (property && catalog) {
    const variable = /\$(\w+)\./.exec(property.text)?.[1] ?? "";
    const type = new RegExp(`\\$${variable}\\s*:\\s*(\\w+)`).exec(context.state.doc.toString())?.[1];
    const known = catalog.nodes.find((node) => node.name === type);
    const properties = known ? known.properties : catalog.nodes.flatMap((node) => node.properties);
    const seen = new Map(properties.map((each) => [each.name, each]));
    return { from: property.from + property.text.indexOf(".") + 1, options: [...seen.values()].map((each) => ({ label: each.name, type: "property", detail: each.type })) };
  }
  const word = context.matchBefore(/\w+$/);
  if (!word && !context.explicit) return null;
  const from = word?.from ?? context.pos;
  const types = (catalog?.nodes ?? []).map((node) => ({ label: node.name, type: "class" }));
  const edges = (catalog?.edges ?? []).map((edge) => ({ label: `${edge.name[0]?.toLowerCase() ?? ""}${edge.name.slice(1)}`, type: "function", detail: `${edge.from} -> ${edge.to}` }));
  return { from, options: [...types, ...edges, ...[...KEYWORDS].map((label) => ({ label, type: "keyword" }))] };
}
