"""The whole error tree, grouped by what the caller can do.

::

    OmniGraphError
      InputError                  fix the input
        SchemaError, QueryError, ParameterError, SourceTooLarge, WalkTooLong, Unsupported,
        PipelineError, ConfigError, KeyReused, ForkedProcess
        ValidationError
          KeyConflict, ConflictingValues, LegacyRowIds
      ConflictError               read again, retry
        ExpectedVersionMismatch, PublishContention, PreconditionFailed, LockTimeout
      MergeConflicts              decide
      NotFoundError               look elsewhere
        NotFound, HistoryGone, ChangeGap
      AlreadyExists               choose another name
      ReadOnly                    open for writing
      AccessError                 ask for a token, or for a right
        Unauthorized, Forbidden
      FormatError                 use the release that fits
        FormatTooNew, FormatTooOld
      LimitError                  ask for less, or raise the limit
        DeadlineExceeded, Cancelled, MemoryExceeded, QueryTooCostly, ResultTooLarge, TooManyRequests
      OperatorError               somebody has to look
        RecoveryError, DriftDetected, GraphMoved, NoDecision, StorageError, OutcomeUnknown, EmbeddingError,
        SparkUnavailable, ServerUnavailable

Every error has a stable ``code``, a ``message``, often a ``hint`` and ``details`` as plain JSON values.
Errors can be pickled, so they reach other processes complete. This module imports nothing else of the project.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import ClassVar, NamedTuple, TypeAlias, cast

from omnigraph.lazy_dataclass import dataclass
from omnigraph.violation_groups import ViolationGroup, count_violations, render_groups

MAX_LISTED_VIOLATIONS = 100
"""How many violations JSON lists. The groups count all."""
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a source text. Lines and columns count from 1; ``end_column`` is exclusive."""

    file: str | None
    line: int
    column: int
    end_column: int
    text: str

    def to_json(self) -> dict[str, Json]:
        """Return the ``position`` object of the JSON interface."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_column": self.end_column,
            "text": self.text,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a source text: a stable code, a message, a position, and a hint what to write instead."""

    code: str
    message: str
    position: Position
    hint: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``details.problems``."""
        found: dict[str, Json] = {"code": self.code, "message": self.message, "position": self.position.to_json()}
        if self.hint is not None:
            found["hint"] = self.hint
        return found

    def render(self) -> str:
        """Return the problem as plain text: position, message, the line, and carets under the span."""
        at = self.position
        margin = f"{at.line:>3} | "
        blank = " " * (len(margin) - 2) + "| "
        # Tabs are kept in the indent, so that the carets are right at any tab width.
        indent = "".join(char if char == "\t" else " " for char in at.text[: at.column - 1])
        caret = "^" * max(1, min(at.end_column, len(at.text) + 1) - at.column)
        advice = f" {self.hint}" if self.hint else ""
        return (
            f"{at.file or '<text>'}:{at.line}:{at.column}  {self.code}  {self.message}\n"
            f"{margin}{at.text}\n{blank}{indent}{caret}{advice}"
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """A record that breaks a rule of the schema."""

    type: str
    rule: str
    message: str
    file: str | None = None
    line: int | None = None
    id: str | None = None
    property: str | None = None
    value: Json = None
    ids: tuple[str, ...] = ()
    """The ids of the rows involved, if there are several; of very many, the first hundred."""
    table_key: str | None = None
    """The table of the type, such as ``node:Person``: an edge type may have the same name. None if there is none."""

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``violations``."""
        found: dict[str, Json] = {
            "file": self.file,
            "line": self.line,
            "type": self.type,
            "table_key": self.table_key,
            "id": self.id,
            "property": self.property,
            "rule": self.rule,
            "value": self.value,
            "message": self.message,
        }
        return {name: _escape_json(value) for name, value in found.items()}


class ConflictKey(NamedTuple):
    """Identifies a conflict within a merge. The table key tells a node type from an edge type of the same name."""

    kind: str
    table_key: str
    id: str
    properties: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """An entity that both sides of a merge changed differently, or that breaks a rule in the merged graph.

    ``base``, ``ours`` (the target branch) and ``theirs`` (the merged branch) hold the entity as Python values by
    property; None where it does not exist.
    """

    kind: str
    table_key: str
    id: str
    base: Mapping[str, object] | None
    ours: Mapping[str, object] | None
    theirs: Mapping[str, object] | None
    message: str
    properties: tuple[str, ...] = ()
    """The properties whose values differ, or that the rule is about."""

    @property
    def type(self) -> str:
        """The name of the type of the entity."""
        return self.table_key.partition(":")[2]

    @property
    def key(self) -> ConflictKey:
        """Identifies the conflict within a merge."""
        return ConflictKey(self.kind, self.table_key, self.id, self.properties)

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``details.conflicts``."""
        return {
            "kind": self.kind,
            "table_key": str(self.table_key),
            "type": self.type,
            "id": self.id,
            "properties": list(self.properties),
            "message": self.message,
            "base": _json_value(self.base),
            "ours": _json_value(self.ours),
            "theirs": _json_value(self.theirs),
        }


def _json_value(value: object) -> Json:
    """Return a Python value as a JSON value."""
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Mapping():
            return {str(name): _json_value(each) for name, each in cast("Mapping[object, object]", value).items()}
        case list() | tuple():
            return [_json_value(each) for each in cast("Sequence[object]", value)]
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _escape_surrogates(text: str) -> str:
    """Return a text that can be printed: input that is not valid Unicode must not fail the report about it."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def _escape_json(value: Json) -> Json:
    match value:
        case str():
            return _escape_surrogates(value)
        case list():
            return [_escape_json(each) for each in value]
        case _:
            return value


class OmniGraphError(Exception):
    """The base of all errors that OmniGraph raises."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None, details: Mapping[str, Json] | None = None) -> None:
        self.message = _escape_surrogates(message)
        self.hint = None if hint is None else _escape_surrogates(hint)
        self.details: dict[str, Json] = {name: _escape_json(value) for name, value in (details or {}).items()}
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call __init__ with args alone; subclasses have other parameters.
        return _revive, (type(self), self.args, self.__dict__)

    def to_json(self) -> dict[str, Json]:
        """Return the ``error`` object of the JSON interface."""
        found: dict[str, Json] = {"code": self.code, "message": self.message}
        if self.hint is not None:
            found["hint"] = self.hint
        found["details"] = self.details
        return found


def _revive(kind: type[OmniGraphError], args: tuple[object, ...], state: Mapping[str, object]) -> OmniGraphError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


# --------------------------------------------------------------------------------------------- fix the input


class InputError(OmniGraphError):
    """The input is wrong; nothing changed."""

    code = "input_error"


class _SourceProblems(InputError):
    """All problems of one source text. Only the subclasses are raised."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        first = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(
            f"{first.message}{more}",
            hint=first.hint,
            details={"problems": [problem.to_json() for problem in problems]},
        )
        self.problems = tuple(problems)
        self.position = first.position

    def __str__(self) -> str:
        return "\n".join(problem.render() for problem in self.problems)

    def to_json(self) -> dict[str, Json]:
        """Return the ``error`` object, with the position of the first problem."""
        return {**super().to_json(), "position": self.position.to_json()}


class SchemaError(_SourceProblems):
    """A ``.pg`` text is wrong; ``problems`` lists all problems."""

    code = "schema_error"


class QueryError(_SourceProblems):
    """A ``.gq`` text is wrong; ``problems`` lists all problems."""

    code = "query_error"


class PipelineError(_SourceProblems):
    """A pipeline file is wrong, or one of its steps failed; ``problems`` says where in the file, and why."""

    code = "pipeline_error"


class ConfigError(_SourceProblems):
    """The configuration of a server or a policy is wrong; ``problems`` says where in the file, and why."""

    code = "config_error"


class ParameterError(InputError):
    """A parameter or argument is missing, unknown, or of the wrong type or range."""

    code = "parameter_error"


class ValidationError(InputError):
    """Records break rules of the schema; ``violations`` lists the first of them, and ``groups`` counts all."""

    code = "validation_error"

    def __init__(
        self,
        message: str,
        violations: Sequence[Violation] = (),
        *,
        hint: str | None = None,
        groups: Sequence[ViolationGroup] | None = None,
    ) -> None:
        self.violations = tuple(violations)
        self.groups = count_violations(violations).to_groups() if groups is None else tuple(groups)
        count = sum(each.count for each in self.groups) if self.groups else len(self.violations)
        super().__init__(message, hint=hint, details={"count": count})

    def __str__(self) -> str:
        if sum(each.count for each in self.groups) < 2:
            return super().__str__()
        lines = [self.message, *(f"  {line}" for line in render_groups(self.groups))]
        return "\n".join([*lines, *([f"({self.hint})"] if self.hint else [])])

    def rewrite_violations(self, rewrite: Callable[[Violation], Violation]) -> None:
        """Change each violation, such as the name of its file."""
        self.violations = tuple(map(rewrite, self.violations))
        self.groups = tuple(each.rewrite(rewrite) for each in self.groups)

    def to_json(self) -> dict[str, Json]:
        """Return the ``error`` object, with all groups and the first violations."""
        listed = self.violations[:MAX_LISTED_VIOLATIONS]
        return {
            **super().to_json(),
            "groups": [group.to_json() for group in self.groups],
            "violations": [violation.to_json() for violation in listed],
        }


class KeyConflict(ValidationError):
    """A strict insert has an id that exists already."""

    code = "key_conflict"


class ConflictingValues(ValidationError):
    """The rows of a match give an entity several values for one property; nothing changed."""

    code = "conflicting_values"


class LegacyRowIds(ValidationError):
    """The stored ids of the type have an older form; run ``schema apply --rewrite-ids`` before writing."""

    code = "legacy_row_ids"


class SourceTooLarge(InputError):
    """A source text exceeds the size limit; it was not parsed."""

    code = "source_too_large"

    def __init__(self, name: str | None, size: int, limit: int) -> None:
        super().__init__(
            f"{name or '<text>'} has {size:,} bytes; at most {limit:,} are read",
            hint="split the file",
            details={"file": name, "size": size, "limit": limit},
        )
        self.size = size
        self.limit = limit


class KeyReused(InputError):
    """The key belongs to another write, which is done; ``commit_id`` is None if it made none. Nothing was changed."""

    code = "key_reused"

    def __init__(self, commit_id: str | None) -> None:
        super().__init__(
            "the key belongs to another write" + ("" if commit_id is None else f", which is commit {commit_id}"),
            hint="give each write its own key",
            details={"commit_id": commit_id},
        )
        self.commit_id = commit_id


class WalkTooLong(InputError):
    """A walk without an upper bound takes more hops on Spark than the session allows; no rows were given."""

    code = "walk_too_long"

    def __init__(self, rounds: int) -> None:
        super().__init__(
            f"a walk without an upper bound is not at its end after {rounds} hops",
            hint="write an upper bound, or run it locally",
            details={"rounds": rounds},
        )
        self.rounds = rounds


class Unsupported(InputError):
    """The request is not supported; the message says what is."""

    code = "unsupported"


class ForkedProcess(InputError):
    """A graph is used in a process that was forked from one that used it; start processes in another way."""

    code = "forked_process"


# --------------------------------------------------------------------------------------------- read again, retry


class ConflictError(OmniGraphError):
    """Another writer was first; nothing changed. Read again and retry."""

    code = "conflict"


class ExpectedVersionMismatch(ConflictError):
    """Another writer advanced the table first: read again and retry."""

    code = "expected_version_mismatch"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of '{table_key}': expected table version {expected}, the current one is {actual}",
            hint="read again and retry",
            details={"table_key": table_key, "expected": expected, "actual": actual},
        )
        self.table_key = table_key
        self.expected = expected
        self.actual = actual


class PublishContention(ConflictError):
    """Other writers won all attempts to publish."""

    code = "publish_contention"


class PreconditionFailed(ConflictError):
    """The head of the branch is not the commit given as ``if_commit``."""

    code = "precondition_failed"

    def __init__(self, branch: str, expected: str, actual: str | None) -> None:
        super().__init__(
            f"the head of '{branch}' is {actual or 'empty'}, not {expected}",
            hint="look at what changed, then decide again",
            details={"branch": branch, "expected": expected, "actual": actual},
        )
        self.branch = branch
        self.expected = expected
        self.actual = actual


class LockTimeout(ConflictError):
    """A lock was not released in time; the message names its holder."""

    code = "lock_timeout"

    def __init__(self, lock: str, holder: str | None, waited: float) -> None:
        super().__init__(
            f"the lock '{lock}' is held by {holder or 'an unknown holder'}; waited {waited:.1f} s",
            hint="retry when that work is done",
            details={"lock": lock, "holder": holder, "waited": waited},
        )
        self.lock = lock
        self.holder = holder
        self.waited = waited


# --------------------------------------------------------------------------------------------- decide


UNDECIDED = "undecided"
"""The rule of an entry, in a file of conflicts, that nobody has decided."""


class MergeConflicts(OmniGraphError):
    """Both sides changed the same entities; ``conflicts`` lists them, for you to decide."""

    code = "merge_conflicts"

    def __init__(self, message: str, conflicts: Sequence[Conflict]) -> None:
        hint = "decide each: prefer ours or theirs, or resolve them from the file that a dry run writes"
        super().__init__(message, hint=hint, details={"conflicts": [conflict.to_json() for conflict in conflicts]})
        self.conflicts = tuple(conflicts)


# --------------------------------------------------------------------------------------------- look elsewhere


class NotFoundError(OmniGraphError):
    """Something does not exist."""

    code = "not_found_error"


class NotFound(NotFoundError):
    """No graph, branch, commit, tag, type, query or entity has this name."""

    code = "not_found"


class HistoryGone(NotFoundError):
    """Cleanup removed the versions that were asked for."""

    code = "history_gone"


class ChangeGap(NotFoundError):
    """The change feed cannot continue from this cursor; take a new baseline."""

    code = "change_gap"


class AlreadyExists(OmniGraphError):
    """The name exists already; nothing changed."""

    code = "already_exists"


class ReadOnly(OmniGraphError):
    """The graph was opened read-only, or its storage is not writable."""

    code = "read_only"


# --------------------------------------------------------------------------------------------- ask for a right


class AccessError(OmniGraphError):
    """The caller may not do this. Nothing was changed."""

    code = "access_error"


class Unauthorized(AccessError):
    """The server does not know the token: it is missing, wrong, expired or revoked."""

    code = "unauthorized"


class Forbidden(AccessError):
    """The actor is known, and may not do this."""

    code = "forbidden"


# --------------------------------------------------------------------------------------------- use another release


class FormatError(OmniGraphError):
    """This release cannot open the format of the graph."""

    code = "format_error"


class FormatTooNew(FormatError):
    """A newer release wrote this graph; upgrade omnigraph."""

    code = "format_too_new"


class FormatTooOld(FormatError):
    """The format of the graph is too old for this release to migrate."""

    code = "format_too_old"


# --------------------------------------------------------------------------------------------- ask for less


class LimitError(OmniGraphError):
    """A limit was reached: ask for less, or raise the limit. Nothing was changed."""

    code = "limit_error"


class DeadlineExceeded(LimitError):
    """The call took longer than its ``timeout``. Nothing was changed."""

    code = "deadline_exceeded"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"not done in {seconds:g} s",
            hint="ask for less, or give a larger timeout; nothing was changed",
            details={"seconds": seconds},
        )
        self.seconds = seconds


class Cancelled(LimitError):
    """The call was cancelled through its ``Deadline``. Nothing was changed."""

    code = "cancelled"

    def __init__(self) -> None:
        super().__init__("cancelled", hint="nothing was changed")


class MemoryExceeded(LimitError):
    """A step of a query needs more memory than the query may use. Nothing was changed."""

    code = "memory_exceeded"

    def __init__(self, step: str, asked: int, held: int, budget: int) -> None:
        super().__init__(
            f"{step or 'a query'} needs {_print_bytes(asked)}; of {_print_bytes(budget)} for queries "
            f"{_print_bytes(max(0, budget - held))} are left",
            hint="filter more, return less, or allow more: memory= or --memory, and OMNIGRAPH_QUERY_BYTES",
            details={"step": step, "asked": asked, "held": held, "budget": budget},
        )
        self.step = step
        self.asked = asked
        self.held = held
        self.budget = budget
        self.is_for_one_row = False
        """Whether the step needs so much for a single row."""


def _print_bytes(nbytes: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if nbytes >= size:
            return f"{nbytes / size:,.1f} {unit}"
    return f"{nbytes:,} bytes"


class QueryTooCostly(LimitError):
    """A server refuses the query before it runs: its walks are too long, or it would make too many rows."""

    code = "query_too_costly"


class ResultTooLarge(LimitError):
    """The result has more rows or bytes than one answer may have. No part of it was given."""

    code = "result_too_large"


class TooManyRequests(LimitError):
    """The server is busy, or the caller has too many requests under way. Nothing was changed."""

    code = "too_many_requests"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message, hint=f"try again in {retry_after} s", details={"retry_after": retry_after})
        self.retry_after = retry_after


# --------------------------------------------------------------------------------------------- somebody has to look


class OperatorError(OmniGraphError):
    """Something other than the caller's input is wrong; an operator has to look."""

    code = "operator_error"


class RecoveryError(OperatorError):
    """Recovery cannot finish or undo the work of a dead writer; nothing was deleted."""

    code = "recovery_error"


class DriftDetected(OperatorError):
    """Something else changed a table of the graph; run ``omnigraph repair``."""

    code = "drift_detected"


class GraphMoved(OperatorError):
    """The graph was moved or copied, and a branch still refers to the old folder; run ``omnigraph repair``."""

    code = "graph_moved"


class NoDecision(OperatorError):
    """The policy could not be asked. Nothing was allowed, and nothing changed."""

    code = "no_decision"


class StorageError(OperatorError):
    """The storage failed: the disk, the object store or Lance."""

    code = "storage_error"


class OutcomeUnknown(OperatorError):
    """The write may have succeeded; look for ``commit_id`` before you retry."""

    code = "outcome_unknown"

    def __init__(self, commit_id: str | None, message: str, *, key: str | None = None) -> None:
        look = f"look for commit {commit_id} before retrying"
        if commit_id is None:
            look = f"ask with find_commit(key={key!r}), or repeat the call with this key"
        super().__init__(message, hint=look, details={"commit_id": commit_id, **({} if key is None else {"key": key})})
        self.commit_id = commit_id
        self.key = key


class EmbeddingError(OperatorError):
    """The embedding provider failed, or did not return vectors."""

    code = "embedding_error"


class SparkUnavailable(OperatorError):
    """Spark cannot start, or its executors cannot run OmniGraph; the message says what to install."""

    code = "spark_unavailable"


class ServerUnavailable(OperatorError):
    """The server cannot be started or reached, or it is about to stop."""

    code = "server_unavailable"
    retry_after: int = 0
    """How many seconds to wait, if the server said so."""
