"""RDF: classes become node types, predicates properties and edges; what cannot be parsed is listed with its lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError, ValidationError
from omnigraph.language.schema import check_schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.imports import parse_rdf, rdf_graph
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline

pytest.importorskip("pyoxigraph")

PEOPLE = """@prefix : <http://e.org/> . @prefix foaf: <http://xmlns.com/foaf/0.1/> .
:ann a foaf:Person ; foaf:name "Ann" ; foaf:age 33 ; foaf:knows :bob .
:bob a foaf:Person ; foaf:name "Bob" .
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_classes_and_predicates_are_proposed() -> None:
    text = infer_schema([write("people.ttl", PEOPLE)])
    assert text.splitlines() == [
        "// Proposed from RDF (6 triples). Each comment says what a line comes from: check it before you use it.",
        "",
        "// <http://xmlns.com/foaf/0.1/Person>: 2 subjects",
        "node Person {",
        "  iri: String @key // the subject",
        "  name: String // <http://xmlns.com/foaf/0.1/name>",
        "  age: I64? // <http://xmlns.com/foaf/0.1/age>; missing in 1 of 2 subjects",
        "}",
        "",
        "// <http://xmlns.com/foaf/0.1/knows>: 1 triple",
        "edge Knows: Person -> Person",
    ]
    graph = omnigraph.init("people.og", text)
    path = Path(write("p.pipeline.yaml", propose_pipeline(["people.ttl"], graph="people.og")))
    plan = plan_pipeline(read_pipeline(path), graph)
    assert [each.type.name for each in plan.mappings] == ["Person", "Knows"]


def test_values_that_do_not_fit_together_are_texts() -> None:
    text = infer_schema(
        [
            write(
                "odd.ttl",
                """@prefix : <http://e.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a a :Thing ; :mixed 1, "x" ; :wrong "many"^^xsd:integer ; :day "2020-01-01"^^xsd:date ; :says "hi"@en, "salut"@fr ;
  :id "7" ; :shape [ :side 2.5 ] ; :see <http://x.org/1>, :a .
""",
            )
        ]
    )
    assert check_schema(Source(text, "proposed.pg")) == []
    types = {name: str(each.type) for name, each in parse_schema(text).catalog.nodes["Thing"].properties.items()}
    assert types == {
        "iri": "String",
        "mixed": "[String]",
        "wrong": "String",
        "day": "Date",
        "says": "[String]",
        "thing_id": "String",
        "see": "String",
    }
    assert "a text, because 'many' is no I64" in text
    assert "texts in en, fr; the language is not kept" in text
    assert parse_schema(text).catalog.nodes["Resource"].properties["side"].type.scalar == "F64"
    assert set(parse_schema(text).catalog.edges) == {"Shape", "See"}


def test_a_node_without_a_name_has_the_same_one_in_every_reading() -> None:
    data = b"@prefix : <http://e.org/> . :a :b [ :c 1 ], [ :c 2 ] ."
    first, second = (list(parse_rdf("folder/x.ttl", data)) for _ in range(2))
    assert first == second
    assert {each.object for each in first if each.kind == "blank"} == {"_:x.ttl#1", "_:x.ttl#2"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.jsonld", '{"@id": "http://x/1", "@type": "http://s/Port", "http://s/code": "osl"}'),
        (
            "p.rdf",
            '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:s="http://s/">'
            '<s:Port r:about="http://x/1"><s:code>osl</s:code></s:Port></r:RDF>',
        ),
        ("p.nq", '<http://x/1> a <http://s/Port> .\n<http://x/1> <http://s/code> "osl" <http://g> .\n'),
    ],
)
def test_other_formats_cost_nothing(name: str, text: str) -> None:
    if name == "p.nq":
        text = text.replace(" a ", " <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ")
    assert set(parse_schema(infer_schema([write(name, text)])).catalog.nodes["Port"].properties) == {"iri", "code"}


def test_names_of_predicates_do_not_meet_those_of_the_views() -> None:
    text = """@prefix : <http://e.org/> . @prefix dct: <http://purl.org/dc/terms/> .
:a a :Book ; dct:subject "graphs" ; :subject 1 ; :iri "x" ; :null 2 ; :true "y" ; :title "A" .
"""
    names = set(parse_schema(infer_schema([write("b.ttl", text)])).catalog.nodes["Book"].properties)
    assert names == {"iri", "subject", "subject_2", "iri_2", "null", "true", "title"}
    pipeline = propose_pipeline(["b.ttl"])
    assert "SELECT s.subject AS iri, max(" in pipeline
    assert [line.strip() for line in pipeline.splitlines() if line.startswith("      ")] == [
        'iri: "iri"',
        'subject: "subject"',
        'subject_2: "subject_2"',
        'iri_2: "iri_2"',
        'null: "`null`"',
        'true: "`true`"',
        'title: "title"',
    ]


@pytest.mark.parametrize("name", ["p.ttl", "p.nt"])
def test_files_may_be_compressed_or_begin_with_a_mark(name: str) -> None:
    text = '<http://e/a> <http://e/b> "x" .\n'
    known = infer_schema([write(name, text)])
    Path(f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert infer_schema([f"{name}.gz"]) == known
    assert f'path: "{name}.gz"' in propose_pipeline([f"{name}.gz"])
    write(name, "\ufeff" + text)
    assert infer_schema([name]) == known
    Path(f"{name}.gz").write_bytes(gzip.compress(text.encode())[:-9])
    with pytest.raises(ValidationError) as caught:
        infer_schema([f"{name}.gz"])
    assert [(each.file, each.line, each.rule) for each in caught.value.violations] == [(f"{name}.gz", None, "rdf_file")]


def test_files_of_one_name_with_nodes_without_a_name_are_refused() -> None:
    for folder, text in (("a", "[] <http://e/p> 1 ."), ("b", "<http://e/x> <http://e/p> 2 .")):
        Path(folder).mkdir()
        Path(folder, "x.ttl").write_text(text)
    assert "RDF (2 triples)" in infer_schema(["b/x.ttl", write("y.ttl", "[] <http://e/p> 3 .")])
    with pytest.raises(ParameterError, match=r"several files are called x\.ttl"):
        infer_schema(["a/x.ttl", "b/x.ttl"])


def test_triples_about_triples_are_listed_with_their_file() -> None:
    write("a.nt", '<http://a> <http://b> "x" .\n<http://a> <http://b> <<( <http://c> <http://d> <http://e> )>> .\n')
    with pytest.raises(ValidationError) as caught:
        infer_schema(["a.nt"])
    assert "triples about triples are not read" in caught.value.violations[0].message
    assert [(each.file, each.line, each.rule) for each in caught.value.violations] == [("a.nt", 2, "rdf_syntax")]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonld", '{"@id": "http://a", "http://b": 1, "name": "x"}', "the key 'name' stands for no IRI"),
        ("a.jsonld", '{"@id": "http://a", "http://b": {"@id": "c"}}', "'c' is no whole IRI; @base"),
        ("a.jsonld", '[{"@id": "http://a b", "http://b": 1}]', "'http://a b' is no whole IRI"),
        ("a.n3", "@prefix : <http://e/> . { :a :b :c } :says :d .", "a formula in braces is not read"),
    ],
)
def test_what_a_parser_would_leave_out_is_refused(name: str, text: str, told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        infer_schema([write(name, text)])
    (found,) = caught.value.violations
    assert (found.file, found.rule) == (name, "rdf_syntax")
    assert told in found.message


def test_a_key_that_the_context_leaves_out_is_left_out() -> None:
    given = b'{"@context": {"name": null, "p": "http://e/p"}, "@id": "http://a", "name": "x", "p": {"@id": "_:x"}}'
    assert [each.predicate for each in parse_rdf("x.jsonld", given)] == ["http://e/p"]


def test_files_that_spark_passes_over_are_refused() -> None:
    write("a.nt", "<http://a> <http://b> 'x' .\n".replace("'", '"'))
    write("_b.nt", "<http://b> <http://b> 'x' .\n".replace("'", '"'))
    with pytest.raises(ParameterError, match=r"Spark does not read files with such names: _b\.nt"):
        infer_schema(["*.nt"])


def test_everything_that_cannot_be_parsed_is_listed_at_once() -> None:
    write("a.nt", '<http://a> <http://b> "x" .\n<http://a> <b "x" .\n\n<http://a> .\n')
    write("b.ttl", "@prefix a: <http://a/> .\na:x b:y 1 .\n")
    with pytest.raises(ValidationError) as caught:
        infer_schema(["a.nt", "b.ttl"])
    assert [(each.file, each.line, each.rule, each.value) for each in caught.value.violations] == [
        ("a.nt", 2, "rdf_syntax", '<http://a> <b "x" .'),
        ("a.nt", 4, "rdf_syntax", "<http://a> ."),
        ("b.ttl", 2, "rdf_syntax", "a:x b:y 1 ."),
    ]
    assert "prefix b: has not been declared" in caught.value.violations[-1].message


def test_files_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    write("people.ttl", PEOPLE)
    with pytest.raises(NotFound, match="no file 'gone"):
        infer_schema(["people.ttl", "gone.nt"])
    with pytest.raises(ParameterError, match="is no RDF"):
        infer_schema(["people.ttl", write("a.csv", "a,b\n1,2\n")])
    with pytest.raises(ParameterError, match="no triples"):
        infer_schema([write("empty.ttl", "")])
    monkeypatch.setattr(rdf_graph, "MAX_TRIPLES", 3)
    assert "RDF (the first 3 triples)" in infer_schema(["people.ttl"])
