"""The elements of an SVG picture: escaped, without scripts, styles or links, so that it survives every export.

Colours are chosen for a light card that the picture brings along; signs and shapes repeat what a colour says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Final
from zlib import crc32

INK: Final = "#1f2328"
MUTED: Final = "#59636e"
LINE: Final = "#8c959f"
PAPER: Final = "#ffffff"
BORDER: Final = "#d1d9e0"
SHADE: Final = "#f3f5f7"
SANS: Final = "system-ui, -apple-system, 'Segoe UI', sans-serif"
MONO: Final = "ui-monospace, 'SF Mono', Menlo, Consolas, monospace"

HUES: Final = (
    "#3b6ea5", "#9a5b2d", "#4d7d4a", "#7a5299", "#a0483f", "#3d7f80", "#8a7126", "#a34f7e", "#5a6b8c", "#6b7f3a",
)  # fmt: skip
"""Muted colours of types. Each has a contrast of at least 4.5 to the paper."""

_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def hue_of(type_name: str) -> str:
    """Return the colour of a type: the same in every picture."""
    return HUES[crc32(type_name.encode("utf-8", "replace")) % len(HUES)]


def fit_line(text: str, characters: int) -> str:
    """Return one line of at most this many characters; characters that XML or a reader cannot take become marks."""
    line = _FORBIDDEN.sub("\ufffd", " ".join(text.split()))
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def width_of(text: str, size: float, *, mono: bool = False) -> float:
    """Estimate the width of a text. No font is read, so this errs on the wide side."""
    return sum(1.0 if ord(character) > 0x2E80 else 0.62 if mono else 0.58 for character in text) * size


def number(value: float) -> str:
    """Return a coordinate with one decimal at most, so that equal pictures have equal bytes."""
    return f"{round(value, 1):g}"


def element(name: str, content: str = "", /, **attributes: str | float | None) -> str:
    """Return one element. Underscores in attribute names stand for hyphens; a text is escaped by its caller."""
    parts = [
        f'{key.rstrip("_").replace("_", "-")}="{escape(value) if isinstance(value, str) else number(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    head = " ".join([name, *parts])
    return f"<{head}>{content}</{name}>" if content else f"<{head}/>"


def label(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 12,
    fill: str = INK,
    weight: str | None = None,
    anchor: str | None = None,
    mono: bool = False,
    halo: bool = False,
) -> str:
    """Return a line of text. A halo keeps it legible where it crosses lines."""
    return element(
        "text",
        escape(_FORBIDDEN.sub("\ufffd", text), quote=False),
        x=x,
        y=y,
        font_size=size,
        fill=fill,
        font_weight=weight,
        text_anchor=anchor,
        font_family=MONO if mono else None,
        paint_order="stroke" if halo else None,
        stroke=PAPER if halo else None,
        stroke_width=4 if halo else None,
    )


def hint(text: str) -> str:
    """Return the text that shows when the pointer rests on an element."""
    return element("title", escape(_FORBIDDEN.sub("\ufffd", text), quote=False))


def arrow_head(x: float, y: float, dx: float, dy: float, fill: str) -> str:
    """Return the tip of an arrow at a point; (dx, dy) is its direction, of length 1."""
    length, half = 7.0, 3.2
    left, right = (
        (x - dx * length - dy * half, y - dy * length + dx * half),
        (
            x - dx * length + dy * half,
            y - dy * length - dx * half,
        ),
    )
    points = " ".join(f"{number(px)},{number(py)}" for px, py in ((x, y), left, right))
    return element("polygon", points=points, fill=fill)


def document(width: float, height: float, title: str, elements: Iterable[str]) -> str:
    """Return the whole picture, on paper of its own, with its title for those who cannot see it."""
    body = "\n".join(
        [
            element("title", escape(title, quote=False)),
            element(
                "rect",
                x=0.5,
                y=0.5,
                width=max(width - 1, 1),
                height=max(height - 1, 1),
                rx=6,
                fill=PAPER,
                stroke=BORDER,
            ),
            *elements,
        ]
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{number(width)}" height="{number(height)}" '
        f'viewBox="0 0 {number(width)} {number(height)}" font-family="{escape(SANS)}">\n{body}\n</svg>'
    )
