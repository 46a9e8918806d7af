"""Files of rows of one type: CSV, Parquet, Arrow and lines of JSON objects. Find them, and know their format.

The ending of a name gives the format. A path may be a pattern or a folder. A URI names files that only Spark can read.
"""

from __future__ import annotations

import codecs
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.location import has_scheme, strip_file_scheme
from omnigraph.write.load.inputs.csv_format import STANDARD_CSV, CsvFormat

FileFormat: TypeAlias = Literal["csv", "parquet", "arrow", "jsonl"]
PathLike: TypeAlias = "str | os.PathLike[str]"

_SUFFIXES: Final[Mapping[str, FileFormat]] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
_FORMATS: Final = tuple(dict.fromkeys(_SUFFIXES.values()))
_COMPRESSED: Final = (".gz", ".zst")
_HIDDEN: Final = ("_", ".")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows of one type."""

    path: str
    format: FileFormat
    csv: CsvFormat = STANDARD_CSV

    @property
    def is_local(self) -> bool:
        """Whether this process can read it; else only Spark can."""
        return not has_scheme(self.path)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """How files are read. Without ``format``, the ending of a name gives it."""

    format: FileFormat | None = None
    csv: CsvFormat = STANDARD_CSV
    has_separator: bool = False


def find_table_format(path: str) -> FileFormat | None:
    """Return the format that the ending of a name gives; None if there is none."""
    name = path.lower().rstrip("/")
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return _SUFFIXES.get(os.path.splitext(name)[1])  # noqa: PTH122  it may be a URI


# --------------------------------------------------------------------------------------------- options


def parse_file_options(given: Mapping[str, object]) -> tuple[FileOptions, list[str]]:
    """Parse the options of files, which are named as in Spark; return the problems too."""
    problems: list[str] = []
    settings: dict[str, object] = {}
    format_: FileFormat | None = None
    for name, value in given.items():
        option = _OPTIONS.get(name.lower())
        try:
            if name.lower() == "format":
                format_ = _parse_format(_to_text(value))
            elif option is None:
                raise _BadOption(_describe_unknown(name))
            else:
                field, parse = option
                settings[field] = parse(_to_text(value))
        except _BadOption as bad:
            problems.append(f"option '{name}': {bad}")
    if settings.get("escape") == settings.get("quote", STANDARD_CSV.quote):
        # A quote may always be doubled.
        settings.pop("escape", None)
    csv = CsvFormat(**settings)  # pyright: ignore[reportArgumentType]  the parsers give the types of the fields
    if csv.separator in (csv.quote, csv.escape):
        problems.append(f"option 'sep': '{csv.separator}' is also the option {_name_other_mark(csv)}")
    return FileOptions(format_, csv, "separator" in settings), problems


def _name_other_mark(csv: CsvFormat) -> str:
    return "quote" if csv.separator == csv.quote else "escape"


class _BadOption(Exception):
    """The value of an option is not allowed."""


def _describe_unknown(name: str) -> str:
    return suggest_similar(name, OPTION_NAMES) or f"unknown; the options are {', '.join(OPTION_NAMES)}"


def _to_text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _parse_format(text: str) -> FileFormat:
    word = text.lower()
    known: Mapping[str, FileFormat] = {**{each: each for each in _FORMATS}, "json": "jsonl"}
    if word not in known:
        raise _BadOption(f"'{text}' is not one of {', '.join(_FORMATS)}")
    return known[word]


def _parse_switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _BadOption(f"'{text}' is neither true nor false")
    return text.lower() == "true"


def _parse_character(text: str) -> str:
    character = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(character.encode()) != 1 or character in "\r\n":
        raise _BadOption(f"'{text}' is not one ASCII character")
    return character


def _parse_mark(text: str) -> str | None:
    return _parse_character(text) if text else None


def _parse_encoding(text: str) -> str:
    try:
        # Not every codec is one of texts: rot13 is not, and "undefined" knows no character.
        " ".encode(text)
        return codecs.lookup(text).name
    except (LookupError, ValueError):
        raise _BadOption(f"'{text}' is not an encoding") from None


_OPTIONS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "header": ("has_header", _parse_switch),
    "sep": ("separator", _parse_character),
    "delimiter": ("separator", _parse_character),
    "quote": ("quote", _parse_mark),
    "escape": ("escape", _parse_mark),
    "nullvalue": ("null_texts", lambda text: tuple(dict.fromkeys(("", text)))),
    "encoding": ("encoding", _parse_encoding),
    "charset": ("encoding", _parse_encoding),
    "multiline": ("spans_lines", _parse_switch),
}
OPTION_NAMES: Final = ("format", "header", "sep", "quote", "escape", "nullValue", "encoding", "multiLine")


# --------------------------------------------------------------------------------------------- paths


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of paths, in order; the problems of some, and the paths without any file."""

    files: tuple[DataFile, ...]
    problems: tuple[str, ...]
    missing: tuple[str, ...]


def find_files(given: Iterable[PathLike], options: FileOptions) -> FoundFiles:
    """Find the files of paths, patterns and folders."""
    files: list[DataFile] = []
    problems: list[str] = []
    missing: list[str] = []
    for path in (strip_file_scheme(os.fspath(each)) for each in given):
        found = expand_path(path)
        missing += [] if found else [path]
        for each in found:
            format_ = options.format or find_table_format(each)
            if format_ is None:
                endings = ", ".join(_SUFFIXES)
                problems.append(f"the format of '{each}' is unknown; give the option format, or an ending: {endings}")
            elif not has_scheme(each) and _is_partitioned(path, each):
                problems.append(f"'{each}' lies in a partition folder, whose name holds a value; use a pipeline")
            else:
                files.append(DataFile(each, format_, _csv_format_of(each, options)))
    return FoundFiles(tuple(files), tuple(problems), tuple(missing))


def _csv_format_of(path: str, options: FileOptions) -> CsvFormat:
    is_tab_separated = ".tsv" in Path(path).suffixes and not options.has_separator
    return replace(options.csv, separator="\t") if is_tab_separated else options.csv


def expand_path(path: str) -> list[str]:
    """Return the files of a path, a pattern or a folder; a URI stays as it is."""
    return [path] if has_scheme(path) else list(_list_local_files(path))


def _list_local_files(path: str) -> Iterator[str]:
    # A file may have a name that looks like a pattern.
    names = [path] if Path(path).exists() else sorted(glob.glob(path, recursive=True))  # noqa: PTH207  it may be absolute
    for name in names:
        if Path(name).is_dir():
            yield from sorted(
                str(each) for each in Path(name).rglob("*") if each.is_file() and not _is_hidden(name, each)
            )
        else:
            yield name


def _is_hidden(folder: str, file: Path) -> bool:
    return any(part.startswith(_HIDDEN) for part in file.relative_to(folder).parts)


def _is_partitioned(given: str, file: str) -> bool:
    return given != file and any("=" in part for part in Path(file).relative_to(Path(_fixed_part(given))).parts[:-1])


def _fixed_part(pattern: str) -> str:
    """The part of a pattern before its first wildcard, up to a whole folder."""
    if Path(pattern).exists():
        return pattern
    parts = Path(pattern).parts
    first = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return str(Path(*parts[:first])) if first else "."
