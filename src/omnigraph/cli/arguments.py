"""Arguments that several commands share: files, query texts, parameters of queries, and points in history."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeAlias, cast

import typer

from omnigraph.errors import InputError, Json, NotFound, OmniGraphError, ParameterError, Problem, QueryError
from omnigraph.language.source import MAX_SOURCE_BYTES, Source, decode_source, read_source
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.language.types import ValueType

# The query language is imported where a query is read: most commands have none.

QueryFile: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="FILE", help="The query file (.gq); - is stdin.", show_default=False)
]
QueryText: TypeAlias = Annotated[
    str | None, typer.Option("-e", metavar="SRC", help="The query as text, instead of a file.", show_default=False)
]
QueryName: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="Which query to run, if the text has several.", show_default=False)
]
Pairs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "-p",
        metavar="NAME=VALUE",
        help="A parameter: JSON, or plain text for a String. Repeatable.",
        show_default=False,
    ),
]
Params: TypeAlias = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="Parameters as a JSON object.", show_default=False)
]
ParamsFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--params-file", metavar="FILE", help="A file with a JSON object of parameters; - is stdin.", show_default=False
    ),
]
FileOptionPairs: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="How tables are written: format, header, sep, quote, escape, nullValue, encoding or multiLine.",
        show_default=False,
    ),
]
At: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="REF",
        help="A commit id or its end, a version like v12, a time, a tag, or main~2.",
        show_default="now",
    ),
]

ReadBranch: TypeAlias = Annotated[str, typer.Option("--branch", help="The branch to read.")]
Types: TypeAlias = Annotated[
    list[str] | None, typer.Option("--type", metavar="T", help="Only this type. Repeatable.", show_default=False)
]
Message: TypeAlias = Annotated[
    str | None, typer.Option("-m", "--message", metavar="TEXT", help="The commit message.", show_default=False)
]

SvgFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--svg", metavar="FILE", help="Draw a picture into this file instead; - is stdout.", show_default=False
    ),
]


def read_options(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE``. A value may be empty."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.TyperException(f"--option takes NAME=VALUE, for example sep=;, not '{pair}'")
        found[name] = value
    return found


def read_query(
    command: str,
    file: str | None,
    text: str | None,
    pairs: list[str] | None,
    params: str | None,
    params_file: str | None,
) -> tuple[Source, GivenParameters]:
    """Read the text of a query and the values for its parameters."""
    if file == params_file == STDIN:
        raise typer.TyperException("'-' (stdin) can be read only once")
    return _source(command, file, text), read_parameters(pairs or (), params, params_file)


def _source(command: str, file: str | None, text: str | None) -> Source:
    if (file is None) == (text is None):
        raise typer.TyperException(f"'{command}' takes either a FILE or -e SRC")
    if file is None:
        found = decode_source(name_body(text or "").encode("utf-8", "surrogateescape"), "-e")
    else:
        found = read_texts([file])[0]
    if isinstance(found, Problem):
        from omnigraph.language.query import SYNTAX_CODE

        raise QueryError([replace(found, code=SYNTAX_CODE)])
    return found


STDIN = STDOUT = "-"
_BODY = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*(?:match|insert|update|delete)\b", re.DOTALL)


def is_body(text: str) -> bool:
    """Whether a text is the body of a query, without a name."""
    return bool(_BODY.match(text))


def name_body(text: str) -> str:
    """Return a text of the query language: a body alone gets a name. Its lines keep their numbers."""
    # The brace has a line of its own, because the text may end in a comment.
    return f"query statement() {{ {text}\n}}" if is_body(text) else text


def read_texts(names: Sequence[str]) -> list[Source | Problem]:
    """Read all files. One that is not text yields a problem; those that cannot be read raise one error together."""
    if names.count(STDIN) > 1:
        raise typer.BadParameter("'-' (stdin) can be read only once")
    texts: list[Source | Problem] = []
    failures: list[OmniGraphError] = []
    for name in names:
        try:
            texts.append(_read(name))
        except (InputError, NotFound) as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise ParameterError("\n".join(error.message for error in failures))
    return texts


def _read(name: str) -> Source | Problem:
    if name == STDIN:
        return decode_source(sys.stdin.buffer.read(MAX_SOURCE_BYTES + 1), "<stdin>")
    path = Path(name)
    return read_source(path, path.suffix)


@dataclass(frozen=True, slots=True)
class GivenParameters:
    """Parameters as given: JSON values, and texts to be read by the type that the query declares."""

    values: Mapping[str, object]
    texts: Mapping[str, str]

    def for_types(self, declared: Mapping[str, ValueType]) -> dict[str, object]:
        """Convert the texts by the declared types. Unknown names are kept, so that binding reports them."""
        from omnigraph.language.query import parse_parameter_text

        found = dict(self.values)
        failures: list[ParameterError] = []
        for name, text in self.texts.items():
            try:
                found[name] = parse_parameter_text(name, text, declared[name]) if name in declared else text
            except ParameterError as error:
                failures.append(error)
        if failures:
            raise _combine_errors(failures)
        return found


def read_parameters(pairs: Sequence[str], text: str | None, file: str | None) -> GivenParameters:
    """Combine ``-p``, ``--params`` and ``--params-file``; a parameter given twice is an error."""
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
    (found,) = read_texts([file])
    if isinstance(found, Problem):
        at = found.position
        raise ParameterError(f"{at.file}:{at.line}:{at.column}: {found.message}", hint=found.hint)
    return found.text


def _read_object(text: str, place: str) -> Mapping[str, object]:
    try:
        found: object = json.loads(text, object_pairs_hook=_refuse_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{place} is not JSON: {error}", hint='write an object such as {"name": "Ann"}') from None
    if not isinstance(found, dict):
        raise ParameterError(f"{place} is not a JSON object", hint='write an object such as {"name": "Ann"}')
    return cast("dict[str, object]", found)


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' occurs twice in one object")
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _combine_errors(failures: Sequence[ParameterError]) -> ParameterError:
    problems = [problem for error in failures for problem in cast("Sequence[Json]", error.details["problems"])]
    message = "; ".join(error.message for error in failures)
    return ParameterError(message, hint=failures[0].hint, details={"problems": problems})
