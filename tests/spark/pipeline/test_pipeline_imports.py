"""Graphs of other systems, from their files to rows here: proposed, and run on a real Spark."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.imports import neo4j_dump, neo4j_files
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline
from omnigraph.spark.pipeline.run import run_pipeline
from tests.pipeline.imports.graphar_files import PEOPLE, write_graphar
from tests.spark.pipeline.test_pipeline_run import Watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_proposed(folder: Path, spark: SparkSession, files: list[str]) -> Graph:
    graph = og.init(folder / "made.og", infer_schema(files))
    path = folder / "made.pipeline.yaml"
    path.write_text(propose_pipeline(files, graph="made.og", folder=folder))
    run_pipeline(plan_pipeline(read_pipeline(path), graph), lambda: graph.spark(spark), Watched())
    return graph


def rows_of(graph: Graph, type_: str) -> list[dict[str, object]]:
    found = graph.edges(type_) if type_ in graph.schema.catalog.edges else graph.nodes(type_)
    rows = cast("list[dict[str, object]]", found.to_arrow().to_pylist())
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


@pytest.mark.slow
def test_a_dump_of_neo4j_is_loaded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.chdir(tmp_path)
    Path("movies.csv").write_text(
        'movieId:ID,title,year:int,genres:string[],:LABEL\ntt1,"The ""Matrix""",1999,sci;action,Movie\n'
        "tt2,Reloaded,2003,sci,Movie;Sequel\n"
    )
    Path("h.csv").write_text("personId:ID,name,born:date,score:double[],:LABEL\n")
    Path("p1.csv").write_text("k1,Keanu,1964-09-02,1.5;2,Actor\n")
    Path("p2.csv").write_text("k2,Lana,,,Director\n")
    Path("more.csv").write_text("name,key:ID\nCarrie,k3\n")
    Path("roles.csv").write_text(
        ":START_ID,role,:END_ID,:TYPE\nk1,Neo,tt1,ACTED_IN\nk1,Neo,tt2,ACTED_IN\nk2,,tt1,DIRECTED\nk1,Neo,tt1,ACTED_IN\n"
        "k3,Trinity,tt1,ACTED_IN\n"
    )
    graph = load_proposed(tmp_path, spark, ["movies.csv", "h.csv,p1.csv,p2.csv", "Actor=more.csv", "roles.csv"])
    assert sorted(rows_of(graph, "Movie"), key=lambda row: str(row["movie_id"])) == [
        {
            "movie_id": "tt1",
            "title": 'The "Matrix"',
            "year": 1999,
            "genres": ["sci", "action"],
            "labels": ["Movie"],
        },
        {"movie_id": "tt2", "title": "Reloaded", "year": 2003, "genres": ["sci"], "labels": ["Movie", "Sequel"]},
    ]
    actors = {row["person_id"]: (row["name"], row["score"]) for row in rows_of(graph, "Actor")}
    assert actors == {"k1": ("Keanu", [1.5, 2.0]), "k3": ("Carrie", None)}
    assert [row["name"] for row in rows_of(graph, "Director")] == ["Lana"]
    ends = sorted((str(row["from"]), str(row["to"]), str(row["role"])) for row in rows_of(graph, "ActedIn"))
    assert ends == [("k1", "tt1", "Neo"), ("k1", "tt1", "Neo"), ("k1", "tt2", "Neo"), ("k3", "tt1", "Trinity")]
    assert len(rows_of(graph, "Directed")) == 1


@pytest.mark.slow
def test_an_unusual_dump_of_neo4j_is_loaded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("head.csv").write_text(
        "\ufeffid:ID(P),name,:IGNORE,Name,at:localdatetime,,flags:boolean[],null,order,:LABEL,:IGNORE\n", "utf-8"
    )
    Path("rows.csv").write_bytes(
        b'p1,"one\r\ntwo ""quoted""",x,N1,2020-01-01T10:00:00,y,true;false,n,1,Person;Admin,z\n'
        b"p2,back\\slash,,,,,,,,,\n"
    )
    with gzip.open("more.csv.gz", "wt", encoding="utf-8") as file:
        file.write('p3,"a;b, c",,\u540d,,,,,,;Odd,\np4,,,,,,true,,,Person,\n')
    Path("cities.csv").write_bytes(b'code:ID(C),pop:long,note\r\nc1,"7","a\nb"\r\nc2,"",\r\np1,,x\r\n')
    Path("lives.csv").write_text(
        ':START_ID(P),why,:END_ID(C),:TYPE\np1,"a\nb",c1,LIVES_IN\np2,,c1,LIVES_IN\np4,x,p1,SEEN\n'
    )
    Path("more.csv").write_text("city:END_ID(C),who:START_ID(P),WHY\nc2,p4,late\n")
    groups = ["head.csv,rows.csv,more.csv.gz", "City=cities.csv", "lives.csv", "LIVES_IN=more.csv"]
    graph = load_proposed(tmp_path, spark, groups)
    people = {row["person_id"]: row for row in rows_of(graph, "Person")}
    assert set(people) == {"p1", "p4"}
    first = people["p1"]
    assert (first["name"], first["name_2"], first["null"], first["order"]) == ('one\r\ntwo "quoted"', "N1", "n", "1")
    assert (first["flags"], first["labels"]) == ([True, False], ["Person", "Admin"])
    assert str(first["at"]) == "2020-01-01 10:00:00+00:00"
    assert (people["p4"]["name"], people["p4"]["flags"]) == (None, [True])
    unnamed = {row["head_id"]: row["name"] for row in rows_of(graph, "Head")}
    assert unnamed == {"p2": "back\\slash", "p3": "a;b, c"}
    cities = {row["code"]: (row["pop"], row["note"]) for row in rows_of(graph, "City")}
    assert cities == {"c1": (7, "a\nb"), "c2": (None, None), "p1": (None, "x")}
    lives = sorted((row["from"], row["to"], row["why"], row["why_2"]) for row in rows_of(graph, "PersonLivesInCity"))
    assert lives == [("p1", "c1", "a\nb", None), ("p4", "c2", None, "late")]
    assert [(row["from"], row["to"]) for row in rows_of(graph, "HeadLivesInCity")] == [("p2", "c1")]
    assert [(row["from"], row["to"], row["why"]) for row in rows_of(graph, "Seen")] == [("p4", "p1", "x")]


TURTLE = """@prefix : <http://e.org/> . @prefix foaf: <http://xmlns.com/foaf/0.1/> .
:ann a foaf:Person, foaf:Agent ; foaf:name "Ann" ; foaf:age 33 ; foaf:knows :bob, :eve ; foaf:nick "a", "an" .
:bob a foaf:Person ; foaf:name "Bob"@en ; foaf:homepage <http://bob.org/> ;
  foaf:knows :ann ; foaf:based_near [ :city "Oslo" ] .
:acme a foaf:Agent ; foaf:name "Acme" ; foaf:knows :ann .
:club a foaf:Agent ; foaf:name "Club" .
"""
LINES = '<http://e.org/ann> <http://e.org/born> "1990-05-01"^^<http://www.w3.org/2001/XMLSchema#date> .\n' * 2


def test_rdf_is_loaded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    pytest.importorskip("pyoxigraph")
    monkeypatch.chdir(tmp_path)
    Path("people.ttl").write_text(TURTLE)
    Path("more.nt").write_text(LINES)
    graph = load_proposed(tmp_path, spark, ["people.ttl", "more.nt"])
    people = {row["iri"]: row for row in rows_of(graph, "Person")}
    assert set(people) == {"http://e.org/ann", "http://e.org/bob"}
    ann, bob = people["http://e.org/ann"], people["http://e.org/bob"]
    assert (ann["name"], ann["age"], ann["nick"], str(ann["born"])) == ("Ann", 33, ["a", "an"], "1990-05-01")
    assert (ann["knows"], bob["homepage"]) == ("http://e.org/eve", "http://bob.org/")
    assert sorted(str(row["iri"]) for row in rows_of(graph, "Agent")) == ["http://e.org/acme", "http://e.org/club"]
    assert [row["city"] for row in rows_of(graph, "Resource")] == ["Oslo"]
    (near,) = rows_of(graph, "BasedNear")
    assert (near["from"], near["to"]) == ("http://e.org/bob", rows_of(graph, "Resource")[0]["iri"])
    assert len(rows_of(graph, "PersonKnowsPerson")) == 2
    assert len(rows_of(graph, "AgentKnowsPerson")) == 1


UNUSUAL = """@prefix : <http://e.org/> . @prefix dct: <http://purl.org/dc/terms/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:a a :Book ; dct:subject "graphs", "data" ; :subject 1 ; :null 2 ; :case "c" ; :order "o" ; :values true ;
  :n "+7"^^xsd:integer ; :ok "1"^^xsd:boolean ; :at "2020-01-01T10:00:00+02:00"^^xsd:dateTime ;
  :local "2020-01-01T10:00:00"^^xsd:dateTime ;
  :says "it's \\"q\\" \\\\ `t`\\nnext" ; :by [ a :Person ; :name "Bl" ], _:x .
:b a :Book ; :n 8 .
_:x a :Person ; :name "X" .
"""


def test_unusual_rdf_is_loaded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    pytest.importorskip("pyoxigraph")
    monkeypatch.chdir(tmp_path)
    Path("books.ttl.gz").write_bytes(gzip.compress(UNUSUAL.encode()))
    Path("more.nt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf_:x <http://e.org/of> <http://e.org/b> .\r\n"))
    graph = load_proposed(tmp_path, spark, ["books.ttl.gz", "more.nt.gz"])
    books = {row["iri"]: row for row in rows_of(graph, "Book")}
    first, second = books["http://e.org/a"], books["http://e.org/b"]
    names = ("subject", "subject_2", "null", "case", "order", "values", "n", "ok")
    assert [first[name] for name in names] == [["data", "graphs"], 1, 2, "c", "o", True, 7, True]
    assert [second[name] for name in names] == [None, None, None, None, None, None, 8, None]
    assert (str(first["at"]), str(first["local"])) == ("2020-01-01 08:00:00+00:00", "2020-01-01 10:00:00+00:00")
    assert first["says"] == 'it\'s "q" \\ `t`\nnext'
    people = {str(row["iri"]): row["name"] for row in rows_of(graph, "Person")}
    assert sorted(people.values(), key=str) == ["Bl", "X"]
    assert {(row["from"], people[str(row["to"])]) for row in rows_of(graph, "By")} == {
        ("http://e.org/a", "Bl"),
        ("http://e.org/a", "X"),
    }
    assert [(row["from"], row["to"]) for row in rows_of(graph, "Of")] == [("_:more.nt.gz#x", "http://e.org/b")]


def test_lines_that_are_no_triples_are_named_by_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    pytest.importorskip("pyoxigraph")
    monkeypatch.chdir(tmp_path)
    lines = [f'<http://e/{number}> <http://e/n> "{number}" .' for number in range(30_000)]
    Path("lines.nt").write_text("\n".join(lines))
    graph = og.init(tmp_path / "made.og", infer_schema(["lines.nt"]))
    path = tmp_path / "made.pipeline.yaml"
    path.write_text(propose_pipeline(["lines.nt"], graph="made.og", folder=tmp_path))
    # The file changes after it was looked at.
    Path("lines.nt").write_text("\n".join([*lines[:25_000], "<http://e/x> nothing", *lines[25_000:]]))
    with pytest.raises(OmniGraphError) as caught:
        run_pipeline(plan_pipeline(read_pipeline(path), graph), lambda: graph.spark(spark), Watched())
    assert "lines.nt" in str(caught.value)
    assert "<http://e/x> nothing" in str(caught.value)
    assert list(rows_of(graph, "Resource")) == []


def test_a_graph_of_graphar_is_loaded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("social").mkdir()
    write_graphar(Path("social"))
    graph = load_proposed(tmp_path, spark, ["social"])
    people = {row["person_id"]: (row["first_name"], row["nick"]) for row in rows_of(graph, "Person")}
    assert people == PEOPLE
    assert {row["vertex"]: row["word"] for row in rows_of(graph, "Tag")} == {0: "graph", 1: None}
    knows = sorted((str(row["from"]), str(row["to"]), str(row["since"])) for row in rows_of(graph, "Knows"))
    assert knows == [
        ("50", "60", "2026-01-03"),
        ("60", "70", "None"),
        ("70", "50", "2026-01-01"),
        ("70", "50", "2026-01-02"),
    ]
    assert [(row["from"], row["to"]) for row in rows_of(graph, "Likes")] == [("60", "1")]


def test_chunks_of_graphar_are_told_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("social").mkdir()
    write_graphar(Path("social"))
    for each in [*Path("social").rglob("chunk*")]:
        each.rename(each.with_name(f"{each.name}.parquet"))
    graph = load_proposed(tmp_path, spark, ["social"])
    assert len(rows_of(graph, "Person")) == 3
    assert len(rows_of(graph, "Knows")) == 4
    shutil.rmtree("made.og")
    for each in [*Path("social/edge").rglob("chunk*")]:
        each.rename(each.with_name("data.parquet"))
    with pytest.raises(OmniGraphError, match=r"GraphAr names no such chunk: .*data\.parquet"):
        load_proposed(tmp_path, spark, ["social"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "roles", "unknown"),
    [
        ("k1,Actor\nk2,Actor\nk3,Director\n", "k1,k2,KNOWS\n", "Director"),
        ("k1,Actor\nk2,Actor\nk3,\n", "k1,k2,KNOWS\n", "null"),
        ("k1,Actor\nk2,Director\nk3,Writer;Actor\n", "k1,k2,KNOWS\n", "Writer"),
        ("k1,Actor\n", "k1,k1,KNOWS\nk1,k1,KNOWS\nk1,k1,LIKES\n", "LIKES"),
        ("k1,Actor\nk2,Actor\nk3,Actor\n", "k1,k2,KNOWS\nk2,k3,KNOWS\nk3,k3,KNOWS\n", None),
    ],
)
def test_labels_that_nobody_looked_at_are_no_lost_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, nodes: str, roles: str, unknown: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (neo4j_dump, neo4j_files):
        monkeypatch.setattr(module, "MAX_ROWS", 2)
    Path("people.csv").write_text(f"key:ID,:LABEL\n{nodes}")
    Path("roles.csv").write_text(f":START_ID,:END_ID,:TYPE\n{roles}")
    if unknown is None:
        graph = load_proposed(tmp_path, spark, ["people.csv", "roles.csv"])
        assert (len(rows_of(graph, "Actor")), len(rows_of(graph, "Knows"))) == (3, 3)
        return
    with pytest.raises(OmniGraphError, match=f"none of the first 2 rows has the label or type {unknown}"):
        load_proposed(tmp_path, spark, ["people.csv", "roles.csv"])
    assert len(og.open("made.og").commits()) == 1
