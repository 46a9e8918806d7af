/** The shapes of the server's answers, as far as the page reads them. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Row = Record<string, Json>;

export interface Position {
  readonly line: number;
  readonly column: number;
  readonly end_column?: number;
  readonly text?: string;
}

export interface Problem {
  readonly code: string;
  readonly message: string;
  readonly hint?: string | null;
  readonly position?: Position | null;
}

export interface Conflict {
  readonly table_key: string;
  readonly row_id: string;
  readonly kind: string;
  readonly message: string;
  readonly type?: string;
  readonly id?: string;
  readonly properties?: readonly string[];
  readonly base?: Row | null;
  readonly ours?: Row | null;
  readonly theirs?: Row | null;
}

export interface ErrorBody {
  readonly error: string;
  readonly type: string;
  readonly hint?: string;
  readonly details?: Record<string, Json>;
  readonly problems?: readonly Problem[];
  readonly violations?: readonly Record<string, Json>[];
  readonly merge_conflicts?: readonly Conflict[];
  readonly retry_after?: number;
  readonly request_id?: string;
}

export interface Commit {
  readonly id: string;
  readonly parents: readonly string[];
  readonly branch: string;
  readonly actor: string | null;
  readonly message: string | null;
  readonly time: string;
  readonly manifest_version: number;
  readonly heads?: readonly string[];
  readonly tags?: readonly string[];
}

export interface Caller {
  readonly actor: string;
  readonly role: string;
  readonly token: { readonly id: string; readonly name: string | null; readonly expires_at: string | null };
  readonly graphs: readonly { readonly graph_id: string; readonly actions: readonly string[] }[];
}

export interface GraphItem {
  readonly graph_id: string;
  readonly state: string;
  readonly read_only: boolean;
}

export interface GraphInfo {
  readonly graph_id: string;
  readonly branches: readonly string[];
  readonly head: Commit | null;
  readonly nodes: Record<string, number>;
  readonly edges: Record<string, number>;
  readonly read_only: boolean;
}

export interface Property {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  readonly default: string | null;
  readonly description: string | null;
}

export interface NodeType {
  readonly name: string;
  readonly key: readonly string[] | null;
  readonly unique: readonly (readonly string[])[];
  readonly indexes: readonly (readonly string[])[];
  readonly implements: readonly string[];
  readonly description: string | null;
  readonly properties: readonly Property[];
}

export interface EdgeType {
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly description: string | null;
  readonly properties: readonly Property[];
}

export interface Catalog {
  readonly nodes: readonly NodeType[];
  readonly edges: readonly EdgeType[];
  readonly hash: string;
  readonly commit: string | null;
}

export interface Branch {
  readonly name: string;
  readonly head: string | null;
  readonly parent: string | null;
  readonly created_at: string | null;
  readonly protected: boolean;
}

export interface Tag {
  readonly name: string;
  readonly commit: string;
  readonly branch: string;
  readonly created_at: string;
  readonly actor: string | null;
}

export interface TypeChanges {
  readonly kind: "node" | "edge";
  readonly type: string;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

export interface EntityChange {
  readonly op: "inserted" | "updated" | "deleted";
  readonly kind: "node" | "edge";
  readonly type: string;
  readonly id: string;
  readonly before: Row | null;
  readonly after: Row | null;
  readonly changed: readonly string[];
}

export interface Side {
  readonly branch: string;
  readonly commit: string | null;
}

export interface Diff {
  readonly before: Side;
  readonly after: Side;
  readonly summary: readonly TypeChanges[];
  readonly entities?: readonly EntityChange[];
  readonly next: string | number | null;
  readonly types_hidden: boolean;
}

export interface QueryResult {
  readonly query_name: string;
  readonly columns: readonly string[];
  readonly rows: readonly Row[];
  readonly row_count: number;
  readonly types: Record<string, string>;
  readonly branch: string;
  readonly commit: string | null;
  readonly next: { readonly at: string; readonly offset: number } | null;
  readonly elapsed_ms?: number;
}

export interface Entity {
  readonly entity: "node" | "edge";
  readonly type: string;
  readonly id: string;
  readonly properties: Row;
  readonly types: Record<string, string>;
  readonly degrees?: readonly Degree[];
  readonly commit: string | null;
}

export interface Degree {
  readonly edge: string;
  readonly direction: "in" | "out";
  readonly count: number;
}

export interface Neighbours {
  readonly edges: readonly { readonly type: string; readonly id: string; readonly from: string; readonly to: string; readonly direction: "in" | "out" }[];
  readonly nodes: readonly { readonly type: string; readonly id: string; readonly label: string }[];
  readonly next: { readonly at: string; readonly offset: number } | null;
}

export interface HistoryEntry extends Omit<EntityChange, "kind" | "type" | "id"> {
  readonly commit: Commit;
}

export interface MergeAnswer {
  readonly outcome?: string;
  readonly commit: string | null;
  readonly base: string | null;
  readonly target_commit?: string | null;
  readonly nodes: Record<string, Json>;
  readonly edges: Record<string, Json>;
  readonly conflicts: readonly Conflict[];
  readonly branch_deleted?: boolean;
  readonly branch_kept?: string | null;
}

export interface StoredQuery {
  readonly name: string;
  readonly description: string | null;
  readonly mutation: boolean;
  readonly problems?: readonly Problem[];
}

export interface LintAnswer {
  readonly results: readonly { readonly name: string; readonly problems?: readonly Problem[] }[];
  readonly findings?: readonly Problem[];
}
