"""The SQL of the views of a dump of Neo4j: which rows of a file belong to a type.

If only the first rows were looked at, later ones may have labels, types or ends that nobody knows here. Spark then ends
with an error, so that no row is left out without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from omnigraph.lazy_dataclass import dataclass
from omnigraph.pipeline.imports.neo4j_files import DumpRows
from omnigraph.pipeline.proposal_sql import advise_replacement, quote_sql_text, raise_sql_error
from omnigraph.pipeline.table_profile import MAX_ROWS

_LETTERS: Final = ("a", "b")


@dataclass(frozen=True, slots=True)
class SharedEnd:
    """An end of relationships whose ids nodes of several labels share: its column, and the view with these ids."""

    word: Literal["from", "to"]
    column: str
    ids_view: str


@dataclass(frozen=True, slots=True)
class PairChoice:
    """The labels of the shared ends of relationships, and which others those that were looked at have.

    ``known`` is None if all were looked at.
    """

    type: str
    ends: tuple[SharedEnd, ...]
    labels: tuple[str, ...]
    known: tuple[tuple[str, ...], ...] | None


def _begin(group: DumpRows, what: str) -> str:
    return quote_sql_text(f"none of the first {MAX_ROWS:,} rows of {','.join(group.files)} {what}")


# --------------------------------------------------------------------------------------------- labels and types


def select_label(
    group: DumpRows, labels: str, delimiter: str, first: str, label: str, known: Collection[str], *, has_several: bool
) -> str:
    """Return the condition for the nodes with this first label.

    ``labels`` is the column, ``first`` the expression of the first one; ``has_several``: some nodes have others too.
    """
    chosen = f"{first} = {quote_sql_text(label)}"
    if group.is_complete:
        return chosen
    condition = _select_known(group, first, chosen, known)
    if has_several:
        return f"CASE {condition} END"
    told = _begin(group, f"with the label {label} has several labels, but one is ")
    several = raise_sql_error(told, labels, advise_replacement("TRUE", "keep the first label alone"))
    return f"CASE WHEN {chosen} AND instr({labels}, {quote_sql_text(delimiter)}) > 0 THEN {several} {condition} END"


def select_type(group: DumpRows, type_of: str, type_: str, known: Collection[str]) -> str:
    """Return the condition for the relationships of this type."""
    chosen = f"{type_of} = {quote_sql_text(type_)}"
    return chosen if group.is_complete else f"CASE {_select_known(group, type_of, chosen, known)} END"


def _select_known(group: DumpRows, expression: str, chosen: str, known: Collection[str]) -> str:
    listed = ", ".join(quote_sql_text(each) for each in known)
    told = _begin(group, "has the label or type ")
    unknown = raise_sql_error(told, f"coalesce({expression}, 'null')", advise_replacement("FALSE", "leave it out"))
    return f"WHEN {expression} IN ({listed}) THEN {chosen} ELSE {unknown}"


# --------------------------------------------------------------------------------------------- ends


def select_rows(group: DumpRows, columns: str, condition: str | None, pair: PairChoice | None) -> str:
    """Return the query for the rows of a type in a group of files."""
    where = "" if condition is None else f" WHERE {condition}"
    if pair is None:
        return f"SELECT {columns} FROM {group.source} r{where}"  # noqa: S608  it is shown
    ends = list(zip(_LETTERS, pair.ends, pair.labels, strict=False))
    if pair.known is None:
        joins = "".join(
            f" LEFT SEMI JOIN {end.ids_view} {letter}"
            f" ON r.{end.column} = {letter}.id AND {letter}.label = {quote_sql_text(label)}"
            for letter, end, label in ends
        )
        return f"SELECT {columns} FROM {group.source} r{joins}{where}"  # noqa: S608  it is shown
    # Relationships of other types have other ends, so they are left out before.
    rows = f"(SELECT * FROM {group.source}{where})" if where else group.source  # noqa: S608  it is shown
    joins = "".join(f" LEFT JOIN {end.ids_view} {letter} ON r.{end.column} = {letter}.id" for letter, end, _ in ends)
    return f"SELECT {columns} FROM {rows} r{joins} WHERE {_select_pair(group, pair)}"  # noqa: S608  it is shown


def _select_pair(group: DumpRows, pair: PairChoice) -> str:
    """Return the condition for the labels of the ends; those that no looked-at relationship has are an error."""
    letters = _LETTERS[: len(pair.ends)]
    labels = ", ".join(f"{letter}.label" for letter in letters)
    others = [each for each in pair.known or () if each != pair.labels]
    listed = ", ".join(_list_texts(each) for each in others)
    known = f"WHEN ({labels}) IN ({listed}) THEN FALSE " if others else ""
    # The ids of a relationship in the text make the condition one of both sides of a join, evaluated only after it.
    parts = [_begin(group, f"is of the type {pair.type}")]
    for letter, end in zip(letters, pair.ends, strict=True):
        parts += [
            quote_sql_text(f" {end.word} "),
            f"coalesce({letter}.label, 'no node')",
            "' '",
            f"coalesce(r.{end.column}, 'null')",
        ]
    unknown = raise_sql_error(*parts, advise_replacement("FALSE", "leave it out"))
    return f"CASE WHEN ({labels}) = {_list_texts(pair.labels)} THEN TRUE {known}ELSE {unknown} END"


def _list_texts(texts: Sequence[str]) -> str:
    return f"({', '.join(quote_sql_text(each) for each in texts)})"


def select_ids(group: DumpRows, id_column: str, first: str) -> str:
    """Return the query for the ids of a group of nodes with their first labels."""
    return f"SELECT {id_column} AS id, {first} AS label FROM {group.source}"  # noqa: S608  it is shown
