"""Missing vectors are filled from their texts; what others did meanwhile is left as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

import omnigraph
from omnigraph.errors import EmbeddingError, NotFound, ParameterError
from omnigraph.graph import Graph
from omnigraph.language.schema import Schema
from omnigraph.read.search.embedding import EmbeddingSettings, create_embedder
from omnigraph.write.commit.section import CommitOptions
from omnigraph.write.embed import EmbedPace, EmbedResult, embed, embed_in_tasks
from omnigraph.write.executor import LOCAL
from tests import crash
from tests.graphs import rows_of, written
from tests.read.search.embedding_server import Answer, ReceivedRequest, serve_embeddings, vectors
from tests.write.mutation.interleaving import meanwhile

SCHEMA = """
node Paper {
  code: String @key
  title: String?
  abstract: String?
  pages: I32?
  scan: Blob?
  gist: Vector(4)? @embed("title", model="m1")
  deep: Vector(2)? @embed("abstract")
}
node Author { name: String @key }
"""
MOCK = EmbeddingSettings("mock")


@pytest.fixture
def papers(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "papers.og", SCHEMA)
    with graph.transaction() as tx:
        for n in range(5):
            tx.mutate(f'query q() {{ insert Paper {{ code: "p{n}", title: "title {n}", pages: {n} }} }}')
        tx.mutate('query q() { insert Paper { code: "untitled" } }')
        tx.mutate('query q() { insert Paper { code: "blank", title: "  " } }')
        tx.mutate('query q() { insert Paper { code: "done", title: "x", gist: [1.0, 0.0, 0.0, 0.0] } }')
    return graph


def fill(graph: Graph, branch: str = "main", *, batch: int = 1_000, commit_each: bool = False) -> EmbedResult:
    terms = CommitOptions(branch, actor="act-ann")
    return embed(graph._manifest, graph.schema, "Paper", terms, settings=MOCK, batch=batch, commit_each=commit_each)


def gists(graph: Graph, branch: str = "main") -> dict[object, object]:
    return {row["code"]: row["gist"] for row in rows_of(graph, "Paper", branch)}


def mock(text: str, dimension: int = 4) -> Sequence[float]:
    return create_embedder(MOCK, None).vectors([text], dimension)[0].tolist()


EXPECTED = {
    **{f"p{n}": mock(f"title {n}") for n in range(5)},
    "untitled": None,
    "blank": None,
    "done": [1.0, 0.0, 0.0, 0.0],
}


def test_missing_vectors_are_filled_in_one_commit(papers: Graph) -> None:
    before = {row["code"]: row for row in rows_of(papers, "Paper")}
    result = fill(papers)
    assert gists(papers) == EXPECTED
    assert (result.embedded, result.skipped, len(result.commits)) == ({"deep": 0, "gist": 5}, 0, 1)
    assert result.commits[0] == papers.commits()[0]
    assert (result.commits[0].actor, result.commits[0].message) == ("act-ann", "embed Paper")
    after = {row["code"]: {**row, "gist": before[row["code"]]["gist"]} for row in rows_of(papers, "Paper")}
    assert after == before, "nothing else of a row changes"


def test_a_second_time_there_is_nothing_to_do(papers: Graph) -> None:
    fill(papers)
    before = written(papers)
    assert fill(papers).commits == ()
    assert written(papers) == before


def test_a_commit_for_each_batch(papers: Graph) -> None:
    result = fill(papers, batch=2, commit_each=True)
    assert len(result.commits) == 3
    assert [commit.id for commit in papers.commits(limit=3)] == [commit.id for commit in result.commits[::-1]]
    assert gists(papers) == EXPECTED


def test_batches_may_become_one_commit(papers: Graph) -> None:
    assert len(fill(papers, batch=2).commits) == 1
    assert gists(papers) == EXPECTED


def test_all_embedded_properties_and_blobs_stay_with_their_rows(papers: Graph) -> None:
    papers.mutate('query q() { insert Paper { code: "z", title: "t", abstract: "a" } }')
    papers.mutate('query q($b: Blob) { update Paper set { scan: $b } where code = "z" }', params={"b": "base64:aGk="})
    result = fill(papers)
    assert (result.embedded, len(result.commits)) == ({"deep": 1, "gist": 6}, 1)
    (row,) = (row for row in rows_of(papers, "Paper") if row["code"] == "z")
    assert (row["gist"], row["deep"]) == (mock("t"), mock("a", 2))
    table = papers.snapshot().table("Paper")
    at = table.scan(["code"], with_row_address=True).read_all()
    address = at["_rowaddr"][at["code"].to_pylist().index("z")].as_py()
    assert [bytes(data or b"") for _, data in table.dataset.read_blobs("scan", addresses=[address])] == [b"hi"]


def test_a_row_that_changes_meanwhile_is_left_as_it_is(papers: Graph) -> None:
    def others() -> None:
        papers.mutate('query q() { update Paper set { title: "new" } where code = "p0" }')
        papers.mutate('query q() { update Paper set { gist: [0.0, 1.0, 0.0, 0.0] } where code = "p1" }')
        papers.mutate('query q() { delete Paper where code = "p2" }')
        papers.mutate('query q() { update Paper set { pages: 99 } where code = "p3" }')

    with meanwhile(others):
        result = fill(papers)
    found = gists(papers)
    assert (found["p0"], found["p1"]) == (None, [0.0, 1.0, 0.0, 0.0])
    assert "p2" not in found
    assert (found["p3"], found["p4"]) == (EXPECTED["p3"], EXPECTED["p4"])
    pages = {row["code"]: row["pages"] for row in rows_of(papers, "Paper")}
    assert pages["p3"] == 99
    assert (result.embedded["gist"], result.skipped) == (2, 3)
    fill(papers)
    assert gists(papers)["p0"] == mock("new")


def test_when_all_were_filled_meanwhile_there_is_no_commit(papers: Graph) -> None:
    filled: list[EmbedResult] = []
    with meanwhile(lambda: filled.append(fill(papers))):
        late = fill(papers)
    assert (late.commits, late.skipped) == ((), 5)
    assert filled[0].embedded["gist"] == 5


def test_a_provider_that_fails_halfway_keeps_what_is_committed_and_goes_on_later(papers: Graph) -> None:
    def respond(asked: ReceivedRequest, number: int) -> Answer:
        return Answer(400) if number == 1 else vectors([[1.0, 0.0, 0.0, float(len(text))] for text in asked.texts])

    with serve_embeddings(respond) as server:
        settings = EmbeddingSettings("openai-compatible", server.url)

        def run(*, commit_each: bool) -> EmbedResult:
            return embed(
                papers._manifest, only_gist(papers), "Paper", settings=settings, batch=2, commit_each=commit_each
            )

        with pytest.raises(EmbeddingError, match="400") as caught:
            run(commit_each=True)
        ids = cast("list[str]", caught.value.details["ids"])
        assert caught.value.message.endswith(f"; it was sent 'title' of Paper {', '.join(ids)}")
        assert [f"title {each[1:]}" for each in ids] == server.asked[1].texts
        assert sum(gist is not None for gist in gists(papers).values()) == 3
        result = run(commit_each=True)
    assert result.embedded == {"gist": 3}
    # Two of the five texts were kept; the other three are asked for again.
    assert [len(asked.texts) for asked in server.asked] == [2, 2, 2, 1]
    assert {asked.body["model"] for asked in server.asked} == {"m1"}


def only_gist(graph: Graph) -> Schema:
    """The schema as it is, without the property that has no recorded model."""
    catalog = graph.schema.catalog
    paper = catalog.nodes["Paper"]
    deep = replace(paper.properties["deep"], embedding=None)
    node = replace(paper, properties={**paper.properties, "deep": deep})
    return replace(graph.schema, catalog=replace(catalog, nodes={**catalog.nodes, "Paper": node}))


def test_a_provider_that_fails_leaves_nothing_when_all_is_one_commit(papers: Graph) -> None:
    before = written(papers)
    settings = EmbeddingSettings("openai-compatible", "http://127.0.0.1:9/v1", attempts=1)
    with pytest.raises(EmbeddingError):
        embed(papers._manifest, only_gist(papers), "Paper", settings=settings)
    assert written(papers) == before


def test_on_a_branch(papers: Graph) -> None:
    papers.create_branch("b")
    assert fill(papers, "b").branch == "b"
    assert gists(papers, "b") == EXPECTED
    assert gists(papers)["p0"] is None


def test_on_a_branch_that_is_older_than_the_vectors(tmp_path: Path) -> None:
    plain = "node Paper { code: String @key\n  title: String? }"
    graph = omnigraph.init(tmp_path / "old.og", plain)
    graph.mutate('query q() { insert Paper { code: "p0", title: "title 0" } }')
    graph.create_branch("b")
    graph.apply_schema(plain.replace("title: String?", 'title: String?\n  gist: Vector(4)? @embed("title")'))
    assert fill(graph, "b").embedded == {"gist": 1}
    assert gists(graph, "b") == {"p0": mock("title 0")}


def test_another_model_than_the_recorded_one_is_refused_before_anything_is_asked(papers: Graph) -> None:
    with pytest.raises(EmbeddingError, match="by the model 'm1'"):
        embed(papers._manifest, papers.schema, "Paper", settings=EmbeddingSettings("mock", model="m2"))


def test_types_that_have_nothing_to_embed(papers: Graph) -> None:
    with pytest.raises(ParameterError, match="Author has no property with @embed"):
        embed(papers._manifest, papers.schema, "Author", settings=MOCK)
    with pytest.raises(NotFound, match="no node type 'Papr'") as caught:
        embed(papers._manifest, papers.schema, "Papr", settings=MOCK)
    assert caught.value.hint == "did you mean 'Paper'?"
    with pytest.raises(ParameterError, match="batch is 0"):
        fill(papers, batch=0)


# --------------------------------------------------------------------------------------------- texts that changed


def set_title(graph: Graph, code: str, title: str, branch: str = "main") -> None:
    text = "query q($c: String, $t: String) { update Paper set { title: $t } where code = $c }"
    graph.mutate(text, params={"c": code, "t": title}, branch=branch)


def test_vectors_of_texts_that_changed_are_made_again(papers: Graph) -> None:
    (commit,) = fill(papers).commits
    set_title(papers, "p0", "new")
    set_title(papers, "p1", "new")
    set_title(papers, "p1", "title 1")
    set_title(papers, "done", "new")
    papers.mutate('query q() { update Paper set { pages: 9 } where code = "p2" }')
    papers.load([{"type": "Paper", "data": {"code": "p3", "title": "own", "gist": [0, 1, 0, 0]}}], mode="update")
    papers.mutate('query q() { delete Paper where code = "p4" }')
    assert fill(papers).embedded["gist"] == 0
    result = embed(papers._manifest, papers.schema, "Paper", settings=MOCK, changed_since=commit.id, batch=2)
    # The text of p1 is the old one again; nobody kept a hash, so it is sent, and its vector stays the same.
    assert result.embedded["gist"] == 3
    expected = {**EXPECTED, "p0": mock("new"), "done": mock("new"), "p3": [0, 1, 0, 0]}
    assert gists(papers) == {code: vector for code, vector in expected.items() if code != "p4"}
    again = embed(papers._manifest, papers.schema, "Paper", settings=MOCK, changed_since=result.commits[-1].id)
    assert again.commits == ()


def test_a_vector_that_was_made_between_two_changes_is_outdated(papers: Graph) -> None:
    (commit,) = fill(papers).commits
    set_title(papers, "p0", "second")
    embed(papers._manifest, papers.schema, "Paper", settings=MOCK, changed_since=commit.id)
    assert gists(papers)["p0"] == mock("second")
    # Since the first commit text and vector changed, but the text came last.
    set_title(papers, "p0", "third")
    found = embed(papers._manifest, papers.schema, "Paper", settings=MOCK, changed_since=commit.id)
    assert (found.embedded["gist"], gists(papers)["p0"]) == (1, mock("third"))
    assert embed(papers._manifest, papers.schema, "Paper", settings=MOCK, changed_since=commit.id).commits == ()


def test_texts_that_changed_on_a_branch_and_meanwhile(papers: Graph) -> None:
    fill(papers)
    papers.create_branch("june")
    papers.create_tag("filled")
    set_title(papers, "p0", "new", "june")
    set_title(papers, "p1", "new", "june")
    terms = CommitOptions("june")
    with meanwhile(lambda: set_title(papers, "p1", "newer", "june"), "table.stage"):
        found = embed(papers._manifest, papers.schema, "Paper", terms, settings=MOCK, changed_since="filled")
    assert (found.embedded["gist"], found.skipped) == (1, 1)
    assert (gists(papers, "june")["p0"], gists(papers, "june")["p1"]) == (mock("new"), mock("title 1"))
    assert gists(papers) == EXPECTED
    found = embed(papers._manifest, papers.schema, "Paper", terms, settings=MOCK, changed_since="filled")
    assert (found.embedded["gist"], gists(papers, "june")["p1"]) == (1, mock("newer"))
    with pytest.raises(NotFound):
        embed(papers._manifest, papers.schema, "Paper", terms, settings=MOCK, changed_since="nowhere")


# --------------------------------------------------------------------------------------------- in tasks


def fill_in_tasks(graph: Graph, pace: EmbedPace, settings: EmbeddingSettings = MOCK, batch: int = 2) -> EmbedResult:
    schema = graph.schema if settings is MOCK else only_gist(graph)
    options = CommitOptions("main", actor="act-ann")
    return embed_in_tasks(graph._manifest, schema, "Paper", options, LOCAL, pace, settings=settings, batch=batch)


def test_tasks_fill_missing_vectors_in_several_commits(papers: Graph) -> None:
    result = fill_in_tasks(papers, EmbedPace(texts_per_commit=4))
    assert (result.embedded, result.skipped, len(result.commits)) == ({"gist": 5, "deep": 0}, 0, 2)
    assert gists(papers) == EXPECTED
    assert fill_in_tasks(papers, EmbedPace()).commits == ()


def test_a_budget_ends_a_run_and_the_next_goes_on(papers: Graph) -> None:
    pace = EmbedPace(texts_per_commit=2, max_texts=3)
    assert fill_in_tasks(papers, pace).embedded["gist"] == 3
    assert fill_in_tasks(papers, pace).embedded["gist"] == 2
    assert gists(papers) == EXPECTED
    with pytest.raises(ParameterError, match="texts_per_commit is 0; max_texts is -1; calls_per_second is 0"):
        EmbedPace(0, -1, 0.0)


def test_vectors_that_were_paid_for_are_committed_before_a_failure_is_told(papers: Graph) -> None:
    def respond(asked: ReceivedRequest, number: int) -> Answer:
        return Answer(400) if number == 1 else vectors([[1.0, 0.0, 0.0, float(len(text))] for text in asked.texts])

    with serve_embeddings(respond) as server:
        settings = EmbeddingSettings("openai-compatible", server.url)
        with pytest.raises(EmbeddingError, match=r"1 of 3 calls failed: .*400") as caught:
            fill_in_tasks(papers, EmbedPace(calls_per_second=1_000), settings)
        assert caught.value.details["embedded"] == {"gist": 3}
        assert fill_in_tasks(papers, EmbedPace(), settings).embedded == {"gist": 2}
    assert [len(asked.texts) for asked in server.asked] == [2, 2, 1, 2]


def embed_and_die(root: Path, url: str) -> None:
    """Fill vectors two at a time, each two in a commit, in a process that may die."""
    graph = omnigraph.open(root)
    fill_in_tasks(graph, EmbedPace(texts_per_commit=2), EmbeddingSettings("openai-compatible", url))


def test_killed_anywhere_no_text_is_sent_twice_but_those_in_flight(papers: Graph) -> None:
    def respond(asked: ReceivedRequest, number: int) -> Answer:
        del number
        return vectors([[1.0, 0.0, 0.0, float(len(text))] for text in asked.texts])

    template = Path(papers.uri)
    with serve_embeddings(respond) as server:
        steps = crash.record(embed_and_die, crash.fresh_copy(template), server.url)
        for number, when in crash.some_crashes(steps):
            server.asked.clear()
            root = crash.fresh_copy(template)
            crash.kill_at(embed_and_die, (root, server.url), number, when)
            crash.run(embed_and_die, root, server.url)
            sent = Counter(text for asked in server.asked for text in asked.texts)
            assert set(sent) == {f"title {n}" for n in range(5)}
            twice = [text for text, count in sent.items() if count > 1]
            assert (max(sent.values()) <= 2, len(twice) <= 2) == (True, True), (when, steps[number - 1], sent)
            found = omnigraph.open(root, mode="ro")
            assert [code for code, gist in gists(found).items() if gist is None] == ["untitled", "blank"]
