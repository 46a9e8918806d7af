"""Parse `.pg` text into a syntax tree, or into a list of all syntax problems."""

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
from omnigraph.language.schema.advice import advise_on_schema
from omnigraph.language.schema.codes import SYNTAX
from omnigraph.language.source import Source
from omnigraph.language.syntax import Grammar, load_lark, span_of, unquote_string
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
    """Return the syntax tree of a text, or all syntax problems in it."""
    return _grammar().parse(source)


@cache
def _grammar() -> Grammar[ast.SchemaFile]:
    parser = load_lark(__package__ or "", cast("Transformer[Token, object]", _TreeBuilder()))
    return Grammar(parser, SYNTAX, _DECLARATION, _WORDS, advise_on_schema)


def _name(token: Token) -> ast.NameSyntax:
    return ast.NameSyntax(str(token), span_of(token))


def _number(token: Token) -> ast.LiteralSyntax:
    kind = ast.LiteralKind.FLOAT if "." in token else ast.LiteralKind.INTEGER
    return ast.LiteralSyntax(kind, str(token), span_of(token))


_Body = tuple[tuple[ast.PropertySyntax, ...], tuple[ast.ConstraintSyntax, ...]]


@v_args(inline=True)
class _TreeBuilder(Transformer[Token, ast.SchemaFile]):
    """One method per rule of the grammar. It has no state, so threads can share it."""

    def start(self, *declarations: ast.InterfaceSyntax | ast.NodeSyntax | ast.EdgeSyntax) -> ast.SchemaFile:
        return ast.SchemaFile(
            tuple(each for each in declarations if isinstance(each, ast.InterfaceSyntax)),
            tuple(each for each in declarations if isinstance(each, ast.NodeSyntax)),
            tuple(each for each in declarations if isinstance(each, ast.EdgeSyntax)),
        )

    def interface(self, name: Token, *properties: ast.PropertySyntax) -> ast.InterfaceSyntax:
        return ast.InterfaceSyntax(_name(name), properties)

    def node(
        self,
        name: Token,
        annotations: tuple[ast.AnnotationSyntax, ...],
        implements: tuple[ast.NameSyntax, ...] | None,
        body: _Body,
    ) -> ast.NodeSyntax:
        return ast.NodeSyntax(_name(name), annotations, implements or (), *body)

    def edge(
        self,
        name: Token,
        from_type: Token,
        to_type: Token,
        cardinality: ast.CardinalitySyntax | None,
        annotations: tuple[ast.AnnotationSyntax, ...],
        body: _Body | None,
    ) -> ast.EdgeSyntax:
        return ast.EdgeSyntax(
            _name(name), _name(from_type), _name(to_type), cardinality, annotations, *(body or ((), ()))
        )

    def implements(self, *names: Token) -> tuple[ast.NameSyntax, ...]:
        return tuple(_name(name) for name in names)

    def cardinality(self, card: Token, minimum: Token, maximum: Token | None) -> ast.CardinalitySyntax:
        span = span_of(card).to(span_of(maximum or minimum))
        return ast.CardinalitySyntax(_number(minimum), _number(maximum) if maximum else None, span)

    def body(self, *members: ast.PropertySyntax | ast.ConstraintSyntax) -> _Body:
        return (
            tuple(each for each in members if isinstance(each, ast.PropertySyntax)),
            tuple(each for each in members if isinstance(each, ast.ConstraintSyntax)),
        )

    def property(
        self, name: Token, type_: ast.TypeSyntax, annotations: tuple[ast.AnnotationSyntax, ...]
    ) -> ast.PropertySyntax:
        return ast.PropertySyntax(_name(name), type_, annotations)

    def required(self, core: ast.TypeSyntax) -> ast.TypeSyntax:
        return core

    def optional(self, core: ast.TypeSyntax) -> ast.TypeSyntax:
        return replace(core, nullable=True)

    def base(self, scalar: Token) -> ast.TypeSyntax:
        return ast.TypeSyntax(Scalar(scalar), span=span_of(scalar))

    def list(self, scalar: Token) -> ast.TypeSyntax:
        return ast.TypeSyntax(Scalar(scalar), is_list=True, span=span_of(scalar))

    def enum(self, *values: Token) -> ast.TypeSyntax:
        names = tuple(_name(value) for value in values)
        return ast.TypeSyntax(Scalar.STRING, enum_values=names, span=names[0].span.to(names[-1].span))

    def vector(self, vector: Token, dimension: Token) -> ast.TypeSyntax:
        return ast.TypeSyntax(Scalar.VECTOR, dimension=_number(dimension), span=span_of(vector))

    def annotations(self, *annotations: ast.AnnotationSyntax) -> tuple[ast.AnnotationSyntax, ...]:
        return annotations

    def annotation(
        self,
        name: Token,
        value: ast.LiteralSyntax | None,
        keywords: tuple[tuple[ast.NameSyntax, ast.LiteralSyntax], ...] | None,
    ) -> ast.AnnotationSyntax:
        return ast.AnnotationSyntax(_name(name), value, keywords or ())

    def keywords(
        self, *keywords: tuple[ast.NameSyntax, ast.LiteralSyntax]
    ) -> tuple[tuple[ast.NameSyntax, ast.LiteralSyntax], ...]:
        return keywords

    def keyword(self, name: Token, value: ast.LiteralSyntax) -> tuple[ast.NameSyntax, ast.LiteralSyntax]:
        return _name(name), value

    def word(self, token: Token) -> ast.LiteralSyntax:
        return ast.LiteralSyntax(ast.LiteralKind.STRING, str(token), span_of(token))

    def name(self, token: Token) -> ast.NameSyntax:
        return _name(token)

    def constraint(self, opening: Token, *arguments: ast.ArgumentSyntax) -> ast.ConstraintSyntax:
        kind = ast.ConstraintKind(opening.type.lower())
        return ast.ConstraintSyntax(kind, arguments, span_of(opening))

    def bounds_from(self, minimum: Token, maximum: Token | None = None) -> ast.BoundsSyntax:
        span = span_of(minimum).to(span_of(maximum or minimum))
        return ast.BoundsSyntax(_number(minimum), _number(maximum) if maximum else None, span)

    def bounds_to(self, maximum: Token) -> ast.BoundsSyntax:
        return ast.BoundsSyntax(None, _number(maximum), span_of(maximum))

    def literal(self, token: Token) -> ast.LiteralSyntax:
        kind = _LITERAL_KINDS[token.type]
        text = unquote_string(token) if kind is ast.LiteralKind.STRING else str(token)
        return ast.LiteralSyntax(kind, text, span_of(token))
