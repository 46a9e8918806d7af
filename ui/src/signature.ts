/** The parameters of queries: which a text declares, and their values in an address. */

import { parseExact } from "./format";
import type { Json } from "./wire";

export interface Parameter {
  readonly name: string;
  readonly type: string;
}

/** The parameters that the first query of a text declares. */
export function parametersOf(text: string): readonly Parameter[] {
  const declared = /\bquery\s+\w+\s*\(([^)]*(?:\([^)]*\)[^)]*)*)\)/.exec(text)?.[1] ?? "";
  return [...declared.matchAll(/\$(\w+)\s*:\s*(\[?\w+(?:\(\s*\d+\s*\))?\]?\??)/g)].map((match) => ({ name: match[1] ?? "", type: match[2] ?? "String" }));
}

/** Values of parameters as they stand in an address; none if there are none. */
export function writeParams(params: Record<string, Json>): string | null {
  return Object.keys(params).length > 0 ? JSON.stringify(params) : null;
}

/** Values of parameters from an address. What is no JSON has none: the form then asks for them. */
export function readParams(text: string | null): Record<string, Json> {
  try {
    return parseExact(text || "{}") as Record<string, Json>;
  } catch {
    return {};
  }
}
