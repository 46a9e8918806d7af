"""Propose files from tables: a schema, and a pipeline that loads the tables into a graph with a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from omnigraph.errors import AlreadyExists, ParameterError, StorageError
from omnigraph.language.schema import parse_schema
from omnigraph.pipeline.file_proposal import PipelineProposal
from omnigraph.pipeline.schema_proposal import propose_schema
from omnigraph.pipeline.table_profile import TableProfile, profile_tables
from omnigraph.write.load import parse_file_options

DEFAULT_GRAPH = "graph.og"


def infer_schema(files: Sequence[str | Path], options: Mapping[str, object] | None = None) -> str:
    """Propose a schema for tables, one for each path; a comment says what each line was guessed from."""
    return propose_schema(_profile(files, options)).render()


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
    proposal = propose_schema(_profile(files, options))
    catalog = parse_schema(proposal.render() if schema is None else schema).catalog
    return PipelineProposal(graph, folder or Path(), proposal, catalog).render()


def _profile(files: Sequence[str | Path], options: Mapping[str, object] | None) -> list[TableProfile]:
    found, problems = parse_file_options(options or {})
    if problems:
        raise ParameterError("; ".join(problems), details={"problems": list(problems)})
    if not files:
        raise ParameterError("there are no tables", hint="give CSV, Parquet, Arrow or JSON lines files")
    return profile_tables([str(each) for each in files], found)


def save_proposal(path: Path, text: str) -> None:
    """Write a file that does not exist yet."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise AlreadyExists(f"'{path}' exists already", hint="choose another name, or delete it") from error
    except OSError as error:
        raise StorageError(f"'{path}' cannot be written: {error.strerror}") from error
