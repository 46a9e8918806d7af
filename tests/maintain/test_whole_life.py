"""Everything together: random histories with branches, merges, schemas, upkeep and deaths, beside a model.

After every step all branches show what the model says. In the end every branch can be read and written, queries answer
the same with cold and warm caches, every commit that had to stay reads as it did, the change feed gives the head, and
``verify`` finds nothing. An error that a step does not expect fails the life.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from omnigraph.manifest.rows import MAIN
from omnigraph.storage.failpoints import When
from tests.maintain.life import Death, Life, records
from tests.maintain.life_operations import CreateTag, DeleteTag, Load, Merge, Mutate, Optimize, Revert, Side
from tests.model.life_model import NAMES, Shape, Shown, following, orphans
from tests.model.merge_model import By
from tests.selection import sized

TEXTS = (None, "a", "b")
BRANCHES = ("left", "right", "dev")
BY: tuple[By, ...] = ("row", "property")
PREFER: tuple[Side | None, ...] = (None, "ours", "theirs")
WHEN: tuple[When, ...] = ("before", "after")


@dataclass(frozen=True, slots=True)
class Loads:
    """Somebody loads people, whom they know, and a boat."""

    people: Sequence[tuple[str, int | None, str | None]]
    edges: Sequence[tuple[str, int | None]]
    boat: bool
    beside: bool = False
    """While another process builds indexes, compacts and cleans up."""

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        branch, shape = _picked(life, at), life.shape
        put: Shown = {}
        for name, number, text in self.people:
            put[shape.person, name] = {"name": name} | {
                each: text if column.is_text else column.default if number is None else number
                for each, column in shape.people.items()
            }
        if self.boat and shape.boats:
            put["Boat", "b0"] = {"name": "b0"}
        now = life.now(branch)
        for name, since in self.edges:
            put["Knows", name] = {"from": name, "to": following(name), "since": since}
        for key in orphans({**now, **put}, shape):
            del put[key]
        if put and self.beside:
            life.write_beside_upkeep(Load(branch, self._records(put, shape)), branch, {**now, **put}, 1 + at % 4)
        elif put:
            life.write(Load(branch, self._records(put, shape)), branch, {**now, **put}, death)

    def _records(self, put: Shown, shape: Shape) -> tuple[bytes, ...]:
        """Values that are the default are left out."""
        defaults = {name: column.default for name, column in shape.people.items() if column.default is not None}
        left = {
            key: {name: value for name, value in row.items() if name not in defaults or defaults[name] != value}
            for key, row in put.items()
        }
        return records(left.items())


@dataclass(frozen=True, slots=True)
class Mutates:
    """Somebody changes a person, or removes one, with all edges."""

    name: str
    age: int | None
    removes: bool

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        branch, person = _picked(life, at), life.shape.person
        now = life.now(branch)
        if (person, self.name) not in now:
            return
        if self.removes:
            text = f'query q() {{ delete {person} where name = "{self.name}" }}'
            left = {key: row for key, row in now.items() if key != (person, self.name)}
            after = {key: row for key, row in left.items() if key not in orphans(left, life.shape)}
        else:
            value = "null" if self.age is None else self.age
            change = f'{person} set {{ age: {value} }} where name = "{self.name}"'
            text = f"query q() {{ update {change} }}"
            after = {**now, (person, self.name): {**now[person, self.name], "age": self.age}}
        life.write(Mutate(branch, text), branch, after, death)


@dataclass(frozen=True, slots=True)
class Merges:
    """Somebody merges a branch into another."""

    into: int
    by: By
    prefer: Side | None

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        source, into = _picked(life, at), _picked(life, self.into)
        if source != into:
            life.merge(Merge(source, into, self.by, self.prefer), death)


@dataclass(frozen=True, slots=True)
class Reverts:
    """Somebody takes one of the last commits of a branch back."""

    back: int
    side: int

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        branch = _picked(life, at)
        undone = life.graph.commits(branch)[: self.back][-1]
        if undone.parents:
            life.revert(Revert(branch, undone.id, min(self.side, len(undone.parents))), death)


@dataclass(frozen=True, slots=True)
class Evolves:
    """Somebody changes the schema."""

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        life.apply(life.shape.changed(at), death)


@dataclass(frozen=True, slots=True)
class Drops:
    """Somebody drops a property with all its values, after a cleanup that leaves only what is needed."""

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        droppable = [name for name in ("note", "rank") if name in life.shape.people]
        if droppable:
            life.clean(1, None)
            life.drop_for_good(droppable[at % len(droppable)], death)


@dataclass(frozen=True, slots=True)
class Branches:
    """Somebody makes a branch from one of the last commits of another, or deletes it."""

    name: str
    back: int

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        if self.name in life.branches():
            life.delete_branch(self.name, death)
            return
        commits = [commit.id for commit in life.graph.commits(_picked(life, at))]
        there = [commit for commit in commits if commit in life.same_names - life.gone]
        life.create_branch(self.name, there[: self.back][-1] if there else life.head(MAIN), death)


@dataclass(frozen=True, slots=True)
class Tags:
    """Somebody names the head of a branch, or takes the name away."""

    name: str

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        there = self.name in {tag.name for tag in life.graph.tags()}
        life.do(DeleteTag(self.name) if there else CreateTag(self.name, life.head(_picked(life, at))), death)


@dataclass(frozen=True, slots=True)
class Optimizes:
    """Somebody optimizes a branch."""

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        branch = _picked(life, at)
        life.upkeep(Optimize(branch), branch, death)


@dataclass(frozen=True, slots=True)
class Cleans:
    """Somebody drops old history."""

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        life.clean(1 + at % 4, death)


@dataclass(frozen=True, slots=True)
class Opens:
    """Somebody opens the graph anew, or follows its changes."""

    follows: bool

    def happen(self, life: Life, at: int, death: Death | None) -> None:
        del at, death
        if self.follows:
            life.follower.poll()
            life.follower.check()
        else:
            life.graph = omnigraph.open(life.graph.uri)


Happening: TypeAlias = (
    Loads | Mutates | Merges | Reverts | Evolves | Drops | Branches | Tags | Optimizes | Cleans | Opens
)
Step: TypeAlias = tuple[Happening, int, Death | None]
"""What happens, a number that picks the branch, and the death of whoever does it."""


def _picked(life: Life, number: int) -> str:
    names = life.branches()
    return names[number % len(names)]


names = st.sampled_from(NAMES)
numbers = st.none() | st.integers(1, 2)
texts = st.sampled_from(TEXTS)
loads = st.builds(
    Loads,
    st.lists(st.tuples(names, numbers, texts), min_size=1, max_size=3),
    st.lists(st.tuples(names, numbers), max_size=2),
    st.booleans(),
)
happenings: st.SearchStrategy[Happening] = st.one_of(
    loads,
    loads,
    st.builds(Mutates, names, numbers, st.booleans()),
    st.builds(Merges, st.integers(0, 3), st.sampled_from(BY), st.sampled_from(PREFER)),
    st.builds(Merges, st.just(0), st.sampled_from(BY), st.sampled_from(PREFER)),
    st.builds(Reverts, st.integers(1, 4), st.integers(1, 2)),
    st.builds(Evolves),
    st.builds(Evolves),
    st.builds(Drops),
    st.builds(Branches, st.sampled_from(BRANCHES), st.integers(1, 4)),
    st.builds(Branches, st.sampled_from(BRANCHES), st.just(1)),
    st.builds(Tags, st.sampled_from(["one", "two"])),
    st.builds(Optimizes),
    st.builds(Cleans),
    st.builds(Opens, st.booleans()),
)
deaths: st.SearchStrategy[Death | None] = st.none() | st.tuples(st.integers(1, 9), st.sampled_from(WHEN))
steps: st.SearchStrategy[Step] = st.tuples(happenings, st.integers(0, 11), deaths)


@pytest.fixture(scope="session")
def newborn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph in which nothing has happened."""
    folder = tmp_path_factory.mktemp("lives") / "life.og"
    omnigraph.init(folder, Shape().text())
    return folder


def live(newborn: Path, story: Sequence[Step]) -> None:
    """Do all steps, and look at everything."""
    with TemporaryDirectory() as folder:
        life = Life(str(shutil.copytree(newborn, Path(folder, "life.og"))))
        for number, (happening, at, death) in enumerate(story):
            try:
                happening.happen(life, at, death)
                life.check_heads()
            except BaseException as error:
                error.add_note(f"step {number}: {happening}, {at}, {death}")
                raise
        life.check_end()
        life.check_history()
        life.check_feed()


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def random_story(seed: int, length: int) -> list[Step]:
    """A life in which much happens: Hypothesis begins with the simplest, and a few examples of that say little."""
    chance = random.Random(seed)  # noqa: S311  no secret

    def number() -> int | None:
        return chance.choice([None, 1, 2])

    def happening() -> Happening:
        loading = Loads(
            [(name, number(), chance.choice(TEXTS)) for name in chance.sample(NAMES, 2)],
            [(name, number()) for name in chance.sample(NAMES, 2)],
            boat=True,
            beside=chance.random() < 0.2,
        )
        merging = Merges(chance.randrange(4), chance.choice(BY), chance.choice(PREFER))
        branching = Branches(chance.choice(BRANCHES), chance.randint(1, 3))
        others: list[Happening] = [
            Mutates(chance.choice(NAMES), number(), removes=chance.random() < 0.3),
            Reverts(chance.randint(1, 3), chance.randint(1, 2)),
            Tags(chance.choice(["one", "two"])),
            Opens(follows=chance.random() < 0.7),
        ]
        schema: list[Happening] = [Evolves(), Evolves(), Drops()]
        return chance.choice([loading, loading, merging, merging, branching, *schema, Optimizes(), Cleans(), *others])

    def death() -> Death | None:
        return (chance.randint(1, 8), chance.choice(WHEN)) if chance.random() < 0.4 else None

    return [(happening(), chance.randrange(12), death()) for _ in range(length)]


@pytest.mark.parametrize("seed", range(1, sized(5, 301)))
def test_a_life_is_that_of_the_model(newborn: Path, seed: int) -> None:
    live(newborn, random_story(seed, sized(9, 18)))


@pytest.mark.slow
@settings(
    max_examples=sized(5, 50),
    suppress_health_check=QUIET,
    print_blob=True,
    # A life is long to replay: a failure prints its steps, and those are readable as they are.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(st.lists(steps, min_size=20, max_size=40))
def test_a_life_that_hypothesis_tells(newborn: Path, story: Sequence[Step]) -> None:
    live(newborn, story)
