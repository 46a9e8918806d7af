"""What algorithms give: tables with their provenance, written back as commits and found again in the history."""

from omnigraph.analytics.results.algorithms import ALGORITHMS, Algorithm
from omnigraph.analytics.results.analytics_result import AnalyticsResult
from omnigraph.analytics.results.provenance import Analysis, Provenance, list_analyses
from omnigraph.analytics.results.table_rows import TableRows
from omnigraph.analytics.results.write_back import WriteTarget

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Analysis",
    "AnalyticsResult",
    "Provenance",
    "TableRows",
    "WriteTarget",
    "list_analyses",
]
