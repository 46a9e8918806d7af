"""The headers of ``neo4j-admin database import``: what each column of a CSV file holds.

A field is ``name:type``, with ``[]`` for arrays and options in braces. Some types are roles: ``:ID(space)``,
``:LABEL``, ``:START_ID(space)``, ``:END_ID(space)``, ``:TYPE`` and ``:IGNORE``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, Protocol, TypeAlias, cast, get_args

from omnigraph.errors import Violation
from omnigraph.language.source import suggest_name
from omnigraph.language.types import Scalar, ValueType
from omnigraph.lazy_dataclass import dataclass

Role: TypeAlias = Literal["ID", "LABEL", "START_ID", "END_ID", "TYPE", "IGNORE"]

ROLES: Final = cast("tuple[str, ...]", get_args(Role))
_FIELD: Final = re.compile(
    r"(?P<name>[^:]*)(?::(?P<type>[A-Za-z_]+)(?:\((?P<space>[^)]*)\))?"
    r"(?P<options>\{[^}]*\})?(?P<array>\[\])?(?P<more>\{[^}]*\})?)?"
)
_MARK: Final = re.compile(r":(ID|LABEL|START_ID|END_ID|TYPE)(\(|\{|$)")
_ID_OPTION: Final = re.compile(r"id-type\s*:\s*(\w+)")
_SCALARS: Final[Mapping[str, Scalar]] = {
    **dict.fromkeys(("byte", "short", "int"), Scalar.I32),
    "long": Scalar.I64,
    "float": Scalar.F32,
    "double": Scalar.F64,
    "boolean": Scalar.BOOL,
    **dict.fromkeys(("char", "string"), Scalar.STRING),
    "date": Scalar.DATE,
    **dict.fromkeys(("datetime", "localdatetime"), Scalar.DATETIME),
    **dict.fromkeys(("time", "localtime", "duration", "point"), Scalar.STRING),
}
_TEXT: Final = ValueType(Scalar.STRING)
_KEPT_AS_TEXT: Final = ("time", "localtime", "duration", "point")


@dataclass(frozen=True, slots=True)
class HeaderField:
    """One column: its text in the header, and what that says. ``column`` is its name in SQL."""

    text: str
    place: int
    name: str
    column: str
    role: Role | None = None
    space: str = ""
    type: ValueType = _TEXT
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a file, by their roles. ``ids`` and the others have one field in a valid header."""

    fields: tuple[HeaderField, ...]

    def list_role(self, role: Role) -> list[HeaderField]:
        """Return the fields with a role."""
        return [each for each in self.fields if each.role == role]

    @property
    def is_of_nodes(self) -> bool:
        """Whether the rows are nodes."""
        return bool(self.list_role("ID"))

    @property
    def columns(self) -> list[HeaderField]:
        """The fields that are read."""
        return [each for each in self.fields if each.role != "IGNORE"]

    @property
    def has_own_names(self) -> bool:
        """Whether some column cannot have its text as its name, because for SQL another one has it."""
        return any(each.column != each.text for each in self.columns)

    @property
    def properties(self) -> list[HeaderField]:
        """The fields that hold properties."""
        return [each for each in self.fields if each.role is None]


def is_neo4j_header(names: Sequence[str]) -> bool:
    """Whether a field of a header has a role."""
    return any(_MARK.search(name) for name in names)


def parse_neo4j_header(file: str, names: Sequence[str], type_name: str) -> tuple[Header, list[Violation]]:
    """Parse a header; return its problems too. ``type_name`` is the type that the command line gave, if any."""
    problems: list[Violation] = []

    def add(rule: str, message: str, value: str) -> None:
        problems.append(Violation(type_name, rule, message, file, 1, property=value, value=value))

    fields = _name_columns([_parse_field(text, place, add) for place, text in enumerate(names)])
    header = Header(tuple(fields))
    for rule, message, value in _check_roles(header, type_name):
        add(rule, message, value)
    seen: set[str] = set()
    for each in fields:
        if each.role in (None, "ID") and each.name:
            if each.name in seen:
                add("neo4j_repeated_property", f"the property '{each.name}' is named twice", each.text)
            seen.add(each.name)
    return header, problems


def _name_columns(fields: Sequence[HeaderField]) -> list[HeaderField]:
    """Give columns that differ only in case the names that Spark gives columns without a header."""
    counts = Counter(each.text.lower() for each in fields if each.role != "IGNORE")
    return [each if counts[each.text.lower()] <= 1 else replace(each, column=f"_c{each.place}") for each in fields]


def _parse_field(text: str, place: int, add: _Add) -> HeaderField:
    found = _FIELD.fullmatch(text.strip())
    if found is None:
        add("neo4j_field", f"'{text}' is no field of a header; write name:type, or name:type[]", text)
        return HeaderField(text, place, text, text, "IGNORE")
    name, type_, options = found["name"], found["type"], found["options"] or found["more"] or ""
    if type_ is None:
        # As for neo4j-admin, a column without a name is not read.
        return HeaderField(text, place, name, text, None if name else "IGNORE")
    if type_.upper() in ROLES and (type_.isupper() or not name):
        role = cast("Role", type_.upper())
        id_type = _ID_OPTION.search(options)
        is_number = id_type is not None and id_type[1].lower() in ("int", "long", "integer")
        kind = ValueType(Scalar.I64 if is_number else Scalar.STRING)
        return HeaderField(text, place, name, text, role, found["space"] or "", kind)
    scalar = _SCALARS.get(type_.lower())
    if scalar is None:
        hint = suggest_name(type_.lower(), list(_SCALARS), "types")
        add("neo4j_type", f"'{text}' has the type '{type_}', which neo4j-admin does not have; {hint}", text)
        return HeaderField(text, place, name, text, "IGNORE")
    notes = [f"a {type_} is kept as a text"] if type_.lower() in _KEPT_AS_TEXT else []
    notes += [f"options {options} are not applied"] if options else []
    kind = ValueType(scalar, is_list=found["array"] is not None)
    return HeaderField(text, place, name or f"c{place}", text, None, "", kind, tuple(notes))


def _check_roles(header: Header, type_name: str) -> Iterator[tuple[str, str, str]]:
    """Yield a rule, a message and a value for each role that is missing or does not fit."""
    whole = ",".join(each.text for each in header.fields)
    counts = {role: len(header.list_role(cast("Role", role))) for role in ROLES}
    is_edge = bool(counts["START_ID"] or counts["END_ID"] or counts["TYPE"])
    if counts["ID"] and is_edge:
        yield "neo4j_roles", "a file has :ID, which is for nodes, and :START_ID, :END_ID or :TYPE", whole
        return
    if not counts["ID"] and not is_edge:
        yield "neo4j_roles", "a file of nodes needs :ID, a file of relationships :START_ID and :END_ID", whole
        return
    for role in ("ID", "LABEL", "START_ID", "END_ID", "TYPE"):
        if counts[role] > 1:
            yield "neo4j_roles", f"there are {counts[role]} fields with :{role}; one can be read", whole
    if is_edge:
        missing = [f":{role}" for role in ("START_ID", "END_ID") if not counts[role]]
        missing += [] if counts["TYPE"] or type_name else [":TYPE, or TYPE= before the name of the file"]
        if missing:
            yield "neo4j_roles", f"relationships need {' and '.join(missing)}", whole


class _Add(Protocol):
    def __call__(self, rule: str, message: str, value: str) -> None: ...
