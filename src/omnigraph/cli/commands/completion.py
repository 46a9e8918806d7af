"""``omnigraph completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import sys
from typing import Annotated, Literal, TypeAlias

import typer

from omnigraph.cli.command_group import COMPLETION_VARIABLE

ShellName: TypeAlias = Literal["bash", "zsh", "fish"]


def completion(
    shell: Annotated[ShellName, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> int:
    """Print a script that lets a shell complete commands and options.

    \b
    Examples:
      omnigraph completion bash >> ~/.bashrc
      omnigraph completion fish > ~/.config/fish/completions/omnigraph.fish
    """
    from typer._completion_shared import get_completion_script  # late: only this command needs it

    script = get_completion_script(prog_name="omnigraph", complete_var=COMPLETION_VARIABLE, shell=shell)
    sys.stdout.write(f"{script}\n")
    return 0
