"""Lets the reference show the fields of our dataclasses: it knows only the decorator of the standard library."""

from __future__ import annotations

import ast
from typing import Any

import griffe

OURS = "omnigraph.lazy_dataclass.dataclass"
ORIGINAL = griffe.ExprName("dataclass", griffe.ExprName("dataclasses"))


class DataclassSignatures(griffe.Extension):
    """Takes our decorator for the original, which it stands for."""

    def on_class_instance(
        self,
        *,
        node: ast.AST | griffe.ObjectNode,  # noqa: ARG002  griffe passes it
        cls: griffe.Class,
        agent: griffe.Visitor | griffe.Inspector,  # noqa: ARG002  griffe passes it
        **kwargs: Any,  # noqa: ARG002  griffe passes more
    ) -> None:
        """Look at the decorators of a class that was read."""
        for decorator in cls.decorators:
            value = decorator.value
            if isinstance(value, griffe.Expr) and value.canonical_path == OURS:
                cls.labels.add("dataclass")
                if isinstance(value, griffe.ExprCall):
                    value.function = ORIGINAL
                else:
                    decorator.value = ORIGINAL
