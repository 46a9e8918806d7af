/** Rows as a table: all of them in the document, so that the browser can search, copy and read out every one. */

import { render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { FOLD, isLink, valueText } from "./format";
import { Value } from "./parts";
import type { Json, Row } from "./wire";

interface TableProps {
  readonly columns: readonly string[];
  readonly types?: Record<string, string>;
  readonly rows: readonly Row[];
  readonly caption: string;
}

/** The types of numbers, which stand on the right of their columns. */
export const NUMBERS = /^(I|U|F)(32|64)/;
const NO_TYPES: Record<string, string> = {};

export function Table({ columns, types = NO_TYPES, rows, caption }: TableProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  // Ten thousand cells are made by hand: as components they would take longer than the browser needs to show them.
  useLayoutEffect(() => (body.current ? fillBody(body.current, columns, types, rows) : undefined), [columns, types, rows]);
  return (
    <div class="scroll" tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th scope="col" class={NUMBERS.test(types[column] ?? "") ? "number" : undefined} title={types[column]}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} />
      </table>
    </div>
  );
}

/** Put rows into a table; the returned function takes them out. Values are only ever set as texts. */
function fillBody(body: HTMLTableSectionElement, columns: readonly string[], types: Record<string, string>, rows: readonly Row[]): () => void {
  const pattern = document.createElement("tr");
  for (const column of columns) {
    const cell = pattern.appendChild(document.createElement("td"));
    if (NUMBERS.test(types[column] ?? "")) cell.className = "number";
  }
  const rich: Element[] = [];
  const all = document.createDocumentFragment();
  for (const row of rows) {
    const line = pattern.cloneNode(true) as HTMLTableRowElement;
    let cell = line.firstElementChild;
    for (const column of columns) {
      if (cell && !fillCell(cell, row[column])) rich.push(cell);
      cell = cell?.nextElementSibling ?? null;
    }
    all.append(line);
  }
  body.replaceChildren(all);
  return () => {
    for (const cell of rich) render(null, cell);
    body.replaceChildren();
  };
}

/** Fill a cell; false if what is in it is a component, which has a button or a link. */
function fillCell(cell: Element, value: Json | undefined): boolean {
  const text = valueText(value);
  if (text.length > FOLD || isLink(value)) {
    render(<Value value={value} />, cell);
    return false;
  }
  cell.textContent = text;
  if (value === null || value === undefined) cell.classList.add("null");
  return true;
}
