"""The conflicts of a merge as text: what conflicts, and the value on each side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from omnigraph.cli.render.page import escape_controls
from omnigraph.errors import Conflict, Json

_NOTHING = "(not there)"


def draw_conflicts(conflicts: Sequence[Conflict]) -> Text:
    """Draw each conflict on a line, with the values of its properties below."""
    return Text("\n").join(line for conflict in conflicts for line in _lines(conflict))


def _lines(conflict: Conflict) -> Iterator[Text]:
    yield Text.assemble((conflict.kind, "bold red"), "  ", escape_controls(conflict.message).replace("\n", " "))
    shown = conflict.to_json()
    for name in conflict.properties:
        sides = ", ".join(f"{side} {_value(shown[side], name)}" for side in ("base", "ours", "theirs"))
        yield Text.assemble("    ", (f"{name}: ", "bold"), sides)


def _value(image: Json, name: str) -> str:
    if not isinstance(image, Mapping):
        return _NOTHING
    return escape_controls(json.dumps(image.get(name), ensure_ascii=False))
