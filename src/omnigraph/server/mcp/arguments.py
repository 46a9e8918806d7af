"""The arguments of the tools. Their descriptions are what an agent reads."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from omnigraph.server.messages import RequestModel

QUERY_ROWS: Final = 100
MOST_ROWS: Final = 1_000
MOST_LOADED: Final = 1 << 20

_Branch = Annotated[str, Field(description="the branch to read")]
_At = Annotated[
    str | None,
    Field(description="read an older state: a commit id, a tag, a version such as v12, or a date or time"),
]
_Rows = Annotated[int, Field(ge=1, le=MOST_ROWS, description="at most so many rows")]
_Offset = Annotated[int, Field(ge=0, description="rows to leave out: the next offset of the page before")]
_Type = Annotated[str, Field(description="the name of a node or edge type of the schema")]
_Id = Annotated[str, Field(description="the id of the entity; of a node with a key, its key")]
_QueryText = Annotated[str, Field(description="one or more queries in the query language of the graph (.gq)")]
_QueryName = Annotated[str | None, Field(description="which query of the text; needed if it has several")]
_Params = Annotated[dict[str, Any] | None, Field(description="the values of the parameters that the query declares")]
_Target = Annotated[str, Field(description="the branch to write to; make one with graph_branch_create")]
_Message = Annotated[str | None, Field(description="why: it is kept with the commit")]
_Key = Annotated[
    str | None,
    Field(description="a text of your own for this one write; repeat a write whose outcome is unknown with its key"),
]
_By = Annotated[
    Literal["row", "property"], Field(description="whether two changes of one entity conflict always, or per property")
]
_Prefer = Annotated[
    Literal["ours", "theirs"] | None, Field(description="which side wins conflicts; without it they are an error")
]


class NoArguments(RequestModel):
    """No arguments."""


class PlaceArguments(RequestModel):
    """Which state to read."""

    branch: _Branch = "main"
    at: _At = None


class SchemaArguments(PlaceArguments):
    """Which schema to show, and how."""

    view: Annotated[
        Literal["source", "catalog"], Field(description="its text, or its types as a list with all properties")
    ] = "source"


class QueryArguments(PlaceArguments):
    """A query to run."""

    query: _QueryText
    name: _QueryName = None
    params: _Params = None
    limit: _Rows = QUERY_ROWS
    offset: _Offset = 0


class QueryTextArguments(PlaceArguments):
    """A query to look at."""

    query: _QueryText


class ExplainArguments(QueryTextArguments):
    """A query whose plan to show."""

    name: _QueryName = None
    params: _Params = None


class EntityArguments(PlaceArguments):
    """One node or edge."""

    type: _Type
    id: _Id
    entity: Literal["node", "edge"] = "node"


class NeighborArguments(PlaceArguments):
    """The edges of a node."""

    type: _Type
    id: _Id
    edge: Annotated[str | None, Field(description="only edges of this type")] = None
    direction: Literal["out", "in", "both"] = "both"
    limit: _Rows = QUERY_ROWS
    offset: _Offset = 0


class HistoryArguments(EntityArguments):
    """The past of one node or edge."""

    limit: Annotated[int, Field(ge=1, le=50, description="at most so many changes")] = 20
    before: Annotated[str | None, Field(description="go on after this commit: 'next' of the page before")] = None


class CommitsArguments(RequestModel):
    """Commits of a branch."""

    branch: _Branch = "main"
    limit: _Rows = 20
    before: Annotated[str | None, Field(description="go on after this commit: 'next' of the page before")] = None


class DiffArguments(RequestModel):
    """Two states, or a commit and its parent."""

    a: Annotated[str | None, Field(description="a branch, commit, tag or time")] = None
    b: Annotated[
        str | None,
        Field(description="what to compare it with; a branch alone shows its own changes, since it left main"),
    ] = None
    tips: Annotated[bool, Field(description="compare a branch alone with the newest state of main instead")] = False
    commit: Annotated[str | None, Field(description="instead of a and b: what this commit changed")] = None
    type: Annotated[list[str] | None, Field(description="only entities of these types")] = None
    view: Annotated[
        Literal["summary", "entities"], Field(description="counts for each type, or each entity before and after")
    ] = "entities"
    limit: _Rows = QUERY_ROWS
    cursor: Annotated[int, Field(ge=0, description="'next' of the page before")] = 0


class ChangesArguments(RequestModel):
    """Changes, commit by commit."""

    branch: _Branch = "main"
    start: Annotated[str | None, Field(description="where to begin without a cursor: now, beginning, or after:REF")] = (
        None
    )
    cursor: Annotated[str | None, Field(description="go on after this: 'cursor' of the answer before")] = None
    type: Annotated[list[str] | None, Field(description="only changes of these types")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="at most so many commits")] = 20


class PreviewArguments(RequestModel):
    """A merge to try."""

    source: Annotated[str, Field(description="the branch to merge")]
    target: Annotated[str, Field(description="the branch to merge it into")] = "main"
    by: _By = "row"


class BranchArguments(RequestModel):
    """A new branch."""

    name: Annotated[str, Field(description="such as review/june")]
    from_: Annotated[str, Field(alias="from", description="a branch, commit, tag or time to begin at")] = "main"


class MutateArguments(RequestModel):
    """A mutation."""

    query: Annotated[str, Field(description="an insert, update or delete in the query language of the graph (.gq)")]
    branch: _Target
    name: _QueryName = None
    params: _Params = None
    message: _Message = None
    if_commit: Annotated[
        str | None, Field(description="write only if this is still the newest commit of the branch")
    ] = None
    key: _Key = None


class LoadArguments(RequestModel):
    """Records to load."""

    data: Annotated[
        str,
        Field(
            max_length=MOST_LOADED,
            description='lines of JSON: {"type": "Person", "data": {...}} for nodes, '
            '{"edge": "Knows", "from": "ann", "to": "bob", "data": {...}} for edges',
        ),
    ]
    branch: _Target
    mode: Annotated[
        Literal["append", "merge", "update"],
        Field(description="merge: the graph then has what the records have; append: all are new; update: all exist"),
    ] = "merge"
    check: Annotated[bool, Field(description="only report what is wrong; write nothing")] = False
    message: _Message = None
    key: _Key = None


class MergeArguments(RequestModel):
    """A merge."""

    source: Annotated[str, Field(description="the branch to merge")]
    target: Annotated[str, Field(description="the branch to merge it into")]
    by: _By = "row"
    prefer: _Prefer = None
    delete_branch: Annotated[bool, Field(description="delete the source afterwards")] = False
    message: _Message = None
    key: _Key = None


class RevertArguments(RequestModel):
    """A commit to undo."""

    commit: Annotated[str, Field(description="the commit to undo with a new commit")]
    branch: _Target
    by: _By = "row"
    prefer: _Prefer = None
    message: _Message = None
    key: _Key = None


class InvokeArguments(RequestModel):
    """The parameters of a stored query, and where to run it."""

    params: _Params = None
    branch: str | None = None
    at: _At = None
    limit: _Rows = QUERY_ROWS
    offset: _Offset = 0
    message: _Message = None
    key: _Key = None
