"""What requests may contain: their models, and how a body or a query string becomes one.

Unknown fields are refused with a suggestion, all problems at once. Null and absent are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar, cast

import orjson
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from omnigraph import arguments
from omnigraph.errors import Json, ParameterError, Problem, QueryError, SchemaError
from omnigraph.language.query import SYNTAX_CODE
from omnigraph.language.schema import SYNTAX
from omnigraph.language.source import Source, decode_source, suggest_similar
from omnigraph.manifest.rows import MAIN

Count = Annotated[int, Field(ge=0, le=2**53)]
Milliseconds = Annotated[int, Field(gt=0, le=2**53)]
Numbers = Literal["native", "safe"]
_AS_SOMEONE = ("actor", "actor_id", "as")


class RequestModel(BaseModel):
    """The fields of a body or of a query string."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    is_body: ClassVar[bool] = False


class NoFields(RequestModel):
    """A request without fields."""


class ReadPlace(RequestModel):
    """Which state to read: the newest of a branch, one at a reference, or a commit as release 0.8 names it."""

    branch: str | None = None
    at: str | None = None
    snapshot: str | None = None

    @property
    def place(self) -> tuple[str, str | None]:
        """The branch and the reference to read."""
        if self.snapshot is not None and (self.branch is not None or self.at is not None):
            raise ParameterError("'snapshot' is given with 'branch' or 'at'", hint="give one of them")
        return MAIN if self.branch is None else self.branch, self.at if self.snapshot is None else self.snapshot


class WriteFields(RequestModel):
    """What every write takes."""

    branch: str = MAIN
    message: str | None = None
    if_commit: str | None = None
    txn: str | None = None
    """``APP:N``: the number of this write among those of an application."""


Fields = TypeVar("Fields", bound=RequestModel)


def parse_json_body(data: bytes, depth: int) -> Mapping[str, Json]:
    """Parse a body that must be a JSON object."""
    try:
        found = cast("Json", orjson.loads(data or b"{}"))
    except orjson.JSONDecodeError as error:
        raise ParameterError(f"the body is not JSON: {error}", hint="send one JSON object, in UTF-8") from None
    if not isinstance(found, dict):
        raise ParameterError("the body is not a JSON object", hint='send an object, such as {"query": "..."}')
    _check_depth(found, depth)
    return found


def _check_depth(value: Json, depth: int) -> None:
    level: list[Json] = [value]
    for _ in range(depth):
        level = [
            each
            for container in level
            if isinstance(container, dict | list)
            for each in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return
    raise ParameterError(f"the body is nested deeper than {depth} levels", hint="send flatter JSON")


def build_model(model: type[Fields], given: Mapping[str, object], *, is_text: bool) -> Fields:
    """Build the model of a request, or raise one error with all that is wrong. ``is_text``: all values are texts."""
    impersonating = [name for name in given if name in _AS_SOMEONE and name not in model.model_fields]
    if impersonating:
        raise ParameterError(
            f"'{impersonating[0]}' is not a field: the actor is that of the token", hint="leave it out"
        )
    present = {name: value for name, value in given.items() if value is not None}
    try:
        return model.model_validate(present, strict=not is_text)
    except ValidationError as error:
        raise _to_parameter_error(model, cast("Sequence[Mapping[str, Any]]", error.errors())) from None


def list_field_names(model: type[RequestModel]) -> list[str]:
    """Return the names that a request may use for the fields of a model."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        aliases = field.validation_alias
        names += (
            [str(alias) for alias in aliases.choices] if isinstance(aliases, AliasChoices) else [field.alias or name]
        )
    return names


def _to_parameter_error(model: type[RequestModel], problems: Sequence[Mapping[str, Any]]) -> ParameterError:
    found = [_describe_problem(model, problem) for problem in problems]
    message = "; ".join(problem["message"] for problem in found)
    hints = [problem["hint"] for problem in found if problem["hint"]]
    return ParameterError(message, hint=hints[0] if hints else None, details={"problems": cast("Json", found)})


def _describe_problem(model: type[RequestModel], problem: Mapping[str, Any]) -> dict[str, str]:
    name = ".".join(str(part) for part in cast("Sequence[object]", problem["loc"]))
    if problem["type"] == "extra_forbidden":
        known = list_field_names(model)
        hint = suggest_similar(name, known) or f"known are {', '.join(known) or 'none'}"
        return {"field": name, "message": f"unknown field '{name}'", "hint": hint}
    if problem["type"] == "missing":
        return {"field": name, "message": f"'{name}' is missing", "hint": f"give '{name}'"}
    text = str(problem["msg"])
    return {
        "field": name,
        "message": f"'{name}': {text[:1].lower()}{text[1:]}",
        "hint": f"/openapi.json says what '{name.partition('.')[0]}' may be",
    }


def to_query_source(text: str) -> Source:
    """Return the text of queries. A request never names a file of the server."""
    found = decode_source(text.encode("utf-8", "surrogatepass"), None)
    if isinstance(found, Problem):
        raise QueryError([replace(found, code=SYNTAX_CODE)])
    return found


def to_schema_source(text: str) -> Source:
    """Return the text of a schema. A request never names a file of the server."""
    found = decode_source(text.encode("utf-8", "surrogatepass"), None)
    if isinstance(found, Problem):
        raise SchemaError([replace(found, code=SYNTAX)])
    return found


def read_txn(text: str | None) -> tuple[str, int] | None:
    """Parse the txn of a request, if it has one."""
    if text is None:
        return None
    return arguments.parse_txn(text)
