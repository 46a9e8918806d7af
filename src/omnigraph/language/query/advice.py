"""Messages for a ``.gq`` text that does not parse: names of terminals, and hints for common mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph.late_imports import LateModule
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.language.query import foreign_forms
else:
    # Most texts parse.
    foreign_forms = LateModule("omnigraph.language.query.foreign_forms")

_LOOK_BACK = 500
_TEXT = "put a text in double quotes"
_EDGE = "an edge is written with a lowercase first letter: '<recased>'"
_PARTS = "the parts of a read are match, return, having, order { ... }, limit n and offset n, in this order"
_AFTER_UNION = "order, limit and offset stand once, after the last branch of a union"
_WHICH = "say which ones: where property = value"
_SET = "write update $x set { property: value }, where $x is a variable of the match"
_MATCH_FIRST = (
    "put match { $x: Type ... } before the first statement, or write a type: update Type set { ... } where ..."
)
_CASE = "write case { condition: value, else: value }"
_ONE_CONDITION = "where takes one comparison of a property, with = != < <= > or >="

TERMINAL_WORDS = {
    "QUERY": "'query'",
    "DESCRIPTION": "'@description'",
    "INSTRUCTION": "'@instruction'",
    "_MATCH": "'match'",
    "_RETURN": "'return'",
    "_ORDER": "'order'",
    "_LIMIT": "'limit'",
    "_OFFSET": "'offset'",
    "_HAVING": "'having'",
    "UNION": "'union'",
    "_SET": "'set'",
    "_WHERE": "'where'",
    "INSERT": "'insert'",
    "UPDATE": "'update'",
    "DELETE": "'delete'",
    "NOT": "'not'",
    "EXISTS": "'exists'",
    "OPTIONAL": "'optional'",
    "CASE": "'case'",
    "_ELSE": "'else'",
    "AND": "'and'",
    "OR": "'or'",
    "AS": "'as'",
    "ASC": "'asc'",
    "DESC": "'desc'",
    "VAR": "a variable",
    "IDENT": "a name",
    "EDGE": "an edge",
    "TYPE": "a type",
    "OPERATOR": "a comparison",
    "WORD_OPERATOR": "a comparison",
    "IS": "a comparison",
    "STRING": "a text",
    "INTEGER": "a number",
    "FLOAT": "a number",
    "UNSIGNED": "a number",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "DOT": "'.'",
    "VBAR": "'|'",
}
"""The names of terminals in "expected ...". Terminals that would not help are left out."""


@dataclass(frozen=True, slots=True)
class _Mistake:
    """A common mistake: a pattern for the text at the error, the hint, and a pattern for the text before the error.

    ``<recased>`` in the hint is the word at the error, its first letter in the other case; ``<lowercase>`` is the
    word in lowercase.
    """

    at: str
    hint: str
    before: str = ""

    def hint_for(self, text: str, offset: int) -> str | None:
        found = re.compile(self.at).match(text, offset)
        if found is None or re.search(rf"(?:{self.before})\s*\Z", text[max(0, offset - _LOOK_BACK) : offset]) is None:
            return None
        word = found.group()
        return self.hint.replace("<recased>", word[:1].swapcase() + word[1:]).replace("<lowercase>", word.lower())


_UNCLOSED = (
    _Mistake(r'"(?:[^"\\]|\\.)*\Z', "close it with a double quote"),
    _Mistake(r"/\*", "close it with */"),
)
_MISTAKES = (
    _Mistake("#", "a comment begins with //"),
    _Mistake(";", "leave it out: nothing separates clauses or statements"),
    _Mistake("['`\u2018-\u201d]", _TEXT),
    _Mistake("&", "write and, or leave it out: all clauses of a match must hold"),
    _Mistake(r"\|\|", "write or between conditions, concat(a, b) for texts"),
    _Mistake(
        r"\|", "a variable has one type, or an interface that the types implement", before=r"\$\w+\s*:\s*[A-Z]\w*"
    ),
    _Mistake(r"\|", "write or"),
    _Mistake(r"(?i:intersect|except|minus)\b", "say it in one match, with exists { ... } or not { ... }"),
    _Mistake(r"(?i:nulls)\b", "leave it out: null comes first, and last with desc"),
    _Mistake("%", "there is no remainder: compute it where the result is used"),
    _Mistake(r"(?i:case)\b(?!\s*\{)|(?i:when)\b", _CASE),
    _Mistake(r"(?i:then|end)\b", _CASE, before=r"\b(?i:when|then|else)\b[^{}]*"),
    _Mistake(r"else\b", "put a comma before it", before=r":\s*[^,{}:]+"),
    _Mistake(r"(?!Vector\b)[A-Z]\w*(?=\s*\()", "a function is written in lowercase: '<lowercase>'"),
    _Mistake(r"-(?=\s*[$(a-z])", "there is no sign before a value: write 0 - $x.p", before=r"[{,(:=<>+*/-]"),
    _Mistake("!", "write != for unequal, or not ( ... ) around a condition"),
    _Mistake(r"\*", "write $x.* for all properties of a node or an edge", before=r"[{,]"),
    _Mistake(r"[0-9.]+[eE]", "write out the digits: a number has no exponent"),
    _Mistake(r"\.[0-9]", "write a digit before the point"),
    _Mistake(r"\$[A-Z]", "a variable begins with a lowercase letter"),
    _Mistake(r"[-<(\[]", "a traversal is written $a edge $b, or $a <edge> $b", before=r"\$\w+"),
    # Names and types in the wrong case, texts without quotes.
    _Mistake(r"[A-Z]\w*", _EDGE, before=r"\$\w+(?:\s*\$\w+\s*:)?"),
    _Mistake(r"[A-Z]\w*(?=\s*>)", _EDGE, before="<"),
    _Mistake(r"enum\b", "write String", before=r"\$\w+\s*:"),
    _Mistake(r"[a-z_]\w*", "a type begins with an uppercase letter: '<recased>'", before=r"\$\w+\s*:\s*\[?"),
    _Mistake(r"[a-z_]\w*", "a type begins with an uppercase letter: '<recased>'", before=r"\b(?:insert|update|delete)"),
    # Statements with a match, and without one; conditions as values.
    _Mistake(r"(?i:set)\b", _SET, before=r"\}"),
    _Mistake(r"[$a-z]", "write set { property: value, ... }", before=r"\bset"),
    _Mistake(r"\{", "test it in the match: no block is a value here", before=r"[{,:\w]\s*:\s*(?:exists|not)"),
    _Mistake(r"[=<>]|!=|is\b", "put the condition in parentheses", before=r"\b(?:set|insert\s+\w+)\s*\{[^{}]*:[^{},]*"),
    _Mistake(r"\$", _MATCH_FIRST, before=r"\b(?:update|delete)"),
    _Mistake(r"[A-Z]\w*", "after a match, name a variable that it binds: $x", before=r"\b(?:update|delete)"),
    _Mistake(r"[A-Za-z_]\w*", _TEXT, before=r"[\w\"]\s*:|[=<>\[]|\b(?:contains|starts_with|ends_with|matches|in)"),
    # A pattern among conditions.
    _Mistake(r"[:$]", "put the pattern in exists { ... }", before=r"\b(?:and|or|not\s*\()\s+\(*\$\w+(?:\s+[a-z_]\w*)?"),
    _Mistake('"', "an alias is a name without quotes", before=r"\bas"),
    # Parts that are missing or in the wrong place.
    _Mistake(r"[{@]", "write the parentheses even when there are no parameters: ()", before=r"\bquery\s+\w+"),
    _Mistake(r"[)}\]]", "leave out the comma before it", before=","),
    _Mistake(r"(?:match|insert|update|delete)\b", "write query name() { ... } around it", before=r"\A"),
    _Mistake(r"[-\d$]", "give two rankings or more, then k", before=r"\brrf\s*\([^,()]*\((?:[^()]|\([^()]*\))*\)\s*,"),
    _Mistake(r"\.", "k is a number or a parameter", before=r"\brrf\s*\([^{}]*,\s*\$\w+"),
    _Mistake(r"(?i:all)\b", "leave it out: union keeps every row, union distinct each once", before=r"\bunion"),
    _Mistake(r"union\b", _AFTER_UNION, before=r"\}|\d|\$\w+"),
    _Mistake(r"(?:match|return|having|order|limit|offset)\b", _PARTS),
    _Mistake(r"(?:insert|update|delete)\b", "a query reads or writes, not both: make it two queries", before=r"\}|\d"),
    _Mistake("", _WHICH, before=r"\bdelete\s+[A-Z]\w*|\bupdate\s+[A-Z]\w*\s+set\s*\{[^{}]*\}"),
    _Mistake("", "write update Type set { ... } where ...", before=r"\bupdate\s+[A-Z]\w*"),
    _Mistake("[a-z]", _ONE_CONDITION, before=r"\bwhere\s+\w+(?:\s*(?:[=<>]|!=).*)?"),
    _Mistake(r"\{", "close the block before it with a brace", before=r"\b(?:return|having|order|match)"),
    _Mistake(r"\}", "the block is empty: write something between the braces, or leave it out", before=r"\{"),
    _Mistake("", "write is null, or is not null", before=r"\bis(?:\s+not)?"),
    _Mistake("", "write not ( ... ) around a condition, or not { ... } around clauses", before=r"\bnot"),
    _Mistake("-", "a limit is zero or more", before=r"\b(?:limit|offset)"),
    _Mistake("-[0-9]", "put a blank after the sign to subtract: $x.p - 1", before=r"[\w)\]\"]"),
    _Mistake("@", "the annotations of a query are @description and @instruction"),
    _Mistake(r"[A-Z]\w*", "a name begins with a lowercase letter: '<recased>'"),
)


def _find_hint(mistakes: Iterable[_Mistake], text: str, offset: int) -> str | None:
    return next((hint for mistake in mistakes if (hint := mistake.hint_for(text, offset))), None)


def advise_on_query(text: str, offset: int) -> str | None:
    """Return a hint for the syntax error at an offset, if it is a common mistake."""
    hint = (
        _find_hint(_UNCLOSED, text, offset)
        or foreign_forms.show_query_form(text, offset)
        or _find_hint(_MISTAKES, text, offset)
    )
    at_the_end = not text[offset + 1 :].strip()
    if hint is None and at_the_end and text.count("{") > text.count("}"):
        return "close the braces that are still open"
    return hint
