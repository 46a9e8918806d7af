"""Values of the wire as values of ours, and the other way round."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

from omnigraph.arguments import check_text, parse_txn
from omnigraph.errors import Json, ParameterError, Problem, QueryError, Unsupported
from omnigraph.language.query import SYNTAX_CODE
from omnigraph.language.source import Source, read_source
from omnigraph.language.values import from_microseconds
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.tags import Tag
from omnigraph.write.merge import Counts, LeftOut, LeftOutReason

_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_commit_of_wire(found: Mapping[str, Json]) -> Commit:
    """Return a commit."""
    txn = cast("str | None", found.get("txn"))
    return Commit(
        str(found["id"]),
        tuple(cast("Sequence[str]", found["parents"])),
        str(found["branch"]),
        cast(int, found["manifest_version"]),
        cast("str | None", found["actor"]),
        cast("str | None", found["message"]),
        from_microseconds(cast(int, found["created_at"])),
        None if txn is None else parse_txn(txn),
        bool(found.get("upkeep", False)),
    )


def to_branch_of_wire(found: Mapping[str, Json]) -> Branch:
    """Return a branch."""
    created = cast("str | None", found["created_at"])
    return Branch(
        str(found["name"]),
        cast("str | None", found["head"]),
        cast("str | None", found["parent"]),
        None if created is None else to_instant(created),
    )


def to_tag_of_wire(found: Mapping[str, Json]) -> Tag:
    """Return a tag."""
    return Tag(
        str(found["name"]),
        str(found["commit"]),
        str(found["branch"]),
        to_instant(str(found["created_at"])),
        cast("str | None", found["actor"]),
    )


def to_counts(found: Json) -> dict[str, Counts]:
    """Return how many rows of each type were inserted, updated and deleted."""
    by_type = cast("Mapping[str, Mapping[str, int]]", found or {})
    return {name: Counts(**each) for name, each in by_type.items()}


def to_left_out(found: Mapping[str, Json]) -> LeftOut:
    """Return what a merge left out of one type."""
    reason, count = cast("LeftOutReason", found["reason"]), cast("int", found["count"])
    return LeftOut(str(found["table_key"]), reason, count, cast("str | None", found.get("property")))


def to_instant(text: str) -> datetime:
    """Return a time of the wire."""
    return datetime.fromisoformat(text).astimezone(UTC)


def to_reference_text(reference: Reference | None) -> str | None:
    """Return a reference as the text that means the same."""
    if isinstance(reference, datetime):
        if reference.tzinfo is None:
            raise ParameterError(f"{reference!r} has no time zone", hint="use datetime(..., tzinfo=timezone.utc)")
        return reference.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return f"v{reference}" if isinstance(reference, int) else reference


def to_path_part(name: str) -> str:
    """Return a name as one part of a path."""
    check_text("name", name)
    # Clients and proxies step up at two dots.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def to_json_value(value: object) -> Json:
    """Return a parameter or a property as JSON that the server reads as the same value."""
    match value:
        case datetime():
            return to_reference_text(value)
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return f"base64:{base64.b64encode(value).decode()}"
        case float() if not math.isfinite(value):
            return _NOT_FINITE[str(value)]
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(name): to_json_value(each) for name, each in cast("Mapping[object, object]", value).items()}
        case Sequence():
            return [to_json_value(each) for each in cast("Sequence[object]", value)]
        case _:
            # Scalars and arrays of NumPy and of Arrow.
            for name in ("as_py", "tolist", "isoformat"):
                convert = getattr(value, name, None)
                if callable(convert):
                    return to_json_value(convert())
            raise ParameterError(
                f"{value!r:.200} cannot be sent", hint="give a number, a text, a time, a list or bytes"
            )


def read_query_text(source: str | Path | Source) -> str:
    """Return the text of queries. A file is read here."""
    found = source if isinstance(source, Source) else read_source(source, ".gq")
    if isinstance(found, Problem):
        raise QueryError([replace(found, code=SYNTAX_CODE)])
    return found.text


def refuse_given(reason: str, **given: object) -> None:
    """Refuse arguments that have no meaning for a graph on a server."""
    for name, value in given.items():
        if value is not None:
            raise Unsupported(f"{name}= cannot be used with a graph on a server", hint=reason)
