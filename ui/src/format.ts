/** How values look as text. Everything here returns plain text, never markup. */

import type { Json } from "./wire";

export const FOLD = 300;

export function count(value: number): string {
  return Math.trunc(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

export function plural(value: number, noun: string): string {
  const many = noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** The end of an id: the part that differs between neighbours. */
export function shortId(id: string): string {
  return id.slice(-6);
}

const UNITS: readonly (readonly [number, string])[] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [30, "day"],
  [12, "month"],
  [Infinity, "year"],
];

export function relativeTime(time: string, now = Date.now()): string {
  let value = Math.max(0, (now - Date.parse(time)) / 1000);
  if (value < 5) return "just now";
  for (const [size, unit] of UNITS) {
    if (value < size) return `${plural(Math.floor(value), unit)} ago`;
    value /= size;
  }
  return time;
}

export function exactTime(time: string): string {
  return `${time.slice(0, 19).replace("T", " ")} UTC`;
}

/** A value as a cell shows it; null is told apart from the text "null" by its style. */
export function valueText(value: Json | undefined): string {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return value;
  if (typeof value === "object") return JSON.stringify(value);
  return String(value);
}

/** A URL that may be shown as a link. */
export function isLink(value: Json | undefined): value is string {
  return typeof value === "string" && /^https:\/\/[^\s]+$/.test(value) && value.length < 2000;
}

/** The hue of a type: the same in every view, for the ten muted hues of the style sheet. */
export function hueOf(type: string): number {
  let hash = 0x811c9dc5;
  for (const character of type) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  return (hash >>> 0) % 10;
}

/** The beginning of a text; what is left out is said by its last character. */
export function clip(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length).trimEnd()}…` : text;
}

/** A JSON text as a value. Integers that a number would round stay the texts that they are. */
export function parseExact(text: string): Json {
  return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (word) => (/^-?\d{16,}$/.test(word) ? `"${word}"` : word))) as Json;
}

/** How much a number grew, with its sign; empty if it is none. Integers are exact, whatever their size. */
export function growth(before: Json, after: Json, type: string): string {
  if (/^[IU](32|64)/.test(type)) {
    const [from, to] = [before, after].map(toInteger);
    if (from === undefined || from === null || to === undefined || to === null) return "";
    return to > from ? `+${to - from}` : `−${from - to}`;
  }
  if (typeof before !== "number" || typeof after !== "number") return "";
  return `${after > before ? "+" : "−"}${Math.abs(Number((after - before).toPrecision(12)))}`;
}

function toInteger(value: Json): bigint | null {
  return (typeof value === "number" && Number.isInteger(value)) || (typeof value === "string" && /^-?\d+$/.test(value)) ? BigInt(value) : null;
}

export function titleOf(message: string | null): string {
  return (message ?? "").split("\n", 1)[0] ?? "";
}

export function download(name: string, data: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([data], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
