"""Two modules call Lance writes. This walks the source tree and points at any other line that does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"
STORAGE = SOURCE / "omnigraph" / "storage"
WRITERS = (STORAGE / "tables" / "writes.py", STORAGE / "tables" / "upkeep.py")

# Words that only Lance writes have: wherever one is called, it is one.
ALWAYS = {
    "add_bases",
    "add_columns",
    "alter_columns",
    "cleanup_old_versions",
    "commit_batch",
    "commit_existing_index_segments",
    "compact_files",
    "create_index",
    "create_index_uncommitted",
    "create_scalar_index",
    "deep_clone",
    "delete_config_keys",
    "delete_rows",
    "drop_columns",
    "drop_index",
    "enable_auto_cleanup",
    "execute_uncommitted",
    "merge_columns",
    "merge_existing_index_segments",
    "merge_index_metadata",
    "merge_insert",
    "migrate_manifest_paths_v2",
    "optimize_indices",
    "replace_field_metadata",
    "replace_schema",
    "replace_schema_metadata",
    "shallow_clone",
    "truncate_table",
    "update_columns",
    "update_config",
    "update_field_metadata",
    "update_metadata",
    "update_schema_metadata",
    "write_dataset",
    "write_fragments",
}
# Words that others have too: they are Lance writes on a handle, on one of its parts, or on one of Lance's own names.
ON_LANCE = {"commit", "create", "create_branch", "delete", "drop", "execute", "insert", "merge", "restore", "update"}
LANCE_NAMES = {"Compaction", "LanceDataset", "LanceFragment", "dataset", "ds", "fragment", "handle"}
PARTS_OF_A_HANDLE = {"branches", "optimize", "tags"}


def lance_writes(source: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each call that looks like a Lance write."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = _dotted(node.func)
        if name[-1] in ALWAYS or (name[-1] in ON_LANCE and _is_of_lance(name[:-1])):
            yield node.lineno, ".".join(name)


def _is_of_lance(owner: list[str]) -> bool:
    # A bare `branches` is our own module of that name.
    return bool(owner) and (owner[-1] in LANCE_NAMES or (len(owner) > 1 and owner[-1] in PARTS_OF_A_HANDLE))


def _dotted(node: ast.expr) -> list[str]:
    """``a.b.c`` as its words; what a call or an index gives is named after what was called or indexed."""
    match node:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=value, attr=name):
            return [*_dotted(value), name]
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _dotted(inner)
        case _:
            return [""]


def test_no_other_module_writes() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} calls {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path not in WRITERS
        for line, name in lance_writes(path.read_text())
    ]
    assert found == []


def test_the_writers_are_seen_to_write() -> None:
    seen = {name.rpartition(".")[2] for writer in WRITERS for _, name in lance_writes(writer.read_text())}
    assert {"write_dataset", "merge_insert", "commit", "delete", "cleanup_old_versions", "delete_rows"} <= seen
    assert {"create_index_uncommitted", "merge_existing_index_segments"} <= seen


@pytest.mark.parametrize(
    "line",
    [
        "lance.write_dataset(rows, uri)",
        "write_dataset(rows, uri)",
        "table.dataset.merge_insert('id').when_matched_update_all().execute(rows)",
        "LanceDataset.commit(dataset, operation)",
        "lance.LanceDataset.commit(dataset, operation)",
        "dataset.delete('true')",
        "table.dataset.update({'a': '1'})",
        "table.handle.restore()",
        "lance.dataset(uri).restore()",
        "table.dataset.tags.create('v1', 1)",
        "table.dataset.branches.delete('dev')",
        "table.dataset.optimize.compact_files()",
        "self.dataset.create_branch('dev', 1)",
        "Compaction.commit(dataset, rewrites)",
        "dataset.get_fragments()[0].delete_rows([1])",
    ],
)
def test_a_write_is_noticed(line: str) -> None:
    assert [number for number, _ in lance_writes(f"x = 1\n{line}\n")] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "values.update({'a': 1})",
        "objects.delete(path)",
        "table.dataset.to_table()",
        "commit(table, staged, operation_id)",
        "create_branch(table, 'dev')",
        "branches.create_branch(graph, 'dev')",
        "connection.execute(sql)",
    ],
)
def test_what_is_no_write_is_left_alone(line: str) -> None:
    assert list(lance_writes(line)) == []
