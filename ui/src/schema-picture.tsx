/** The types of a schema as boxes in columns, with arrows between them. Pressing a box selects its type. */

import { count, hueOf } from "./format";
import type { Catalog } from "./wire";

interface Props {
  readonly catalog: Catalog;
  readonly rows: ReadonlyMap<string, number>;
  readonly chosen: string | null;
  readonly choose: (type: string) => void;
}

interface Box {
  readonly x: number;
  readonly y: number;
}

const WIDTH = 190;
const HEIGHT = 46;
const ACROSS = 120;
const DOWN = 44;

export function SchemaPicture({ catalog, rows, chosen, choose }: Props) {
  const places = place(catalog);
  const width = Math.max(...[...places.values()].map((box) => box.x), 0) + WIDTH + 90;
  const height = Math.max(...[...places.values()].map((box) => box.y), 0) + HEIGHT + 30;
  return (
    <div class="scroll" tabIndex={0}>
      <svg class="schema" width={width} height={height} role="group" aria-label="Picture of the schema">
        <defs>
          <marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
            <path d="M0,0 L8,4 L0,8 z" class="tip" />
          </marker>
        </defs>
        {catalog.edges.map((edge, order) => {
          const from = places.get(edge.from);
          const to = places.get(edge.to);
          if (!from || !to) return null;
          const { line, x, y } = route(from, to, order);
          return (
            <g class={`edge ${chosen === edge.name ? "chosen" : ""}`} role="button" tabindex={0} onClick={() => choose(edge.name)} onKeyDown={(event) => event.key === "Enter" && choose(edge.name)}>
              <path d={line} marker-end="url(#tip)" />
              <text x={x} y={y} text-anchor="middle">
                {edge.name} {count(rows.get(`edge:${edge.name}`) ?? 0)}
              </text>
            </g>
          );
        })}
        {catalog.nodes.map((node) => {
          const box = places.get(node.name) ?? { x: 0, y: 0 };
          return (
            <g class={`box ${chosen === node.name ? "chosen" : ""}`} role="button" tabindex={0} onClick={() => choose(node.name)} onKeyDown={(event) => event.key === "Enter" && choose(node.name)}>
              <rect x={box.x} y={box.y} width={WIDTH} height={HEIGHT} rx={5} />
              <rect class={`fill hue${hueOf(node.name)}`} x={box.x} y={box.y} width={5} height={HEIGHT} rx={2} />
              <text class="title" x={box.x + 14} y={box.y + 19}>
                {node.name}
              </text>
              <text class="small" x={box.x + 14} y={box.y + 36}>
                {count(rows.get(`node:${node.name}`) ?? 0)} rows, {node.properties.length} properties
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
}

/** Columns by how far a type is from those that no edge reaches; within a column by the mean of its neighbours. */
function place(catalog: Catalog): Map<string, Box> {
  const names = catalog.nodes.map((node) => node.name);
  const column = new Map(names.map((name) => [name, 0]));
  const links = catalog.edges.filter((edge) => edge.from !== edge.to);
  for (let round = 0; round < Math.min(names.length, 6); round += 1) {
    for (const edge of links) {
      const next = (column.get(edge.from) ?? 0) + 1;
      const closes = links.some((other) => other.from === edge.to && other.to === edge.from && other.name < edge.name);
      if (!closes && next > (column.get(edge.to) ?? 0) && next < 6) column.set(edge.to, next);
    }
  }
  const columns: string[][] = [];
  for (const name of names) (columns[column.get(name) ?? 0] ??= []).push(name);
  const filled = columns.filter((each) => each.length > 0);
  const row = new Map<string, number>();
  for (const each of filled) {
    const mean = (name: string) => {
      const near = links.flatMap((edge) => (edge.to === name ? [row.get(edge.from) ?? 0] : []));
      return near.length ? near.reduce((sum, value) => sum + value, 0) / near.length : names.indexOf(name);
    };
    each.sort((one, other) => mean(one) - mean(other));
    each.forEach((name, index) => row.set(name, index - each.length / 2));
  }
  const tallest = Math.max(...filled.map((each) => each.length), 1);
  const places = new Map<string, Box>();
  filled.forEach((each, at) =>
    each.forEach((name, index) => places.set(name, { x: 16 + at * (WIDTH + ACROSS), y: 42 + (index + (tallest - each.length) / 2) * (HEIGHT + DOWN) })),
  );
  return places;
}

function route(from: Box, to: Box, order: number): { line: string; x: number; y: number } {
  const lift = ((order % 5) - 2) * 6;
  if (from === to) {
    const x = from.x + WIDTH - 60;
    return { line: `M${x},${from.y} C${x - 6},${from.y - 34} ${x + 46},${from.y - 34} ${x + 40},${from.y}`, x: x - 20, y: from.y - 14 };
  }
  const forward = to.x > from.x;
  const x = forward ? from.x + WIDTH : from.x + (to.x === from.x ? WIDTH / 2 : 0);
  const y = to.x === from.x ? (to.y > from.y ? from.y + HEIGHT : from.y) : from.y + HEIGHT / 2 + lift;
  const toX = forward ? to.x : to.x + (to.x === from.x ? WIDTH / 2 : WIDTH);
  const toY = to.x === from.x ? (to.y > from.y ? to.y : to.y + HEIGHT) : to.y + HEIGHT / 2 + lift;
  const middle = (x + toX) / 2;
  const line = to.x === from.x ? `M${x},${y} L${toX},${toY}` : `M${x},${y} C${middle},${y} ${middle},${toY} ${toX},${toY}`;
  return { line, x: middle, y: (y + toY) / 2 - 5 };
}
