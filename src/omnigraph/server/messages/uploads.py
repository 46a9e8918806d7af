"""The body of a load that was saved to a file: lines of records, or an archive of records, frames and files of rows.

Nothing but the body is read: members of an archive have names of ours, and what the sender calls them is only shown.
What is compressed is decompressed beside the upload, and refused while it grows too large.
"""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, cast

import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json, OmniGraphError, ParameterError, ValidationError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.server.config import Limits
from omnigraph.server.errors import RequestError
from omnigraph.server.messages.requests import RequestModel, build_model, parse_json_body
from omnigraph.write.load import RecordSource, TableInput, UnreadRows

_CONTENTS: Final = "load.json"
_BLOCK: Final = 1 << 20
_MAGIC: Final = 4
_CODECS: Final[Mapping[bytes, Literal["gzip", "zstd"]]] = {b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}
_ENDING: Final = re.compile(r"(\.[a-z]{1,8}){1,2}$")
_LINE_FORMATS: Final = ("csv", "jsonl")
_HINT: Final = "send an archive as `og.open(URL).load` makes it"


class RecordMember(RequestModel):
    """One file of records, and what it is called in messages."""

    member: str
    name: str | None = None


class TableMember(RequestModel):
    """The rows of one type: a file as it is, or a frame as an Arrow stream."""

    member: str
    name: str
    kind: Literal["node", "edge"]
    type: str
    format: Literal["frame", "csv", "parquet", "arrow", "jsonl"]


class ArchiveContents(RequestModel):
    """What the members of an archive are, and how tables are read."""

    source: list[RecordMember] | None = None
    tables: list[TableMember] | None = None
    columns: dict[str, dict[str, str | list[str]]] | None = None
    ignore: dict[str, list[str]] | None = None
    options: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class UploadedInput:
    """What a load reads. ``names`` are what files of ours are called in messages."""

    source: RecordSource | None
    nodes: Mapping[str, TableInput] = field(default_factory=dict[str, TableInput])
    edges: Mapping[str, TableInput] = field(default_factory=dict[str, TableInput])
    columns: Mapping[str, Mapping[str, str | list[str]]] = field(
        default_factory=dict[str, "Mapping[str, str | list[str]]"]
    )
    ignore: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    names: Mapping[str, str] = field(default_factory=dict[str, str])

    def rename(self, value: Json) -> Json:
        """Return a value in which the files have the names that the sender gave them."""
        if isinstance(value, str):
            for path, name in self.names.items():
                value = value.replace(path, name)
            return value
        if isinstance(value, Mapping):
            return {key: self.rename(each) for key, each in value.items()}
        return [self.rename(each) for each in value] if isinstance(value, list) else value

    @contextmanager
    def name_files(self) -> Generator[None]:
        """Give the files their names in the errors of the block."""
        try:
            yield
        except OmniGraphError as error:
            error.message = str(self.rename(error.message))
            error.details = cast("dict[str, Json]", self.rename(error.details))
            if isinstance(error, ValidationError):
                error.rewrite_violations(
                    lambda each: replace(each, file=None if each.file is None else self.names.get(each.file, each.file))
                )
            raise


@contextmanager
def open_lines(path: Path, limits: Limits) -> Generator[UploadedInput]:
    """Open an upload of lines of records."""
    with TemporaryDirectory(prefix="omnigraph-upload-", dir=path.parent) as folder:
        with path.open("rb") as file:
            decoded = _decode(file, path.stat().st_size, Path(folder) / "decoded", limits)
        with (decoded or path).open("rb") as lines:
            check_lines(lines, limits)
            yield UploadedInput(_NamedStream(lines, None))


@contextmanager
def open_archive(path: Path, limits: Limits) -> Generator[UploadedInput]:
    """Open an upload of several files."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(TemporaryDirectory(prefix="omnigraph-upload-", dir=path.parent)))
        members = _unpack(path, folder, limits)
        if _CONTENTS not in members:
            raise _make_bad_archive(f"there is no member '{_CONTENTS}'")
        data = members[_CONTENTS].read_bytes()
        contents = build_model(ArchiveContents, parse_json_body(data, limits.json_depth), is_text=False)
        wanted = [part.member for part in (*(contents.source or ()), *(contents.tables or ()))]
        missing = [name for name in wanted if name not in members]
        if missing:
            raise _make_bad_archive(f"there is no member '{missing[0]:.60}'")
        source = None
        for part in contents.source or ():
            with members[part.member].open("rb") as lines:
                check_lines(lines, limits, part.name)
        if contents.source is not None:
            source = [
                _NamedStream(opened.enter_context(members[part.member].open("rb")), part.name)
                for part in contents.source
            ]
        tables: dict[str, dict[str, TableInput]] = {"node": {}, "edge": {}}
        names: dict[str, str] = {}
        for part in contents.tables or ():
            if part.format == "frame":
                tables[part.kind][part.type] = _open_frame(opened, members[part.member])
                continue
            file = _with_ending(members[part.member], part)
            if part.format in _LINE_FORMATS:
                with file.open("rb") as lines:
                    check_lines(lines, limits, part.name)
            names[str(file)] = part.name
            paths = cast("list[str]", tables[part.kind].setdefault(part.type, []))
            paths.append(str(file))
        yield UploadedInput(
            source,
            tables["node"],
            tables["edge"],
            contents.columns or {},
            contents.ignore or {},
            contents.options or {},
            names,
        )


def _unpack(path: Path, folder: Path, limits: Limits) -> dict[str, Path]:
    """Copy the members of an archive to files of ours, decompressed, and return them by name."""
    members: dict[str, Path] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for number, info in enumerate(archive):
                check_deadline()
                file = archive.extractfile(info) if info.isreg() and not info.issparse() else None
                if file is None:
                    raise _make_bad_archive("a member is not a plain file")
                target = folder / str(number)
                with cast("io.BufferedIOBase", file) as opened:
                    if _decode(opened, info.size, target, limits) is None:
                        with target.open("xb") as copy:
                            shutil.copyfileobj(opened, copy, _BLOCK)
                if target.stat().st_size < info.size:
                    raise _make_bad_archive("it ends early")
                members[info.name] = target
    except (tarfile.TarError, OSError, EOFError) as error:
        raise _make_bad_archive("it cannot be read") from error
    return members


def _make_bad_archive(what: str) -> ParameterError:
    return ParameterError(f"the body is no archive of a load: {what}", hint=_HINT)


def _with_ending(path: Path, part: TableMember) -> Path:
    """Rename a file so that its name ends as the sender's does: the ending says how it is read."""
    found = _ENDING.search(part.name.lower())
    return path.rename(path.with_suffix(found.group() if found else f".{part.format}"))


def _open_frame(opened: ExitStack, path: Path) -> TableInput:
    try:
        return UnreadRows(pa.ipc.open_stream(opened.enter_context(pa.memory_map(str(path)))))
    except pa.ArrowException as error:
        raise _make_bad_archive("a frame is not an Arrow stream") from error


def check_lines(file: io.BufferedIOBase, limits: Limits, name: str | None = None) -> None:
    """Refuse a file with a line that is too long, before any of it is loaded. ``name``: what its sender calls it."""
    number, length = 1, 0
    # A line inside a block of this size cannot be too long: only those at its ends are looked at.
    size = min(_BLOCK, limits.line_bytes)
    while block := file.read(size):
        check_deadline()
        first, last = block.find(b"\n"), block.rfind(b"\n")
        _check_line(length + (len(block) if first < 0 else first), number, limits, name)
        number += block.count(b"\n")
        length = length + len(block) if last < 0 else len(block) - last - 1
    file.seek(0)


def _check_line(length: int, number: int, limits: Limits, name: str | None) -> None:
    if length > limits.line_bytes:
        place = f"line {number}" if name is None else f"line {number} of {name}"
        raise RequestError(
            400,
            "line_too_long",
            f"{place} has more than {limits.line_bytes:,} bytes",
            hint="each record is a line of its own; large values are blobs",
            details={"line": number, "limit": limits.line_bytes},
        )


class _NamedStream(io.RawIOBase):
    """A file that is called something else in messages, or nothing."""

    def __init__(self, file: io.BufferedIOBase, name: str | None) -> None:
        super().__init__()
        self._file = file
        self.name = name

    def read(self, size: int = -1, /) -> bytes:
        """Read bytes."""
        return self._file.read(size)


def _decode(source: io.BufferedIOBase, size: int, target: Path, limits: Limits) -> Path | None:
    """Decompress a file into another; None if it is not compressed. What would grow too large is refused."""
    codec = _CODECS.get(source.read(_MAGIC)[:2])
    source.seek(0)
    if codec is None:
        return None
    most = min(limits.load_decoded_bytes, max(size * limits.load_ratio, _BLOCK))
    written = 0
    try:
        with target.open("xb") as file, pa.CompressedInputStream(pa.PythonFile(source, "r"), codec) as decoded:
            while block := decoded.read(_BLOCK):
                check_deadline()
                written += len(block)
                if written > most:
                    raise RequestError(
                        413, "body_too_large", f"the body has more than {most:,} bytes once it is decompressed"
                    )
                file.write(block)
    except OSError as error:
        raise RequestError(400, "bad_body", f"the body is not valid {codec}", hint="send it again") from error
    return target
