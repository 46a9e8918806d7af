"""From `.pg` text to its syntax tree, or to every syntax problem in it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import cast

from lark import (
    Token,
    Transformer,
    v_args,  # pyright: ignore[reportUnknownVariableType]  # Lark leaves its wrapper untyped
)

from omnigraph.errors import Problem
from omnigraph.language.schema import ast
from omnigraph.language.schema.advice import advice
from omnigraph.language.schema.codes import SYNTAX
from omnigraph.language.source import Source
from omnigraph.language.syntax import Grammar, load_lark, span_of, unquoted
from omnigraph.language.types import Scalar

_DECLARATION = re.compile(r"^[ \t]*(?=(?:interface|node|edge)(?![A-Za-z0-9_]))", re.MULTILINE)

_WORDS = {
    "_INTERFACE": "'interface'",
    "_NODE": "'node'",
    "_EDGE": "'edge'",
    "_IMPLEMENTS": "'implements'",
    "TYPE": "a type name",
    "IDENT": "a name",
    "BASE": "a type",
    "ENUM_VALUE": "an enum value",
    "STRING": "a string",
    "UINT": "a number",
    "NEGATIVE": "a number",
    "AT": "an annotation",
    "KEY": "a constraint",
    "CARD": "'@card'",
    "ARROW": "'->'",
    "DOTS": "'..'",
    "COLON": "':'",
    "COMMA": "','",
    "EQUAL": "'='",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
}

_LITERAL_KINDS = {
    "STRING": ast.LiteralKind.STRING,
    "FLOAT": ast.LiteralKind.FLOAT,
    "UINT": ast.LiteralKind.INTEGER,
    "BOOL": ast.LiteralKind.BOOL,
}


def parse_schema_text(source: Source) -> ast.SchemaFile | list[Problem]:
    """The syntax tree of a text, or every syntax problem in it."""
    return _grammar().parse(source)


@cache
def _grammar() -> Grammar[ast.SchemaFile]:
    parser = load_lark(__package__ or "", cast("Transformer[Token, object]", _TreeBuilder()))
    return Grammar(parser, SYNTAX, _DECLARATION, _WORDS, advice)


def _name(token: Token) -> ast.Name:
    return ast.Name(str(token), span_of(token))


def _number(token: Token) -> ast.Literal:
    kind = ast.LiteralKind.FLOAT if "." in token else ast.LiteralKind.INTEGER
    return ast.Literal(kind, str(token), span_of(token))


_Body = tuple[tuple[ast.Property, ...], tuple[ast.Constraint, ...]]


@v_args(inline=True)
class _TreeBuilder(Transformer[Token, ast.SchemaFile]):
    """One method per rule of the grammar; no state, so that threads can share it."""

    def start(self, *declarations: ast.Interface | ast.Node | ast.Edge) -> ast.SchemaFile:
        return ast.SchemaFile(
            tuple(each for each in declarations if isinstance(each, ast.Interface)),
            tuple(each for each in declarations if isinstance(each, ast.Node)),
            tuple(each for each in declarations if isinstance(each, ast.Edge)),
        )

    def interface(self, name: Token, *properties: ast.Property) -> ast.Interface:
        return ast.Interface(_name(name), properties)

    def node(
        self,
        name: Token,
        annotations: tuple[ast.Annotation, ...],
        implements: tuple[ast.Name, ...] | None,
        body: _Body,
    ) -> ast.Node:
        return ast.Node(_name(name), annotations, implements or (), *body)

    def edge(
        self,
        name: Token,
        from_type: Token,
        to_type: Token,
        cardinality: ast.Cardinality | None,
        annotations: tuple[ast.Annotation, ...],
        body: _Body | None,
    ) -> ast.Edge:
        return ast.Edge(_name(name), _name(from_type), _name(to_type), cardinality, annotations, *(body or ((), ())))

    def implements(self, *names: Token) -> tuple[ast.Name, ...]:
        return tuple(_name(name) for name in names)

    def cardinality(self, card: Token, minimum: Token, maximum: Token | None) -> ast.Cardinality:
        span = span_of(card).to(span_of(maximum or minimum))
        return ast.Cardinality(_number(minimum), _number(maximum) if maximum else None, span)

    def body(self, *members: ast.Property | ast.Constraint) -> _Body:
        return (
            tuple(each for each in members if isinstance(each, ast.Property)),
            tuple(each for each in members if isinstance(each, ast.Constraint)),
        )

    def property(self, name: Token, type_: ast.TypeExpression, annotations: tuple[ast.Annotation, ...]) -> ast.Property:
        return ast.Property(_name(name), type_, annotations)

    def required(self, core: ast.TypeExpression) -> ast.TypeExpression:
        return core

    def optional(self, core: ast.TypeExpression) -> ast.TypeExpression:
        return replace(core, nullable=True)

    def base(self, scalar: Token) -> ast.TypeExpression:
        return ast.TypeExpression(Scalar(scalar), span=span_of(scalar))

    def list(self, scalar: Token) -> ast.TypeExpression:
        return ast.TypeExpression(Scalar(scalar), is_list=True, span=span_of(scalar))

    def enum(self, *values: Token) -> ast.TypeExpression:
        names = tuple(_name(value) for value in values)
        return ast.TypeExpression(Scalar.STRING, enum_values=names, span=names[0].span.to(names[-1].span))

    def vector(self, vector: Token, dimension: Token) -> ast.TypeExpression:
        return ast.TypeExpression(Scalar.VECTOR, dimension=_number(dimension), span=span_of(vector))

    def annotations(self, *annotations: ast.Annotation) -> tuple[ast.Annotation, ...]:
        return annotations

    def annotation(
        self,
        name: Token,
        value: ast.Literal | None,
        keywords: tuple[tuple[ast.Name, ast.Literal], ...] | None,
    ) -> ast.Annotation:
        return ast.Annotation(_name(name), value, keywords or ())

    def keywords(self, *keywords: tuple[ast.Name, ast.Literal]) -> tuple[tuple[ast.Name, ast.Literal], ...]:
        return keywords

    def keyword(self, name: Token, value: ast.Literal) -> tuple[ast.Name, ast.Literal]:
        return _name(name), value

    def word(self, token: Token) -> ast.Literal:
        return ast.Literal(ast.LiteralKind.STRING, str(token), span_of(token))

    def name(self, token: Token) -> ast.Name:
        return _name(token)

    def constraint(self, opening: Token, *arguments: ast.Argument) -> ast.Constraint:
        kind = ast.ConstraintKind(opening.type.lower())
        return ast.Constraint(kind, arguments, span_of(opening))

    def bounds_from(self, minimum: Token, maximum: Token | None = None) -> ast.Bounds:
        span = span_of(minimum).to(span_of(maximum or minimum))
        return ast.Bounds(_number(minimum), _number(maximum) if maximum else None, span)

    def bounds_to(self, maximum: Token) -> ast.Bounds:
        return ast.Bounds(None, _number(maximum), span_of(maximum))

    def literal(self, token: Token) -> ast.Literal:
        kind = _LITERAL_KINDS[token.type]
        text = unquoted(token) if kind is ast.LiteralKind.STRING else str(token)
        return ast.Literal(kind, text, span_of(token))
