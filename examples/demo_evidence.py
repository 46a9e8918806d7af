"""The second part of the demo: an evidence base of clinical trials, kept by two curators, without Spark.

The walk reads the schema, checks and plans every query, shows what a mistake looks like, plans the move to the second
version of the schema, makes the graph, fills it, asks it, changes it on a branch, has a load refused, looks at what
lies on disk, and merges the reviews of both curators, who disagree. It runs alone too: ``python demo_evidence.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from demo_page import indented, title

import omnigraph as og
from omnigraph.cli.app import main as cli
from omnigraph.cli.render.migration import describe_step
from omnigraph.errors import MergeConflicts, ValidationError
from omnigraph.graph import Graph
from omnigraph.language.query import CompiledQuery, TypedRead, compile_query, explain, lint_queries, parse_queries
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.source import Source
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.write.merge import MergeResult, write_resolution

PROJECT = Path(__file__).parent / "evidence"
QUERY_FILES = tuple(PROJECT / name for name in ("questions.gq", "search.gq", "curation.gq"))
WRONG_RECORDS = (
    {"type": "Trial", "data": {"code": "tri-9", "title": "Velorin in gout", "phase": "four", "status": "planned"}},
    {"type": "Compound", "data": {"code": "cmp-009", "family": "peptide", "half_life_hours": 9000.0}},
    {"edge": "Cites", "from": "pap-001", "to": "pap-999"},
)


def walk(folder: Path) -> None:
    """The whole walk; the graph is made in a folder."""
    started = perf_counter()
    schema = parse_schema(PROJECT / "evidence.pg")
    show_schema(schema)
    queries = [query for file in QUERY_FILES for query in compile_all(file, schema)]
    show_queries(queries)
    show_plan(next(query for query in queries if query.name == "unconfirmed_positives"))
    show_mistakes(schema)
    show_migration(schema, parse_schema(PROJECT / "evidence_v2.pg"))
    show_graph(folder / "brain.og")
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
        print(f"  {step.tier:<11}  {describe_step(step)}")


def show_graph(place: Path) -> None:
    """A graph on disk: made, filled, changed and looked at."""
    title(f"A graph on disk: {place.name}")
    with og.init(place, PROJECT / "evidence.pg", actor="act-ines") as graph:
        show_load(graph)
        show_answers(graph)
        graph.create_branch("review/june")
        show_mutation(graph, "review/june")
        show_refusal(graph)
        show_snapshot(graph.snapshot("review/june"))
        show_files(place)
        show_review(graph, place)


def show_files(place: Path) -> None:
    """What lies on disk."""
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


def show_review(graph: Graph, place: Path) -> None:
    """A branch for each curator: what one has changed, where both disagree, and how that is decided."""
    for name in ("ines", "tomas"):
        branch = f"review/{name}"
        graph.create_branch(branch)
        found = PROJECT / f"branch_{name}.jsonl"
        graph.load(found, mode="merge", branch=branch, message=f"the review of {name}", actor=f"act-{name}")
    command("diff", "main", "review/ines", "-g", str(place))
    title("The reviews are merged")
    show_merge(graph.merge("review/ines"))
    try:
        graph.merge("review/tomas")
    except MergeConflicts as error:
        print(f"  {error.message}")
        decisions = place.with_name("decisions.yaml")
        decide(graph.merge("review/tomas", dry_run=True), graph, decisions)
        show_merge(graph.merge("review/tomas", resolve=decisions))
    command("commit", "list", "--dag", "-g", str(place))


def decide(tried: MergeResult, graph: Graph, file: Path) -> None:
    """Write the conflicts of a merge to a file, as ``omnigraph merge --dry-run --out`` does, and decide them there."""
    with file.open("w", encoding="utf-8") as out:
        write_resolution(out, graph.uri, tried.source, tried.target, "row", tried.conflicts)
    for conflict in tried.conflicts:
        print(f"  {conflict.kind}: {conflict.message}")
        for name in conflict.properties:
            values = (image and image[name] for image in (conflict.base, conflict.ours, conflict.theirs))
            print("    {}: was {}, ours {}, theirs {}".format(name, *values))
    file.write_text(file.read_text("utf-8").replace("choose: null", "choose: theirs"), "utf-8")
    print(f"  decided in {file.name}: theirs")


def show_merge(merged: MergeResult) -> None:
    """What a merge has done."""
    counts = {**merged.nodes, **merged.edges}
    changed = ", ".join(f"{name} +{each.inserted} ~{each.updated} -{each.deleted}" for name, each in counts.items())
    print(f"  {merged.commit.message if merged.commit else 'nothing to merge'}: {merged.outcome}; {changed}")


def command(*words: str) -> None:
    """A command, as it would be typed, and what it prints."""
    title(" ".join(("omnigraph", *words[: words.index("-g")])))
    cli(list(words))


def tree(folder: Path, depth: int) -> Iterator[str]:
    """The folders and files below a folder, as indented lines."""
    for path in sorted(folder.iterdir()):
        yield f"{path.name}{'/' if path.is_dir() else ''}"
        if path.is_dir() and depth > 1:
            yield from (f"  {line}" for line in tree(path, depth - 1))


def main() -> None:
    """This part alone."""
    with TemporaryDirectory() as folder:
        walk(Path(folder))


if __name__ == "__main__":
    main()
