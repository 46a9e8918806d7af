"""Rebuild errors from the JSON that describes them: what a server answers, and what a task of Spark reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast

from omnigraph import errors
from omnigraph.errors import Json, OmniGraphError, Position, Problem, ValidationError, Violation
from omnigraph.violation_groups import ViolationGroup

Error = TypeVar("Error", bound=OmniGraphError)

ERROR_CLASSES: Final[Mapping[str, type[OmniGraphError]]] = {
    each.code: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, OmniGraphError) and "code" in vars(each)
}
"""The class of each code."""
_SOURCE_ERRORS: Final = (errors.SchemaError, errors.QueryError, errors.PipelineError, errors.ConfigError)
"""Errors that know the positions of their problems."""


def error_from_json(body: Mapping[str, Json]) -> OmniGraphError:
    """Return the error that ``error.to_json()`` describes. A code of another release gives the base class."""
    kind = ERROR_CLASSES.get(str(body.get("code")), OmniGraphError)
    error = make_error(kind, str(body.get("message")), body.get("hint"), body.get("details"))
    problems = list_present_objects(error.details, "problems")
    if isinstance(error, ValidationError):
        error.violations = tuple(map(to_violation, list_present_objects(body, "violations")))
        error.groups = tuple(map(to_group, list_present_objects(body, "groups")))
    if problems and issubclass(kind, _SOURCE_ERRORS):
        found = tuple(map(to_problem, problems))
        error.__dict__.update(problems=found, position=found[0].position)
    return error


def make_error(kind: type[Error], message: str, hint: Json, details: Json) -> Error:
    """Return an error of a class whose constructor may take other parameters."""
    error = kind.__new__(kind)
    OmniGraphError.__init__(error, message, hint=None if hint is None else str(hint))
    error.details = dict(details) if isinstance(details, Mapping) else {}
    # What an error of this kind knows by name is in its details too.
    for name, value in error.details.items():
        if not hasattr(error, name):
            setattr(error, name, value)
    return error


def list_present_objects(body: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    """Return the objects of a list that may be missing."""
    found = body.get(name)
    if not isinstance(found, list):
        return []
    return [each for each in found if isinstance(each, Mapping)]


def to_violation(found: Mapping[str, Json]) -> Violation:
    """Return a violation."""
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


def to_group(found: Mapping[str, Json]) -> ViolationGroup:
    """Return a group of violations."""
    property_, table_key = (cast("str | None", found.get(name)) for name in ("property", "table_key"))
    return ViolationGroup(
        str(found["type"]),
        str(found["rule"]),
        property_,
        found.get("value"),
        str(found["message"]),
        cast(int, found["count"]),
        tuple(to_violation(each) for each in list_present_objects(found, "first")),
        table_key,
    )


def to_problem(found: Mapping[str, Json]) -> Problem:
    """Return a problem of a source text."""
    position = cast("Mapping[str, object]", found["position"])
    hint = found.get("hint")
    return Problem(
        str(found["code"]),
        str(found["message"]),
        Position(**cast("dict[str, int]", dict(position))),  # pyright: ignore[reportArgumentType]  as it was sent
        None if hint is None else str(hint),
    )
