"""The recipe to delete a person for good leaves no byte of her, and the steps before its last do."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from omnigraph.maintain.cleanup import cleanup
from tests.maintain.ports import AT_ONCE

SCHEMA = "node Person { name: String @key  note: String @index }\nedge Knows: Person -> Person { since: I32? }"
PEOPLE = 300
NOTE = "seen at pier {} only"


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_nothing_is_left_of_a_row_after_delete_overwrite_and_cleanup(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g.og", SCHEMA)
    people = [{"type": "Person", "data": {"name": f"p{n}", "note": NOTE.format(n)}} for n in range(PEOPLE)]
    knows = [{"edge": "Knows", "from": f"p{n}", "to": f"p{n - 1}", "data": {"since": n}} for n in range(1, PEOPLE)]
    graph.load([*people, *knows])
    graph.mutate('query forget() { delete Person where name = "p77" }')

    graph.optimize()
    cleanup(graph._manifest, 1, AT_ONCE, confirm=True, grace=AT_ONCE)
    assert files_with(tmp_path, NOTE.format(77)), "if this is empty, the recipe needs its second step no longer"

    rows, edges = graph.nodes("Person").to_arrow(), graph.edges("Knows").to_arrow()
    graph.load(nodes={"Person": rows}, edges={"Knows": edges}, mode="overwrite")
    graph.optimize()
    cleanup(graph._manifest, 1, AT_ONCE, confirm=True, grace=AT_ONCE)
    assert files_with(tmp_path, NOTE.format(77)) == []
    assert files_with(tmp_path, NOTE.format(78)) != []
    assert (graph.info().nodes["Person"], graph.info().edges["Knows"]) == (PEOPLE - 1, PEOPLE - 3)
    assert graph.verify().is_sound
