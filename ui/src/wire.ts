/** The names that the page has for the server's answers. Their shapes are made from the description of the routes. */

import type { BlockAnswer, BranchAnswer, CallerAnswer, CatalogAnswer, CommitAnswer, ConflictAnswer, DegreeAnswer, DiffAnswer, DiffSideAnswer, EdgeTypeAnswer, EntityAnswer, EntityChangeAnswer, GraphAnswer, HistoryAnswer, LoadAnswer, MergeAnswer, NeighborsAnswer, NodeTypeAnswer, OperationAnswer, PolicyAnswer, ProblemAnswer, PropertyAnswer, RecoveryAnswer, RevisionAnswer, RowsAnswer, RunningRequestAnswer, SchemaPlanAnswer, StoredQueryAnswer, TableHealthAnswer, TagAnswer, TypeChangesAnswer } from "./requests";

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Row = Record<string, Json>;

export type Conflict = ConflictAnswer;
export type Commit = CommitAnswer;
export type Caller = CallerAnswer;
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
export type Plan = SchemaPlanAnswer;
export type Problem = ProblemAnswer;
export type StoredQuery = StoredQueryAnswer;
export type Operation = OperationAnswer;
export type Recovery = RecoveryAnswer;
export type TableHealth = TableHealthAnswer;
export type RunningRequest = RunningRequestAnswer;
export type Decision = PolicyAnswer;
export type Block = BlockAnswer;
export type { LoadAnswer, MergeAnswer };
