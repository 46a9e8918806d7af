/** The editor of queries: colours, completion from the schema, and problems under the words they are about. */

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { type FindValues, complete } from "./completion";
import { toDiagnostics } from "./diagnostics";
import { queryLanguage, trustStyles } from "./languages";
import type { Catalog, Problem } from "./wire";

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
  readonly findValues: FindValues;
}

export function Editor(props: EditorProps) {
  const holder = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView | null>(null);
  const latest = useRef(props);
  latest.current = props;
  useEffect(() => {
    if (!holder.current) return;
    editor.current = new EditorView({
      parent: holder.current,
      state: EditorState.create({
        doc: latest.current.given.text,
        extensions: [
          trustStyles(),
          EditorView.contentAttributes.of({ "aria-label": "Query" }),
          keymap.of([{ key: "Mod-Enter", run: () => (latest.current.run(), true) }]),
          lineNumbers(),
          history(),
          bracketMatching(),
          closeBrackets(),
          queryLanguage,
          autocompletion({ override: [(context) => complete(context, latest.current.catalog, latest.current.findValues)] }),
          linter(async (view) => toDiagnostics(view.state.doc, await latest.current.lint().catch(() => [])), { delay: 250 }),
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
