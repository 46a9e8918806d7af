/** Drawings by sigma: a neighbourhood, and a diff on the graph. Each has a twin, a list of the same. */

import { createNodeBorderProgram } from "@sigma/node-border";
import Graph from "graphology";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import Sigma from "sigma";
import { drawStraightEdgeLabel } from "sigma/rendering";
import { read, readCatalog } from "./api";
import { clip, count, hueOf } from "./format";
import { Failure, useLoad } from "./loading";
import { type Box, type LabelData, drawHover, drawLabel, findDiscs, isEdgeLabelFree } from "./labels";
import { Counts, TypeName, entityPath, totals } from "./parts";
import { navigate, view } from "./router";
import { watchLook } from "./theme";
import type { EntityChange, Neighbours, Row, Side, TypeChanges } from "./wire";

export interface DrawnNode {
  readonly key: string;
  readonly type: string;
  readonly label: string;
  readonly mark?: "came" | "went" | "changed" | "same";
  /** Not shown now; its place is kept. */
  readonly hidden?: boolean;
  readonly pinned?: boolean;
  /** A number between 0 and 9 instead of the hue of the type. */
  readonly hue?: number;
  readonly size?: number;
}

export interface DrawnEdge {
  readonly key: string;
  readonly type: string;
  readonly from: string;
  readonly to: string;
  readonly mark?: "came" | "went" | "changed" | "same";
  readonly hidden?: boolean;
}

interface CanvasProps {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly DrawnEdge[];
  readonly selected?: string | null;
  readonly onSelect?: (key: string | null) => void;
  readonly onOpen?: (key: string) => void;
  /** Receives a function that returns the drawing as a PNG. */
  readonly onReady?: (toImage: () => string) => void;
}

/** The canvas. Nodes keep their places while others come and go; the layout runs only when there are new ones. */
export function Canvas({ nodes, edges, selected, onSelect, onOpen, onReady }: CanvasProps) {
  const holder = useRef<HTMLDivElement>(null);
  const sigma = useRef<Sigma | null>(null);
  const worker = useRef<Worker | null>(null);
  const [isLayingOut, setLayingOut] = useState(false);
  const [painted, setPainted] = useState(0);
  const handlers = useRef({ onSelect, onOpen });
  handlers.current = { onSelect, onOpen };
  useEffect(() => {
    if (!holder.current) return;
    const graph = new Graph({ multi: true, type: "directed" });
    const placed: Box[] = [];
    const discs = new Map<string, Box>();
    colours.clear();
    const renderer = new Sigma(graph, holder.current, {
      allowInvalidContainer: true,
      defaultEdgeType: "arrow",
      labelDensity: 2,
      labelGridCellSize: 60,
      labelRenderedSizeThreshold: 3,
      hideEdgesOnMove: true,
      renderEdgeLabels: true,
      edgeLabelSize: 11,
      edgeLabelColor: { color: colour("--muted") },
      edgeLabelFont: "system-ui, sans-serif",
      stagePadding: 72,
      zIndex: true,
      nodeProgramClasses: { bordered: border() },
      defaultDrawNodeLabel: (context, data) => drawLabel(context, graph, discs, placed, data as typeof data & LabelData, colour("--ink")),
      defaultDrawEdgeLabel: (context, data, source, target, settings) => {
        if (isEdgeLabelFree(context, data.label, source, target, placed)) drawStraightEdgeLabel(context, data, source, target, settings);
      },
      // The ones of the library draw dark text on white, in every theme.
      defaultDrawNodeHover: (context, data) => drawHover(context, data, colour("--paper"), colour("--ink")),
    });
    const leave = watchLook(() => {
      colours.clear();
      renderer.setSetting("edgeLabelColor", { color: colour("--muted") });
      setPainted((old) => old + 1);
    });
    renderer.on("beforeRender", () => {
      placed.splice(0);
      findDiscs(renderer, graph, discs);
    });
    renderer.on("clickNode", ({ node }) => handlers.current.onSelect?.(node));
    renderer.on("clickStage", () => handlers.current.onSelect?.(null));
    renderer.on("doubleClickNode", (event) => {
      event.preventSigmaDefault();
      handlers.current.onOpen?.(event.node);
    });
    sigma.current = renderer;
    onReady?.(() => toImage(renderer, holder.current as HTMLElement));
    const file = document.querySelector<HTMLMetaElement>('meta[name="layout-worker"]')?.content;
    if (file) {
      worker.current = new Worker(file, { type: "module" });
      worker.current.onmessage = ({ data }: MessageEvent<[string, number, number][] | "done">) => {
        if (data === "done") return setLayingOut(false);
        for (const [name, x, y] of data) if (graph.hasNode(name) && !graph.getNodeAttribute(name, "fixed")) graph.mergeNodeAttributes(name, { x, y });
      };
    }
    return () => {
      leave();
      worker.current?.terminate();
      renderer.kill();
    };
  }, []);
  useEffect(() => {
    const renderer = sigma.current;
    if (!renderer) return;
    const graph = renderer.getGraph() as Graph;
    const isNew = update(graph, nodes, edges, selected ?? null);
    renderer.refresh();
    if (!isNew || graph.order < 2) return;
    setLayingOut(worker.current !== null);
    worker.current?.postMessage({
      nodes: graph.mapNodes((name, attributes) => [name, attributes["x"], attributes["y"], attributes["fixed"] === true]),
      edges: graph.mapEdges((_key, _attributes, from, to) => [from, to]),
    });
  }, [nodes, edges, selected, painted]);
  const stop = () => {
    worker.current?.postMessage("stop");
    setLayingOut(false);
  };
  const shown = nodes.filter((node) => !node.hidden).length;
  const lines = edges.filter((edge) => !edge.hidden).length;
  return (
    <div class="canvas">
      <div class="drawing" ref={holder} data-nodes={shown} data-edges={lines} data-busy={isLayingOut} role="img" aria-label={`Drawing of ${shown} nodes and ${lines} edges; the list beside it has the same`} />
      {isLayingOut && (
        <button class="stop" onClick={stop}>
          Stop moving
        </button>
      )}
    </div>
  );
}

/** The drawing as the address of a PNG. The layers are copied while their buffers are still there. */
function toImage(renderer: Sigma, holder: HTMLElement): string {
  renderer.refresh();
  const layers = [...holder.querySelectorAll("canvas")];
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...layers.map((layer) => layer.width));
  canvas.height = Math.max(...layers.map((layer) => layer.height));
  const context = canvas.getContext("2d");
  if (!context) return "";
  context.fillStyle = colour("--paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const layer of layers) context.drawImage(layer, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png");
}

function border() {
  return createNodeBorderProgram({
    borders: [
      { size: { attribute: "borderSize", defaultValue: 0.1 }, color: { attribute: "borderColor" } },
      { size: { attribute: "gapSize", defaultValue: 0 }, color: { attribute: "gapColor" } },
      { size: { fill: true }, color: { attribute: "color" } },
    ],
  });
}

/**
 * Bring the graph of the canvas up to date; whether there are nodes that it has not seen. New nodes start on a spiral of
 * their type, or beside the node that they hang on, so equal data look equal.
 */
function update(graph: Graph, nodes: readonly DrawnNode[], edges: readonly DrawnEdge[], selected: string | null): boolean {
  const wanted = new Map(nodes.map((node) => [node.key, node]));
  for (const name of graph.nodes()) if (!wanted.has(name)) graph.dropNode(name);
  const types = [...new Set(nodes.map((node) => node.type))].sort();
  const anchors = new Map(edges.flatMap((edge) => [[edge.to, edge.from] as const, [edge.from, edge.to] as const]));
  const seen = new Map<string, number>();
  const had = graph.order > 0;
  let isNew = false;
  for (const node of nodes) {
    const index = seen.get(node.type) ?? 0;
    seen.set(node.type, index + 1);
    const attributes = look(node, node.key === selected);
    if (graph.hasNode(node.key)) graph.mergeNodeAttributes(node.key, attributes);
    else {
      const anchor = anchors.get(node.key);
      const near = had && anchor && graph.hasNode(anchor) ? graph.getNodeAttributes(anchor) : null;
      const spot = start(types.indexOf(node.type), types.length, index);
      const place = near ? { x: Number(near["x"]) + spot.x / 8, y: Number(near["y"]) + spot.y / 8 } : spot;
      graph.addNode(node.key, { ...attributes, ...place });
      isNew = true;
    }
  }
  graph.clearEdges();
  for (const edge of edges) {
    if (!graph.hasNode(edge.from) || !graph.hasNode(edge.to)) continue;
    const faded = edge.mark === "same";
    graph.addEdgeWithKey(edge.key, edge.from, edge.to, {
      label: faded ? "" : edge.type,
      size: edge.mark === "went" || faded ? 1 : 1.6,
      color: colour(edge.mark ? `--${faded ? "border" : edge.mark}` : "--line"),
      hidden: edge.hidden ?? false,
      zIndex: faded ? 0 : 1,
    });
  }
  return isNew;
}

const SIGNS = { came: "+ ", went: "− ", changed: "~ ", same: "" } as const;

function look(node: DrawnNode, isSelected: boolean) {
  const own = colour(node.mark ? `--${node.mark}` : `--hue${node.hue ?? hueOf(node.type)}`);
  const hollow = node.mark === "went" || node.mark === "same";
  return {
    label: `${node.mark ? SIGNS[node.mark] : ""}${clip(node.label, 40)}`,
    size: node.size ?? (node.mark === "same" ? 5 : node.mark === "changed" ? 10 : 8),
    type: "bordered",
    hidden: node.hidden ?? false,
    fixed: node.pinned ?? false,
    forceLabel: isSelected || (node.mark !== undefined && node.mark !== "same"),
    zIndex: node.mark === "same" ? 0 : 1,
    highlighted: isSelected,
    borderColor: node.pinned ? colour("--ink") : own,
    borderSize: hollow || node.pinned ? 0.35 : node.mark === "changed" ? 0.2 : 0.1,
    gapSize: node.mark === "changed" ? 0.2 : 0,
    gapColor: colour("--paper"),
    color: hollow ? colour("--paper") : own,
  };
}

const colours = new Map<string, string>();

/** A colour of the style sheet in the theme of now: the browser resolves it where it is used, so it is used somewhere. */
function colour(name: string): string {
  const known = colours.get(name);
  if (known) return known;
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  colours.set(name, found);
  return found;
}

function start(sector: number, sectors: number, index: number): { x: number; y: number } {
  const angle = (sector / Math.max(sectors, 1)) * 2 * Math.PI;
  const turn = index * Math.PI * (3 - Math.sqrt(5));
  const radius = 6 * Math.sqrt(index + 0.5);
  return { x: 60 * Math.cos(angle) + radius * Math.cos(turn), y: 60 * Math.sin(angle) + radius * Math.sin(turn) };
}

const MARKS = { inserted: "came", updated: "changed", deleted: "went" } as const;

interface DiffDrawingProps {
  readonly graph: string;
  readonly entities: readonly EntityChange[];
  /** The counts per type, if there are too many entities to draw: one bubble for each. */
  readonly summary: readonly TypeChanges[] | null;
  readonly before: Side;
  readonly after: Side;
}

const AROUND = 20;
const ASKED = 60;

/** A diff on the graph: what came, went and changed, with the unchanged neighbours one step out, faded. */
export function DiffDrawing({ graph, entities, summary, before, after }: DiffDrawingProps) {
  const [side, setSide] = useState<"both" | "before" | "after">("both");
  // An edge type may be known to one side only.
  const edgeTypes = useLoad(JSON.stringify([graph, before, after]), async (signal) => {
    const sides = await Promise.all([before, after].map(({ branch, commit }) => readCatalog(graph, { branch, at: commit }, signal)));
    return sides.flatMap((side) => side.edges);
  });
  const around = useLoad(summary || !edgeTypes.data ? null : JSON.stringify([graph, before, after, entities.length, entities[0]?.id]), (signal) => readAround(graph, entities, before, after, signal));
  const ends = new Map(edgeTypes.data?.map((edge) => [edge.name, [edge.from, edge.to] as const]));
  const { nodes, edges } = useMemo(() => toDrawing(entities, ends, around.data ?? []), [entities, edgeTypes.data, around.data]);
  const shows = (mark: DrawnNode["mark"]) => side === "both" || (side === "before" ? mark !== "came" : mark !== "went");
  const shownNodes = useMemo(() => nodes.map((node) => ({ ...node, hidden: !shows(node.mark) })), [nodes, side]);
  const shownEdges = useMemo(() => edges.map((edge) => ({ ...edge, hidden: !shows(edge.mark) })), [edges, side]);
  if (summary) {
    return (
      <div class="bubbles" data-bubbles={summary.length}>
        <p class="muted">There are too many changes to draw one by one: one bubble for each type. Press one to draw its part.</p>
        {summary.map((each) => {
          const sums = totals([each]);
          const total = sums.inserted + sums.updated + sums.deleted;
          return (
            <button class="bubble" onClick={() => navigate(`${location.pathname}?${with_(location.search, "type", each.type)}`)} title={`${count(total)} changes`}>
              <TypeName name={each.type} />
              <Counts {...each} />
            </button>
          );
        })}
      </div>
    );
  }
  const changedNodes = entities.filter((each) => each.kind === "node").length;
  const marked = (mark: DrawnNode["mark"]) => nodes.filter((node) => node.mark === mark).length + edges.filter((edge) => edge.mark === mark).length;
  return (
    <div data-came={marked("came")} data-went={marked("went")} data-changed={marked("changed")} class="drawn-diff">
      <div class="toolbar">
        <div role="group" aria-label="Side">
          {(["before", "both", "after"] as const).map((each) => (
            <button aria-pressed={side === each} onClick={() => setSide(each)}>
              {each}
            </button>
          ))}
        </div>
        <span class="legend">
          <span class="came">+ came, filled</span> <span class="went">− went, hollow</span> <span class="changed">~ changed, ringed</span> <span class="muted">○ around, unchanged, at most {AROUND} of each</span>
        </span>
        {changedNodes > ASKED && (
          <span class="muted">
            around the first {ASKED} of {count(changedNodes)} changed nodes
          </span>
        )}
      </div>
      {(edgeTypes.error ?? around.error) && <Failure error={(edgeTypes.error ?? around.error) as Error} retry={edgeTypes.error ? edgeTypes.reload : around.reload} />}
      <Canvas nodes={shownNodes} edges={shownEdges} onOpen={(key) => open(graph, key)} />
    </div>
  );
}

interface Around {
  readonly key: string;
  readonly found: Neighbours;
}

/** The neighbours of the changed nodes, of the side that has them: at most 20 for each, of the first 60 nodes. */
async function readAround(graph: string, entities: readonly EntityChange[], before: Side, after: Side, signal: AbortSignal): Promise<Around[]> {
  const asked = entities.filter((each) => each.kind === "node").slice(0, ASKED);
  const answers: Around[] = [];
  for (let first = 0; first < asked.length; first += 6) {
    const some = await Promise.all(
      asked.slice(first, first + 6).map(async (each) => {
        const { branch, commit } = each.op === "deleted" ? before : after;
        const found = await read(graph, "/entity/neighbors", { type: each.type, id: each.id, limit: AROUND, branch, at: commit }, signal);
        return { key: `${each.type}/${each.id}`, found };
      }),
    );
    answers.push(...some);
  }
  return answers;
}

function open(graph: string, key: string): void {
  const [type = "", ...id] = key.split("/");
  navigate(view(graph, entityPath("node", type, id.join("/"))));
}

function with_(search: string, name: string, value: string): string {
  const changed = new URLSearchParams(search);
  changed.set(name, value);
  return changed.toString();
}

/** Turn changes into nodes and edges. Ends of edges that did not change themselves are drawn faded. */
function toDrawing(entities: readonly EntityChange[], ends: ReadonlyMap<string, readonly [string, string]>, around: readonly Around[]): { nodes: DrawnNode[]; edges: DrawnEdge[] } {
  const nodes = new Map<string, DrawnNode>();
  for (const each of entities) {
    if (each.kind !== "node") continue;
    const key = `${each.type}/${each.id}`;
    nodes.set(key, { key, type: each.type, label: nameOf(each.id, each.after ?? each.before), mark: MARKS[each.op] });
  }
  const edges: DrawnEdge[] = [];
  for (const each of entities) {
    const types = ends.get(each.type);
    if (each.kind !== "edge" || !types) continue;
    const image = each.after ?? each.before ?? {};
    const [from, to] = (["from", "to"] as const).map((end, index) => {
      const type = types[index] ?? "";
      const key = `${type}/${String(image[end])}`;
      if (!nodes.has(key)) nodes.set(key, { key, type, label: String(image[end]), mark: "same" });
      return key;
    });
    edges.push({ key: `${each.type}/${each.id}`, type: each.type, from: from ?? "", to: to ?? "", mark: MARKS[each.op] });
  }
  const known = new Set(edges.map((edge) => edge.key));
  for (const { key, found } of around) {
    for (const edge of found.edges) {
      const types = ends.get(edge.type);
      if (!types || known.has(`${edge.type}/${edge.id}`)) continue;
      known.add(`${edge.type}/${edge.id}`);
      const [from, to] = [`${types[0]}/${edge.from}`, `${types[1]}/${edge.to}`];
      const other = edge.direction === "out" ? to : from;
      const type = edge.direction === "out" ? types[1] : types[0];
      if (!nodes.has(other)) nodes.set(other, { key: other, type, label: edge.direction === "out" ? edge.to : edge.from, mark: "same" });
      if (nodes.has(key)) edges.push({ key: `${edge.type}/${edge.id}`, type: edge.type, from, to, mark: "same" });
    }
  }
  return { nodes: [...nodes.values()], edges };
}

/** The id of a node, with its name or title if it has one. */
export function nameOf(id: string, row: Row | null | undefined): string {
  const name = row?.["name"] ?? row?.["title"] ?? row?.["label"];
  return typeof name === "string" && name !== id ? `${id} ${clip(name, 18)}` : id;
}
