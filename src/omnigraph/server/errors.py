"""The body and the status of every error, whatever layer it comes from.

The body is flat. ``code`` is one of the eight words that clients of release 0.8 know; ``type`` is our own code, an open
set. No body names a path, a location or a host: what would is logged, and the body says which request to look for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from http import HTTPStatus
from typing import Final, cast

from omnigraph.errors import (
    AlreadyExists,
    Cancelled,
    ChangeGap,
    Conflict,
    ConflictError,
    DeadlineExceeded,
    EmbeddingError,
    ExpectedVersionMismatch,
    Forbidden,
    FormatError,
    HistoryGone,
    InputError,
    Json,
    KeyReused,
    LockTimeout,
    MemoryExceeded,
    MergeConflicts,
    NotFoundError,
    OmniGraphError,
    OutcomeUnknown,
    PreconditionFailed,
    QueryTooCostly,
    ReadOnly,
    ResultTooLarge,
    ServerUnavailable,
    SourceTooLarge,
    StorageError,
    TooManyRequests,
    Unauthorized,
    ValidationError,
)
from omnigraph.lazy_dataclass import dataclass

MOST_VIOLATIONS: Final = 100
RETRY_SECONDS: Final = 5
_log = logging.getLogger("omnigraph.server")

# The first line that fits decides: subclasses stand above their bases.
_STATUS: Final[Sequence[tuple[type[OmniGraphError], int]]] = (
    (SourceTooLarge, 413),
    (ResultTooLarge, 413),
    (MemoryExceeded, 413),
    (ValidationError, 422),
    (KeyReused, 409),
    (InputError, 400),
    (QueryTooCostly, 400),
    (Unauthorized, 401),
    (Forbidden, 403),
    (ReadOnly, 403),
    (HistoryGone, 410),
    (ChangeGap, 410),
    (NotFoundError, 404),
    (PreconditionFailed, 412),
    (LockTimeout, 503),
    (ConflictError, 409),
    (MergeConflicts, 409),
    (AlreadyExists, 409),
    (TooManyRequests, 429),
    (DeadlineExceeded, 504),
    (Cancelled, 499),
    (FormatError, 503),
    (ServerUnavailable, 503),
    (EmbeddingError, 502),
)
_CODES: Final[Mapping[int, str]] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "not_found",
    412: "conflict",
    429: "too_many_requests",
}
_SECRETIVE: Final = (StorageError, LockTimeout)
"""Their messages name files, locations or the host of a lock's holder."""


class RequestError(OmniGraphError):
    """A request that HTTP itself refuses: a wrong path, method, content type, host or size."""

    code = "request_error"

    def __init__(
        self,
        status: int,
        type_: str,
        message: str,
        *,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Json] | None = None,
    ) -> None:
        super().__init__(message, hint=hint, details=details)
        self.status = status
        self.type = type_
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What is sent for an error."""

    status: int
    body: Mapping[str, Json]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """What the body of an error depends on beside the error."""

    request_id: str
    secrets: Sequence[str] = ()
    """The texts, such as locations, that no body may contain."""


def to_error_answer(error: Exception, context: ErrorContext) -> ErrorAnswer:
    """Return what is sent for an error."""
    request_id = context.request_id
    if not isinstance(error, OmniGraphError):
        _log.error("request %s failed", request_id, exc_info=error)
        error = OmniGraphError(f"the server failed: see request {request_id} in its log")
    elif isinstance(error, _SECRETIVE):
        _log.error("request %s: %s", request_id, error, exc_info=error)
    status = find_status(error)
    body = {**_describe_error(error, context), "request_id": request_id}
    retry_after = _find_retry_after(error, status)
    headers = dict(error.headers) if isinstance(error, RequestError) else {}
    if retry_after is not None:
        body["retry_after"] = retry_after
        headers["Retry-After"] = str(retry_after)
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    code = _CODES.get(status, "bad_request" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "internal")
    named = {"error": body.pop("error"), "code": code, **body}
    return ErrorAnswer(status, cast("dict[str, Json]", hide_texts(named, context.secrets)), headers)


def find_status(error: OmniGraphError) -> int:
    """Return the status of an error."""
    if isinstance(error, RequestError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), HTTPStatus.INTERNAL_SERVER_ERROR)


def _find_retry_after(error: OmniGraphError, status: int) -> int | None:
    if isinstance(error, TooManyRequests):
        return error.retry_after
    return RETRY_SECONDS if status == HTTPStatus.SERVICE_UNAVAILABLE else None


def _describe_error(error: OmniGraphError, context: ErrorContext) -> dict[str, Json]:
    """Return the fields of an error, without those that are empty."""
    type_ = error.type if isinstance(error, RequestError) else error.code
    if isinstance(error, StorageError):
        return {
            "error": f"the storage failed: see request {context.request_id} in the log",
            "type": type_,
        }
    if isinstance(error, LockTimeout):
        return {"error": f"another writer holds the lock '{error.lock}'", "type": type_, "hint": "try again"}
    found = error.to_json()
    details = dict(cast("Mapping[str, Json]", found["details"]))
    body: dict[str, Json] = {
        "error": error.message,
        "type": type_,
        "hint": error.hint,
        "position": found.get("position"),
        "problems": details.pop("problems", None),
    }
    if isinstance(error, ValidationError):
        shown = [violation.to_json() for violation in error.violations[:MOST_VIOLATIONS]]
        body["violations"] = cast("Json", shown)
        body["groups"] = [group.to_json() for group in error.groups]
        if len(error.violations) > MOST_VIOLATIONS:
            details["more"] = len(error.violations) - MOST_VIOLATIONS
    if isinstance(error, MergeConflicts):
        details.pop("conflicts", None)
        body["merge_conflicts"] = [conflict_to_wire(each) for each in error.conflicts]
    if isinstance(error, ExpectedVersionMismatch):
        body["manifest_conflict"] = {
            "table_key": error.table_key,
            "expected": error.expected,
            "actual": error.actual,
        }
    if isinstance(error, OutcomeUnknown):
        details["commit_id"] = error.commit_id
    body["details"] = details
    return {name: value for name, value in body.items() if value not in (None, {}, [])}


def conflict_to_wire(conflict: Conflict) -> dict[str, Json]:
    """Return a conflict with the names of release 0.8 beside ours."""
    return {**conflict.to_json(), "kind": to_snake_case(conflict.kind), "row_id": conflict.id}


def to_snake_case(name: str) -> str:
    """Return a name such as ``DivergentUpdate`` or ``fast-forward`` in small letters and underscores."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name.replace("-", "_")).removeprefix("_")


def hide_texts(value: Json, secrets: Sequence[str]) -> Json:
    """Return a value without the texts that must not leave the server."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "the graph")
        return value
    if isinstance(value, Mapping):
        return {name: hide_texts(each, secrets) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [hide_texts(each, secrets) for each in value]
    return value
