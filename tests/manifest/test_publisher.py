"""The fence: what a publish needs to be let through, what it writes, and what it says when it is not let through."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import (
    ConflictError,
    ExpectedVersionMismatch,
    NotFound,
    PreconditionFailed,
    PublishContention,
    StorageError,
)
from omnigraph.graph import Graph
from omnigraph.language.schema import TableKey
from omnigraph.manifest.handle import COMPACT_AT_FRAGMENTS
from omnigraph.manifest.publisher import RETRY_BUDGET, PublishRequest, publish
from omnigraph.manifest.rows import MAIN, CommitRecord, HeadPointer, Registration, Tombstone, decode_rows
from omnigraph.storage.location import Location
from tests.manifest.fence import (
    advance,
    facts,
    intent,
    read_from_nothing,
    send,
    send_unlocked,
    stolen_lock,
    version_row,
)
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names

PERSON, CITY = "node:Person", "node:City"
OTHER_SCHEMA = "sha256:" + "0" * 64


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def location(request: pytest.FixtureRequest) -> Location:
    return cast("Location", request.getfixturevalue(f"{request.param}_location"))


@pytest.fixture
def graph(local_location: Location) -> Graph:
    return make_graph(local_location)


def head(graph: Graph, branch: str = MAIN) -> CommitRecord:
    found = manifest_of(graph).view(branch, with_lineage=True).history.head()
    assert found is not None
    return found


def version(graph: Graph) -> int:
    return manifest_of(graph).open(MAIN).version


# --------------------------------------------------------------------------------------------- what it writes


def test_all_tables_of_a_commit_become_visible_together(location: Location) -> None:
    graph = make_graph(location)
    before = graph.snapshot()
    published = commit_rows(graph, {"Person": ["ann", "bob"], "City": ["rome"]})
    assert (published.status, published.view.version) == ("published", 4)
    after = omnigraph.open(location.uri, "ro", storage_options=dict(location.storage_options)).snapshot()
    assert [after.pin(name).row_count for name in ("Person", "City", "Firm")] == [2, 1, 0]
    assert after.commit is not None
    assert after.commit.id == published.commit.id
    assert [pin.row_count for pin in before.pins.values()] == [0, 0, 0, 0]
    assert names(graph, "Person") == ["ann", "bob"]


def test_one_publish_is_one_version_with_the_commit_and_the_head_row(graph: Graph) -> None:
    before = head(graph)
    published = send(graph, advance(graph, {PERSON: 1}))
    table = manifest_of(graph).open(MAIN)
    rows = set(decode_rows(table.scan(filter="_row_last_updated_at_version = 4").read_all()))
    commit = published.commit
    assert table.version == commit.manifest_version == 4
    assert rows == {version_row(PERSON, 2), commit, HeadPointer(MAIN, commit.id, before.id)}
    assert commit.parent == before.id
    assert commit.schema_ir_hash == graph.schema.hash


def test_an_empty_request_writes_nothing(graph: Graph) -> None:
    assert publish(manifest_of(graph), stolen_lock(), MAIN, PublishRequest()) is None
    assert version(graph) == 3


def test_a_change_without_a_commit_is_a_mistake_of_the_caller(graph: Graph) -> None:
    with pytest.raises(ValueError, match="every change belongs to a commit"):
        publish(manifest_of(graph), stolen_lock(), MAIN, PublishRequest(updates=(version_row(PERSON, 2),)))
    assert version(graph) == 3


def test_time_never_runs_backwards_along_a_branch(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    first = send(graph, advance(graph, {PERSON: 1})).commit
    monkeypatch.setattr(time, "time_ns", lambda: 1_000)
    second = send(graph, advance(graph, {PERSON: 2})).commit
    assert second.created_at == first.created_at + 1


def test_a_table_may_be_registered_filled_and_dropped(graph: Graph) -> None:
    new = PublishRequest(
        intent(graph),
        registrations=(Registration(TableKey("node:New"), "nodes/new"),),
        updates=(version_row("node:New", 1),),
    )
    assert "node:New" in send(graph, new).view.tables.visible_tables()
    dropped = PublishRequest(intent(graph), tombstones=(Tombstone(TableKey("node:New"), 2),))
    assert "node:New" not in send(graph, dropped).view.tables.visible_tables()
    back = PublishRequest(intent(graph), updates=(version_row("node:New", 3),), expected={"node:New": 2})
    assert "node:New" in send(graph, back).view.tables.visible_tables()
    assert facts(manifest_of(graph).view(MAIN)) == facts(read_from_nothing(manifest_of(graph)))


def test_a_graph_made_elsewhere_adopts_the_schema_of_its_first_publish(graph: Graph) -> None:
    manifest = manifest_of(graph)
    manifest.open(MAIN).dataset.delete("object_type = 'schema_head'")
    assert manifest_of(omnigraph.open(graph.uri)).schema_hash() is None
    late = omnigraph.open(graph.uri)
    send(late, advance(late, {PERSON: 1}))
    assert manifest_of(omnigraph.open(graph.uri)).schema_hash() == late.schema.hash


# --------------------------------------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("table_key", "expected", "actual"), [(PERSON, 1, 2), (PERSON, 3, 2), (CITY, 2, 1), ("node:Nobody", 1, 0)]
)
def test_a_stale_expectation_names_the_table_and_both_versions(
    graph: Graph, table_key: str, expected: int, actual: int
) -> None:
    send(graph, advance(graph, {PERSON: 1}))
    # The table that is written is up to date; the one that a rule read is not.
    request = replace(advance(graph, {"node:Firm": 1}), expected={table_key: expected})
    with pytest.raises(ExpectedVersionMismatch) as caught:
        send(graph, request)
    error = caught.value
    assert (error.table_key, error.expected, error.actual) == (table_key, expected, actual)
    assert version(graph) == 4


def test_a_dropped_table_is_expected_at_the_version_of_its_tombstone(graph: Graph) -> None:
    send(graph, PublishRequest(intent(graph), tombstones=(Tombstone(TableKey(PERSON), 2),)))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        send(graph, advance(graph, {PERSON: 1}))
    assert (caught.value.expected, caught.value.actual) == (1, 2)


def test_a_new_table_is_expected_at_version_zero(graph: Graph) -> None:
    new = Registration(TableKey("node:New"), "nodes/new")
    send(graph, replace(advance(graph, {"node:New": 0}), registrations=(new,)))
    assert manifest_of(graph).view(MAIN).tables.version_of("node:New") == 1


def test_if_commit_must_be_the_head(graph: Graph) -> None:
    first = head(graph)
    second = send(graph, replace(advance(graph, {PERSON: 1}), if_commit=first.id)).commit
    with pytest.raises(PreconditionFailed) as caught:
        send(graph, replace(advance(graph, {PERSON: 2}), if_commit=first.id))
    assert (caught.value.branch, caught.value.expected, caught.value.actual) == (MAIN, first.id, second.id)


@pytest.mark.parametrize("branch", [MAIN, "dev"])
def test_work_that_was_validated_under_another_schema_is_refused(graph: Graph, branch: str) -> None:
    if branch != MAIN:
        graph.create_branch(branch)
    request = advance(graph, {PERSON: 1}, branch)
    # Another handle changes the schema, on main, where it is kept.
    other = omnigraph.open(graph.uri)
    send(other, PublishRequest(replace(intent(other), schema_ir_hash=OTHER_SCHEMA), new_schema=OTHER_SCHEMA))
    with pytest.raises(ConflictError, match="the schema of the graph changed") as caught:
        send(graph, request, branch)
    assert caught.value.details["current"] == OTHER_SCHEMA


def test_work_that_was_staged_on_another_incarnation_is_refused(graph: Graph) -> None:
    graph.create_branch("dev")
    request = replace(advance(graph, {PERSON: 1}, "dev"), incarnation=manifest_of(graph).read_incarnation("dev"))
    other = omnigraph.open(graph.uri)
    other.delete_branch("dev")
    other.create_branch("dev")
    with pytest.raises(ConflictError, match="was deleted and re-created"):
        send(graph, request, "dev")
    again = replace(request, incarnation=manifest_of(graph).read_incarnation("dev"))
    assert send(graph, again, "dev").status == "published"


def test_a_publish_to_a_deleted_branch_is_not_found(graph: Graph) -> None:
    graph.create_branch("dev")
    request = advance(graph, {PERSON: 1}, "dev")
    manifest_of(graph).view("dev", with_lineage=True)
    omnigraph.open(graph.uri).delete_branch("dev")
    with pytest.raises(NotFound, match="no branch 'dev'"):
        send(graph, request, "dev")


def test_the_same_version_may_only_move_to_another_branch_with_the_same_rows(graph: Graph) -> None:
    graph.create_branch("dev")
    handoff = PublishRequest(intent(graph), updates=(version_row(PERSON, 1, "dev"),), expected={PERSON: 1})
    published = send(graph, handoff, "dev")
    assert published.view.tables.visible_tables()[PERSON].branch == "dev"
    for refused in (version_row(PERSON, 1, "dev"), version_row(PERSON, 1, "other", row_count=3)):
        with pytest.raises(ConflictError, match="is published already"):
            send(graph, PublishRequest(intent(graph), updates=(refused,)), "dev")
    assert manifest_of(graph).view(MAIN).tables.visible_tables()[PERSON].branch is None


STRUCTURAL: dict[str, tuple[PublishRequest, type[Exception], str]] = {
    "an unknown table": (PublishRequest(updates=(version_row("node:No", 2),)), NotFound, "no table 'node:No'"),
    "a tombstone of nothing": (
        PublishRequest(tombstones=(Tombstone(TableKey("node:No"), 2),)),
        NotFound,
        "no table 'node:No'",
    ),
    "a table twice": (
        PublishRequest(updates=(version_row(PERSON, 2), version_row(PERSON, 3))),
        StorageError,
        "names 'node:Person' twice",
    ),
    "another place": (
        PublishRequest(registrations=(Registration(TableKey(PERSON), "nodes/elsewhere"),)),
        StorageError,
        "not at nodes/elsewhere",
    ),
    "an older version": (PublishRequest(updates=(version_row(PERSON, 0),)), ConflictError, "published already"),
}


@pytest.mark.parametrize(("request_", "error", "message"), STRUCTURAL.values(), ids=STRUCTURAL)
def test_a_request_that_makes_no_sense_changes_nothing(
    graph: Graph, request_: PublishRequest, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        send(graph, replace(request_, intent=intent(graph)))
    assert version(graph) == 3


def test_a_table_is_dropped_once(graph: Graph) -> None:
    send(graph, PublishRequest(intent(graph), tombstones=(Tombstone(TableKey(PERSON), 2),)))
    with pytest.raises(ConflictError, match="dropped already"):
        send(graph, PublishRequest(intent(graph), tombstones=(Tombstone(TableKey(PERSON), 2),)))


# --------------------------------------------------------------------------------------------- decided before


def test_a_publish_that_landed_already_is_found_whatever_its_conditions_say_now(graph: Graph) -> None:
    request = replace(advance(graph, {PERSON: 1}), if_commit=head(graph).id)
    landed = send(graph, request)
    send(graph, advance(graph, {PERSON: 2}))
    again = send(omnigraph.open(graph.uri), request)
    assert (again.status, again.commit) == ("found", landed.commit)
    assert version(graph) == 5


def test_a_txn_is_committed_once(graph: Graph) -> None:
    def numbered(number: int, app: str = "nightly") -> PublishRequest:
        request = advance(graph, {PERSON: manifest_of(graph).view(MAIN).tables.version_of(PERSON)})
        return replace(request, intent=replace(intent(graph), txn=(app, number)))

    seventh = send(graph, numbered(7))
    assert seventh.commit.txn == ("nightly", 7)
    for replayed in (7, 6):
        again = send(omnigraph.open(graph.uri), numbered(replayed))
        assert (again.status, again.commit) == ("replayed", seventh.commit)
    assert send(graph, numbered(1, app="another")).status == "published"
    assert send(graph, numbered(8)).status == "published"
    assert version(graph) == 6


def test_a_publish_gives_way_to_the_one_that_it_must_not_follow(graph: Graph) -> None:
    other = send(graph, advance(graph, {PERSON: 1})).commit
    given_up = send(graph, replace(advance(graph, {CITY: 1}), instead_of=other.id))
    assert (given_up.status, given_up.commit) == ("superseded", other)
    assert send(graph, replace(advance(graph, {CITY: 1}), instead_of="never made")).status == "published"


# --------------------------------------------------------------------------------------------- lost attempts


class Thief:
    """Another writer that publishes before some of our steps, as one that took our lease would."""

    def __init__(self, graph: Graph, table_key: str, times: int) -> None:
        self.graph = omnigraph.open(graph.uri)
        self.table_key = table_key
        self.times = times
        self.commits: list[str] = []
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1
        if len(self.commits) < self.times:
            now = manifest_of(self.graph).view(MAIN).tables.version_of(self.table_key)
            self.commits.append(send(self.graph, advance(self.graph, {self.table_key: now})).commit.id)


def test_a_lost_attempt_is_made_again_on_the_new_head(graph: Graph) -> None:
    thief = Thief(graph, CITY, times=2)
    published = send_unlocked(graph, advance(graph, {PERSON: 1}), before_each_step=thief)
    assert (published.status, thief.asked) == ("published", 3)
    assert published.commit.parent == thief.commits[-1]
    assert published.commit.manifest_version == 6
    line = [commit.id for commit in graph.commits()]
    assert line[:3] == [published.commit.id, *reversed(thief.commits)]


def test_conditions_are_checked_again_on_every_attempt(graph: Graph) -> None:
    for request in (advance(graph, {PERSON: 1}), replace(advance(graph, {CITY: 1}), expected={PERSON: 1, CITY: 1})):
        thief = Thief(graph, PERSON, times=1)
        before = manifest_of(graph).view(MAIN).tables.version_of(PERSON)
        with pytest.raises(ExpectedVersionMismatch) as caught:
            send_unlocked(
                graph, replace(request, expected={**request.expected, PERSON: before}), before_each_step=thief
            )
        assert (caught.value.expected, caught.value.actual) == (before, before + 1)


def test_if_commit_is_compared_with_the_head_that_is_replaced(graph: Graph) -> None:
    thief = Thief(graph, CITY, times=1)
    with pytest.raises(PreconditionFailed) as caught:
        send_unlocked(graph, replace(advance(graph, {PERSON: 1}), if_commit=head(graph).id), before_each_step=thief)
    assert caught.value.actual == thief.commits[0]


def test_a_publish_that_loses_all_its_attempts_says_so(graph: Graph) -> None:
    thief = Thief(graph, CITY, times=99)
    with pytest.raises(PublishContention, match=f"lost {RETRY_BUDGET + 1} attempts"):
        send_unlocked(graph, advance(graph, {PERSON: 1}), before_each_step=thief)
    assert thief.asked == RETRY_BUDGET + 1
    assert len(graph.commits()) == 1 + len(thief.commits)


def test_a_publish_on_a_new_branch_collides_too(graph: Graph) -> None:
    """The head row of a new branch does not exist yet: both insert it."""
    graph.create_branch("dev")
    other = omnigraph.open(graph.uri)
    stolen: list[str] = []

    def steal() -> None:
        if not stolen:
            stolen.append(send(other, advance(other, {CITY: 1}, "dev"), "dev").commit.id)

    published = send_unlocked(graph, advance(graph, {PERSON: 1}, "dev"), "dev", before_each_step=steal)
    assert published.commit.parent == stolen[0]
    heads = manifest_of(graph).open("dev").count_rows("object_id = 'graph_head:dev'")
    assert heads == 1


# --------------------------------------------------------------------------------------------- compaction


@pytest.mark.costly
def test_the_manifest_compacts_itself_and_loses_nothing(graph: Graph) -> None:
    commits = [send(graph, advance(graph, {PERSON: number})).commit for number in range(1, 2 * COMPACT_AT_FRAGMENTS)]
    manifest = manifest_of(graph)
    assert len(manifest.open(MAIN).fragment_rows()) < COMPACT_AT_FRAGMENTS
    assert facts(manifest.view(MAIN)) == facts(read_from_nothing(manifest))
    found = [manifest.view(MAIN).history.find(commit.id) for commit in commits]
    assert found == commits
    operations = {each.operation for each in manifest.open(MAIN).read_commits(3, version(graph))}
    assert operations == {"Update", "Rewrite"}


def test_a_compaction_that_loses_to_a_publish_is_made_again(graph: Graph) -> None:
    for number in range(1, COMPACT_AT_FRAGMENTS):
        send(graph, advance(graph, {PERSON: number}))
    assert manifest_of(graph).should_compact(manifest_of(graph).view(MAIN))
    thief = Thief(graph, CITY, times=1)
    published = send_unlocked(graph, advance(graph, {PERSON: COMPACT_AT_FRAGMENTS}), before_each_step=thief)
    assert published.commit.parent == thief.commits[0]
    assert facts(published.view) == facts(read_from_nothing(manifest_of(graph)))
