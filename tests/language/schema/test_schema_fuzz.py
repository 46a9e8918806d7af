"""Laws that hold for every schema, and a promise that holds for every text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import SchemaError
from omnigraph.language.schema import (
    ast,
    catalog_of,
    check_schema,
    ir_from_json,
    ir_hash,
    ir_to_json,
    parse_schema,
    plan_migration,
)
from omnigraph.language.schema.ir import ir_of
from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.schema.printer import print_schema
from omnigraph.language.source import Source
from tests.language.schema.schema_strategies import broken, budget, schema_files


@budget(40)
@given(schema_files())
def test_printing_and_parsing_give_the_same_tree(file: ast.SchemaFile) -> None:
    assert parse_schema_text(Source(print_schema(file))) == file


@budget(40)
@given(schema_files())
def test_generated_schemas_have_no_problem(file: ast.SchemaFile) -> None:
    assert [problem.render() for problem in check_schema(Source(print_schema(file)))] == []


@budget(40)
@given(schema_files())
def test_json_and_back_is_the_same_ir(file: ast.SchemaFile) -> None:
    ir = ir_of(file)
    assert ir_from_json(ir_to_json(ir)) == ir
    assert ir_hash(ir_from_json(ir_to_json(ir))) == ir_hash(ir)


@budget(40)
@given(schema_files())
def test_order_of_declarations_does_not_matter(file: ast.SchemaFile) -> None:
    reordered = ast.SchemaFile(file.interfaces[::-1], file.nodes[::-1], file.edges[::-1])
    assert ir_hash(ir_of(reordered)) == ir_hash(ir_of(file))


@budget(40)
@given(schema_files(), st.booleans())
def test_no_difference_needs_no_step(file: ast.SchemaFile, allow_data_loss: bool) -> None:
    assert plan_migration(ir_of(file), ir_of(file), allow_data_loss=allow_data_loss).steps == ()


@budget(40)
@given(schema_files(), schema_files())
def test_a_plan_without_steps_means_the_same_catalog(old: ast.SchemaFile, new: ast.SchemaFile) -> None:
    plan = plan_migration(ir_of(old), ir_of(new))
    assert bool(plan.steps) == (catalog_of(ir_of(old)) != catalog_of(ir_of(new)))


@budget(80)
@given(st.data(), schema_files())
def test_a_broken_text_is_a_schema_error_or_a_schema(data: st.DataObject, file: ast.SchemaFile) -> None:
    text = data.draw(broken(print_schema(file)))
    try:
        parse_schema(text + "\n")
    except SchemaError as error:
        for problem in error.problems:
            assert problem.code.startswith("S")
            assert problem.render()
