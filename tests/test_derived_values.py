"""What is derived from an object is kept for that very object, and for a bounded number of them."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.derived_values import keep_derived


@dataclass(frozen=True)
class Thing:
    name: str


def test_a_value_is_derived_once_for_each_object_and_never_for_an_equal_one() -> None:
    derived: list[Thing] = []

    @keep_derived(2)
    def derive(thing: Thing) -> str:
        derived.append(thing)
        return thing.name

    one, equal, other = Thing("one"), Thing("one"), Thing("other")
    assert [derive(each) for each in (one, one, equal, one)] == ["one"] * 4
    assert [each is one for each in derived] == [True, False]
    assert derive(other) == "other"
    # The two that were kept made room.
    assert derive(one) == "one"
    assert len(derived) == 4
