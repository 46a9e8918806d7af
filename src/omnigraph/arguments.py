"""Check the arguments of public calls against their annotations, before a call reads or writes anything.

Without it a wrong type is found late, as an error of Python or of another library, or never: it is stored. Which values
of the right type are allowed is decided where they are used.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property, wraps
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Final, Literal, ParamSpec, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)
_Annotation: TypeAlias = object
_Check: TypeAlias = Callable[[object], bool]

_WORDS: Final[Mapping[object, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    Path: "a Path",
    datetime: "a datetime",
    timedelta: "a timedelta",
}
_TEXTS: Final = "a list of texts"
_LISTS: Final = (Iterable, Sequence, Collection)
_CONTAINERS: Final = (*_LISTS, Mapping, tuple)
_MAPPINGS: Final = (dict, Mapping)
"""To recognize a dict takes less time than to ask the abstract class."""
_NUMBERS: Final[frozenset[object]] = frozenset({int, float})


def check_arguments(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Make a function refuse arguments that its annotations do not allow, with ``ParameterError``."""
    expected = _ExpectedArguments(cast(FunctionType, function))

    @wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        expected.refuse_wrong(args, kwargs)
        return function(*args, **kwargs)

    return call


def parse_txn(text: str) -> tuple[str, int]:
    """Parse ``APP:N``, the form in which texts name a transaction of an application."""
    app, _, number = text.rpartition(":")
    if not (app and number.isascii() and number.isdigit()):
        raise ParameterError(f"txn is '{text}'", hint="give APP:N, such as nightly:17")
    return app, int(number)


def check_text(name: str, text: str | None) -> None:
    """Refuse a text that cannot be stored, because it is not valid Unicode."""
    try:
        (text or "").encode()
    except UnicodeEncodeError as error:
        raise ParameterError(
            f"{name} is {reprlib.repr(text)}: it holds half of a surrogate pair", hint="give the whole character"
        ) from error


def check_path(name: str, path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can have: empty, with a zero byte, or not in the encoding of file names."""
    text = os.fspath(path)
    try:
        is_possible = bool(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_possible = False
    if not is_possible:
        raise ParameterError(f"{name} is {reprlib.repr(text)}, which no file can be called", hint="give another path")


def check_calls(class_: Class) -> Class:
    """Make every public method of a class refuse arguments that its annotations do not allow."""
    for name, member in list(vars(class_).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(class_, name, check_arguments(member))
    return class_


@dataclass(frozen=True)
class _ExpectedArguments:
    """The annotations of a function. Each is evaluated when a call first gives its argument.

    An annotation may name a class of a room that most calls do not need: to evaluate it imports the room.
    """

    function: FunctionType
    _annotations: dict[str, _Annotation] = field(default_factory=dict[str, _Annotation])
    _checks: dict[str, _Check] = field(default_factory=dict[str, _Check])

    def refuse_wrong(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise ``ParameterError`` for the first wrong argument. Python itself refuses unknown and missing ones."""
        for name, value in (*zip(self._positional, args, strict=False), *kwargs.items()):
            if value is None and name in self._none_by_default:
                continue
            check = self._checks.get(name) or self._make_check(name)
            if not check(value):
                raise _make_error(self.function.__name__, name, value, self._annotations[name])

    def _make_check(self, name: str) -> _Check:
        annotation = self._evaluate(self._texts.get(name, object))
        self._annotations[name] = annotation
        # Last, since another thread may use it at once.
        self._checks[name] = check = _make_check(annotation)
        return check

    @cached_property
    def _texts(self) -> dict[str, object]:
        return inspect.get_annotations(self.function)

    @cached_property
    def _positional(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.function).parameters)

    @cached_property
    def _none_by_default(self) -> frozenset[str]:
        found = inspect.signature(self.function).parameters.values()
        return frozenset(each.name for each in found if each.default is None)

    def _evaluate(self, annotation: object) -> _Annotation:
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self._globals)  # noqa: S307  our own annotations
        except NameError:
            # Only the type checker imports it: its own library checks the value.
            return object

    @property
    def _globals(self) -> dict[str, object]:
        return cast("dict[str, object]", getattr(self.function, "__globals__"))  # noqa: B009  unknown to the stubs


def _make_error(function: str, name: str, value: object, annotation: _Annotation) -> ParameterError:
    expected = list(dict.fromkeys(_describe(annotation)))
    is_one_text = isinstance(value, str) and _TEXTS in expected
    hint = f"a list, such as [{value!r}]" if is_one_text else _join_words(expected)
    return ParameterError(
        f"{name} is {reprlib.repr(value)}", hint=f"give {hint}", details={"function": function, "parameter": name}
    )


def _join_words(words: Sequence[str]) -> str:
    return " or ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), words[-1]])


def _describe(annotation: _Annotation) -> Iterator[str]:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        for part in parts:
            yield from _describe(part)
    elif origin is Literal:
        yield from (f'"{value}"' for value in parts)
    elif origin is Mapping:
        yield "a mapping with texts as keys"
    elif origin in _LISTS:
        yield _TEXTS if parts[0] is str else "a list"
    elif origin is tuple:
        yield f"a tuple of {' and '.join(word for part in parts for word in _describe(part))}"
    else:
        yield _WORDS.get(annotation, f"a {getattr(annotation, '__name__', annotation)}")


# --------------------------------------------------------------------------------------------- checks


def _make_check(annotation: _Annotation) -> _Check:
    """Return a function that says whether a value is allowed."""
    parts = _list_parts(annotation)
    classes = tuple(cast(type, part) for part in parts if _is_class(part))
    others = [_make_part_check(part) for part in parts if not _is_class(part)]
    if any(getattr(part, "_is_protocol", False) for part in parts):
        # Whoever uses such a value knows best what is missing.
        return lambda _: True
    if not others:
        return lambda value: isinstance(value, classes)
    return lambda value: isinstance(value, classes) or any(check(value) for check in others)


def _is_class(part: _Annotation) -> bool:
    """Whether ``isinstance`` alone decides."""
    return isinstance(part, type) and part not in _NUMBERS


def _list_parts(annotation: _Annotation) -> Sequence[_Annotation]:
    """Return the members of a union; None as its class, and classes without parameters."""
    if get_origin(annotation) in (Union, UnionType):
        return [each for part in get_args(annotation) for each in _list_parts(part)]
    if annotation is None:
        return [NoneType]
    origin = get_origin(annotation)
    return [origin if isinstance(origin, type) and origin not in _CONTAINERS else annotation]


def _make_part_check(part: _Annotation) -> _Check:
    origin, members = get_origin(part), get_args(part)
    if part in _NUMBERS:
        # True is a number to Python, and a mistake here.
        numbers = (int, float) if part is float else (int,)
        return lambda value: isinstance(value, numbers) and not isinstance(value, bool)
    if origin is Literal:
        return lambda value: isinstance(value, str)
    if origin is tuple:
        checks = [_make_check(member) for member in members]
        return lambda value: isinstance(value, tuple) and _all_pass(cast("tuple[object, ...]", value), checks)
    if origin is Mapping:
        return lambda value: isinstance(value, _MAPPINGS) and _are_texts(cast("Mapping[object, object]", value))
    if origin in _LISTS and members[0] is str:
        kind = cast(type, origin)
        return lambda value: _is_list_of_texts(value, kind)
    # Whoever uses the value checks it.
    return lambda _: True


def _all_pass(values: Sequence[object], checks: Sequence[_Check]) -> bool:
    return len(values) == len(checks) and all(check(value) for check, value in zip(checks, values, strict=True))


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_list_of_texts(value: object, kind: type) -> bool:
    """Whether a value is a list of texts. A text is none. What can be read only once is not looked into."""
    if isinstance(value, str | bytes | bytearray | memoryview) or not isinstance(value, kind):
        return False
    is_kept = isinstance(value, list | tuple | AbstractSet | Mapping)
    return not is_kept or _are_texts(cast("Collection[object]", value))
