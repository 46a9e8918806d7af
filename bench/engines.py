"""The engines that ``query.py`` compares: each builds its files from the same Parquet files, opens them and answers.

An engine is imported when it is first used, so that a process has only the one that it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pyarrow.parquet as pq

from scans import Row
from workload import Question, Workload

if TYPE_CHECKING:
    from lance.dataset import LanceDataset


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
    return name != LANCE or question.scan is not None


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

        rows = {name: pq.read_table(parquet(folder, name)) for name in workload.types}
        graph = omnigraph.init(folder / "graph.og", workload.schema)
        graph.load(
            nodes={name: rows[name] for name in workload.nodes},
            edges={name: rows[name] for name in workload.edges},
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


# ------------------------------------------------------------------------------------------------ its peers


class DuckDB:
    """Joins of tables."""

    def __init__(self, folder: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(folder / "graph.duckdb", read_only=True)

    def ask(self, question: Question) -> list[Row]:
        """Run the SQL."""
        return cast("list[Row]", self._connection.execute(question.sql, dict(question.parameters)).fetchall())

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """Tables with primary keys, and an index on either end of the edges."""
        import duckdb

        with duckdb.connect(folder / "graph.duckdb") as connection:
            connection.execute(workload.sql_schema)
            for name in workload.types:
                connection.read_parquet(str(parquet(folder, name))).insert_into(name)
            for name in workload.edges:
                for end in ("src", "dst"):
                    connection.execute(f"CREATE INDEX {name}_{end} ON {name} ({end})")


class Ladybug:
    """An embedded graph database."""

    def __init__(self, folder: Path) -> None:
        import ladybug

        self._database = ladybug.Database(folder / "graph.lbug", read_only=True)
        self._connection = ladybug.Connection(self._database)

    def ask(self, question: Question) -> list[Row]:
        """Run the Cypher."""
        result = self._connection.execute(question.cypher, dict(question.parameters))
        assert not isinstance(result, list)
        return [tuple(cast("list[object]", row)) for row in result.get_all()]

    @staticmethod
    def build(folder: Path, workload: Workload) -> None:
        """Tables with primary keys; edges are stored by either end."""
        import ladybug

        with ladybug.Database(folder / "graph.lbug") as database, ladybug.Connection(database) as connection:
            connection.execute(workload.cypher_schema)
            for name in workload.types:
                connection.execute(f"COPY {name} FROM '{parquet(folder, name)}'")


# ------------------------------------------------------------------------------------------------ all of them


@dataclass(frozen=True, slots=True)
class Files:
    """What an engine builds: where in the folder, and how."""

    name: str
    build: Callable[[Path, Workload], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One engine: the modules that it needs, how it is opened, and its files, unless they are those of another."""

    modules: tuple[str, ...]
    open: Callable[[Path], Engine]
    files: Files | None


OMNIGRAPH, LANCE = "OmniGraph", "Lance"
ENGINES: Mapping[str, Kind] = {
    OMNIGRAPH: Kind(("omnigraph", "omnigraph.graph"), OmniGraph, Files("graph.og", OmniGraph.build)),
    # DuckDB imports pandas by itself when it is first given a parameter.
    "DuckDB": Kind(("duckdb", "pandas"), DuckDB, Files("graph.duckdb", DuckDB.build)),
    "Ladybug": Kind(("ladybug",), Ladybug, Files("graph.lbug", Ladybug.build)),
    LANCE: Kind(("lance", "omnigraph.language.schema"), Lance, None),
}
BUILDERS = {name: kind.files for name, kind in ENGINES.items() if kind.files is not None}
