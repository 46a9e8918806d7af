"""Routes for long work: start upkeep as an operation, list and cancel operations and requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from time import monotonic
from typing import Annotated, Any, Final, Literal, cast

import orjson
from pydantic import Field

from omnigraph.deadlines import Deadline
from omnigraph.defaults import TEXTS_PER_EMBEDDING_CALL
from omnigraph.errors import Cancelled, Json, NotFound
from omnigraph.graph import Graph
from omnigraph.manifest.rows import MAIN
from omnigraph.server.access import Action, ask_graph
from omnigraph.server.calls import Answer, Route, ServerCall, begin_operation
from omnigraph.server.errors import ErrorContext, RequestError, hide_texts, to_error_answer
from omnigraph.server.hosting import RunningRequest
from omnigraph.server.messages import RequestModel, build_model
from omnigraph.server.operations import Operation, RunningOperation

OperationKind = Literal["index", "optimize", "cleanup", "repair", "verify", "embed"]


class OperationFields(RequestModel):
    """An operation to start: its kind, and the arguments of the verb."""

    kind: OperationKind
    args: dict[str, Any] = Field(default_factory=dict[str, Any])


class _TableArguments(RequestModel):
    branch: str = MAIN
    types: list[str] | None = None


class _CleanupArguments(RequestModel):
    keep: Annotated[int, Field(ge=1)] | None = None
    older_than: str | None = None
    staged_older_than: str | None = None
    confirm: bool = False


class _RepairArguments(RequestModel):
    confirm: bool = False
    force: bool = False


class _NoArguments(RequestModel):
    pass


class _EmbedArguments(RequestModel):
    type_name: str
    branch: str = MAIN
    batch: Annotated[int, Field(ge=1)] = TEXTS_PER_EMBEDDING_CALL
    commit_each: bool = False
    changed_since: str | None = None


def _build_indexes(graph: Graph, given: RequestModel, actor: str) -> object:
    assert isinstance(given, _TableArguments)
    return graph.ensure_indexes(given.branch, given.types, actor)


def _optimize(graph: Graph, given: RequestModel, actor: str) -> object:
    assert isinstance(given, _TableArguments)
    return graph.optimize(given.branch, given.types, actor)


def _clean_up(graph: Graph, given: RequestModel, actor: str) -> object:  # noqa: ARG001  as the others
    assert isinstance(given, _CleanupArguments)
    return graph.cleanup(given.keep, given.older_than, staged_older_than=given.staged_older_than, confirm=given.confirm)


def _repair(graph: Graph, given: RequestModel, actor: str) -> object:  # noqa: ARG001  as the others
    assert isinstance(given, _RepairArguments)
    return graph.repair(confirm=given.confirm, force=given.force)


def _verify(graph: Graph, given: RequestModel, actor: str) -> object:  # noqa: ARG001  as the others
    return graph.verify()


def _embed(graph: Graph, given: RequestModel, actor: str) -> object:
    assert isinstance(given, _EmbedArguments)
    return graph.embed(
        given.type_name,
        branch=given.branch,
        batch=given.batch,
        commit_each=given.commit_each,
        changed_since=given.changed_since,
        actor=actor,
    )


_VERBS: Final[Mapping[OperationKind, tuple[type[RequestModel], Callable[[Graph, RequestModel, str], object]]]] = {
    "index": (_TableArguments, _build_indexes),
    "optimize": (_TableArguments, _optimize),
    "cleanup": (_CleanupArguments, _clean_up),
    "repair": (_RepairArguments, _repair),
    "verify": (_NoArguments, _verify),
    "embed": (_EmbedArguments, _embed),
}


def start_operation(call: ServerCall) -> Answer:
    """Start upkeep that goes on by itself. Few run at a time for each graph."""
    asked = call.fields(OperationFields)
    model, verb = _VERBS[asked.kind]
    given = build_model(model, asked.args, is_text=False)
    hosting = call.hosting
    under_way = [each for each in hosting.operations.list_operations(call.graph.id) if _is_upkeep(each)]
    if len(under_way) >= call.limits.upkeep_threads:
        raise RequestError(
            409,
            "operation_running",
            f"operation {under_way[0].id} ({under_way[0].kind}) is under way",
            hint="wait for it, or cancel it",
            details={"operation": under_way[0].id},
        )
    running = begin_operation(call, asked.kind)
    deadline = Deadline()
    hosting.running[deadline] = RunningRequest(running.operation.id, call.graph.id, call.token.actor, asked.kind, None)
    worker = threading.Thread(
        target=_count_upkeep,
        args=(call, running, deadline, lambda: verb(call.graph.graph, given, call.token.actor)),
        name="omnigraph-operation",
        daemon=True,
    )
    worker.start()
    return _answer_operation(call, running.operation, HTTPStatus.ACCEPTED)


def _is_upkeep(operation: Operation) -> bool:
    return operation.state == "running" and operation.kind in _VERBS


def _count_upkeep(
    call: ServerCall, running: RunningOperation, deadline: Deadline, function: Callable[[], object]
) -> None:
    """Run upkeep as something that is under way until its end is recorded."""
    with call.hosting.traffic.count():
        _run_upkeep(call, running, deadline, function)


def _run_upkeep(
    call: ServerCall, running: RunningOperation, deadline: Deadline, function: Callable[[], object]
) -> None:
    try:
        with deadline:
            result = _result_to_wire(call, function())
        commit = result.get("commit") if isinstance(result, dict) else None
        running.end("succeeded", result=result, commit=commit if isinstance(commit, str) else None)
    except Cancelled:
        running.end("cancelled")
    except Exception as error:  # noqa: BLE001  whoever asks for the operation is told
        context = ErrorContext(call.request_id, call.graph.secrets)
        running.end("failed", error=cast("Json", dict(to_error_answer(error, context).body)))
    finally:
        call.hosting.running.pop(deadline, None)


def _result_to_wire(call: ServerCall, result: object) -> Json:
    """Return the fields of a result, without the location of the graph."""
    return hide_texts(cast("Json", orjson.loads(orjson.dumps(result, default=str))), call.graph.secrets)


def _answer_operation(call: ServerCall, operation: Operation, status: int = HTTPStatus.OK) -> Answer:
    location = f"{call.graph.uri}/operations/{operation.id}"
    return Answer({"operation": operation.to_wire()}, status=status, headers={"Location": location})


def list_all_operations(call: ServerCall) -> Answer:
    """List the operations of the caller; for an administrator, all."""
    found = [each for each in call.hosting.operations.list_operations(call.graph.id) if _may_see(call, each.actor)]
    return Answer({"operations": [_learn_fate(call, each).to_wire() for each in found]})


def get_one_operation(call: ServerCall) -> Answer:
    """Describe an operation."""
    return _answer_operation(call, _learn_fate(call, _find_operation(call)))


def cancel_operation(call: ServerCall) -> Answer:
    """Cancel an operation. One that has begun to commit goes on."""
    operation = _find_operation(call)
    if operation.state == "running" and not call.hosting.cancel_running(operation.id):
        call.hosting.operations.request_cancel(operation.id)
    return _answer_operation(call, operation)


def _find_operation(call: ServerCall) -> Operation:
    operation = call.hosting.operations.find(call.graph.id, call.path["operation"])
    if operation is None or not _may_see(call, operation.actor):
        raise NotFound("no operation of this id", hint="GET operations lists them")
    return operation


def _learn_fate(call: ServerCall, operation: Operation) -> Operation:
    """Look in the graph for the commit of an operation whose process died."""
    if operation.state != "lost" or operation.key is None or operation.branch is None:
        return operation
    commit = call.graph.graph.find_commit(operation.branch, key=operation.key, actor=operation.actor)
    return operation if commit is None else operation.with_commit(commit.id)


def _may_see(call: ServerCall, actor: str) -> bool:
    return actor == call.token.actor or _is_admin(call)


def _is_admin(call: ServerCall) -> bool:
    return call.gate.allows(call.gate.question(Action.ADMIN))


def list_running_requests(call: ServerCall) -> Answer:
    """List the requests of the caller that this worker works on; for an administrator, all."""
    found = [each for each in call.hosting.list_running(call.graph.id) if _may_see(call, each.actor)]
    now = monotonic()
    return Answer(
        {
            "requests": [
                {
                    "request_id": each.id,
                    "actor": each.actor,
                    "route": each.route,
                    "since_ms": round((now - each.began) * 1000),
                    "deadline_ms": None if each.seconds is None else round(each.seconds * 1000),
                }
                for each in found
            ]
        }
    )


def cancel_running_request(call: ServerCall) -> Answer:
    """Cancel a request, of whichever worker. A write that has begun to commit goes on."""
    name = call.path["request"]
    mine = [each for each in call.hosting.list_running(call.graph.id) if each.id == name]
    if mine and not any(_may_see(call, each.actor) for each in mine):
        raise NotFound("no request of this id is under way", hint="GET requests lists them")
    if mine:
        call.hosting.cancel_running(name)
    elif _is_admin(call) and _is_request_id(name):
        # Another worker may have it: it looks for this every second.
        call.hosting.operations.request_cancel(name)
    else:
        raise NotFound("no request of this id is under way", hint="GET requests lists them")
    return Answer({"request_id_cancelled": name}, status=HTTPStatus.ACCEPTED)


def _is_request_id(name: str) -> bool:
    return len(name) <= _LONGEST_ID and name.replace("-", "").replace("_", "").isalnum() and name.isascii()


def list_all_recoveries(call: ServerCall) -> Answer:
    """List the writes that another process finished or rolled back, newest first."""
    return Answer({"recoveries": _result_to_wire(call, call.graph.graph.recoveries())})


class HealthFields(RequestModel):
    """The branch whose tables are described."""

    branch: str = MAIN


def describe_graph_health(call: ServerCall) -> Answer:
    """Describe what is unfinished in a graph, and how compact and indexed its tables are."""
    found = _result_to_wire(call, call.graph.graph.health(call.fields(HealthFields).branch))
    return Answer(cast("dict[str, Json]", found))


class SettingsFields(RequestModel):
    """What the graph keeps from now on."""

    keep: str | None = None


def get_kept_settings(call: ServerCall) -> Answer:
    """Return the settings that a graph keeps."""
    return Answer(cast("dict[str, Json]", _result_to_wire(call, call.graph.graph.settings())))


def change_kept_settings(call: ServerCall) -> Answer:
    """Change the settings that a graph keeps: those that are given."""
    changed = call.graph.graph.change_settings(keep=call.fields(SettingsFields).keep)
    return Answer(cast("dict[str, Json]", _result_to_wire(call, changed)))


_LONGEST_ID: Final = 64
_G: Final = "/graphs/{graph_id}"
ROUTES: Final = (
    Route(
        "POST", f"{_G}/operations", start_operation, ask_graph(Action.ADMIN), body=OperationFields, keeps_answer=True
    ),
    Route("GET", f"{_G}/operations", list_all_operations, ask_graph(Action.READ), "control"),
    Route("GET", f"{_G}/operations/{{operation}}", get_one_operation, ask_graph(Action.READ), "control"),
    Route("DELETE", f"{_G}/operations/{{operation}}", cancel_operation, ask_graph(Action.READ), "control"),
    Route("GET", f"{_G}/requests", list_running_requests, ask_graph(Action.READ), "control"),
    Route("DELETE", f"{_G}/requests/{{request}}", cancel_running_request, ask_graph(Action.READ), "control"),
    Route("GET", f"{_G}/health", describe_graph_health, ask_graph(Action.ADMIN), query=HealthFields),
    Route("GET", f"{_G}/settings", get_kept_settings, ask_graph(Action.ADMIN)),
    Route(
        "POST",
        f"{_G}/settings",
        change_kept_settings,
        ask_graph(Action.ADMIN),
        "write",
        body=SettingsFields,
        keeps_answer=True,
    ),
    Route("GET", f"{_G}/recoveries", list_all_recoveries, ask_graph(Action.ADMIN)),
)
