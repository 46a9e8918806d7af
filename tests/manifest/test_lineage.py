"""The history of a branch: its head, its order, its growth, and where two histories meet."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import StorageError
from omnigraph.manifest.lineage import CREATED_VERSION, Lineage, build_lineage, decode_lineage, find_merge_bases
from omnigraph.manifest.rows import CommitRecord, encode_rows
from omnigraph.manifest.state import read_lineage
from omnigraph.storage.location import Location
from tests.manifest.publishing import commit_rows, make_graph, manifest_of


def commit(commit_id: str, version: int, *parents: str, created_at: int = 0) -> CommitRecord:
    parent, merged = (*parents, None, None)[:2]
    return CommitRecord(commit_id, None, version, created_at, parent, merged)


def ids(lineage: Lineage) -> list[str]:
    return [found.id for found in lineage.list_newest_first()]


def test_an_empty_history_has_no_head() -> None:
    empty = build_lineage([])
    assert (len(empty), empty.head(), empty.find("A"), ids(empty)) == (0, None, None, [])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (commit("Z", 1, created_at=9), commit("A", 2, created_at=1)),  # the version decides
        (commit("Z", 2, created_at=1), commit("A", 2, created_at=9)),  # then the time
        (commit("A", 2, created_at=1), commit("Z", 2, created_at=1)),  # then the id
    ],
)
def test_the_head_is_the_greatest_of_version_time_and_id(first: CommitRecord, second: CommitRecord) -> None:
    for lineage in (build_lineage([first, second]), build_lineage([second, first])):
        assert lineage.head() == second
        assert list(lineage.list_newest_first()) == [second, first]


def test_a_commit_is_found_by_its_whole_id_alone() -> None:
    lineage = build_lineage([commit("A1", 1), commit("A2", 2, "A1")])
    assert lineage.find("A2") == commit("A2", 2, "A1")
    assert lineage.find("A") is None


def test_a_history_that_grew_one_by_one_is_the_same_as_one_read_at_once() -> None:
    commits = [commit(f"C{number:03}", number, *([f"C{number - 1:03}"] if number else [])) for number in range(200)]
    grown = build_lineage([])
    for each in commits:
        grown = grown.extend(build_lineage([each]))
    assert list(grown.list_newest_first()) == commits[::-1]
    assert grown.rows.equals(build_lineage(commits).rows)
    # Without joining the pieces now and then every lookup would walk all of them.
    assert grown.rows.column(0).num_chunks <= 64
    assert grown.extend(build_lineage([])) is grown


def test_the_version_is_that_of_the_row_unless_history_was_backfilled() -> None:
    rows = encode_rows([CommitRecord("A", None, 1, 0), CommitRecord("B", None, 2, 0, backfilled=True)])
    moved = rows.append_column(CREATED_VERSION, [[7, 7]])
    assert decode_lineage(moved, row_versions=True).versions.tolist() == [7, 2]
    # A manifest without stable row ids says 1 in that column, whatever happened.
    assert decode_lineage(moved, row_versions=False).versions.tolist() == [1, 2]


def test_a_message_cannot_pass_for_the_mark_of_a_backfill() -> None:
    sly = CommitRecord("A", None, 1, 0, message='"backfilled":true')
    rows = encode_rows([sly]).append_column(CREATED_VERSION, [[7]])
    assert decode_lineage(rows, row_versions=True).versions.tolist() == [7]


def test_a_commit_without_metadata_is_a_hard_error() -> None:
    rows = encode_rows([commit("A", 1)])
    damaged = rows.set_column(rows.schema.get_field_index("metadata"), "metadata", [[None]])
    with pytest.raises(StorageError, match="malformed row 'A'"):
        decode_lineage(damaged, row_versions=False)


def test_real_commits_make_one_line_and_each_knows_its_version(local_location: Location) -> None:
    graph = make_graph(local_location)
    published = [commit_rows(graph, {"Person": [name]}).commit for name in "abc"]
    read = list(read_lineage(manifest_of(graph).open("main")).list_newest_first())
    assert read[:3] == published[::-1]
    assert [found.manifest_version for found in read] == [6, 5, 4, 1]
    assert [found.parent for found in read] == [found.id for found in read[1:]] + [None]


# A - B - C - D      main
#      \       \
#       X - Y - M    dev: M merged D
HISTORY = {
    found.id: found
    for found in (
        commit("A", 1),
        commit("B", 2, "A"),
        commit("C", 3, "B"),
        commit("D", 4, "C"),
        commit("X", 3, "B"),
        commit("Y", 4, "X"),
        commit("M", 5, "Y", "D"),
    )
}


@pytest.mark.parametrize(
    ("source", "target", "base"),
    [
        ("D", "D", "D"),
        ("D", "B", "B"),
        ("D", "Y", "B"),
        ("M", "D", "D"),  # by the merged parent: a second merge begins where the first ended
        ("A", "M", "A"),
        ("D", "unknown", None),
    ],
)
def test_the_merge_base_is_the_nearest_shared_commit(source: str, target: str, base: str | None) -> None:
    for one, other in ((source, target), (target, source)):
        found = find_merge_bases(one, other, HISTORY)
        assert [each.id for each in found] == ([base] if base else [])


def test_of_two_equally_near_bases_the_newer_one_comes_first() -> None:
    # A criss-cross: both sides merged the other's first commit.
    older, newer = commit("P", 2, "A"), commit("Q", 3, "A")
    crossed = (commit("S", 4, "P", "Q"), commit("T", 5, "Q", "P"))
    commits = {found.id: found for found in (commit("A", 1), older, newer, *crossed)}
    assert find_merge_bases("S", "T", commits) == [newer, older]


def test_histories_that_share_nothing_have_no_base() -> None:
    strangers = {found.id: found for found in (commit("A", 1), commit("B", 2))}
    assert find_merge_bases("A", "B", strangers) == []


def test_a_commit_that_another_shared_one_follows_is_no_base_however_near_it_is() -> None:
    # The branch of P was made at A, which is the first parent of both; what both merged from it is newer.
    branch = (commit("A", 1), commit("P", 2, "A"), commit("Q", 3, "P"), commit("R", 4, "Q"))
    commits = {found.id: found for found in (*branch, commit("S", 5, "A", "R"), commit("T", 2, "A", "R"))}
    assert [found.id for found in find_merge_bases("S", "T", commits)] == ["R"]


def test_history_ends_where_a_deleted_branch_took_a_parent_away() -> None:
    commits = {found.id: found for found in (commit("A", 1), commit("B", 2, "A"), commit("M", 3, "B", "gone"))}
    assert find_merge_bases("M", "A", commits) == [commits["A"]]


@given(st.data())
@settings(max_examples=200)
def test_bases_are_the_shared_commits_that_no_other_one_follows(data: st.DataObject) -> None:
    """Random histories by plain set arithmetic; the clocks of their writers say anything."""
    count = data.draw(st.integers(2, 12))
    ids = [f"c{number}" for number in range(count)]
    commits: dict[str, CommitRecord] = {}
    pasts: dict[str, set[str]] = {}
    for number, id_ in enumerate(ids):
        # The last ones may name a commit that nobody knows any more.
        parents = data.draw(st.lists(st.sampled_from([*ids[:number], "gone"]), max_size=2, unique=True))
        clock = data.draw(st.integers(0, 5))
        commits[id_] = commit(id_, number, *parents, created_at=clock)
        pasts[id_] = {id_}.union(*(pasts.get(parent, set()) for parent in parents))
    for source in ids[-3:]:
        for target in ids:
            shared = pasts[source] & pasts[target]
            passed = {each for one in shared for each in pasts[one] - {one}}
            assert {found.id for found in find_merge_bases(source, target, commits)} == shared - passed


def test_only_what_came_since_is_looked_at() -> None:
    """A branch and main, each ten commits after they parted, in a long history."""

    commits = {
        f"m{number}": CommitRecord(f"m{number}", None, number, number, f"m{number - 1}" if number else None)
        for number in range(5_000)
    }
    for number in range(4_990, 5_000):
        parent = f"b{number - 1}" if number > 4_990 else "m4989"
        commits[f"b{number}"] = CommitRecord(f"b{number}", "dev", number, number, parent)
    counting = Counting(commits)
    assert [found.id for found in find_merge_bases("m4999", "b4999", counting)] == ["m4989"]
    assert len(counting.asked) <= 22


class Counting:
    """Commits, and which of them were asked for."""

    def __init__(self, commits: Mapping[str, CommitRecord]) -> None:
        self._commits = commits
        self.asked: set[str] = set()

    def get(self, commit_id: str, /) -> CommitRecord | None:
        self.asked.add(commit_id)
        return self._commits.get(commit_id)
