"""The commands by name: which module has each, and what ``omnigraph --help`` says of it.

The module of a command is imported when the command runs, so starting up costs the same however many commands there
are. Nothing else in this module may import a command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.main import get_command, get_group

from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from typer._click import Command, Context, HelpFormatter


COMPLETION_VARIABLE = "_OMNIGRAPH_COMPLETE"
"""Set by the script of a shell that asks what may come next."""
_PLAIN_TYPES = {"str": None, "int": "N", "float": "N"}
"""What stands for a value of these types in a help text; None is the name of the option."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One command of the top level: a function of a module, or a whole family of commands."""

    module: str
    function: str | None
    """The function of a single command; a family is the module's ``app``."""
    summary: str


COMMANDS = {
    "init": Entry("graph", "init", "Create an empty graph with a schema."),
    "info": Entry("graph", "info", "Show the location, contents and newest commit."),
    "status": Entry("status", "status", "Show where a branch stands, and what to do next."),
    "log": Entry("commit", "log", "List the newest commits."),
    "settings": Entry("graph", "settings", "Show or change what the graph keeps: automatic cleanup."),
    "load": Entry("load", "load", "Load files as one commit, all or nothing."),
    "query": Entry("query", "query", "Run a query on one snapshot of the graph."),
    "shell": Entry("shell", "shell", "Ask and change the graph at a prompt."),
    "mutate": Entry("query", "mutate", "Run an insert, update or delete as one commit."),
    "analyze": Entry("analyze", "analyze", "Run an algorithm over the graph: ranks, components, distances."),
    "export": Entry("export", "export", "Export the graph, or some types, as JSONL."),
    "index": Entry("upkeep", "index", "Build the indexes that the schema declares."),
    "diff": Entry("changes", "diff", "Show what changed from A to B."),
    "merge": Entry("merge", "merge", "Merge a branch, a commit or a tag into a branch."),
    "revert": Entry("merge", "revert", "Undo a commit with a new commit."),
    "snapshot": Entry("graph", "snapshot", "Show the version of every table."),
    "optimize": Entry("upkeep", "optimize", "Compact small files and build the indexes."),
    "cleanup": Entry("upkeep", "cleanup", "Delete old history and unneeded files."),
    "repair": Entry("upkeep", "repair", "Show and end drift: changes from outside."),
    "verify": Entry("upkeep", "verify", "Read the whole graph and check everything."),
    "completion": Entry("completion", "completion", "Print a script for the completion of a shell."),
    "lint": Entry("lint", "lint", "Check query files against a schema."),
    "fmt": Entry("fmt", "fmt", "Write query and schema files in one layout."),
    "version": Entry("graph", "version", "Print the versions of omnigraph and its libraries."),
    "branch": Entry("branch", None, "Create, list and delete branches."),
    "commit": Entry("commit", None, "Show the history of the graph."),
    "tag": Entry("tag", None, "Create, list and delete names for commits."),
    "changes": Entry("changes", None, "Follow the changes of a branch."),
    "pipeline": Entry("pipeline", None, "Build a graph from tables: plan, check and run."),
    "serve": Entry("serve", "serve", "Serve a graph over HTTP."),
    "mcp": Entry("mcp", "mcp", "Serve a graph to an agent over stdin and stdout."),
    "login": Entry("login", "login", "Keep the token of a server for later commands."),
    "logout": Entry("login", "logout", "Forget the token of a server."),
    "policy": Entry("policy", None, "Check, test and explain who may do what."),
    "token": Entry("token", None, "Create, list and revoke tokens for a server."),
    "schema": Entry("schema", None, "Check, compare, show and change schemas."),
}


class CommandGroup(TyperGroup):
    """The top level of the command line. Its help imports no command, and running one imports only that one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast("MutableMapping[str, Command]", _ImportedCommands())

    def list_commands(self, ctx: Context) -> list[str]:  # noqa: ARG002 - Typer passes it
        """List the names in the order of the table."""
        return list(COMMANDS)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:  # noqa: ARG002 - Typer passes it
        """Write the summaries of the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


class _ImportedCommands(Mapping[str, "Command"]):
    """The commands by name, each imported when it is looked up."""

    def __getitem__(self, name: str) -> Command:
        return _import_command(name, COMMANDS[name])

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


class _PlainArgument(TyperArgument):
    """An argument whose help shows its name, without the Python type."""

    def display_type_rich(self, ctx: Context) -> str | None:  # noqa: ARG002 - Typer passes it
        """Show no type."""
        return None

    def _usage_display_name(self) -> str:
        """Show an optional argument in brackets."""
        many = "..." if self.nargs != 1 else ""
        return f"{self.display_name_raw}{many}" if self.required else f"[{self.display_name_raw}]{many}"


def _show_plain_names(command: Command) -> Command:
    """Let the help of a command name values, not types of Python."""
    for parameter in command.params:
        if isinstance(parameter, TyperArgument):
            parameter.__class__ = _PlainArgument
        elif isinstance(parameter, TyperOption) and not parameter.is_flag and parameter.bare_type() in _PLAIN_TYPES:
            parameter.metavar = parameter.metavar or _PLAIN_TYPES[parameter.bare_type()] or str(parameter.name).upper()
    for each in getattr(command, "commands", {}).values():
        _show_plain_names(each)
    return command


def _import_command(name: str, entry: Entry) -> Command:
    module = import_module(f"omnigraph.cli.commands.{entry.module}")
    if entry.function is None:
        return _show_plain_names(get_group(cast(typer.Typer, module.app)))
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name)(cast("Callable[..., int]", getattr(module, entry.function)))
    return _show_plain_names(get_command(app))
