"""Routes for commits and what changed between them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Final, Literal, cast

import orjson
from pydantic import AwareDatetime, BeforeValidator

from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import TableKey
from omnigraph.manifest.history import Commit
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes import Diff
from omnigraph.server.access import Action, RouteAsk, ask_all
from omnigraph.server.calls import ARROW, JSON, NDJSON, Answer, Route, ServerCall
from omnigraph.server.messages import (
    Count,
    Numbers,
    RequestModel,
    commit_to_wire,
    id_of,
    join_chunks,
    read_txn,
    to_safe_numbers,
    write_arrow,
)

_COMMITS: Final = 10_000
_ANCESTORS: Final = 200
_ENTITIES: Final = 500


def _to_list(value: object) -> object:
    # A parameter without a value is a list without members.
    return cast("list[object]", value) if isinstance(value, list) else [] if value == "" else [value]


Texts = Annotated[list[str] | None, BeforeValidator(_to_list)]


class CommitsFields(RequestModel):
    """Which commits of a branch to list."""

    branch: str = MAIN
    limit: Count = _COMMITS
    before: str | None = None
    actor: str | None = None
    since: AwareDatetime | None = None
    until: AwareDatetime | None = None
    txn: str | None = None
    """``APP:N``: the commit that made it, or a later one of its application."""
    key: str | None = None
    """The idempotency key of a write of the caller, of the last day."""
    upkeep: bool = False
    """Whether to list commits too that changed no row."""


class AncestryFields(RequestModel):
    """Which commits of all branches, or of one with what was merged into it, to list."""

    branch: str | None = None
    limit: Count = _ANCESTORS
    before: str | None = None
    upkeep: bool = False


class AnalysesFields(RequestModel):
    """Which branch to look at."""

    branch: str = MAIN


class DiffFields(RequestModel):
    """Two states to compare, or a commit to compare with its first parent."""

    a: str | None = None
    b: str | None = None
    commit: str | None = None
    branch: str = MAIN
    tips: bool = False
    type: Texts = None
    op: Texts = None
    view: Literal["summary", "entities"] = "summary"
    limit: Count = _ENTITIES
    cursor: Count = 0
    numbers: Numbers = "native"


def list_branch_commits(call: ServerCall) -> Answer:
    """List the commits of a branch, newest first."""
    asked = call.fields(CommitsFields)
    if asked.txn is not None or asked.key is not None:
        found = call.graph.graph.find_commit(
            asked.branch, txn=read_txn(asked.txn), key=asked.key, actor=call.token.actor
        )
        return Answer({"commits": [] if found is None else [commit_to_wire(found)], "next": None})
    since: datetime | None = asked.since
    commits = call.graph.graph.commits(asked.branch, None, asked.actor, since, asked.until, upkeep=asked.upkeep)
    return _page_of_commits([commit_to_wire(commit) for commit in commits], asked.before, min(asked.limit, _COMMITS))


def _page_of_commits(commits: list[dict[str, Json]], before: str | None, limit: int) -> Answer:
    """Return the commits after ``before`` in a list, newest first. ``next`` is the last one, if there are more."""
    ids = [commit["id"] for commit in commits]
    if before is not None and before not in ids:
        raise ParameterError(f"no commit {before} among these", hint="give the 'next' of the page before")
    begin = 0 if before is None else ids.index(before) + 1
    shown = commits[begin : begin + limit]
    more = begin + limit < len(commits)
    return Answer({"commits": shown, "next": shown[-1]["id"] if shown and more else None})


def get_one_commit(call: ServerCall) -> Answer:
    """Describe one commit."""
    commit = call.graph.graph.commit(call.path["commit"])
    return Answer(commit_to_wire(commit), commit.id)


def list_all_ancestry(call: ServerCall) -> Answer:
    """List commits, children before parents, with the branches and tags that point to them."""
    asked = call.fields(AncestryFields)
    graph = call.graph.graph
    branches = [branch for branch in graph.branches() if call.gate.may_read_branch(branch.name)]
    tags = [tag for tag in graph.tags() if call.gate.may_read_branch(tag.branch)]
    found = _list_visible_ancestry(call, asked, [branch.name for branch in branches])
    commits: list[dict[str, Json]] = [
        {
            **commit_to_wire(commit),
            "heads": [branch.name for branch in branches if branch.head == commit.id],
            "tags": [tag.name for tag in tags if tag.commit == commit.id],
        }
        for commit in found
    ]
    return _page_of_commits(commits, asked.before, min(asked.limit, _COMMITS))


def _list_visible_ancestry(call: ServerCall, asked: AncestryFields, readable: Collection[str]) -> list[Commit]:
    """List commits of branches that may be read: reading a branch is reading its whole past."""
    graph = call.graph.graph
    found = graph.ancestry(asked.branch, upkeep=asked.upkeep)
    if asked.branch is not None or set(graph.info().branches) <= set(readable):
        return found
    visible = {commit.id for name in readable for commit in graph.ancestry(name, upkeep=asked.upkeep)}
    return [commit for commit in found if commit.id in visible]


def list_all_analyses(call: ServerCall) -> Answer:
    """List the results of algorithms that were written on a branch, newest first."""
    found = call.graph.graph.analyses(call.fields(AnalysesFields).branch)
    return Answer({"analyses": cast("Json", orjson.loads(orjson.dumps(found)))})


def get_diff(call: ServerCall) -> Answer:
    """Count what changed between two states, or list it."""
    asked = call.fields(DiffFields)
    diff, is_hiding = _compute_visible_diff(call, asked)
    commit = id_of(diff.after.commit)
    if call.accept == NDJSON:
        lines = (orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in _list_records(diff, asked))
        return Answer(commit=commit, stream=join_chunks(lines), media_type=NDJSON)
    if call.accept == ARROW:
        return stream_changed_rows(diff, asked.type)
    fields: dict[str, Json] = {**diff.heading(), "types_hidden": is_hiding, "next": None}
    if asked.view == "entities":
        records = list(islice(_list_records(diff, asked), asked.cursor, asked.cursor + asked.limit + 1))
        fields["entities"] = records[: asked.limit]
        fields["next"] = asked.cursor + asked.limit if len(records) > asked.limit else None
    return Answer(fields, commit)


def stream_changed_rows(diff: Diff, types: Sequence[str] | None) -> Answer:
    """Stream the changes of one type as Arrow."""
    if types is None or len(types) != 1:
        raise ParameterError("Arrow is a stream of one type", hint="name one type, or accept lines of JSON")
    reader = diff.reader(types[0])
    chunks = join_chunks(write_arrow(reader.schema, reader))
    return Answer(commit=id_of(diff.after.commit), stream=chunks, media_type=ARROW)


def _compute_visible_diff(call: ServerCall, asked: DiffFields) -> tuple[Diff, bool]:
    """Compare without the types that the caller may not read on both sides. Return whether there are any."""
    diff = _compute_diff(call, asked, asked.type)
    sides = (diff.before, diff.after)
    hidden = frozenset(key for side in sides for key in call.gate.hidden_types(side.catalog(), side.branch))
    if not hidden:
        return diff, False
    named = [key for name in asked.type or () for key in TableKey.candidates(name) if key in hidden]
    for side in sides:
        call.gate.check_types(named, side.branch)
    # A type that was renamed is hidden under both names.
    hidden_keys = {pair.key for pair in diff.types if pair.keys & hidden}
    return _compute_diff(call, asked, [key for key in diff.tables if key not in hidden_keys]), True


def _compute_diff(call: ServerCall, asked: DiffFields, types: Collection[str] | None) -> Diff:
    graph = call.graph.graph
    if (asked.commit is None) == (asked.a is None):
        raise ParameterError("a diff needs 'a', or 'commit'", hint="give one of them, and perhaps 'b' with 'a'")
    if asked.a is not None:
        if asked.b is None:
            # What a diff with one side is compared with: main for a branch, else the branch of the reference.
            is_branch = call.gate.policy is not None and asked.a in graph.info().branches
            call.gate.check_action(Action.READ, MAIN if is_branch else asked.branch)
        return graph.diff(asked.a, asked.b, types=types, branch=asked.branch, tips=asked.tips)
    commit = graph.commit(asked.commit or "")
    if not commit.parents:
        raise ParameterError(f"commit {commit.id} is the first one", hint="it has no parent to compare with")
    return graph.diff(commit.parents[0], commit.id, types=types, branch=asked.branch)


def _list_records(diff: Diff, asked: DiffFields) -> Iterator[dict[str, Json]]:
    records = (record for record in diff.records() if asked.op is None or record["op"] in asked.op)
    if asked.numbers == "native":
        return records
    return (cast("dict[str, Json]", to_safe_numbers(record)) for record in records)


_G: Final = "/graphs/{graph_id}"
_BRANCH: Final = ask_all(RouteAsk(Action.READ, branch="branch"))
_BOTH: Final = ask_all(*(RouteAsk(Action.READ, ref=name) for name in ("a", "b", "commit")), types="hide")
ROUTES: Final = (
    Route("GET", f"{_G}/commits", list_branch_commits, _BRANCH, query=CommitsFields),
    Route("GET", f"{_G}/commits/{{commit:path}}", get_one_commit, ask_all(RouteAsk(Action.READ, ref="commit"))),
    Route("GET", f"{_G}/ancestry", list_all_ancestry, _BRANCH, query=AncestryFields),
    Route("GET", f"{_G}/analyses", list_all_analyses, _BRANCH, query=AnalysesFields),
    Route("GET", f"{_G}/diff", get_diff, _BOTH, query=DiffFields, formats=(JSON, NDJSON, ARROW)),
)
