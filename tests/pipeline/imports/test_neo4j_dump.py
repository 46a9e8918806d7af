"""Dumps of Neo4j: headers, labels, spaces of ids and arrays become types; what cannot be loaded is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import NotFound, ParameterError, ValidationError
from omnigraph.language.schema import check_schema, format_schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.pipeline.file import read_pipeline
from omnigraph.pipeline.imports import neo4j_files
from omnigraph.pipeline.planner import plan_pipeline
from omnigraph.pipeline.proposals import infer_schema, propose_pipeline

MOVIES = '''movieId:ID(Movie),title,year:int,genres:string[],:LABEL
tt1,"The ""Matrix""",1999,sci;action,Movie
tt2,Reloaded,2003,sci,Movie;Sequel
'''
PEOPLE = """personId:ID(Person),name,born:date,notes:IGNORE,scores:double[],:LABEL
k1,Keanu,1964-09-02,x,1.5;2,Actor
k2,Lana,,y,,Director
"""
ROLES = """:START_ID(Person),role,:END_ID(Movie),:TYPE
k1,Neo,tt1,ACTED_IN
k1,Neo,tt2,ACTED_IN
k2,,tt1,DIRECTED
k1,Smith,tt1,ACTED_IN
"""
DUMP = ["movies.csv", "people.csv", "roles.csv"]


@pytest.fixture(autouse=True)
def dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in zip(DUMP, (MOVIES, PEOPLE, ROLES), strict=True):
        write(name, text)
    return tmp_path


def write(name: str, text: str) -> str:
    Path(name).write_text(text)
    return name


def test_labels_types_and_arrays_are_proposed_with_their_columns() -> None:
    text = infer_schema(DUMP)
    assert check_schema(Source(text, "proposed.pg")) == []
    assert format_schema(Source(text)) == text
    assert text.splitlines() == [
        "// Proposed from a dump of Neo4j. Each comment says what a line comes from: check it before you use it.",
        "",
        "// movies.csv: 2 rows",
        "// the first label is the type",
        "node Movie {",
        "  movie_id: String @key // column 'movieId:ID(Movie)'",
        "  title: String",
        "  year: I32 // column 'year:int'",
        "  genres: [String] // column 'genres:string[]'",
        "  labels: [String]? // column ':LABEL': all labels",
        "}",
        "",
        "// people.csv: 2 rows",
        "node Actor {",
        "  person_id: String @key // column 'personId:ID(Person)'",
        "  name: String",
        "  born: Date // column 'born:date'",
        "  scores: [F64] // column 'scores:double[]'",
        "}",
        "",
        "// people.csv: 2 rows",
        "node Director {",
        "  person_id: String @key // column 'personId:ID(Person)'",
        "  name: String",
        "}",
        "",
        "// roles.csv: 4 rows",
        "// relationships of the type ACTED_IN",
        "// only those from Actor to Movie: their ids share a space with others",
        "edge ActedIn: Actor -> Movie {",
        "  role: String",
        "}",
        "",
        "// roles.csv: 4 rows",
        "// relationships of the type DIRECTED",
        "// only those from Director to Movie: their ids share a space with others",
        "edge Directed: Director -> Movie",
    ]


def test_a_proposed_pipeline_can_be_planned(dump: Path) -> None:
    graph = omnigraph.init("movies.og", infer_schema(DUMP))
    (dump / "sub").mkdir()
    text = propose_pipeline(DUMP, graph="../movies.og", folder=Path("sub"))
    path = Path("sub/p.pipeline.yaml")
    path.write_text(text)
    plan = plan_pipeline(read_pipeline(path), graph)
    assert [each.type.name for each in plan.mappings] == ["Movie", "Actor", "Director", "ActedIn", "Directed"]
    assert [view.name for view in plan.file.views] == [
        "person_ids",
        "actor_view",
        "director_view",
        "acted_in_view",
        "directed_view",
    ]
    changed = propose_pipeline(DUMP, schema="node Movie { movie_id: String @key  title: String }")
    assert "# not used: year, genres, labels" in changed
    assert "# the schema has no type ActedIn" in changed


def test_files_are_grouped_as_neo4j_admin_takes_them() -> None:
    write("h.csv", ":ID{id-type:long},:IGNORE,point:point{crs:WGS-84}\n")
    write("a.csv", "1,,\n2,,here\n")
    write("b.csv", "3,,\n")
    write("likes.csv", "since:datetime,:START_ID,:END_ID\n2020-01-01T00:00:00Z,1,2\n")
    text = infer_schema(["Big Person:Human=h.csv,a.csv,b.csv", "LIKES=likes.csv"])
    assert "node BigPerson {" in text
    assert "the first label is the type; others are not kept" in text
    assert "bigperson_id: I64 @key // column ':ID{id-type:long}'; an id that Neo4j would not keep" in text
    assert "point: String? // column 'point:point{crs:WGS-84}'; a point is kept as a text; options" in text
    assert "edge Likes: BigPerson -> BigPerson {" in text
    pipeline = propose_pipeline(["Big Person:Human=h.csv,a.csv,b.csv", "LIKES=likes.csv"])
    assert 'path: "{h.csv,a.csv,b.csv}"' in pipeline
    assert "_c0 AS `:ID{id-type:long}`, _c2 AS `point:point{crs:WGS-84}` FROM" in pipeline
    assert 'from: "cast(`:START_ID` AS bigint)"' in pipeline


def test_files_of_one_label_are_one_type_whatever_their_columns() -> None:
    write("a.csv", "id:ID,name\n1,Ann\n")
    write("b.csv", "born:int,key:ID\n1990,2\n")
    write("ab.csv", ":START_ID,:END_ID\n1,2\n")
    text = infer_schema(["Person=a.csv", "Person=b.csv", "KNOWS=ab.csv"])
    assert set(parse_schema(text).catalog.nodes["Person"].properties) == {"person_id", "name", "born"}
    pipeline = propose_pipeline(["Person=a.csv", "Person=b.csv", "KNOWS=ab.csv"])
    assert "SELECT r.`key:ID` AS `id:ID`, CAST(NULL AS string) AS name, r.`born:int` AS `born:int`" in pipeline


def test_a_type_between_several_pairs_of_types_becomes_several() -> None:
    write("roles.csv", ROLES + "k2,,tt1,ACTED_IN\n")
    edges = parse_schema(infer_schema(DUMP)).catalog.edges
    assert set(edges) == {"ActorActedInMovie", "DirectorActedInMovie", "Directed"}


def test_everything_wrong_in_headers_is_listed_at_once() -> None:
    write("movies.csv", "movieId:ID(Movie),year:in,title,title\ntt1,1999,a,b\n")
    write("people.csv", "personId:ID,:START_ID\nx,y\n")
    write("roles.csv", ":START_ID(Person),role\nk1,Neo\n")
    write("other.csv", "a,b\n1,2\n")
    with pytest.raises(ValidationError) as caught:
        infer_schema([*DUMP, "other.csv"])
    found = [(each.file, each.line, each.rule, each.value) for each in caught.value.violations]
    assert found == [
        ("movies.csv", 1, "neo4j_type", "year:in"),
        ("movies.csv", 1, "neo4j_repeated_property", "title"),
        ("people.csv", 1, "neo4j_roles", "personId:ID,:START_ID"),
        ("roles.csv", 1, "neo4j_roles", ":START_ID(Person),role"),
        ("other.csv", 1, "neo4j_roles", "a,b"),
    ]
    assert "did you mean 'int'" in caught.value.violations[0].message


def test_everything_wrong_in_rows_is_listed_at_once() -> None:
    write("movies.csv", 'movieId:ID(Movie),year:int,tags:int[]\ntt1,"19\n99",1;x\n,1,\ntt3,1\n')
    with pytest.raises(ValidationError) as caught:
        infer_schema(DUMP)
    assert {(each.line, each.rule, each.value) for each in caught.value.violations} == {
        (3, "neo4j_value", "19\n99"),
        (3, "neo4j_value", "x"),
        (4, "neo4j_id", None),
        (5, "neo4j_columns", "tt3,1"),
    }


def test_ends_and_ids_that_do_not_fit_are_listed_at_once() -> None:
    write("people.csv", PEOPLE + "k1,Again,,,,Actor\n")
    write("roles.csv", ROLES + "k9,,tt1,DIRECTED\nk1,,tt9,DIRECTED\nk1,,tt1,\n")
    write("bad.csv", "SEEN,:START_ID(Person),:END_ID(Film)\n,k1,f1\n")
    with pytest.raises(ValidationError) as caught:
        infer_schema([*DUMP, "SEEN=bad.csv"])
    assert [(each.file, each.line, each.rule, each.value) for each in caught.value.violations] == [
        ("people.csv", 4, "neo4j_id", "k1"),
        ("roles.csv", 8, "neo4j_type", None),
        ("roles.csv", 6, "neo4j_end", "k9"),
        ("roles.csv", 7, "neo4j_end", "tt9"),
        ("bad.csv", 1, "neo4j_space", "Film"),
    ]


def test_only_the_first_rows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j_files, "MAX_ROWS", 1)
    text = infer_schema(DUMP)
    assert "// people.csv: the first 1 row" in text
    assert set(parse_schema(text).catalog.nodes) == {"Movie", "Actor"}


def test_lines_that_are_no_rows_do_not_hide_that_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j_files, "MAX_ROWS", 2)
    write("people.csv", "key:ID,:LABEL\n\nk1,Actor\nkey:ID,:LABEL\nk2,Actor\n\n")
    assert "// people.csv: 2 rows" in infer_schema(["people.csv"])
    write("people.csv", "key:ID,:LABEL\n\nk1,Actor\nkey:ID,:LABEL\nk2,Actor\nk3,Director\n")
    assert "// people.csv: the first 2 rows" in infer_schema(["people.csv"])


def test_relationships_that_lead_to_nodes_that_were_not_looked_at_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neo4j_files, "MAX_ROWS", 2)
    write("people.csv", "key:ID,:LABEL\nk1,Actor\nk2,Director\nk3,Actor\n")
    write("knows.csv", ":START_ID,:END_ID,:TYPE\nk1,k2,KNOWS\nk3,k1,LIKES\n")
    with pytest.raises(ValidationError) as caught:
        infer_schema(["people.csv", "knows.csv"])
    assert [(each.file, each.line, each.rule) for each in caught.value.violations] == [("knows.csv", 3, "neo4j_end")]
    assert "no relationship of the type LIKES that was looked at" in caught.value.violations[0].message


def test_options_and_missing_files() -> None:
    write("movies.csv", "movieId:ID(Movie)\tgenres:string[]\ntt1\ta|b;c\n")
    text = propose_pipeline(["Movie=movies.csv"], options={"sep": "\t", "array_delimiter": "|"})
    assert "split(`genres:string[]`, '[|]')" in text
    with pytest.raises(ParameterError, match="array_delimiter is"):
        infer_schema(DUMP, {"array_delimiter": "^"})
    with pytest.raises(ParameterError, match="for dumps of Neo4j"):
        infer_schema([write("plain.csv", "a,b\n1,2\n")], {"array_delimiter": ";"})
    with pytest.raises(NotFound, match="no file 'gone"):
        infer_schema([*DUMP, "Person=gone.csv"])


def test_a_node_without_a_label_is_selected_by_its_own_condition() -> None:
    write("people.csv", "id:ID,:LABEL\n1,Person;Admin\n2,\n3,;Odd\n4,people\n")
    text = propose_pipeline(["people.csv"])
    said = "coalesce(nullif(split(`:LABEL`, '[;]')[0], ''), 'people')"
    assert f"WHERE {said} = 'Person'" in text
    assert f"WHERE {said} = 'people'" in text


def test_a_label_that_gives_no_name_is_said() -> None:
    text = infer_schema([write("cats.csv", "id:ID,:LABEL\n1,\u732b\n2,Big Cat\n3,\u4eba\n")])
    assert set(parse_schema(text).catalog.nodes) == {"Node", "BigCat", "Node2"}
    assert "// nodes with the label \u732b\nnode Node {" in text
    assert "label Big Cat" not in text


def test_files_of_one_type_may_call_their_ends_differently() -> None:
    write("more.csv", "why,film:END_ID(Movie),who:START_ID(Person)\nfun,tt1,k2\n")
    pipeline = propose_pipeline([*DUMP, "DIRECTED=more.csv"])
    (view,) = [line for line in pipeline.splitlines() if line.startswith("  directed_view:")]
    assert "person_ids a ON r.`:START_ID(Person)` = a.id AND a.label = 'Director'" in view
    assert "person_ids a ON r.`who:START_ID(Person)` = a.id AND a.label = 'Director'" in view
    assert "r.`who:START_ID(Person)` AS `:START_ID(Person)`" in view


def test_columns_that_sql_cannot_tell_apart_have_other_names() -> None:
    write("odd.csv", "name,:IGNORE,id:ID,Name,:IGNORE,,null,order\na,x,1,b,y,z,n,o\n")
    write("other.csv", "NAME,id:ID\nc,2\n")
    text = infer_schema(["Odd=odd.csv"])
    assert set(parse_schema(text).catalog.nodes["Odd"].properties) == {"odd_id", "name", "name_2", "null", "order"}
    assert "column 'Name'" in text
    pipeline = propose_pipeline(["Odd=odd.csv"])
    assert 'options: {header: false, escape: "\\"", mode: "FAILFAST", columnPruning: false}' in pipeline
    assert (
        "SELECT _c0 AS _c0, _c2 AS `id:ID`, _c3 AS _c3, _c6 AS `null`, _c7 AS order FROM odd_rows_files"
        " WHERE NOT (_c0 <=> 'name' AND _c2 <=> 'id:ID' AND _c3 <=> 'Name' AND _c6 <=> 'null' AND _c7 <=> 'order')"
    ) in pipeline
    assert [line.strip() for line in pipeline.splitlines() if line.startswith("      ")] == [
        'odd_id: "`id:ID`"',
        'name: "_c0"',
        'name_2: "_c3"',
        'null: "`null`"',
        'order: "order"',
    ]
    together = propose_pipeline(["Odd=other.csv", "Odd=odd.csv"])
    assert "r.NAME AS NAME" in together
    assert "CAST(NULL AS string) AS NAME" in together
    assert "r._c0 AS _c0" in together


def test_values_of_several_lines_and_other_marks_are_read_alike_on_spark() -> None:
    write("notes.tsv", "id:ID\ttext\n1\t'a\nb''c'\n2\tNA\n")
    given = {"quote": "'", "nullValue": "NA"}
    pipeline = propose_pipeline(["Note=notes.tsv"], options=given)
    options = 'header: true, escape: "\'", mode: "FAILFAST", columnPruning: false, '
    options += 'sep: "\\t", quote: "\'", nullValue: "NA", multiLine: true'
    assert f'options: {{{options}, lineSep: "\\n"}}' in pipeline
    assert "text: String? // empty in 1 of 2 rows" in infer_schema(["Note=notes.tsv"], given)
    Path("notes.tsv").write_bytes(b"id:ID\ttext\r\n1\t'a\nb''c'\r\n2\tNA\r\n")
    assert f"options: {{{options}}}" in propose_pipeline(["Note=notes.tsv"], options=given)
    write("notes.tsv", "id:ID;text\n1;a\n")
    assert 'sep: ";"' in propose_pipeline(["Note=notes.tsv"], options={"sep": ";"})


def test_ids_of_two_spaces_that_meet_in_a_type_are_listed() -> None:
    write("a.csv", "id:ID(A)\n1\n2\n")
    write("b.csv", "id:ID(B)\n2\n3\n")
    infer_schema(["Person=a.csv", "Robot=b.csv"])
    with pytest.raises(ValidationError) as caught:
        infer_schema(["Person=a.csv", "Person=b.csv"])
    assert [(each.file, each.line, each.rule, each.value) for each in caught.value.violations] == [
        ("b.csv", 2, "neo4j_id", "2")
    ]


def test_a_file_without_rows_is_said() -> None:
    text = infer_schema([*DUMP, "LIKES=" + write("likes.csv", ":START_ID(Person),:END_ID(Movie)\n")])
    assert "// likes.csv: no rows, so no type" in text
    assert "Likes" not in parse_schema(text).catalog.edges


def test_long_values_and_a_byte_order_mark_are_read() -> None:
    write("long.csv", "\ufeffcode:ID,text\n1," + "x" * 200_000 + "\n")
    assert "  code: String @key // column 'code:ID'" in infer_schema(["Long=long.csv"])


def test_what_is_no_text_is_listed_with_its_line() -> None:
    Path("latin.csv").write_bytes(b"id:ID,name,age:int\n1,J\xf6rg,3\n2,Ann,\xff\n3,Eve,x\n")
    with pytest.raises(ValidationError) as caught:
        infer_schema(["Person=latin.csv"])
    assert [(each.line, each.rule, each.property, each.value) for each in caught.value.violations] == [
        (2, "neo4j_encoding", "name", "J\ufffdrg"),
        (3, "neo4j_encoding", "age:int", "\ufffd"),
        (4, "neo4j_value", "age:int", "x"),
    ]
    Path("latin.csv").write_bytes(b"id:ID,name\n1,J\xf6rg\n")
    assert 'encoding: "iso-8859-1"}' in propose_pipeline(["Person=latin.csv"], options={"encoding": "latin-1"})
    with pytest.raises(ParameterError, match="Spark cannot read cp1252"):
        propose_pipeline(["Person=latin.csv"], options={"encoding": "windows-1252"})


def test_files_that_spark_passes_over_are_refused() -> None:
    write("_people.csv", "9,Eve,,,,Actor\n")
    with pytest.raises(ParameterError, match=r"Spark does not read files with such names: _people\.csv"):
        propose_pipeline(["movies.csv", "people.csv,_people.csv", "roles.csv"])


def test_a_compressed_file_that_is_none_is_named() -> None:
    Path("people.csv.gz").write_bytes(b"id:ID\n1\n")
    with pytest.raises(ParameterError, match=r"people\.csv\.gz, line 0: Not a gzipped file"):
        infer_schema(["Person=people.csv.gz"])
