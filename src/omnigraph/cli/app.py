"""The command line: reads the global options, and maps errors to exit codes."""

from __future__ import annotations

import gc
import logging
import os
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, cast

import typer
from typer.main import get_command

import omnigraph
from omnigraph.cli.command_group import COMMANDS, COMPLETION_VARIABLE, CommandGroup
from omnigraph.cli.config import read_config
from omnigraph.cli.global_options import VERBOSE_FLAGS, split_globals, wants_json
from omnigraph.cli.render.output import JsonOutput, Output, TextOutput
from omnigraph.cli.session import DURABILITY_VARIABLE, VARIABLE, Session, read_storage_options
from omnigraph.deadlines import Deadline
from omnigraph.errors import (
    UNDECIDED,
    ConflictError,
    MergeConflicts,
    OmniGraphError,
    ParameterError,
    PreconditionFailed,
    ValidationError,
)
from omnigraph.late_imports import leave_out
from omnigraph.storage.durability import Durability

FAILED = 1
USAGE = 2
CONFLICT = 3
PRECONDITION = 4

_HABITS = {
    "add": "nothing has to be staged: every command that writes makes a commit",
    "checkout": "there is no working copy: name the branch with --branch, or in omnigraph.toml",
    "clone": "a graph is a folder: copy it, then run omnigraph repair",
    "pull": "a graph is shared by its place: open it there with -g URI",
    "push": "a graph is shared by its place: open it there with -g URI",
    "show": "omnigraph commit show ID shows a commit",
    "switch": "there is no working copy: name the branch with --branch, or in omnigraph.toml",
}
"""What users of git type first, and what they want here."""
_SERVE_HABITS = ("--port", "--host")
"""What other servers call the two parts of --bind."""
_FROM_PYDANTIC = ": Value error, "
"""What Typer lets through of the library that checks values."""
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

app = typer.Typer(
    name="omnigraph",
    cls=CommandGroup,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Global options may come before or after the command. OMNIGRAPH_LOG=DEBUG shows more of the log.",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it so
    if wanted:
        sys.stdout.write(f"omnigraph {omnigraph.__version__}\n")
        raise typer.Exit


@app.callback()
def start(
    context: typer.Context,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, also for errors.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the log and tracebacks.")] = False,
    uris: Annotated[
        list[str] | None,
        typer.Option(
            "--graph",
            "-g",
            metavar="URI",
            help=f"The graph. Default: ${VARIABLE}, else that of omnigraph.toml, else the nearest graph at or above "
            "this folder. `serve` takes several.",
            show_default=False,
        ),
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--as", metavar="ACTOR", help="The actor that commits are recorded under.", show_default=False),
    ] = None,
    storage_options: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            help="A setting of the object store. Repeatable.",
            show_default=False,
        ),
    ] = None,
    durability: Annotated[
        Durability | None,
        typer.Option(
            "--durability",
            help="What acknowledged commits survive: the end of the process, or a power cut too. "
            f"Default: ${DURABILITY_VARIABLE}, else what the graph keeps from init.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Give up after this time, with nothing changed.",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="How much memory a query may use, such as 512MB. Default: $OMNIGRAPH_QUERY_BYTES, "
            "else a quarter of the machine.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[  # noqa: ARG001 - its callback has done the work
        bool,
        typer.Option("--version", "-V", help="Print the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask, as where there is no terminal.")] = False,
) -> None:
    """A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark."""
    _start_log("INFO" if verbose else "WARNING")
    output = JsonOutput() if json else TextOutput(quiet=quiet)
    # Without a limit too: what observes a deadline can be interrupted.
    deadline = Deadline(timeout)
    options = read_storage_options(storage_options or ())
    config = read_config(Path.cwd())
    context.default_map = config.list_defaults(COMMANDS)
    chosen = durability if durability or DURABILITY_VARIABLE in os.environ else config.durability
    first, *others = uris or [None]
    context.obj = Session(
        output,
        first,
        actor or config.actor,
        options,
        yes,
        chosen,
        deadline,
        memory,
        config.graph,
        tuple(filter(None, others)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    output = JsonOutput() if wants_json(words) else TextOutput()
    try:
        # Arrow imports pandas where it is installed, for a third of a second. No command needs it, except on Spark.
        with leave_out("pandas", until="pyspark"), _collect_seldom():
            code = _run(words, output)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader is gone, as in `| head`. Without this the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


@contextmanager
def _collect_seldom() -> Generator[None]:
    """Look for cycles of objects seldom: imports make many objects and none of them goes away."""
    usual = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def exit_code(error: OmniGraphError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, PreconditionFailed):
        return PRECONDITION
    if isinstance(error, ConflictError | MergeConflicts):
        return CONFLICT
    if isinstance(error, ValidationError) and {each.rule for each in error.violations} == {UNDECIDED}:
        return CONFLICT
    return FAILED


def _run(words: Sequence[str], output: Output) -> int:
    try:
        if COMPLETION_VARIABLE in os.environ:
            from omnigraph.cli.next_words import answer_shell  # late: only a shell asks

            return answer_shell(get_command(app))
        options, command = split_globals(words)
        line = [*options, *_to_help(command)]
        return cast("int | None", app(line, prog_name="omnigraph", standalone_mode=False)) or 0
    except OmniGraphError as error:
        output.error(error)
        return exit_code(error)
    except typer.TyperException as error:
        message = error.format_message().replace(_FROM_PYDANTIC, ": ")
        output.error(ParameterError(message, hint=_name_help(words)))
        return USAGE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - a traceback is shown only with -v
        if VERBOSE_FLAGS.intersection(words):
            traceback.print_exc()
        message = f"unexpected {type(error).__name__}: {error}"
        output.error(OmniGraphError(message, hint="this is a bug in omnigraph; -v shows the traceback"))
        return FAILED


def _to_help(command: Sequence[str]) -> Sequence[str]:
    """``help query`` is ``query --help``; nothing is the help of all."""
    if not command or command[0] == "help":
        return [*command[1:2], "--help"]
    return command


def _name_help(words: Sequence[str]) -> str:
    """Say where help is, or what to type instead of a command that others have."""
    names = [word for word in words if not word.startswith("-")]
    command = next((word for word in names if word in COMMANDS), None)
    if command is None:
        return next((_HABITS[word] for word in names if word in _HABITS), "omnigraph --help lists the commands")
    usage = f"omnigraph {command} --help shows its usage"
    if command == "serve" and any(word.partition("=")[0] in _SERVE_HABITS for word in words):
        return f"give both with --bind HOST:PORT; {usage}"
    return usage


def _start_log(default: str) -> None:
    level = os.environ.get("OMNIGRAPH_LOG", default).upper()
    if level not in LOG_LEVELS:
        raise typer.BadParameter(f"OMNIGRAPH_LOG is {level!r}; it may be {', '.join(LOG_LEVELS)}")
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("omnigraph").setLevel(level)
