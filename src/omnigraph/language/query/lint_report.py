"""The report of lint: its JSON, and every problem with its position.

If a query has several problems, ``error`` is the first one as text and ``problems`` lists them all.
``LintReport.problems`` is for a terminal that draws carets.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from omnigraph.errors import Json, Problem
from omnigraph.language.query.descriptor import OperationDescriptor
from omnigraph.lazy_dataclass import dataclass


class Severity(StrEnum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """Where the schema came from: the path of a file, or the address of a graph."""

    kind: Literal["file", "graph"]
    location: str

    def to_json(self) -> dict[str, Json]:
        """Return the ``schema_source`` object."""
        return {"kind": self.kind, "path" if self.kind == "file" else "uri": self.location}


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A finding about the file as a whole, or about several queries together."""

    severity: Severity
    problem: Problem
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``findings``, without the fields that do not apply."""
        problem = self.problem.to_json()
        return {
            "severity": self.severity,
            "code": problem.pop("code"),
            "message": problem.pop("message"),
            **_present(type_name=self.type_name, property=self.property, query_names=list(self.query_names)),
            **problem,
        }


@dataclass(frozen=True, slots=True)
class QueryLint:
    """The report of one query. A query without problems has an operation."""

    name: str
    kind: Literal["read", "mutation"]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]
    operation: OperationDescriptor | None

    @property
    def error(self) -> str | None:
        """The first problem, as one line."""
        return f"type error: {self.problems[0].code}: {self.problems[0].message}" if self.problems else None

    def to_json(self) -> dict[str, Json]:
        """Return one entry of ``results``, without empty fields."""
        return {
            "name": self.name,
            "kind": self.kind,
            "status": "error" if self.problems else "ok",
            **_present(
                warnings=[warning.message for warning in self.warnings],
                error=self.error,
                problems=[problem.to_json() for problem in self.problems],
                operation=None if self.operation is None else self.operation.to_json(),
            ),
        }


@dataclass(frozen=True, slots=True)
class LintReport:
    """The report of one text. ``findings`` are sorted by severity, type, property and message."""

    schema_source: SchemaSource
    query_path: str
    results: tuple[QueryLint, ...]
    findings: tuple[LintFinding, ...]

    @property
    def errors(self) -> int:
        """The number of queries with problems plus the findings that are errors."""
        return sum(bool(result.problems) for result in self.results) + self._count(Severity.ERROR)

    @property
    def warnings(self) -> int:
        """The number of warnings of queries plus the findings that are warnings."""
        return sum(len(result.warnings) for result in self.results) + self._count(Severity.WARNING)

    @property
    def infos(self) -> int:
        """The number of findings that are only information."""
        return self._count(Severity.INFO)

    @property
    def problems(self) -> list[tuple[Severity, Problem]]:
        """Every problem and warning, sorted by position."""
        found = [(finding.severity, finding.problem) for finding in self.findings]
        for result in self.results:
            found += [(Severity.ERROR, problem) for problem in result.problems]
            found += [(Severity.WARNING, warning) for warning in result.warnings]
        return sorted(found, key=lambda entry: (entry[1].position.line, entry[1].position.column))

    def to_json(self) -> dict[str, Json]:
        """Return the JSON object of ``omnigraph lint``."""
        return {
            "status": "error" if self.errors else "ok",
            "schema_source": self.schema_source.to_json(),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": self.errors,
            "warnings": self.warnings,
            "infos": self.infos,
            "results": [result.to_json() for result in self.results],
            "findings": [finding.to_json() for finding in self.findings],
        }

    def _count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def _present(**fields: Json) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value}
