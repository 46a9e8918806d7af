"""Our ``dataclass`` makes the classes that the one of the standard library makes; only its constructor comes later."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass as standard
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final, Generic, TypeVar

import pytest

from omnigraph import lazy_dataclass

SOURCES: Final = Path(lazy_dataclass.__file__).parent
Decorator = Callable[..., Any]
Item = TypeVar("Item")


def define(dataclass: Decorator, module: str) -> dict[str, type]:
    """The same classes by one decorator or the other, where pickle finds them."""

    @dataclass
    class Plain:
        """Can be changed, so it has no hash."""

        name: str
        values: list[int] = field(default_factory=list[int])

    @dataclass(slots=True)
    class Slots:
        name: str
        count: int = 0
        total: int = field(default=7, init=False)
        made: list[int] = field(default_factory=list[int], init=False, repr=False)

    @dataclass(frozen=True)
    class Frozen:
        kind: ClassVar[str] = "frozen"
        name: str
        seen: bool = field(default=False, compare=False, repr=False)

        @cached_property
        def length(self) -> int:
            return len(self.name)

    @dataclass(frozen=True, slots=True)
    class FrozenSlots:
        name: str
        other: object = None
        hidden: int = field(default=1, hash=False)
        keyword: str = field(default="k", kw_only=True)
        made: tuple[int, ...] = field(default_factory=tuple[int, ...])

    @dataclass(frozen=True, slots=True)
    class Child(FrozenSlots):
        name: str = "child"
        last: float = 0.5

    @dataclass(frozen=True, slots=True, eq=False)
    class Identity:
        name: str

    @dataclass(frozen=True, slots=True)
    class Empty: ...

    @dataclass(frozen=True, slots=True)
    class OneField(Generic[Item]):
        item: Item

    @dataclass(frozen=True, slots=True)
    class Checked:
        count: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            if self.count < 0:
                raise ValueError("negative")
            object.__setattr__(self, "twice", 2 * self.count)

    @dataclass(frozen=True, slots=True)
    class ByHand:
        name: str

        def __init__(self, name: str) -> None:
            object.__setattr__(self, "name", name.upper())

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, self.__class__) and str(other) == str(self)

        def __hash__(self) -> int:
            return 3

    @dataclass(frozen=True, slots=True)
    class OwnEquality:
        """The hash of such a class is that of its fields."""

        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality)

    class Extended(Frozen):
        """A subclass that is no dataclass may have attributes of its own."""

        def __init__(self, name: str) -> None:
            super().__init__(name)
            self.extra = len(name)

    assert Extended("ab").extra == 2
    classes = {name: value for name, value in locals().items() if isinstance(value, type)}
    found = ModuleType(module)
    sys.modules[module] = found
    for name, value in classes.items():
        value.__module__, value.__qualname__ = module, name
        setattr(found, name, value)
    return classes


STANDARD: Final = define(standard, "classes_of_the_standard_library")
OURS: Final = define(lazy_dataclass.dataclass, "classes_of_ours")
ARGUMENTS: Final[list[tuple[str, tuple[object, ...], dict[str, object]]]] = [
    ("Plain", ("a",), {}),
    ("Plain", ("a", [1]), {}),
    ("Plain", (), {}),
    ("Slots", ("a", 3), {}),
    ("Slots", ("a", 3, 4), {}),
    ("Frozen", ("a",), {"seen": True}),
    ("Frozen", ("a",), {}),
    ("FrozenSlots", ("a",), {}),
    ("FrozenSlots", ("a", [1], 2), {"keyword": "x"}),
    ("FrozenSlots", ("a", [1], 2, (3,), "x"), {}),
    ("FrozenSlots", ("a",), {"made": (1,), "unknown": 2}),
    ("FrozenSlots", ("a",), {"name": "b"}),
    ("Child", (), {}),
    ("Child", ("a",), {"last": 1.0, "hidden": 3}),
    ("Identity", ("a",), {}),
    ("Empty", (), {}),
    ("Empty", (1,), {}),
    ("OneField", (float("nan"),), {}),
    ("OneField", ((1, 2),), {}),
    ("Checked", (3,), {}),
    ("Checked", (-3,), {}),
    ("ByHand", ("abc",), {}),
    ("OwnEquality", ("abc",), {}),
    ("Extended", ("abc",), {}),
]


def describe(attempt: Callable[[], object]) -> object:
    """A value, or the error that came instead."""
    try:
        return attempt()
    except Exception as error:  # noqa: BLE001  the error is what is compared
        # The constructor of the standard library was named before its class got a module.
        return type(error), str(error).replace("define.<locals>.", "")


def observe(cls: type, arguments: tuple[object, ...], named: dict[str, object]) -> list[object]:
    """Everything that a user of a class can see of an instance, without the class itself."""
    made: Any = describe(lambda: cls(*arguments, **named))
    if isinstance(made, tuple):
        return [made]
    again: Any = cls(*arguments, **named)
    names = [each.name for each in dataclasses.fields(made)]
    seen: list[object] = [
        repr(made),
        made == again,
        made == "something else",
        made != again,
        describe(lambda: hash(made) == hash(again)),
        describe(lambda: dataclasses.asdict(made)),
        [describe(partial(setattr, made, name, getattr(made, name))) for name in names],
        # Of the standard library a frozen class with slots says something else: the guard has the class without them.
        describe(lambda: setattr(made, "unknown", 1)) is None,
        [describe(partial(delattr, again, name)) for name in names],
        [describe(partial(dataclasses.replace, made, **{name: 5})) == made for name in names],
        [repr(describe(partial(dataclasses.replace, made, **{name: 5}))) for name in names],
        hasattr(made, "__dict__"),
        hasattr(made, "__weakref__"),
    ]
    fresh: Any = cls(*arguments, **named)
    return [*seen, repr(copy.copy(fresh)), repr(copy.deepcopy(fresh)), repr(pickle.loads(pickle.dumps(fresh)))]  # noqa: S301  made here


@pytest.mark.parametrize(("name", "arguments", "named"), ARGUMENTS)
def test_an_instance_is_as_one_of_the_standard_library(
    name: str, arguments: tuple[object, ...], named: dict[str, object]
) -> None:
    assert observe(OURS[name], arguments, named) == observe(STANDARD[name], arguments, named)


@pytest.mark.parametrize("name", OURS)
def test_a_class_says_the_same_of_itself(name: str) -> None:
    ours, others = OURS[name], STANDARD[name]

    def describe_fields(cls: Any) -> list[object]:
        return [(each.name, each.type, each.init, each.compare, each.kw_only) for each in dataclasses.fields(cls)]

    assert describe_fields(ours) == describe_fields(others)
    assert vars(ours).get("__match_args__") == vars(others).get("__match_args__")
    assert vars(ours).get("__slots__") == vars(others).get("__slots__")
    assert (ours.__hash__ is None) == (others.__hash__ is None)
    assert vars(ours)["__doc__"]


def test_different_values_are_different_in_every_field() -> None:
    for cls in (OURS["FrozenSlots"], STANDARD["FrozenSlots"]):
        one = cls("a", 1)
        assert [one == cls("a", 1), one == cls("b", 1), one == cls("a", 2), one == cls("a", 1, 2)] == [1, 0, 0, 0]
        assert len({one, cls("a", 1), cls("b", 1), cls("a", 1, 2)}) == 3
        assert hash(one) == hash(cls("a", 1, 2))  # the field that is hidden from hashes


def test_a_value_that_contains_itself_can_be_shown() -> None:
    for cls in (OURS["Plain"], STANDARD["Plain"]):
        one = cls("a")
        one.values.append(one)
        assert repr(one) == "Plain(name='a', values=[...])"


def test_a_constructor_is_compiled_with_the_first_instance_of_its_own_class() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Base:
        name: str

    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Derived(Base):
        count: int = 0

    def is_compiled(cls: type) -> bool:
        return "name" in cls.__init__.__code__.co_varnames

    assert [is_compiled(Base), is_compiled(Derived)] == [False, False]
    assert Derived("a").count == 0
    assert [is_compiled(Base), is_compiled(Derived)] == [False, True]
    assert (Base("b").name, Derived("c", 2).count) == ("b", 2)
    assert [is_compiled(Base), is_compiled(Derived)] == [True, True]


def test_nothing_in_the_package_uses_the_slow_one() -> None:
    original = re.compile(r"^\s*from dataclasses import .*\bdataclass\b|dataclasses\.dataclass\(", re.MULTILINE)
    users = [path.name for path in SOURCES.rglob("*.py") if original.search(path.read_text())]
    assert users == ["lazy_dataclass.py"]
