"""What stands in the way of a new schema, told before anything is written."""

from __future__ import annotations

import re
from itertools import islice
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
from omnigraph.manifest.branches import branch_names, names_any
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.rows import MAIN, TABLE_VERSION
from omnigraph.manifest.snapshot import Pin, open_pin, pins_of
from omnigraph.manifest.state import View
from omnigraph.manifest.tags import list_tags
from omnigraph.write.evolve.schema_migration import find_hard_drops

UNSUPPORTED = "OG-MF-100"


def refuse_unsupported(plan: MigrationPlan, new: Schema, source: str | Path | Source) -> None:
    """A plan with a step that cannot be taken is refused as a whole; all such steps are listed."""
    if plan.unsupported:
        name = source.name if isinstance(source, Source) else str(source) if isinstance(source, Path) else None
        text = Source(new.text, name)
        raise SchemaError([_to_problem(text, step) for step in plan.unsupported])


def _to_problem(text: Source, step: UnsupportedChange) -> Problem:
    hint = "keep it as it was, or export the graph, change the records, and load them into a new one"
    if step.code == REQUIRED_WITHOUT_DEFAULT:
        hint = 'give it a value for the rows that are there, with @default("..."), or let it be null, with a ?'
    return text.problem(
        step.code or UNSUPPORTED, f"{step.entity}: {step.reason}", _find_declaration(text.text, step.entity), hint
    )


def _find_declaration(text: str, entity: str) -> Span:
    """Where a type, or a property of it, is declared; the beginning, where it is not any more."""
    kind, _, rest = entity.partition(":")
    name, _, member = rest.partition(".")
    owner = re.search(rf"\b{kind}\s+({re.escape(name)})\b", text)
    if owner is None:
        return Span(0, 1)
    inside = re.compile(rf"\b{re.escape(member)}(?=\s*:)").search(text, owner.end()) if member else None
    return Span(*owner.span(1)) if inside is None else Span(*inside.span())


def refuse_unrelated_schema(plan: MigrationPlan, old: Schema) -> None:
    """A schema that leaves nothing of the one before is most likely meant for another graph."""
    dropped = [step for step in plan.steps if isinstance(step, DropType) and step.mode is DropMode.SOFT]
    if dropped and len(dropped) == len(list(old.catalog.types())):
        raise ParameterError(
            f"this schema has none of the {len(dropped)} types of the graph: is it that of another graph?",
            hint="give @rename_from to types that have another name, or allow data loss to drop them all",
        )


def refuse_renames(manifest: Manifest, plan: MigrationPlan) -> None:
    """What a branch holds under an old name would not be found under the new one: it has to be merged before."""
    renamed = {_old_key(step): step for step in plan.steps if isinstance(step, RenameType | RenameProperty)}
    # The properties of a type that gets another name too are still in its old table.
    new_names = {s.new_key: s.old_key for s in plan.steps if isinstance(s, RenameType)}
    for branch in branch_names(manifest)[1:] if renamed else []:
        shown = manifest.view(branch).tables.visible()
        for key, step in renamed.items():
            entry = shown.get(new_names.get(key, key))
            if entry is not None and entry.row_count:
                raise ConflictError(
                    f"'{step.from_}' cannot be renamed: branch '{branch}' has rows of {key} under the old name",
                    hint=f"merge or delete '{branch}' first",
                    details={"branch": branch, "table_key": key},
                )


def _old_key(step: RenameType | RenameProperty) -> TableKey:
    return step.old_key if isinstance(step, RenameType) else step.table_key


def refuse_hard_drops(manifest: Manifest, plan: MigrationPlan) -> None:
    """What is dropped in every version must not be shown by a branch, a tag, or a commit that can still be read.

    The newest commit of main is the one that the drop follows: that it shows the rows until then is no obstacle.
    """
    keys = {key for key in find_hard_drops(plan) if _had_rows(manifest, key)}
    if not keys:
        return
    for branch in branch_names(manifest)[1:]:
        who = f"branch '{branch}'"
        _refuse_visible(manifest, keys, manifest.view(branch), who, f"delete {who} first")
    for tag in list_tags(manifest):
        commit = manifest.view(tag.branch, with_lineage=True).history.find(tag.commit)
        if commit is not None:
            who = f"tag '{tag.name}'"
            view = manifest.view_at(tag.branch, commit.manifest_version)
            _refuse_visible(manifest, keys, view, who, f"delete {who} first")
    for branch in branch_names(manifest):
        _refuse_commits(manifest, keys, branch)


def _had_rows(manifest: Manifest, table_key: str) -> bool:
    condition = f"object_type = '{TABLE_VERSION}' AND table_key = '{table_key}' AND row_count > 0"
    return any(names_any(manifest, branch, condition) for branch in branch_names(manifest))


def _refuse_commits(manifest: Manifest, keys: set[str], branch: str) -> None:
    way_out = "run `omnigraph cleanup --keep 1 --confirm` first, which keeps what was the newest commit an hour ago"
    own = (
        commit
        for commit in islice(manifest.view(branch, with_lineage=True).history.newest_first(), 1, None)
        if (commit.branch or MAIN) == branch
    )
    for commit in own:
        try:
            view = manifest.view_at(branch, commit.manifest_version)
        except HistoryGone:
            # All that came before went as well.
            return
        _refuse_visible(manifest, keys, view, f"commit {commit.id}", way_out)


def _refuse_visible(manifest: Manifest, keys: set[str], view: View, who: str, way_out: str) -> None:
    for key, pin in pins_of(view).items():
        if key in keys and pin.row_count and _is_readable(manifest, pin):
            raise ConflictError(
                f"{key} cannot be dropped with its history: {who} shows it",
                hint=f"{way_out}, or drop it without allowing data loss",
                details={"table_key": key, "held_by": who},
            )


def _is_readable(manifest: Manifest, pin: Pin) -> bool:
    try:
        open_pin(manifest, pin)
    except (HistoryGone, NotFound):
        return False
    return True
