"""``omnigraph lint``: check query files against one schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import typer

from omnigraph.cli.arguments import read_texts
from omnigraph.cli.render.language import LintResults
from omnigraph.cli.schema_texts import parse_schemas
from omnigraph.cli.session import session_of
from omnigraph.errors import Problem, SchemaError
from omnigraph.language.query import (
    SYNTAX_CODE,
    LintFinding,
    LintReport,
    SchemaSource,
    Severity,
    lint_queries,
    parse_query_text,
)
from omnigraph.language.schema import Schema
from omnigraph.language.source import Source


def lint(
    context: typer.Context,
    queries: Annotated[list[str], typer.Argument(help="Query files (.gq); - is stdin.", show_default=False)],
    schema: Annotated[str, typer.Option("--schema", help="The schema file (.pg); - is stdin.", show_default=False)],
) -> int:
    """Check query files against a schema and report every problem.

    Exits with 1 if there is an error. Warnings alone exit with 0.

    \b
    Examples:
      omnigraph lint questions.gq curation.gq --schema evidence.pg
      omnigraph lint questions.gq --schema evidence_v2.pg --json
    """
    schema_text, *texts = read_texts([schema, *queries])
    try:
        (parsed_schema,) = parse_schemas(schema_text)
    except SchemaError as error:
        # Without a schema no name can be resolved, but syntax can be checked.
        raise SchemaError([*error.problems, *_syntax_problems(texts)]) from None
    reports = [_report(text, parsed_schema, SchemaSource("file", schema)) for text in texts]
    session_of(context).output.show(LintResults(reports))
    return 1 if any(report.errors for report in reports) else 0


def _report(text: Source | Problem, schema: Schema, schema_source: SchemaSource) -> LintReport:
    if isinstance(text, Source):
        return lint_queries(text, schema.catalog, schema_source)
    finding = LintFinding(Severity.ERROR, replace(text, code=SYNTAX_CODE))
    return LintReport(schema_source, text.position.file or "", (), (finding,))


def _syntax_problems(texts: Iterable[Source | Problem]) -> Iterable[Problem]:
    for text in texts:
        found = parse_query_text(text) if isinstance(text, Source) else [replace(text, code=SYNTAX_CODE)]
        if isinstance(found, list):
            yield from found
