"""What a load sends: its files, records and frames as one archive, kept in a file so that it can be sent again.

Files are sent as they are and frames as Arrow, so that the server reads what a local load would read: the same values,
and the same places in its errors. The last member of the archive says what the others are.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import IOBase
from itertools import groupby
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Final, cast

import orjson
import pyarrow as pa

from omnigraph.deadlines import check_deadline
from omnigraph.errors import Json, ParameterError
from omnigraph.language.schema import Catalog, NodeType
from omnigraph.lazy_dataclass import dataclass
from omnigraph.remote.wire_values import to_json_value
from omnigraph.write.load import (
    DataFile,
    LineBlock,
    LoadInput,
    TypedTable,
    open_frame,
    read_blocks,
    read_frame,
    refuse_empty_reader,
    resolve_tables,
)

TAR: Final = "application/x-tar"
CONTENTS: Final = "load.json"
_BLOCK: Final = 1 << 20

Reopen = Callable[[], IO[bytes]]


@contextmanager
def spool_input(given: LoadInput, catalog: Catalog) -> Generator[Reopen]:
    """Write everything to one file; yield a function that opens it."""
    if given.source is None and not given.nodes and not given.edges:
        raise ParameterError("there is nothing to load", hint="give a source, or nodes= and edges=")
    with NamedTemporaryFile(prefix="omnigraph-load-", suffix=".tar") as file:
        archive = _Archive(cast("IO[bytes]", file))
        contents: dict[str, Json] = {
            "source": None if given.source is None else _add_records(archive, given),
            "tables": [_add_table(archive, table, given) for table in resolve_tables(catalog, given)],
            "columns": {_spell_type(catalog, name): to_json_value(names) for name, names in given.columns.items()},
            "ignore": {_spell_type(catalog, name): list(names) for name, names in given.ignored.items()},
            "options": {name: str(value) for name, value in given.file_options.items()},
        }
        with archive.add(CONTENTS) as member:
            member.write(orjson.dumps(contents))
        archive.close()
        yield lambda: Path(file.name).open("rb")  # noqa: SIM115  whoever sends it closes it


def _spell_type(catalog: Catalog, name: str) -> str:
    """Return the name of a type as the schema has it: edges are found whatever their case."""
    edge = None if name in catalog.nodes else catalog.find_edge(name)
    return name if edge is None else edge.name


def _add_records(archive: _Archive, given: LoadInput) -> list[Json]:
    """Add each file of records, and the records that are objects of this process. Return what each is called."""
    assert given.source is not None, "there are records"
    parts: list[Json] = []
    blocks = enumerate(read_blocks(given.source, given.count_bytes))
    begun = 0

    def find_part(numbered: tuple[int, object]) -> int:
        # A file may have many blocks; the first of them begins with its first line.
        nonlocal begun
        number, block = numbered
        if not isinstance(block, LineBlock) or block.first == 1:
            begun = number
        return begun

    for number, group in groupby(blocks, find_part):
        shown: str | None = None
        with archive.add(f"records-{number}") as member:
            for _, block in group:
                check_deadline()
                if isinstance(block, LineBlock):
                    shown = block.file
                    member.writelines(line + b"\n" for line in block.lines)
                else:
                    member.writelines(
                        orjson.dumps(to_json_value(record), option=orjson.OPT_APPEND_NEWLINE)
                        for record in block.records
                    )
        parts.append({"member": f"records-{number}", "name": shown})
    return parts


def _add_table(archive: _Archive, table: TypedTable, given: LoadInput) -> Json:
    """Add a file of rows as it is, or a frame as an Arrow stream."""
    name = f"table-{archive.count}"
    kind = "node" if isinstance(table.type, NodeType) else "edge"
    described: dict[str, Json] = {"member": name, "name": table.name, "kind": kind, "type": table.type.name}
    with archive.add(name) as member:
        if isinstance(table.rows, DataFile):
            if not table.rows.is_local:
                raise ParameterError(
                    f"{table.rows.path} is not a file of this machine", hint="copy it here, or load it with Spark there"
                )
            with Path(table.rows.path).open("rb") as file:
                shutil.copyfileobj(file, member, _BLOCK)
            given.count_bytes(Path(table.rows.path).stat().st_size)
            return {**described, "format": table.rows.format}
        reader = open_frame(table.name, table.rows)
        with pa.ipc.new_stream(pa.PythonFile(cast("IOBase", member), "w"), reader.schema) as writer:
            rows = 0
            for batch in read_frame(table.name, reader):
                check_deadline()
                writer.write_batch(batch)
                rows += batch.num_rows
        if not rows:
            refuse_empty_reader(given, table)
    return {**described, "format": "frame"}


@dataclass(slots=True)
class _Archive:
    """A tar file that is written member by member. Two archives of the same input are equal byte by byte."""

    file: IO[bytes]
    count: int = 0

    @contextmanager
    def add(self, name: str) -> Generator[IO[bytes]]:
        """Add a member whose content the block writes."""
        header = self.file.tell()
        self.file.write(bytes(tarfile.BLOCKSIZE))
        yield self.file
        info = tarfile.TarInfo(name)
        info.size = self.file.tell() - header - tarfile.BLOCKSIZE
        self.file.write(bytes(-info.size % tarfile.BLOCKSIZE))
        end = self.file.tell()
        self.file.seek(header)
        self.file.write(info.tobuf(tarfile.GNU_FORMAT))
        self.file.seek(end)
        self.count += 1

    def close(self) -> None:
        """End the archive."""
        self.file.write(bytes(2 * tarfile.BLOCKSIZE))
        self.file.flush()
