"""What proposed pipelines say to Spark: names and texts in SQL, and the options of a CSV file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from omnigraph.errors import ParameterError
from omnigraph.write.load import CsvFormat

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTE: Final = '"'
_WIDE_ENCODINGS: Final = ("utf-16", "utf-16le", "utf-16be", "utf-32")
_ENCODINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("utf-8", "utf-8-sig"), "utf-8"),
    **{name.replace("le", "-le").replace("be", "-be"): name for name in _WIDE_ENCODINGS},
    "iso8859-1": "iso-8859-1",
    "ascii": "us-ascii",
}
"""The encodings that Spark reads, by their names in Python."""
_WORDS: Final = frozenset({"current_path", "false", "null", "true"})
"""The words that Spark 4 does not read as the name of a column if there is one: of all its keywords only these."""


def quote_column(column: str) -> str:
    """Return a column in an SQL expression."""
    if _PLAIN.fullmatch(column) and column.lower() not in _WORDS:
        return column
    return f"`{column.replace('`', '``')}`"


def quote_sql_text(text: str) -> str:
    """Return a text in an SQL expression."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def raise_sql_error(*parts: str) -> str:
    """Return the expression that ends a run with a message; the parts are texts in SQL, none of them null."""
    return f"raise_error(concat({', '.join(parts)}))"


def advise_replacement(value: str, outcome: str) -> str:
    """Return the end of such a message, as a text in SQL: what to do, or what to write to have no error."""
    return quote_sql_text(
        f": move one up, and propose again; or, to {outcome}, write {value} instead of this raise_error in the pipeline"
    )


def list_csv_options(csv: CsvFormat, *, has_header: bool, spans_lines: bool) -> dict[str, str | bool]:
    """Return the options with which Spark reads a file as it is read here.

    ``spans_lines`` says that some values have several lines.
    """
    # Spark would read a doubled quote as the end of a value.
    options: dict[str, str | bool] = {"header": has_header, "escape": csv.escape or csv.quote or _QUOTE}
    # By default Spark fills short rows with nulls and cuts long ones, and looks only at the columns that are used.
    options |= {"mode": "FAILFAST", "columnPruning": False}
    if csv.separator != ",":
        options["sep"] = csv.separator
    if csv.quote != _QUOTE:
        options["quote"] = csv.quote or ""
    *_, null_text = ("", *csv.null_texts)
    if null_text:
        options["nullValue"] = null_text
    encoding = _ENCODINGS.get(csv.encoding)
    if encoding is None:
        raise ParameterError(f"Spark cannot read {csv.encoding}", hint="save the file as UTF-8")
    if encoding != "utf-8":
        options["encoding"] = encoding
    # Spark divides a text into lines before it decodes it.
    if spans_lines or csv.spans_lines or encoding in _WIDE_ENCODINGS:
        options["multiLine"] = True
    return options
