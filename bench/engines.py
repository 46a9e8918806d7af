"""The engines that ``query.py`` compares: each builds its files from the same Parquet files, opens them and answers.

An engine is imported when it is first used, so that a process has only the one that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

from scans import Row, rows_of
from walks import Graph, networkx
from workload import Question, Workload

if TYPE_CHECKING:
    import sqlite3

    import polars as pl
    from lance.dataset import LanceDataset

INSERTED_AT_ONCE: Final = 50_000


class Engine(Protocol):
    """An open graph in one engine."""

    def ask(self, question: Question) -> list[Row]:
        """All rows of the answer, as Python values."""
        ...


def import_engine(name: str) -> None:
    """Import what a program that uses the engine imports."""
    for module in ENGINES[name].modules:
        import_module(module)


def open_engine(name: str, folder: Path) -> Engine:
    """Open the files that were built in a folder."""
    return ENGINES[name].open(folder)


def answers(name: str, question: Question) -> bool:
    """Whether an engine is asked that question."""
    in_python = {LANCE: question.scan, POLARS: question.polars, NETWORKX: question.networkx}
    return name not in in_python or in_python[name] is not None


def parquet(folder: Path, type_name: str) -> Path:
    """Where the rows of a type are, for every engine to read."""
    return folder / f"{type_name}.parquet"


# ------------------------------------------------------------------------------------------------ OmniGraph


class OmniGraph:
    """This project, through its public interface."""

    def __init__(self, folder: Path) -> None:
        import omnigraph

        self._graph = omnigraph.open(folder / "graph.og", mode="ro")

    def ask(self, question: Question) -> list[Row]:
        """Run the ``.gq`` text."""
        result = self._graph.query(question.gq, params=question.parameters)
        return [tuple(row.values()) for row in result.rows]

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """One load, with every rule checked; the indexes on ids and ends follow it."""
        import omnigraph

        graph = omnigraph.init(folder / "graph.og", workload.schema)
        graph.load(
            nodes={name: parquet(folder, name) for name in workload.nodes},
            edges={name: parquet(folder, name) for name in workload.edges},
            indexes="always",
        )


class Lance:
    """The tables of that graph, without the graph."""

    def __init__(self, folder: Path) -> None:
        self._graph = folder / "graph.og"
        self._tables: dict[str, LanceDataset] = {}

    def ask(self, question: Question) -> list[Row]:
        """Run the scan."""
        assert question.scan is not None
        return question.scan(self._table, question.parameters)

    def _table(self, table_key: str) -> LanceDataset:
        import lance

        from omnigraph.language.schema import table_directory

        if table_key not in self._tables:
            self._tables[table_key] = lance.dataset(self._graph / table_directory(table_key))
        return self._tables[table_key]

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """The floor of our own build: the same columns as texts, and the same indexes, without a graph or a rule."""
        import lance
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        for name in workload.types:
            rows = pq.read_table(parquet(folder, name))
            ends = ("from", "to") if name in workload.edges else ()
            numbers = pc.cast(pa.array(range(rows.num_rows)), pa.string())
            # An edge has an id of 26 characters, a node that of its key.
            ids = pc.utf8_lpad(numbers, width=26, padding="0") if ends else pc.cast(rows.column(0), pa.string())
            for end in ends:
                texts = pc.cast(rows[end], pa.string())
                rows = rows.set_column(rows.schema.get_field_index(end), end, texts)
            table = lance.write_dataset(rows.add_column(0, "id", ids), folder / "raw.lance" / name)
            for column in ("id", *ends):
                table.create_scalar_index(column, "BTREE")


# ------------------------------------------------------------------------------------------------ its peers
# They are installed for benchmarks only, so their types are told here, as far as they are used.


class _Answer(Protocol):
    def fetchall(self) -> list[Row]: ...
    def get_all(self) -> list[list[object]]: ...


class _Relation(Protocol):
    def insert_into(self, table: str) -> None: ...


class _Connection(Protocol):
    def execute(self, text: str, parameters: dict[str, object] = ...) -> _Answer: ...
    def read_parquet(self, path: str) -> _Relation: ...
    def __enter__(self) -> _Connection: ...
    def __exit__(self, *exc_info: object) -> None: ...


class _DuckDB(Protocol):
    def connect(self, path: Path, *, read_only: bool = ...) -> _Connection: ...


class _Ladybug(Protocol):
    def Database(self, path: Path, *, read_only: bool = ...) -> AbstractContextManager[object]: ...  # noqa: N802
    def Connection(self, database: object) -> _Connection: ...  # noqa: N802


def _duckdb() -> _DuckDB:
    return cast("_DuckDB", import_module("duckdb"))


def _ladybug() -> _Ladybug:
    return cast("_Ladybug", import_module("ladybug"))


class DuckDB:
    """Joins of tables."""

    def __init__(self, folder: Path) -> None:
        self._connection = _duckdb().connect(folder / "graph.duckdb", read_only=True)

    def ask(self, question: Question) -> list[Row]:
        """Run the SQL."""
        return self._connection.execute(question.sql, dict(question.parameters)).fetchall()

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """Tables with primary keys, and an index on either end of the edges."""
        with _duckdb().connect(folder / "graph.duckdb") as connection:
            connection.execute(workload.sql_schema)
            for name in workload.types:
                connection.read_parquet(str(parquet(folder, name))).insert_into(name)
            for name in workload.edges:
                for end in ("src", "dst"):
                    connection.execute(f"CREATE INDEX {name}_{end} ON {name} ({end})")


class Ladybug:
    """An embedded graph database."""

    def __init__(self, folder: Path) -> None:
        self._database = _ladybug().Database(folder / "graph.lbug", read_only=True)
        self._connection = _ladybug().Connection(self._database)

    def ask(self, question: Question) -> list[Row]:
        """Run the Cypher."""
        return [tuple(row) for row in self._connection.execute(question.cypher, dict(question.parameters)).get_all()]

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """Tables with primary keys; edges are stored by either end."""
        peer = _ladybug()
        with peer.Database(folder / "graph.lbug") as database, peer.Connection(database) as connection:
            connection.execute(workload.cypher_schema)
            for name in workload.types:
                connection.execute(f"COPY {name} FROM '{parquet(folder, name)}'")


class SQLite:
    """Joins of tables, row by row."""

    def __init__(self, folder: Path) -> None:
        import sqlite3

        self._connection = sqlite3.connect(f"file:{folder / 'graph.sqlite'}?mode=ro", uri=True)

    def ask(self, question: Question) -> list[Row]:
        """Run its SQL, or that of DuckDB."""
        return self._connection.execute(question.sqlite or question.sql, dict(question.parameters)).fetchall()

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """Tables with primary keys, and an index from either end of the edges to the other."""
        import sqlite3

        # It has no dates, only texts.
        sqlite3.register_adapter(date, date.isoformat)
        with closing(sqlite3.connect(folder / "graph.sqlite")) as connection, connection:
            # A key is the number of the row itself only if its type has that name; any other key is an index beside it.
            connection.executescript(workload.sql_schema.replace("BIGINT PRIMARY KEY", "INTEGER PRIMARY KEY"))
            for name in workload.types:
                _insert(connection, name, parquet(folder, name))
            for name in workload.edges:
                connection.execute(f"CREATE INDEX {name}_src ON {name} (src, dst)")
                connection.execute(f"CREATE INDEX {name}_dst ON {name} (dst, src)")
            connection.execute("ANALYZE")


def _insert(connection: sqlite3.Connection, table: str, path: Path) -> None:
    import pyarrow.parquet as pq

    rows = pq.read_table(path)
    marks = ", ".join("?" for _ in rows.column_names)
    for begin in range(0, rows.num_rows, INSERTED_AT_ONCE):
        some = rows_of(rows.slice(begin, INSERTED_AT_ONCE))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", some)  # noqa: S608


class Polars:
    """Frames in memory: each is read from Parquet when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frames: dict[str, pl.LazyFrame] = {}

    def ask(self, question: Question) -> list[Row]:
        """Join frames."""
        assert question.polars is not None
        return question.polars(self._frame, question.parameters)

    def _frame(self, type_name: str) -> pl.LazyFrame:
        import polars as pl

        if type_name not in self._frames:
            self._frames[type_name] = pl.read_parquet(parquet(self._folder, type_name)).lazy()
        return self._frames[type_name]


class Networkx:
    """Graphs in memory, made of Python values: each is built from Parquet when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._graphs: dict[tuple[str, str], Graph] = {}

    def ask(self, question: Question) -> list[Row]:
        """Walk a graph."""
        assert question.networkx is not None
        return question.networkx(self._graph, question.parameters)

    def _graph(self, node_type: str, edge_type: str) -> Graph:
        if (node_type, edge_type) not in self._graphs:
            self._graphs[node_type, edge_type] = self._build(node_type, edge_type)
        return self._graphs[node_type, edge_type]

    def _build(self, node_type: str, edge_type: str) -> Graph:
        import pyarrow.parquet as pq

        graph = networkx().DiGraph()
        nodes = pq.read_table(parquet(self._folder, node_type))
        numbers = cast("list[int]", nodes["number"].to_pylist())
        graph.add_nodes_from(zip(numbers, nodes.to_pylist(), strict=True))
        begins, ends = pq.read_table(parquet(self._folder, edge_type), columns=["from", "to"]).columns
        graph.add_edges_from(
            zip(cast("list[int]", begins.to_pylist()), cast("list[int]", ends.to_pylist()), strict=True)
        )
        return graph


# ------------------------------------------------------------------------------------------------ all of them


@dataclass(frozen=True, slots=True)
class Files:
    """What an engine builds: where in the folder, and how."""

    name: str
    build: Callable[[Path, Workload], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One engine: the modules that it needs, how it is opened, and what it builds unless it uses the Parquet files."""

    modules: tuple[str, ...]
    open: Callable[[Path], Engine]
    files: Files | None = None


OMNIGRAPH, LANCE, POLARS, NETWORKX = "OmniGraph", "Lance", "Polars", "networkx"
ENGINES: Mapping[str, Kind] = {
    OMNIGRAPH: Kind(("omnigraph", "omnigraph.graph"), OmniGraph, Files("graph.og", OmniGraph.build)),
    # DuckDB imports pandas by itself when it is first given a parameter.
    "DuckDB": Kind(("duckdb", "pandas"), DuckDB, Files("graph.duckdb", DuckDB.build)),
    "Ladybug": Kind(("ladybug",), Ladybug, Files("graph.lbug", Ladybug.build)),
    "SQLite": Kind(("sqlite3",), SQLite, Files("graph.sqlite", SQLite.build)),
    POLARS: Kind(("polars",), Polars),
    NETWORKX: Kind(("networkx", "pyarrow.parquet"), Networkx),
    LANCE: Kind(("lance", "omnigraph.language.schema"), Lance, Files("raw.lance", Lance.build)),
}
BUILDERS = {name: kind.files for name, kind in ENGINES.items() if kind.files}
