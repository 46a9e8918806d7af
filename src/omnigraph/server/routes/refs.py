"""Routes for branches, merges, reverts and tags."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from omnigraph.errors import Json, NotFound
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.rows import MAIN
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.errors import conflict_to_wire, to_snake_case
from omnigraph.server.gate import Action, authorize
from omnigraph.server.requests import RequestModel, WriteFields, parse_txn
from omnigraph.server.wire import branch_to_wire, id_of, tag_to_wire
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
    branches = call.graph.graph.branches()
    return Answer({"branches": [each.name for each in branches], "items": [branch_to_wire(each) for each in branches]})


def _find_branch(call: ServerCall, name: str) -> Branch:
    for branch in call.graph.graph.branches():
        if branch.name == name:
            return branch
    raise NotFound(f"no branch '{name}'", hint="GET branches lists them")


def get_one_branch(call: ServerCall) -> Answer:
    """Describe one branch."""
    branch = _find_branch(call, call.path["branch"])
    return Answer(branch_to_wire(branch), branch.head)


def create_new_branch(call: ServerCall) -> Answer:
    """Create a branch. Nothing is copied."""
    asked = call.fields(BranchFields)
    graph = call.graph.graph
    graph.create_branch(asked.name, asked.from_)
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
    graph.delete_branch(name)
    return Answer({"uri": call.graph.uri, "name": name, "actor_id": call.token.actor, "commit": head}, head)


def merge_branches(call: ServerCall) -> Answer:
    """Merge a branch, a commit or a tag into a branch."""
    asked = call.fields(MergeFields)
    if not asked.dry_run:
        authorize(call.token, Action.BRANCH_MERGE, call.graph.uri)
    if asked.delete_branch:
        authorize(call.token, Action.BRANCH_DELETE, call.graph.uri)
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
        txn=parse_txn(asked.txn),
        key=call.key,
    )
    deleted = asked.delete_branch and result.branch_kept is None and not asked.dry_run
    fields = {"source": asked.source, "target": asked.branch, **_merge_to_wire(call, result)}
    return Answer({**fields, "branch_deleted": deleted, "branch_kept": result.branch_kept}, id_of(result.commit))


def revert_commit(call: ServerCall) -> Answer:
    """Undo a commit with a new commit."""
    asked = call.fields(RevertFields)
    if not asked.dry_run:
        authorize(call.token, Action.CHANGE, call.graph.uri)
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
        txn=parse_txn(asked.txn),
        key=call.key,
    )
    fields = {"source": asked.commit, "target": asked.branch, **_merge_to_wire(call, result)}
    return Answer(fields, id_of(result.commit))


def _merge_to_wire(call: ServerCall, result: MergeResult) -> dict[str, Json]:
    outcome: dict[str, Json] = {} if result.conflicts else {"outcome": to_snake_case(str(result.outcome))}
    return {
        **outcome,
        "actor_id": call.token.actor,
        "commit": id_of(result.commit),
        "replayed": result.replayed,
        "base": result.base,
        "source_commit": result.source,
        "target_commit": result.target,
        "nodes": {name: _counts_to_wire(counts) for name, counts in result.nodes.items()},
        "edges": {name: _counts_to_wire(counts) for name, counts in result.edges.items()},
        "conflicts": [conflict_to_wire(conflict, call.graph.edge_types) for conflict in result.conflicts],
    }


def _counts_to_wire(counts: Counts) -> Json:
    return {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}


def list_all_tags(call: ServerCall) -> Answer:
    """List the tags."""
    return Answer({"tags": [tag_to_wire(tag) for tag in call.graph.graph.tags()]})


def create_new_tag(call: ServerCall) -> Answer:
    """Name a commit."""
    asked = call.fields(TagFields)
    ref = asked.branch if asked.ref is None else asked.ref
    tag = call.graph.graph.create_tag(asked.name, ref, branch=asked.branch, actor=call.token.actor)
    return Answer(tag_to_wire(tag), tag.commit)


def delete_one_tag(call: ServerCall) -> Answer:
    """Delete a tag. The commit stays."""
    name = call.path["tag"]
    call.graph.graph.delete_tag(name)
    return Answer({"tag": name})


_G: Final = "/graphs/{graph_id}"
_BRANCH: Final = f"{_G}/branches/{{branch:path}}"
# A merge or a revert that is only tried reads; the other ones ask for more once they know.
ROUTES: Final = (
    Route("GET", f"{_G}/branches", list_all_branches, Action.READ),
    Route("POST", f"{_G}/branches", create_new_branch, Action.BRANCH_CREATE, "write", body=BranchFields),
    Route("POST", f"{_G}/branches/merge", merge_branches, Action.READ, "write", body=MergeFields, keeps_key=True),
    Route("POST", f"{_G}/merges", merge_branches, Action.READ, "write", body=MergeFields, keeps_key=True),
    Route("POST", f"{_G}/reverts", revert_commit, Action.READ, "write", body=RevertFields, keeps_key=True),
    Route("GET", _BRANCH, get_one_branch, Action.READ),
    Route("DELETE", _BRANCH, delete_one_branch, Action.BRANCH_DELETE, "write"),
    Route("GET", f"{_G}/tags", list_all_tags, Action.READ),
    Route("POST", f"{_G}/tags", create_new_tag, Action.TAG, "write", body=TagFields),
    Route("DELETE", f"{_G}/tags/{{tag:path}}", delete_one_tag, Action.TAG, "write"),
)
