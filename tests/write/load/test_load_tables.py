"""Files of tables: CSV, Parquet, Arrow and JSON objects, which columns are read, and what is wrong with them."""

from __future__ import annotations

import encodings.aliases
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pandas as pd
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import omnigraph
from omnigraph.errors import Json, NotFound, ParameterError, StorageError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.load import LoadMode
from omnigraph.write.load.inputs import record_splitter, sources
from tests.graphs import rows_of, written

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  member: Bool?
  born: Date?
  seen: DateTime?
  kind: enum(adult, child)?
  tags: [String]?
  at: Vector(2)?
  level: I32 @default("3")
}
node Stop { line: String  seq: I32  name: String?  @key(line, seq) }
node Day { day: Date @key }
edge Knows: Person -> Person { since: Date? }
edge Visits: Person -> Stop
edge On: Person -> Day
"""
PEOPLE = """name,age,score,member,born,seen,kind,tags,at
ann,41,1.5,true,1983-02-28,2024-01-01T08:00:00Z,adult,"[""x"", ""y""]","[0.5, 1]"
bob,,,,,,,,
"eve, the
second", 7 ,-2e3,0,,2024-01-01 09:00+01:00,child,[],
"""
KNOWS = "from,to,since\nann,bob,2020-05-01\nbob,ann,\n"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.chdir(tmp_path)
    return omnigraph.init("people.og", SCHEMA)


def write(name: str, text: str, encoding: str = "utf-8") -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_bytes(text.encode(encoding))
    return name


def people(graph: Graph) -> dict[str, Mapping[str, Json]]:
    return {str(row["id"]): row for row in rows_of(graph, "Person")}


def places(error: ValidationError) -> list[tuple[str | None, int | None, str | None, str]]:
    return sorted(
        ((each.file, each.line, each.property, each.message) for each in error.violations),
        key=lambda each: (each[0] or "", each[1] or 0, each[2] or ""),
    )


# --------------------------------------------------------------------------------------------- formats


def test_a_csv_file_of_each_type_is_one_commit(graph: Graph) -> None:
    before = len(graph.commits())
    result = graph.load(nodes={"Person": write("people.csv", PEOPLE)}, edges={"knows": Path(write("knows.csv", KNOWS))})
    assert (result.nodes, result.edges, len(graph.commits())) == ({"Person": 3}, {"Knows": 2}, before + 1)
    found = people(graph)
    assert set(found) == {"ann", "bob", "eve, the\nsecond"}
    ann = found["ann"]
    assert (ann["age"], ann["score"], ann["member"], ann["kind"]) == (41, 1.5, True, "adult")
    assert (ann["tags"], ann["at"], ann["level"]) == (["x", "y"], [0.5, 1.0], 3)
    eve = found["eve, the\nsecond"]
    assert (eve["age"], eve["score"], eve["member"], eve["tags"]) == (7, -2000.0, False, [])
    assert ann["seen"] == eve["seen"]
    assert all(found["bob"][name] is None for name in ("age", "score", "member", "born", "seen", "kind", "tags", "at"))


def as_parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


def as_arrow_file(path: Path, table: pa.Table) -> None:
    with ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=1)


def as_arrow_stream(path: Path, table: pa.Table) -> None:
    with ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=1)


def as_objects(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def as_csv(path: Path, table: pa.Table) -> None:
    rows = cast("list[dict[str, object]]", table.to_pylist())
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in [list(rows[0]), *(row.values() for row in rows)]))


def as_compressed(path: Path, table: pa.Table) -> None:
    as_csv(path, table)
    path.write_bytes(gzip.compress(path.read_bytes()))


@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("stops.parquet", as_parquet),
        ("stops.arrow", as_arrow_file),
        ("stops.feather", as_arrow_stream),
        ("stops.jsonl", as_objects),
        ("stops.ndjson", as_objects),
        ("stops.csv", as_csv),
        ("stops.csv.gz", as_compressed),
    ],
    ids=["parquet", "arrow", "feather", "jsonl", "ndjson", "csv", "gzip"],
)
def test_every_format_gives_the_same_rows(graph: Graph, name: str, save: Callable[[Path, pa.Table], None]) -> None:
    save(Path(name), pa.table({"seq": [1, 2, 3], "line": ["N"] * 3, "label": ["a", "b", "c"]}))
    save(Path(f"visits-{name}"), pa.table({"who": ["ann"], "line": ["N"], "number": [2]}))
    counted: list[int] = []
    result = graph.load(
        [{"type": "Person", "data": {"name": "ann"}}],
        nodes={"Stop": name},
        edges={"Visits": f"visits-{name}"},
        columns={"Stop": {"name": "label"}, "Visits": {"from": "who", "to.line": "line", "to.seq": "number"}},
        progress=counted.append,
    )
    assert (result.nodes, result.edges) == ({"Person": 1, "Stop": 3}, {"Visits": 1})
    assert {(row["id"], row["name"]) for row in rows_of(graph, "Stop")} == {
        ('["N","1"]', "a"), ('["N","2"]', "b"), ('["N","3"]', "c"),
    }  # fmt: skip
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "Visits")] == [("ann", '["N","2"]')]
    assert sum(counted) == Path(name).stat().st_size + Path(f"visits-{name}").stat().st_size


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("name;age\nå'n;4\n", {"sep": ";"}),
        ("name\tage\nå'n\t4\n", {"delimiter": "\\t", "format": "csv"}),
        ("name,age\nå'n,4\n", {"encoding": "latin-1"}),
        ("name,age\nå'n,4\n", {"encoding": "utf-16"}),
        ("name,age\n'å''n',4\n", {"quote": "'"}),
        ('name,age\n"å\\\'n",4\n', {"escape": "\\"}),
        ("name,age\nå'n,4\n\nNULL,NULL\n,\n", {"nullValue": "NULL"}),
        ("\ufeffname , age\r\nå'n,4\r\n", {"header": True}),
        ("name,age\nå'n,4", {}),
    ],
    ids=str,
)
def test_options_say_how_a_csv_file_is_written(graph: Graph, text: str, options: dict[str, object]) -> None:
    write("people.csv", text, str(options.get("encoding", "utf-8")))
    graph.load(nodes={"Person": "people.csv"}, options=options)
    assert [(row["name"], row["age"]) for row in rows_of(graph, "Person")] == [("å'n", 4)]


def test_without_a_header_columns_are_numbered_and_tabs_are_known_by_the_ending(graph: Graph) -> None:
    write("people.tsv", "4\tann\n5\tbob\n")
    columns = {"Person": {"name": "_c1", "age": "_c0"}}
    graph.load(nodes={"Person": "people.tsv"}, columns=columns, options={"header": "false"})
    assert {row["name"]: row["age"] for row in rows_of(graph, "Person")} == {"ann": 4, "bob": 5}


def test_an_empty_text_in_quotes_is_a_text_and_no_number(graph: Graph) -> None:
    write("stops.csv", 'line,seq,name\nN,1,""\nN,2,\n"N","3",""\n')
    write("people.csv", 'name,age\n"ann",""\n')
    graph.load(nodes={"Stop": "stops.csv", "Person": "people.csv"})
    assert {row["seq"]: row["name"] for row in rows_of(graph, "Stop")} == {1: "", 2: None, 3: ""}
    assert people(graph)["ann"]["age"] is None


def test_ends_are_ids_or_values_of_the_key(graph: Graph) -> None:
    graph.load([{"type": "Person", "data": {"name": "ann"}}, {"type": "Day", "data": {"day": "2024-05-01"}}])
    write("a.csv", "from,to\nann,2024-05-01\n")
    write("b.csv", "from,to\nann,19844\n")
    write("c.jsonl", '{"from": "ann", "to": 19844}\n')
    graph.load(edges={"On": ["a.csv", "b.csv", "c.jsonl"]})
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "On")] == [("ann", "19844")] * 3


def test_patterns_folders_and_several_files_are_read_in_order(graph: Graph) -> None:
    for name in ("raw/b.csv", "raw/a.csv", "raw/_old.csv", "raw/.part.csv", "more/deep/c.csv", "odd[1].csv"):
        write(name, f"name\n{Path(name).name[0]}\n")
    graph.load(nodes={"Person": ["raw/[ab].csv", "more", "odd[1].csv"]})
    assert set(people(graph)) == {"a", "b", "c", "o"}


def test_columns_of_a_frame_are_chosen_too(graph: Graph) -> None:
    graph.load(
        nodes={"Person": pd.DataFrame({"full": ["ann"], "age": [4], "x": [0], "y": [0]})},
        columns={"Person": {"name": "full"}},
        ignore={"Person": ["*"]},
    )
    assert people(graph)["ann"]["age"] == 4


# --------------------------------------------------------------------------------------------- what is wrong


def test_all_that_is_wrong_with_names_is_said_at_once(graph: Graph) -> None:
    before = written(graph)
    write("a.csv", "nme,age,age,notes\n")
    write("b.csv", "full,level,born,name\n")
    write("k.csv", "frm,to\n")
    with pytest.raises(ParameterError) as caught:
        graph.load(
            nodes={"Person": ["a.csv", "b.csv"], "Persn": "a.csv", "Knows": "a.csv"},
            edges={"Knows": "k.csv", "Visits": "none.csv", "On": "x.dat"},
            columns={"Person": {"nmae": "x", "name": ["a", "b"]}, "Visits": {"to": ["a"]}, "Pet": {}},
            options={"hedder": True, "sep": "ab", "encoding": "morse", "format": "excel", "header": "maybe", "foo": 1},
        )
    assert caught.value.details["problems"] == [
        "option 'hedder': did you mean 'header'?",
        "option 'sep': 'ab' is not one ASCII character",
        "option 'encoding': 'morse' is not an encoding",
        "option 'format': 'excel' is not one of csv, parquet, arrow, jsonl",
        "option 'header': 'maybe' is neither true nor false",
        "option 'foo': unknown; the options are format, header, sep, quote, escape, nullValue, encoding, multiLine",
        "Person has no property 'nmae', did you mean 'name'?",
        "Person.name is read from one column, not from 2",
        "no node type 'Persn', did you mean 'Person'?",
        "no node type 'Knows', it is a type of edges",
        "Visits.to does not match the key of Stop: there are 1 columns, its key is line, seq",
        "columns names 'Pet', of which nothing is loaded",
        "there is no file 'none.csv'",
        "there is no file 'x.dat'",
    ]
    assert written(graph) == before


def test_all_that_is_wrong_with_columns_is_said_at_once(graph: Graph) -> None:
    write("a.csv", "nme,age,age,notes\n")
    write("b.csv", "full,level,born,name\n")
    write("k.csv", "frm,to\n")
    pq.write_table(pa.table({"name": [b"x"], "age": ["1"], "born": [True]}), "c.parquet")
    with pytest.raises(ParameterError) as caught:
        graph.load(
            nodes={"Person": ["a.csv", "b.csv", "c.parquet"]},
            edges={"Knows": "k.csv"},
            columns={"Person": {"name": "full", "age": "age"}},
            ignore={"Person": ["notes"]},
        )
    assert caught.value.details["problems"] == [
        "a.csv: no column 'full' for Person.name",
        "a.csv: no property 'nme', did you mean 'name'?",
        "a.csv: column 'age' occurs twice",
        "b.csv: no column 'age' for Person.age",
        "b.csv: column 'name' is not used: Person.name is read from 'full'",
        "c.parquet: no column 'full' for Person.name",
        "c.parquet: column 'name' is not used: Person.name is read from 'full'",
        "c.parquet: column 'age' is string, which is no I32?",
        "c.parquet: column 'born' is bool, which is no Date?",
        "k.csv: no property 'frm', did you mean 'from'?",
        "k.csv: column 'from' is missing; give it, or from.name",
    ]


def test_values_that_do_not_fit_have_file_line_and_property(graph: Graph) -> None:
    before = written(graph)
    write(
        "people.csv",
        "name,age,score,member,born,seen,kind,tags,at\n"
        'a,x,1_0,yes,01.02.2003,19000,other,"a, b",[1]\n'
        '"b\n\nc",2147483648,nan,,,,,,\n'
        "\n"
        "d,1\n"
        "e,0x1F,1e999,,,,,,\n",
    )
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"})
    assert places(caught.value) == [
        ("people.csv", 2, "age", "'age': expected I32, found 'x'; write an integer such as 42"),
        ("people.csv", 2, "at", "Vector(2) on Person: 'at' has this many elements: 1"),
        ("people.csv", 2, "born", "'born': '01.02.2003' is not a date; write YYYY-MM-DD"),
        ("people.csv", 2, "kind", "enum(adult, child) on Person: 'kind' is 'other'"),
        ("people.csv", 2, "member", "'member': expected Bool, found 'yes'; write true or false"),
        ("people.csv", 2, "score", "'score': expected F64, found '1_0'; write a number such as 1.5"),
        ("people.csv", 2, "seen", "'seen': '19000' is not a date-time; write YYYY-MM-DDTHH:MM:SSZ"),
        ("people.csv", 2, "tags", "'tags': expected [String], found 'a, b'; write a JSON array"),
        ("people.csv", 3, "age", "'age': 2147483648 does not fit I32; it holds -2147483648 to 2147483647"),
        ("people.csv", 3, "score", "'score': expected F64, found 'nan'; write a number such as 1.5"),
        ("people.csv", 7, None, "2 values in a file with 9 columns"),
        ("people.csv", 8, "age", "'age': expected I32, found '0x1F'; write an integer such as 42"),
        ("people.csv", 8, "score", "'score': inf is not a finite number that F64 holds; give a finite number"),
    ]
    assert written(graph) == before


def test_rules_between_rows_name_file_and_line_too(graph: Graph) -> None:
    write("people.csv", "name\nann\nbob\nann\n")
    write("knows.csv", "from,to\nann,bob\nann,nobody\n")
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"}, edges={"Knows": "knows.csv"})
    found = [(each.file, each.line) for each in caught.value.violations]
    assert found == [("knows.csv", 3), ("people.csv", 4)]


def test_wrong_rows_of_a_table_go_to_the_quarantine(graph: Graph) -> None:
    write("people.csv", 'name,age\nann,4\nbob,x\neve\n"max,5\n')
    result = graph.load(nodes={"Person": "people.csv"}, on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"Person": 1}, 3)
    kept = [json.loads(line) for line in Path(str(result.rejects_path)).read_text().splitlines()]
    assert sorted((each["line"], each["rule"], each["record"]) for each in kept) == [
        (3, "I32?", '{"type":"Person","data":{"name":"bob","age":"x"}}'),
        (4, "record", "eve"),
        (5, "record", '"max,5'),
    ]


def test_a_check_reads_everything_and_writes_nothing(graph: Graph) -> None:
    before = written(graph)
    assert graph.load(nodes={"Person": write("a.csv", PEOPLE)}, check=True).nodes == {"Person": 3}
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": write("b.csv", "name,age\n" + "x,y\n" * 300)}, check=True)
    assert len(caught.value.violations) == 300
    assert written(graph) == before


@pytest.mark.parametrize(("mode", "expected"), [("merge", {"ann": 5, "bob": 4}), ("overwrite", {"ann": 5})])
def test_modes_are_those_of_records(graph: Graph, mode: LoadMode, expected: dict[str, int]) -> None:
    graph.load(nodes={"Person": write("a.csv", "name,age\nann,4\nbob,4\n")})
    graph.load(nodes={"Person": write("b.csv", "name,age\nann,5\n")}, mode=mode)
    assert {name: row["age"] for name, row in people(graph).items()} == expected


def test_a_text_that_is_not_utf_8_is_a_violation(graph: Graph) -> None:
    write("a.csv", "name,age\nann,4\nåke,5\n", "latin-1")
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "a.csv"})
    ((file, line, name, message),) = places(caught.value)
    assert (file, line, name) == ("a.csv", 3, "name")
    assert "is not UTF-8" in message
    write("b.csv", "name,age\nann,4\nåke\n", "latin-1")
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "b.csv"})
    assert places(caught.value) == [("b.csv", 3, None, "1 values in a file with 2 columns")]
    assert caught.value.violations[0].value == "\ufffdke"
    write("c.csv", "nåme,age\n", "latin-1")
    with pytest.raises(ParameterError, match=r"the header of c\.csv is not UTF-8"):
        graph.load(nodes={"Person": "c.csv"})


def test_files_that_cannot_be_read_are_named(graph: Graph) -> None:
    with pytest.raises(NotFound, match=r"no file 'a\.csv'; there is no file 'b/\*\.csv'"):
        graph.load(nodes={"Person": ["a.csv", "b/*.csv"]})
    write("a.dat", "name\nann\n")
    with pytest.raises(ParameterError, match="give the option format"):
        graph.load(nodes={"Person": "a.dat"})
    for name in ("a.parquet", "a.arrow", "a.feather"):
        write(name, "nonsense")
        with pytest.raises(StorageError, match=name):
            graph.load(nodes={"Person": name})
    write("day=7/a.csv", "name\nann\n")
    with pytest.raises(ParameterError, match="partition folder"):
        graph.load(nodes={"Person": "day=*/a.csv"})
    with pytest.raises(ParameterError, match='engine="spark"'):
        graph.load(nodes={"Person": "s3a://bucket/a.csv"})
    with pytest.raises(ParameterError, match="names no file"):
        graph.load(nodes={"Person": []})


def test_a_table_where_records_are_expected_names_the_way(graph: Graph) -> None:
    for name in ("people.csv", "people.tsv.gz", "people.parquet", "people.arrow"):
        with pytest.raises(ParameterError) as caught:
            graph.load(write(name, PEOPLE))
        assert caught.value.message == f"'{name}' is a table, not graph records"
        assert f'load(nodes={{"Person": "{name}"}})' in str(caught.value.hint)
        assert f"--node Person={name}" in str(caught.value.hint)


def test_objects_and_graph_records_are_told_apart(graph: Graph) -> None:
    write("people.jsonl", '{"name": "ann", "agee": 4}\n{"type": "Person", "data": {"name": "ann"}}\n[]\n')
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.jsonl"})
    assert [(line, message.partition("; write")[0]) for _, line, _, message in places(caught.value)] == [
        (1, "Person has no property 'agee'; did you mean 'age'?"),
        (2, "this is a graph record; load its file without the name of a type"),
        (3, "not a JSON object"),
    ]
    with pytest.raises(ValidationError, match=r"load\(nodes="):
        graph.load("people.jsonl")


# --------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('bob,"2020-01-01', "a quote is not closed"),
        ('"bob"by,2020-01-01', "text follows a closing quote"),
        ('"bob" ,2020-01-01', "text follows a closing quote"),
    ],
)
@pytest.mark.parametrize("rest", ["", "eve,\ndan,\n"], ids=["last", "first"])
def test_a_misplaced_quote_rejects_its_line_alone(graph: Graph, bad: str, message: str, rest: str) -> None:
    write("people.csv", f"name,born\nann,1999-01-01\n{bad}\n{rest}")
    before = written(graph)
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"})
    (violation,) = caught.value.violations
    assert (violation.file, violation.line, violation.rule, violation.value) == ("people.csv", 3, "record", bad)
    assert violation.message.startswith(message)
    assert "option quote" in violation.message
    assert written(graph) == before
    result = graph.load(nodes={"Person": "people.csv"}, on_error="quarantine")
    assert result.rejected == 1
    assert set(people(graph)) == {"ann", *(["eve", "dan"] if rest else [])}


def test_a_quote_inside_a_value_does_not_matter_to_a_large_file(graph: Graph) -> None:
    long = "x" * 100_000
    many = "".join(f'p{number},5" pipe {long}\n' for number in range(101))
    write("people.csv", f'name,kind\n{many}"a\nb","c\nd{long}\ne"\n')
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"}, check=True)
    # No kind is one that the schema knows, so each record has a problem: one.
    assert [line for _, line, _, _ in places(caught.value)] == list(range(2, 104))


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
@pytest.mark.parametrize("start", ["", "\n", "\r\n \n", ",,\r"])
def test_lines_end_in_three_ways_and_blank_ones_may_come_first(graph: Graph, start: str, end: str) -> None:
    write("people.csv", start + end.join(["name,age", "ann,4", "", '"bob', 'by",5', "eve,x", ""]))
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"})
    first = start.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
    assert [(line, name) for _, line, name, _ in places(caught.value)] == [(first + 5, "age")]
    result = graph.load(nodes={"Person": "people.csv"}, on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"Person": 2}, 1)
    assert {name: row["age"] for name, row in people(graph).items()} == {"ann": 4, f"bob{end}by": 5}


@pytest.mark.parametrize("text", ["\n", "\r\r", ",\n,\n"])
@pytest.mark.parametrize("header", [True, False])
def test_a_file_of_blank_lines_has_no_rows(graph: Graph, text: str, header: bool) -> None:
    result = graph.load(nodes={"Person": write("a.csv", text)}, options={"header": header})
    assert (result.nodes, result.rejected) == ({"Person": 0}, 0)


def test_spaces_around_a_key_belong_to_it(graph: Graph) -> None:
    graph.load(nodes={"Person": write("a.csv", 'name,age\n ann ,1\nann,2\n" ann",3\n')})
    assert {name: row["age"] for name, row in people(graph).items()} == {" ann ": 1, "ann": 2, " ann": 3}


@pytest.mark.parametrize("other", ["quote", "escape"])
def test_a_separator_has_no_other_meaning(graph: Graph, other: str) -> None:
    with pytest.raises(ParameterError, match=f"option 'sep': ';' is also the option {other}"):
        graph.load(nodes={"Person": write("a.csv", "name\n")}, options={"sep": ";", other: ";"})


def test_without_a_header_the_first_good_record_tells_the_columns(graph: Graph) -> None:
    write("a.csv", '"a"x,1\n\nann,4\n')
    columns = {"Person": {"name": "_c0", "age": "_c1"}}
    options = {"header": False}
    result = graph.load(nodes={"Person": "a.csv"}, columns=columns, options=options, on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"Person": 1}, 1)
    with pytest.raises(ValidationError, match="a quote is not closed"):
        graph.load(nodes={"Person": write("b.csv", '"a\n')}, options=options)


def test_a_quote_may_be_named_as_its_own_escape(graph: Graph) -> None:
    write("a.csv", 'name,age\n"a ""b""",1\n"c",2\n')
    graph.load(nodes={"Person": "a.csv"}, options={"escape": '"'})
    assert set(people(graph)) == {'a "b"', "c"}


def test_every_codec_of_python_reads_a_file_or_is_refused(graph: Graph) -> None:
    write("a.csv", "name,age\nann,4\n")
    readable: set[str] = set()
    for name in sorted({*encodings.aliases.aliases.values(), "undefined", "idna", "punycode"}):
        try:
            assert graph.load(nodes={"Person": "a.csv"}, options={"encoding": name}, check=True).nodes == {"Person": 1}
            readable.add(name)
        except ParameterError as error:
            assert "option 'encoding'" in str(error) or "a.csv" in str(error), name  # noqa: PT017  either is right
    assert readable >= {"ascii", "utf_8", "latin_1", "cp1252", "shift_jis"}
    with pytest.raises(ParameterError, match="'rot13' is not an encoding"):
        graph.load(nodes={"Person": "a.csv"}, options={"encoding": "rot13"})


# --------------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_rows_and_lines_do_not_depend_on_where_blocks_end(
    graph: Graph, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", size)
    text = 'name,age\n"a\n1",1\n5" pipe,2\n"b ""quoted""\r\n\r\n",3\nwrong\n,\nc,x\n"d",4'
    write("people.csv", text)
    with pytest.raises(ValidationError) as caught:
        graph.load(nodes={"Person": "people.csv"})
    assert [(line, name) for _, line, name, _ in places(caught.value)] == [(8, None), (10, "age")]
    graph.load(nodes={"Person": "people.csv"}, on_error="quarantine")
    assert set(people(graph)) == {"a\n1", '5" pipe', 'b "quoted"\r\n\r\n', "d"}


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK_BYTES", 100)
    monkeypatch.setattr(record_splitter, "MAX_RECORD_BYTES", 1000)
    many = "".join(f"x{number},1\n" for number in range(1000))
    write("people.csv", 'name,age\nann,4\n"bob,5\n' + many)
    result = graph.load(nodes={"Person": "people.csv"}, on_error="quarantine")
    assert (result.nodes, result.rejected) == ({"Person": 1001}, 1)
    write("long.csv", "name,age\n" + "x" * 2000 + ",5\n")
    with pytest.raises(ParameterError, match=r"long\.csv has a record of more than .*xxx"):
        graph.load(nodes={"Person": "long.csv"})


def test_files_without_rows_or_columns_are_fine(graph: Graph) -> None:
    result = graph.load(nodes={"Person": [write("a.csv", ""), write("b.csv", "name,age\n"), write("c.jsonl", "\n")]})
    assert (result.nodes, result.commit) == ({"Person": 0}, None)
