/** Drawings by sigma: a neighbourhood, and a diff on the graph. Each has a twin, a list of the same. */

import { createNodeBorderProgram } from "@sigma/node-border";
import Graph from "graphology";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import Sigma from "sigma";
import { get, graphPath, path } from "./api";
import { count, hueOf } from "./format";
import { useLoad } from "./loading";
import { Counts, TypeName, entityPath, totals } from "./parts";
import { navigate, view } from "./router";
import type { Catalog, EntityChange, TypeChanges } from "./wire";

export interface DrawnNode {
  readonly key: string;
  readonly type: string;
  readonly label: string;
  readonly mark?: "came" | "went" | "changed" | "same";
}

export interface DrawnEdge {
  readonly key: string;
  readonly type: string;
  readonly from: string;
  readonly to: string;
  readonly mark?: "came" | "went" | "changed" | "same";
}

interface CanvasProps {
  readonly nodes: readonly DrawnNode[];
  readonly edges: readonly DrawnEdge[];
  readonly onSelect?: (key: string | null) => void;
  readonly onOpen?: (key: string) => void;
}

/** The canvas. Nodes keep their places while others come and go. */
export function Canvas({ nodes, edges, onSelect, onOpen }: CanvasProps) {
  const holder = useRef<HTMLDivElement>(null);
  const sigma = useRef<Sigma | null>(null);
  const worker = useRef<Worker | null>(null);
  const handlers = useRef({ onSelect, onOpen });
  handlers.current = { onSelect, onOpen };
  useEffect(() => {
    if (!holder.current) return;
    const graph = new Graph({ multi: true, type: "directed" });
    const style = getComputedStyle(document.documentElement);
    const renderer = new Sigma(graph, holder.current, {
      allowInvalidContainer: true,
      defaultEdgeType: "arrow",
      labelColor: { color: style.getPropertyValue("--ink").trim() },
      labelFont: "system-ui, sans-serif",
      labelSize: 12,
      labelRenderedSizeThreshold: 5,
      hideEdgesOnMove: true,
      nodeProgramClasses: { bordered: border() },
      edgeLabelColor: { color: style.getPropertyValue("--muted").trim() },
    });
    renderer.on("clickNode", ({ node }) => handlers.current.onSelect?.(node));
    renderer.on("clickStage", () => handlers.current.onSelect?.(null));
    renderer.on("doubleClickNode", (event) => {
      event.preventSigmaDefault();
      handlers.current.onOpen?.(event.node);
    });
    sigma.current = renderer;
    const file = document.querySelector<HTMLMetaElement>('meta[name="layout-worker"]')?.content;
    if (file) {
      worker.current = new Worker(file, { type: "module" });
      worker.current.onmessage = ({ data }: MessageEvent<[string, number, number][] | "done">) => {
        if (data === "done") return;
        for (const [name, x, y] of data) if (graph.hasNode(name)) graph.mergeNodeAttributes(name, { x, y });
      };
    }
    return () => {
      worker.current?.terminate();
      renderer.kill();
    };
  }, []);
  useEffect(() => {
    const renderer = sigma.current;
    if (!renderer) return;
    const graph = renderer.getGraph() as Graph;
    update(graph, nodes, edges);
    renderer.refresh();
    worker.current?.postMessage({
      nodes: graph.mapNodes((name, attributes) => [name, attributes["x"], attributes["y"]]),
      edges: graph.mapEdges((_key, _attributes, from, to) => [from, to]),
    });
  }, [nodes, edges]);
  return <div class="drawing" ref={holder} data-nodes={nodes.length} data-edges={edges.length} role="img" aria-label={`Drawing of ${nodes.length} nodes and ${edges.length} edges; the list beside it has the same`} />;
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

/** Bring the graph of the canvas up to date. New nodes start on a spiral of their type, so equal data look equal. */
function update(graph: Graph, nodes: readonly DrawnNode[], edges: readonly DrawnEdge[]): void {
  const wanted = new Map(nodes.map((node) => [node.key, node]));
  for (const name of graph.nodes()) if (!wanted.has(name)) graph.dropNode(name);
  const types = [...new Set(nodes.map((node) => node.type))].sort();
  const seen = new Map<string, number>();
  for (const node of nodes) {
    const index = seen.get(node.type) ?? 0;
    seen.set(node.type, index + 1);
    const attributes = look(node);
    if (graph.hasNode(node.key)) graph.mergeNodeAttributes(node.key, attributes);
    else graph.addNode(node.key, { ...attributes, ...start(types.indexOf(node.type), types.length, index) });
  }
  graph.clearEdges();
  for (const edge of edges) {
    if (!graph.hasNode(edge.from) || !graph.hasNode(edge.to)) continue;
    graph.addEdgeWithKey(edge.key, edge.from, edge.to, { label: edge.type, size: edge.mark === "went" ? 1 : 1.6, color: colour(edge.mark ? `--${edge.mark}` : "--line") });
  }
}

const SIGNS = { came: "+ ", went: "− ", changed: "~ ", same: "" } as const;

function look(node: DrawnNode) {
  const own = colour(node.mark ? `--${node.mark}` : `--hue${hueOf(node.type)}`);
  const hollow = node.mark === "went" || node.mark === "same";
  return {
    label: `${node.mark ? SIGNS[node.mark] : ""}${node.label.length > 40 ? `${node.label.slice(0, 40)}…` : node.label}`,
    size: node.mark === "same" ? 5 : node.mark === "changed" ? 10 : 8,
    type: "bordered",
    borderColor: own,
    borderSize: hollow ? 0.35 : node.mark === "changed" ? 0.2 : 0.1,
    gapSize: node.mark === "changed" ? 0.2 : 0,
    gapColor: colour("--paper"),
    color: hollow ? colour("--paper") : own,
  };
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888888";
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
}

/** A diff on the graph: what came, went and changed, with the unchanged ends of changed edges. */
export function DiffDrawing({ graph, entities, summary }: DiffDrawingProps) {
  const [side, setSide] = useState<"both" | "before" | "after">("both");
  const catalog = useLoad(`${graph} edges`, (signal) => get<Catalog>(path(graphPath(graph, "/schema"), { view: "catalog" }), signal));
  const ends = new Map(catalog.data?.edges.map((edge) => [edge.name, [edge.from, edge.to] as const]));
  const { nodes, edges } = useMemo(() => toDrawing(entities, ends), [entities, catalog.data]);
  if (summary) {
    return (
      <div class="bubbles" data-bubbles={summary.length}>
        <p class="muted">There are too many changes to draw one by one. Choose a type above, or open one here.</p>
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
  const shows = (mark: DrawnNode["mark"]) => side === "both" || (side === "before" ? mark !== "came" : mark !== "went");
  return (
    <>
      <div class="toolbar" role="group" aria-label="Side">
        {(["before", "both", "after"] as const).map((each) => (
          <button aria-pressed={side === each} onClick={() => setSide(each)}>
            {each}
          </button>
        ))}
        <span class="muted">+ came (filled), − went (hollow), ~ changed (ringed)</span>
      </div>
      <Canvas nodes={nodes.filter((node) => shows(node.mark))} edges={edges.filter((edge) => shows(edge.mark))} onOpen={(key) => open(graph, key)} />
    </>
  );
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
function toDrawing(entities: readonly EntityChange[], ends: ReadonlyMap<string, readonly [string, string]>): { nodes: DrawnNode[]; edges: DrawnEdge[] } {
  const nodes = new Map<string, DrawnNode>();
  for (const each of entities) {
    if (each.kind !== "node") continue;
    const key = `${each.type}/${each.id}`;
    nodes.set(key, { key, type: each.type, label: each.id, mark: MARKS[each.op] });
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
  return { nodes: [...nodes.values()], edges };
}
