"""What the routes that check, write and keep a graph up answer, and what an error says.

They are held like the answers of reads in ``answers.py``.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from omnigraph.server.messages.answers import CommitAnswer, ConflictAnswer, DegreeAnswer, EntityChangeAnswer, Values

OperationStateAnswer = Literal["running", "succeeded", "failed", "cancelled", "lost"]


class PositionAnswer(TypedDict):
    """A place in a text; lines and columns count from 1."""

    line: int
    column: int
    end_column: NotRequired[int | None]
    text: NotRequired[str | None]


class ProblemAnswer(TypedDict):
    """One thing that is wrong: with a text, which has a code and a place, or with a field or a parameter."""

    message: str
    code: NotRequired[str]
    field: NotRequired[str]
    parameter: NotRequired[str]
    hint: NotRequired[str | None]
    position: NotRequired[PositionAnswer | None]


class FailureAnswer(TypedDict):
    """An error. ``problems`` are of a text or, as sentences, of values."""

    error: str
    code: str | None
    type: str
    request_id: str
    hint: NotRequired[str]
    position: NotRequired[PositionAnswer]
    problems: NotRequired[list[ProblemAnswer | str]]
    violations: NotRequired[list[Values]]
    groups: NotRequired[list[Values]]
    merge_conflicts: NotRequired[list[ConflictAnswer]]
    manifest_conflict: NotRequired[Values]
    details: NotRequired[Values]
    retry_after: NotRequired[int]


class SessionAnswer(TypedDict):
    """A token for the code of a link."""

    token: str
    actor: str
    role: str
    expires_at: str | None


# --------------------------------------------------------------------------------------------- queries


class EstimateAnswer(TypedDict):
    """What a query is estimated to cost; null is unknown."""

    rows: int | None
    hops: int | None
    read_rows: int | None
    read_bytes: int | None


class ExplainAnswer(TypedDict):
    """The plan of a query as a drawn tree."""

    query_name: str | None
    plan: str
    estimate: EstimateAnswer
    branch: str | None
    commit: str | None


class ProfileAnswer(TypedDict):
    """A query that ran, with the time and the rows of its steps; ``text`` is the drawn tree."""

    query_name: str | None
    row_count: int
    milliseconds: float
    plan: Values
    text: str
    branch: str | None
    commit: str | None


class LintedQueryAnswer(TypedDict):
    """One query of a checked text."""

    name: str
    kind: str
    status: str
    error: NotRequired[str]
    problems: NotRequired[list[ProblemAnswer]]


class LintAnswer(TypedDict):
    """What is wrong with the queries of a text."""

    status: str
    queries_processed: int
    errors: int
    results: list[LintedQueryAnswer]
    findings: list[Values]
    branch: str
    commit: str | None


class StoredParameterAnswer(TypedDict):
    """A parameter of a stored query."""

    name: str
    kind: str
    nullable: bool


class StoredQueryAnswer(TypedDict):
    """A stored query; one that is asked for by its name comes with its text."""

    name: str
    description: str | None
    instruction: str | None
    mutation: bool
    params: list[StoredParameterAnswer]
    file: str
    problems: list[ProblemAnswer]
    source: NotRequired[str]


class StoredQueriesAnswer(TypedDict):
    """The stored queries that the caller may invoke."""

    queries: list[StoredQueryAnswer]


class DegreesAnswer(TypedDict):
    """How many edges of each type a node has."""

    degrees: list[DegreeAnswer]
    types_hidden: bool
    branch: str
    commit: str | None


# --------------------------------------------------------------------------------------------- writes


class RoundedColumnAnswer(TypedDict):
    """How many values of a property were rounded, and the place of the first."""

    type: str
    property: str
    count: int
    file: str | None
    line: int | None
    table_key: str | None


class MutationAnswer(TypedDict):
    """A mutation. Without a change there is no commit."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    commit: str | None
    replayed: bool
    rounded: list[RoundedColumnAnswer]


class TransactionStepAnswer(TypedDict):
    """One mutation of a transaction."""

    query_name: str
    affected_nodes: int
    affected_edges: int


class TransactionAnswer(TypedDict):
    """Several mutations in one commit."""

    branch: str
    affected_nodes: int
    affected_edges: int
    commit: str | None
    replayed: bool
    rounded: list[RoundedColumnAnswer]
    steps: list[TransactionStepAnswer]


class RecordCountsAnswer(TypedDict):
    """What became of the records of one type. Each record that was read counts once."""

    inserted: int
    updated: int
    unchanged: int
    rejected: int
    skipped: int


class LoadAnswer(TypedDict):
    """A load, or the check of one; accepted rows by type, and all records by table key."""

    branch: str
    mode: str
    nodes: dict[str, int]
    edges: dict[str, int]
    commit: str | None
    replayed: bool
    branch_created: bool
    rejected: int
    counts: dict[str, RecordCountsAnswer]
    rejects: list[Any]
    rejects_truncated: bool
    notes: list[str]
    rounded: list[RoundedColumnAnswer]


class SchemaPlanAnswer(TypedDict):
    """The steps to a new schema, and the stored queries that it would break."""

    supported: bool
    steps: list[Values]
    hints: list[str]
    breaks: list[str]


class SchemaAppliedAnswer(TypedDict):
    """A changed schema."""

    supported: bool
    applied: bool
    step_count: int
    steps: list[Values]
    commit: str | None
    replayed: bool


class NamedBranchAnswer(TypedDict):
    """A branch that was made or deleted, and the commit at its head."""

    name: str
    commit: str | None


class BlockAnswer(TypedDict):
    """The changes of one commit."""

    commit: CommitAnswer
    changes: list[EntityChangeAnswer]
    cursor: str


class FeedAnswer(TypedDict):
    """Commits with their changes, oldest first, and where to go on."""

    branch: str
    blocks: list[BlockAnswer]
    cursor: str
    types_hidden: bool
    at_end: bool


# --------------------------------------------------------------------------------------------- upkeep


class IndexHealthAnswer(TypedDict):
    """How many rows an index covers."""

    column: str
    kind: str
    rows: int


class TableHealthAnswer(TypedDict):
    """How compact and indexed a table is."""

    table_key: str
    rows: int
    fragments: int
    deleted_rows: int
    indexes: list[IndexHealthAnswer]


class GraphHealthAnswer(TypedDict):
    """What is unfinished in a graph, and the state of its tables."""

    branch: str
    locks: str
    sidecars: int
    branches: int
    commits: int
    manifest_rows: int
    tables: list[TableHealthAnswer]
    last_cleanup: str | None


class RunningRequestAnswer(TypedDict):
    """A request that is under way."""

    request_id: str
    actor: str
    route: str
    since_ms: int
    deadline_ms: int | None


class RequestsAnswer(TypedDict):
    """The requests that the caller may see."""

    requests: list[RunningRequestAnswer]


class OperationAnswer(TypedDict):
    """Work that goes on by itself, or how it ended."""

    id: str
    kind: str
    actor: str
    state: OperationStateAnswer
    progress: Any
    result: Any
    error: Values | None
    commit: str | None
    started_at: str
    ended_at: str | None


class OneOperationAnswer(TypedDict):
    """An operation."""

    operation: OperationAnswer


class OperationsAnswer(TypedDict):
    """The operations that the caller may see."""

    operations: list[OperationAnswer]


class TableOutcomeAnswer(TypedDict):
    """A table of a recovered write: the version that was found, and the one that it shows now."""

    table_key: str
    from_version: int
    to_version: int


class RecoveryAnswer(TypedDict):
    """A write whose process died, and how another one ended it."""

    graph_commit_id: str
    kind: str
    for_actor: str | None
    operation_id: str
    writer_kind: str
    outcomes: list[TableOutcomeAnswer]
    created_at: str


class RecoveriesAnswer(TypedDict):
    """The recoveries of a graph, newest first."""

    recoveries: list[RecoveryAnswer]


class SettingsAnswer(TypedDict):
    """What a graph keeps for all who open it."""

    lock: str | None
    durability: str | None
    keep: str | None


class PolicyAskAnswer(TypedDict):
    """One question to the policy."""

    target: str
    allowed: bool
    rule: str | None


class PolicyAnswer(TypedDict):
    """Whether an actor may do something, and which rule says so."""

    allowed: bool
    rule: str | None
    message: str
    asks: list[PolicyAskAnswer]
