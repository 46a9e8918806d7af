/** Values that the graph has, offered where one is typed in. */

import { useEffect, useState } from "preact/hooks";
import { read } from "./api";
import type { Moment } from "./moment";
import type { Slot } from "./slots";

const OFFERED = 20;
const REST_MS = 200;

/** The first values of a property that begin with a text. Only texts and the choices of an enum are offered. */
export async function findValues(graph: string, { type, property }: Slot, prefix: string, moment: Moment, signal?: AbortSignal): Promise<readonly string[]> {
  const known = property === "id" ? "String" : (type.properties.find((each) => each.name === property)?.type ?? "");
  const choices = /^enum\((.*)\)/.exec(known)?.[1]?.split(",").map((each) => each.trim());
  if (choices) return choices.filter((choice) => choice.startsWith(prefix));
  if (!/^String\??$/.test(known)) return [];
  const filter = JSON.stringify([[property, ">=", prefix], [property, "<", `${prefix}\u{10FFFF}`]]);
  const entity = "from" in type ? "edge" : "node";
  const { rows } = await read(graph, "/rows", { entity, type: type.name, columns: [property], filter, limit: OFFERED, ...moment }, signal);
  return [...new Set(rows.map((row) => String(row[property])))].sort();
}

interface ValueInputProps {
  readonly id: string;
  readonly graph: string;
  readonly slot: Slot | null;
  readonly moment: Moment;
  readonly value: string;
  readonly placeholder?: string;
  readonly change: (value: string) => void;
}

/** A field that offers the values of a property as one types. */
export function ValueInput({ id, graph, slot, moment, value, placeholder = "", change }: ValueInputProps) {
  const [offered, setOffered] = useState<readonly string[]>([]);
  const [isUsed, setUsed] = useState(false);
  useEffect(() => {
    if (!slot || !isUsed) return;
    const controller = new AbortController();
    const timer = window.setTimeout(() => {
      findValues(graph, slot, value, moment, controller.signal).then(setOffered, () => setOffered([]));
    }, REST_MS);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [slot?.type.name, slot?.property, value, isUsed]);
  return (
    <>
      <input id={id} class="wide" list={`${id}-values`} autocomplete="off" placeholder={placeholder} value={value} onFocus={() => setUsed(true)} onInput={(event) => change(event.currentTarget.value)} />
      <datalist id={`${id}-values`}>
        {offered.map((each) => (
          <option value={each} />
        ))}
      </datalist>
    </>
  );
}
