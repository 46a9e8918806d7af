"""The location of a graph: its root as the user wrote it, and the addresses below it for Lance and obstore."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, TypeAlias, cast
from urllib.parse import parse_qs, unquote

from omnigraph.arguments import check_path
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

Scheme: TypeAlias = Literal["file", "s3", "s3+ddb"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
# URL parsers read these as escape, query or fragment, so a key with one would name two different objects.
_AMBIGUOUS = re.compile(r"[%?#\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Location:
    """The root of a graph, made by :func:`locate`. It can be pickled."""

    uri: str
    """The root for messages: as given, without trailing slashes."""
    scheme: Scheme
    base: str
    """An absolute path, or ``bucket/prefix``."""
    query: str = ""
    # May hold credentials: never printed.
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.uri

    @property
    def is_local(self) -> bool:
        """Whether the graph is a local folder."""
        return self.scheme == "file"

    @property
    def objects(self) -> str:
        """The root for plain objects: the folder or ``s3://bucket/prefix``, without the DynamoDB table."""
        return self.base if self.is_local else f"s3://{self.base}"

    def join(self, path: str) -> str:
        """Return the address of ``path`` below the root for Lance."""
        if self.is_local:
            return f"{self.base.rstrip('/')}/{path}"
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.base}/{path}{query}"

    def sibling(self, name: str) -> Location:
        """Return a location next to the graph, its path with ``.name``; on an object store for plain objects."""
        base = f"{self.base}.{name}"
        if self.is_local:
            return replace(self, uri=base, base=base)
        return replace(self, uri=f"s3://{base}", scheme="s3", base=base, query="")

    @property
    def bucket(self) -> str:
        """The bucket of an object store."""
        return self.base.partition("/")[0]

    @property
    def prefix(self) -> str:
        """The path inside the bucket, empty for the bucket itself."""
        return self.base.partition("/")[2]

    def options(self) -> dict[str, str]:
        """Return the storage options for Lance and obstore. They read other ``AWS_*`` variables themselves."""
        options = dict(self.storage_options)
        endpoint = _find_option(options, "endpoint", "endpoint_url") or os.environ.get("AWS_ENDPOINT_URL") or ""
        # An http endpoint is explicit enough; otherwise both libraries fail with an unclear client error.
        if not self.is_local and endpoint.startswith("http://") and _find_option(options, "allow_http") is None:
            options["allow_http"] = "true"
        return options


def locate(uri: str | Path, storage_options: Mapping[str, str] | None = None) -> Location:
    """Parse the root of a graph: a path, ``file://``, ``s3://bucket/prefix`` or ``s3+ddb://bucket/prefix?ddbTableName=t``."""
    options = tuple(sorted((storage_options or {}).items()))
    text = str(uri)
    found = None if isinstance(uri, Path) else _SCHEME.fullmatch(text)
    if found is None:
        return Location(_trim_slashes(text), "file", _to_absolute(text), storage_options=options)
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return Location(_trim_slashes(text), "file", _to_absolute(_file_path(text, rest)), storage_options=options)
    if scheme not in ("s3", "s3+ddb"):
        raise ParameterError(
            f"'{text}' is no place for a graph: unknown scheme '{scheme}'",
            hint="use a local path, file://, s3://bucket/prefix or s3+ddb://bucket/prefix?ddbTableName=table",
        )
    base, mark, query = rest.partition("?")
    base = base.rstrip("/")
    _check_key(text, base)
    if scheme == "s3+ddb":
        _check_table(text, query)
    elif mark:
        raise ParameterError(f"'{text}' has a query", hint="only s3+ddb:// takes one: ?ddbTableName=table")
    return Location(f"{scheme}://{base}{mark}{query}", cast("Scheme", scheme), base, query, options)


def _to_absolute(path: str) -> str:
    if not path:
        raise ParameterError("the location of the graph is empty", hint="give a path or a URI")
    check_path("the location of the graph", path)
    return os.path.abspath(path)  # noqa: PTH100  Path.absolute keeps "..", which the object paths below refuse


def _trim_slashes(text: str) -> str:
    return text.rstrip("/") or "/"


def _file_path(text: str, rest: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise ParameterError(f"'{text}' is no local path", hint="write file:///absolute/path")
    return "/" + unquote(path)


def _check_key(text: str, base: str) -> None:
    if _AMBIGUOUS.search(base) or any(part in ("", ".", "..") for part in base.split("/")):
        raise ParameterError(
            f"'{text}' is no bucket and prefix",
            hint="write s3://bucket/prefix with plain names: no empty segment, '..', '%', '?', '#' or backslash",
        )


def _check_table(text: str, query: str) -> None:
    if not parse_qs(query).get("ddbTableName"):
        raise ParameterError(f"'{text}' names no table", hint="write s3+ddb://bucket/prefix?ddbTableName=table")


def _find_option(options: Mapping[str, str], *names: str) -> str | None:
    """Return an option under any of its names: ``endpoint``, ``aws_endpoint``, ``AWS_ENDPOINT``."""
    spellings = {*names, *(f"aws_{name}" for name in names)}
    return next((value for key, value in options.items() if key.lower() in spellings), None)
