"""The function ``split_text`` in the SQL of pipelines: a text becomes an array of pieces."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from omnigraph.pipeline.file import PipelineFile
from omnigraph.pipeline.text_chunks import split_text

SPLIT_TEXT: Final = "split_text"
_PIECES: Final = "array<struct<number: int, start: int, text: string>>"


@contextmanager
def offer_split_text(file: PipelineFile, session: SparkSession) -> Generator[None]:
    """Let the SQL of a pipeline call the function until the end of the block, if it does.

    A function of that name which the session has already is left alone.
    """
    if not _is_called(file) or session.catalog.functionExists(SPLIT_TEXT):
        yield
        return
    # Without Arrow, because Spark would take the type hints for a wish.
    session.udf.register(SPLIT_TEXT, sql.udf(_split, _PIECES, useArrow=False))
    try:
        yield
    finally:
        session.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {SPLIT_TEXT}")


def _is_called(file: PipelineFile) -> bool:
    texts = [each.sql.value for each in (*file.sources, *file.views) if each.sql is not None]
    return any(SPLIT_TEXT in text.lower() for text in texts)


def _split(text: str | None, size: int, overlap: int) -> list[tuple[int, int, str]]:
    return [(each.number, each.start, each.text) for each in split_text(text, size, overlap)]
