"""Errors of the server, rebuilt from the bodies of its answers: the same class, message, hint and details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from omnigraph import errors
from omnigraph.error_json import ERROR_CLASSES, list_present_objects, make_error, to_group, to_problem, to_violation
from omnigraph.errors import (
    Conflict,
    Json,
    MergeConflicts,
    OmniGraphError,
    ServerUnavailable,
    TooManyRequests,
    ValidationError,
)

UNREACHABLE_HINT: Final = "check the URL, and whether the server runs"

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
    kind = ERROR_CLASSES.get(type_) or _BY_STATUS.get(status, OmniGraphError)
    message = str(body.get("error") or f"the server answered with status {status}")
    error = make_error(kind, message, body.get("hint"), body.get("details"))
    _complete(error, body)
    return error


def make_unreachable(message: str, hint: str | None = None) -> ServerUnavailable:
    """Return the error for a server that does not answer, or not as one of ours would."""
    return ServerUnavailable(message, hint=hint or UNREACHABLE_HINT)


def _complete(error: OmniGraphError, body: Mapping[str, Json]) -> None:
    """Add what only one kind of error has."""
    if isinstance(error, ValidationError):
        error.violations = tuple(to_violation(each) for each in list_present_objects(body, "violations"))
        error.groups = tuple(to_group(each) for each in list_present_objects(body, "groups"))
    if isinstance(error, MergeConflicts):
        error.conflicts = tuple(to_conflict(each) for each in list_present_objects(body, "merge_conflicts"))
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
        error.problems = tuple(to_problem(each) for each in list_present_objects(body, "problems"))
        error.position = error.problems[0].position


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
