"""Propose files from tables: a schema, and a pipeline that loads the tables into a graph with a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from omnigraph.errors import AlreadyExists, ParameterError, StorageError
from omnigraph.language.schema import parse_schema
from omnigraph.pipeline.file_proposal import PipelineProposal
from omnigraph.pipeline.imports import (
    ImportProposal,
    is_graphar,
    is_neo4j_dump,
    is_rdf,
    propose_graphar,
    propose_neo4j,
    propose_rdf,
)
from omnigraph.pipeline.schema_proposal import propose_schema
from omnigraph.pipeline.table_profile import TableProfile, profile_tables
from omnigraph.write.load import FileOptions, parse_file_options

DEFAULT_GRAPH = "graph.og"
_ARRAY_DELIMITER: Final = "array_delimiter"


def infer_schema(files: Sequence[str | Path], options: Mapping[str, object] | None = None) -> str:
    """Propose a schema for tables, one for each path; a comment says what each line was guessed from."""
    imported = _propose_import(files, options)
    return propose_schema(_profile(files, options)).render() if imported is None else imported.render_schema()


def propose_pipeline(
    files: Sequence[str | Path],
    *,
    schema: str | Path | None = None,
    graph: str = DEFAULT_GRAPH,
    folder: Path | None = None,
    options: Mapping[str, object] | None = None,
) -> str:
    """Propose a pipeline file that loads tables into a graph. Without ``schema``, it fits the inferred one.

    ``folder`` is where the file will lie: paths in it are relative to that.
    """
    imported = _propose_import(files, options)
    if imported is not None:
        known = parse_schema(imported.render_schema() if schema is None else schema).catalog
        return imported.render_pipeline(graph, folder or Path(), known)
    proposal = propose_schema(_profile(files, options))
    catalog = parse_schema(proposal.render() if schema is None else schema).catalog
    return PipelineProposal(graph, folder or Path(), proposal, catalog).render()


def _propose_import(files: Sequence[str | Path], options: Mapping[str, object] | None) -> ImportProposal | None:
    """Return what the graph of another system becomes; None if the files are tables."""
    paths, given = [str(each) for each in files], dict(options or {})
    delimiter = given.pop(_ARRAY_DELIMITER, None)
    found = _parse_options(given)
    if delimiter is None and is_graphar(paths):
        return propose_graphar(paths)
    if delimiter is None and is_rdf(paths):
        return propose_rdf(paths)
    if is_neo4j_dump(paths, found):
        return propose_neo4j(paths, found, None if delimiter is None else str(delimiter))
    if delimiter is not None:
        raise ParameterError(f"{_ARRAY_DELIMITER} is for dumps of Neo4j", hint="leave it out")
    return None


def _parse_options(options: Mapping[str, object]) -> FileOptions:
    found, problems = parse_file_options(options)
    if problems:
        raise ParameterError("; ".join(problems), details={"problems": list(problems)})
    return found


def _profile(files: Sequence[str | Path], options: Mapping[str, object] | None) -> list[TableProfile]:
    if not files:
        raise ParameterError("there are no tables", hint="give CSV, Parquet, Arrow or JSON lines files")
    return profile_tables([str(each) for each in files], _parse_options(options or {}))


def save_proposal(path: Path, text: str) -> None:
    """Write a file that does not exist yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise AlreadyExists(f"'{path}' exists already", hint="choose another name, or delete it") from error
    except OSError as error:
        raise StorageError(f"'{path}' cannot be written: {error.strerror}") from error
