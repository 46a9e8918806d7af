"""Habits of Cypher, GQL and SQL: a hint for what they write, with the ``.gq`` form of it.

A hint is ``write FORM``, and at most one remark in parentheses. FORM is the text of the user in ``.gq``, as far as the
text around the error tells; ``Type``, ``$x``, ``p`` and ``"a"`` stand for what it does not tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from omnigraph.language.query.foreign_paths import begin_path, recase_edge, show_hops, show_path, use_double_quotes
from omnigraph.language.query.keywords import list_keywords
from omnigraph.lazy_dataclass import dataclass

_WINDOW: Final = 500
"""How many characters around an error are looked at."""

_LONGEST: Final = 160
"""Longer forms are not shown."""

_Parts: TypeAlias = Mapping[str, str]
"""The named groups of the patterns of a habit; ``text`` is all before the error, ``found`` what is at it."""
_Form: TypeAlias = "str | Callable[[_Parts], str | None]"
"""A form to write: with ``<name>`` for a group, or computed from the groups."""


@dataclass(frozen=True, slots=True)
class _Habit:
    """What is at an error, what to write instead, and what is before the error."""

    at: str
    form: _Form
    before: str = ""
    remark: str = ""

    def hint_for(self, text: str, offset: int) -> str | None:
        found = re.compile(self.at).match(text, offset)
        earlier = text[max(0, offset - _WINDOW) : offset]
        begun = found and re.search(rf"(?:{self.before})\s*\Z", earlier, re.DOTALL)
        if not found or not begun:
            return None
        groups = {name: group or "" for name, group in {**begun.groupdict(), **found.groupdict()}.items()}
        form = _fill_in(self.form, {**groups, "text": text[:offset], "found": found.group()})
        # What is written may be right, but not at this place; only a remark can say so.
        if not form or (not self.remark and text.startswith(form, offset)):
            return None
        hint = _show_form(form)
        return f"{hint} ({self.remark})" if hint and self.remark else hint


@dataclass(frozen=True, slots=True)
class _ForeignStatement:
    """A pattern of a whole statement, which the error is somewhere in, and what to write instead."""

    pattern: str
    form: _Form

    def hint_for(self, text: str, offset: int) -> str | None:
        begin = max(0, offset - _WINDOW)
        for found in re.compile(self.pattern).finditer(text, begin, offset + _WINDOW):
            if found.start() <= offset < found.end():
                groups = {name: group or "" for name, group in found.groupdict().items()}
                form = _fill_in(self.form, {**groups, "text": text[: found.start()], "found": found.group()})
                # The statement itself may be right, and the error be another one.
                return None if form and form.split() == found.group().split() else _show_form(form)
        return None


def show_query_form(text: str, offset: int) -> str | None:
    """Return a hint with the ``.gq`` form of the foreign text at an offset, if it is a known habit."""
    hints = (habit.hint_for(text, offset) for habit in (*_STATEMENTS, *_HABITS))
    return _show_form(show_path(text, offset)) or next((hint for hint in hints if hint), None)


def _show_form(form: str | None) -> str | None:
    return f"write {form}" if form and len(form) <= _LONGEST else None


def _fill_in(form: _Form, parts: _Parts) -> str | None:
    filled = re.sub(r"<(\w+)>", lambda name: parts[name[1]].strip(), form) if isinstance(form, str) else form(parts)
    return filled and use_double_quotes(filled)


def _tidy(items: str) -> str:
    """Return items with keywords in lowercase, and a dollar sign before variables that have none."""
    lowered = re.sub(r"\b[A-Z]+\b", lambda word: _lower_keyword(word[0]) or word[0], items)
    return re.sub(r'(?<![\w$."])([a-z_]\w*)(?=\.[\w*])', r"$\1", lowered).strip().rstrip(",")


def _lower_keyword(word: str) -> str | None:
    return word.lower() if word.lower() in list_keywords() else None


def _first_variable(parts: _Parts) -> str:
    """Return the first variable that the last match before the error binds."""
    text = parts["text"]
    found = re.search(r"\$\w+", text[max(text.rfind("match"), 0) :])
    return found[0] if found else "$x"


# ------------------------------------------------------------------------------------------------ conditions


def _show_comparison(parts: _Parts) -> str:
    subject, value = parts["subject"], use_double_quotes(parts["value"]) or '"a"'
    operator = re.sub(r"\s+", "_", parts["operator"].lower())
    forms = {
        "like": lambda: _show_like(subject, value),
        "ilike": lambda: _show_like(f"lower({subject})", value.lower()),
        "between": lambda: f"{subject} >= {value} and {subject} <= {parts['upper']}",
        "contains": lambda: f"{subject} contains {value}",
        "starts_with": lambda: f"{subject} starts_with {value}",
        "ends_with": lambda: f"{subject} ends_with {value}",
        "=": lambda: _show_whole_match(subject, value),
    }
    form = forms.get(operator, lambda: f"{subject} matches {value}")()
    return f"not ({form})" if parts["negation"] else form


def _show_like(subject: str, value: str) -> str:
    if not value.startswith('"'):
        return f"{subject} contains {value}"
    text = value[1:-1]
    inner, opens, closes = text.strip("%"), text.startswith("%"), text.endswith("%")
    if re.search(r"[%_]", inner):
        signs = {"%": ".*", "_": "."}
        pattern = "".join(signs.get(char) or re.sub(r"\W", r"[\g<0>]", char) for char in inner)
        return f'{subject} matches "{"" if opens else "^"}{pattern}{"" if closes else "$"}"'
    operator = ("contains" if closes else "ends_with") if opens else ("starts_with" if closes else "=")
    return f'{subject} {operator} "{inner}"'


def _show_whole_match(subject: str, value: str) -> str:
    """``=~`` compares the whole text, ``matches`` any part of it."""
    inner = value[1:-1]
    anchored = f'"^({inner})$"' if "|" in inner else f'"^{inner}$"'
    return f"{subject} matches {anchored if value.startswith(chr(34)) else value}"


def _show_membership(parts: _Parts) -> str:
    items = f"{parts.get('first', '')}{parts['items']}".strip().rstrip(",") or '"a", "b"'
    form = f"{parts['subject']} in [{items}]"
    return f"not ({form})" if parts.get("negation") else form


def _show_null_test(parts: _Parts) -> str:
    negation = "" if parts["negation"].strip() in {"", "=", "=="} else "not "
    return f"{parts['subject']} is {negation}null"


# ------------------------------------------------------------------------------------------------ parts of a read


def _show_return(parts: _Parts) -> str:
    distinct = "distinct " if parts["distinct"] else ""
    return f"return {distinct}{{ {_tidy(parts['items']) or '$x.p'} }}"


def _show_match(parts: _Parts) -> str:
    return f"match {{ {begin_path(parts['items'], 0) or '$x: Type'} }}"


def _show_clauses(parts: _Parts) -> str:
    """The clauses of a match and a condition of ``where``."""
    clauses = re.sub(r"\s{2,}|\n", "  ", f"{parts['clauses'].strip()}  {_tidy(parts['items'])}")
    return f"match {{ {clauses} }}" if len(clauses) <= _LONGEST else "match { $x: Type  $x.p > 1 }"


def _show_optional(parts: _Parts) -> str:
    inner = parts["items"].strip(" \n{}")
    return f"optional {{ {begin_path(inner, 0) or _tidy(inner) or '$x edge $y'} }}"


def _show_paging(parts: _Parts) -> str:
    counts: dict[str, str] = {}
    for word, first, second in re.findall(r"(\w+)\s*\{?\s*(\d+|\$\w+)\s*\}?(?:\s*,\s*(\d+|\$\w+))?", parts["found"]):
        counts["limit" if word.lower() == "limit" else "offset"] = second or first
        if second:
            counts["offset"] = first
    return " ".join(f"{name} {counts[name]}" for name in ("limit", "offset") if name in counts)


def _show_query(parts: _Parts) -> str | None:
    if parts["text"].strip():
        return None
    clauses = begin_path(parts["path"].strip(), 0) or "$x: Type"
    return f"query name() {{ match {{ {clauses} }} return {{ {_tidy(parts['items']) or '$x.p'} }} }}"


# ------------------------------------------------------------------------------------------------ statements


def _recase_type(parts: _Parts) -> str:
    return parts["type"][:1].upper() + parts["type"][1:]


def _show_update(parts: _Parts) -> str | None:
    assignments = re.sub(r"(\w+)\s*=\s*", r"\1: ", parts["items"]).strip()
    where = _show_comparison_of_property(parts["where"])
    return f"update {_recase_type(parts)} set {{ {assignments} }} where {where}"  # noqa: S608  # no SQL


def _show_comparison_of_property(condition: str) -> str:
    """Return the condition of a statement, if it is one comparison of a property: ``where`` takes no other."""
    is_one = re.fullmatch(r"\w+\s*(?:!=|<=|>=|=|<|>)\s*(?:\"[^\"]*\"|'[^']*'|\S+)", condition.strip())
    return condition.strip() if is_one else 'p = "a"'


def _show_insert(parts: _Parts) -> str:
    pairs = zip(parts["names"].split(","), parts["values"].split(","), strict=False)
    items = ", ".join(f"{name.strip()}: {value.strip()}" for name, value in pairs if name.strip())
    return f"insert {_recase_type(parts)} {{ {items or parts['items'].strip(' {}') or 'p: null'} }}"


def _show_set(parts: _Parts) -> str:
    assignment = f"{parts['property']}: {parts.get('value') or 'null'}"
    return f"update ${parts['variable']} set {{ {assignment} }}"  # noqa: S608  # no SQL


def _show_walk(parts: _Parts) -> str:
    hops = show_hops(parts["low"], parts["high"], is_range=bool(parts["dots"]) or not parts["low"])
    return f"{parts['source']} {parts['edge']}{hops} {parts['target']}"


# ------------------------------------------------------------------------------------------------ the tables

_SUBJECT = r"(?P<subject>\$\w+(?:\.\w+)?)"
_VALUE = r"""(?P<value>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|\$\w+(?:\.\w+)?|-?\d+(?:\.\d+)?|true\b|false\b)"""
_END = r"\s*(?=(?i:\b(?:order|limit|skip|offset|where|union|group|having|return)\b)|[{}\n;]|\Z)"
_ITEMS = rf"\{{?(?P<items>[^{{}}\n]*?){_END}"
_SOME_ITEMS = rf"(?P<items>[^{{}}\n]+?){_END}"
_IN_BRACES = rf"(?P<items>\{{[^{{}}]*\}}|[^{{}}\n]*?{_END})"
_NEGATION = r"(?P<negation>(?i:not)\s+)?"
_TEXT_OPERATOR = r"(?P<operator>(?i:i?like|contains|starts[\s_]with|ends[\s_]with|matches|regexp|rlike|similar\s+to))\b"
_CLAUSES = r"\bmatch\s*\{(?P<clauses>[^{}]*(?:\{[^{}]*\}[^{}]*)*)\}?"
_IS_A_CLAUSE = "a condition is a clause of match"
_PARAMETERS = r"\bquery\s+\w+\s*\((?:[^()]*,)?\s*"
_COUNT = r"\s*\{?\s*(?:\d+|\$\w+)\s*\}?"
_SCALARS = {
    **dict.fromkeys(("string", "text", "varchar", "char"), "String"),
    **dict.fromkeys(("int", "integer", "bigint", "long", "number"), "I64"),
    **dict.fromkeys(("float", "double", "real", "decimal"), "F64"),
    **dict.fromkeys(("bool", "boolean"), "Bool"),
    **dict.fromkeys(("datetime", "timestamp"), "DateTime"),
    "date": "Date",
}
_SYMBOLS = {"≠": "!=", "≤": "<=", "≥": ">="}

_STATEMENTS: Final = (
    _ForeignStatement(
        rf"(?i:match)\s*(?P<path>\([^\n;]*?)\s*(?i:return)\s+(?P<items>[^{{}}\n;]*?){_END}|"
        r"(?i:select|from|with|unwind)\b[^\n]*",
        _show_query,
    ),
    _ForeignStatement(
        r"(?i:update)\s+(?P<type>\w+)\s+(?i:set)\s+\{?(?P<items>[^{}\n]*?)\}?\s*(?i:where)\s+(?P<where>[^{}\n;]*)",
        _show_update,
    ),
    _ForeignStatement(
        r"(?i:insert)\s+(?i:into)\s+(?P<type>\w+)(?:\s*\((?P<names>[^()\n]*)\)\s*(?i:values)\s*"
        r"\((?P<values>[^()\n]*)\))?(?P<items>\s*\{[^{}]*\})?",
        _show_insert,
    ),
    _ForeignStatement(
        r"(?i:create|merge)\s*\(?\s*(?:\w*\s*:)?\s*(?P<type>[A-Z]\w*)\s*(?P<items>\{[^{}\n]*\})?(?P<names>)(?P<values>)",
        _show_insert,
    ),
    _ForeignStatement(
        r"(?i:delete)\s+(?i:from)\s+(?P<type>\w+)(?:\s+(?i:where)\s+(?P<where>[^{}\n;]*))?",
        lambda parts: f"delete {_recase_type(parts)} where {_show_comparison_of_property(parts['where'])}",
    ),
    _ForeignStatement(rf"(?i:\b(?:limit|offset|skip){_COUNT}(?:\s*,{_COUNT})?\s*)+", _show_paging),
)

_HABITS: Final = (
    # Conditions.
    _Habit(rf"(?P<negation>)~\s*{_VALUE}?", _show_comparison, rf"{_SUBJECT}\s*(?P<operator>=)"),
    _Habit(rf"(?P<negation>!)?(?P<operator>~)\s*{_VALUE}?", _show_comparison, _SUBJECT),
    _Habit(
        rf"{_NEGATION}(?P<operator>(?i:between))\s+{_VALUE}\s+(?i:and)\s+(?P<upper>[^\s{{}}]+)",
        _show_comparison,
        _SUBJECT,
    ),
    _Habit(rf"{_NEGATION}{_TEXT_OPERATOR}\s*{_VALUE}?", _show_comparison, _SUBJECT),
    _Habit(rf"{_NEGATION}(?i:in)\s*[\[(](?P<items>[^()\[\]\n]*)", _show_membership, _SUBJECT),
    _Habit(r"(?P<items>[,)][^()\n]*)", _show_membership, rf"{_SUBJECT}\s+in\s*\((?P<first>[^()]*)"),
    _Habit(r"(?i:is)\s+(?P<negation>(?i:not)\s+)?(?i:null)\b", _show_null_test, _SUBJECT),
    _Habit(r"(?i:null)\b", _show_null_test, rf"{_SUBJECT}\s*(?P<negation>!=|<>|==?)"),
    _Habit(r"(?P<negation>(?i:not)\s+)?(?i:null)\b", _show_null_test, rf"{_SUBJECT}\s+is"),
    _Habit(r"(?P<type>[A-Z][a-z]\w*)", "<subject>: <type>", r"(?P<subject>\$\w+)\s+is"),
    _Habit(r"(?i:is)\s+(?P<type>[A-Z][a-z]\w*)", "<subject>: <type>", r"(?P<subject>\$\w+)"),
    _Habit(r"(?i:not\s+exists)\s*[({](?P<items>[^{}()\n]*)", "not { <items> }"),
    _Habit(r"(?i:exists)\s*[({](?P<items>[^{}()\n]*)", "not { <items> }", r"\b(?i:not)"),
    _Habit(r"[^$\n]*", "<tested> is not null", r"\bexists\s*\(\s*(?P<tested>\$\w+\.\w+)\s*\)"),
    _Habit(r"(?i:exists)\s*\((?P<items>[^{}()\n]*)", "exists { <items> }"),
    _Habit(r"(?P<rest>[^(){}\n]*)\)", "exists { <first> <rest> }", r"\bexists\s*\((?P<first>[^(){}]*)"),
    _Habit(r"NOT(?=\s*\(|\s*\{)", "not", remark="keywords are lowercase"),
    _Habit(rf"(?i:not)\s+{_SOME_ITEMS}", lambda parts: f"not ({_tidy(parts['items'])})"),
    _Habit(rf"(?=\$){_SOME_ITEMS}", lambda parts: f"not ({_tidy(parts['items'])})", r"\bnot"),
    _Habit(rf"<>\s*{_VALUE}", "$x.<name> != <value>", r"(?P<name>\w+)\s*:", "as a clause of its own"),
    _Habit("[≠≤≥]", lambda parts: _SYMBOLS[parts["found"]]),
    _Habit(r"WHERE\b", "where", r"\bdelete\s+[A-Z]\w*|\bset\s*\{[^{}]*\}", "keywords are lowercase"),
    _Habit(rf"(?i:where)\b\s*{_ITEMS}", _show_clauses, _CLAUSES, _IS_A_CLAUSE),
    _Habit(_SOME_ITEMS, _show_clauses, rf"{_CLAUSES}\bwhere", _IS_A_CLAUSE),
    _Habit(r"(?i:where)\b", "match { $x: Type  $x.p > 1 }", remark=_IS_A_CLAUSE),
    # Parts of a read.
    _Habit(r"(?i:select)\b", "match { $x: Type } return { $x.p }"),
    _Habit(rf"(?i:return)\b(?P<distinct>\s+(?i:distinct)\b)?\s*{_ITEMS}", _show_return),
    _Habit(rf"(?P<distinct>(?i:distinct))\b\s*{_ITEMS}", _show_return, r"\breturn\s*\{?"),
    _Habit(_SOME_ITEMS, _show_return, r"\breturn(?P<distinct>\s+distinct)?"),
    _Habit(r"(?i:match)\s*(?P<items>\([^\n]*)", _show_match),
    _Habit(r"(?P<items>\([^\n]*)", _show_match, r"\bmatch"),
    _Habit(rf"(?=\$){_SOME_ITEMS}", "match { <items> }", r"\bmatch"),
    _Habit(rf"(?i:optional)\b(?:\s*(?i:match)\b)?\s*{_IN_BRACES}", _show_optional, remark="inside match { ... }"),
    _Habit(rf"(?:match\b\s*)?{_IN_BRACES}", _show_optional, r"\boptional", "inside match { ... }"),
    _Habit(r"(?i:(?:left|right|inner|outer|full)\s+)*(?i:join)\b", "$a edge $b", remark="or optional { $a edge $b }"),
    _Habit(r"(?i:count)\s*\(\s*\*?\s*\)", lambda parts: f"count({_first_variable(parts)})"),
    _Habit(r"\*?\s*\)", lambda parts: f"count({_first_variable(parts)})", r"\bcount\s*\("),
    _Habit(
        r"(?P<function>(?i:count|collect))\s*\(\s*(?i:distinct)\s+(?P<items>[^()\n]*)\)",
        lambda parts: f"{parts['function'].lower()}(distinct {_tidy(parts['items'])})",
    ),
    _Habit(
        r"(?i:case\s+when)\s+(?P<condition>[^{}\n]+?)\s+(?i:then)\s+(?P<value>\S+)\s+(?i:else)\s+(?P<other>\S+)\s+(?i:end)\b",
        "case { <condition>: <value>, else: <other> }",
    ),
    _Habit(r"(?i:case\s+when)\b", "case { $x.p > 1: 1, else: 0 }"),
    _Habit(rf"(?i:order\s+by)\b\s*{_ITEMS}", lambda parts: f"order {{ {_tidy(parts['items']) or '$x.p'} }}"),
    _Habit(rf"(?:by\b\s*)?{_ITEMS}", lambda parts: f"order {{ {_tidy(parts['items']) or '$x.p'} }}", r"\border"),
    _Habit(
        rf"(?i:group\s+by)\b\s*{_ITEMS}",
        lambda parts: f"return {{ {_tidy(parts['items']) or '$x.p'}, count({_first_variable(parts)}) as n }}",
        remark="what is no aggregate is a group",
    ),
    _Habit(rf"(?i:having)\b\s*{_ITEMS}", lambda parts: f"having {{ {_tidy(parts['items']) or 'n > 1'} }}"),
    _Habit(_SOME_ITEMS, lambda parts: f"having {{ {_tidy(parts['items'])} }}", r"\bhaving"),
    _Habit(r"(?i:union\s+all)\b", "union", remark="it keeps every row"),
    _Habit(r"UNION\b", "union distinct", remark="union alone keeps every row"),
    _Habit(r"(?i:fetch\s+(?:first|next))\s+(?P<count>\d+)", "limit <count>"),
    _Habit(r"(?i:with)\b", "having { n > 1 }", remark="a condition on an aggregate; there is no with"),
    # Statements.
    _Habit(rf"(?i:set)\s+\$?(?P<variable>\w+)\.(?P<property>\w+)\s*=\s*{_VALUE}", _show_set),
    _Habit(r"(?i:remove)\s+\$?(?P<variable>\w+)\.(?P<property>\w+)", _show_set),
    _Habit(
        r"(?i:(?:detach\s+)?delete)\s+\$?(?P<variable>[a-z_]\w*)",
        "delete $<variable>",
        r"\}",
        "the edges of a node go with it",
    ),
    _Habit(rf"==?\s*{_VALUE}", "<name>: <value>", r"[{,]\s*(?P<name>\w+)"),
    # Variables and types.
    _Habit(r"\.(?P<property>\w+)", "$<name>.<property>", r"(?<![\w$.])(?P<name>[a-z_]\w*)"),
    _Habit(r":\s*(?P<type>[A-Z]\w*)", "$<name>: <type>", r"(?<![\w$.])(?P<name>[a-z_]\w*)"),
    _Habit(r"(?P<name>[a-z_]\w*)\s*:?\s*(?P<type>[A-Z]\w*)", "$<name>: <type>", _PARAMETERS),
    _Habit(r"(?P<type>[A-Z]\w*)", "<name>: <type>", rf"{_PARAMETERS}(?P<name>\$\w+)"),
    _Habit(r"\w+", lambda parts: _SCALARS.get(parts["found"].lower()), rf"{_PARAMETERS}\$\w+\s*:\s*\[?"),
    _Habit(r"[:@](?P<name>[a-z_]\w*)", "$<name>", r"[=<>]", "a parameter: query name($p: String)"),
    _Habit(r"\?", "$p", r"[=<>]", "a parameter: query name($p: String)"),
    # Edges.
    _Habit(
        r"(?P<edge>[A-Z][A-Z0-9_]+)\s+(?P<target>\$\w+)",
        lambda parts: f"{parts['source']} {recase_edge(parts['edge'])} {parts['target']}",
        r"(?P<source>\$\w+)",
    ),
    _Habit(
        r"[*+]\s*(?P<low>\d+)?\s*(?P<dots>\.\.)?\s*(?P<high>\d+)?\s*(?P<target>\$\w+)",
        _show_walk,
        r"(?P<source>\$\w+)\s+(?P<edge>[a-z]\w*)",
    ),
    _Habit(r"\.\.?\s*(?P<high>\d+)?\s*\}", "<edge>{<low>,<high>}", r"(?P<edge>[a-z_]\w*)\s*\{\s*(?P<low>\d+)"),
    # Keywords in uppercase.
    _Habit(r"[A-Z]+\b", lambda parts: _lower_keyword(parts["found"]), remark="keywords are lowercase"),
)
