"""Find the types of a graph in a SQL text, with ``VERSION AS OF`` and ``TIMESTAMP AS OF`` after them.

Spark travels in time only through a catalog, which Python cannot provide. So the names of types where SQL expects a
table are replaced before Spark reads the text. Strings, comments, and the names of columns, functions and common table
expressions stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.language.values import parse_instant
from omnigraph.lazy_dataclass import dataclass

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<text>[rR]?'(?:\\.|''|[^'\\])*' | [rR]?"(?:\\.|""|[^"\\])*")
      | `(?P<quoted>(?:``|[^`])*)`
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d[\w.]*)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_QUERY_WORDS: Final = frozenset({"select", "with", "from", "values", "table", "("})
"""How a query begins, at the start of a text or inside parentheses."""
_JOINS: Final = frozenset({"join", "inner", "left", "right", "full", "cross", "natural", "semi", "anti"})
_ENDS_TABLES: Final = frozenset(
    {
        *("on", "using", "where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset"),
        *("union", "except", "minus", "intersect", "lateral", "window", "pivot", "unpivot", "tablesample", "select"),
    }
)
"""Words after which a comma no longer separates tables."""
_AFTER_A_TABLE: Final = _JOINS | _ENDS_TABLES
"""Words that cannot be an alias."""
_VERSION: Final = frozenset({"version", "system_version"})
_TIME: Final = frozenset({"timestamp", "system_time"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: str
    """Words in lower case, quoted names without their quotes."""
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        return self.kind in ("word", "quoted")


@dataclass(frozen=True, slots=True)
class SqlRelation:
    """A type where SQL expects a table: its place in the text, the moment after it, and whether it has an alias."""

    name: str
    start: int
    end: int
    at: str | None
    has_alias: bool


@dataclass(frozen=True, slots=True)
class SqlText:
    """A SQL query. ``words`` are all names and keywords in it, in lower case, but the keyword FROM."""

    text: str
    relations: tuple[SqlRelation, ...]
    words: frozenset[str]
    shows_every_column: bool
    """Whether a ``*`` stands for columns."""


def parse_sql(text: str, names: Collection[str]) -> SqlText:
    """Find the relations with these names, in upper or lower case; refuse a text that is no query."""
    tokens = list(_split(text))
    if not tokens or tokens[0].value not in _QUERY_WORDS:
        raise ParameterError(
            "sg.sql takes a query, beginning with SELECT, WITH, FROM, VALUES or TABLE",
            hint="run other statements with session.sql, on the views of sg.create_views()",
        )
    known = {name.lower() for name in names} - _list_common_tables(tokens)
    places = [at for at in _find_tables(tokens) if tokens[at].value.lower() in known and not _goes_on(tokens, at)]
    relations = [_read_relation(tokens, at) for at in places]
    words = frozenset(
        token.value.lower() for at, token in enumerate(tokens) if token.is_name and not _is_from(tokens, at)
    )
    return SqlText(text, tuple(relations), words, _shows_every_column(tokens))


def _split(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind != "space":
            value = found[kind].replace("``", "`") if kind == "quoted" else found[kind]
            yield _Token(kind, value.lower() if kind == "word" else value, *found.span())


def _find_tables(tokens: list[_Token]) -> Iterator[int]:
    """Yield the places of single names where a table is expected."""
    # For each open parenthesis: whether it holds a query, and whether a comma separates tables there.
    levels = [[True, False]]
    for at, token in enumerate(tokens):
        before = tokens[at - 1].value if at else ""
        level = levels[-1]
        if token.value == "(" and token.kind == "sign":
            inside = tokens[at + 1].value if at + 1 < len(tokens) else ""
            # A parenthesis around tables goes on with the list that it stands in.
            is_list = before in ("from", "join") or (before == "," and level[1])
            levels.append([inside in _QUERY_WORDS or is_list, is_list and inside not in _QUERY_WORDS])
            if is_list and tokens[at + 1 : at + 2] and tokens[at + 1].is_name and inside not in _QUERY_WORDS:
                yield at + 1
        elif token.value == ")" and token.kind == "sign" and len(levels) > 1:
            levels.pop()
        elif token.kind == "word" and token.value == "from" and level[0]:
            level[1] = True
        elif token.kind == "word" and token.value in _ENDS_TABLES:
            level[1] = False
        elif token.is_name and level[0] and (before in ("from", "join", "table") or (before == "," and level[1])):
            yield at


def _is_from(tokens: list[_Token], at: int) -> bool:
    """Whether a word is the keyword, and not the column ``from`` of edges."""
    return tokens[at].kind == "word" and tokens[at].value == "from" and not (at and tokens[at - 1].value == ".")


def _goes_on(tokens: list[_Token], at: int) -> bool:
    """Whether a name is only the first part of another one, or that of a function."""
    return [token.value for token in tokens[at + 1 : at + 2]] in (["."], ["("])


def _read_relation(tokens: list[_Token], at: int) -> SqlRelation:
    name, following = tokens[at], tokens[at + 1 : at + 8]
    end, moment = name.end, None
    first = 1 if following[:1] and following[0].value == "for" else 0
    clause = [token.value for token in following[first : first + 3]]
    if clause[1:] == ["as", "of"] and clause[0] in _VERSION | _TIME:
        value = following[first + 3 : first + 5]
        if clause[0] in _TIME and value and value[0].value == "timestamp":
            first, value = first + 1, value[1:]
        moment = _parse_moment(clause[0], value[0] if value else None)
        end = following[first + 3].end
        following = following[first + 4 :]
    after = following[0] if following else None
    has_alias = after is not None and after.is_name and (after.kind == "quoted" or after.value not in _AFTER_A_TABLE)
    return SqlRelation(
        name.value, name.start, end, moment, has_alias or (after is not None and after.value == "tablesample")
    )


def _parse_moment(clause: str, value: _Token | None) -> str:
    literal = "" if value is None else value.value.strip("'\"")
    if clause in _VERSION:
        number = literal.removeprefix("v")
        if value is None or value.kind not in ("number", "text") or not number.isdecimal():
            raise ParameterError(
                f"VERSION AS OF is followed by '{literal}'", hint="give a number, as in VERSION AS OF 12"
            )
        return f"v{number}"
    if value is None or value.kind != "text":
        raise ParameterError(
            f"TIMESTAMP AS OF is followed by '{literal}'", hint="give a text, as in TIMESTAMP AS OF '2024-05-01T10:00Z'"
        )
    return parse_instant(literal).isoformat()


def _list_common_tables(tokens: list[_Token]) -> frozenset[str]:
    """The names that ``WITH name AS (...)`` defines."""
    found: set[str] = set()
    for at, token in enumerate(tokens[1:], 1):
        before = tokens[at - 1].value
        if token.is_name and before in ("with", "recursive", ","):
            rest = [each.value for each in tokens[at + 1 :]]
            if rest[:1] == ["("] and ")" in rest:
                rest = rest[rest.index(")") + 1 :]
            if rest[:2] == ["as", "("]:
                found.add(token.value.lower())
    return frozenset(found)


def _shows_every_column(tokens: list[_Token]) -> bool:
    """Whether a ``*`` stands for columns; in ``count(*)`` it does not, nor between two values."""
    for at, token in enumerate(tokens):
        if token.value != "*" or token.kind != "sign":
            continue
        before = tokens[at - 1].value if at else ""
        is_count = [each.value for each in tokens[max(0, at - 2) : at]] == ["count", "("]
        if before in ("select", "distinct", "all", ",", ".", "(") and not is_count:
            return True
    return tokens[0].value in ("from", "table", "values")
