/** A worker that lays a graph out by forces, a few rounds at a time, for at most three seconds. */

import Graph from "graphology";
import forceAtlas2 from "graphology-layout-forceatlas2";

export interface LayoutRequest {
  readonly nodes: readonly (readonly [string, number, number, boolean])[];
  readonly edges: readonly (readonly [string, string])[];
}

const SECONDS = 3;
const ROUNDS = 5;
let run = 0;

addEventListener("message", (event: MessageEvent<LayoutRequest | "stop">) => {
  run += 1;
  if (event.data === "stop") return;
  const graph = new Graph({ multi: false, type: "undirected" });
  for (const [name, x, y, fixed] of event.data.nodes) graph.addNode(name, { x, y, fixed });
  for (const [from, to] of event.data.edges) if (from !== to) graph.mergeEdge(from, to);
  const settings = { ...forceAtlas2.inferSettings(graph), adjustSizes: false, barnesHutOptimize: graph.order > 800, strongGravityMode: true, gravity: graph.order < 500 ? 0.3 : 0.02 };
  const end = performance.now() + SECONDS * 1000;
  const own = run;
  const step = () => {
    if (own !== run || graph.order === 0) return;
    forceAtlas2.assign(graph, { iterations: ROUNDS, settings });
    postMessage(graph.mapNodes((name, attributes) => [name, attributes["x"] as number, attributes["y"] as number]));
    if (performance.now() < end) setTimeout(step, 0);
    else postMessage("done");
  };
  step();
});
