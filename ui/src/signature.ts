/** The parameters of the queries in a text, for forms. */

export interface Parameter {
  readonly name: string;
  readonly type: string;
}

/** The parameters that the first query of a text declares. */
export function parametersOf(text: string): readonly Parameter[] {
  const declared = /\bquery\s+\w+\s*\(([^)]*(?:\([^)]*\)[^)]*)*)\)/.exec(text)?.[1] ?? "";
  return [...declared.matchAll(/\$(\w+)\s*:\s*(\[?\w+(?:\(\s*\d+\s*\))?\]?\??)/g)].map((match) => ({ name: match[1] ?? "", type: match[2] ?? "String" }));
}
