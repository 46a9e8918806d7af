/** What the routes of a graph take. Made from docs/reference/openapi.json by `make openapi`: do not edit. */

export interface Reads {
  readonly "/": Record<string, never>;
  readonly "/analyses": {
    readonly branch?: string | null | undefined;
  };
  readonly "/ancestry": {
    readonly before?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly upkeep?: boolean | null | undefined;
  };
  readonly "/blob": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly entity?: "node" | "edge" | null | undefined;
    readonly id: string;
    readonly property: string;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/branches": Record<string, never>;
  readonly "/branches/{branch}": Record<string, never>;
  readonly "/changes": {
    readonly branch?: string | null | undefined;
    readonly cursor?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly start?: string | null | undefined;
    readonly type?: readonly (string)[] | null | undefined;
    readonly wait_ms?: number | null | undefined;
  };
  readonly "/changes/baseline": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly type?: readonly (string)[] | null | undefined;
  };
  readonly "/commits": {
    readonly actor?: string | null | undefined;
    readonly before?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly key?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly since?: string | null | undefined;
    readonly txn?: string | null | undefined;
    readonly until?: string | null | undefined;
    readonly upkeep?: boolean | null | undefined;
  };
  readonly "/commits/{commit}": Record<string, never>;
  readonly "/diff": {
    readonly a?: string | null | undefined;
    readonly b?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly commit?: string | null | undefined;
    readonly cursor?: number | null | undefined;
    readonly limit?: number | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly op?: readonly (string)[] | null | undefined;
    readonly type?: readonly (string)[] | null | undefined;
    readonly view?: "summary" | "entities" | null | undefined;
  };
  readonly "/entity": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly columns?: readonly (string)[] | null | undefined;
    readonly entity?: "node" | "edge" | null | undefined;
    readonly id: string;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/entity/degrees": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly id: string;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/entity/history": {
    readonly at?: string | null | undefined;
    readonly before?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly entity?: "node" | "edge" | null | undefined;
    readonly id: string;
    readonly limit?: number | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/entity/neighbors": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly direction?: "out" | "in" | "both" | null | undefined;
    readonly edge?: string | null | undefined;
    readonly id: string;
    readonly limit?: number | null | undefined;
    readonly offset?: number | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/health": {
    readonly branch?: string | null | undefined;
  };
  readonly "/operations": Record<string, never>;
  readonly "/operations/{operation}": Record<string, never>;
  readonly "/policy/explain": {
    readonly action: "read" | "export" | "change" | "schema_apply" | "branch_create" | "branch_delete" | "branch_merge" | "tag" | "invoke_query" | "graph_list" | "admin";
    readonly actor?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly query?: string | null | undefined;
    readonly target_branch?: string | null | undefined;
    readonly type?: string | null | undefined;
  };
  readonly "/queries": Record<string, never>;
  readonly "/queries/{name}": Record<string, never>;
  readonly "/recoveries": Record<string, never>;
  readonly "/requests": Record<string, never>;
  readonly "/rows": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly columns?: readonly (string)[] | null | undefined;
    readonly entity?: "node" | "edge" | null | undefined;
    readonly filter?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly type: string;
  };
  readonly "/schema": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly view?: "source" | "catalog" | null | undefined;
  };
  readonly "/settings": Record<string, never>;
  readonly "/snapshot": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly snapshot?: string | null | undefined;
  };
  readonly "/tags": Record<string, never>;
}

export interface Bodies {
  readonly "/branches": {
    readonly from?: string | null | undefined;
    readonly name: string;
  };
  readonly "/branches/merge": {
    readonly by?: "row" | "property" | null | undefined;
    readonly delete_branch?: boolean | null | undefined;
    readonly dry_run?: boolean | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly prefer?: "ours" | "theirs" | null | undefined;
    readonly resolve?: Record<string, unknown> | null | undefined;
    readonly source: string;
    readonly target?: string | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/change": {
    readonly branch?: string | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly name?: string | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly retries?: number | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/explain": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly name?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
    readonly timeout_ms?: number | null | undefined;
  };
  readonly "/export": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly table_keys?: readonly (string)[] | null | undefined;
    readonly type_names?: readonly (string)[] | null | undefined;
  };
  readonly "/ingest": {
    readonly branch?: string | null | undefined;
    readonly check?: boolean | null | undefined;
    readonly data: string;
    readonly from?: string | null | undefined;
    readonly identity?: Record<string, unknown> | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly mode?: "append" | "merge" | "overwrite" | "update" | null | undefined;
    readonly on_error?: "fail" | "quarantine" | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/lint": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
  };
  readonly "/load": {
    readonly branch?: string | null | undefined;
    readonly check?: boolean | null | undefined;
    readonly data: string;
    readonly from?: string | null | undefined;
    readonly identity?: Record<string, unknown> | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly mode?: "append" | "merge" | "overwrite" | "update" | null | undefined;
    readonly on_error?: "fail" | "quarantine" | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/mcp": Record<string, unknown>;
  readonly "/merges": {
    readonly by?: "row" | "property" | null | undefined;
    readonly delete_branch?: boolean | null | undefined;
    readonly dry_run?: boolean | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly prefer?: "ours" | "theirs" | null | undefined;
    readonly resolve?: Record<string, unknown> | null | undefined;
    readonly source: string;
    readonly target?: string | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/mutate": {
    readonly branch?: string | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly name?: string | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly retries?: number | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/operations": {
    readonly args?: Record<string, unknown> | null | undefined;
    readonly kind: "index" | "optimize" | "cleanup" | "repair" | "verify" | "embed";
  };
  readonly "/profile": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly name?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
    readonly timeout_ms?: number | null | undefined;
  };
  readonly "/queries/{name}": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly expect_mutation?: boolean | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly message?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly snapshot?: string | null | undefined;
    readonly timeout_ms?: number | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/query": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly name?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
    readonly timeout_ms?: number | null | undefined;
  };
  readonly "/read": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly limit?: number | null | undefined;
    readonly name?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly offset?: number | null | undefined;
    readonly params?: Record<string, unknown> | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
    readonly timeout_ms?: number | null | undefined;
  };
  readonly "/reverts": {
    readonly branch?: string | null | undefined;
    readonly by?: "row" | "property" | null | undefined;
    readonly commit: string;
    readonly dry_run?: boolean | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly numbers?: "native" | "safe" | null | undefined;
    readonly prefer?: "ours" | "theirs" | null | undefined;
    readonly resolve?: Record<string, unknown> | null | undefined;
    readonly side?: number | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/schema/apply": {
    readonly allow_data_loss?: boolean | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly rewrite_ids?: boolean | null | undefined;
    readonly schema_source: string;
    readonly txn?: string | null | undefined;
  };
  readonly "/schema/plan": {
    readonly allow_data_loss?: boolean | null | undefined;
    readonly schema_source: string;
  };
  readonly "/settings": {
    readonly keep?: string | null | undefined;
  };
  readonly "/tags": {
    readonly branch?: string | null | undefined;
    readonly name: string;
    readonly ref?: string | null | undefined;
  };
  readonly "/transaction": {
    readonly branch?: string | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly steps: readonly ({
      readonly name?: string | null | undefined;
      readonly params?: Record<string, unknown> | null | undefined;
      readonly query: string;
    })[];
    readonly txn?: string | null | undefined;
  };
}

export type RouteError = {
  readonly code?: string | null | undefined;
  readonly details?: Record<string, unknown> | null | undefined;
  readonly error: string;
  readonly hint?: string | null | undefined;
  readonly manifest_conflict?: Record<string, unknown> | null | undefined;
  readonly merge_conflicts?: readonly (Record<string, unknown>)[] | null | undefined;
  readonly position?: Record<string, unknown> | null | undefined;
  readonly problems?: readonly (Record<string, unknown>)[] | null | undefined;
  readonly request_id: string;
  readonly retry_after?: number | null | undefined;
  readonly type: string;
  readonly violations?: readonly (Record<string, unknown>)[] | null | undefined;
};
