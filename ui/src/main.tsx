/** The page: who is signed in, which view the address names, and the frame around it. */

import { render } from "preact";
import { lazy, Suspense } from "preact/compat";
import { useEffect, useState } from "preact/hooks";
import { get, onSignOut, post, signIn, token, untilLoaded } from "./api";
import { NotFound } from "./loading";
import { GraphList } from "./pages/graphs";
import { SignIn } from "./pages/signin";
import { navigate, usePlace } from "./router";
import { Shell } from "./shell";
import { applyLook } from "./theme";
import type { SessionAnswer } from "./requests";
import type { Caller } from "./wire";

const views = {
  "": lazy(() => untilLoaded(() => import("./pages/overview").then((m) => m.Overview))),
  schema: lazy(() => untilLoaded(() => import("./pages/schema").then((m) => m.SchemaView))),
  explore: lazy(() => untilLoaded(() => import("./pages/explore").then((m) => m.Explore))),
  query: lazy(() => untilLoaded(() => import("./pages/query").then((m) => m.QueryView))),
  compare: lazy(() => untilLoaded(() => import("./pages/compare").then((m) => m.Compare))),
  commits: lazy(() => untilLoaded(() => import("./pages/commits").then((m) => m.Commits))),
  diff: lazy(() => untilLoaded(() => import("./pages/diff").then((m) => m.DiffView))),
  review: lazy(() => untilLoaded(() => import("./pages/review").then((m) => m.Review))),
  entity: lazy(() => untilLoaded(() => import("./pages/entity").then((m) => m.EntityView))),
  branches: lazy(() => untilLoaded(() => import("./pages/branches").then((m) => m.Branches))),
  tags: lazy(() => untilLoaded(() => import("./pages/branches").then((m) => m.Tags))),
  changes: lazy(() => untilLoaded(() => import("./pages/changes").then((m) => m.ChangeFeed))),
  health: lazy(() => untilLoaded(() => import("./pages/health").then((m) => m.HealthView))),
  load: lazy(() => untilLoaded(() => import("./pages/load").then((m) => m.LoadView))),
  access: lazy(() => untilLoaded(() => import("./pages/access").then((m) => m.Access))),
} as const;

/** What changes a branch. Branches and tags can be made at a moment of the past. */
const WRITING: ReadonlySet<string> = new Set(["change", "branch_merge", "schema_apply"]);

export interface ViewProps {
  readonly graph: string;
  /** What follows the name of the view in the path. */
  readonly rest: readonly string[];
  /** What the caller may do here. A moment of the past is only read. */
  readonly actions: ReadonlySet<string>;
  readonly actor: string;
}

function Page() {
  const place = usePlace();
  const [caller, setCaller] = useState<Caller | null>(null);
  const [isReady, setReady] = useState(false);
  const ask = () =>
    get<Caller>("/whoami").then(
      (found) => {
        setCaller(found);
        setReady(true);
      },
      () => setReady(true),
    );
  useEffect(() => {
    void ask();
    return onSignOut(() => setCaller(null));
  }, []);
  if (!isReady) return null;
  if (caller === null) return <SignIn done={ask} />;
  const [root, graph, name = "", ...rest] = place.path;
  if (root === undefined) return <GraphList caller={caller} />;
  if (root !== "ui" || graph === undefined) return <NotFound />;
  const allowed = caller.graphs.find((each) => each.graph_id === graph)?.actions ?? [];
  const actions = new Set(place.search.get("at") ? allowed.filter((action) => !WRITING.has(action)) : allowed);
  const View = name in views ? views[name as keyof typeof views] : null;
  return (
    <Shell graph={graph} view={name} caller={caller} actions={new Set(allowed)} place={place}>
      {View ? (
        <Suspense fallback={null}>
          {/* Another entity, commit or branch begins anew: a form or a preview of the one before is not for it. */}
          <View key={place.path.join("/")} graph={graph} rest={rest} actions={actions} actor={caller.actor} />
        </Suspense>
      ) : (
        <NotFound graph={graph} />
      )}
    </Shell>
  );
}

/** Exchange the one-time code of the address for a token, after erasing it from the address. */
async function takeCode(): Promise<void> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return;
  navigate(location.pathname + location.search, true);
  try {
    signIn((await post<SessionAnswer>("/session", { code })).token);
  } catch {
    // The form to sign in is shown, which says what to do.
    if (token() === null) sessionStorage.setItem("omnigraph-code", "used");
  }
}

applyLook();
void takeCode().then(() => {
  const root = document.getElementById("page");
  if (root) render(<Page />, root);
});
