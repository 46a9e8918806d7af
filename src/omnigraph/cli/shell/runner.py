"""Runs the statements of a shell on one graph, at one branch and moment, until it is told to stop."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, get_args

from omnigraph.cli.arguments import GivenParameters, name_body
from omnigraph.cli.render.graph import MAIN, BranchListing, CommitListing
from omnigraph.cli.render.language import PropertyListing, SchemaText
from omnigraph.cli.render.output import Output
from omnigraph.cli.render.page import pluralize
from omnigraph.cli.render.query_rows import Format, QueryRows
from omnigraph.cli.render.read import ExplainedPlan
from omnigraph.cli.render.write import MutationSummary
from omnigraph.cli.shell.statements import split_statements
from omnigraph.errors import NotFound, OmniGraphError, ParameterError
from omnigraph.language.query import MutationBody, Query, find_query, list_vocabulary
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.graph import Graph

_SHOWN_COMMITS: Final = 10
_NOW: Final = "now"
_HELP: Final = {
    ".help": "these lines",
    ".schema [TYPE]": "the schema, or the lines of one type",
    ".branch [NAME]": "list the branches, or go to one",
    ".at [REF]": "read at a commit, a version, a time or a tag; 'now' again",
    ".log": "the newest commits of the branch",
    ".param [NAME VALUE]": "show the parameters, or set one; a VALUE of '-' removes it",
    ".format NAME": f"how rows look: {', '.join(name for name in get_args(Format) if name != 'parquet')}",
    ".timing on|off": "whether the time of each statement is shown",
    ".explain STATEMENT": "show the plan",
    ".read FILE": "run the statements of a file",
    ".quit": "leave; so does Ctrl-D",
}


@dataclass(slots=True)
class ShellRunner:
    """The state of a shell."""

    graph: Graph
    output: Output
    branch: str = MAIN
    at: str | None = None
    format: Format = "table"
    timing: bool = False
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    is_over: bool = False
    failures: int = 0

    @property
    def label(self) -> str:
        """What the prompt shows."""
        return self.branch if self.at is None else f"{self.branch}@{self.at}"

    def run(self, statement: str) -> None:
        """Run one statement. An error is shown, and the shell goes on."""
        try:
            if statement.startswith("."):
                self._run_command(statement)
            else:
                self._run_query(statement)
        except OmniGraphError as error:
            self.failures += 1
            self.output.error(error)
        except KeyboardInterrupt:
            self.output.say("interrupted")

    def complete(self, begun: str) -> Iterator[str]:
        """Yield the words that begin so: of the language, of the schema, and the commands."""
        variable, dot, property_ = begun.rpartition(".")
        if dot and variable:
            names = {name for type_ in self.graph.schema.catalog.types() for name in type_.properties}
            yield from (f"{variable}.{name}" for name in sorted(names) if name.startswith(property_))
            return
        words = {command.split()[0] for command in _HELP} if begun.startswith(".") else self._list_words()
        yield from (word for word in sorted(words) if word.startswith(begun))

    def _list_words(self) -> set[str]:
        vocabulary = list_vocabulary()
        types = {type_.name for type_ in self.graph.schema.catalog.types()}
        # An edge is written with a small first letter in a pattern.
        edges = {name[:1].lower() + name[1:] for name in types}
        return {*vocabulary.keywords, *vocabulary.functions, *types, *edges}

    # --------------------------------------------------------------------------------------------- queries

    def _run_query(self, statement: str) -> None:
        started = perf_counter()
        self._ask(name_body(statement))
        if self.timing:
            self.output.say(f"{perf_counter() - started:.3f} s")

    def _ask(self, text: str) -> None:
        query = find_query(text)
        parameters = self._give_parameters(query)
        if isinstance(query.body, MutationBody):
            if self.at is not None:
                raise ParameterError(f"the past cannot be changed: this is {self.label}", hint=".at now goes back")
            result = self.graph.mutate(
                text, query.name, parameters, branch=self.branch, message=f"mutation {query.name}"
            )
            actor = None if result.commit is None else result.commit.actor
            self.output.show(MutationSummary(query.name, self.branch, actor, result))
            return
        rows = self.graph.query(text, query.name, parameters, branch=self.branch, at=self.at)
        self.output.show(QueryRows(rows, self.format))

    def _give_parameters(self, query: Query) -> Mapping[str, object]:
        declared = {each.name: each.type for each in query.parameters}
        texts = {name: text for name, text in self.parameters.items() if name in declared}
        return GivenParameters({}, texts).for_types(declared)

    # --------------------------------------------------------------------------------------------- commands

    def _run_command(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        commands: Mapping[str, Callable[[str], None]] = {
            ".help": self._help,
            ".schema": self._show_schema,
            ".branch": self._go_to_branch,
            ".at": self._go_to_moment,
            ".log": self._show_log,
            ".param": self._set_parameter,
            ".format": self._set_format,
            ".timing": self._set_timing,
            ".explain": self._explain,
            ".read": self._read_file,
            ".quit": self._quit,
            ".exit": self._quit,
        }
        if name not in commands:
            hint = suggest_similar(name, commands) or ".help lists the commands"
            raise ParameterError(f"there is no command {name}", hint=hint)
        commands[name](rest.strip())

    def _help(self, _: str) -> None:
        self.output.say("A statement ends with ';', with an empty line, or where a whole query ends:")
        self.output.say("  match { $p: Person } return { $p.name };")
        for command, meaning in _HELP.items():
            self.output.say(f"  {command:<22} {meaning}")

    def _show_schema(self, name: str) -> None:
        schema = self.graph.schema if self.at is None else self.graph.schema_at(self.at)
        if not name:
            self.output.show(SchemaText(schema))
            return
        type_ = schema.catalog.nodes.get(name) or schema.catalog.edges.get(name)
        if type_ is None:
            known = [each.name for each in schema.catalog.types()]
            hint = suggest_similar(name, known) or f"the types are {', '.join(known)}"
            raise NotFound(f"no type '{name}'", hint=hint)
        self.output.show(PropertyListing(type_))

    def _go_to_branch(self, name: str) -> None:
        if not name:
            self.output.show(BranchListing(self.graph.branches()))
            return
        self.graph.snapshot(name)
        self.branch, self.at = name, None

    def _go_to_moment(self, reference: str) -> None:
        if reference in ("", _NOW):
            self.at = None
            return
        commit = self.graph.snapshot(self.branch, at=reference).commit
        self.at = reference
        if commit is not None:
            self.output.say(f"commit {commit.id}")

    def _show_log(self, _: str) -> None:
        commits = self.graph.commits(self.branch, _SHOWN_COMMITS + 1)
        self.output.show(CommitListing(commits[:_SHOWN_COMMITS], more=len(commits) > _SHOWN_COMMITS))

    def _set_parameter(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if not rest:
            for each, text in self.parameters.items():
                self.output.say(f"  {each} = {text}")
            self.output.say(pluralize(len(self.parameters), "parameter"))
        elif value.strip() == "-":
            self.parameters.pop(name.removeprefix("$"), None)
        elif value:
            self.parameters[name.removeprefix("$")] = value.strip()
        else:
            raise ParameterError(f".param {name} has no value", hint=f".param {name} VALUE sets it")

    def _set_format(self, name: str) -> None:
        found = next((each for each in get_args(Format) if each == name and each != "parquet"), None)
        if found is None:
            raise ParameterError(f"there is no format '{name}'", hint=_HELP[".format NAME"])
        self.format = found

    def _set_timing(self, word: str) -> None:
        if word not in ("on", "off"):
            raise ParameterError(f".timing is on or off, not '{word}'")
        self.timing = word == "on"

    def _explain(self, statement: str) -> None:
        text = name_body(statement.removesuffix(";"))
        query = find_query(text)
        plan = self.graph.explain(text, query.name, self._give_parameters(query), branch=self.branch, at=self.at)
        self.output.show(ExplainedPlan(query.name, self.branch, plan))

    def _read_file(self, name: str) -> None:
        (path,) = shlex.split(name) or [""]
        try:
            with Path(path).open(encoding="utf-8") as file:
                statements = list(split_statements(iter(file)))
        except (OSError, UnicodeDecodeError) as error:
            raise NotFound(f"{path or 'no file'}: {error}") from None
        for statement in statements:
            self.run(statement)

    def _quit(self, _: str) -> None:
        self.is_over = True
