"""A small graph in the form of GraphAr: two types of vertices in chunks of two, and edges in two parts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

GRAPH = "name: social\nvertices: [person.vertex.yml, tag.vertex.yml]\nedges: [knows.edge.yml, likes.edge.yml]\n"
PERSON = """type: person
chunk_size: 2
prefix: vertex/person/
property_groups:
  - file_type: parquet
    properties:
      - {name: id, data_type: int64, is_primary: true}
  - file_type: parquet
    prefix: names/
    properties:
      - {name: firstName, data_type: string, is_primary: false, is_nullable: false}
      - {name: nick, data_type: list<string>, is_primary: false}
version: gar/v1
"""
TAG = """type: tag
chunk_size: 100
prefix: vertex/tag/
property_groups:
  - {file_type: parquet, properties: [{name: word, data_type: string, is_primary: false}]}
"""
KNOWS = """src_type: person
edge_type: knows
dst_type: person
chunk_size: 1024
src_chunk_size: 2
dst_chunk_size: 2
directed: false
prefix: edge/person_knows_person/
adj_lists:
  - {ordered: true, aligned_by: dst, file_type: csv}
  - {ordered: true, aligned_by: src, file_type: parquet}
property_groups:
  - file_type: parquet
    properties:
      - {name: since, data_type: date, is_primary: false}
"""
LIKES = """src_type: person
edge_type: likes
dst_type: tag
directed: true
prefix: edge/person_likes_tag/
adj_lists:
  - {ordered: false, aligned_by: src, prefix: coo/, file_type: parquet}
"""
PEOPLE: dict[int, tuple[str, list[str] | None]] = {70: ("Ann", ["a", "an"]), 50: ("Bob", None), 60: ("Eve", [])}


def write_graphar(folder: Path) -> None:
    """Write all files of the graph."""
    files = {
        "social.graph": GRAPH,
        "person.vertex": PERSON,
        "tag.vertex": TAG,
        "knows.edge": KNOWS,
        "likes.edge": LIKES,
    }
    for name, text in files.items():
        (folder / f"{name}.yml").write_text(text)
    ids, names = list(PEOPLE), list(PEOPLE.values())
    for chunk, rows in enumerate((slice(0, 2), slice(2, 3))):
        number = pa.array(range(3)[rows], pa.int64())
        _write(folder, f"vertex/person/id/chunk{chunk}", {"_graphArVertexIndex": number, "id": ids[rows]})
        first, nick = ([each[part] for each in names[rows]] for part in (0, 1))
        columns = {"_graphArVertexIndex": number, "firstName": first, "nick": pa.array(nick, pa.list_(pa.string()))}
        _write(folder, f"vertex/person/names/chunk{chunk}", columns)
    _write(folder, "vertex/tag/word/chunk0", {"word": ["graph", None]})
    by_source = "edge/person_knows_person/ordered_by_source"
    # From the first two people, and from the third; an edge is there twice.
    for part, (pairs, days) in enumerate([([(0, 1), (0, 1), (1, 2)], [1, 2, 3]), ([(2, 0)], [None])]):
        _write_ends(folder, f"{by_source}/adj_list/part{part}/chunk0", pairs)
        since = [None if day is None else date(2026, 1, day) for day in days]
        _write(folder, f"{by_source}/since/part{part}/chunk0", {"since": pa.array(since, pa.date32())})
    _write_ends(folder, "edge/person_likes_tag/coo/adj_list/part1/chunk0", [(2, 1)])


def _write_ends(folder: Path, path: str, pairs: list[tuple[int, int]]) -> None:
    ends = {name: [pair[at] for pair in pairs] for at, name in enumerate(("_graphArSrcIndex", "_graphArDstIndex"))}
    _write(folder, path, ends)


def _write(folder: Path, path: str, columns: Mapping[str, object]) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(cast(Any, columns)), folder / path)
