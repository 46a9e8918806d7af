"""Resolution files: written by a dry run, filled in, read again; and files that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
import yaml

from omnigraph.errors import MergeConflicts, NotFound, ParameterError, ValidationError
from omnigraph.graph import Graph
from omnigraph.write.merge.resolution_file import read_resolution, write_resolution
from omnigraph.write.merge.three_way import MergeBy
from tests.graphs import written
from tests.write.merge.social_graph import edit, knows, make, person, state


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two sides that conflict in two people and an edge."""
    people = {name: person(30) for name in ("ann", "bob", "cid")}
    graph = make(tmp_path, people, {"a-b": knows("ann", "bob", 1)})
    graph.create_branch("dev")
    edit(graph, "dev", people={"ann": person(31), "bob": person(31)}, knows={"a-b": knows("ann", "bob", 2)})
    edit(graph, people={"ann": person(32), "bob": person(32)}, knows={"a-b": None})
    return graph


def dry_run(graph: Graph, path: Path, by: MergeBy = "row", known: Path | None = None) -> Path:
    """Return the file of a dry run."""
    found = graph.merge("dev", by=by, dry_run=True, resolve=known)
    with path.open("w") as file:
        known_already = None if known is None else read_resolution(known)
        write_resolution(file, graph.uri, found.source, found.target, by, found.conflicts, known_already)
    return path


def decided(path: Path, choices: Mapping[str, object]) -> Path:
    """Return the same file, filled in by id."""
    found = cast("dict[str, list[dict[str, object]]]", yaml.safe_load(path.read_text()))
    for entry in found["conflicts"]:
        if entry["id"] in choices:
            entry["choose"] = choices[str(entry["id"])]
    path.write_text(yaml.safe_dump(found, sort_keys=False))
    return path


def wrong(graph: Graph, path: Path | Mapping[str, object]) -> list[tuple[int | None, str]]:
    """Return the problems of a file with their lines; nothing is written."""
    before = written(graph)
    with pytest.raises(ValidationError) as raised:
        graph.merge("dev", resolve=path)
    assert written(graph) == before
    if isinstance(path, Path):
        assert {each.file for each in raised.value.violations} == {str(path)}
    return [(each.line, each.message) for each in raised.value.violations]


def test_a_dry_run_writes_a_file_that_decides_the_merge(graph: Graph, tmp_path: Path) -> None:
    path = dry_run(graph, tmp_path / "june.yaml")
    text = path.read_text()
    assert "choose: null" in text
    assert "both sides changed 'age' of Person 'ann'" in text
    decided(path, {"ann": "theirs", "bob": {"age": 99}, "a-b": "theirs"})
    result = graph.merge("dev", resolve=path)
    assert result.commit is not None
    assert result.commit.parents[1] == result.source
    assert state(graph) == {
        ("Person", "ann"): person(31),
        ("Person", "bob"): person(99),
        ("Person", "cid"): person(30),
        ("Knows", "a-b"): knows("ann", "bob", 2),
    }


def test_json_will_do(graph: Graph, tmp_path: Path) -> None:
    entries = [
        '{"kind": "DivergentUpdate", "type": "Person", "id": "ann", "choose": "ours"}',
        '{"kind": "DivergentUpdate", "type": "Person", "id": "bob", "choose": {"age": null, "mail": "b@x"}}',
        '{"kind": "DeleteVsUpdate", "type": "Knows", "id": "a-b", "choose": {"since": 5, "to": "cid"}}',
    ]
    head = f'"source": "{graph.commits("dev")[0].id}", "target": "{graph.commits()[0].id}"'
    path = tmp_path / "june.json"
    path.write_text(f'{{{head}, "conflicts": [{", ".join(entries)}]}}')
    graph.merge("dev", resolve=str(path))
    assert state(graph)["Person", "bob"] == person(None, "b@x")
    assert state(graph)["Knows", "a-b"] == knows("ann", "cid", 5)


def test_the_rest_goes_to_the_preferred_side(graph: Graph, tmp_path: Path) -> None:
    path = decided(dry_run(graph, tmp_path / "june.yaml"), {"bob": "theirs"})
    graph.merge("dev", resolve=path, prefer="ours")
    assert state(graph)["Person", "ann"] == person(32)
    assert state(graph)["Person", "bob"] == person(31)
    assert ("Knows", "a-b") not in state(graph)


def test_an_undecided_entry_is_reported_with_its_line(graph: Graph, tmp_path: Path) -> None:
    path = decided(dry_run(graph, tmp_path / "june.yaml"), {"bob": "ours"})
    lines = path.read_text().splitlines()
    at = [number for number, line in enumerate(lines, 1) if line.startswith("- kind:")]
    assert wrong(graph, path) == [
        (at[0], "it is undecided: ours deleted Knows 'a-b', theirs changed it"),
        (at[1], "it is undecided: both sides changed 'age' of Person 'ann'"),
    ]
    # A dry run accepts it and keeps the decisions.
    again = dry_run(graph, tmp_path / "again.yaml", known=path)
    assert wrong(graph, again)
    decided(again, {"ann": "ours", "a-b": "ours"})
    before = state(graph)
    graph.merge("dev", resolve=again)
    assert state(graph) == before


def test_a_stale_file_is_refused(graph: Graph, tmp_path: Path) -> None:
    path = decided(dry_run(graph, tmp_path / "june.yaml"), {"ann": "ours", "bob": "ours", "a-b": "ours"})
    edit(graph, "dev", people={"cid": person(1)})
    with pytest.raises(ParameterError, match="is stale: it was written for source"):
        graph.merge("dev", resolve=path)
    path = decided(dry_run(graph, tmp_path / "july.yaml"), {"ann": "ours", "bob": "ours", "a-b": "ours"})
    edit(graph, people={"cid": person(2)})
    with pytest.raises(ParameterError, match="is stale: it was written for target"):
        graph.merge("dev", resolve=path)
    with pytest.raises(ParameterError, match="was written for a merge by row, not by property"):
        graph.merge("dev", by="property", resolve=path)


def test_a_choice_that_another_one_makes_needless_is_fine(tmp_path: Path) -> None:
    graph = make(tmp_path, {"ann": person(1), "bob": person(1)})
    graph.create_branch("dev")
    edit(graph, "dev", people={"bob": person(2)}, knows={"a-b": knows("ann", "bob")})
    edit(graph, people={"bob": None})
    path = dry_run(graph, tmp_path / "june.yaml")
    # With the person, the end of the edge exists again.
    decided(path, {"bob": "theirs", "a-b": "theirs"})
    graph.merge("dev", resolve=path)
    assert state(graph) == state(graph, "dev")


def test_new_conflicts_that_follow_from_the_choices_are_reported(graph: Graph) -> None:
    edit(graph, people={"cid": person(30, "post@x")})
    choices = {"ann": "ours", "bob": {"age": 1, "mail": "post@x"}, "a-b": "ours"}
    entries = [
        {"kind": kind, "type": type_, "id": id_, "choose": choices[id_]}
        for kind, type_, id_ in (
            ("DivergentUpdate", "Person", "ann"),
            ("DivergentUpdate", "Person", "bob"),
            ("DeleteVsUpdate", "Knows", "a-b"),
        )
    ]
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev", resolve={"conflicts": entries})
    assert [found.kind for found in raised.value.conflicts] == ["UniqueViolation"]


def test_all_problems_are_reported_at_once(graph: Graph, tmp_path: Path) -> None:
    head = f"source: {graph.commits('dev')[0].id}\ntarget: {graph.commits()[0].id}\n"
    path = tmp_path / "june.yaml"
    path.write_text(
        head
        + """conflicts:
- {kind: DivergentUpdate, type: Person, id: ann, choose: {age: many}}
- {kind: DivergentUpdate, type: Person, id: bob, choose: {agee: 3, name: bert}}
- {kind: DeleteVsUpdate, type: Knows, id: a-b, choose: mine}
- {kind: DivergentUpdate, type: Person, id: eve, choose: ours}
"""
    )
    told = "\n".join(f"{line}: {message}" for line, message in wrong(graph, path))
    for text in (
        "4: 'age': expected I32?, found",
        "5: 'age' is in conflict, but no value is given",
        "5: Person has no property 'agee': did you mean 'age'?",
        "5: 'name' is the key of Person and cannot be changed",
        "6: choose is 'mine'; it may be ours, theirs, or values by property",
        "7: there is no such conflict: DivergentUpdate of Person 'eve'",
    ):
        assert text in told


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("conflicts: [", 1, "expected the node content"),
        ("- a list", 1, "it is not a mapping"),
        ("conflicts: 3", 1, "'conflicts' must be a list"),
        ("conflict: []", 1, "unknown key 'conflict': did you mean 'conflicts'?"),
        ("conflicts:\n- 3", None, "conflict 1 is not a mapping"),
        ("conflicts:\n- {kind: x, type: y}", 2, "conflict 1 has no id"),
        ("conflicts:\n- {kind: x, type: y, id: z}", 2, "conflict 1 has no 'choose'"),
        ("a: &x 1\nconflicts: [*x]", 2, "an alias cannot be used here"),
        ("conflicts: []", 1, "'source' is missing"),
        (
            "conflicts:\n- &a {kind: x, type: y, id: z, choose: ours}\n- {kind: x, type: y, id: z, choose: ours}",
            3,
            "conflict 2 is listed twice",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(
    graph: Graph, tmp_path: Path, text: str, line: int | None, message: str
) -> None:
    path = tmp_path / "june.yaml"
    path.write_text(text)
    assert any(found == line and message in said for found, said in wrong(graph, path))


def test_a_missing_file_is_reported(graph: Graph) -> None:
    with pytest.raises(NotFound, match=r"no such file: nowhere\.yaml"):
        graph.merge("dev", resolve="nowhere.yaml")
