"""``dataclass`` as in the standard library, except that a class costs little until its first instance is made.

The decorator of Python 3.11 compiles up to seven methods for each class, 0.4 ms for a frozen one, and a process imports
hundreds of classes before its first answer but uses only some. Here only the constructor is compiled, with the first
instance; the other methods are closures. What a class can do is the same: ``fields``, ``replace``, ``asdict``, pattern
matching, pickling. Only the options that this project uses are there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, TypeVar

Instance = TypeVar("Instance")


def _decorate(
    cls: type[Instance] | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
) -> Callable[[type[Instance]], type[Instance]] | type[Instance]:
    def decorate(given: type[Instance]) -> type[Instance]:
        return _add_methods(given, frozen=frozen, slots=slots, eq=eq)

    return decorate if cls is None else decorate(cls)


if TYPE_CHECKING:
    # The type checker knows every rule of the original.
    from dataclasses import dataclass as dataclass
else:
    dataclass = _decorate


def _add_methods(given: type[Instance], *, frozen: bool, slots: bool, eq: bool) -> type[Instance]:
    # Without a text of its own a class would get its signature as one, which takes longer than all the rest.
    given.__doc__ = given.__doc__ or given.__name__
    written_by_hand = set(given.__dict__)
    if given.__dict__.get("__hash__", MISSING) is None:
        # Python put it there, because the class has an __eq__.
        written_by_hand.discard("__hash__")
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(given)
    methods: dict[str, object] = {"__init__": _make_constructor(cls, frozen=frozen, slots=slots), "__repr__": _repr}
    if eq:
        methods["__eq__"] = _make_equality(cls)
        methods["__hash__"] = _make_hash(cls) if frozen else None
    if frozen:
        methods["__setattr__"], methods["__delattr__"] = _make_guards(cls)
    if frozen and slots:
        methods["__getstate__"], methods["__setstate__"] = _get_state, _set_state
    for name, method in methods.items():
        if name not in written_by_hand:
            setattr(cls, name, method)
    return cls


# ------------------------------------------------------------------------------------------------ the constructor


def _make_constructor(cls: type, *, frozen: bool, slots: bool) -> Callable[..., None]:
    """Return a constructor that is replaced by a compiled one when it is called."""

    def __init__(self: object, *arguments: object, **named: object) -> None:  # noqa: N807  a method of the class
        compiled = _compile_constructor(cls, frozen=frozen, slots=slots)
        type.__setattr__(cls, "__init__", compiled)
        compiled(self, *arguments, **named)

    return __init__


def _compile_constructor(cls: type, *, frozen: bool, slots: bool) -> Callable[..., None]:
    names: dict[str, object] = {"_missing": MISSING, "_set": object.__setattr__}
    positional: list[str] = []
    keyword_only: list[str] = []
    body: list[str] = []
    for each in fields(cls):
        if each.init:
            (keyword_only if each.kw_only else positional).append(each.name + _write_default(each, names))
        value = _write_value(each, names, slots=slots)
        if value is not None:
            body.append(_write_assignment(cls, each.name, value, names) if frozen else f"self.{each.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keyword_only] if keyword_only else [])])
    lines = "".join(f"\n    {line}" for line in body or ["pass"])
    # The text is made of the names of fields alone, as in the standard library.
    exec(f"def __init__({parameters}):{lines}", names)  # noqa: S102
    compiled: Any = names["__init__"]
    compiled.__qualname__ = f"{cls.__qualname__}.__init__"
    compiled.__module__ = cls.__module__
    return compiled


def _write_assignment(cls: type, name: str, value: str, names: dict[str, object]) -> str:
    """Write how a frozen instance gets a value; the descriptor of a slot takes half the time of the general way."""
    slot = getattr(cls, name, None)
    if not isinstance(slot, MemberDescriptorType):
        return f"_set(self, {name!r}, {value})"
    names[f"_set_{name}"] = slot.__set__
    return f"_set_{name}(self, {value})"


def _write_default(each: Field[object], names: dict[str, object]) -> str:
    if each.default is not MISSING:
        names[f"_default_{each.name}"] = each.default
        return f"=_default_{each.name}"
    return "" if each.default_factory is MISSING else "=_missing"


def _write_value(each: Field[object], names: dict[str, object], *, slots: bool) -> str | None:
    """Write the expression that a new instance has for a field, or none where the class has its value."""
    if each.default_factory is not MISSING:
        names[f"_make_{each.name}"] = each.default_factory
        made = f"_make_{each.name}()"
        return f"{made} if {each.name} is _missing else {each.name}" if each.init else made
    if each.init:
        return each.name
    if each.default is MISSING or not slots:
        return None
    names[f"_default_{each.name}"] = each.default
    return f"_default_{each.name}"


# ------------------------------------------------------------------------------------------------ the other methods


def _make_equality(cls: type) -> Callable[[object, object], bool]:
    values = _make_getter([each.name for each in fields(cls) if each.compare])

    def __eq__(self: object, other: object) -> bool:  # noqa: N807  a method of the class
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _make_hash(cls: type) -> Callable[[object], int]:
    values = _make_getter([each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)])

    def __hash__(self: object) -> int:  # noqa: N807  a method of the class
        return hash(values(self))

    return __hash__


def _make_getter(names: Sequence[str]) -> Callable[[object], tuple[object, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    # A getter of one name returns no tuple.
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _make_guards(cls: type) -> tuple[Callable[[Any, str, object], None], Callable[[Any, str], None]]:
    """Return what refuses to change an instance. A subclass may have attributes of its own."""
    frozen = frozenset(each.name for each in fields(cls))

    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807  a method of the class
        if type(self) is cls or name in frozen:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807  a method of the class
        if type(self) is cls or name in frozen:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _get_state(self: Any) -> list[object]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: Sequence[object]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
