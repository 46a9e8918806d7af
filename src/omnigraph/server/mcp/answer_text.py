"""Answers as text for a model: tables for lists, one line for each field, and nothing that costs words for no sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import orjson

from omnigraph.errors import Json

_QUIET: Final = frozenset({"request_id", "elapsed_ms", "types", "target", "columns", "row_count", "uri"})
"""Fields that only programs need; they are in the structured content."""
_WIDEST: Final = 400


def render_answer(answer: Mapping[str, Json]) -> str:
    """Return the text of an answer."""
    parts: list[str] = []
    rows = answer.get("rows")
    if isinstance(rows, list):
        parts += [_render_table(rows), _count_rows(answer, len(rows))]
    for name, value in answer.items():
        if name in _QUIET or name == "rows" or (name == "next" and rows is not None) or value in (None, [], {}):
            continue
        if isinstance(value, str) and "\n" in value:
            parts.append(f"{name}:\n{value.strip()}")
        elif _is_table(value):
            parts.append(f"{name}:\n{_render_table(cast('list[Json]', value))}")
        else:
            parts.append(f"{name}: {_render_value(value)}")
    return "\n".join(part for part in parts if part)


def render_error(body: Mapping[str, Json]) -> str:
    """Return the text of an error: the sentence, its hint, and every place."""
    lines = [f"{body.get('type', 'error')}: {body.get('error')}"]
    if body.get("hint"):
        lines.append(f"hint: {body['hint']}")
    # Groups count all violations; the first of each are in them.
    listed = "groups" if body.get("groups") else "violations"
    for name in ("problems", listed, "merge_conflicts"):
        lines += [f"- {_render_value(each)}" for each in cast("Sequence[Json]", body.get(name) or ())]
    if body.get("retry_after"):
        lines.append(f"try again after {body['retry_after']} s")
    return "\n".join(lines)


def _count_rows(answer: Mapping[str, Json], shown: int) -> str:
    following = answer.get("next")
    if isinstance(following, Mapping):
        return f"{shown} rows and there are more: next offset {following['offset']}"
    return f"{shown} of {shown} rows"


def _is_table(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _render_table(rows: Sequence[Json]) -> str:
    objects = [cast("Mapping[str, Json]", row) for row in rows]
    names = list(dict.fromkeys(name for row in objects for name in row))
    if not names:
        return ""
    lines = [" | ".join(names), *(" | ".join(_render_value(row.get(name)) for name in names) for row in objects)]
    return "\n".join(lines)


def _render_value(value: Json) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    # A table has one line for each row; whoever needs more has the structured content.
    flat = text if "\n" not in text else text.replace("\n", "\\n")
    return flat if len(flat) <= _WIDEST or not isinstance(value, str) else f"{flat[:_WIDEST]}..."
