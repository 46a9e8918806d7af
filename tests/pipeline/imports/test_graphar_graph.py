"""Graphs of GraphAr as a proposed schema and pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError, ValidationError
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline
from tests.pipeline.imports.graphar_files import GRAPH, KNOWS, PERSON, write_graphar


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
    listed = "\n  - ".join(["edges:", "knows.edge.yml", "likes.edge.yml", "gone.edge.yml"])
    graph = GRAPH.replace("edges: [knows.edge.yml, likes.edge.yml]", listed)
    (files / "social.graph.yml").write_text(graph)
    with pytest.raises(ValidationError) as raised:
        infer_schema(["social"])
    texts = {file.name: file.read_text().splitlines() for file in files.glob("*.yml")}
    assert [
        (each.rule, texts[Path(str(each.file)).name][(each.line or 0) - 1].strip()) for each in raised.value.violations
    ] == [
        ("graphar_yaml", "src_type: ["),
        ("graphar_file", "- gone.edge.yml"),
        ("graphar_key", "chunk_size: none"),
        ("graphar_file_type", "- file_type: orc"),
        ("graphar_type", "- {name: id, data_type: uuid, is_primary: true}"),
        ("graphar_vertices", "dst_type: robot"),
    ]
    found = [(each.file, each.rule, each.message) for each in raised.value.violations]
    assert found[1][2] == "there is no file 'social/gone.edge.yml': No such file or directory"
    assert found[3][2] == "'file_type' is 'orc'; only chunks of 'parquet' are read"
    assert ("social/knows.edge.yml", "graphar_vertices", "the graph has no vertices of the type 'robot'") in found


def test_vertices_without_files_are_refused(files: Path) -> None:
    tag = files / "tag.vertex.yml"
    for text in ("", "property_groups: []\n"):
        tag.write_text(f"type: tag\nchunk_size: 100\nprefix: vertex/tag/\n{text}")
        with pytest.raises(ValidationError) as caught:
            infer_schema([str(files)])
        (found,) = caught.value.violations
        assert (Path(str(found.file)).name, found.line, found.rule) == (
            "tag.vertex.yml",
            4 if text else 1,
            "graphar_vertices",
        )


def test_files_that_are_none(files: Path) -> None:
    (files / "tag.vertex.yml").unlink()
    with pytest.raises(ValidationError) as raised:
        infer_schema(["social"])
    # Edges end at its vertices; that is no problem of their own.
    (only,) = raised.value.violations
    assert (only.file, only.message[:40]) == ("social/social.graph.yml", "there is no file 'social/tag.vertex.yml'")
    with pytest.raises(NotFound, match=r"there is no file 'gone.graph.yml'"):
        infer_schema(["gone.graph.yml"])
    with pytest.raises(ParameterError, match="one file; there are 2"):
        infer_schema(["social", "other.graph.yml"])


def test_labels_that_are_not_read_are_said(files: Path) -> None:
    (files / "person.vertex.yml").write_text(f"labels: [student, teacher]\n{PERSON}")
    assert "// social/person.vertex.yml\n// its labels are not read\nnode Person {" in infer_schema(["social"])
