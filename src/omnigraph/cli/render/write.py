"""Results of the commands that write data, and of recoveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from omnigraph.cli.render.graph import timestamp
from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page, pluralize
from omnigraph.errors import Json
from omnigraph.language.schema import TableKey
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.write.commit import Recovery
    from omnigraph.write.load import LoadResult
    from omnigraph.write.mutation import MutationResult
    from omnigraph.write.rounding import RoundedColumn


@dataclass(frozen=True, slots=True)
class MutationSummary(CommandResult):
    """The result of a mutation."""

    query_name: str
    branch: str
    actor: str | None
    result: MutationResult

    def to_json(self) -> Mapping[str, Json]:
        """The query, the commit and the counts."""
        commit = self.result.commit
        return {
            "query_name": self.query_name,
            "branch": self.branch,
            "commit": None if commit is None else commit.id,
            "actor": self.actor,
            "affected_nodes": self.result.affected_nodes,
            "affected_edges": self.result.affected_edges,
            "rounded": [each.to_json() for each in self.result.rounded],
        }

    def draw(self, page: Page) -> None:
        """One line."""
        commit = self.result.commit
        counts = _count_entities(self.result.affected_nodes, self.result.affected_edges)
        made = "no commit" if commit is None else f"commit {commit.id}"
        page.print(f"{self.query_name}: {counts} affected, {made}")
        for column in self.result.rounded:
            page.say(f"note: {column.type}.{column.property}: {pluralize(column.count, 'value')} rounded")


@dataclass(frozen=True, slots=True)
class LoadSummary(CommandResult):
    """The result of a load. ``checked``: nothing was written."""

    result: LoadResult
    checked: bool

    def to_json(self) -> Mapping[str, Json]:
        """Every field, the commit as its id."""
        result = self.result
        return {
            "commit": None if result.commit is None else result.commit.id,
            "branch": result.branch,
            "mode": result.mode,
            "engine": result.engine,
            "nodes": dict(result.nodes),
            "edges": dict(result.edges),
            "rejected": result.rejected,
            "rejects_path": result.rejects_path,
            "replayed": result.replayed,
            "notes": list(result.notes),
            "counts": {key: each.to_json() for key, each in result.counts.items()},
            "rounded": [each.to_json() for each in result.rounded],
        }

    def draw(self, page: Page) -> None:
        """One line for the outcome, one for rejected records, and the rows of each type."""
        result = self.result
        page.print(f"{result.branch}: {self._outcome()}")
        if result.rejected:
            place = "" if result.rejects_path is None else f", see {result.rejects_path}"
            page.print(f"{pluralize(result.rejected, 'record')} rejected{place}")
        if result.counts:
            page.print("")
            page.table(*_tabulate(result))
        for note in (*map(_describe_rounded, result.rounded), *result.notes):
            page.say(f"note: {note}")

    def _outcome(self) -> str:
        commit = self.result.commit
        counts = _count_entities(sum(self.result.nodes.values()), sum(self.result.edges.values()))
        if self.result.replayed:
            return "loaded before" + ("" if commit is None else f", by commit {commit.id}")
        if self.checked:
            return f"{counts} can be loaded; nothing was written"
        if commit is None and self.result.mode in ("merge", "update") and not self.result.rejected:
            return f"{counts}, nothing changed"
        return f"{counts} loaded, " + ("no commit" if commit is None else f"commit {commit.id}")


def _describe_rounded(column: RoundedColumn) -> str:
    values = pluralize(column.count, "value")
    place = "" if column.line is None else f", first in {column.file or 'record'}:{column.line}"
    return f"{column.type}.{column.property}: {values} rounded{place}; --strict rejects such records"


def _tabulate(result: LoadResult) -> tuple[list[str], list[list[str | int]]]:
    """Return the header and the rows of a table of what became of the records of each type."""
    total = result.total
    all_inserted = total.inserted == total.read
    outcomes = ["inserted"] if all_inserted else [name for name, count in total.to_json().items() if count]
    header = ["kind", "type", *(["rows"] if all_inserted else outcomes)]
    rows: list[list[str | int]] = []
    # Records without a known type have a key without a kind.
    for key in sorted(map(TableKey, result.counts), key=lambda key: key.nodes_first):
        counts = result.counts[key]
        kind, name = (key.kind, key.type_name) if TableKey.is_key(key) else ("", key)
        rows.append([kind, name, *(cast("int", counts.to_json()[outcome]) for outcome in outcomes)])
    return header, rows


@dataclass(frozen=True, slots=True)
class RecoveryListing(CommandResult):
    """Recoveries, newest first. ``more``: older ones were left out."""

    recoveries: Sequence[Recovery]
    more: bool

    def to_json(self) -> Mapping[str, Json]:
        """Each with the versions of its tables."""
        return {
            "recoveries": [
                {
                    "commit": recovery.graph_commit_id,
                    "kind": str(recovery.kind),
                    "for_actor": recovery.for_actor,
                    "operation_id": recovery.operation_id,
                    "writer_kind": recovery.writer_kind,
                    "outcomes": [
                        {
                            "table_key": outcome.table_key,
                            "from_version": outcome.from_version,
                            "to_version": outcome.to_version,
                        }
                        for outcome in recovery.outcomes
                    ],
                    "created_at": timestamp(recovery.created_at),
                }
                for recovery in self.recoveries
            ]
        }

    def draw(self, page: Page) -> None:
        """One line each."""
        if not self.recoveries:
            return page.say("no recoveries")
        page.table(
            ("commit", "when", "recovery", "writer", "for actor", "tables"),
            [
                (
                    recovery.graph_commit_id,
                    page.moment(recovery.created_at),
                    str(recovery.kind),
                    recovery.writer_kind,
                    recovery.for_actor,
                    ", ".join(outcome.table_key for outcome in recovery.outcomes),
                )
                for recovery in self.recoveries
            ],
        )
        return page.say("there are more; --limit shows them") if self.more else None


def _count_entities(nodes: int, edges: int) -> str:
    return f"{pluralize(nodes, 'node')}, {pluralize(edges, 'edge')}"
