/** The two languages in an editor: which words have which colour. */

import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { FUNCTIONS, KEYWORDS } from "./vocabulary";

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, class: "tok-keyword" },
  { tag: tags.typeName, class: "tok-type" },
  { tag: tags.variableName, class: "tok-variable" },
  { tag: tags.string, class: "tok-string" },
  { tag: tags.number, class: "tok-number" },
  { tag: tags.comment, class: "tok-comment" },
  { tag: tags.meta, class: "tok-meta" },
]);

const SCHEMA_WORDS: ReadonlySet<string> = new Set(["interface", "node", "edge", "implements", "enum", "true", "false"]);
const QUERY_WORDS: ReadonlySet<string> = new Set([...KEYWORDS, ...Object.keys(FUNCTIONS)]);

/** Tell words, strings, numbers and names apart. Both languages are written alike; only their words differ. */
function tell(words: ReadonlySet<string>): Extension {
  const language = StreamLanguage.define<{ inComment: boolean }>({
    startState: () => ({ inComment: false }),
    token: (stream, state) => {
      if (state.inComment || stream.match("/*")) {
        state.inComment = !stream.match(/^.*?\*\//);
        if (state.inComment) stream.skipToEnd();
        return "comment";
      }
      if (stream.match(/^\/\/.*/)) return "comment";
      if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
      if (stream.match(/^\$[A-Za-z_]\w*/)) return "variableName";
      if (stream.match(/^-?\d+(?:\.\d+)?/)) return "number";
      if (stream.match(/^@\w+/)) return "meta";
      if (stream.match(/^[A-Z]\w*/)) return "typeName";
      const word = stream.match(/^[a-z_]\w*/) as RegExpMatchArray | null;
      if (word) return words.has(word[0]) ? "keyword" : "propertyName";
      stream.next();
      return null;
    },
  });
  return [language, syntaxHighlighting(COLOURS)];
}

export const queryLanguage = tell(QUERY_WORDS);
export const schemaLanguage = tell(SCHEMA_WORDS);

/** The styles of an editor are only taken with the nonce of the page; else its layout is gone without an error. */
export function trustStyles(): Extension {
  return EditorView.cspNonce.of(document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "");
}
