"""``omnigraph shell``: ask and change a graph statement by statement."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.arguments import At, ReadBranch
from omnigraph.cli.session import session_of
from omnigraph.cli.shell import Prompt, ShellRunner, StatementReader, open_prompt


def shell(
    context: typer.Context,
    branch: ReadBranch = "main",
    at: At = None,
    *,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse mutations, as where the graph may not be written.")
    ] = False,
) -> int:
    """Open a prompt: type queries and mutations, with history and completion from the schema.

    A statement ends with ';', with an empty line, or where a whole query ends. '.help' lists the commands. From a pipe
    the statements are run without a prompt, and the exit code is 1 if one of them failed.

    \b
    Examples:
      omnigraph shell -g brain.og
      omnigraph shell --at v12 --read-only
      echo 'match { $t: Trial } return { count($t) };' | omnigraph shell -g brain.og
    """
    session = session_of(context)
    if session.output.is_json:
        raise typer.TyperException("'shell' is for people; --json goes with 'query' and 'mutate'")
    with session.open("ro" if read_only else "rw") as graph:
        runner = ShellRunner(graph, session.output, branch)
        if at is not None:
            runner.run(f".at {at}")
        with open_prompt(runner.complete) as prompt:
            if prompt.is_watched:
                session.output.say(f"{graph.uri}; .help lists the commands, .quit leaves")
            _run_all(runner, prompt)
    return 0 if prompt.is_watched else int(runner.failures > 0)


def _run_all(runner: ShellRunner, prompt: Prompt) -> None:
    reader = StatementReader()
    while not runner.is_over:
        try:
            line = prompt.read(f"{runner.label}> " if reader.is_empty else f"{'...':>{len(runner.label)}}> ")
        except KeyboardInterrupt:
            # What was begun is dropped, as in other shells.
            reader.take()
            sys.stdout.write("\n")
            continue
        statement = reader.take() if line is None else reader.add(line)
        if statement is not None:
            runner.run(statement)
        if line is None:
            return
