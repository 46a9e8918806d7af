"""Graphs of GraphAr as a proposed schema and pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError, ValidationError
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline
from tests.pipeline.imports.graphar_files import KNOWS, PERSON, write_graphar


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "social").mkdir()
    write_graphar(tmp_path / "social")
    return tmp_path / "social"


@pytest.mark.usefixtures("files")
def test_types_are_proposed_from_the_yaml_files() -> None:
    text = infer_schema(["social"])
    assert text == infer_schema(["social/social.graph.yml"])
    assert text.splitlines() == [
        "// Proposed from a graph of GraphAr. Each comment says what a line comes from: check it before you use it.",
        "",
        "// social/person.vertex.yml",
        "node Person {",
        "  person_id: I64 @key // property 'id'",
        "  first_name: String // property 'firstName'",
        "  nick: [String]?",
        "}",
        "",
        "// social/tag.vertex.yml",
        "node Tag {",
        "  vertex: I64 @key // no property is primary: its number",
        "  word: String?",
        "}",
        "",
        "// social/knows.edge.yml",
        "// not directed; an edge leads from its first end",
        "edge Knows: Person -> Person {",
        "  since: Date?",
        "}",
        "",
        "// social/likes.edge.yml",
        "edge Likes: Person -> Tag",
    ]


def test_a_proposed_pipeline_can_be_planned(files: Path) -> None:
    graph = omnigraph.init("social.og", infer_schema(["social"]))
    path = files / "p.pipeline.yaml"
    path.write_text(propose_pipeline(["social"], graph="../social.og", folder=files))
    plan = plan_pipeline(read_pipeline(path), graph)
    assert [each.type.name for each in plan.mappings] == ["Person", "Tag", "Knows", "Likes"]
    assert {str(each.path) for each in plan.file.sources} == {"social.graph.yml"}


def test_everything_that_cannot_be_loaded_is_listed_at_once(files: Path) -> None:
    wrong = PERSON.replace("int64", "uuid").replace("chunk_size: 2", "chunk_size: none").replace("parquet", "orc", 1)
    (files / "person.vertex.yml").write_text(wrong)
    (files / "knows.edge.yml").write_text(KNOWS.replace("dst_type: person", "dst_type: robot"))
    (files / "likes.edge.yml").write_text("type: likes\nsrc_type: [")
    with pytest.raises(ValidationError) as raised:
        infer_schema(["social"])
    found = [(each.file, each.rule, each.message) for each in raised.value.violations]
    assert [(file, rule) for file, rule, _ in found[:4]] == [
        ("social/person.vertex.yml", "graphar_key"),
        ("social/person.vertex.yml", "graphar_file_type"),
        ("social/person.vertex.yml", "graphar_type"),
        ("social/likes.edge.yml", "graphar_yaml"),
    ]
    assert raised.value.violations[3].line == 2
    assert found[1][2] == "'file_type' is 'orc'; only chunks of 'parquet' are read"
    assert ("social/knows.edge.yml", "graphar_vertices", "the graph has no vertices of the type 'robot'") in found


def test_files_that_are_none(files: Path) -> None:
    (files / "tag.vertex.yml").unlink()
    with pytest.raises(NotFound, match=r"there is no file 'social/tag.vertex.yml'"):
        infer_schema(["social"])
    with pytest.raises(ParameterError, match="one file; there are 2"):
        infer_schema(["social", "other.graph.yml"])
