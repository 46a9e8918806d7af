"""The parameters of a query on the command line: ``-p NAME=VALUE``, ``--params JSON`` and ``--params-file FILE``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

import typer

from omnigraph.cli.files import read_all
from omnigraph.errors import Json, ParameterError, Problem
from omnigraph.language.query import parse_parameter_text
from omnigraph.language.types import ValueType


@dataclass(frozen=True, slots=True)
class GivenParameters:
    """What was given: JSON values, and texts whose meaning depends on the type that the query declares."""

    values: Mapping[str, object]
    texts: Mapping[str, str]

    def for_types(self, declared: Mapping[str, ValueType]) -> dict[str, object]:
        """All values by name. An unknown name stays, to be reported beside whatever else is wrong."""
        found = dict(self.values)
        failures: list[ParameterError] = []
        for name, text in self.texts.items():
            try:
                found[name] = parse_parameter_text(name, text, declared[name]) if name in declared else text
            except ParameterError as error:
                failures.append(error)
        if failures:
            raise _all_of(failures)
        return found


def read_parameters(pairs: Sequence[str], text: str | None, file: str | None) -> GivenParameters:
    """Read the three options; no parameter may be given twice."""
    if text is not None and file is not None:
        raise typer.TyperException("--params and --params-file cannot be used together")
    values: Mapping[str, object] = {}
    if text is not None:
        values = _read_object(text, "--params")
    elif file is not None:
        values = _read_object(_text_of(file), file)
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.TyperException(f"-p takes NAME=VALUE, not '{pair}'")
        if name in texts or name in values:
            raise typer.TyperException(f"parameter '{name}' is given twice")
        texts[name] = value
    return GivenParameters(values, texts)


def _text_of(file: str) -> str:
    (found,) = read_all([file])
    if isinstance(found, Problem):
        at = found.position
        raise ParameterError(f"{at.file}:{at.line}:{at.column}: {found.message}", hint=found.hint)
    return found.text


def _read_object(text: str, place: str) -> Mapping[str, object]:
    try:
        found: object = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{place} is not JSON: {error}", hint='write an object such as {"name": "Ann"}') from None
    if not isinstance(found, dict):
        raise ParameterError(f"{place} is not a JSON object", hint='write an object such as {"name": "Ann"}')
    return cast("dict[str, object]", found)


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' stands twice in one object")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _all_of(failures: Sequence[ParameterError]) -> ParameterError:
    problems = [problem for error in failures for problem in cast("Sequence[Json]", error.details["problems"])]
    message = "; ".join(error.message for error in failures)
    return ParameterError(message, hint=failures[0].hint, details={"problems": problems})
