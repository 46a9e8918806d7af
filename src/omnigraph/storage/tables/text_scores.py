"""BM25 scores of a text search, computed from the live rows of a table.

Lance takes the statistics of a score from its index. The index still counts rows that were deleted or rewritten after
it was built, and does not count rows that were added. Equal rows would rank differently after different histories, and
scores would reveal deleted rows. Where the statistics of an index are not exact, this module computes the scores, from
the lengths of the remaining documents and the words of the matching rows. They equal the scores of a new index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias
from uuid import uuid4

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.deadlines import check_deadline, wait_for
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.columns import column_of, to_list
from omnigraph.storage.internal_columns import InternalColumn
from omnigraph.storage.lance_internals import DocumentLengths, read_document_lengths
from omnigraph.storage.tables.row_search import WordSearch
from omnigraph.storage.tables.staging import IndexKind
from omnigraph.storage.tables.table import ROW_ID, Table, branch_uri

_Numbers: TypeAlias = npt.NDArray[np.float64]

_K1: Final = 1.2
_B: Final = 0.75
"""The parameters of Lance's BM25."""
_TEXTS_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class TextStatistics:
    """What scores depend on in addition to the row: the number of rows with words, and the total number of words."""

    documents: int
    words: int
    stale: int
    """How many entries the index has for rows that were deleted or rewritten."""
    covers_all: bool

    @property
    def is_exact(self) -> bool:
        """Whether Lance's own statistics are the same: the index covers every row, and nothing else."""
        return self.covers_all and not self.stale


def read_text_statistics(table: Table, column: str) -> TextStatistics:
    """Count the rows with words in an indexed column, and their words. Only rows without an index entry are read."""
    documents = words = stale = 0
    covered: set[int] = set()
    for fragments, lengths in _read_segments(table, column):
        live = np.isin(lengths.row_ids, _read_row_ids(table, fragments))
        documents += int(np.count_nonzero(live))
        words += int(lengths.words[live].sum())
        stale += int(np.count_nonzero(~live))
        covered |= fragments
    rest = set(table.fragment_rows()) - covered
    if rest:
        for batch in table.scan([column], in_fragments=rest, one_by_one=True):
            lengths_of_batch = [len(words_of_text) for words_of_text in _split_words(to_list(column_of(batch, column)))]
            documents += sum(map(bool, lengths_of_batch))
            words += sum(lengths_of_batch)
    return TextStatistics(documents, words, stale, covers_all=not rest)


def _read_segments(table: Table, column: str) -> Iterator[tuple[set[int], DocumentLengths]]:
    """Yield the parts of the index of a column: the fragments that each covers, and its documents."""
    with table.reading():
        roots = {base_id: base.path for base_id, base in table.dataset.base_paths().items()}
        indexes = [
            index
            for index in table.dataset.describe_indices()
            if (index.index_type.upper(), index.field_names) == (IndexKind.INVERTED, [column])
        ]
    own = branch_uri(table.uri, table.branch)
    for segment in (segment for index in indexes for segment in index.segments):
        root = own if segment.base_id is None else roots[segment.base_id]
        lengths = read_document_lengths(root, segment.uuid, table.access.storage_options)
        if lengths is not None:
            yield set(segment.fragment_ids) & set(table.fragment_rows()), lengths


def _read_row_ids(table: Table, fragments: Collection[int]) -> npt.NDArray[np.uint64]:
    if not fragments:
        return np.zeros(0, np.uint64)
    return table.scan([], in_fragments=fragments, with_row_id=True).read_all()[ROW_ID].to_numpy()


def score_texts(search: WordSearch, statistics: TextStatistics) -> pa.Table:
    """Return the ids and scores of all rows that a search finds."""
    # A word counts as often as the query has it, as it does for Lance.
    query = next(_split_words([search.words]))
    matches = search.read([search.column])
    counts, lengths = _count_words(_split_words(to_list(column_of(matches, search.column))), query)
    scores = _compute_scores(counts, lengths, statistics).astype(np.float32)
    return pa.Table.from_arrays(
        [column_of(matches, "id"), pa.array(scores, pa.float32())], names=["id", InternalColumn.SCORE]
    )


def _count_words(texts: Iterable[Sequence[str]], query: Sequence[str]) -> tuple[_Numbers, _Numbers]:
    """Return how often each text has each word of a query, and how many words it has."""
    rows = [(*map(words.count, query), len(words)) for words in texts]
    counts = np.array(rows, np.float64).reshape(len(rows), len(query) + 1)
    return counts[:, :-1], counts[:, -1]


def _compute_scores(counts: _Numbers, lengths: _Numbers, statistics: TextStatistics) -> _Numbers:
    having = np.count_nonzero(counts, axis=0)
    weights = np.log(1 + (statistics.documents - having + 0.5) / (having + 0.5))
    damping = _K1 * (1 - _B + _B * lengths * statistics.documents / max(statistics.words, 1))
    return np.sum(weights * counts * (_K1 + 1) / (counts + damping[:, None]), axis=1)


def _split_words(texts: Sequence[object]) -> Iterator[Sequence[str]]:
    """Yield the words of each text as an index has them: without stop words, and reduced to their stems."""
    # One call for many texts: a call costs more than a short text. No text has this word between two texts.
    border = f"q{uuid4().int}"[:24]
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        check_deadline()
        joined = f" {border} ".join(str(text or "") for text in texts[begin : begin + _TEXTS_AT_ONCE])
        tokens = wait_for(lambda joined=joined: lance.tokenize(joined, stem=True, remove_stop_words=True))
        words: list[str] = []
        for token in tokens:
            if token.text == border:
                yield words
                words = []
            else:
                words.append(token.text)
        yield words
