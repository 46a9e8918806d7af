"""A graph beside its model through everything that can happen to it, deaths included.

What happens is an operation that pickles, so that it can be done here or by a child that is killed at some durable
write. Then it was done or it was not, and the model follows the graph in that, and in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

import orjson
import pytest
from hypothesis import currently_in_test_context
from hypothesis import event as told

import omnigraph
from omnigraph.errors import ChangeGap, ConflictError, HistoryGone, MergeConflicts, Unsupported
from omnigraph.graph import Graph
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.changes.feed import ChangeBlock
from omnigraph.storage.failpoints import When
from tests.crash import Pipe, attempt, pipe, start
from tests.maintain.life_operations import (
    Apply,
    Clean,
    CreateBranch,
    DeleteBranch,
    Load,
    Merge,
    Operation,
    Revert,
    run_at,
    tend,
)
from tests.model import life_model as model
from tests.model.ancestry_model import bases, common
from tests.model.life_model import Shape, Shown, Tables
from tests.model.merge_model import Entity, State, merge, preferred


def event(what: str) -> None:
    """Count what happens, where Hypothesis counts."""
    if currently_in_test_context():
        told(what)


Death: TypeAlias = tuple[int, When]
"""The durable write at which whoever does something dies."""

# --------------------------------------------------------------------------------------------- the graph and its model


class Life:
    """A graph, and what every commit of it stores."""

    def __init__(self, uri: str) -> None:
        self.graph = omnigraph.open(uri)
        self.shape = Shape()
        self.shapes = {0: self.shape}
        """All schemas that the graph had, or may have got from somebody who died, by number."""
        self.commits: dict[str, Tables] = {}
        self.parents: dict[str, tuple[str, ...]] = {}
        self.schemas: dict[str, Shape] = {}
        self.same_names: set[str] = set()
        """Commits since something was renamed: only these can be compared by name."""
        self.gone: set[str] = set()
        """What a cleanup was free to take: no later one brings it back."""
        self.follower = Follower(self)
        for commit in self.graph.commits():
            self._know(commit.id, commit.parents, model.stored({}, self.shape, {}))

    # ----------------------------------------------------------------------------------------- looking

    def branches(self) -> list[str]:
        return [branch.name for branch in self.graph.branches()]

    def head(self, branch: str) -> str:
        return self.graph.commits(branch, limit=1)[0].id

    def tables(self, branch: str) -> Tables:
        return self.commits[self.head(branch)]

    def now(self, branch: str) -> Shown:
        """What the model says that a branch shows."""
        return model.shown(self.tables(branch), self.shape)

    def known(self) -> dict[str, tuple[str, ...]]:
        """The commits of branches that were not deleted, with their parents."""
        listed = {commit.id for branch in self.branches() for commit in self.graph.commits(branch)}
        return {commit: self.parents[commit] for commit in listed}

    def check_heads(self) -> None:
        """Every branch shows what it should, through the schema of now."""
        for branch in self.branches():
            assert contents(self.graph, branch) == self.now(branch), branch

    def check_history(self) -> None:
        """Every commit that nothing was free to take reads as it did, also for somebody who has just come."""
        for graph in (self.graph, omnigraph.open(self.graph.uri, "ro")):
            for commit in self.known():
                expected = model.shown(self.commits[commit], self.schemas[commit])
                try:
                    assert contents(graph, at=commit) == expected, commit
                except HistoryGone:
                    assert commit in self.gone, commit

    def check_end(self) -> None:
        """Every branch can be read and written, with empty and full caches alike, and the graph is sound."""
        for branch in self.branches():
            last = {(self.shape.person, "p0"): dict.fromkeys(self.shape.columns(self.shape.person))}
            last[self.shape.person, "p0"] |= {"name": "p0"} | {
                name: column.default for name, column in self.shape.people.items() if column.default is not None
            }
            self.write(Load(branch, records(last.items())), branch, {**self.now(branch), **last}, None)
            self._check_queries(branch)
        assert self.graph.verify().findings == ()

    def _check_queries(self, branch: str) -> None:
        person, now = self.shape.person, self.now(branch)
        people = {id_: row for (type_, id_), row in now.items() if type_ == person}
        names = list(self.shape.columns(person))
        columns = ", ".join(f"$p.{name} as {name}" for name in names)
        everybody = f"query q() {{ match {{ $p: {person} }} return {{ {columns} }} }}"
        expected = {str(row["name"]): row for row in people.values()}
        for graph in (omnigraph.open(self.graph.uri), self.graph, self.graph):
            assert {row["name"]: row for row in graph.query(everybody, branch=branch).rows} == expected
            for name, column in self.shape.people.items():
                # Filters are asked of the storage, of columns in memory, or of both.
                for value in {row[name] for row in people.values() if row[name] is not None}:
                    literal = f'"{value}"' if column.is_text else value
                    text = f"query q() {{ match {{ $p: {person}  $p.{name} = {literal} }} return {{ $p.name as n }} }}"
                    found = {row["n"] for row in graph.query(text, branch=branch).rows}
                    assert found == {id_ for id_, row in people.items() if row[name] == value}, (branch, name, value)
            known = f"query q() {{ match {{ $p: {person}  $p knows $q }} return {{ $p.name as p, $q.name as q }} }}"
            edges = {(row["from"], row["to"]) for (type_, _), row in now.items() if type_ == "Knows"}
            assert {(row["p"], row["q"]) for row in graph.query(known, branch=branch).rows} == edges

    def check_feed(self) -> None:
        """Replayed from the beginning, or from a baseline where that is gone, the changes give the head."""
        for branch in self.branches():
            follower = Follower(self, branch)
            follower.poll()
            follower.check()
        self.follower.poll()
        self.follower.check()

    # ----------------------------------------------------------------------------------------- doing

    def do(self, operation: Operation, death: Death | None) -> bool:
        """Do something here, or in a child that may die of it; whether it came to its end."""
        if death is None:
            operation.run(self.graph)
            return True
        ended = attempt(run_at, (self.graph.uri, operation), *death)
        event(f"{type(operation).__name__}: {'too few writes' if ended else 'killed'}")
        self.graph = omnigraph.open(self.graph.uri)
        return ended

    def write(self, operation: Operation, branch: str, after: State, death: Death | None) -> None:
        """Something that makes commits on a branch, after which it shows this."""
        before = self.tables(branch)
        ended = self.do(operation, death)
        self._follow(branch, before, model.stored(before, self.shape, after), ended=ended)

    def write_beside_upkeep(self, operation: Operation, branch: str, after: State, keep: int) -> None:
        """Write while another process builds indexes, compacts and cleans up."""
        before, ends = self.tables(branch), pipe()
        child = start(_answer, ends[1], tend, (self.graph.uri, branch, keep))
        ends[1].close()
        try:
            operation.run(self.graph)
        except (ConflictError, HistoryGone):
            # What it had read was compacted or cleaned up.
            event("beside upkeep: repeated")
            child.join()
            operation.run(self.graph)
        failed = ends[0].recv()
        child.join()
        if failed is not None:
            raise cast("BaseException", failed)
        self._follow(branch, before, model.stored(before, self.shape, after), ended=True)
        self.gone |= self.commits.keys() - set(self._staying(1))

    def upkeep(self, operation: Operation, branch: str, death: Death | None) -> None:
        """Something after which a branch shows the same."""
        before = self.tables(branch)
        self.do(operation, death)
        self._follow(branch, before, before, ended=True)

    def _follow(self, branch: str, before: Tables, after: Tables, *, ended: bool) -> None:
        """Learn the commits that came: up to one of them the branch shows what it did, and from there on the new."""
        reached = False
        for commit in reversed(self.graph.commits(branch)):
            if commit.id in self.commits:
                continue
            shape = self._shape_of(commit.id)
            try:
                seen = contents(self.graph, at=commit.id)
            except HistoryGone:
                # A cleanup beside the write took it; nobody asks what it showed.
                self._know(commit.id, commit.parents, after, shape)
                self.gone.add(commit.id)
                continue
            reached = reached or seen == model.shown(after, shape)
            self._know(commit.id, commit.parents, after if reached else before, shape)
            assert seen == model.shown(self.commits[commit.id], shape), commit
        if ended:
            assert self.now(branch) == model.shown(after, self.shape)

    def _know(self, commit: str, parents: tuple[str, ...], tables: Tables, shape: Shape | None = None) -> None:
        self.commits[commit] = tables
        self.parents[commit] = parents
        self.schemas[commit] = shape or self.shape
        self.same_names.add(commit)

    def _shape_of(self, commit: str) -> Shape:
        try:
            return self.shapes[self._number_of(commit)]
        except HistoryGone:
            return self.shape

    def _number_of(self, commit: str | None) -> int:
        """How many schemas there were before that of a commit, or of now."""
        head = self.graph.snapshot(at=commit).read_under
        assert head is not None
        return head.number

    def apply(self, new: Shape, death: Death | None) -> None:
        """Another schema, unless a branch stands in the way."""
        text = new.text(self.shape)
        renames = not new.keeps_names(self.shape)
        others = self.branches()[1:]
        if others and renames:
            if any(key[0] == self.shape.person for branch in others for key in self.now(branch)):
                with pytest.raises(ConflictError, match="cannot be renamed"):
                    self.graph.apply_schema(text)
            return
        event(f"schema: {'renamed' if renames else 'changed'}, {len(others)} branches")
        self._evolve(Apply(text), new, death)
        self.same_names = set() if renames and self.shape == new else self.same_names

    def _evolve(self, operation: Apply, new: Shape, death: Death | None) -> None:
        old, before = self.shape, self.tables(MAIN)
        self.shapes[self._number_of(None) + 1] = new
        ended = self.do(operation, death)
        self.shape = self.shapes[self._number_of(None)]
        assert self.shape == new if ended else self.shape in (old, new)
        after = model.evolved(before, new) if self.shape == new else before
        self._follow(MAIN, before, after, ended=ended)

    def drop_for_good(self, name: str, death: Death | None) -> None:
        """Drop a property with all its values, unless a branch, a tag or a commit holds them."""
        new = self.shape.without(name)
        refused: ConflictError | None = None
        try:
            self._evolve(Apply(new.text(self.shape), is_hard=True), new, death)
        except ConflictError as held:
            refused = held
        if refused is not None:
            event("schema: a hard drop is refused")
            assert "cannot be dropped with its history" in refused.message
            del self.shapes[self._number_of(None) + 1]
            return
        event("schema: dropped for good")
        newest = self.head(MAIN)
        # Nothing but the commit before it can have shown the values.
        self.gone |= {each for each, tables in self.commits.items() if each != newest and tables["people"].rows}

    # ----------------------------------------------------------------------------------------- merging

    def merge(self, operation: Merge, death: Death | None) -> None:
        """Merge, and hold what comes of it against the model."""
        source, into = self.head(operation.source), self.head(operation.into)
        known = self.known()
        met = bases(known, source, into)
        if len(met) > 2 or any(len(bases(known, one, other)) > 1 for one in met for other in met):
            # Which of so many meeting points counts is told in tests/write/merge/test_merge_histories.py.
            return
        try:
            tried = self.graph.merge(operation.source, operation.into, by=operation.by, dry_run=True)
        except HistoryGone:
            event("merge: the base is gone")
            assert self.gone.intersection(met) or (len(met) > 1 and self.gone)
            return
        except Unsupported:
            event("merge: met several times before the schema changed")
            assert len(met) > 1
            assert any(self.schemas[each] != self.shape for each in met)
            return
        assert tried.base in met

        def read(commit: str) -> Shown:
            return model.shown(self.commits[commit], self.shape)

        base: State = common(known, read, tried.base, [each for each in met if each != tried.base])
        base = read(source) if source in met else base
        sides = base, read(into), read(source), operation.by
        expected, conflicts = merge(*sides)
        lost = model.orphans(expected, self.shape)
        found = {(each.type, each.id): each.kind for each in tried.conflicts if each.kind != "OrphanEdge"}
        assert found == conflicts
        assert {(each.type, each.id) for each in tried.conflicts if each.kind == "OrphanEdge"} == lost
        if conflicts or lost:
            decided = None if operation.prefer is None else preferred(*sides, operation.prefer)
            if decided is None or model.orphans(decided, self.shape):
                # What becomes of an edge without an end, where one side is preferred, is not for this model to say.
                self._refused(replace(operation, prefer=None), operation.into)
                return
            expected = decided
        event(f"merge: {tried.outcome}")
        self.write(operation, operation.into, expected, death)

    def revert(self, operation: Revert, death: Death | None) -> None:
        """Take a commit back, if what it takes can still be read and compared."""
        undone = operation.commit
        parent = self.parents[undone][operation.side - 1]
        if not {undone, parent} <= self.known().keys() & self.same_names - self.gone:
            return
        now = self.now(operation.branch)
        other, base = (model.shown(self.commits[each], self.shape) for each in (parent, undone))
        expected, conflicts = merge(base, now, other, "row")
        if conflicts or model.orphans(expected, self.shape):
            self._refused(operation, operation.branch)
            return
        event("reverted")
        self.write(operation, operation.branch, expected, death)

    def _refused(self, operation: Merge | Revert, branch: str) -> None:
        """Conflicts change nothing, but for the tables of a branch that lagged, which catch up before they are met."""
        before = self.tables(branch)
        with pytest.raises(MergeConflicts):
            operation.run(self.graph)
        self._follow(branch, before, before, ended=True)

    # ----------------------------------------------------------------------------------------- branches, tags, cleanup

    def create_branch(self, name: str, start: str, death: Death | None) -> None:
        """A branch from any commit that stays and can be compared by name."""
        ended = self.do(CreateBranch(name, start), death)
        assert name in self.branches() or not ended
        assert name not in self.branches() or self.head(name) == start

    def delete_branch(self, name: str, death: Death | None) -> None:
        """Delete a branch; refused while another branch or a tag stands on it."""
        try:
            ended = self.do(DeleteBranch(name), death)
        except ConflictError:
            event("delete: refused")
            return
        assert name not in self.branches() or not ended

    def clean(self, keep: int, death: Death | None) -> None:
        """A cleanup; what has to stay is remembered as such."""
        stay = set(self._staying(keep))
        self.do(Clean(keep), death)
        self.gone |= self.commits.keys() - stay
        self.check_history()

    def _staying(self, keep: int) -> Iterator[str]:
        """The newest of each branch's own commits, its head, the tags, and where it would be merged with main."""
        known = self.known()
        for branch in self.branches():
            commits = self.graph.commits(branch)
            own = [commit.id for commit in commits if commit.branch == branch]
            yield from {commits[0].id, *own[:keep]} - self.gone
            yield from {*bases(known, commits[0].id, self.head(MAIN))} - self.gone
        yield from (tag.commit for tag in self.graph.tags())


# --------------------------------------------------------------------------------------------- following


class Follower:
    """Somebody who knows nothing but the change feed and the schemas, and keeps a cursor."""

    def __init__(self, life: Life, branch: str = MAIN) -> None:
        self._life = life
        self._branch = branch
        self._cursor: str | None = None
        self._entities: Shown = {}
        self._form: dict[tuple[str, str], Shape] = {}
        """The schema that each of them was told in."""
        self.last: str | None = None

    def poll(self) -> None:
        """Take in what is new; after a gap, which must have a reason, begin anew with a baseline."""
        graph, life = self._life.graph, self._life
        start = "beginning" if self._cursor is None else None
        try:
            for block in graph.changes(start, self._cursor, branch=self._branch):
                self._take(block)
        except ChangeGap as gap:
            event("feed: gap")
            commit = cast(str, gap.details["commit"])
            assert {commit, *life.parents[commit][:1]} & life.gone
            self._entities, self._form, self.last = {}, {}, None
            self._take(graph.baseline(branch=self._branch))

    def _take(self, block: ChangeBlock) -> None:
        shape = self._life.schemas[block.commit.id]
        assert self.last is None or block.commit.parents[0] == self.last
        for change in block.entities():
            key = (change.type, change.id)
            was = self._entities.pop(key, None)
            assert was == _told(change.before)
            if change.after is not None:
                assert change.after != change.before
                self._entities[key] = _told(change.after) or {}
                self._form[key] = shape
        for key, row in list(self._entities.items()):
            # A change of the schema that leaves rows alone is no change of them: whoever follows brings them along.
            if self._form[key] != shape:
                del self._entities[key]
                key, brought = model.brought(key, row, self._form.pop(key), shape)
                self._entities[key], self._form[key] = brought, shape
        self._cursor, self.last = block.cursor, block.commit.id

    def check(self) -> None:
        """All that it was told is what the newest commit shows."""
        newest = self._life.head(self._branch)
        assert self.last == newest
        head = model.shown(self._life.commits[newest], self._life.schemas[newest])
        assert self._entities == {key: _told(row) for key, row in head.items()}


def _told(row: Mapping[str, object] | None) -> Entity | None:
    return None if row is None else {name: value for name, value in row.items() if value is not None}


# --------------------------------------------------------------------------------------------- contents and records


def contents(graph: Graph, branch: str = MAIN, at: Reference | None = None) -> Shown:
    """All that a branch or a commit shows, as an export has it."""
    found: Shown = {}
    for line in graph.export(branch=branch, at=at):
        record = cast("dict[str, object]", orjson.loads(line))
        row = cast("dict[str, object]", record["data"])
        key = (cast(str, record.get("type") or record["edge"]), cast(str, row.pop("id")))
        assert key not in found, f"{key} is there twice"
        found[key] = {**{end: record[end] for end in ("from", "to") if end in record}, **row}
    return found


def records(entities: Iterable[tuple[tuple[str, str], Entity]]) -> tuple[bytes, ...]:
    """Entities as a load takes them."""
    return tuple(orjson.dumps(_record(type_, id_, row)) for (type_, id_), row in entities)


def _record(type_: str, id_: str, row: Entity) -> dict[str, object]:
    data = {name: value for name, value in row.items() if name not in ("from", "to")}
    if type_ != "Knows":
        return {"type": type_, "data": data}
    return {"edge": type_, "from": row["from"], "to": row["to"], "data": {"id": id_, **data}}


def _answer(end: Pipe, function: Callable[..., object], args: tuple[object, ...]) -> None:
    """Call a function in a child; answer with what it raised, or None."""
    try:
        function(*args)
        end.send(None)
    except BaseException as error:  # noqa: BLE001  the parent raises it
        end.send(error)
