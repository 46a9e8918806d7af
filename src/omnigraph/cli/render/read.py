"""Results of the commands that read data, and of ``index``."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import orjson

from omnigraph.cli.render.output import CommandResult, json_text
from omnigraph.cli.render.page import Page, pluralize, to_one_line
from omnigraph.errors import Json

if TYPE_CHECKING:
    from omnigraph.read.profile import Profile
    from omnigraph.read.result import Result as QueryResult
    from omnigraph.read.rows import ExportResult
    from omnigraph.write.indexes import IndexReport, IndexSpec

Format: TypeAlias = Literal["table", "json", "jsonl", "csv", "kv"]
Row: TypeAlias = Mapping[str, Json]

MOST_ROWS = 200
"""A person at a terminal looks at so many."""
_SHOWN_ITEMS = 3


@dataclass(frozen=True, slots=True)
class QueryRows(CommandResult):
    """The rows of a query in one of the output formats."""

    result: QueryResult
    format: Format

    def to_json(self) -> Mapping[str, Json]:
        """The query, its columns and rows, and where they come from."""
        return self.result.to_json()

    def draw(self, page: Page) -> None:
        """Print the rows. Only a table needs all of them before it starts."""
        match self.format:
            case "table":
                self._draw_table(page)
            case "json":
                page.write(json_text(self.to_json()))
            case "jsonl":
                for rows in self._rows():
                    page.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows).decode())
            case "csv":
                page.write(csv_lines([self.result.columns]))
                for rows in self._rows():
                    page.write(csv_lines([map(csv_cell, row.values()) for row in rows]))
            case "kv":
                self._draw_properties(page)

    def _rows(self) -> Iterator[list[dict[str, Json]]]:
        # Imported here, because it brings Arrow along.
        from omnigraph.read.rows import to_json_rows

        return (to_json_rows(batch) for batch in self.result.batches())

    def _draw_table(self, page: Page) -> None:
        watched = page.out.is_terminal
        shown: list[list[str]] = []
        count = 0
        for rows in self._rows():
            count += len(rows)
            wanted = rows[: MOST_ROWS - len(shown)] if watched else rows
            shown += [[value_text(value, short=watched) for value in row.values()] for row in wanted]
        page.grid([to_one_line(name) for name in self.result.columns], shown, self._numbers())
        if count > len(shown):
            page.say(f"and {count - len(shown):,} more; --format jsonl shows all")
        if not count:
            page.say("no rows")

    def _numbers(self) -> list[bool]:
        return [str(type_).startswith(("int", "uint", "float", "double")) for type_ in self.result.schema.types]

    def _draw_properties(self, page: Page) -> None:
        width = max(map(len, self.result.columns))
        gap = ""
        for rows in self._rows():
            for row in rows:
                lines = (f"{name:<{width}}  {value_text(value, short=False)}\n" for name, value in row.items())
                page.write(gap + "".join(lines))
                gap = "\n"


def value_text(value: Json, *, short: bool) -> str:
    """Format a value on one line. On a terminal a long list shows its start and its length."""
    if isinstance(value, str):
        return to_one_line(value)
    if short and isinstance(value, Sequence) and len(value) > _SHOWN_ITEMS:
        first = ", ".join(_json(item) for item in value[:_SHOWN_ITEMS])
        return f"[{first}, … {len(value)} items]"
    return _json(value)


def csv_cell(value: Json) -> Json:
    """Format a cell: texts as they are, nothing for null, everything else as JSON."""
    return value if value is None or isinstance(value, str) else _json(value)


def csv_lines(rows: Iterable[Iterable[Json]]) -> str:
    """Format rows as CSV lines."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _json(value: Json) -> str:
    return orjson.dumps(value).decode()


@dataclass(frozen=True, slots=True)
class ExplainedPlan(CommandResult):
    """The plan of a query that did not run."""

    query_name: str
    branch: str
    plan: str

    def to_json(self) -> Mapping[str, Json]:
        """The plan as a text."""
        return {"query_name": self.query_name, "branch": self.branch, "plan": self.plan}

    def draw(self, page: Page) -> None:
        """The plan as it is."""
        page.write(f"{self.plan}\n")


@dataclass(frozen=True, slots=True)
class QueryProfile(CommandResult):
    """The plan of a query that ran, with rows and times."""

    query_name: str
    branch: str
    profile: Profile

    def to_json(self) -> Mapping[str, Json]:
        """The plan as a tree."""
        return {"query_name": self.query_name, "branch": self.branch, **cast("Row", self.profile.to_json())}

    def draw(self, page: Page) -> None:
        """The plan with its notes."""
        page.write(f"{self.profile}\n")


@dataclass(frozen=True, slots=True)
class ExportSummary(CommandResult):
    """What an export wrote."""

    result: ExportResult

    def to_json(self) -> Mapping[str, Json]:
        """Every field, the commit as its id."""
        result = self.result
        return {
            "commit": None if result.commit is None else result.commit.id,
            "branch": result.branch,
            "format": result.format,
            "path": result.path,
            "nodes": dict(result.nodes),
            "edges": dict(result.edges),
        }

    def draw(self, page: Page) -> None:
        """One line, and the rows of each type."""
        result = self.result
        nodes, edges = (sum(counts.values()) for counts in (result.nodes, result.edges))
        commit = "" if result.commit is None else f", at commit {result.commit.id}"
        page.print(f"{result.path}: {pluralize(nodes, 'node')}, {pluralize(edges, 'edge')}{commit}")
        kinds = {"node": result.nodes, "edge": result.edges}
        page.print("")
        page.table(
            ("kind", "type", "rows"),
            [(kind, name, count) for kind, counts in kinds.items() for name, count in counts.items()],
        )


@dataclass(frozen=True, slots=True)
class IndexSummary(CommandResult):
    """The state of each index of a branch."""

    branch: str
    report: IndexReport

    def to_json(self) -> Mapping[str, Json]:
        """The commit, and the indexes by outcome."""
        report = self.report
        return {
            "branch": self.branch,
            "commit": None if report.commit is None else report.commit.id,
            "built": [_index_json(each) for each in report.built],
            "present": [_index_json(each) for each in report.present],
            "deferred": [{**_index_json(each.index), "reason": each.reason} for each in report.deferred],
        }

    def draw(self, page: Page) -> None:
        """One line of counts, and the indexes that were built or deferred."""
        report = self.report
        commit = "no commit" if report.commit is None else f"commit {report.commit.id}"
        counts = f"{len(report.built)} built, {len(report.present)} present, {len(report.deferred)} deferred"
        page.print(f"{self.branch}: {counts}, {commit}")
        rows = [(*_index_cells(each), "built") for each in report.built]
        rows += [(*_index_cells(each.index), each.reason) for each in report.deferred]
        if rows:
            page.print("")
            page.table(("kind", "type", "column", "index", "outcome"), rows)


def _index_cells(index: IndexSpec) -> tuple[str, str, str, str | None]:
    return index.table_key.kind, index.table_key.type_name, index.column, index.kind


def _index_json(index: IndexSpec) -> dict[str, Json]:
    return {"table_key": index.table_key, "column": index.column, "kind": index.kind}
