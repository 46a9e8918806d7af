"""Graphs of other systems, from their files to rows here: proposed, and run on a real Spark."""

from __future__ import annotations

import gzip
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.imports import neo4j_files, neo4j_views, rdf_graph
from omnigraph.pipeline.imports.rdf_views import RDF_TYPE
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline
from omnigraph.spark.pipeline.graphar_source import read_graphar_rows
from omnigraph.spark.pipeline.run import run_pipeline
from tests.pipeline.imports.graphar_files import PEOPLE, write_graphar
from tests.spark.pipeline.test_pipeline_run import Watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_proposed(folder: Path, spark: SparkSession, files: list[str]) -> Graph:
    graph = og.init(folder / "made.og", infer_schema(files))
    path = folder / "made.pipeline.yaml"
    path.write_text(propose_pipeline(files, graph="made.og", folder=folder))
    result = run_pipeline(plan_pipeline(read_pipeline(path), graph), lambda: graph.spark(spark), Watched())
    stored = {type_.table_key: len(rows_of(graph, type_.name)) for type_ in graph.schema.catalog.types()}
    assert {key: counts.read for key, counts in result.load.counts.items()} == stored
    assert result.load.total.read == result.load.total.inserted
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


def test_properties_of_graphar_may_have_names_that_spark_and_the_reader_use(
    tmp_path: Path, spark: SparkSession
) -> None:
    write_graphar(tmp_path)
    names = {"firstName": "_file", "nick": "_metadata"}
    vertices = tmp_path / "person.vertex.yml"
    for old, new in names.items():
        vertices.write_text(vertices.read_text().replace(old, new))
    for chunk in (tmp_path / "vertex/person/names").iterdir():
        rows = pq.read_table(chunk)
        pq.write_table(rows.rename_columns([names.get(name, name) for name in rows.column_names]), chunk)
    found = read_graphar_rows(spark, str(tmp_path / "social.graph.yml"), {"vertices": "person"}).collect()
    assert {row["id"]: (row["_file"], row["_metadata"]) for row in found} == PEOPLE


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


@pytest.mark.parametrize(
    "lost", ["vertex/person/names/chunk1", "edge/person_knows_person/ordered_by_source/since/part1/chunk0"]
)
def test_a_chunk_of_graphar_that_is_missing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, lost: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("social").mkdir()
    write_graphar(Path("social"))
    Path("social", lost).unlink()
    with pytest.raises(OmniGraphError, match=r"GraphAr has no values below .* for the rows of .*chunk"):
        load_proposed(tmp_path, spark, ["social"])


def look_at_rows(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    for module in (neo4j_files, neo4j_views):
        monkeypatch.setattr(module, "MAX_ROWS", number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "roles", "unknown"),
    [
        ("k1,Actor\nk2,Actor\nk3,Director\n", "k1,k2,KNOWS\n", "has the label or type Director"),
        ("k1,Actor\nk2,Actor\nk3,\n", "k1,k2,KNOWS\n", "has the label or type null"),
        ("k1,Actor\nk2,Director\nk3,Writer;Actor\n", "k1,k2,KNOWS\n", "has the label or type Writer"),
        (
            "k1,Actor\nk2,Actor\nk3,Actor;Star\n",
            "k1,k2,KNOWS\n",
            "with the label Actor has several labels, but one is Actor;Star",
        ),
        ("k1,Actor\n", "k1,k1,KNOWS\nk1,k1,KNOWS\nk1,k1,LIKES\n", "has the label or type LIKES"),
        ("k1,Actor\nk2,Actor\nk3,Actor\n", "k1,k2,KNOWS\nk2,k3,KNOWS\nk3,k3,KNOWS\n", None),
    ],
)
def test_labels_that_nobody_looked_at_are_no_lost_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, nodes: str, roles: str, unknown: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    look_at_rows(monkeypatch, 2)
    Path("people.csv").write_text(f"key:ID,:LABEL\n{nodes}")
    Path("roles.csv").write_text(f":START_ID,:END_ID,:TYPE\n{roles}")
    if unknown is None:
        graph = load_proposed(tmp_path, spark, ["people.csv", "roles.csv"])
        assert (len(rows_of(graph, "Actor")), len(rows_of(graph, "Knows"))) == (3, 3)
        return
    with pytest.raises(OmniGraphError, match=f"none of the first 2 rows of .*csv {unknown}: move one up"):
        load_proposed(tmp_path, spark, ["people.csv", "roles.csv"])
    assert len(og.open("made.og").commits()) == 1


@pytest.mark.slow
def test_rows_of_neo4j_that_look_like_something_else_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("head.csv").write_text("name,key:ID(A)\n")
    Path("people.csv").write_text("name,key:ID(A)\nname,p1\nAnn,p2\n")
    # The same id in two spaces, and in one of them it is that of another label.
    Path("robots.csv").write_text("key:ID(B)\np1\n")
    Path("more.csv").write_text("key:ID(B)\nq1\n")
    Path("knows.csv").write_text(":START_ID(B),:END_ID(A),:TYPE\np1,p1,LIKES\nq1,p2,LIKES\np1,p2,\n")
    graph = load_proposed(
        tmp_path, spark, ["Person=head.csv,people.csv", "Robot=robots.csv", "Person=more.csv", "KNOWS=knows.csv"]
    )
    assert {row["key"]: row["name"] for row in rows_of(graph, "Person")} == {
        "p1": "name",
        "p2": "Ann",
        "q1": None,
    }
    for type_, ends in (
        ("RobotLikesPerson", ("p1", "p1")),
        ("PersonLikesPerson", ("q1", "p2")),
        ("Knows", ("p1", "p2")),
    ):
        assert [(row["from"], row["to"]) for row in rows_of(graph, type_)] == [ends]


@pytest.mark.slow
@pytest.mark.parametrize("row", ["k3,Ann,x", "k3,Ann,x,Actor,y", 'k3,"An\nn",x,Actor'])
def test_rows_with_other_columns_than_the_header_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, row: str
) -> None:
    monkeypatch.chdir(tmp_path)
    look_at_rows(monkeypatch, 2)
    Path("people.csv").write_text(f"key:ID,name,note:IGNORE,:LABEL\nk1,Ann,x,Actor\nk2,Bob,x,Actor\n{row}\n")
    with pytest.raises(OmniGraphError) as caught:
        load_proposed(tmp_path, spark, ["people.csv"])
    told = row.partition("\n")[0].replace('"', "")
    assert f"people.csv has a record with more or fewer values than columns: {told}" in str(caught.value).replace(
        '"', ""
    )
    assert len(og.open("made.og").commits()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("eight_partitions")
def test_relationships_whose_ends_nobody_looked_at_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    look_at_rows(monkeypatch, 2)
    Path("people.csv").write_text("key:ID,:LABEL\na1,Actor\nd1,Director\na2,Actor\nd2,Director\n")
    Path("movies.csv").write_text("key:ID(M),:LABEL\nm1,Movie\ns1,Series\nm2,Movie\n")
    Path("towns.csv").write_text("key:ID(T)\nt1\n")
    files = ["people.csv", "movies.csv", "Town=towns.csv", "knows.csv", "roles.csv", "LIVES_IN=lives.csv"]
    known = {
        "knows.csv": ":START_ID,:END_ID,:TYPE\na1,a1,KNOWS\na1,d1,KNOWS\na2,d2,KNOWS\na2,a1,KNOWS\n",
        "roles.csv": ":START_ID,:END_ID(M),:TYPE\na1,m1,PLAYS\nd1,s1,MAKES\na2,m2,PLAYS\n",
        "lives.csv": ":START_ID,:END_ID(T)\na1,t1\na1,t1\na2,t1\n",
    }
    for name, text in known.items():
        Path(name).write_text(text)
    graph = load_proposed(tmp_path, spark, files)
    sizes = [len(rows_of(graph, each)) for each in ("ActorKnowsActor", "ActorKnowsDirector", "Plays", "Makes")]
    assert sizes == [2, 2, 2, 1]
    assert len(rows_of(graph, "LivesIn")) == 3
    for name, row, unknown in (
        ("knows.csv", "d2,a2,KNOWS", "is of the type KNOWS from Director d2 to Actor a2: move one up"),
        ("knows.csv", "a2,x9,KNOWS", "is of the type KNOWS from Actor a2 to no node x9: move one up"),
        ("roles.csv", "a2,s1,PLAYS", "is of the type PLAYS from Actor a2 to Series s1: move one up"),
        ("lives.csv", "d2,t1", "is of the type LIVES_IN from Director d2: move one up"),
    ):
        Path(name).write_text(f"{known[name]}{row}\n")
        shutil.rmtree("made.og")
        with pytest.raises(OmniGraphError, match=f"none of the first 2 rows of {name} {unknown}"):
            load_proposed(tmp_path, spark, files)
        assert len(og.open("made.og").commits()) == 1
        Path(name).write_text(known[name])
    # What the error says leaves such rows out.
    Path("lives.csv").write_text(f"{known['lives.csv']}d2,t1\n")
    path = Path("made.pipeline.yaml")
    replaced = re.sub(r"(lives_in_view: .*)raise_error\(.*\) END", r"\1FALSE END", path.read_text())
    path.write_text(replaced)
    graph = og.open("made.og")
    run_pipeline(plan_pipeline(read_pipeline(path), graph), lambda: graph.spark(spark), Watched())
    assert len(rows_of(graph, "LivesIn")) == 3


KNOWN_TRIPLES = """
a a Person
b a Agent
b a Person
a name "Ann"
a age 33
a knows b
a site x
a near t
a near y
t a Town
t size 1
b knows a
"""


def write_triples(text: str) -> None:
    """Write triples of short names, one in a line."""
    lines: list[str] = []
    for each in text.strip().splitlines():
        subject, predicate, value = each.split(" ", 2)
        given = f"<http://e/{predicate}>" if predicate != "a" else f"<{RDF_TYPE}>"
        found = value if value[0] == '"' else f"<http://e/{value}>"
        if value.isdigit():
            found = f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'
        lines.append(f"<http://e/{subject}> {given} {found} .\n")
    Path("g.nt").write_text("".join(lines))


def look_at_triples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdf_graph, "MAX_TRIPLES", len(KNOWN_TRIPLES.strip().splitlines()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("later", "unknown"),
    [
        ("c a Robot", "has the class http://e/Robot"),
        ('c name "Cy"', "has a subject that is without a class, as is http://e/c"),
        ("t a Person", "gives a subject of the class http://e/Town a second one, as http://e/t"),
        ('b nick "B"', "gives one of the class http://e/Agent a literal by http://e/nick, as has http://e/b"),
        ("a likes b", "gives one of the class http://e/Person an IRI by http://e/likes, as has http://e/a"),
        ("a name x", "gives one of the class http://e/Person an IRI by http://e/name, as has http://e/a"),
        ('a knows "Bob"', "gives one of the class http://e/Person a literal by http://e/knows, as has http://e/a"),
        ('a name "Anna"', "gives one of the class http://e/Person several values of http://e/name, as has http://e/a"),
        (
            'c a Person\nc name "Cy"\nc age "3.5"^^<http://www.w3.org/2001/XMLSchema#decimal>',
            "gives one of the class http://e/Person by http://e/age a value of the datatype "
            "http://www.w3.org/2001/XMLSchema#decimal, as has http://e/c",
        ),
        (
            "a knows t",
            "leads by http://e/knows from one of the class http://e/Person to one of the class http://e/Town, "
            "as from http://e/a to http://e/t",
        ),
        (
            "a knows z",
            "leads by http://e/knows from one of the class http://e/Person to an IRI of which nothing is said, "
            "as from http://e/a to http://e/z",
        ),
        (
            "c a Person\nc site b",
            "leads by http://e/site from one of the class http://e/Person to one of the class http://e/Agent, "
            "as from http://e/c to http://e/b",
        ),
    ],
)
def test_triples_that_are_unlike_all_that_were_looked_at_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession, later: str, unknown: str
) -> None:
    pytest.importorskip("pyoxigraph")
    monkeypatch.chdir(tmp_path)
    look_at_triples(monkeypatch)
    write_triples(KNOWN_TRIPLES + later)
    with pytest.raises(OmniGraphError) as caught:
        load_proposed(tmp_path, spark, ["g.nt"])
    assert f"none of the first 12 triples of g.nt {unknown}: move one up, and propose again" in str(caught.value)
    assert len(og.open("made.og").commits()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("eight_partitions")
def test_triples_that_are_like_those_that_were_looked_at_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    pytest.importorskip("pyoxigraph")
    monkeypatch.chdir(tmp_path)
    look_at_triples(monkeypatch)
    more = 'a name "Ann"\nc a Person\nc knows b\nc near t\nc near v\nc site w\nc name "Cy"\nc age 1\n'
    more += "u a Town\nu size 2\nb knows c\n"
    write_triples(KNOWN_TRIPLES + more)
    graph = load_proposed(tmp_path, spark, ["g.nt"])
    people = {row["iri"]: (row["name"], row["age"], row["site"], row["near"]) for row in rows_of(graph, "Person")}
    assert people == {
        "http://e/a": ("Ann", 33, "http://e/x", "http://e/y"),
        "http://e/c": ("Cy", 1, "http://e/w", "http://e/v"),
    }
    assert {row["iri"]: row["size"] for row in rows_of(graph, "Town")} == {"http://e/t": 1, "http://e/u": 2}
    assert [row["classes"] for row in rows_of(graph, "Agent")] == [["http://e/Agent", "http://e/Person"]]
    sizes = [len(rows_of(graph, each)) for each in ("PersonKnowsAgent", "AgentKnowsPerson", "Near")]
    assert sizes == [2, 2, 2]
