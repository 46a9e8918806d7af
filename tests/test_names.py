"""One name, one meaning. What is held here was found by reading ``python -m tests.names``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from typing import Final

from tests.names import Name, all_names, stem_of

COMMANDS: Final = "cli"
"""A command is called as it is typed: ``merge`` of the command line is ``merge`` of the graph."""
ON_EXECUTORS: Final = "spark"
"""Rooms of Spark use the words of the local rooms for the same job."""
NO_PARTICIPLES: Final = frozenset({"embed", "required"})
"""A verb that ends like one, and a word of declarations: a field of a record is required or optional."""


@cache
def names() -> tuple[Name, ...]:
    return tuple(all_names())


def homes_by_name(wanted: Iterable[Name]) -> dict[str, list[Name]]:
    found: defaultdict[str, list[Name]] = defaultdict(list)
    for each in wanted:
        found[each.name].append(each)
    return found


def test_a_class_has_its_name_alone() -> None:
    classes = homes_by_name(each for each in names() if each.kind == "class")
    twins = {name: [each.module for each in homes] for name, homes in classes.items() if len(homes) > 1}
    assert twins == {}


def test_a_public_function_has_its_name_alone() -> None:
    functions = homes_by_name(
        each for each in names() if each.kind == "function" and each.is_public and each.floor != COMMANDS
    )
    twins = {
        name: [each.module for each in homes]
        for name, homes in functions.items()
        if len([each for each in homes if each.floor != ON_EXECUTORS]) > 1
        or len([each for each in homes if each.floor == ON_EXECUTORS]) > 1
    }
    assert twins == {}


def test_modules_of_a_floor_differ_by_more_than_an_ending() -> None:
    floors: defaultdict[str, set[str]] = defaultdict(set)
    for each in names():
        if each.kind == "module":
            floors[each.floor].add(each.name)
    pairs = [
        (floor, one, other)
        for floor, modules in floors.items()
        for one, other in combinations(sorted(modules), 2)
        if stem_of(one) == stem_of(other)
    ]
    assert pairs == []


def test_functions_are_verbs_and_no_participles() -> None:
    participles = [
        f"{each.module}.{each.name}"
        for each in names()
        if each.kind == "function"
        for word in [each.name.lstrip("_")]
        if word.endswith(("ed", "ing")) and "_" not in word and word not in NO_PARTICIPLES
    ]
    assert participles == []
