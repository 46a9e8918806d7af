"""The command line itself: the commands, the global options, and what each kind of failure exits with."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, cast

import typer

from omnigraph.cli import lint, schema, version
from omnigraph.cli.render import JsonOutput, Output, TextOutput
from omnigraph.errors import ConflictError, MergeConflicts, OmniGraphError, ParameterError, PreconditionFailed

FAILED = 1
USAGE = 2
CONFLICT = 3
PRECONDITION = 4

VERBOSE_FLAGS = frozenset({"--verbose", "-v"})
GLOBAL_FLAGS = frozenset({"--json", "--quiet"}) | VERBOSE_FLAGS
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

app = typer.Typer(
    name="omnigraph",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="These options may stand before or after the command. OMNIGRAPH_LOG=DEBUG shows more of the log.",
)
app.command("lint")(lint.lint)
app.add_typer(schema.app, name="schema")
app.command("version")(version.version)


@app.callback()
def start(
    context: typer.Context,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, errors too.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print results and errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the log, and tracebacks.")] = False,
) -> None:
    """A versioned, typed property graph on Lance, with Git-like branches and a data pipeline on Spark."""
    _start_log("INFO" if verbose else "WARNING")
    context.obj = JsonOutput() if json else TextOutput(quiet=quiet)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it went."""
    flags, words = split_globals(sys.argv[1:] if arguments is None else arguments)
    output = JsonOutput() if "--json" in flags else TextOutput()
    try:
        code = _run(flags, words or ["--help"], output)
        sys.stdout.flush()
    except BrokenPipeError:
        # Nobody reads on, as in `| head`; without this the interpreter would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def split_globals(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The global flags of a command line, wherever they stand, and the rest; after ``--`` nothing is a flag."""
    end = words.index("--") if "--" in words else len(words)
    flags = [word for word in words[:end] if word in GLOBAL_FLAGS]
    return flags, [*(word for word in words[:end] if word not in GLOBAL_FLAGS), *words[end:]]


def exit_code(error: OmniGraphError) -> int:
    """What a command that fails with an error exits with."""
    if isinstance(error, PreconditionFailed):
        return PRECONDITION
    if isinstance(error, ConflictError | MergeConflicts):
        return CONFLICT
    return FAILED


def _run(flags: list[str], words: list[str], output: Output) -> int:
    try:
        return cast("int | None", app(flags + words, prog_name="omnigraph", standalone_mode=False)) or 0
    except OmniGraphError as error:
        output.error(error)
        return exit_code(error)
    except typer.TyperException as error:
        output.error(ParameterError(error.format_message(), hint="--help after a command shows how it is used"))
        return USAGE
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - nobody should meet a traceback who did not ask for one
        if VERBOSE_FLAGS.intersection(flags):
            traceback.print_exc()
        message = f"unexpected {type(error).__name__}: {error}"
        output.error(OmniGraphError(message, hint="this is a defect of omnigraph; -v shows the traceback"))
        return FAILED


def _start_log(default: str) -> None:
    level = os.environ.get("OMNIGRAPH_LOG", default).upper()
    if level not in LOG_LEVELS:
        raise typer.BadParameter(f"OMNIGRAPH_LOG is {level!r}; it may be {', '.join(LOG_LEVELS)}")
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("omnigraph").setLevel(level)
