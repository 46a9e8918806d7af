"""Pictures: whole XML whatever the names are, the same for the same facts, and nothing on top of something else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.draw import (
    DiffEdge,
    DiffMark,
    DiffNode,
    HistoryEntry,
    LaneEvent,
    TypeArrow,
    TypeBox,
    TypeField,
    assign_lanes,
    draw_diff,
    draw_history,
    draw_schema,
)
from omnigraph.draw.layers import place_in_layers
from omnigraph.draw.svg import width_of
from tests.selection import sized

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '</text><script>alert("1")</script>\x00\x08\ud800\u202e&amp; ]]> \'"\n'
ALLOWED = {"svg", "title", "rect", "text", "g", "path", "circle", "polygon", "line"}


def elements_of(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter())  # noqa: S314  the text is ours


def rectangles_of(svg: str) -> list[tuple[float, float, float, float]]:
    boxes = [
        [child for child in group if child.tag == f"{SVG}rect"][:1]
        for group in elements_of(svg)
        if group.tag == f"{SVG}g"
    ]
    return [tuple(float(box[0].attrib[key]) for key in ("x", "y", "width", "height")) for box in boxes if box]  # pyright: ignore[reportReturnType]


def history(*links: tuple[str, str]) -> list[HistoryEntry]:
    """Commits as (id, parents by letter), newest first."""
    return [HistoryEntry(name, tuple(parents), "2026-05-01 10:00") for name, parents in links]


def drawn_with(text: str) -> Sequence[str]:
    boxes = [TypeBox(text, (TypeField(text, text, text),), 3), TypeBox("Other", ())]
    arrows = [TypeArrow(text, text, "Other", 1), TypeArrow(text, text, text), TypeArrow("back", "Other", text)]
    nodes = [DiffNode(text, text, mark, text) for mark in DiffMark]
    edges = [DiffEdge(text, (text, text), ("Other", text), mark, text) for mark in DiffMark]
    entry = HistoryEntry(text, (), text, text, text, (text,))
    return draw_schema(boxes, arrows), draw_diff(nodes, edges), draw_history([entry])


@given(st.just(HOSTILE) | st.text(min_size=1))
@settings(max_examples=sized(8, 300))
def test_any_name_is_only_ever_text(text: str) -> None:
    for svg in drawn_with(text):
        assert {element.tag.removeprefix(SVG) for element in elements_of(svg)} <= ALLOWED
        assert not any(name.startswith("on") or name == "href" for each in elements_of(svg) for name in each.attrib)


def test_equal_facts_give_equal_pictures() -> None:
    assert drawn_with("Trial") == drawn_with("Trial")


def test_nothing_at_all_can_be_drawn() -> None:
    for svg in (draw_schema([], []), draw_diff([], []), draw_history([])):
        assert re.search("no (node types|changes|commits)", svg)


@pytest.mark.parametrize("types", [1, 2, 7, 40])
def test_boxes_of_a_schema_do_not_overlap(types: int) -> None:
    boxes = [TypeBox(f"Type{n}", tuple(TypeField(f"p{m}", "String") for m in range(n % 15))) for n in range(types)]
    arrows = [
        TypeArrow(f"E{n}_{m}", f"Type{n}", f"Type{(n * 3 + m) % types}") for n in range(types) for m in range(n % 3)
    ]
    placed = rectangles_of(draw_schema(boxes, arrows))
    assert len(placed) == types
    for (x, y, width, height), (x2, y2, width2, height2) in combinations(placed, 2):
        assert x + width <= x2 or x2 + width2 <= x or y + height <= y2 or y2 + height2 <= y


def test_more_properties_than_fit_are_counted() -> None:
    svg = draw_schema([TypeBox("Wide", tuple(TypeField(f"p{n}", "String") for n in range(30)))], [])
    assert "and 18 more" in svg
    assert "p12" not in svg


@given(st.data())
@settings(max_examples=sized(20, 1000))
def test_arrows_run_to_the_right_but_for_those_that_close_a_cycle(data: st.DataObject) -> None:
    boxes = data.draw(st.integers(1, 8))
    box = st.integers(0, boxes - 1)
    arrows = data.draw(st.lists(st.tuples(box, box).filter(lambda ends: ends[0] != ends[1]), max_size=16))
    places = place_in_layers(boxes, arrows)
    column_of = {slot: number for number, column in enumerate(places.columns) for slot in column}
    assert sorted(slot for slot in column_of if slot < boxes) == list(range(boxes))
    for each, (arrow, route) in enumerate(zip(arrows, places.routes, strict=True)):
        assert (route[-1], route[0]) == arrow if each in places.reversed_arrows else (route[0], route[-1]) == arrow
        assert [column_of[slot] for slot in route] == list(range(column_of[route[0]], column_of[route[-1]] + 1))


def test_a_merge_opens_a_lane_that_joins_again() -> None:
    commits = history(("d", "cb"), ("c", "a"), ("b", "a"), ("a", ""))
    events = [(step.event, step.lane, step.other, step.commit.id) for step in assign_lanes(commits)]
    assert events == [
        (LaneEvent.COMMIT, 0, 0, "d"),
        (LaneEvent.OPEN, 0, 1, "d"),
        (LaneEvent.COMMIT, 0, 0, "c"),
        (LaneEvent.COMMIT, 1, 1, "b"),
        (LaneEvent.JOIN, 0, 1, "a"),
        (LaneEvent.COMMIT, 0, 0, "a"),
    ]


def test_every_commit_and_every_link_is_drawn() -> None:
    commits = history(("e", "dx"), ("d", "cb"), ("c", "a"), ("b", "a"), ("a", "z"))
    found = elements_of(draw_history(commits))
    assert sum(each.tag == f"{SVG}circle" for each in found) == 5
    links = [each for each in found if each.tag == f"{SVG}path"]
    # x was merged from a branch that is gone; z is further down than what is drawn.
    assert len(links) == 6
    assert sum("stroke-dasharray" in each.attrib for each in links) == 1


def test_an_unchanged_end_of_a_changed_edge_is_drawn_faded() -> None:
    svg = draw_diff([], [DiffEdge("Cites", ("Paper", "a"), ("Paper", "b"), DiffMark.INSERTED)])
    titles = [each.text for each in elements_of(svg) if each.tag == f"{SVG}title"]
    assert "unchanged: Paper a" in titles
    assert "unchanged: Paper b" in titles
    assert "+ came: 0 nodes, 1 edge" in "".join(ElementTree.fromstring(svg).itertext())  # noqa: S314  the text is ours


def test_unconnected_nodes_stand_side_by_side() -> None:
    svg = draw_diff([DiffNode("T", f"t{n}", DiffMark.UPDATED) for n in range(30)], [])
    circles = [(each.attrib["cx"], each.attrib["cy"]) for each in elements_of(svg) if each.tag == f"{SVG}circle"]
    assert len(set(circles)) == 30


def test_long_names_of_a_diff_keep_apart() -> None:
    nodes = [DiffNode("Person", f"a name that is very long {n}", DiffMark.INSERTED) for n in range(8)]
    ends = [("Person", node.id) for node in nodes]
    edges = [
        DiffEdge("Knows", ends[0], ends[1], DiffMark.INSERTED),
        DiffEdge("Knows", ends[2], ends[3], DiffMark.UPDATED),
    ]
    texts = [each for each in elements_of(draw_diff(nodes, edges)) if each.tag == f"{SVG}text"]
    boxes: list[tuple[float, float, float]] = []
    for each in texts:
        if (each.text or "").startswith(("a name", "+ Knows", "~ Knows")):
            half = width_of(each.text or "", float(each.attrib["font-size"])) / 2
            boxes.append((float(each.attrib["x"]) - half, float(each.attrib["x"]) + half, float(each.attrib["y"])))
    assert len(boxes) >= len(nodes)
    for (left, right, down), (other_left, other_right, other_down) in combinations(boxes, 2):
        assert right <= other_left or other_right <= left or abs(down - other_down) >= 9
