"""A copy of a graph that knows nothing but the change feed, and believes nothing that does not fit what it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from omnigraph.read.changes.compare_rows import Op
from omnigraph.read.changes.diff import EntityChange
from omnigraph.read.changes.feed import ChangeBlock
from tests.model.graph_writes import Rows

Key: TypeAlias = tuple[str, str, str]
Image: TypeAlias = Mapping[str, object]


class Replica:
    """The entities of a graph by kind, type and id, and the commits that made them."""

    def __init__(self) -> None:
        self.entities: dict[Key, Image] = {}
        self.commits: list[str] = []

    def take(self, blocks: Iterable[ChangeBlock]) -> Replica:
        """Take some blocks in, each of them whole."""
        for block in blocks:
            self.apply(block)
        return self

    def apply(self, block: ChangeBlock) -> None:
        """Take one block in: everything is in the order that was promised, and every image fits."""
        last: tuple[bool, str, str] | None = None
        for change in block.entities():
            place = (change.kind == "edge", change.type, change.id)
            assert last is None or last < place
            last = place
            self._apply(change)
        if self.commits:
            assert block.commit.parents[0] == self.commits[-1]
        self.commits.append(block.commit.id)

    def _apply(self, change: EntityChange) -> None:
        key = (change.kind, change.type, change.id)
        assert self.entities.get(key) == change.before
        assert (change.op is Op.INSERTED) == (change.before is None)
        assert (change.op is Op.DELETED) == (change.after is None)
        if change.after is None:
            del self.entities[key]
        else:
            assert change.after != change.before
            self.entities[key] = change.after

    def rows(self, types: Iterable[str]) -> Rows:
        """The graph of the models, with these node types."""
        nodes: dict[str, dict[str, int | None]] = {name: {} for name in types}
        knows: list[tuple[str, str]] = []
        for (kind, name, id_), image in self.entities.items():
            if kind == "node":
                nodes[name][id_] = cast("int | None", image["size"])
            else:
                knows.append((str(image["from"]), str(image["to"])))
        return Rows(nodes).with_knows(*knows)
