"""What the routes answer, as far as their clients rely on it: the description of the routes is made from these types.

An answer may have more than is named here, and has at least this. It is built by the functions of ``wire.py``; the
tests of the server compare every answer with its type.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

Values = dict[str, Any]
Kind = Literal["node", "edge"]
Op = Literal["inserted", "updated", "deleted"]


class WrittenAnalysisAnswer(TypedDict):
    """The result of an algorithm in a commit: what ``commit`` wrote, and from where it comes."""

    commit: str
    written: list[str]
    algorithm: str
    parameters: Values
    projection: Values
    source: str
    engine: str
    version: str


class CommitAnswer(TypedDict):
    """A commit. Lists of all branches say which branches and tags point to it.

    ``analyses`` are the results of algorithms that it wrote, or brought by a merge.
    """

    id: str
    parents: list[str]
    branch: str
    actor: str | None
    message: str | None
    time: str
    manifest_version: int
    txn: str | None
    upkeep: bool
    analyses: list[WrittenAnalysisAnswer]
    heads: NotRequired[list[str]]
    tags: NotRequired[list[str]]


class CommitsAnswer(TypedDict):
    """Commits, newest first; ``next`` is where the following page begins."""

    commits: list[CommitAnswer]
    next: str | None


class BranchAnswer(TypedDict):
    """A branch with its head."""

    name: str
    head: str | None
    parent: str | None
    created_at: str | None
    protected: bool


class BranchesAnswer(TypedDict):
    """The branches: their names, and what is known of each."""

    branches: list[str]
    items: list[BranchAnswer]


class TagAnswer(TypedDict):
    """A tag."""

    name: str
    commit: str
    branch: str
    created_at: str
    actor: str | None


class TagsAnswer(TypedDict):
    """All tags."""

    tags: list[TagAnswer]


class TokenAnswer(TypedDict):
    """A token, without its text."""

    id: str
    name: str | None
    expires_at: str | None


class AllowedGraphAnswer(TypedDict):
    """What the caller may do with a graph."""

    graph_id: str
    actions: list[str]


class CallerAnswer(TypedDict):
    """Who the caller is."""

    actor: str
    role: str
    token: TokenAnswer
    graphs: list[AllowedGraphAnswer]


class ListedGraphAnswer(TypedDict):
    """A graph of the server."""

    graph_id: str
    state: str
    read_only: bool


class GraphsAnswer(TypedDict):
    """The graphs that the caller may read."""

    graphs: list[ListedGraphAnswer]


class GraphAnswer(TypedDict):
    """A graph: its branches, its head, and its rows by type."""

    graph_id: str
    branches: list[str]
    head: CommitAnswer | None
    nodes: dict[str, int]
    edges: dict[str, int]


class TableAnswer(TypedDict):
    """The rows of a type."""

    table_key: str
    kind: Kind
    type: str
    row_count: int


class SnapshotAnswer(TypedDict):
    """Every table of a snapshot."""

    tables: list[TableAnswer]
    branch: str
    commit: str | None


class TypeChangesAnswer(TypedDict):
    """How much of a type differs."""

    kind: Kind
    type: str
    inserted: int
    updated: int
    deleted: int


class EntityChangeAnswer(TypedDict):
    """One node or edge that differs."""

    op: Op
    kind: Kind
    type: str
    id: str
    before: Values | None
    after: Values | None
    changed: list[str]


class DiffSideAnswer(TypedDict):
    """One side of a diff."""

    branch: str
    commit: str | None


class DiffAnswer(TypedDict):
    """What differs between two states, counted by type, and a page of it."""

    before: DiffSideAnswer
    after: DiffSideAnswer
    summary: list[TypeChangesAnswer]
    entities: NotRequired[list[EntityChangeAnswer]]
    next: int | None
    types_hidden: bool


class PageAnswer(TypedDict):
    """Where the following page begins."""

    at: str | None
    offset: int


class RowsAnswer(TypedDict):
    """Rows of a query or a type."""

    query_name: str
    columns: list[str]
    rows: list[Values]
    row_count: int
    types: dict[str, str]
    branch: str
    commit: str | None
    next: PageAnswer | None
    elapsed_ms: NotRequired[float]


class DegreeAnswer(TypedDict):
    """How many edges of a type begin or end at a node."""

    edge: str
    direction: Literal["in", "out"]
    count: int


class EntityAnswer(TypedDict):
    """One node or edge."""

    entity: Kind
    type: str
    id: str
    properties: Values
    types: dict[str, str]
    degrees: NotRequired[list[DegreeAnswer]]
    commit: str | None


FoundEdgeAnswer = TypedDict(
    "FoundEdgeAnswer", {"type": str, "id": str, "from": str, "to": str, "direction": Literal["in", "out"]}
)


class FoundNodeAnswer(TypedDict):
    """The node at the other end of an edge."""

    type: str
    id: str
    label: str


class NeighborsAnswer(TypedDict):
    """Edges of a node, and the nodes at their other ends."""

    edges: list[FoundEdgeAnswer]
    nodes: list[FoundNodeAnswer]
    next: PageAnswer | None


class RevisionAnswer(TypedDict):
    """One commit that changed an entity."""

    commit: CommitAnswer
    op: Op
    type: str
    before: Values | None
    after: Values | None
    changed: list[str]


class HistoryAnswer(TypedDict):
    """The commits that changed an entity, newest first."""

    entries: list[RevisionAnswer]
    next: str | None


class PropertyAnswer(TypedDict):
    """A property of a type."""

    name: str
    type: str
    nullable: bool
    default: str | None
    description: str | None


class NodeTypeAnswer(TypedDict):
    """A node type."""

    name: str
    key: list[str] | None
    unique: list[list[str]]
    indexes: list[list[str]]
    implements: list[str]
    description: str | None
    properties: list[PropertyAnswer]


class CardinalityAnswer(TypedDict):
    """How many edges of a type may begin at a node; no maximum is null."""

    minimum: int
    maximum: int | None


EdgeTypeAnswer = TypedDict(
    "EdgeTypeAnswer",
    {
        "name": str,
        "from": str,
        "to": str,
        "cardinality": CardinalityAnswer,
        "unique": list[list[str]],
        "indexes": list[list[str]],
        "description": str | None,
        "properties": list[PropertyAnswer],
    },
)


class CatalogAnswer(TypedDict):
    """The types of a schema."""

    nodes: list[NodeTypeAnswer]
    edges: list[EdgeTypeAnswer]
    hash: str
    commit: str | None


class SchemaTextAnswer(TypedDict):
    """A schema as it was written."""

    schema_source: str
    hash: str
    commit: str | None


class ConflictAnswer(TypedDict):
    """An entity that both sides of a merge changed, with its three images."""

    table_key: str
    row_id: str
    kind: str
    message: str
    type: str
    id: str
    properties: NotRequired[list[str] | None]
    base: NotRequired[Values | None]
    ours: NotRequired[Values | None]
    theirs: NotRequired[Values | None]


class LeftOutAnswer(TypedDict):
    """How many changes of one type a merge left out, and why."""

    table_key: str
    type: str
    reason: str
    count: int
    property: NotRequired[str | None]


class MergeAnswer(TypedDict):
    """A merge or a revert, made or tried."""

    outcome: str
    commit: str | None
    base: str | None
    target_commit: str | None
    nodes: Values
    edges: Values
    left_out: list[LeftOutAnswer]
    conflicts: list[ConflictAnswer]
    branch_deleted: NotRequired[bool]
    branch_kept: NotRequired[str | None]
