/** The names that the page has for the server's answers. Their shapes are made from the description of the routes. */

import type { BranchAnswer, CallerAnswer, CatalogAnswer, CommitAnswer, ConflictAnswer, DegreeAnswer, DiffAnswer, DiffSideAnswer, EdgeTypeAnswer, EntityAnswer, EntityChangeAnswer, GraphAnswer, HistoryAnswer, ListedGraphAnswer, MergeAnswer, NeighborsAnswer, NodeTypeAnswer, PropertyAnswer, RevisionAnswer, RowsAnswer, TagAnswer, TypeChangesAnswer } from "./requests";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Row = Record<string, Json>;

export type Conflict = ConflictAnswer;
export type Commit = CommitAnswer;
export type Caller = CallerAnswer;
export type GraphItem = ListedGraphAnswer;
export type GraphInfo = GraphAnswer;
export type Property = PropertyAnswer;
export type NodeType = NodeTypeAnswer;
export type EdgeType = EdgeTypeAnswer;
export type Catalog = CatalogAnswer;
export type Branch = BranchAnswer;
export type Tag = TagAnswer;
export type TypeChanges = TypeChangesAnswer;
export type EntityChange = EntityChangeAnswer;
export type Side = DiffSideAnswer;
export type Diff = DiffAnswer;
export type QueryResult = RowsAnswer;
export type Entity = EntityAnswer;
export type Degree = DegreeAnswer;
export type Neighbours = NeighborsAnswer;
export type History = HistoryAnswer;
export type HistoryEntry = RevisionAnswer;
export type { MergeAnswer };

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
