"""Writers that a schema change overtakes: they get a conflict that can be retried, and retries work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import ConflictError, PreconditionFailed, QueryError
from omnigraph.graph import Graph
from omnigraph.language.schema import Catalog, Schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.manifest.handle import Manifest
from omnigraph.manifest.lagging import follow_schemas
from omnigraph.manifest.rows import Row
from omnigraph.manifest.state import ManifestView
from omnigraph.read.query import QueryOptions
from omnigraph.write.mutation import run
from tests.crash import fresh_copy, kill_at, record
from tests.selection import daily
from tests.write.evolve.people_graph import BEFORE, head, load, make, people, with_change
from tests.write.writers import open_manifest

CHANGES = {
    "column": with_change("age: I32?", "age: I32?\n  note: String?"),
    "wide": with_change("age: I32?", "age: I64?"),
    "dropped": with_change("  nick: String?\n", ""),
    "renamed": with_change("nick: String?", 'alias: String? @rename_from("nick")'),
    "required": with_change("age: I32?", 'age: I32?\n  rank: I32 @default("7")'),
    "type gone": with_change("edge LivesIn: Person -> City\n", "").replace("node City { name: String @key }\n", ""),
    "type renamed": BEFORE.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")'),
}


class OvertakenGraph(Graph):
    """A graph in which something else happens once, right after a call has read the schema."""

    happens: Callable[[], object] | None = None

    @property
    def schema(self) -> Schema:
        read = super().schema
        self.let_it_happen()
        return read

    def let_it_happen(self) -> None:
        if self.happens is not None:
            action, self.happens = self.happens, None
            action()


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OvertakenGraph:
    graph = OvertakenGraph(make(tmp_path)._manifest, "rw", "tests")
    compile_call = run.compile_call

    def compile_and_let_it_happen(
        source: str | Path | Source,
        catalog: Catalog,
        name: str | None,
        parameters: Mapping[str, object] | None,
        query_options: QueryOptions | None,
    ) -> run.MutationCall:
        graph.let_it_happen()
        return compile_call(source, catalog, name, parameters, query_options)

    # A mutation reads the schema with its snapshot.
    monkeypatch.setattr(run, "compile_call", compile_and_let_it_happen)
    return graph


def overtake(graph: OvertakenGraph, change: str) -> None:
    graph.happens = partial(omnigraph.open(graph.uri).apply_schema, CHANGES[change])


INSERT = 'query q() { insert Person { name: "dee", age: 3, nick: "d" } }'
UPDATE = 'query q() { update Person set { nick: "z" } where name = "ann" }'
DELETE = 'query q() { delete Person where nick = "a" }'


def mutate(text: str, graph: Graph, branch: str = "main") -> None:
    graph.mutate(text, branch=branch, retries=0)


def load_records(graph: Graph, branch: str = "main") -> None:
    load(graph, {"type": "Person", "data": {"name": "dee", "age": 3, "nick": "d"}}, branch=branch)


def use_transaction(graph: Graph, branch: str = "main") -> None:
    with graph.transaction(branch) as tx:
        tx.mutate(INSERT)
        tx.query("query q() { match { $p: Person } return { $p.nick } }")
        tx.mutate(UPDATE)


def merge_branch(graph: Graph, branch: str = "main") -> None:
    graph.merge("side", branch)


WRITERS: dict[str, Callable[..., object]] = {
    "insert": partial(mutate, INSERT),
    "update": partial(mutate, UPDATE),
    "delete": partial(mutate, DELETE),
    "load": load_records,
    "transaction": use_transaction,
    "merge": merge_branch,
}


@pytest.mark.parametrize("change", daily(CHANGES, ["type renamed"]))
@pytest.mark.parametrize("writer", WRITERS)
def test_an_overtaken_writer_gets_a_conflict_and_changes_nothing(
    graph: OvertakenGraph, writer: str, change: str
) -> None:
    if writer == "merge":
        graph.create_branch("side")
        # A rename waits for branches with rows.
        graph.mutate('query q() { delete Person where name != "" }', branch="side")
    overtake(graph, change)
    with pytest.raises(ConflictError, match="the schema of the graph changed") as caught:
        WRITERS[writer](graph)
    assert not isinstance(caught.value, PreconditionFailed)
    assert graph.commits()[0].message == "schema changed"
    assert graph.verify().findings == ()


@pytest.mark.parametrize("writer", daily(WRITERS, ["merge", "load"]))
def test_a_writer_on_a_branch_that_is_overtaken_gets_a_conflict_and_works_when_it_is_repeated(
    graph: OvertakenGraph, writer: str
) -> None:
    graph.create_branch("side")
    load(graph, {"type": "City", "data": {"name": "rome"}}, branch="side")
    graph.create_branch("dev")
    load(graph, {"type": "Person", "data": {"name": "eve"}}, branch="dev")
    overtake(graph, "wide")
    with pytest.raises(ConflictError, match="the schema of the graph changed"):
        WRITERS[writer](graph, "dev")
    WRITERS[writer](graph, "dev")
    assert graph.verify().findings == ()


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_retries_repeat_an_overtaken_mutation(graph: OvertakenGraph, branch: str) -> None:
    graph.create_branch("dev")
    overtake(graph, "column")
    graph.mutate(INSERT, branch=branch, retries=1)
    assert people(graph, branch)["dee"]["age"] == 3
    overtake(graph, "dropped")
    with pytest.raises(QueryError, match="nick"):
        graph.mutate(INSERT.replace("dee", "eve"), branch=branch, retries=1)
    assert graph.verify().findings == ()


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("change", daily(CHANGES, ["wide"]))
def test_a_load_that_is_overtaken_while_it_reads_gets_a_conflict(graph: Graph, change: str, branch: str) -> None:
    if branch == "dev":
        graph.create_branch("dev")
        # A rename waits for branches with rows.
        graph.mutate('query q() { delete Person where name != "" }', branch="dev")

    def read() -> Iterator[dict[str, object]]:
        for number in range(20_000):
            yield {"type": "Person", "data": {"name": f"p{number}", "age": 3, "nick": "d"}}
            if number == 10_000:
                omnigraph.open(graph.uri).apply_schema(CHANGES[change])

    with pytest.raises(ConflictError, match="the schema of the graph changed"):
        graph.load(read(), mode="merge", branch=branch)
    assert graph.commits()[0].message == "schema changed"
    assert graph.verify().findings == ()


@pytest.mark.parametrize("back", [False, True], ids=["changed", "changed and back"])
@pytest.mark.parametrize("branch", daily(["main", "dev"], ["dev"]))
def test_a_transaction_that_is_overtaken_inside_its_block_conflicts_and_makes_no_commit(
    graph: Graph, branch: str, back: bool
) -> None:
    graph.create_branch("dev")
    load(graph, {"type": "Person", "data": {"name": "eve"}}, branch="dev")
    before = head(graph, "dev")
    tx = graph.transaction(branch)
    tx.__enter__()
    tx.mutate('query q() { insert City { name: "bonn" } }')
    graph.apply_schema(CHANGES["type gone"])
    if back:
        graph.apply_schema(BEFORE)
    with pytest.raises(ConflictError, match="the schema of the graph changed"):
        tx.__exit__(None, None, None)
    assert head(graph, "dev") == before
    assert graph.commits()[0].message == "schema changed"
    use_transaction(graph, branch)
    assert graph.verify().findings == ()


def test_a_load_into_a_new_branch_of_an_older_commit_is_checked_with_the_current_schema(graph: Graph) -> None:
    before = head(graph)
    graph.apply_schema(f"{BEFORE}node Boat {{ name: String @key }}\nedge Sails: Person -> Boat\n")
    graph.load(
        [{"type": "Boat", "data": {"name": "ark"}}, {"edge": "Sails", "from": "ann", "to": "ark"}],
        branch="new",
        from_branch=before,
    )
    assert graph.nodes("Boat", branch="new").to_arrow()["id"].to_pylist() == ["ark"]


# --------------------------------------------------------------------------------------------- at every read of main


class OvertakenManifest(Manifest):
    """A manifest in which another process changes the schema right before a given read of main."""

    reads = 0
    first_publish: int | None = None
    """How often main was read before the first publish on a branch."""
    overtaken_at = 0
    happens: Callable[[], object] | None = None
    happened = False

    def view(self, branch: str, *, with_lineage: bool = False) -> ManifestView:
        if branch == "main":
            self.reads += 1
            if self.reads == self.overtaken_at and self.happens is not None:
                # A thread holds no lock of this one.
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(self.happens).result()
        return super().view(branch, with_lineage=with_lineage)

    def merge_rows(self, view: ManifestView, rows: Sequence[Row]) -> ManifestView:
        self.first_publish = self.first_publish or self.reads
        return super().merge_rows(view, rows)


WITHOUT_CITIES = CHANGES["type gone"].replace("age: I32?", "age: I32?\n  note: String?")
AGAIN = (WITHOUT_CITIES, CHANGES["column"])
"""A type is dropped and added again: the schema is the same as before, and the type is another one."""


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with a branch that lags, and has rows of every type."""
    graph = make(tmp_path_factory.mktemp("overtaken"))
    graph.create_branch("dev")
    load(graph, {"type": "City", "data": {"name": "rome"}}, branch="dev")
    graph.apply_schema(CHANGES["column"])
    return Path(graph.uri)


def enter(root: Path, overtaken_at: int, *schemas: str) -> tuple[Graph, OvertakenManifest]:
    """The graph as a process has it that is overtaken at one of its reads of main."""
    plain = omnigraph.open(root)._manifest
    manifest = OvertakenManifest(plain.location, plain.access, plain.locks)
    manifest.overtaken_at = overtaken_at

    def change_schema() -> None:
        for schema in schemas:
            # Opening the graph would wait for the writer, to finish what it has begun.
            Graph(open_manifest(root), "rw", "tests").apply_schema(schema)
        manifest.happened = True

    manifest.happens = change_schema
    return Graph(manifest, "rw", "tests"), manifest


def check_graph(root: Path) -> None:
    """Every branch can be read and written, and shows no row of a type that was dropped."""
    graph = omnigraph.open(root)
    current = graph._manifest.current_schema()
    assert current is not None
    is_re_created = parse_schema(WITHOUT_CITIES).hash in current.earlier
    for branch in ("main", "dev"):
        graph.mutate('query q() { insert Person { name: "zoe" } }', branch=branch)
        assert {"ann", "bob", "zoe"} <= set(people(graph, branch))
        if "City" in graph.schema.catalog.nodes:
            cities = graph.nodes("City", branch=branch).to_arrow()["id"].to_pylist()
            assert ("rome" in cities) == (branch == "dev" and not is_re_created)
            graph.mutate('query q() { insert City { name: "bern" } }', branch=branch)
    assert graph.verify().findings == ()


def write_overtaken(lagging: Path, overtaken_at: int, schemas: tuple[str, ...]) -> OvertakenManifest:
    """Write to the branch, which catches up first, and be overtaken; then the graph works."""
    root = fresh_copy(lagging)
    graph, manifest = enter(root, overtaken_at, *schemas)
    with suppress(ConflictError):
        graph.mutate('query q() { insert Person { name: "dee" } }', branch="dev")
    assert manifest.happened == (manifest.reads >= overtaken_at)
    if manifest.happened:
        check_graph(root)
    return manifest


def test_a_catch_up_that_is_overtaken_around_its_publish(lagging: Path) -> None:
    last = write_overtaken(lagging, 1_000, AGAIN).first_publish
    assert last is not None
    for overtaken_at in (last - 1, last, last + 1):
        assert write_overtaken(lagging, overtaken_at, AGAIN).reads >= overtaken_at


@pytest.mark.slow
@pytest.mark.parametrize(
    "schemas",
    [AGAIN, *(pytest.param((CHANGES[name],), marks=pytest.mark.slow) for name in ("wide", "dropped", "type gone"))],
)
def test_a_writer_that_catches_up_is_overtaken_at_any_read_of_main(lagging: Path, schemas: tuple[str, ...]) -> None:
    for overtaken_at in count(1):
        if write_overtaken(lagging, overtaken_at, schemas).reads < overtaken_at:
            return


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_snapshot_has_one_schema_whenever_it_changes(lagging: Path, branch: str) -> None:
    for overtaken_at in count(1):
        graph, manifest = enter(fresh_copy(lagging), overtaken_at, CHANGES["wide"])
        shown = graph.snapshot(branch)
        if manifest.reads < overtaken_at:
            return
        assert shown.read_under is not None
        assert shown.schema_ir_hash == shown.read_under.schema_ir_hash
        assert shown.lag == follow_schemas(manifest, shown.written_under, shown.read_under)
        assert branch == "dev" or shown.lag is None


def catch_up(root: str) -> None:
    Graph(open_manifest(root), "rw", "tests").mutate('query q() { insert Person { name: "dee" } }', branch="dev")


@pytest.mark.parametrize("schemas", [AGAIN, (CHANGES["wide"],)], ids=["dropped and added again", "changed"])
def test_a_catch_up_that_died_is_not_published_under_a_later_schema(lagging: Path, schemas: tuple[str, ...]) -> None:
    """Not even if the later schema is the same again: its tables were made for the one before."""
    published = [step.number for step in record(catch_up, str(fresh_copy(lagging))) if step.name == "table.merge"]
    root = fresh_copy(lagging)
    kill_at(catch_up, (str(root),), published[0], "before")
    for schema in schemas:
        # Opening the graph would finish what is left on all branches.
        Graph(open_manifest(root), "rw", "tests").apply_schema(schema)
    check_graph(root)
