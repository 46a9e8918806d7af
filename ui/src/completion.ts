/** What can be written next in a query: types, edges, properties, values of the graph, and words of the language. */

import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { FUNCTIONS, KEYWORDS, SCALARS } from "./vocabulary";
import type { Catalog, Property } from "./wire";
import { type Slot, edgeWord, skipNamed, slotAtEnd, typeAtEnd, typeOfVariable } from "./slots";

/** Finds the values of a property that begin with a text. */
export type FindValues = (slot: Slot, prefix: string) => Promise<readonly string[]>;

const WORDS: readonly Completion[] = [
  ...KEYWORDS.map((label) => ({ label, type: "keyword" })),
  ...Object.entries(FUNCTIONS).map(([label, detail]) => ({ label, type: "function", detail, apply: `${label}(` })),
  ...SCALARS.map((label) => ({ label, type: "type" })),
];

export async function complete(context: CompletionContext, catalog: Catalog | null, findValues: FindValues): Promise<CompletionResult | null> {
  const before = context.state.sliceDoc(0, context.pos);
  if (catalog) {
    const text = /"([^"\n]*)$/.exec(before);
    const isText = text !== null && (before.slice(before.lastIndexOf("\n") + 1).match(/"/g)?.length ?? 0) % 2 === 1;
    if (isText) return completeValue(before, text, catalog, findValues);
    const accessed = /\$(\w+)\.(\w*)$/.exec(before);
    if (accessed) {
      const type = typeOfVariable(accessed[1] ?? "", context.state.doc.toString(), catalog);
      return { from: context.pos - (accessed[2]?.length ?? 0), options: toOptions(type ? type.properties : catalog.nodes.flatMap((node) => node.properties)) };
    }
    const named = /([{,]|\bwhere)\s*(\w*)$/.exec(before);
    const start = before.slice(0, before.length - (named?.[2]?.length ?? 0));
    const type = named && typeAtEnd(skipNamed(start), catalog);
    if (type && (context.explicit || named[2] !== "" || /[{,]\s$/.test(start))) {
      const ending = named[1] === "where" ? " = " : ": ";
      return { from: start.length, options: toOptions(type.properties, ending) };
    }
  }
  const word = context.matchBefore(/\w+$/);
  if (!word && !context.explicit) return null;
  const types = (catalog?.nodes ?? []).map((node) => ({ label: node.name, type: "class" }));
  const edges = (catalog?.edges ?? []).map((edge) => ({ label: edgeWord(edge.name), type: "function", detail: `${edge.from} -> ${edge.to}` }));
  return { from: word?.from ?? context.pos, options: [...types, ...edges, ...WORDS] };
}

function toOptions(properties: readonly Property[], ending = ""): Completion[] {
  const seen = new Map(properties.map((each) => [each.name, each]));
  return [...seen.values()].map((each) => ({ label: each.name, type: "property", detail: each.type, apply: each.name + ending }));
}

async function completeValue(before: string, text: RegExpExecArray, catalog: Catalog, findValues: FindValues): Promise<CompletionResult | null> {
  const slot = slotAtEnd(before.slice(0, text.index), catalog);
  if (!slot) return null;
  const values = await findValues(slot, text[1] ?? "").catch(() => []);
  return { from: text.index + 1, options: values.map((label) => ({ label, type: "text" })), filter: false };
}
