"""The example project is in order: its queries are clean, its data fits its schema, and the demo runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest

from omnigraph.language.query import lint_queries
from omnigraph.language.schema import Schema, parse_schema, plan_migration
from omnigraph.language.schema.catalog import EdgeType, NodeType
from omnigraph.language.schema.steps import Tier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parent.parent / "examples"
PROJECT = EXAMPLES / "evidence"
HARBOUR = EXAMPLES / "pipeline"
QUERIES = sorted(path for path in PROJECT.glob("*.gq") if path.name != "broken.gq")
BASE = "evidence.jsonl"
MAIN_JOB = (
    "606 rows loaded",
    "the checks have found nothing",
    "on Spark, the same rows",
    "nothing was loaded",
    "the head of load/june is what it was",
    "calls of v003 now: 0",
    "rows have a rank on rank/june",
)
BRANCHES = ("branch_ines.jsonl", "branch_tomas.jsonl")

Values: TypeAlias = Mapping[str, object]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return parse_schema(PROJECT / "evidence.pg")


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: cast(Path, path).name)
def test_queries_are_clean_without_a_warning(path: Path, schema: Schema) -> None:
    assert lint_queries(path, schema.catalog, "evidence.pg").problems == []


@pytest.mark.parametrize("path", sorted(HARBOUR.glob("*.gq")), ids=lambda path: cast(Path, path).name)
def test_queries_of_the_pipeline_are_clean_too(path: Path) -> None:
    catalog = parse_schema(HARBOUR / "harbour.pg").catalog
    assert lint_queries(path, catalog, "harbour.pg").problems == []


def test_the_broken_query_shows_several_codes(schema: Schema) -> None:
    report = lint_queries(PROJECT / "broken.gq", schema.catalog, "evidence.pg")
    assert len({problem.code for _, problem in report.problems}) >= 3


def test_the_second_version_can_be_reached_and_shows_most_tiers(schema: Schema) -> None:
    plan = plan_migration(schema.ir, parse_schema(PROJECT / "evidence_v2.pg").ir)
    assert plan.supported
    assert {step.tier for step in plan.steps} == {Tier.METADATA, Tier.REWRITE, Tier.VALIDATED}


def records(*names: str) -> list[dict[str, object]]:
    lines = [line for name in names for line in (PROJECT / name).read_text("utf-8").splitlines()]
    return [cast("dict[str, object]", json.loads(line)) for line in lines]


def data_of(record: Mapping[str, object]) -> Values:
    return cast(Values, record.get("data", {}))


def nodes_of(found: list[dict[str, object]], schema: Schema) -> dict[tuple[str, object], Values]:
    """Nodes by type and key; a later record replaces an earlier one, as a merging load does."""
    nodes: dict[tuple[str, object], Values] = {}
    for record in found:
        if "type" in record:
            key = schema.catalog.nodes[str(record["type"])].key
            assert key is not None
            nodes[str(record["type"]), data_of(record)[key[0]]] = data_of(record)
    return nodes


def check_values(values: Values, declared: NodeType | EdgeType) -> None:
    assert set(values) <= set(declared.properties)
    for name, each in declared.properties.items():
        if not each.type.nullable and each.default is None:
            assert name in values, (declared.name, name)
        if each.type.enum_values and name in values:
            assert values[name] in each.type.enum_values


@pytest.mark.parametrize("names", [(BASE,), *((BASE, branch) for branch in BRANCHES)], ids=lambda names: names[-1])
def test_data_fits_the_schema(names: tuple[str, ...], schema: Schema) -> None:
    found = records(*names)
    nodes = nodes_of(found, schema)
    for (type_name, _), values in nodes.items():
        check_values(values, schema.catalog.nodes[type_name])
    edges = [record for record in found if "edge" in record]
    for record in edges:
        edge = schema.catalog.edges[str(record["edge"])]
        assert (edge.from_type, record["from"]) in nodes
        assert (edge.to_type, record["to"]) in nodes
        check_values(data_of(record), edge)
    assert max(Counter((record["edge"], record["from"], record["to"]) for record in edges).values()) == 1
    leaving = Counter((record["edge"], record["from"]) for record in edges)
    for edge in schema.catalog.edges.values():
        for type_name, key in nodes:
            if type_name == edge.from_type:
                count = leaving[edge.name, key]
                assert edge.cardinality.minimum <= count <= (edge.cardinality.maximum or count), (edge.name, key)


def test_keys_of_the_base_data_are_unique(schema: Schema) -> None:
    found = records(BASE)
    assert len(nodes_of(found, schema)) == sum("type" in record for record in found)


def test_the_two_branches_conflict_in_exactly_one_trial(schema: Schema) -> None:
    ines, tomas = (nodes_of(records(branch), schema) for branch in BRANCHES)
    assert set(ines) & set(tomas) == {("Trial", "tri-104")}
    assert ines["Trial", "tri-104"]["status"] != tomas["Trial", "tri-104"]["status"]


def shown_by(script: str, *arguments: str) -> str:
    """What a script of the demo prints; it has nothing to complain about."""
    done = subprocess.run(
        [sys.executable, script, *arguments], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


def test_the_demo_shows_schema_queries_plan_mistakes_migration_and_a_graph() -> None:
    shown = shown_by("demo_evidence.py")
    for words in (
        "Trial -Tests-> Compound",
        "trials_of_compound($compound: String)",
        "gives t.code: String",
        "The plan of unconfirmed_positives",
        "did you mean 'enrolled'?",
        "rename Trial.enrolled to participants",
        "loaded 12 Paper",
        "1 node changed by commit",
        "record 1: enum(one, three, two) on Trial: 'phase' is 'four'",
        "record 2: required on Compound: 'name' is missing",
        "there is no such Paper",
        "nothing was loaded",
        "on review/june, 9 rows",
        "__manifest/",
        'status: "recruiting" → "completed"',
        "enrolled: was 301, ours 612, theirs 598",
        "merge branch 'review/tomas' into 'main': merged;",
        "(review/tomas)",
        "without Spark",
    ):
        assert words in shown


def test_the_demo_shows_the_main_job(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    harbour, page, raw = (import_module(name) for name in ("demo_harbour", "demo_page", "pipeline.make_raw"))
    clock = cast("Any", page).Clock()
    cast("Any", harbour).tour(tmp_path, spark, cast("Any", raw).SMALL, clock)
    shown = capsys.readouterr().out
    for words in MAIN_JOB:
        assert words in shown
    assert "OTHER ROWS" not in shown
    assert "ANOTHER ONE" not in shown
    assert len(clock.steps) == 7


@pytest.mark.slow
def test_the_whole_demo_is_quiet_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = set(EXAMPLES.rglob("*"))
    shown = shown_by("demo.py", "--small")
    for words in (*MAIN_JOB, "without Spark", "all of it"):
        assert words in shown
    assert {path for path in EXAMPLES.rglob("*") if "__pycache__" not in path.parts} <= before
    assert not list(tmp_path.glob("omnigraph-demo-*"))
