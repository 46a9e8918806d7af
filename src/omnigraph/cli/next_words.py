"""What a shell may write next: commands, options, and the values of an option that has few.

Typer finds this by parsing the line, for which it loads as much again as the answer needs. Here words are only
looked up, so that a shell does not wait. Its formats for bash, zsh and fish are used as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from typer._click.shell_completion import CompletionItem, ShellComplete
from typer._completion_classes import BashComplete, FishComplete, ZshComplete
from typer.core import TyperGroup, TyperOption

from omnigraph.cli.command_group import COMMANDS, COMPLETION_VARIABLE, CommandGroup
from omnigraph.errors import ParameterError

if TYPE_CHECKING:
    from typer._click import Command


def answer_shell(program: Command) -> int:
    """Print what may come next, as the script of the shell wants it."""
    _action, _, shell = os.environ[COMPLETION_VARIABLE].partition("_")
    form = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}.get(shell)
    if form is None:
        raise ParameterError(f"{COMPLETION_VARIABLE} names no shell", hint="omnigraph completion --help")
    sys.stdout.write(f"{form(program, {}, 'omnigraph', COMPLETION_VARIABLE).complete()}\n")
    return 0


class _LookedUp(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return list(complete_word(self.cli, args, incomplete))


class _Bash(_LookedUp, BashComplete):
    pass


class _Zsh(_LookedUp, ZshComplete):
    pass


class _Fish(_LookedUp, FishComplete):
    pass


def complete_word(program: Command, before: Sequence[str], begun: str) -> Iterator[CompletionItem]:
    """List what the word that was begun may become, after the words before it."""
    command, awaiting = _follow(program, before)
    if awaiting is not None:
        found = ((value, None) for value in _list_values(awaiting))
    elif begun.startswith("-"):
        found = _list_options(dict.fromkeys([command, program]))
    else:
        found = _list_commands(command)
    yield from (CompletionItem(name, help=summary) for name, summary in found if name.startswith(begun))


def _follow(program: Command, words: Sequence[str]) -> tuple[Command, TyperOption | None]:
    """Return the command that the words lead to, and the option at their end if it waits for a value."""
    command = program
    awaiting: TyperOption | None = None
    for word in words:
        if awaiting is not None:
            awaiting = None
        elif word.startswith("-"):
            awaiting = _find_option((command, program), word)
        elif isinstance(command, TyperGroup) and word in command.commands:
            command = command.commands[word]
    return command, awaiting


def _find_option(commands: Iterable[Command], word: str) -> TyperOption | None:
    """Return the option that a word names, if the next word is its value."""
    for each in commands:
        for option in each.params:
            if isinstance(option, TyperOption) and not option.is_flag and word in option.opts:
                return option
    return None


def _list_values(option: TyperOption) -> Iterator[str]:
    """List the values of an option that has few; of any other a shell completes files."""
    for choice in option.type_descriptor.choices or ():
        yield str(choice)


def _list_options(commands: Iterable[Command]) -> Iterator[tuple[str, str | None]]:
    for command in commands:
        for option in command.params:
            if isinstance(option, TyperOption) and not option.hidden:
                yield from ((name, option.help) for name in option.opts)
    yield "--help", "Show this message and exit."


def _list_commands(command: Command) -> Iterator[tuple[str, str | None]]:
    if isinstance(command, CommandGroup):
        yield from ((name, entry.summary) for name, entry in COMMANDS.items())
    elif isinstance(command, TyperGroup):
        yield from ((name, each.get_short_help_str()) for name, each in command.commands.items())
