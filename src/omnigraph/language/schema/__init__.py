"""`.pg`: grammar, parser, checks, schema IR, catalog and migration plan.

``parse_schema`` reads a schema; ``check_schema`` only lists its problems. Neither loads Arrow, unless a ``@check``
pattern has to be tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import Problem, SchemaError
from omnigraph.language.schema.catalog import (
    Cardinality,
    Catalog,
    EdgeType,
    Embedding,
    NodeType,
    PatternRule,
    Property,
    RangeRule,
)
from omnigraph.language.schema.codes import PROBLEM_CODES, STRICTER_THAN_0_8, SYNTAX
from omnigraph.language.schema.defaults import parse_default
from omnigraph.language.schema.identity import TableKey, split_by_kind, table_directory
from omnigraph.language.schema.ir import (
    ColumnRule,
    ColumnRuleKind,
    Constraint,
    SchemaIR,
    TypeKind,
    build_catalog,
)
from omnigraph.language.schema.ir_json import decode_ir, encode_ir, encode_state, hash_ir
from omnigraph.language.source import Source, read_source
from omnigraph.late_imports import import_late
from omnigraph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from omnigraph.language.schema import ast
    from omnigraph.language.schema.check import SYSTEM_COLUMNS
    from omnigraph.language.schema.migration import REQUIRED_WITHOUT_DEFAULT, plan_migration
    from omnigraph.language.schema.property_insertion import declare_property
    from omnigraph.language.schema.schema_layout import format_schema
    from omnigraph.language.schema.steps import (
        AddConstraint,
        AddProperty,
        AddType,
        ChangeCardinality,
        DropConstraint,
        DropMode,
        DropProperty,
        DropType,
        ExtendEnum,
        MigrationPlan,
        MigrationStep,
        NarrowEnum,
        PropertyStep,
        RelaxProperty,
        RenameProperty,
        RenameType,
        RequireProperty,
        Tier,
        UnsupportedChange,
        UpdatePropertyMetadata,
        UpdateTypeMetadata,
        WidenProperty,
    )
else:
    # A graph that is opened has its schema as IR: it needs no parser, no checks and no migrations.
    __getattr__ = import_late(
        __name__,
        {
            "check": ("SYSTEM_COLUMNS",),
            "migration": ("REQUIRED_WITHOUT_DEFAULT", "plan_migration"),
            "property_insertion": ("declare_property",),
            "schema_layout": ("format_schema",),
            "steps": (
                "AddConstraint",
                "AddProperty",
                "AddType",
                "ChangeCardinality",
                "DropConstraint",
                "DropMode",
                "DropProperty",
                "DropType",
                "ExtendEnum",
                "MigrationPlan",
                "MigrationStep",
                "NarrowEnum",
                "PropertyStep",
                "RelaxProperty",
                "RenameProperty",
                "RenameType",
                "RequireProperty",
                "Tier",
                "UnsupportedChange",
                "UpdatePropertyMetadata",
                "UpdateTypeMetadata",
                "WidenProperty",
            ),
        },
    )

__all__ = [
    "PROBLEM_CODES",
    "REQUIRED_WITHOUT_DEFAULT",
    "STRICTER_THAN_0_8",
    "SYNTAX",
    "SYSTEM_COLUMNS",
    "AddConstraint",
    "AddProperty",
    "AddType",
    "Cardinality",
    "Catalog",
    "ChangeCardinality",
    "ColumnRule",
    "ColumnRuleKind",
    "Constraint",
    "DropConstraint",
    "DropMode",
    "DropProperty",
    "DropType",
    "EdgeType",
    "Embedding",
    "ExtendEnum",
    "MigrationPlan",
    "MigrationStep",
    "NarrowEnum",
    "NodeType",
    "PatternRule",
    "Property",
    "PropertyStep",
    "RangeRule",
    "RelaxProperty",
    "RenameProperty",
    "RenameType",
    "RequireProperty",
    "Schema",
    "SchemaIR",
    "TableKey",
    "Tier",
    "TypeKind",
    "UnsupportedChange",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "WidenProperty",
    "build_catalog",
    "check_schema",
    "declare_property",
    "decode_ir",
    "encode_ir",
    "encode_state",
    "format_schema",
    "hash_ir",
    "parse_default",
    "parse_schema",
    "plan_migration",
    "split_by_kind",
    "table_directory",
]


@dataclass(frozen=True, slots=True)
class Schema:
    """A valid schema: its text, its IR with its hash, its catalog, and the problems that were tolerated."""

    text: str
    ir: SchemaIR
    hash: str
    catalog: Catalog
    warnings: tuple[Problem, ...] = ()

    def to_svg(self, rows: Mapping[str, int] | None = None) -> str:
        """Return a picture of the types; ``rows`` are counts by table key, where they are known."""
        # A late import: few who read a schema draw it.
        from omnigraph.language.schema.picture import draw_catalog

        return draw_catalog(self.catalog, rows or {})

    def _repr_html_(self) -> str:
        """Return the picture, for notebooks."""
        return self.to_svg()


def parse_schema(source: str | Path | Source, *, tolerated: Collection[str] = ()) -> Schema:
    """Read a schema; raise :class:`SchemaError` with all problems if it is wrong.

    Problems with a ``tolerated`` code become warnings: a graph of release 0.8 is opened with
    :data:`STRICTER_THAN_0_8`.
    """
    text, file, problems = _read_and_check(source)
    errors = [problem for problem in problems if problem.code not in tolerated]
    if file is None or errors:
        raise SchemaError(errors or problems)
    from omnigraph.language.schema.syntax_to_ir import build_ir

    ir = build_ir(file)
    return Schema(text, ir, hash_ir(ir), build_catalog(ir), tuple(problems))


def check_schema(source: str | Path | Source) -> list[Problem]:
    """Return all problems of a schema."""
    return _read_and_check(source)[2]


def _read_and_check(source: str | Path | Source) -> tuple[str, ast.SchemaFile | None, list[Problem]]:
    from omnigraph.language.schema.check import check_file
    from omnigraph.language.schema.parser import parse_schema_text

    found = source if isinstance(source, Source) else read_source(source, ".pg")
    if isinstance(found, Problem):
        return "", None, [replace(found, code=SYNTAX)]
    parsed = parse_schema_text(found)
    if isinstance(parsed, list):
        return found.text, None, parsed
    return found.text, parsed, check_file(parsed, found)
