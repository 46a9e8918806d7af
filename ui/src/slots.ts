/** What a query is being written about at some place: the type in whose braces it is, the property that a value is for. */

import type { Catalog, EdgeType, NodeType } from "./wire";

export type KnownType = NodeType | EdgeType;

/** A property of a type, for which a value is wanted. */
export interface Slot {
  readonly type: KnownType;
  readonly property: string;
}

/** An edge as queries write it. */
export function edgeWord(name: string): string {
  return `${name[0]?.toLowerCase() ?? ""}${name.slice(1)}`;
}

function findType(name: string | undefined, catalog: Catalog): KnownType | null {
  return catalog.nodes.find((each) => each.name === name) ?? catalog.edges.find((each) => each.name === name || edgeWord(each.name) === name) ?? null;
}

/** The type of a variable, by its binding. */
export function typeOfVariable(variable: string, text: string, catalog: Catalog): KnownType | null {
  return findType(new RegExp(`\\$${variable}\\s*:\\s*(\\w+)`).exec(text)?.[1], catalog);
}

/** The type whose properties are named at the end of a text: in the braces of a pattern or a write, or after `where`. */
export function typeAtEnd(before: string, catalog: Catalog): KnownType | null {
  const where = /\b(?:update|delete)\s+([A-Z]\w*)\s*(?:set\s*\{[^{}]*\}\s*)?where\s*$/.exec(before);
  if (where) return findType(where[1], catalog);
  const head = before.slice(0, findOpenBrace(before));
  const inserted = /(?:\$\w+\s*:|\binsert)\s*(\w+)\s*$/.exec(head);
  if (inserted) return findType(inserted[1], catalog);
  const updated = /\bupdate\s+(\$?)(\w+)\s+set\s*$/.exec(head);
  return updated ? (updated[1] ? typeOfVariable(updated[2] ?? "", before, catalog) : findType(updated[2], catalog)) : null;
}

function findOpenBrace(text: string): number {
  let closed = 0;
  for (let at = text.length - 1; at >= 0; at -= 1) {
    if (text[at] === "}") closed += 1;
    else if (text[at] === "{" && closed === 0) return at;
    else if (text[at] === "{") closed -= 1;
  }
  return 0;
}

/** Leave out the properties that are named already in the braces at the end of a text. */
export function skipNamed(before: string): string {
  return /\bwhere\s*$/.test(before) ? before : before.replace(/\{[^{}]*$/, "{");
}

/** The property that a value at the end of a text is for: `code: `, `$t.code = ` or `where code = `. */
export function slotAtEnd(before: string, catalog: Catalog): Slot | null {
  const accessed = /\$(\w+)\.(\w+)\s*(?:=|!=|in\s*\[(?:\s*"[^"]*"\s*,)*)\s*$/.exec(before);
  if (accessed) {
    const type = typeOfVariable(accessed[1] ?? "", before, catalog);
    return type && { type, property: accessed[2] ?? "" };
  }
  const named = /(\w+)\s*(?::|=|!=)\s*$/.exec(before);
  const type = named && typeAtEnd(skipNamed(before.slice(0, named.index)), catalog);
  return type && { type, property: named?.[1] ?? "" };
}

/** The property that a parameter is compared with, if there is one. */
export function slotOfParameter(name: string, text: string, catalog: Catalog): Slot | null {
  for (const used of text.matchAll(new RegExp(`\\$${name}\\b(?!\\s*:)`, "g"))) {
    const slot = slotAtEnd(text.slice(0, used.index).replace(/\bin\s*$/, "= "), catalog);
    if (slot) return slot;
  }
  return null;
}
