"""Obstacles to a schema change. They are found and raised before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from omnigraph.errors import ConflictError, HistoryGone, NotFound, ParameterError, Problem, SchemaError
from omnigraph.language.schema import (
    REQUIRED_WITHOUT_DEFAULT,
    DropMode,
    DropType,
    MigrationPlan,
    RenameProperty,
    RenameType,
    Schema,
    TableKey,
    UnsupportedChange,
)
from omnigraph.language.source import Source, Span
from omnigraph.manifest.branches import has_rows_where
from omnigraph.manifest.handle import Manifest, branch_names
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.manifest.snapshot import Pin, list_pins, open_pin
from omnigraph.manifest.state import ManifestView
from omnigraph.manifest.tags import list_tags
from omnigraph.storage.tables import open_table
from omnigraph.write.evolve.schema_migration import find_hard_drops

UNSUPPORTED = "OG-MF-100"


def refuse_unsupported(plan: MigrationPlan, new: Schema, source: str | Path | Source) -> None:
    """Refuse a plan with unsupported steps; list all of them."""
    if plan.unsupported:
        name = source.name if isinstance(source, Source) else str(source) if isinstance(source, Path) else None
        text = Source(new.text, name)
        raise SchemaError([_to_problem(text, step) for step in plan.unsupported])


def _to_problem(text: Source, step: UnsupportedChange) -> Problem:
    hint = "keep it unchanged, or export the graph, change the records, and load them into a new graph"
    if step.code == REQUIRED_WITHOUT_DEFAULT:
        hint = 'add a value for existing rows with @default("..."), or make it nullable with ?'
    return text.problem(
        step.code or UNSUPPORTED, f"{step.entity}: {step.reason}", _find_declaration(text.text, step.entity), hint
    )


def _find_declaration(text: str, entity: str) -> Span:
    """Find where a type or a property is declared; the beginning of the text if it no longer is."""
    kind, _, rest = entity.partition(":")
    name, _, member = rest.partition(".")
    owner = re.search(rf"\b{kind}\s+({re.escape(name)})\b", text)
    if owner is None:
        return Span(0, 1)
    inside = re.compile(rf"\b{re.escape(member)}(?=\s*:)").search(text, owner.end()) if member else None
    return Span(*owner.span(1)) if inside is None else Span(*inside.span())


def refuse_unrelated_schema(plan: MigrationPlan, old: Schema) -> None:
    """Refuse a schema that shares no type with the current one: it probably belongs to another graph."""
    dropped = [step for step in plan.steps if isinstance(step, DropType) and step.mode is DropMode.SOFT]
    if dropped and len(dropped) == len(list(old.catalog.types())):
        raise ParameterError(
            f"this schema has none of the {len(dropped)} types of the graph: does it belong to another graph?",
            hint="add @rename_from to types with a new name, or allow data loss to drop them all",
        )


def refuse_renames(manifest: Manifest, plan: MigrationPlan) -> None:
    """Refuse a rename while a branch has rows under the old name: they would not be found under the new one."""
    renamed = {_old_key_of(step): step for step in plan.steps if isinstance(step, RenameType | RenameProperty)}
    # If the type is renamed too, its properties are still in the table of the old type name.
    new_names = {s.new_key: s.old_key for s in plan.steps if isinstance(s, RenameType)}
    for branch in branch_names(manifest)[1:] if renamed else []:
        visible = manifest.view(branch).tables.visible_tables()
        for key, step in renamed.items():
            entry = visible.get(new_names.get(key, key))
            if entry is not None and entry.row_count:
                raise ConflictError(
                    f"'{step.from_}' cannot be renamed: branch '{branch}' has rows of {key} under the old name",
                    hint=f"merge or delete '{branch}' first",
                    details={"branch": branch, "table_key": key},
                )


def list_heads(manifest: Manifest) -> dict[str, object]:
    """Return what the refusals depend on: the head of each branch, and the tags."""
    heads: dict[str, object] = {
        name: (manifest.view(name).incarnation, manifest.view(name).version) for name in branch_names(manifest)
    }
    return {**heads, "tags": [(tag.name, tag.commit) for tag in list_tags(manifest)]}


def _old_key_of(step: RenameType | RenameProperty) -> TableKey:
    return step.old_key if isinstance(step, RenameType) else step.table_key


def refuse_hard_drops(manifest: Manifest, plan: MigrationPlan) -> None:
    """Refuse a hard drop while a branch, a tag or a readable commit still shows the rows, or a branch needs them.

    The newest commit of main is exempt: the drop follows it. Versions without rows hold nothing: the drop keeps them.
    """
    keys = {key for key in find_hard_drops(plan) if _had_rows(manifest, key)}
    if not keys:
        return
    for branch in branch_names(manifest)[1:]:
        holder = f"branch '{branch}'"
        _refuse_visible(manifest, keys, manifest.view(branch), holder, partial(_advise_deletion, holder))
    for tag in list_tags(manifest):
        commit = manifest.view(tag.branch, with_lineage=True).history.find(tag.commit)
        if commit is not None:
            holder = f"tag '{tag.name}'"
            view = manifest.view_at(tag.branch, commit.manifest_version)
            _refuse_visible(manifest, keys, view, holder, partial(_advise_deletion, holder))
    for key in sorted(keys):
        # Before commits: cleanup keeps the commit that a live branch was forked from.
        _refuse_forks(manifest, key)
    for branch in branch_names(manifest):
        _refuse_commits(manifest, keys, branch)


def _had_rows(manifest: Manifest, table_key: str) -> bool:
    condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND row_count > 0"
    return any(has_rows_where(manifest, branch, condition) for branch in branch_names(manifest))


def _refuse_forks(manifest: Manifest, table_key: str) -> None:
    """Refuse while a fork begins at a version with rows: Lance keeps it, whatever the branch shows now."""
    location = manifest.view(MAIN).tables.locations.get(table_key)
    if location is None:
        return
    uri, live = manifest.location.join(location), branch_names(manifest)
    for ref in open_table(uri, None, None, manifest.access).list_branches().values():
        if _has_data(manifest, Pin(TableKey(table_key), location, ref.parent_version, ref.parent, 0)):
            holder = f"branch '{ref.name}'"
            hint = _advise_deletion(holder) if ref.name in live else "run `omnigraph cleanup --yes` first"
            raise _make_held_error(table_key, holder, "was forked from it", hint)


def _refuse_commits(manifest: Manifest, keys: set[str], branch: str) -> None:
    history = manifest.view(branch, with_lineage=True).history
    own = (commit for commit in history.list_newest_first() if (commit.branch or MAIN) == branch)
    for commit in own:
        if history.is_data_head(commit.id):
            continue
        try:
            view = manifest.view_at(branch, commit.manifest_version)
        except HistoryGone:
            # All older commits are gone too.
            return
        advise = partial(_advise_cleanup, manifest, branch, commit.manifest_version)
        _refuse_visible(manifest, keys, view, f"commit {commit.id}", advise)


def _advise_deletion(holder: str) -> str:
    return f"delete {holder} first"


def _advise_cleanup(manifest: Manifest, branch: str, version: int) -> str:
    """Return how to get rid of a commit. Cleanup keeps it if a branch or a tag begins at an older one."""
    found = [
        f"branch '{ref.name}'"
        for ref in manifest.list_refs().values()
        if (ref.parent or MAIN) == branch and ref.parent_version <= version and ref.name in branch_names(manifest)
    ]
    history = manifest.view(branch, with_lineage=True).history
    for tag in list_tags(manifest):
        tagged = history.find(tag.commit) if tag.branch == branch else None
        if tagged is not None and tagged.manifest_version <= version:
            found.append(f"tag '{tag.name}'")
    command = "run `omnigraph cleanup --keep 1 --yes` first, which keeps the commit that was the newest one hour ago"
    return f"delete {' and '.join(found)}, then {command}" if found else command


def _refuse_visible(
    manifest: Manifest, keys: set[str], view: ManifestView, holder: str, advise: Callable[[], str]
) -> None:
    for key, pin in list_pins(view).items():
        if key in keys and _has_data(manifest, pin):
            raise _make_held_error(key, holder, "shows it", advise())


def _has_data(manifest: Manifest, pin: Pin) -> bool:
    """Whether a version is still there and holds values, of deleted rows too."""
    try:
        return bool(open_pin(manifest, pin).fragment_rows())
    except (HistoryGone, NotFound):
        return False


def _make_held_error(table_key: str, holder: str, how: str, hint: str) -> ConflictError:
    return ConflictError(
        f"{table_key} cannot be dropped with its history: {holder} {how}",
        hint=f"{hint}, or drop it without allowing data loss",
        details={"table_key": table_key, "held_by": holder},
    )
