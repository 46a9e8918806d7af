"""A walk through the example project: what ``make demo`` shows.

An evidence base of clinical trials, kept by two curators. The walk reads the schema, checks and plans every
query, shows what a mistake looks like, and plans the move to the second version of the schema.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from omnigraph.cli.steps import in_words
from omnigraph.language.query import CompiledQuery, compile_query, explain, lint_queries, parse_queries
from omnigraph.language.query.typed import TypedRead
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.source import Source

PROJECT = Path(__file__).parent / "evidence"
QUERY_FILES = tuple(PROJECT / name for name in ("questions.gq", "search.gq", "curation.gq"))


def main() -> None:
    """The whole walk."""
    started = perf_counter()
    schema = parse_schema(PROJECT / "evidence.pg")
    show_schema(schema)
    queries = [query for file in QUERY_FILES for query in compile_all(file, schema)]
    show_queries(queries)
    show_plan(next(query for query in queries if query.name == "unconfirmed_positives"))
    show_mistakes(schema)
    show_migration(schema, parse_schema(PROJECT / "evidence_v2.pg"))
    print(f"\nAll of this took {(perf_counter() - started) * 1000:.0f} ms, without Spark and without a graph on disk.")


def compile_all(file: Path, schema: Schema) -> list[CompiledQuery]:
    """Every query of a file, checked and planned."""
    return [compile_query(file, schema.catalog, query.name) for query in parse_queries(file).queries]


def show_schema(schema: Schema) -> None:
    """The types, their keys, and which edges connect them."""
    title("The schema: evidence.pg")
    for node in schema.catalog.nodes.values():
        properties = ", ".join(f"{each.name}: {each.type}" for each in node.properties.values())
        print(f"  {node.name} (key {', '.join(node.key or ('made up',))})\n      {properties}")
    for edge in schema.catalog.edges.values():
        print(f"  {edge.from_type} -{edge.name}-> {edge.to_type}")
    print(f"  {schema.hash}")


def show_queries(queries: list[CompiledQuery]) -> None:
    """What each query takes and gives."""
    title(f"{len(queries)} queries, checked against it")
    for query in queries:
        parameters = ", ".join(f"${name}: {type_}" for name, type_ in query.typed.parameters.items())
        print(f"  {query.name}({parameters})")
        print(f"      {query.query.description}")
        if isinstance(query.typed, TypedRead):
            columns = ", ".join(f"{column.name}: {column.expression.type}" for column in query.typed.columns)
            print(f"      gives {columns}")


def show_plan(query: CompiledQuery) -> None:
    """How one query will be answered."""
    title(f"The plan of {query.name}")
    print(indented(explain(query)))


def show_mistakes(schema: Schema) -> None:
    """What a query file with mistakes looks like."""
    title("A query with mistakes: broken.gq")
    broken = Source((PROJECT / "broken.gq").read_text("utf-8"), "broken.gq")
    report = lint_queries(broken, schema.catalog, "evidence.pg")
    for _severity, problem in report.problems:
        print(indented(problem.render()))


def show_migration(old: Schema, new: Schema) -> None:
    """The steps to the second version."""
    title("From evidence.pg to evidence_v2.pg")
    for step in plan_migration(old.ir, new.ir).steps:
        print(f"  {step.tier:<11}  {in_words(step)}")


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def indented(text: str) -> str:
    """A text of several lines, moved to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())


if __name__ == "__main__":
    main()
