"""``omnigraph load``: files of records, as one commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from omnigraph.arguments import parse_txn
from omnigraph.cli.arguments import STDIN, FileOptionPairs, Message, read_options
from omnigraph.cli.render.page import pluralize
from omnigraph.cli.render.write import LoadSummary
from omnigraph.cli.session import session_of
from omnigraph.errors import NotFound, ParameterError

# As the library names them; importing them from there would bring Lance along.
Mode: TypeAlias = Literal["append", "merge", "update", "overwrite"]
OnError: TypeAlias = Literal["fail", "quarantine"]
Engine: TypeAlias = Literal["auto", "local", "spark"]
ENDS = ("from", "to")


def load(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        typer.Argument(help="Files of records (JSONL, also gzip or zstd); - is stdin.", show_default=False),
    ] = None,
    *,
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="TYPE=FILE",
            help="A table of nodes: CSV, Parquet, Arrow or JSON lines; also a pattern or a folder. Repeatable.",
            show_default=False,
        ),
    ] = None,
    edge: Annotated[
        list[str] | None,
        typer.Option(
            "--edge",
            metavar="TYPE=FILE",
            help="A table of edges, with the columns from and to. Repeatable.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="TYPE.NAME=COLUMN",
            help="Read a property, id, from or to from a column of another name. Repeatable.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="TYPE.COLUMN",
            help="Do not read this column; TYPE.* stands for all that are no property. Repeatable.",
            show_default=False,
        ),
    ] = None,
    option: FileOptionPairs = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode",
            help="append adds rows and refuses ids that exist, merge adds rows or replaces what is there, "
            "update changes the given properties of rows that exist, overwrite replaces tables.",
        ),
    ] = "append",
    branch: Annotated[str, typer.Option("--branch", help="The branch to load into.")] = "main",
    origin: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="REF", help="Create the branch from here if it does not exist.", show_default=False
        ),
    ] = None,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="On a bad record: load nothing, or set it aside and load the others.")
    ] = "fail",
    rejects: Annotated[
        str | None,
        typer.Option(
            "--rejects",
            metavar="FILE",
            help="The file for the records that were set aside.",
            show_default="next to the graph",
        ),
    ] = None,
    txn: Annotated[
        str | None,
        typer.Option(
            "--txn",
            metavar="APP:N",
            help="Load at most once: a repeated load of the same APP:N does nothing.",
            show_default=False,
        ),
    ] = None,
    identity: Annotated[
        list[str] | None,
        typer.Option(
            "--identity",
            metavar="TYPE=COLUMNS",
            help="The columns by which merge and update find rows without an id: CallsAt=from,to,at. Repeatable.",
            show_default=False,
        ),
    ] = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Let an overwrite without rows remove all rows of a type.")
    ] = False,
    allow_missing_blobs: Annotated[
        bool,
        typer.Option("--allow-missing-blobs", help="Load blobs whose URI names a file that is not there."),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Reject records with times below a millisecond, or numbers that a float rounds."),
    ] = False,
    engine: Annotated[Engine, typer.Option("--engine", help="Where the load runs.")] = "auto",
    check: Annotated[bool, typer.Option("--check", help="Report every problem and write nothing.")] = False,
    message: Message = None,
) -> int:
    """Load files of records, or tables of nodes and edges, as one commit, all or nothing.

    Exits with 1 if a record breaks a rule of the schema, and says how many do and where the first are.

    \b
    Examples:
      omnigraph load evidence.jsonl --mode merge --branch import/june --from main
      omnigraph load --node Person=people.csv --edge Knows=knows.parquet --map Person.name=full_name
      omnigraph load --node Person=ranks.csv --mode update
    """
    session = session_of(context)
    if rejects is not None and on_error != "quarantine":
        raise typer.TyperException("--rejects goes with --on-error quarantine")
    transaction = None if txn is None else _read_txn(txn)
    identities = read_identities(identity or ())
    records, nodes, edges = files or [], read_tables("--node", node or ()), read_tables("--edge", edge or ())
    given = [*records, *(path for paths in (*nodes.values(), *edges.values()) for path in paths)]
    if not given:
        raise typer.TyperException("'load' takes files of records, or tables: --node TYPE=FILE and --edge TYPE=FILE")
    _check_files_exist(records)
    doing = "checking {} for" if check else "loading {} into"
    session.output.say(f"{doing.format(pluralize(len(given), 'file'))} branch {branch} in {session.target()}")
    with ExitStack() as stack:
        graph = stack.enter_context(session.open("ro" if check else "rw"))
        advance = stack.enter_context(session.output.progress(None if engine == "spark" else _total_bytes(given)))
        result = graph.load(
            [_StandardInput() if name == STDIN else name for name in records] or None,
            nodes=nodes,
            edges=edges,
            columns=read_column_names(columns or ()),
            ignore=read_ignored_columns(ignore or ()),
            options=read_options(option or ()),
            mode=mode,
            branch=branch,
            from_branch=origin,
            on_error=on_error,
            rejects=rejects,
            txn=transaction,
            identity=identities,
            allow_empty=allow_empty,
            allow_missing_blobs=allow_missing_blobs,
            strict=strict,
            engine=engine,
            message=message or _describe_files(given),
            check=check,
            progress=advance,
        )
    session.output.show(LoadSummary(result, checked=check))
    return 0


def _describe_files(names: Sequence[str]) -> str:
    """The message of a commit that is given none."""
    first = "records from stdin" if names[0] == STDIN else Path(names[0]).name
    others = f" and {pluralize(len(names) - 1, 'other file')}" if len(names) > 1 else ""
    return f"load {first}{others}: {{nodes}}, {{edges}}"


def _read_txn(text: str) -> tuple[str, int]:
    try:
        return parse_txn(text)
    except ParameterError:
        raise typer.TyperException(f"--txn takes APP:N, for example import:7, not '{text}'") from None


def read_tables(option: str, pairs: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``TYPE=FILE`` into the files of each type."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, path = pair.partition("=")
        if not (name and path):
            raise typer.TyperException(f"{option} takes TYPE=FILE, for example Person=people.csv, not '{pair}'")
        if path == STDIN:
            raise typer.TyperException(f"{option} takes a file: a table cannot be read from '-'")
        found.setdefault(name, []).append(path)
    return found


def read_column_names(pairs: Sequence[str]) -> dict[str, dict[str, str | list[str]]]:
    """Parse ``TYPE.NAME=COLUMN`` into the columns of each type. An end may have several columns, with commas."""
    found: dict[str, dict[str, str | list[str]]] = {}
    for pair in pairs:
        place, _, column = pair.partition("=")
        type_, _, name = place.partition(".")
        if not (type_ and name and column):
            raise typer.TyperException(f"--map takes TYPE.NAME=COLUMN, for example Person.name=full_name, not '{pair}'")
        if name in found.setdefault(type_, {}):
            raise typer.TyperException(f"--map gives {type_}.{name} twice")
        found[type_][name] = column.split(",") if name in ENDS and "," in column else column
    return found


def read_ignored_columns(places: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``TYPE.COLUMN`` into the ignored columns of each type."""
    found: dict[str, list[str]] = {}
    for place in places:
        type_, _, column = place.partition(".")
        if not (type_ and column):
            raise typer.TyperException(f"--ignore takes TYPE.COLUMN, for example Person.notes, not '{place}'")
        found.setdefault(type_, []).append(column)
    return found


def read_identities(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Parse each ``TYPE=COLUMN,COLUMN`` into the type and its columns; None if there are none."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, equals, columns = text.partition("=")
        if not (name and equals and columns):
            raise typer.TyperException(f"--identity takes TYPE=COLUMNS, for example CallsAt=from,to,at, not '{text}'")
        if name in found:
            raise typer.TyperException(f"--identity gives the columns of {name} twice")
        found[name] = [column.strip() for column in columns.split(",")]
    return found or None


def _check_files_exist(files: Sequence[str]) -> None:
    if files.count(STDIN) > 1:
        raise typer.TyperException("'-' (stdin) can be read only once")
    missing = [name for name in files if name != STDIN and not Path(name).exists()]
    if missing:
        raise NotFound(f"no such file: {', '.join(missing)}", hint="check the path")


def _total_bytes(files: Sequence[str]) -> int | None:
    """How much there is to read, where that is known beforehand."""
    # A late import: it brings Lance along, which the graph has loaded by now.
    from omnigraph.write.load import expand_path

    if STDIN in files:
        return None
    found = [Path(path) for name in files for path in expand_path(name)]
    return sum(path.stat().st_size for path in found) if all(path.is_file() for path in found) else None


class _StandardInput:
    """Standard input with the name that messages show."""

    name = "<stdin>"

    def read(self, size: int = -1, /) -> bytes:
        """Up to so many bytes; nothing at the end."""
        return sys.stdin.buffer.read(size)
