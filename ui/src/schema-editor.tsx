/** A schema beside another one: what was taken away and added is marked in the text, which can be written in. */

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching } from "@codemirror/language";
import { lintGutter, linter } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import { toDiagnostics } from "./diagnostics";
import { schemaLanguage, trustStyles } from "./languages";
import type { Problem } from "./wire";

interface SchemaEditorProps {
  readonly label: string;
  /** The text to begin with. */
  readonly text: string;
  /** The text that it is compared with. */
  readonly original: string;
  /** What happens when it is written in; without it, it is only read. */
  readonly change?: (text: string) => void;
  readonly lint?: (text: string) => Promise<readonly Problem[]>;
}

export function SchemaEditor({ label, text, original, change, lint }: SchemaEditorProps) {
  const holder = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!holder.current) return;
    const writing: Extension[] = change
      ? [
          history(),
          keymap.of([...defaultKeymap, ...historyKeymap]),
          EditorView.updateListener.of((update) => update.docChanged && change(update.state.doc.toString())),
        ]
      : [EditorState.readOnly.of(true)];
    const checking: Extension[] = lint ? [linter(async (view) => toDiagnostics(view.state.doc, await lint(view.state.doc.toString()).catch(() => [])), { delay: 250 }), lintGutter()] : [];
    const editor = new EditorView({
      parent: holder.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          trustStyles(),
          EditorView.contentAttributes.of({ "aria-label": label }),
          lineNumbers(),
          bracketMatching(),
          schemaLanguage,
          unifiedMergeView({ original, mergeControls: false, gutter: true, ...(change ? {} : { collapseUnchanged: { margin: 3, minSize: 6 } }) }),
          ...writing,
          ...checking,
        ],
      }),
    });
    return () => editor.destroy();
  }, []);
  return <div class="editor" ref={holder} />;
}
