"""Laws that hold for every schema, and a promise that holds for every text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import SchemaError
from omnigraph.language.schema import (
    ast,
    build_catalog,
    check_schema,
    decode_ir,
    encode_ir,
    format_schema,
    hash_ir,
    parse_schema,
    plan_migration,
)
from omnigraph.language.schema.parser import parse_schema_text
from omnigraph.language.schema.syntax_to_ir import build_ir
from omnigraph.language.source import Source
from tests.language.schema.schema_printer import print_schema
from tests.language.schema.schema_strategies import broken, budget, schema_files


@budget(40)
@given(schema_files())
def test_printing_and_parsing_give_the_same_tree(file: ast.SchemaFile) -> None:
    assert parse_schema_text(Source(print_schema(file))) == file


@budget(20)
@given(schema_files())
def test_the_layout_of_what_is_printed_parses_to_the_same_tree(file: ast.SchemaFile) -> None:
    laid_out = format_schema(Source(print_schema(file)))
    assert isinstance(laid_out, str)
    assert parse_schema_text(Source(laid_out)) == file
    assert format_schema(Source(laid_out)) == laid_out


@budget(40)
@given(schema_files())
def test_generated_schemas_have_no_problem(file: ast.SchemaFile) -> None:
    assert [problem.render() for problem in check_schema(Source(print_schema(file)))] == []


@budget(40)
@given(schema_files())
def test_json_and_back_is_the_same_ir(file: ast.SchemaFile) -> None:
    ir = build_ir(file)
    assert decode_ir(encode_ir(ir)) == ir
    assert hash_ir(decode_ir(encode_ir(ir))) == hash_ir(ir)


@budget(40)
@given(schema_files())
def test_order_of_declarations_does_not_matter(file: ast.SchemaFile) -> None:
    reordered = ast.SchemaFile(file.interfaces[::-1], file.nodes[::-1], file.edges[::-1])
    assert hash_ir(build_ir(reordered)) == hash_ir(build_ir(file))


@budget(40)
@given(schema_files(), st.booleans())
def test_no_difference_needs_no_step(file: ast.SchemaFile, allow_data_loss: bool) -> None:
    assert plan_migration(build_ir(file), build_ir(file), allow_data_loss=allow_data_loss).steps == ()


@budget(40)
@given(schema_files(), schema_files())
def test_a_plan_without_steps_means_the_same_catalog(old: ast.SchemaFile, new: ast.SchemaFile) -> None:
    plan = plan_migration(build_ir(old), build_ir(new))
    assert bool(plan.steps) == (build_catalog(build_ir(old)) != build_catalog(build_ir(new)))


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
