/** The labels of a drawing: where there is room for them. */

import type Graph from "graphology";
import type Sigma from "sigma";

/** The label of the node under the pointer, in a box of its own. */
export function drawHover(context: CanvasRenderingContext2D, data: { x: number; y: number; size: number; label?: string | null }, paper: string, ink: string): void {
  if (!data.label) return;
  context.font = "12px system-ui, sans-serif";
  const width = context.measureText(data.label).width;
  context.fillStyle = paper;
  context.strokeStyle = ink;
  context.beginPath();
  context.roundRect(data.x + data.size + 1, data.y - 11, width + 10, 22, 4);
  context.fill();
  context.stroke();
  context.fillStyle = ink;
  context.fillText(data.label, data.x + data.size + 6, data.y + 4);
}

/** The four sides of a node, the usual one first; y grows upwards, as in the graph. */
const SIDES = [
  [1, 0],
  [0, -1],
  [0, 1],
  [-1, 0],
] as const;

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}

const GAP = 4;

function overlap(one: Box, other: Box): boolean {
  return one.left < other.left + other.width + GAP && other.left < one.left + one.width + GAP && one.top < other.top + other.height + GAP / 2 && other.top < one.top + one.height + GAP / 2;
}

/** What sigma hands over for a label; its types leave the key out. */
export interface LabelData {
  readonly key: string;
  readonly x: number;
  readonly y: number;
  readonly size: number;
  readonly label: string | null;
  readonly forceLabel: boolean;
}

interface Point {
  readonly x: number;
  readonly y: number;
  readonly size: number;
}

const LABEL_HEIGHT = 15;
const MINDED = 300;

/** The sides of a node, those first that are farthest from its edges. Beside it reads best, so others must be clearly freer. */
function rankSides(graph: Graph, key: string): (readonly [number, number])[] {
  const [x, y] = [Number(graph.getNodeAttribute(key, "x")), Number(graph.getNodeAttribute(key, "y"))];
  const ways = graph.mapNeighbors(key, (_, other) => {
    const [dx, dy] = [Number(other["x"]) - x, Number(other["y"]) - y];
    const length = Math.hypot(dx, dy) || 1;
    return [dx / length, dy / length] as const;
  });
  const ranked = SIDES.map((side, index) => [side, (index === 0 ? -0.3 : 0) + Math.max(-1, ...ways.map(([dx, dy]) => side[0] * dx + side[1] * dy))] as const);
  return ranked.sort(([, a], [, b]) => a - b).map(([side]) => side);
}

/** Draw a label where it covers no other label and no node, and is not cut off. One that must not be missed is drawn in any case. */
export function drawLabel(context: CanvasRenderingContext2D, graph: Graph, discs: ReadonlyMap<string, Box>, placed: Box[], data: LabelData, ink: string): void {
  if (!data.label) return;
  context.font = "12px system-ui, sans-serif";
  context.fillStyle = ink;
  const width = context.measureText(data.label).width;
  const edge = context.canvas.clientWidth;
  const boxes = rankSides(graph, data.key).flatMap(([sx, sy]): Box[] => {
    const top = data.y - LABEL_HEIGHT / 2 - sy * (data.size + 9);
    // Above and below, a label may also begin or end at its node.
    const lefts = sx > 0 ? [data.x + data.size + 3] : sx < 0 ? [data.x - data.size - 3 - width] : [data.x - width / 2, data.x - data.size, data.x + data.size - width];
    return lefts.map((left) => ({ left, top, width, height: LABEL_HEIGHT }));
  });
  const isInside = (box: Box) => box.left >= 2 && box.left + width <= edge - 2;
  const isClear = (box: Box) => placed.every((other) => !overlap(box, other));
  const missesNodes = (box: Box) => [...discs].every(([key, disc]) => key === data.key || !overlap(box, disc));
  const inside = boxes.filter(isInside);
  const box = inside.find((each) => isClear(each) && missesNodes(each)) ?? (data.forceLabel ? (inside.find(isClear) ?? inside.find(missesNodes) ?? inside[0] ?? boxes[0]) : undefined);
  if (!box) return;
  placed.push(box);
  context.fillText(data.label, box.left, box.top + LABEL_HEIGHT - 4);
}

/** Where the nodes are on the canvas. A drawing of thousands is too dense to mind them. */
export function findDiscs(renderer: Sigma, graph: Graph, discs: Map<string, Box>): void {
  discs.clear();
  if (graph.order > MINDED) return;
  graph.forEachNode((key, attributes) => {
    if (attributes["hidden"]) return;
    const { x, y } = renderer.graphToViewport({ x: Number(attributes["x"]), y: Number(attributes["y"]) });
    const size = renderer.scaleSize(Number(attributes["size"]));
    discs.set(key, { left: x - size, top: y - size, width: 2 * size, height: 2 * size });
  });
}

/** Whether the label in the middle of an edge fits there, and would cover none that is drawn. */
export function isEdgeLabelFree(context: CanvasRenderingContext2D, label: string | null | undefined, source: Point, target: Point, placed: Box[]): boolean {
  if (!label) return false;
  context.font = "11px system-ui, sans-serif";
  const length = context.measureText(label).width;
  const angle = Math.atan2(target.y - source.y, target.x - source.x);
  if (length + source.size + target.size + 8 > Math.hypot(target.x - source.x, target.y - source.y)) return false;
  // It stands beside the line, on the one side or the other.
  const [across, along] = [Math.abs(Math.cos(angle)), Math.abs(Math.sin(angle))];
  const [width, height] = [length * across + 26 * along, length * along + 26 * across];
  const box = { left: (source.x + target.x - width) / 2, top: (source.y + target.y - height) / 2, width, height };
  if (placed.some((other) => overlap(box, other))) return false;
  placed.push(box);
  return true;
}
