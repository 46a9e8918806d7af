"""Locations: the one parser of every path and URI that a user gives, and the root of a graph.

A path is local, ``file:`` in all its forms too; ``s3://``, ``s3a://`` and ``s3n://`` are the same. Any other scheme is
an error, and never the name of a local folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, unquote

from omnigraph.arguments import check_path
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

Scheme: TypeAlias = Literal["file", "s3", "s3+ddb"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
_STORES: Mapping[str, Scheme] = {"s3": "s3", "s3a": "s3", "s3n": "s3", "s3+ddb": "s3+ddb"}
_KNOWN = "a local path, file:/path, s3://bucket/prefix (also s3a:// and s3n://)"
_KNOWN_FOR_GRAPHS = f"{_KNOWN} or s3+ddb://bucket/prefix?ddbTableName=table"
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
        """Return a location next to the graph, its path with ``.name``; on an object store for plain objects.

        Next to a whole bucket is another bucket, so there it is the folder ``__name`` of the bucket.
        """
        base = f"{self.base}.{name}" if self.is_local or self.prefix else f"{self.base}/__{name}"
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


def has_scheme(text: str | os.PathLike[str]) -> bool:
    """Return whether a text is a URI, of any scheme, and not a path."""
    return isinstance(text, str) and _SCHEME.fullmatch(text) is not None


def locate(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    subject: str = "the location of the graph",
) -> Location:
    """Parse the root of a graph, or another place that ``subject`` names: a local path, or one of an object store."""
    options = tuple(sorted((storage_options or {}).items()))
    text = os.fspath(uri)
    found = _SCHEME.fullmatch(text)
    if found is None or not isinstance(uri, str):
        if found is not None:
            _refuse_squeezed(found[1], text, subject)
        return Location(_trim_slashes(text), "file", _to_absolute(text, subject), storage_options=options)
    scheme = found[1].lower()
    if scheme == "file":
        path = _to_absolute(_file_path(text, found[2]), subject)
        return Location(_trim_slashes(text), "file", path, storage_options=options)
    store, rest = _STORES.get(scheme), found[2].removeprefix("//")
    if store is None or rest == found[2]:
        raise ParameterError(f"{subject} is '{text}': unknown scheme '{scheme}'", hint=f"use {_KNOWN_FOR_GRAPHS}")
    base, mark, query = rest.partition("?")
    base = base.rstrip("/")
    _check_key(text, base)
    if store == "s3+ddb":
        _check_table(text, query)
    elif mark:
        raise ParameterError(f"'{text}' has a query", hint="only s3+ddb:// takes one: ?ddbTableName=table")
    return Location(f"{store}://{base}{mark}{query}", store, base, query, options)


def strip_file_scheme(text: str) -> str:
    """Return the path of a ``file:`` URI, and any other text as it is."""
    found = _SCHEME.fullmatch(text)
    return _file_path(text, found[2]) if found is not None and found[1].lower() == "file" else text


def parse_local_path(text: str | os.PathLike[str], subject: str, hint: str) -> Path:
    """Return the local path that an argument names, as given; ``hint`` says what to do about another place."""
    if not has_scheme(text):
        check_path(subject, text)
    place = locate(text, subject=subject)
    if not place.is_local:
        raise ParameterError(f"{subject} is '{os.fspath(text)}', which is no local path", hint=hint)
    return Path(place.base) if has_scheme(text) else Path(text)


def _refuse_squeezed(scheme: str, text: str, subject: str) -> None:
    """Refuse a ``Path`` that was made from a URI: a path drops one of the two slashes."""
    if scheme.lower() in ("file", *_STORES):
        raise ParameterError(f"{subject} is the path '{text}'", hint="give a URI as a text, not as a Path")


def _to_absolute(path: str, subject: str) -> str:
    if not path:
        raise ParameterError(f"{subject} is empty", hint="give a path or a URI")
    check_path(subject, path)
    return os.path.abspath(path)  # noqa: PTH100  Path.absolute keeps "..", which the object paths below refuse


def _trim_slashes(text: str) -> str:
    return text.rstrip("/") or "/"


def _file_path(text: str, rest: str) -> str:
    if not rest.startswith("//"):
        return unquote(rest)
    host, slash, path = rest[2:].partition("/")
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
