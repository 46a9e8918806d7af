"""``omnigraph fmt``: write query and schema files in their canonical layout."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.arguments import STDIN, read_texts
from omnigraph.cli.render.language import FormatResult, FormatResults
from omnigraph.cli.session import session_of
from omnigraph.errors import ParameterError, Problem, StorageError
from omnigraph.language.query import format_queries
from omnigraph.language.schema import format_schema
from omnigraph.language.source import Source

_FORMATTERS: dict[str, Callable[[Source | Problem], str | list[Problem]]] = {
    ".gq": format_queries,
    ".pg": format_schema,
}
_BEGINS_WITH_SCHEMA = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*(?:node|edge|interface)\b", re.DOTALL)


def fmt(
    context: typer.Context,
    files: Annotated[
        list[str], typer.Argument(help="Query files (.gq) and schema files (.pg); - is stdin.", show_default=False)
    ],
    *,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if a file would change.")] = False,
) -> int:
    """Write query and schema files in one layout. Comments stay where they are.

    A file with a syntax error is reported and left alone. The layout of stdin is printed.

    \b
    Examples:
      omnigraph fmt --check evidence/*.gq evidence/*.pg
      omnigraph fmt questions.gq
    """
    unknown = [name for name in files if name != STDIN and Path(name).suffix not in _FORMATTERS]
    if unknown:
        raise ParameterError(
            f"neither .gq nor .pg: {', '.join(unknown)}", hint="query files end in .gq, schema files in .pg"
        )
    results = [_lay_out(name, text, prints=not check) for name, text in zip(files, read_texts(files), strict=True)]
    for result in results:
        if result.is_changed and not check and not result.is_printed:
            _replace_file(Path(result.path), result.text)
    session_of(context).output.show(FormatResults(results, is_check=check))
    return 1 if any(each.problems or (check and each.is_changed) for each in results) else 0


def _lay_out(name: str, text: Source | Problem, *, prints: bool) -> FormatResult:
    suffix = _guess_suffix(text) if name == STDIN else Path(name).suffix
    found = _FORMATTERS[suffix](text)
    if isinstance(found, list):
        return FormatResult(name, tuple(found))
    is_changed = isinstance(text, Source) and found != text.text
    return FormatResult(name, (), found, is_changed=is_changed, is_printed=prints and name == STDIN)


def _guess_suffix(text: Source | Problem) -> str:
    """Return the language of stdin: a schema begins with a declaration."""
    return ".pg" if isinstance(text, Source) and _BEGINS_WITH_SCHEMA.match(text.text) else ".gq"


def _replace_file(path: Path, text: str) -> None:
    """Replace a file by a new one of the same mode. Readers see the old file or the new one; a link stays a link."""
    file = path.resolve()
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("x", encoding="utf-8", newline="") as new:
                new.write(text)
                new.flush()
                os.fsync(new.fileno())
            shutil.copymode(file, temporary)
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}", hint="look at the permissions and the space of the folder"
        ) from error
