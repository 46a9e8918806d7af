"""Identities: the columns by which a merge finds the stored row of a record that has no id of its own.

A record with an id, or of a type with a key, is found by that. For the others the load may name columns. Else the only
``@unique`` of the type identifies a record that has a value for each of its members. Else a record is the same as a
stored row if both ends and all properties are. What two rows have in common is compared as a digest, a match key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import Catalog, EdgeType, NodeType
from omnigraph.language.source import suggest_similar
from omnigraph.language.types import Scalar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import PUBLIC_NAMES
from omnigraph.storage.columns import Rows, Values, column_of, compute, join_texts, to_bool_array
from omnigraph.storage.keys import to_canonical_text
from omnigraph.write.load.rows import list_value_columns
from omnigraph.write.row_digests import digest_rows
from omnigraph.write.rules import format_unique

Identity: TypeAlias = Mapping[str, Sequence[str]]
"""The columns that identify the records of a type: properties, and ``from`` and ``to`` of an edge."""

LoadMode: TypeAlias = Literal["append", "merge", "update", "overwrite"]
MATCHING_MODES: Final = ("merge", "update")
"""The modes that look for the stored rows of records."""
_COLUMNS: Final = {public: column for column, public in PUBLIC_NAMES.items()}
_BY_ID: Final = "id:"
_BY_UNIQUE: Final = "unique:"

_SCHEMA_HINT: Final = "name types and properties as the schema does; `omnigraph schema show` prints it"


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """The columns that identify the rows of a type.

    ``is_unique``: the columns are those of ``@unique``. A row without a value for each of them is identified by all
    columns.
    """

    type: NodeType | EdgeType
    columns: tuple[str, ...]
    is_unique: bool = False

    @property
    def other_columns(self) -> tuple[str, ...]:
        """The columns outside of the identity, without ``id``."""
        return tuple(name for name in list_value_columns(self.type) if name not in self.columns)

    @property
    def for_update(self) -> RowIdentity | None:
        """The identity by which an update finds rows; None if it has all columns, so that nothing could change."""
        return self if self.is_unique or self.other_columns else None

    def make_keys(self, rows: Rows) -> pa.StringArray:
        """Return the match key of each row. The rows need all columns, or those of the identity if all have values."""
        if not self.is_unique:
            return digest_rows(rows, self.columns)
        texts = to_canonical_text(rows, self.columns)
        keys = join_texts(_BY_UNIQUE, texts)
        if not texts.null_count:
            return keys
        whole = digest_rows(rows, list_value_columns(self.type))
        return cast("pa.StringArray", compute("coalesce", cast("Values", keys), cast("Values", whole)))

    def mark_incomplete(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return which rows lack a value of the identity, so that all of their columns identify them."""
        if not self.is_unique:
            return np.zeros(rows.num_rows, np.bool_)
        return to_bool_array(cast("Values", to_canonical_text(rows, self.columns).is_null()))


def make_id_keys(rows: Rows) -> pa.StringArray:
    """Return the match key of rows that are found by their id."""
    return join_texts(_BY_ID, cast("pa.StringArray", column_of(rows, "id")))


def mark_single(keys: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Return which match keys at most one row may have: ids, and values of ``@unique``."""
    single = pc.MatchSubstringOptions(f"^({_BY_ID}|{_BY_UNIQUE})")
    return to_bool_array(compute("match_substring_regex", cast("Values", keys), options=single))


def choose_identity(type_: NodeType | EdgeType, declared: Sequence[str] | None) -> RowIdentity:
    """Return what identifies the rows of a type; ``declared`` are the columns that the load names."""
    if declared is not None:
        return RowIdentity(type_, tuple(declared))
    if len(type_.unique) > 1:
        listed = ", ".join(map(format_unique, type_.unique))
        example = ", ".join(f'"{PUBLIC_NAMES.get(name, name)}"' for name in type_.unique[0])
        raise ParameterError(
            f"{type_.name} has several unique sets, and any of them could identify its rows: {listed}",
            hint=f'name the columns that identify a row, such as identity={{"{type_.name}": [{example}]}}',
        )
    if type_.unique:
        return RowIdentity(type_, type_.unique[0], is_unique=True)
    return RowIdentity(type_, list_value_columns(type_))


# --------------------------------------------------------------------------------------------- what a load names


def resolve_identity(catalog: Catalog, identity: object, mode: LoadMode) -> dict[str, tuple[str, ...]]:
    """Return the columns that a load names, by table key. All problems are reported together."""
    if identity is None:
        return {}
    if not isinstance(identity, Mapping):
        raise ParameterError(
            f"identity is {type(identity).__name__}", hint='give columns by type: {"CallsAt": ["from", "to", "at"]}'
        )
    given = cast("Mapping[object, object]", identity)
    if given and mode not in MATCHING_MODES:
        raise ParameterError(
            f'identity is given, but mode "{mode}" looks for no stored rows',
            hint='use mode="merge" or "update", or leave it out',
        )
    found: dict[str, tuple[str, ...]] = {}
    problems: list[Json] = []
    for name, columns in given.items():
        type_ = _find_type(catalog, name)
        wrong = [_describe_unknown_type(catalog, name)] if type_ is None else list(_find_problems(type_, columns))
        problems += [f"identity of {name}: {each}" for each in wrong]
        if type_ is not None and not wrong:
            names = cast("Sequence[str]", columns)
            found[type_.table_key] = tuple(_COLUMNS.get(each, each) for each in names)
    if problems:
        raise ParameterError("; ".join(map(str, problems)), hint=_SCHEMA_HINT, details={"problems": problems})
    return found


def _find_type(catalog: Catalog, name: object) -> NodeType | EdgeType | None:
    return (catalog.nodes.get(name) or catalog.find_edge(name)) if isinstance(name, str) else None


def _describe_unknown_type(catalog: Catalog, name: object) -> str:
    hint = suggest_similar(str(name), [*catalog.nodes, *catalog.edges])
    return "there is no such type" + (f", {hint}" if hint else "")


def _find_problems(type_: NodeType | EdgeType, columns: object) -> Iterator[str]:
    if isinstance(type_, NodeType) and type_.key is not None:
        yield f"its key ({', '.join(type_.key)}) identifies it"
    elif isinstance(columns, str) or not isinstance(columns, Sequence):
        yield f"{columns!r} is not a list of columns"
    elif not columns:
        yield "it has no columns"
    else:
        names = cast("Sequence[object]", columns)
        yield from (f"'{name}' occurs twice" for name, count in Counter(names).items() if count > 1)
        yield from filter(None, (_describe_problem(type_, name) for name in dict.fromkeys(names)))


def _describe_problem(type_: NodeType | EdgeType, name: object) -> str | None:
    """Describe why a column cannot be part of an identity; None if it can."""
    ends = tuple(PUBLIC_NAMES.values()) if isinstance(type_, EdgeType) else ()
    if name in ends:
        return None
    if name == "id":
        return "records with an id are found by it already"
    if name not in type_.properties:
        hint = suggest_similar(PUBLIC_NAMES.get(str(name), str(name)), [*ends, *type_.properties])
        return f"there is no property '{name}'" + (f", {hint}" if hint else "")
    if type_.properties[cast(str, name)].type.scalar is Scalar.BLOB:
        return f"'{name}' is a blob"
    return None
