"""How the records of a CSV file are written."""

from __future__ import annotations

from typing import Final

from omnigraph.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How the records of a file are written. ``null_texts`` are null if they are not quoted.

    ``spans_lines``: on Spark, a quoted value may span lines; then one task reads a whole file.
    """

    separator: str = ","
    quote: str | None = '"'
    escape: str | None = None
    has_header: bool = True
    null_texts: tuple[str, ...] = ("",)
    encoding: str = "utf-8"
    spans_lines: bool = False


STANDARD_CSV: Final = CsvFormat()
