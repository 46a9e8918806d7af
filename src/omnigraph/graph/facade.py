"""``Graph``, composed of its families of verbs, and how one is made: ``init`` and ``open``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from omnigraph.arguments import check_arguments
from omnigraph.deadlines import Timeout, observe
from omnigraph.errors import ParameterError
from omnigraph.graph.base import Mode
from omnigraph.graph.history import HistoryVerbs
from omnigraph.graph.reads import ReadVerbs
from omnigraph.graph.refs import ReferenceVerbs
from omnigraph.graph.upkeep import UpkeepVerbs
from omnigraph.graph.writes import WriteVerbs
from omnigraph.language.schema import parse_schema
from omnigraph.language.source import Source
from omnigraph.late_imports import LateModule
from omnigraph.manifest import genesis, opening, references, settings
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.read.memory import MemoryLimit
from omnigraph.storage.durability import Durability
from omnigraph.storage.location import locate
from omnigraph.storage.locks import LockKind

if TYPE_CHECKING:
    from omnigraph import policy as policies
    from omnigraph.read import search
    from omnigraph.write import commit
else:
    policies = LateModule("omnigraph.policy")
    search = LateModule("omnigraph.read.search")
    commit = LateModule("omnigraph.write.commit")

StorageOptions: TypeAlias = Mapping[str, str] | None


class Graph(ReadVerbs, HistoryVerbs, ReferenceVerbs, WriteVerbs, UpkeepVerbs):
    """A versioned, typed property graph. Safe to share between threads; unpickling opens it again."""

    def _repr_html_(self) -> str:
        """Return a picture of the schema with the rows of main, for notebooks."""
        return self.schema.to_svg({table_key: pin.row_count for table_key, pin in self.snapshot().pins.items()})

    def __reduce__(self) -> tuple[object, ...]:
        location, durability = self._manifest.location, self._manifest.access.durability
        options = dict(location.storage_options)
        limits = (self.timeout, self.memory, self._manifest.policy, self.keep)
        return _reopen, (location.uri, self.mode, self.actor, options, durability, self._embedding, *limits)


@check_arguments
def init(
    uri: str | Path,
    schema: str | Path | Source,
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
    durability: Durability | None = None,
    keep: str | None = None,
) -> Graph:
    """Create a graph with a schema, or complete an interrupted init.

    The graph keeps ``lock``, ``durability`` and ``keep``: the age from which history is removed automatically, such as
    "30d"; by default it never is.

    Examples:
        >>> ports = og.init(folder / "ports.og", "node Port { code: String @key }", actor="act-ann")
        >>> ports.commits()[0].actor
        'act-ann'
    """
    parsed = parse_schema(schema)
    location = locate(uri, storage_options)
    chosen = settings.choose_new_settings(location, durability, lock, keep)
    manifest = opening.create_manifest(location, chosen)
    genesis.init_graph(manifest, parsed, chosen, actor)
    return Graph(manifest, "rw", actor)


@check_arguments
def open(  # noqa: A001  the public name
    uri: str | Path,
    mode: Mode = "rw",
    *,
    actor: str | None = None,
    storage_options: StorageOptions = None,
    lock: LockKind | None = None,
    durability: Durability | None = None,
    embed: search.EmbeddingSettings | Mapping[str, object] | None = None,
    timeout: Timeout = None,
    memory: MemoryLimit = None,
    policy: str | Path | policies.Policy | None = None,
    keep: str | None = None,
) -> Graph:
    """Open a graph. Read-only never writes a byte; read-write migrates older formats and ends interrupted writes.

    ``durability`` holds for what is written through this handle; the default is that of the graph. ``timeout`` is how
    long opening it, and each later call, may take: seconds, or a ``Deadline``. ``memory`` is how much each query
    may use: bytes, or a text such as "512MB". ``keep`` is the age from which this handle removes history
    automatically, such as "30d", or "off"; the default is that of the graph.

    With a ``policy``, a file, its text or a ``Policy``, every write is asked for under the name
    of its actor, and refused with ``Forbidden``. Reads are not: whoever holds the files can read them.

    Examples:
        >>> og.open(graph.uri, "ro").info().branches
        ('main', 'review')
    """
    if mode not in ("rw", "ro"):
        raise ParameterError(f"mode is {mode!r}", hint='use "rw" or "ro"')
    if keep is not None:
        settings.parse_keep(keep)
    location = locate(uri, storage_options)
    rules = None if policy is None else policies.load_policy(policy)
    with observe(timeout):
        manifest = opening.open_manifest(location, durability, lock)
        if mode == "rw":
            commit.prepare_for_writing(manifest)
    manifest.policy = rules
    embedding = None if embed is None else search.resolve_embedding_settings(embed)
    return Graph(manifest, mode, actor, embedding, timeout, memory, keep)


def find_branch_of(graph: Graph, ref: Reference, branch: str = MAIN) -> str | None:
    """Return the branch that a reference is read on: ``branch`` if its history has the commit, else where it was made.

    None if there is no such commit.
    """
    manifest = graph._manifest  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  the graph of this module
    return references.find_read_branch(manifest, ref, branch)


def _reopen(
    uri: str,
    mode: Mode,
    actor: str | None,
    storage_options: StorageOptions,
    durability: Durability,
    embed: search.EmbeddingSettings | None,
    timeout: Timeout,
    memory: MemoryLimit,
    policy: policies.Policy | None,
    keep: str | None,
) -> Graph:
    return open(
        uri,
        mode,
        actor=actor,
        storage_options=storage_options,
        durability=durability,
        embed=embed,
        timeout=timeout,
        memory=memory,
        policy=policy,
        keep=keep,
    )
