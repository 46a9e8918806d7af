"""Routes that write: mutations, transactions and loads."""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

import orjson
from pydantic import AliasChoices, BeforeValidator, Field

from omnigraph.defaults import MUTATION_RETRIES
from omnigraph.errors import Json, ValidationError
from omnigraph.language.query import compile_query, find_query
from omnigraph.language.schema import TableKey
from omnigraph.language.source import Source
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import Action, RouteAsk, ask_all
from omnigraph.server.calls import TAR, Answer, Route, ServerCall
from omnigraph.server.messages import (
    RequestModel,
    UploadedInput,
    WriteFields,
    check_lines,
    id_of,
    made_commit_to_wire,
    open_archive,
    open_lines,
    read_txn,
    to_query_source,
)
from omnigraph.write.load import LoadResult
from omnigraph.write.row_values import only_inline_blobs

MOST_REJECTS: Final = 100
_MOST_RETRIES: Final = 100
_MAX_KEPT_LENGTH: Final = 10_000
"""The name in a longer text is looked for each time."""


class MutateFields(WriteFields):
    """A mutation."""

    query: Annotated[str, Field(validation_alias=AliasChoices("query", "query_source"))]
    name: Annotated[str | None, Field(validation_alias=AliasChoices("name", "query_name"))] = None
    params: dict[str, Any] | None = None
    retries: Annotated[int, Field(ge=0, le=_MOST_RETRIES)] = MUTATION_RETRIES


class Step(RequestModel):
    """One mutation of a transaction."""

    query: str
    name: str | None = None
    params: dict[str, Any] | None = None


class TransactionFields(WriteFields):
    """Mutations that become one commit."""

    steps: Annotated[list[Step], Field(min_length=1)]


def _parse_identity(value: object) -> object:
    """Parse what a query string has as a text."""
    if not isinstance(value, str):
        return value
    try:
        return cast("object", orjson.loads(value))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from error


Identities = Annotated[dict[str, list[str]] | None, BeforeValidator(_parse_identity)]


class _LoadOptions(WriteFields):
    from_: Annotated[str | None, Field(alias="from")] = None
    mode: Literal["append", "merge", "overwrite", "update"] = "merge"
    on_error: Literal["fail", "quarantine"] = "fail"
    check: bool = False
    allow_empty: bool = False
    identity: Identities = None
    """The columns that identify records without an id, by type."""
    strict: bool = False
    """Whether to reject records with values that would be rounded."""


class LoadFields(_LoadOptions):
    """Records as one text of lines, as release 0.8 sends them."""

    data: str


class UploadFields(_LoadOptions):
    """The options of a load whose body is the records."""


def run_mutation(call: ServerCall) -> Answer:
    """Run an insert, update or delete as one commit."""
    asked = call.fields(MutateFields)
    source = to_query_source(asked.query)
    _check_mutation_types(call, source, asked.name, asked.branch)
    with only_inline_blobs():
        result = call.graph.graph.mutate(
            source,
            asked.name,
            asked.params,
            branch=asked.branch,
            if_commit=asked.if_commit,
            retries=asked.retries,
            message=asked.message,
            actor=call.token.actor,
            txn=read_txn(asked.txn),
            key=call.key,
        )
    commit = id_of(result.commit)
    return Answer(
        {
            "branch": asked.branch,
            "query_name": _find_query_name(source, asked.name),
            "affected_nodes": result.affected_nodes,
            "affected_edges": result.affected_edges,
            "actor_id": call.token.actor,
            **made_commit_to_wire(result.commit, is_whole=call.wants_commit),
            "replayed": result.replayed,
            "rounded": [each.to_json() for each in result.rounded],
        },
        commit,
    )


def _find_query_name(source: Source, name: str | None) -> str:
    """Return the name of a query that has run: the only one of its text, if the request does not name it."""
    if name is not None:
        return name
    find = _parse_name if len(source.text) <= _MAX_KEPT_LENGTH else _parse_name.__wrapped__
    return find(source)


@lru_cache(256)
def _parse_name(source: Source) -> str:
    return find_query(source).name


def _check_mutation_types(call: ServerCall, source: Source, name: str | None, branch: str) -> None:
    """Ask for each type that a mutation reads or writes, before a row is read."""
    call.gate.are_types_asked = True
    if call.gate.asks_types:
        catalog = call.graph.graph.schema.catalog
        call.gate.check_query_types(compile_query(source, catalog, name), catalog, branch)


def run_transaction(call: ServerCall) -> Answer:
    """Run several mutations as one commit, or none of them."""
    asked = call.fields(TransactionFields)
    steps: list[Json] = []
    sources = [to_query_source(step.query) for step in asked.steps]
    for step, source in zip(asked.steps, sources, strict=True):
        _check_mutation_types(call, source, step.name, asked.branch)
    with (
        only_inline_blobs(),
        call.graph.graph.transaction(
            asked.branch,
            asked.message,
            call.token.actor,
            if_commit=asked.if_commit,
            txn=read_txn(asked.txn),
            key=call.key,
        ) as transaction,
    ):
        for step, source in zip(asked.steps, sources, strict=True):
            done = transaction.mutate(source, step.name, step.params)
            steps.append(
                {
                    "query_name": _find_query_name(source, step.name),
                    "affected_nodes": done.affected_nodes,
                    "affected_edges": done.affected_edges,
                }
            )
    result = transaction.result
    assert result is not None, "the block ended without an error"
    commit = id_of(result.commit)
    return Answer(
        {
            "branch": asked.branch,
            "affected_nodes": result.affected_nodes,
            "affected_edges": result.affected_edges,
            "actor_id": call.token.actor,
            **made_commit_to_wire(result.commit, is_whole=call.wants_commit),
            "replayed": result.replayed,
            "rounded": [each.to_json() for each in result.rounded],
            "steps": steps,
        },
        commit,
    )


def run_load(call: ServerCall) -> Answer:
    """Load records as one commit. They are in the body: no path and no URI is read."""
    asked = call.fields(_LoadOptions)
    graph = call.graph.graph
    is_new = asked.from_ is not None and asked.branch not in graph.info().branches
    if is_new:
        call.gate.check_action(Action.BRANCH_CREATE, asked.from_, asked.branch)
    rejects = call.hosting.uploads.path / f"{call.request_id}-{id(call)}.jsonl"
    try:
        with (
            _open_input(call, asked) as given,
            only_inline_blobs(),
            _conceal_violations(call, asked.branch),
            given.name_files(),
        ):
            result = graph.load(
                given.source,
                nodes=given.nodes,
                edges=given.edges,
                columns=given.columns,
                ignore=given.ignore,
                options=given.options,
                identity=asked.identity,
                allow_empty=asked.allow_empty,
                strict=asked.strict,
                mode=asked.mode,
                branch=asked.branch,
                from_branch=asked.from_ if is_new else None,
                on_error=asked.on_error,
                rejects=rejects if asked.on_error == "quarantine" else None,
                if_commit=asked.if_commit,
                txn=read_txn(asked.txn),
                key=call.key,
                engine="local",
                message=asked.message,
                actor=call.token.actor,
                check=asked.check,
            )
        _check_loaded_types(call, result)
        shown, more = _read_rejects(rejects, given)
    finally:
        rejects.unlink(missing_ok=True)
    return Answer(
        {
            **_load_to_wire(result),
            **made_commit_to_wire(result.commit, is_whole=call.wants_commit),
            "uri": call.graph.uri,
            "base_branch": asked.from_ or MAIN,
            "branch_created": is_new and not asked.check,
            "actor_id": call.token.actor,
            "rejects": shown,
            "rejects_truncated": more,
        },
        id_of(result.commit),
    )


def _check_loaded_types(call: ServerCall, result: LoadResult) -> None:
    """Ask for the types of a load that was only checked: the commit section asks for the others."""
    types = [TableKey.of_node(name) for name in result.nodes] + [TableKey.of_edge(name) for name in result.edges]
    call.gate.check_types(types, result.branch, Action.CHANGE)


@contextmanager
def _conceal_violations(call: ServerCall, branch: str) -> Generator[None]:
    """Refuse a load of types that may not be changed before telling what is wrong with it: that could show rows."""
    try:
        yield
    except ValidationError as error:
        keys = [each.table_key for each in (*error.violations, *error.groups)]
        types = {TableKey(key) for key in keys if key is not None}
        call.gate.check_types(sorted(types), branch, Action.CHANGE)
        raise


def _load_to_wire(result: LoadResult) -> dict[str, Json]:
    counts = {
        **{TableKey.of_node(name): count for name, count in result.nodes.items()},
        **{TableKey.of_edge(name): count for name, count in result.edges.items()},
    }
    return {
        "branch": result.branch,
        "mode": result.mode,
        "tables": [{"table_key": str(key), "rows_loaded": count} for key, count in counts.items()],
        "nodes": dict(result.nodes),
        "edges": dict(result.edges),
        "rejected": result.rejected,
        "replayed": result.replayed,
        "notes": list(result.notes),
        "counts": {key: each.to_json() for key, each in result.counts.items()},
        "rounded": [each.to_json() for each in result.rounded],
    }


@contextmanager
def _open_input(call: ServerCall, asked: _LoadOptions) -> Generator[UploadedInput]:
    """Open what a load reads: the text of a JSON body, an upload of lines, or an archive of files."""
    if isinstance(asked, LoadFields):
        lines = io.BytesIO(asked.data.encode("utf-8", "surrogatepass"))
        check_lines(lines, call.limits)
        yield UploadedInput(lines)
        return
    assert call.upload is not None, "a body that is not JSON was saved"
    limits = call.limits
    is_archive = call.headers.get("content-type", "").partition(";")[0].strip().lower() == TAR
    with open_archive(call.upload, limits) if is_archive else open_lines(call.upload, limits) as found:
        yield found


def _read_rejects(path: Path, given: UploadedInput) -> tuple[list[Json], bool]:
    """Return the first rejected records, and whether there are more."""
    if not path.exists():
        return [], False
    shown: list[Json] = []
    with path.open("rb") as file:
        for line in file:
            if len(shown) == MOST_REJECTS:
                return shown, True
            shown.append(given.rename(cast("Json", orjson.loads(line))))
    return shown, False


_G: Final = "/graphs/{graph_id}"
_CHANGE: Final = ask_all(RouteAsk(Action.CHANGE, branch="branch"), types="ask")
# Whether the branch must be created is known later, and asked then.
_LOAD: Final = ask_all(
    RouteAsk(Action.CHANGE, branch="branch"), RouteAsk(Action.READ, ref="from_", only_if="from_"), types="commit"
)
ROUTES: Final = (
    Route("POST", f"{_G}/mutate", run_mutation, _CHANGE, "write", body=MutateFields, keeps_key=True),
    Route(
        "POST", f"{_G}/change", run_mutation, _CHANGE, "write", body=MutateFields, keeps_key=True, successor="mutate"
    ),
    Route("POST", f"{_G}/transaction", run_transaction, _CHANGE, "write", body=TransactionFields, keeps_key=True),
    Route("POST", f"{_G}/load", run_load, _LOAD, "write", body=LoadFields, upload=UploadFields, keeps_key=True),
    Route(
        "POST",
        f"{_G}/ingest",
        run_load,
        _LOAD,
        "write",
        body=LoadFields,
        upload=UploadFields,
        keeps_key=True,
        successor="load",
    ),
)
