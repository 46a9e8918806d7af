"""Draw the pictures of the README and the documentation into ``docs/pictures/``: ``make pictures``.

The commit graph and the diff are drawn by the rooms that ``omnigraph commit list --svg`` and ``omnigraph diff --svg``
use; the others by the same elements. Nothing here depends on a clock, so equal facts give equal bytes, and
``tests/test_reference.py`` compares the files with what this draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from omnigraph.draw import DiffEdge, DiffMark, DiffNode, HistoryEntry, draw_diff, draw_history
from omnigraph.draw.svg import BORDER, HUES, INK, LINE, MUTED, PAPER, SHADE, arrow_head, document, element, label

PICTURES: Final = Path(__file__).parent / "pictures"
BLUE, BROWN, GREEN, PURPLE, RED = HUES[:5]


def draw_commit_graph() -> str:
    """Draw two reviews that were merged one after the other."""
    entries = [
        HistoryEntry(
            "8QW2M5", ("4TR9XA", "7KD3VB"), "2026-06-05", "act-lead", "merge branch 'review/tomas'", ("main",)
        ),
        HistoryEntry("4TR9XA", ("1HN6ZC", "5JF8YE"), "2026-06-05", "act-lead", "merge branch 'review/ines'"),
        HistoryEntry(
            "7KD3VB", ("1HN6ZC",), "2026-06-04", "act-tomas", "a new compound, tri-104 stopped", ("review/tomas",)
        ),
        HistoryEntry("5JF8YE", ("1HN6ZC",), "2026-06-03", "act-ines", "tri-104 completed", ("review/ines",)),
        HistoryEntry("1HN6ZC", ("0AA1PG",), "2026-06-01", "act-lead", "load 34 nodes, 45 edges", ("release-1",)),
        HistoryEntry("0AA1PG", (), "2026-06-01", "act-lead", "the schema"),
    ]
    return draw_history(entries)


def draw_review() -> str:
    """Draw the changes of one review on the graph, as ``omnigraph diff --svg`` does."""
    came, changed = DiffMark.INSERTED, DiffMark.UPDATED
    nodes = [
        DiffNode("Paper", "pap-013", came, "title: Sirolane for recurrent gout: final report"),
        DiffNode("Trial", "tri-104", changed, "status: recruiting → completed\nenrolled: 301 → 612"),
        DiffNode("Trial", "tri-106", changed, "reviewed_by: null → ines"),
    ]
    edges = [
        DiffEdge("Cites", ("Paper", "pap-013"), ("Paper", "pap-010"), came),
        DiffEdge("Reports", ("Paper", "pap-013"), ("Trial", "tri-104"), came, "outcome: positive"),
    ]
    return draw_diff(nodes, edges)


def draw_layout() -> str:
    """Draw how the manifest points to versions of tables."""
    elements = [
        *_box(20, 44, 280, 176, "__manifest", BLUE),
        *_lines(
            36, 92, ("Person   version 4", "City     version 2", "Knows    version 7", "head of main: commit 8QW2M5")
        ),
        label(36, 200, "one row batch flips all of them", size=11, fill=MUTED),
        label(20, 28, "brain.og/", size=13, weight="600", mono=True),
    ]
    tables = (("nodes/…  Person", 5, 4), ("nodes/…  City", 2, 2), ("edges/…  Knows", 7, 7))
    for row, (name, newest, shown) in enumerate(tables):
        top = 44 + row * 62
        elements += _box(400, top, 420, 52, name, GREEN if row < 2 else BROWN)
        for version in range(1, newest + 1):
            x = 560 + (version - 1) * 34
            is_shown = version == shown
            fill = (GREEN if row < 2 else BROWN) if is_shown else SHADE
            elements.append(element("circle", cx=x, cy=top + 30, r=13, fill=fill, stroke=LINE))
            elements.append(
                label(x, top + 34, f"v{version}", size=11, fill=PAPER if is_shown else MUTED, anchor="middle")
            )
        elements += _arrow(240, 88 + row * 20, 398, top + 30)
    elements += [
        label(400, 246, "v5 of Person was written and never published: no reader sees it", size=11, fill=MUTED),
        *_box(20, 262, 800, 84, "beside them", PURPLE),
        *_lines(36, 310, ("__schemas/  every schema that a commit was made under     __tags/  names of commits",)),
        *_lines(
            36, 330, ("__recovery/  what a writer is about to do                 __locks/  held for milliseconds",)
        ),
    ]
    return document(840, 362, "Layout of a graph on disk", elements)


def draw_commit_phases() -> str:
    """Draw the phases of a commit, and what a writer that dies after each of them leaves."""
    phases = (
        ("stage", "rows, in files that\nbelong to no version", "nothing to do"),
        ("A  sidecar", "which tables, from\nwhich versions", "sidecar is removed"),
        ("B  tables", "one Lance commit\nfor each table", "all there: finished\nelse: taken back"),
        ("C  publish", "one merge into\n__manifest", "committed"),
        ("D  done", "the sidecar is\ndeleted", "committed"),
    )
    elements = [
        label(20, 26, "without a lock", size=12, fill=MUTED),
        label(186, 26, "under the lock of the branch", size=12, weight="600"),
    ]
    for number, (name, text, left) in enumerate(phases):
        x = 20 + number * 166
        is_fence = number == 3
        elements += _box(x, 40, 146, 84, name, RED if is_fence else BLUE)
        elements += _lines(x + 12, 88, text.split("\n"), size=11.5, mono=False)
        if number:
            elements += _arrow(x - 18, 82, x - 2, 82)
        elements += _arrow(x + 73, 126, x + 73, 164, MUTED, dashed=True)
        elements += _box(x, 166, 146, 66, "killed after it", MUTED)
        elements += _lines(x + 12, 206, left.split("\n"), size=11.5, mono=False, step=15)
    elements += [
        element("line", x1=509, y1=32, x2=509, y2=240, stroke=RED, stroke_width=1.5, stroke_dasharray="5 4"),
        label(503, 256, "nobody sees anything", size=11.5, fill=RED, anchor="end"),
        label(515, 256, "everybody sees all of it", size=11.5, fill=RED),
    ]
    return document(850, 272, "Phases of a commit, and what a crash leaves", elements)


def draw_branches() -> str:
    """Draw a branch that shares every table until it writes to it."""
    elements = [label(20, 28, "A branch copies nothing. Its first write to a table forks that table.", size=12.5)]
    rows = (("Person", 64, 4, True), ("City", 196, 2, False))
    for name, top, newest, is_forked in rows:
        elements.append(label(20, top + 5, name, size=13, weight="600"))
        elements.append(label(110, top + 5, "main", size=12, fill=BLUE))
        elements += _versions(190, top, [f"v{number}" for number in range(2, newest + 1)], BLUE)
        if is_forked:
            elements.append(label(110, top + 71, "review/june", size=12, fill=BROWN))
            curve = f"M190,{top + 14} C190,{top + 44} 216,{top + 66} 256,{top + 66}"
            elements.append(element("path", d=curve, fill="none", stroke=BROWN, stroke_width=2))
            elements += _versions(268, top + 66, ["v3'", "v4'"], BROWN)
            elements.append(label(390, top + 71, "forked at v2 by the first write to Person", size=11.5, fill=MUTED))
    elements.append(label(330, 201, "read by both branches, never forked", size=11.5, fill=MUTED))
    return document(690, 228, "Branches and forks of tables", elements)


def draw_pipeline() -> str:
    """Draw a pipeline: tables, views, checks, one commit on a branch, a merge."""
    steps = (
        ("sources", "CSV, Parquet,\nJDBC, tables\nof Spark", BROWN),
        ("views", "joins and casts\nin Spark SQL", BROWN),
        ("rules", "types, keys, ends,\nunique, ranges:\nall rows", PURPLE),
        ("one commit", "on a branch such\nas load/june,\nor nothing", BLUE),
        ("checks", "queries that must\nfind nothing", PURPLE),
        ("merge", "into main, by the\npipeline or by\na person", GREEN),
    )
    elements = [label(20, 28, "omnigraph pipeline run june.pipeline.yaml", size=12.5, mono=True)]
    for number, (name, text, colour) in enumerate(steps):
        x = 20 + number * 150
        elements += _box(x, 44, 130, 100, name, colour)
        elements += _lines(x + 12, 92, text.split("\n"), size=11.5, mono=False, step=16)
        if number:
            elements += _arrow(x - 18, 94, x - 2, 94)
    elements += [
        *_arrow(385, 146, 385, 172, RED, dashed=True),
        label(
            385, 188, "a row that breaks a rule: all of them are listed, nothing is loaded", size=11.5, anchor="middle"
        ),
    ]
    return document(920, 206, "A pipeline on Spark", elements)


def _box(x: float, y: float, width: float, height: float, title: str, colour: str) -> list[str]:
    return [
        element("rect", x=x, y=y, width=width, height=height, rx=6, fill=PAPER, stroke=BORDER),
        element("rect", x=x, y=y, width=width, height=4, rx=2, fill=colour),
        label(x + 12, y + 23, title, size=12.5, fill=colour, weight="600"),
    ]


def _lines(
    x: float, y: float, texts: Iterable[str], *, size: float = 12, mono: bool = True, step: float = 20
) -> list[str]:
    # Spaces in a row are one space in SVG: no-break spaces keep columns apart.
    return [
        label(x, y + number * step, text.replace("  ", "\u00a0\u00a0"), size=size, fill=INK, mono=mono)
        for number, text in enumerate(texts)
    ]


def _arrow(x: float, y: float, to_x: float, to_y: float, colour: str = LINE, *, dashed: bool = False) -> list[str]:
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
    dx, dy = (to_x - x) / length, (to_y - y) / length
    dash = "4 3" if dashed else None
    line = element("line", x1=x, y1=y, x2=to_x, y2=to_y, stroke=colour, stroke_width=1.5, stroke_dasharray=dash)
    return [line, arrow_head(to_x, to_y, dx, dy, colour)]


def _versions(x: float, y: float, names: list[str], colour: str) -> list[str]:
    found: list[str] = []
    for number, name in enumerate(names):
        at = x + number * 56
        if number:
            found.append(element("line", x1=at - 42, y1=y, x2=at - 14, y2=y, stroke=colour, stroke_width=2))
        found.append(element("circle", cx=at, cy=y, r=14, fill=colour))
        found.append(label(at, y + 4, name, size=11, fill=PAPER, anchor="middle"))
    return found


DRAWINGS: Final[Mapping[str, Callable[[], str]]] = {
    "branches.svg": draw_branches,
    "commit-graph.svg": draw_commit_graph,
    "commit-phases.svg": draw_commit_phases,
    "diff.svg": draw_review,
    "layout.svg": draw_layout,
    "pipeline.svg": draw_pipeline,
}


def draw_all() -> dict[Path, str]:
    """Return the text of every picture, by its file."""
    return {PICTURES / name: f"{draw()}\n" for name, draw in DRAWINGS.items()}


if __name__ == "__main__":
    for file, text in draw_all().items():
        file.write_text(text, "utf-8")
