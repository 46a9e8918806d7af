"""Errors of the server, rebuilt from the bodies of its answers: the same class, message, hint and details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

from omnigraph import errors
from omnigraph.errors import (
    Conflict,
    Json,
    MergeConflicts,
    OmniGraphError,
    Position,
    Problem,
    ServerUnavailable,
    TooManyRequests,
    ValidationError,
    Violation,
)
from omnigraph.violation_groups import ViolationGroup

Error = TypeVar("Error", bound=OmniGraphError)

UNREACHABLE_HINT: Final = "check the URL, and whether the server runs"

_CLASSES: Final[Mapping[str, type[OmniGraphError]]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, OmniGraphError) and "code" in vars(each)
}
_BY_STATUS: Final[Mapping[int, type[OmniGraphError]]] = {
    400: errors.ParameterError,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Unsupported,
    406: errors.Unsupported,
    409: errors.ConflictError,
    410: errors.HistoryGone,
    413: errors.ResultTooLarge,
    415: errors.ParameterError,
    421: errors.ServerUnavailable,
    422: errors.ValidationError,
    503: errors.ServerUnavailable,
}


def to_error(status: int, body: Mapping[str, Json]) -> OmniGraphError:
    """Return the error that an answer describes. A type that this release does not know is told by the status."""
    type_ = str(body.get("type") or "")
    kind = _CLASSES.get(type_) or _BY_STATUS.get(status, OmniGraphError)
    error = _make(kind, str(body.get("error") or f"the server answered with status {status}"), body.get("hint"))
    details = body.get("details")
    error.details = dict(details) if isinstance(details, Mapping) else {}
    # What an error of this kind knows by name is in its details too.
    for name, value in error.details.items():
        if not hasattr(error, name):
            setattr(error, name, value)
    _complete(error, body)
    return error


def make_unreachable(message: str, hint: str | None = None) -> ServerUnavailable:
    """Return the error for a server that does not answer, or not as one of ours would."""
    return ServerUnavailable(message, hint=hint or UNREACHABLE_HINT)


def _make(kind: type[Error], message: str, hint: Json) -> Error:
    error = kind.__new__(kind)
    OmniGraphError.__init__(error, message, hint=None if hint is None else str(hint))
    return error


def _complete(error: OmniGraphError, body: Mapping[str, Json]) -> None:
    """Add what only one kind of error has."""
    if isinstance(error, ValidationError):
        error.violations = tuple(_to_violation(each) for each in _objects(body, "violations"))
        error.groups = tuple(_to_group(each) for each in _objects(body, "groups"))
    if isinstance(error, MergeConflicts):
        error.conflicts = tuple(to_conflict(each) for each in _objects(body, "merge_conflicts"))
        error.details["conflicts"] = [each.to_json() for each in error.conflicts]
    if isinstance(error, errors.ExpectedVersionMismatch):
        found = body.get("manifest_conflict")
        if isinstance(found, Mapping):
            error.__dict__.update(found)
    if isinstance(error, TooManyRequests):
        error.retry_after = int(cast("int", body.get("retry_after") or 1))
    if isinstance(error, ServerUnavailable):
        error.retry_after = int(cast("int", body.get("retry_after") or 0))
    problems = body.get("problems")
    if problems:
        error.details["problems"] = problems
    if isinstance(error, errors.QueryError | errors.SchemaError) and problems:
        error.problems = tuple(_to_problem(each) for each in _objects(body, "problems"))
        error.position = error.problems[0].position


def _objects(body: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    found = body.get(name)
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, Mapping)]


def _to_violation(found: Mapping[str, Json]) -> Violation:
    names = ("file", "id", "property", "table_key")
    file, id_, property_, table_key = (cast("str | None", found.get(name)) for name in names)
    return Violation(
        str(found["type"]),
        str(found["rule"]),
        str(found["message"]),
        file,
        cast("int | None", found.get("line")),
        id_,
        property_,
        found.get("value"),
        table_key=table_key,
    )


def _to_group(found: Mapping[str, Json]) -> ViolationGroup:
    property_, table_key = (cast("str | None", found.get(name)) for name in ("property", "table_key"))
    return ViolationGroup(
        str(found["type"]),
        str(found["rule"]),
        property_,
        found.get("value"),
        str(found["message"]),
        cast(int, found["count"]),
        tuple(_to_violation(each) for each in _objects(found, "first")),
        table_key,
    )


def _to_problem(found: Mapping[str, Json]) -> Problem:
    position = cast("Mapping[str, object]", found["position"])
    hint = found.get("hint")
    return Problem(
        str(found["code"]),
        str(found["message"]),
        Position(**cast("dict[str, int]", dict(position))),  # pyright: ignore[reportArgumentType]  as it was sent
        None if hint is None else str(hint),
    )


def to_conflict(found: Mapping[str, Json]) -> Conflict:
    """Return a conflict of a merge."""
    kind = "".join(word.capitalize() for word in str(found["kind"]).split("_"))
    images = [cast("Mapping[str, object] | None", found.get(side)) for side in ("base", "ours", "theirs")]
    properties = cast("Sequence[str]", found.get("properties") or ())
    return Conflict(
        kind,
        str(found["table_key"]),
        str(found["id"]),
        *images,
        message=str(found["message"]),
        properties=tuple(properties),
    )
