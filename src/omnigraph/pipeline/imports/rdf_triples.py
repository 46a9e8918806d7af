"""Read RDF as rows of triples: N-Triples line by line, all other formats file by file, with ``pyoxigraph``.

The rows are the same in every run, so that what is read twice fits together: nodes without a name are numbered in the
order in which a file has them, and carry its name.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias, cast

import pyarrow as pa

from omnigraph.errors import ParameterError, ValidationError, Violation
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.rows import require_package

TermKind: TypeAlias = Literal["iri", "blank", "literal"]

TRIPLES: Final = pa.schema(
    [(name, pa.string()) for name in ("subject", "predicate", "object", "kind", "datatype", "language")]
)
"""The columns of triples, for tables and for Spark."""
LINES: Final = ("nt", "nq")
"""Formats of which each line can be read alone."""
_ENDINGS: Final = (*LINES, "ttl", "trig", "n3", "rdf", "owl", "jsonld")
_GZIP: Final = ".gz"
UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""What reading a compressed file may raise."""
_STRING: Final = "http://www.w3.org/2001/XMLSchema#string"
_WHOLE_IRI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
_MAX_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Triple:
    """One statement. A node without a name has a subject such as ``_:people.ttl#1``."""

    subject: str
    predicate: str
    object: str
    kind: TermKind
    datatype: str | None = None
    language: str | None = None

    def to_row(self) -> tuple[str | None, ...]:
        """Return the values of the columns."""
        return self.subject, self.predicate, self.object, self.kind, self.datatype, self.language


def find_rdf_ending(path: str) -> str | None:
    """Return the ending of a name, without ``.gz``, if it is one of RDF."""
    ending = Path(path.lower().removesuffix(_GZIP)).suffix.removeprefix(".")
    return ending if ending in _ENDINGS else None


def open_rdf(path: str) -> IO[bytes]:
    """Open a file to read its lines, which may be compressed."""
    return cast("IO[bytes]", gzip.open(path)) if path.lower().endswith(_GZIP) else Path(path).open("rb")


def parse_rdf(name: str, data: bytes) -> Iterator[Triple]:
    """Yield the triples of a file. What cannot be parsed raises :class:`ValidationError`, of N-Triples each line."""
    ending = find_rdf_ending(name)
    if ending is None:
        raise ParameterError(f"'{name}' has no ending of RDF", hint=f"use {', '.join(_ENDINGS)}")
    if name.lower().endswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except UNREADABLE as error:
            wrong = Violation("", "rdf_file", f"the file cannot be read: {error}", name)
            raise _make_error(name, [wrong]) from error
    data = data.removeprefix(codecs.BOM_UTF8)
    if ending in LINES:
        return parse_lines(name, data.split(b"\n"))
    return _parse_whole(name, ending, data)


def parse_lines(name: str, lines: Iterable[bytes], *, are_all: bool = True) -> Iterator[Triple]:
    """Yield the triples of lines of N-Triples; all lines that are none are reported together.

    The number of a line is reported if they are all lines of a file.
    """
    ending = find_rdf_ending(name) or LINES[0]
    wrong: list[Violation] = []

    def name_blank(label: str) -> str:
        return f"_:{Path(name).name}#{label}"

    for number, given in enumerate(lines, 1):
        line = given.removeprefix(codecs.BOM_UTF8) if number == 1 else given
        if not line.strip():
            continue
        try:
            found = [_make_triple(quad, name_blank) for quad in _parse(ending, line)]
        except SyntaxError as error:
            if len(wrong) < _MAX_SHOWN:
                text = line.decode("utf-8", "replace").strip()
                wrong.append(_describe(name, number if are_all else None, error, text))
            continue
        if not wrong:
            yield from found
    if wrong:
        raise _make_error(name, wrong)


def _parse_whole(name: str, ending: str, data: bytes) -> Iterator[Triple]:
    numbers: dict[str, int] = {}

    def number(label: str) -> str:
        return f"_:{Path(name).name}#{numbers.setdefault(label, len(numbers) + 1)}"

    try:
        yield from (_make_triple(quad, number) for quad in _parse(ending, data))
    except SyntaxError as error:
        line = error.lineno
        text = "" if line is None else data.split(b"\n")[line - 1].decode("utf-8", "replace").strip()
        raise _make_error(name, [_describe(name, line, error, text)]) from None


def _make_error(name: str, wrong: Sequence[Violation]) -> ValidationError:
    """Return an error whose message says what is wrong first: of one in a task of Spark no more comes back."""
    first = wrong[0]
    place = "" if first.line is None else f", line {first.line}"
    text = f": {first.value}" if first.value else ""
    more = f" (and {len(wrong) - 1:,} more)" if len(wrong) > 1 else ""
    return ValidationError(f"{name} cannot be read{place}: {first.message}{text}{more}", wrong)


def _describe(name: str, line: int | None, error: SyntaxError, text: str) -> Violation:
    # The message repeats the place, which it counts from the start of what was parsed.
    return Violation("", "rdf_syntax", error.msg.partition(": ")[2] or error.msg, name, line, value=text)


def _parse(ending: str, data: bytes) -> Iterable[Any]:
    require_package("pyoxigraph")
    library = cast("Any", import_module("pyoxigraph"))
    format_ = library.RdfFormat.from_extension("rdf" if ending == "owl" else ending)
    if ending == "n3":
        return _refuse_formulas(library.parse(data, format=format_), library.DefaultGraph())
    if ending == "jsonld":
        # Otherwise triples with an IRI that is not whole are left out without a word.
        return _refuse_relative(library.parse(data, format=format_, lenient=True))
    return library.parse(data, format=format_)


def _refuse_formulas(quads: Iterable[Any], whole: Any) -> Iterator[Any]:
    """Yield statements; those in braces are not said to be true."""
    for each in quads:
        if each.graph_name != whole:
            raise SyntaxError("a formula in braces is not read")
        yield each


def _refuse_relative(quads: Iterable[Any]) -> Iterator[Any]:
    """Yield statements whose IRIs are whole."""
    for each in quads:
        if not _WHOLE_IRI.fullmatch(each.predicate.value):
            name = each.predicate.value
            raise SyntaxError(f"the key '{name}' stands for no IRI; a context that maps it to null leaves it out")
        for term in (each.subject, each.object):
            if type(term).__name__ == "NamedNode" and not _WHOLE_IRI.fullmatch(term.value):
                raise SyntaxError(f"'{term.value}' is no whole IRI; @base in the context says what it is relative to")
        yield each


def _make_triple(quad: Any, name_blank: Callable[[str], str]) -> Triple:
    subject, value = quad.subject, quad.object
    about = name_blank(subject.value) if type(subject).__name__ == "BlankNode" else subject.value
    match type(value).__name__:
        case "NamedNode":
            return Triple(about, quad.predicate.value, value.value, "iri")
        case "BlankNode":
            return Triple(about, quad.predicate.value, name_blank(value.value), "blank")
        case "Literal":
            datatype = value.datatype.value
            kept = None if datatype == _STRING or value.language else datatype
            return Triple(about, quad.predicate.value, value.value, "literal", kept, value.language)
        case other:
            # Not the fault of the syntax, but reported like one: with its file, and its line if that is known.
            raise SyntaxError(f"a triple has a {other} as its object; triples about triples are not read")


def make_batches(triples: Iterable[Triple], num_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Yield triples as Arrow batches."""
    rows: list[tuple[str | None, ...]] = []
    for each in triples:
        rows.append(each.to_row())
        if len(rows) == num_rows:
            yield _to_batch(rows)
            rows = []
    if rows:
        yield _to_batch(rows)


def _to_batch(rows: list[tuple[str | None, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=TRIPLES)
