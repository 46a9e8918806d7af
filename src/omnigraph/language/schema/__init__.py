"""`.pg`: grammar, parser, checks, schema IR, catalog, Arrow schemas, migration plan.

``parse_schema`` is the way in; ``check_schema`` only lists what is wrong. ``arrow.py`` is not imported here, so
that reading a schema does not load Arrow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.errors import Problem, SchemaError
from omnigraph.language.schema import ast
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
from omnigraph.language.schema.check import check
from omnigraph.language.schema.codes import PROBLEM_CODES, STRICTER_THAN_0_8, SYNTAX
from omnigraph.language.schema.defaults import default_value
from omnigraph.language.schema.identity import TableKey, split_by_kind, table_directory
from omnigraph.language.schema.ir import ColumnRule, ColumnRuleKind, Constraint, SchemaIR, TypeKind, catalog_of, ir_of
from omnigraph.language.schema.ir_json import ir_from_json, ir_hash, ir_to_json, state_json
from omnigraph.language.schema.migration import REQUIRED_WITHOUT_DEFAULT, plan_migration
from omnigraph.language.schema.parser import parse_schema_text
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
    NarrowEnum,
    PropertyStep,
    RelaxProperty,
    RenameProperty,
    RenameType,
    RequireProperty,
    Step,
    Tier,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
)
from omnigraph.language.source import Source, read_source

__all__ = [
    "PROBLEM_CODES",
    "REQUIRED_WITHOUT_DEFAULT",
    "STRICTER_THAN_0_8",
    "SYNTAX",
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
    "Step",
    "TableKey",
    "Tier",
    "TypeKind",
    "UnsupportedChange",
    "UpdatePropertyMetadata",
    "UpdateTypeMetadata",
    "WidenProperty",
    "catalog_of",
    "check_schema",
    "default_value",
    "ir_from_json",
    "ir_hash",
    "ir_to_json",
    "parse_schema",
    "plan_migration",
    "split_by_kind",
    "state_json",
    "table_directory",
]


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that holds: its text, its canonical form with its hash, its catalog, and what was tolerated in it."""

    text: str
    ir: SchemaIR
    hash: str
    catalog: Catalog
    warnings: tuple[Problem, ...] = ()


def parse_schema(source: str | Path | Source, *, tolerated: Collection[str] = ()) -> Schema:
    """Read a schema; :class:`SchemaError` lists everything that is wrong with it.

    Problems with a ``tolerated`` code become warnings: a graph of release 0.8 is opened with
    :data:`STRICTER_THAN_0_8`.
    """
    text, file, problems = _examined(source)
    errors = [problem for problem in problems if problem.code not in tolerated]
    if file is None or errors:
        raise SchemaError(errors or problems)
    ir = ir_of(file)
    return Schema(text, ir, ir_hash(ir), catalog_of(ir), tuple(problems))


def check_schema(source: str | Path | Source) -> list[Problem]:
    """Everything that is wrong with a schema."""
    return _examined(source)[2]


def _examined(source: str | Path | Source) -> tuple[str, ast.SchemaFile | None, list[Problem]]:
    found = source if isinstance(source, Source) else read_source(source, ".pg")
    if isinstance(found, Problem):
        return "", None, [replace(found, code=SYNTAX)]
    parsed = parse_schema_text(found)
    if isinstance(parsed, list):
        return found.text, None, parsed
    return found.text, parsed, check(parsed, found)
