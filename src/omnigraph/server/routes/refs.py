"""Routes for branches, merges, reverts and tags."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from omnigraph.errors import Conflict, Json, MergeConflicts, NotFound
from omnigraph.language.schema import TableKey
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import Action, RouteAsk, ask_all, ask_graph
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.errors import conflict_to_wire, to_snake_case
from omnigraph.server.messages import (
    Numbers,
    RequestModel,
    WriteFields,
    branch_to_wire,
    id_of,
    made_commit_to_wire,
    read_txn,
    tag_to_wire,
    to_safe_numbers,
)
from omnigraph.write.merge import Counts, MergeResult


class BranchFields(RequestModel):
    """A new branch."""

    name: str
    from_: Annotated[str, Field(alias="from")] = MAIN


class TagFields(RequestModel):
    """A new tag."""

    name: str
    ref: str | None = None
    branch: str = MAIN


class _ReconcileFields(WriteFields):
    by: Literal["row", "property"] = "row"
    prefer: Literal["ours", "theirs"] | None = None
    resolve: dict[str, Any] | None = None
    dry_run: bool = False
    numbers: Numbers = "native"


class MergeFields(_ReconcileFields):
    """A merge of one branch into another."""

    source: str
    branch: Annotated[str, Field(alias="target")] = MAIN
    delete_branch: bool = False


class RevertFields(_ReconcileFields):
    """A commit to undo."""

    commit: str
    side: int | None = None


def list_all_branches(call: ServerCall) -> Answer:
    """List the branches with their heads."""
    branches = [each for each in call.graph.graph.branches() if call.gate.may_read_branch(each.name)]
    items: list[Json] = [branch_to_wire(each, is_protected=call.gate.is_protected(each.name)) for each in branches]
    return Answer({"branches": [each.name for each in branches], "items": items})


def _find_branch(call: ServerCall, name: str) -> Branch:
    for branch in call.graph.graph.branches():
        if branch.name == name:
            return branch
    raise NotFound(f"no branch '{name}'", hint="GET branches lists them")


def get_one_branch(call: ServerCall) -> Answer:
    """Describe one branch."""
    branch = _find_branch(call, call.path["branch"])
    return Answer(branch_to_wire(branch, is_protected=call.gate.is_protected(branch.name)), branch.head)


def create_new_branch(call: ServerCall) -> Answer:
    """Create a branch. Nothing is copied."""
    asked = call.fields(BranchFields)
    graph = call.graph.graph
    graph.create_branch(asked.name, asked.from_, actor=call.token.actor)
    commit = id_of(graph.snapshot(asked.name).commit)
    return Answer(
        {
            "uri": call.graph.uri,
            "from": asked.from_,
            "name": asked.name,
            "actor_id": call.token.actor,
            "commit": commit,
        },
        commit,
    )


def delete_one_branch(call: ServerCall) -> Answer:
    """Delete a branch and the data that only it has."""
    name = call.path["branch"]
    graph = call.graph.graph
    head = _find_branch(call, name).head
    graph.delete_branch(name, actor=call.token.actor)
    return Answer({"uri": call.graph.uri, "name": name, "actor_id": call.token.actor, "commit": head}, head)


def merge_branches(call: ServerCall) -> Answer:
    """Merge a branch, a commit or a tag into a branch."""
    asked = call.fields(MergeFields)
    with _conceal_conflicts(call, asked.branch):
        result = call.graph.graph.merge(
            asked.source,
            asked.branch,
            by=asked.by,
            dry_run=asked.dry_run,
            prefer=asked.prefer,
            resolve=asked.resolve,
            message=asked.message,
            actor=call.token.actor,
            delete_branch=asked.delete_branch,
            if_commit=asked.if_commit,
            txn=read_txn(asked.txn),
            key=call.key,
        )
    deleted = asked.delete_branch and result.branch_kept is None and not asked.dry_run
    fields = {"source": asked.source, "target": asked.branch, **_merge_to_wire(call, result, asked)}
    return Answer({**fields, "branch_deleted": deleted, "branch_kept": result.branch_kept}, id_of(result.commit))


def revert_commit(call: ServerCall) -> Answer:
    """Undo a commit with a new commit."""
    asked = call.fields(RevertFields)
    with _conceal_conflicts(call, asked.branch):
        result = call.graph.graph.revert(
            asked.commit,
            branch=asked.branch,
            side=asked.side,
            by=asked.by,
            prefer=asked.prefer,
            resolve=asked.resolve,
            dry_run=asked.dry_run,
            message=asked.message,
            actor=call.token.actor,
            if_commit=asked.if_commit,
            txn=read_txn(asked.txn),
            key=call.key,
        )
    fields = {"source": asked.commit, "target": asked.branch, **_merge_to_wire(call, result, asked)}
    return Answer(fields, id_of(result.commit))


def _check_conflicts(call: ServerCall, conflicts: Sequence[Conflict], branch: str) -> None:
    """Ask for the types in which there are conflicts: a conflict shows the values of both sides."""
    if call.gate.asks_types and conflicts:
        call.gate.check_types(sorted({TableKey(each.table_key) for each in conflicts}), branch)


@contextmanager
def _conceal_conflicts(call: ServerCall, branch: str) -> Generator[None]:
    try:
        yield
    except MergeConflicts as error:
        _check_conflicts(call, error.conflicts, branch)
        raise


def _merge_to_wire(call: ServerCall, result: MergeResult, asked: MergeFields | RevertFields) -> dict[str, Json]:
    _check_conflicts(call, result.conflicts, asked.branch)
    hidden = call.gate.hidden_types(call.graph.graph.schema.catalog, asked.branch)
    conflicts: list[Json] = [conflict_to_wire(conflict) for conflict in result.conflicts]
    return {
        "outcome": to_snake_case(result.outcome),
        "actor_id": call.token.actor,
        **made_commit_to_wire(result.commit, is_whole=call.wants_commit),
        "replayed": result.replayed,
        "base": result.base,
        "source_commit": result.source,
        "target_commit": result.target,
        "nodes": {
            name: _counts_to_wire(counts)
            for name, counts in result.nodes.items()
            if TableKey.of_node(name) not in hidden
        },
        "edges": {
            name: _counts_to_wire(counts)
            for name, counts in result.edges.items()
            if TableKey.of_edge(name) not in hidden
        },
        "left_out": [each.to_json() for each in result.left_out if each.table_key not in hidden],
        "types_hidden": bool(hidden),
        "conflicts": [to_safe_numbers(each) for each in conflicts] if asked.numbers == "safe" else conflicts,
    }


def _counts_to_wire(counts: Counts) -> Json:
    return {
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
        "doubled": counts.doubled,
    }


def list_all_tags(call: ServerCall) -> Answer:
    """List the tags."""
    return Answer(
        {"tags": [tag_to_wire(tag) for tag in call.graph.graph.tags() if call.gate.may_read_branch(tag.branch)]}
    )


def create_new_tag(call: ServerCall) -> Answer:
    """Name a commit."""
    asked = call.fields(TagFields)
    ref = asked.branch if asked.ref is None else asked.ref
    tag = call.graph.graph.create_tag(asked.name, ref, branch=asked.branch, actor=call.token.actor)
    return Answer(tag_to_wire(tag), tag.commit)


def delete_one_tag(call: ServerCall) -> Answer:
    """Delete a tag. The commit stays."""
    name = call.path["tag"]
    call.graph.graph.delete_tag(name, actor=call.token.actor)
    return Answer({"tag": name})


_G: Final = "/graphs/{graph_id}"
_BRANCH: Final = f"{_G}/branches/{{branch:path}}"
_CREATE: Final = ask_all(
    RouteAsk(Action.BRANCH_CREATE, branch="from_", target="name"), RouteAsk(Action.READ, ref="from_")
)
# A merge or a revert that is only tried reads. What is merged can be read afterwards, so it must be readable before.
_MERGE: Final = ask_all(
    RouteAsk(Action.READ, ref="source"),
    RouteAsk(Action.READ, branch="branch", only_if="dry_run"),
    RouteAsk(Action.BRANCH_MERGE, branch="source", target="branch", unless="dry_run"),
    RouteAsk(Action.BRANCH_DELETE, target="source", only_if="delete_branch"),
    types="commit",
)
_REVERT: Final = ask_all(
    RouteAsk(Action.READ, ref="commit"),
    RouteAsk(Action.READ, branch="branch"),
    RouteAsk(Action.CHANGE, branch="branch", unless="dry_run"),
    types="commit",
)
_NEW_TAG: Final = ask_all(
    RouteAsk(Action.TAG),
    RouteAsk(Action.READ, ref="ref", only_if="ref"),
    RouteAsk(Action.READ, branch="branch", unless="ref"),
)
ROUTES: Final = (
    Route("GET", f"{_G}/branches", list_all_branches, ask_graph(Action.READ)),
    Route("POST", f"{_G}/branches", create_new_branch, _CREATE, "write", body=BranchFields, keeps_answer=True),
    Route("POST", f"{_G}/branches/merge", merge_branches, _MERGE, "write", body=MergeFields, keeps_key=True),
    Route("POST", f"{_G}/merges", merge_branches, _MERGE, "write", body=MergeFields, keeps_key=True),
    Route("POST", f"{_G}/reverts", revert_commit, _REVERT, "write", body=RevertFields, keeps_key=True),
    Route("GET", _BRANCH, get_one_branch, ask_all(RouteAsk(Action.READ, branch="branch"))),
    Route(
        "DELETE",
        _BRANCH,
        delete_one_branch,
        ask_all(RouteAsk(Action.BRANCH_DELETE, target="branch")),
        "write",
        keeps_answer=True,
    ),
    Route("GET", f"{_G}/tags", list_all_tags, ask_graph(Action.READ)),
    Route("POST", f"{_G}/tags", create_new_tag, _NEW_TAG, "write", body=TagFields, keeps_answer=True),
    Route(
        "DELETE",
        f"{_G}/tags/{{tag:path}}",
        delete_one_tag,
        ask_all(RouteAsk(Action.TAG), RouteAsk(Action.READ, ref="tag")),
        "write",
        keeps_answer=True,
    ),
)
