"""A walk through the example project: what ``make demo`` shows.

An evidence base of clinical trials, kept by two curators. The walk reads the schema, checks and plans every
query, shows what a mistake looks like, plans the move to the second version of the schema, makes the graph, fills it,
asks it, changes it on a branch, has a load refused, and looks at what lies on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import omnigraph as og
from omnigraph.cli.steps import in_words
from omnigraph.errors import ValidationError
from omnigraph.graph import Graph
from omnigraph.language.query import CompiledQuery, compile_query, explain, lint_queries, parse_queries
from omnigraph.language.query.typed import TypedRead
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot

PROJECT = Path(__file__).parent / "evidence"
QUERY_FILES = tuple(PROJECT / name for name in ("questions.gq", "search.gq", "curation.gq"))
WRONG_RECORDS = (
    {"type": "Trial", "data": {"code": "tri-9", "title": "Velorin in gout", "phase": "four", "status": "planned"}},
    {"type": "Compound", "data": {"code": "cmp-009", "family": "peptide", "half_life_hours": 9000.0}},
    {"edge": "Cites", "from": "pap-001", "to": "pap-999"},
)


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
    with TemporaryDirectory() as folder:
        show_graph(Path(folder) / "brain.og")
    print(f"\nAll of this took {(perf_counter() - started) * 1000:.0f} ms, without Spark.")


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


def show_graph(place: Path) -> None:
    """A graph on disk: made, filled, changed and looked at."""
    title(f"A graph on disk: {place.name}")
    with og.init(place, PROJECT / "evidence.pg", actor="act-ines") as graph:
        show_load(graph)
        show_answers(graph)
        graph.create_branch("review/june")
        show_mutation(graph, "review/june")
        show_refusal(graph)
        title("Its branches and commits")
        for branch in graph.branches():
            print(
                f"  branch {branch.name:<11}  head {branch.head}" + (f"  from {branch.parent}" if branch.parent else "")
            )
        for commit in graph.commits("review/june"):
            print(f"  commit {commit.id}  {commit.created_at:%Y-%m-%d %H:%M:%SZ}  {commit.branch}  {commit.actor}")
        show_snapshot(graph.snapshot("review/june"))
    title("Its files")
    for line in tree(place, depth=2):
        print(f"  {line}")


def show_load(graph: Graph) -> None:
    """A file of records becomes one commit."""
    result = graph.load(PROJECT / "evidence.jsonl", message="the evidence so far")
    for name, rows in {**result.nodes, **result.edges}.items():
        print(f"  loaded {rows:>2} {name}")


def show_answers(graph: Graph) -> None:
    """Questions, and how one of them was answered."""
    questions: tuple[tuple[str, str, dict[str, object]], ...] = (
        ("questions.gq", "trials_of_compound", {"compound": "cmp-001"}),
        ("questions.gq", "evidence_for_condition", {"condition": "asthma"}),
        ("search.gq", "papers_about", {"words": "velorin gout"}),
    )
    for file, name, parameters in questions:
        title(f"A question: {name}({', '.join(map(str, parameters.values()))})")
        for row in graph.query(PROJECT / file, name, parameters):
            print("  " + ", ".join(f"{column}={value}" for column, value in row.items()))
    print(
        "\n" + indented(str(graph.profile(PROJECT / "questions.gq", "evidence_for_condition", {"condition": "asthma"})))
    )


def show_mutation(graph: Graph, branch: str) -> None:
    """A curator reviews a trial on a branch; main stays as it is."""
    title(f"A mutation on {branch}: review_trial")
    parameters = {"trial": "tri-104", "curator": "ines"}
    result = graph.mutate(PROJECT / "curation.gq", "review_trial", parameters, branch=branch, message="reviewed")
    print(f"  {result.affected_nodes} node changed by commit {result.commit.id if result.commit else None}")
    question = 'query q() { match { $t: Trial { code: "tri-104" } } return { $t.reviewed_by } }'
    for name in ("main", branch):
        print(f"  asked on {name}: {graph.query(question, branch=name).rows[0]}")


def show_refusal(graph: Graph) -> None:
    """Records that break rules: every one is named, and nothing is loaded."""
    title("A load that is refused")
    try:
        graph.load(WRONG_RECORDS)
    except ValidationError as error:
        for violation in error.violations:
            print(f"  record {violation.line}: {violation.message}")
        print(f"  {error.hint}")


def show_snapshot(snapshot: Snapshot) -> None:
    """The version of each table that belongs to the graph at one moment."""
    title(f"A snapshot of {snapshot.branch}, at manifest version {snapshot.manifest_version}")
    for pin in snapshot.pins.values():
        print(f"  {pin.table_key:<18}  version {pin.version} on {pin.branch or 'main'}, {pin.row_count} rows")


def tree(folder: Path, depth: int) -> Iterator[str]:
    """The folders and files below a folder, as indented lines."""
    for path in sorted(folder.iterdir()):
        yield f"{path.name}{'/' if path.is_dir() else ''}"
        if path.is_dir() and depth > 1:
            yield from (f"  {line}" for line in tree(path, depth - 1))


def title(text: str) -> None:
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}")


def indented(text: str) -> str:
    """A text of several lines, moved to the right."""
    return "\n".join(f"  {line}" for line in text.splitlines())


if __name__ == "__main__":
    main()
