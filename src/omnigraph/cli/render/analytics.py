"""Results of ``omnigraph analyze``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.cli.render.output import CommandResult
from omnigraph.cli.render.page import Page
from omnigraph.cli.render.query_rows import QueryRows
from omnigraph.cli.render.write import LoadSummary
from omnigraph.errors import Json
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.analytics import Algorithm, Analysis, AnalyticsResult
    from omnigraph.write.load import LoadResult


@dataclass(frozen=True, slots=True)
class AlgorithmListing(CommandResult):
    """The algorithms, with their parameters and columns."""

    def to_json(self) -> Mapping[str, Json]:
        """Name, summary, parameters and columns of each."""
        return {
            "algorithms": [
                {
                    "name": each.name,
                    "summary": each.summary,
                    "parameters": list[Json](parameters),
                    "columns": list[Json](each.columns),
                }
                for each, parameters in _list_algorithms()
            ]
        }

    def draw(self, page: Page) -> None:
        """One line for each."""
        rows = [
            (each.name, ", ".join(parameters), ", ".join(each.columns), each.summary)
            for each, parameters in _list_algorithms()
        ]
        page.table(("algorithm", "parameters", "columns", "what"), rows)


def _list_algorithms() -> list[tuple[Algorithm, list[str]]]:
    # Imported here, because it brings Arrow along.
    from omnigraph.analytics import ALGORITHMS, list_parameters

    return [(each, list(list_parameters(each.name))) for each in ALGORITHMS.values()]


@dataclass(frozen=True, slots=True)
class AnalysisListing(CommandResult):
    """What algorithms wrote on a branch."""

    branch: str
    analyses: Sequence[Analysis]

    def to_json(self) -> Mapping[str, Json]:
        """Each with its provenance, and whether it is stale."""
        return {"branch": self.branch, "analyses": [each.to_json() for each in self.analyses]}

    def draw(self, page: Page) -> None:
        """One line for each."""
        if not self.analyses:
            page.say("no analyses")
            return
        words = {True: "stale", False: "current", None: "unknown"}
        rows = [
            (", ".join(each.written), each.provenance.algorithm, each.source, words[each.is_stale])
            for each in self.analyses
        ]
        page.table(("written", "algorithm", "computed on", "state"), rows)


@dataclass(frozen=True, slots=True)
class WrittenResult(CommandResult):
    """A result that was written, and its largest values if they were asked for."""

    loaded: LoadResult
    top: AnalyticsResult | None

    def to_json(self) -> Mapping[str, Json]:
        """The commit and its counts, and ``rows`` if there is a top."""
        written = LoadSummary(self.loaded, checked=False).to_json()
        return written if self.top is None else {**written, "rows": self.top.to_json()["rows"]}

    def draw(self, page: Page) -> None:
        """What was written, then the rows."""
        LoadSummary(self.loaded, checked=False).draw(page)
        if self.top is not None:
            QueryRows(self.top, "table").draw(page)
