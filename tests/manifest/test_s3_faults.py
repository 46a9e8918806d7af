"""A store that fails: answers lost after the request has landed, refusals, silence. Nothing is doubled or half done."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from ulid import ULID

import omnigraph
from omnigraph.errors import StorageError
from omnigraph.graph import Graph
from omnigraph.manifest.publisher import CommitIntent, PublishRequest, PublishResult, publish
from omnigraph.storage.location import Location, locate
from omnigraph.storage.locks import branch_lock
from omnigraph.storage.objects import Objects
from tests.manifest.publishing import commit_rows, make_graph, manifest_of, names
from tests.s3 import S3Server
from tests.s3_proxy import Act, Proxy
from tests.selection import daily

NO_RETRIES = {"client_max_retries": "0", "client_retry_timeout": "1"}
ACTS = [Act.LOSE_ANSWER, Act.REFUSE_500, Act.REFUSE_503]
FAULTS = daily(ACTS, [Act.LOSE_ANSWER, Act.REFUSE_503], lambda act: act.name)
WRITE_FAULTS = daily(ACTS, [Act.LOSE_ANSWER], lambda act: act.name)
"""A refused write that did not land is tried in a commit."""
FENCE = "__manifest/_versions/"


def behind(proxy: Proxy, location: Location, **options: str) -> Location:
    """The same place, reached through the proxy."""
    return locate(location.uri, {**dict(location.storage_options), **S3Server(proxy.endpoint).options, **options})


def opened(location: Location) -> Graph:
    return omnigraph.open(location.uri, storage_options=dict(location.storage_options))


def ids(graph: Graph) -> list[str]:
    return [commit.id for commit in graph.commits()]


def publish_alone(graph: Graph, request: PublishRequest) -> PublishResult:
    manifest = manifest_of(graph)
    with branch_lock(manifest.location, "main", manifest.locks) as held:
        published = publish(manifest, held, "main", request)
    assert published is not None
    return published


def empty_commit(graph: Graph) -> PublishRequest:
    return PublishRequest(CommitIntent(str(ULID()), graph.schema.hash))


# --------------------------------------------------------------------------------------------- one fault


@pytest.mark.parametrize("act", FAULTS)
def test_one_fault_anywhere_in_a_commit_is_survived_and_nothing_is_doubled(
    s3_location: Location, s3_proxy: Proxy, act: Act
) -> None:
    graph = make_graph(s3_location)
    faulty = opened(behind(s3_proxy, s3_location))
    places = [
        ("PUT", "__locks/"),
        ("PUT", "__manifest/data/"),
        ("PUT", "__manifest/_deletions/"),
        ("PUT", "nodes/.*/data/"),
        ("PUT", "nodes/.*/_versions/"),
        ("PUT", "__manifest/_transactions/"),
        ("PUT", FENCE),
    ]
    made: list[str] = []
    for number, (method, pattern) in enumerate(places):
        with s3_proxy.fault(method, pattern, act):
            published = commit_rows(faulty, {"Person": [f"p{number}"]})
        assert published.status == "published"
        made.insert(0, published.commit.id)
        assert ids(graph)[:-1] == made
    assert names(graph, "Person") == [f"p{number}" for number in range(len(places))]


@pytest.mark.parametrize("act", WRITE_FAULTS)
def test_one_fault_anywhere_in_init_is_survived(s3_location: Location, s3_proxy: Proxy, act: Act) -> None:
    location = behind(s3_proxy, s3_location)
    with (
        s3_proxy.fault("PUT", "__locks/conditional-put", act),
        s3_proxy.fault("PUT", "_schema.pg", act),
        s3_proxy.fault("PUT", "nodes/.*/_versions/", act),
        s3_proxy.fault("PUT", FENCE, act),
    ):
        made = make_graph(location)
    assert ids(opened(s3_location)) == ids(made)
    assert len(ids(made)) == 1


@pytest.mark.parametrize("act", WRITE_FAULTS)
def test_one_fault_in_making_or_deleting_a_tag_is_survived(s3_location: Location, s3_proxy: Proxy, act: Act) -> None:
    graph = make_graph(s3_location)
    faulty = opened(behind(s3_proxy, s3_location))
    with s3_proxy.fault("PUT", "__tags/", act):
        tag = faulty.create_tag("release/1")
    assert graph.tags() == [tag]
    with s3_proxy.fault("POST", "", act):
        faulty.delete_tag("release/1")
    assert graph.tags() == []


def test_with_dynamodb_a_lost_answer_is_survived_too(ddb_location: Location, s3_proxy: Proxy) -> None:
    graph = make_graph(ddb_location)
    faulty = opened(behind(s3_proxy, ddb_location))
    with s3_proxy.fault("POST", "PutItem", Act.LOSE_ANSWER, times=2):
        published = commit_rows(faulty, {"Person": ["ann"]})
    assert published.status == "published"
    assert ids(graph)[:-1] == [published.commit.id]
    assert names(graph, "Person") == ["ann"]


def test_a_branch_that_is_deleted_while_all_are_read_is_left_out(s3_location: Location, s3_proxy: Proxy) -> None:
    graph = make_graph(s3_location)
    for name in ("going", "staying"):
        graph.create_branch(name)
    slow = opened(behind(s3_proxy, s3_location))
    with (
        ThreadPoolExecutor(1) as pool,
        s3_proxy.fault("GET", "__manifest/_refs/branches/going.json", Act.HOLD_REQUEST) as held,
    ):
        listing = pool.submit(slow.branches)
        assert held.on_its_way.wait(30)
        graph.delete_branch("going")
        held.released.set()
        assert [branch.name for branch in listing.result()] == ["main", "staying"]


# --------------------------------------------------------------------------------------------- no retries below


def test_a_publish_whose_answer_was_lost_is_found_by_its_commit_id(s3_location: Location, s3_proxy: Proxy) -> None:
    graph = make_graph(s3_location)
    faulty = opened(behind(s3_proxy, s3_location, **NO_RETRIES))
    request = empty_commit(graph)
    with s3_proxy.fault("PUT", FENCE, Act.LOSE_ANSWER):
        first = publish_alone(faulty, request)
    again = publish_alone(opened(s3_location), request)
    assert (first.status, again.status) == ("published", "found")
    assert first.commit.id == again.commit.id
    assert len(ids(graph)) == 2


def test_a_publish_that_was_refused_is_not_there_and_may_be_repeated(s3_location: Location, s3_proxy: Proxy) -> None:
    graph = make_graph(s3_location)
    faulty = opened(behind(s3_proxy, s3_location, **NO_RETRIES))
    request = empty_commit(graph)
    with s3_proxy.fault("PUT", FENCE, Act.REFUSE_500), pytest.raises(StorageError) as raised:
        publish_alone(faulty, request)
    assert f"{s3_location.join('__manifest')}: " in raised.value.message
    assert FENCE in raised.value.message
    assert len(ids(graph)) == 1
    assert publish_alone(faulty, request).status == "published"
    assert len(ids(graph)) == 2


def test_a_store_that_stays_down_is_a_storage_error_that_names_the_object(
    s3_location: Location, s3_proxy: Proxy
) -> None:
    graph = make_graph(s3_location)
    faulty = opened(behind(s3_proxy, s3_location, client_max_retries="1"))
    with s3_proxy.fault("PUT", "__locks/", Act.REFUSE_503, times=2), pytest.raises(StorageError) as raised:
        commit_rows(faulty, {"Person": ["ann"]})
    path = str(raised.value.details["path"])
    assert path.startswith("__locks/")
    assert f"cannot write '{path}' in {s3_location}" in raised.value.message
    assert (len(ids(graph)), names(graph, "Person")) == (1, [])


class TestPutIfAbsent:
    def test_refused_is_not_written(self, s3_location: Location, s3_proxy: Proxy) -> None:
        faulty = Objects(behind(s3_proxy, s3_location, **NO_RETRIES))
        with s3_proxy.fault("PUT", "claim", Act.REFUSE_500), pytest.raises(StorageError, match="cannot write 'claim'"):
            faulty.put_if_absent("claim", b"mine")
        assert Objects(s3_location).get("claim") is None

    def test_without_an_answer_it_is_an_error_and_not_a_success(self, s3_location: Location, s3_proxy: Proxy) -> None:
        faulty = Objects(behind(s3_proxy, s3_location, **NO_RETRIES))
        with s3_proxy.fault("PUT", "claim", Act.LOSE_ANSWER), pytest.raises(StorageError, match="cannot write 'claim'"):
            faulty.put_if_absent("claim", b"mine")
        assert Objects(s3_location).get("claim") == b"mine"

    def test_repeated_by_the_client_it_meets_its_own_write(self, s3_location: Location, s3_proxy: Proxy) -> None:
        faulty = Objects(behind(s3_proxy, s3_location))
        with s3_proxy.fault("PUT", "claim", Act.LOSE_ANSWER):
            assert not faulty.put_if_absent("claim", b"mine")
        assert faulty.get("claim") == b"mine"
