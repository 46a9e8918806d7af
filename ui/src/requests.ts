/** What the routes take and answer. Made from docs/reference/openapi.json by `make openapi`: do not edit. */

import type { Json } from "./wire";

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
    readonly tips?: boolean | null | undefined;
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

export interface ReadAnswers {
  readonly "/": GraphAnswer;
  readonly "/analyses": unknown;
  readonly "/ancestry": CommitsAnswer;
  readonly "/blob": unknown;
  readonly "/branches": BranchesAnswer;
  readonly "/branches/{branch}": BranchAnswer;
  readonly "/changes": FeedAnswer;
  readonly "/changes/baseline": unknown;
  readonly "/commits": CommitsAnswer;
  readonly "/commits/{commit}": CommitAnswer;
  readonly "/diff": DiffAnswer;
  readonly "/entity": EntityAnswer;
  readonly "/entity/degrees": DegreesAnswer;
  readonly "/entity/history": HistoryAnswer;
  readonly "/entity/neighbors": NeighborsAnswer;
  readonly "/health": GraphHealthAnswer;
  readonly "/operations": OperationsAnswer;
  readonly "/operations/{operation}": OneOperationAnswer;
  readonly "/policy/explain": PolicyAnswer;
  readonly "/queries": StoredQueriesAnswer;
  readonly "/queries/{name}": StoredQueryAnswer;
  readonly "/recoveries": RecoveriesAnswer;
  readonly "/requests": RequestsAnswer;
  readonly "/rows": RowsAnswer;
  readonly "/schema": CatalogAnswer | SchemaTextAnswer;
  readonly "/settings": SettingsAnswer;
  readonly "/snapshot": SnapshotAnswer;
  readonly "/tags": TagsAnswer;
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
    readonly allow_empty?: boolean | null | undefined;
    readonly branch?: string | null | undefined;
    readonly check?: boolean | null | undefined;
    readonly data: string;
    readonly from?: string | null | undefined;
    readonly identity?: Record<string, readonly (string)[]> | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly mode?: "append" | "merge" | "overwrite" | "update" | null | undefined;
    readonly on_error?: "fail" | "quarantine" | null | undefined;
    readonly strict?: boolean | null | undefined;
    readonly txn?: string | null | undefined;
  };
  readonly "/lint": {
    readonly at?: string | null | undefined;
    readonly branch?: string | null | undefined;
    readonly query: string;
    readonly snapshot?: string | null | undefined;
  };
  readonly "/load": {
    readonly allow_empty?: boolean | null | undefined;
    readonly branch?: string | null | undefined;
    readonly check?: boolean | null | undefined;
    readonly data: string;
    readonly from?: string | null | undefined;
    readonly identity?: Record<string, readonly (string)[]> | null | undefined;
    readonly if_commit?: string | null | undefined;
    readonly message?: string | null | undefined;
    readonly mode?: "append" | "merge" | "overwrite" | "update" | null | undefined;
    readonly on_error?: "fail" | "quarantine" | null | undefined;
    readonly strict?: boolean | null | undefined;
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

export interface BodyAnswers {
  readonly "/branches": NamedBranchAnswer;
  readonly "/branches/merge": MergeAnswer;
  readonly "/change": MutationAnswer;
  readonly "/explain": ExplainAnswer;
  readonly "/export": unknown;
  readonly "/ingest": LoadAnswer;
  readonly "/lint": LintAnswer;
  readonly "/load": LoadAnswer;
  readonly "/mcp": unknown;
  readonly "/merges": MergeAnswer;
  readonly "/mutate": MutationAnswer;
  readonly "/operations": OneOperationAnswer;
  readonly "/profile": ProfileAnswer;
  readonly "/queries/{name}": RowsAnswer | MutationAnswer;
  readonly "/query": RowsAnswer;
  readonly "/read": RowsAnswer;
  readonly "/reverts": MergeAnswer;
  readonly "/schema/apply": SchemaAppliedAnswer;
  readonly "/schema/plan": SchemaPlanAnswer;
  readonly "/settings": SettingsAnswer;
  readonly "/tags": TagAnswer;
  readonly "/transaction": TransactionAnswer;
}

export type AllowedGraphAnswer = {
  readonly actions: readonly (string)[];
  readonly graph_id: string;
};

export type BlockAnswer = {
  readonly changes: readonly (EntityChangeAnswer)[];
  readonly commit: CommitAnswer;
  readonly cursor: string;
};

export type BranchAnswer = {
  readonly created_at: string | null;
  readonly head: string | null;
  readonly name: string;
  readonly parent: string | null;
  readonly protected: boolean;
};

export type BranchesAnswer = {
  readonly branches: readonly (string)[];
  readonly items: readonly (BranchAnswer)[];
};

export type CallerAnswer = {
  readonly actor: string;
  readonly graphs: readonly (AllowedGraphAnswer)[];
  readonly role: string;
  readonly token: TokenAnswer;
};

export type CardinalityAnswer = {
  readonly maximum: number | null;
  readonly minimum: number;
};

export type CatalogAnswer = {
  readonly commit: string | null;
  readonly edges: readonly (EdgeTypeAnswer)[];
  readonly hash: string;
  readonly nodes: readonly (NodeTypeAnswer)[];
};

export type CommitAnswer = {
  readonly actor: string | null;
  readonly analyses: readonly (WrittenAnalysisAnswer)[];
  readonly branch: string;
  readonly heads?: readonly (string)[] | null | undefined;
  readonly id: string;
  readonly manifest_version: number;
  readonly message: string | null;
  readonly parents: readonly (string)[];
  readonly tags?: readonly (string)[] | null | undefined;
  readonly time: string;
  readonly txn: string | null;
  readonly upkeep: boolean;
};

export type CommitsAnswer = {
  readonly commits: readonly (CommitAnswer)[];
  readonly next: string | null;
};

export type ConflictAnswer = {
  readonly base?: Record<string, Json> | null | undefined;
  readonly id: string;
  readonly kind: string;
  readonly message: string;
  readonly ours?: Record<string, Json> | null | undefined;
  readonly properties?: readonly (string)[] | null | undefined;
  readonly row_id: string;
  readonly table_key: string;
  readonly theirs?: Record<string, Json> | null | undefined;
  readonly type: string;
};

export type DegreeAnswer = {
  readonly count: number;
  readonly direction: "in" | "out";
  readonly edge: string;
};

export type DegreesAnswer = {
  readonly branch: string;
  readonly commit: string | null;
  readonly degrees: readonly (DegreeAnswer)[];
  readonly types_hidden: boolean;
};

export type DiffAnswer = {
  readonly after: DiffSideAnswer;
  readonly before: DiffSideAnswer;
  readonly entities?: readonly (EntityChangeAnswer)[] | null | undefined;
  readonly next: number | null;
  readonly summary: readonly (TypeChangesAnswer)[];
  readonly types_hidden: boolean;
};

export type DiffSideAnswer = {
  readonly branch: string;
  readonly commit: string | null;
};

export type EdgeTypeAnswer = {
  readonly cardinality: CardinalityAnswer;
  readonly description: string | null;
  readonly from: string;
  readonly indexes: readonly (readonly (string)[])[];
  readonly name: string;
  readonly properties: readonly (PropertyAnswer)[];
  readonly to: string;
  readonly unique: readonly (readonly (string)[])[];
};

export type EntityAnswer = {
  readonly commit: string | null;
  readonly degrees?: readonly (DegreeAnswer)[] | null | undefined;
  readonly entity: "node" | "edge";
  readonly id: string;
  readonly properties: Record<string, Json>;
  readonly type: string;
  readonly types: Record<string, string>;
};

export type EntityChangeAnswer = {
  readonly after: Record<string, Json> | null;
  readonly before: Record<string, Json> | null;
  readonly changed: readonly (string)[];
  readonly id: string;
  readonly kind: "node" | "edge";
  readonly op: "inserted" | "updated" | "deleted";
  readonly type: string;
};

export type EstimateAnswer = {
  readonly hops: number | null;
  readonly read_bytes: number | null;
  readonly read_rows: number | null;
  readonly rows: number | null;
};

export type ExplainAnswer = {
  readonly branch: string | null;
  readonly commit: string | null;
  readonly estimate: EstimateAnswer;
  readonly plan: string;
  readonly query_name: string | null;
};

export type FailureAnswer = {
  readonly code: string | null;
  readonly details?: Record<string, Json> | null | undefined;
  readonly error: string;
  readonly groups?: readonly (Record<string, Json>)[] | null | undefined;
  readonly hint?: string | null | undefined;
  readonly manifest_conflict?: Record<string, Json> | null | undefined;
  readonly merge_conflicts?: readonly (ConflictAnswer)[] | null | undefined;
  readonly position?: PositionAnswer | null | undefined;
  readonly problems?: readonly (ProblemAnswer | string)[] | null | undefined;
  readonly request_id: string;
  readonly retry_after?: number | null | undefined;
  readonly type: string;
  readonly violations?: readonly (Record<string, Json>)[] | null | undefined;
};

export type FeedAnswer = {
  readonly at_end: boolean;
  readonly blocks: readonly (BlockAnswer)[];
  readonly branch: string;
  readonly cursor: string;
  readonly types_hidden: boolean;
};

export type FoundEdgeAnswer = {
  readonly direction: "in" | "out";
  readonly from: string;
  readonly id: string;
  readonly to: string;
  readonly type: string;
};

export type FoundNodeAnswer = {
  readonly id: string;
  readonly label: string;
  readonly type: string;
};

export type GraphAnswer = {
  readonly branches: readonly (string)[];
  readonly edges: Record<string, number>;
  readonly graph_id: string;
  readonly head: CommitAnswer | null;
  readonly nodes: Record<string, number>;
};

export type GraphHealthAnswer = {
  readonly branch: string;
  readonly branches: number;
  readonly commits: number;
  readonly last_cleanup: string | null;
  readonly locks: string;
  readonly manifest_rows: number;
  readonly sidecars: number;
  readonly tables: readonly (TableHealthAnswer)[];
};

export type GraphsAnswer = {
  readonly graphs: readonly (ListedGraphAnswer)[];
};

export type HistoryAnswer = {
  readonly entries: readonly (RevisionAnswer)[];
  readonly next: string | null;
};

export type IndexHealthAnswer = {
  readonly column: string;
  readonly kind: string;
  readonly rows: number;
};

export type LeftOutAnswer = {
  readonly count: number;
  readonly property?: string | null | undefined;
  readonly reason: string;
  readonly table_key: string;
  readonly type: string;
};

export type LintAnswer = {
  readonly branch: string;
  readonly commit: string | null;
  readonly errors: number;
  readonly findings: readonly (Record<string, Json>)[];
  readonly queries_processed: number;
  readonly results: readonly (LintedQueryAnswer)[];
  readonly status: string;
};

export type LintedQueryAnswer = {
  readonly error?: string | null | undefined;
  readonly kind: string;
  readonly name: string;
  readonly problems?: readonly (ProblemAnswer)[] | null | undefined;
  readonly status: string;
};

export type ListedGraphAnswer = {
  readonly graph_id: string;
  readonly read_only: boolean;
  readonly state: string;
};

export type LoadAnswer = {
  readonly branch: string;
  readonly branch_created: boolean;
  readonly commit: string | null;
  readonly counts: Record<string, RecordCountsAnswer>;
  readonly edges: Record<string, number>;
  readonly mode: string;
  readonly nodes: Record<string, number>;
  readonly notes: readonly (string)[];
  readonly rejected: number;
  readonly rejects: readonly (unknown)[];
  readonly rejects_truncated: boolean;
  readonly replayed: boolean;
  readonly rounded: readonly (RoundedColumnAnswer)[];
};

export type MergeAnswer = {
  readonly base: string | null;
  readonly branch_deleted?: boolean | null | undefined;
  readonly branch_kept?: string | null | undefined;
  readonly commit: string | null;
  readonly conflicts: readonly (ConflictAnswer)[];
  readonly edges: Record<string, Json>;
  readonly left_out: readonly (LeftOutAnswer)[];
  readonly nodes: Record<string, Json>;
  readonly outcome: string;
  readonly target_commit: string | null;
};

export type MutationAnswer = {
  readonly affected_edges: number;
  readonly affected_nodes: number;
  readonly branch: string;
  readonly commit: string | null;
  readonly query_name: string;
  readonly replayed: boolean;
  readonly rounded: readonly (RoundedColumnAnswer)[];
};

export type NamedBranchAnswer = {
  readonly commit: string | null;
  readonly name: string;
};

export type NeighborsAnswer = {
  readonly edges: readonly (FoundEdgeAnswer)[];
  readonly next: PageAnswer | null;
  readonly nodes: readonly (FoundNodeAnswer)[];
};

export type NodeTypeAnswer = {
  readonly description: string | null;
  readonly implements: readonly (string)[];
  readonly indexes: readonly (readonly (string)[])[];
  readonly key: readonly (string)[] | null;
  readonly name: string;
  readonly properties: readonly (PropertyAnswer)[];
  readonly unique: readonly (readonly (string)[])[];
};

export type OneOperationAnswer = {
  readonly operation: OperationAnswer;
};

export type OperationAnswer = {
  readonly actor: string;
  readonly commit: string | null;
  readonly ended_at: string | null;
  readonly error: Record<string, Json> | null;
  readonly id: string;
  readonly kind: string;
  readonly progress: unknown;
  readonly result: unknown;
  readonly started_at: string;
  readonly state: "running" | "succeeded" | "failed" | "cancelled" | "lost";
};

export type OperationsAnswer = {
  readonly operations: readonly (OperationAnswer)[];
};

export type PageAnswer = {
  readonly at: string | null;
  readonly offset: number;
};

export type PolicyAnswer = {
  readonly allowed: boolean;
  readonly asks: readonly (PolicyAskAnswer)[];
  readonly message: string;
  readonly rule: string | null;
};

export type PolicyAskAnswer = {
  readonly allowed: boolean;
  readonly rule: string | null;
  readonly target: string;
};

export type PositionAnswer = {
  readonly column: number;
  readonly end_column?: number | null | undefined;
  readonly line: number;
  readonly text?: string | null | undefined;
};

export type ProblemAnswer = {
  readonly code?: string | null | undefined;
  readonly field?: string | null | undefined;
  readonly hint?: string | null | undefined;
  readonly message: string;
  readonly parameter?: string | null | undefined;
  readonly position?: PositionAnswer | null | undefined;
};

export type ProfileAnswer = {
  readonly branch: string | null;
  readonly commit: string | null;
  readonly milliseconds: number;
  readonly plan: Record<string, Json>;
  readonly query_name: string | null;
  readonly row_count: number;
  readonly text: string;
};

export type PropertyAnswer = {
  readonly default: string | null;
  readonly description: string | null;
  readonly name: string;
  readonly nullable: boolean;
  readonly type: string;
};

export type RecordCountsAnswer = {
  readonly inserted: number;
  readonly rejected: number;
  readonly skipped: number;
  readonly unchanged: number;
  readonly updated: number;
};

export type RecoveriesAnswer = {
  readonly recoveries: readonly (RecoveryAnswer)[];
};

export type RecoveryAnswer = {
  readonly created_at: string;
  readonly for_actor: string | null;
  readonly graph_commit_id: string;
  readonly kind: string;
  readonly operation_id: string;
  readonly outcomes: readonly (TableOutcomeAnswer)[];
  readonly writer_kind: string;
};

export type RequestsAnswer = {
  readonly requests: readonly (RunningRequestAnswer)[];
};

export type RevisionAnswer = {
  readonly after: Record<string, Json> | null;
  readonly before: Record<string, Json> | null;
  readonly changed: readonly (string)[];
  readonly commit: CommitAnswer;
  readonly op: "inserted" | "updated" | "deleted";
  readonly type: string;
};

export type RoundedColumnAnswer = {
  readonly count: number;
  readonly file: string | null;
  readonly line: number | null;
  readonly property: string;
  readonly table_key: string | null;
  readonly type: string;
};

export type RowsAnswer = {
  readonly branch: string;
  readonly columns: readonly (string)[];
  readonly commit: string | null;
  readonly elapsed_ms?: number | null | undefined;
  readonly next: PageAnswer | null;
  readonly query_name: string;
  readonly row_count: number;
  readonly rows: readonly (Record<string, Json>)[];
  readonly types: Record<string, string>;
};

export type RunningRequestAnswer = {
  readonly actor: string;
  readonly deadline_ms: number | null;
  readonly request_id: string;
  readonly route: string;
  readonly since_ms: number;
};

export type SchemaAppliedAnswer = {
  readonly applied: boolean;
  readonly commit: string | null;
  readonly replayed: boolean;
  readonly step_count: number;
  readonly steps: readonly (Record<string, Json>)[];
  readonly supported: boolean;
};

export type SchemaPlanAnswer = {
  readonly breaks: readonly (string)[];
  readonly hints: readonly (string)[];
  readonly steps: readonly (Record<string, Json>)[];
  readonly supported: boolean;
};

export type SchemaTextAnswer = {
  readonly commit: string | null;
  readonly hash: string;
  readonly schema_source: string;
};

export type SessionAnswer = {
  readonly actor: string;
  readonly expires_at: string | null;
  readonly role: string;
  readonly token: string;
};

export type SettingsAnswer = {
  readonly durability: string | null;
  readonly keep: string | null;
  readonly lock: string | null;
};

export type SnapshotAnswer = {
  readonly branch: string;
  readonly commit: string | null;
  readonly tables: readonly (TableAnswer)[];
};

export type StoredParameterAnswer = {
  readonly kind: string;
  readonly name: string;
  readonly nullable: boolean;
};

export type StoredQueriesAnswer = {
  readonly queries: readonly (StoredQueryAnswer)[];
};

export type StoredQueryAnswer = {
  readonly description: string | null;
  readonly file: string;
  readonly instruction: string | null;
  readonly mutation: boolean;
  readonly name: string;
  readonly params: readonly (StoredParameterAnswer)[];
  readonly problems: readonly (ProblemAnswer)[];
  readonly source?: string | null | undefined;
};

export type TableAnswer = {
  readonly kind: "node" | "edge";
  readonly row_count: number;
  readonly table_key: string;
  readonly type: string;
};

export type TableHealthAnswer = {
  readonly deleted_rows: number;
  readonly fragments: number;
  readonly indexes: readonly (IndexHealthAnswer)[];
  readonly rows: number;
  readonly table_key: string;
};

export type TableOutcomeAnswer = {
  readonly from_version: number;
  readonly table_key: string;
  readonly to_version: number;
};

export type TagAnswer = {
  readonly actor: string | null;
  readonly branch: string;
  readonly commit: string;
  readonly created_at: string;
  readonly name: string;
};

export type TagsAnswer = {
  readonly tags: readonly (TagAnswer)[];
};

export type TokenAnswer = {
  readonly expires_at: string | null;
  readonly id: string;
  readonly name: string | null;
};

export type TransactionAnswer = {
  readonly affected_edges: number;
  readonly affected_nodes: number;
  readonly branch: string;
  readonly commit: string | null;
  readonly replayed: boolean;
  readonly rounded: readonly (RoundedColumnAnswer)[];
  readonly steps: readonly (TransactionStepAnswer)[];
};

export type TransactionStepAnswer = {
  readonly affected_edges: number;
  readonly affected_nodes: number;
  readonly query_name: string;
};

export type TypeChangesAnswer = {
  readonly deleted: number;
  readonly inserted: number;
  readonly kind: "node" | "edge";
  readonly type: string;
  readonly updated: number;
};

export type WrittenAnalysisAnswer = {
  readonly algorithm: string;
  readonly commit: string;
  readonly engine: string;
  readonly parameters: Record<string, Json>;
  readonly projection: Record<string, Json>;
  readonly source: string;
  readonly version: string;
  readonly written: readonly (string)[];
};
