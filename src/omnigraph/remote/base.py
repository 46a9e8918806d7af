"""What all verbs of a graph on a server need: the connection, the schema, and how answers become results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Final, cast

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, observe_timeouts
from omnigraph.errors import Json, OutcomeUnknown, ReadOnly, ServerUnavailable, Unsupported
from omnigraph.graph import Graph, Mode
from omnigraph.language.schema import STRICTER_THAN_0_8, Schema, parse_schema
from omnigraph.language.source import Source
from omnigraph.manifest.history import Commit
from omnigraph.manifest.references import Reference
from omnigraph.manifest.snapshot import Snapshot
from omnigraph.remote.connection import Connection, Fields, Request, make_key
from omnigraph.remote.results import RemoteSnapshot, to_snapshot_of_wire
from omnigraph.remote.wire_values import to_commit_of_wire, to_reference_text
from omnigraph.write.commit import Key

_COMMITS_KEPT: Final = 10_000
ACTOR_REASON: Final = "the actor is that of the token"
MEMORY_REASON: Final = "the server decides how much memory a query may use"


@observe_timeouts
@check_calls
class RemoteBase(Graph):
    """A graph on a server. It has no manifest: every verb is a request."""

    def __init__(self, connection: Connection, mode: Mode, token: str | None, timeout: Timeout) -> None:  # pyright: ignore[reportMissingSuperCall]  what the base has is on the server
        self._connection = connection
        self._token = token
        self.mode: Mode = mode
        self.timeout = timeout
        self.actor = None
        self.memory = None
        self.keep = None
        self._schemas: dict[str, Schema] = {}
        self._commits: dict[str, Commit] = {}
        self._guard = Lock()

    @property
    def uri(self) -> str:
        """The URL of the graph."""
        return self._connection.url.text

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._parse_schema(self._connection.read("schema"))

    def close(self) -> None:
        """Close the connections to the server."""
        self._connection.close()

    def _parse_schema(self, found: Fields) -> Schema:
        hash_ = str(found["hash"])
        if hash_ not in self._schemas:
            text = Source(str(found["schema_source"]))
            self._schemas[hash_] = parse_schema(text, tolerated=STRICTER_THAN_0_8)
        return self._schemas[hash_]

    def _schema_for(self, branch: str, at: Reference | None) -> Schema:
        return self._parse_schema(self._connection.read("schema", place_of(branch, at)))

    def _schema_of(self, snapshot: Snapshot) -> Schema:
        known = self._schemas.get(snapshot.schema_ir_hash or "")
        at = None if snapshot.commit is None else snapshot.commit.id
        return known or self._parse_schema(self._connection.read("schema", _place(snapshot.branch, at)))

    def _find_commit_by_id(self, commit_id: str) -> Commit:
        """Return a commit. It never changes, so it is asked for once."""
        found = self._commits.get(commit_id)
        if found is None:
            found = to_commit_of_wire(self._connection.read(f"commits/{commit_id}"))
            self._remember(found)
        return found

    def _remember(self, commit: Commit) -> None:
        with self._guard:
            while len(self._commits) >= _COMMITS_KEPT:
                del self._commits[next(iter(self._commits))]
            self._commits[commit.id] = commit

    def _take_snapshot(self, branch: str, at: Reference | None) -> RemoteSnapshot:
        found = self._connection.read("snapshot", _place(branch, at))
        commit = found.get("commit")
        shown = None if commit is None else self._find_commit_by_id(str(commit))
        return to_snapshot_of_wire(found, str(found.get("branch") or branch), shown, self._schema_of)

    def _commit_of(self, answer: Fields) -> Commit | None:
        """Return the commit that a write has made."""
        commit = answer.get("commit")
        if commit is None:
            return None
        details = answer.get("commit_details")
        if isinstance(details, Mapping):
            self._remember(to_commit_of_wire(details))
        try:
            return self._find_commit_by_id(str(commit))
        except ServerUnavailable as error:
            # As of a server that stops after its last write.
            raise OutcomeUnknown(
                str(commit), f"it is committed, but the server cannot be asked more: {error}"
            ) from error

    def _write(self, path: str, body: Mapping[str, Json], key: Key = None, method: str = "POST") -> Fields:
        """Send a write that keeps a key: the given one, or one of its own."""
        self._check_writable()
        if key is not None and not isinstance(key, str):
            raise Unsupported("a digested key cannot be sent", hint="give the key as a text")
        sent = {name: value for name, value in body.items() if value is not None}
        return self._connection.write(Request(method, path, body=sent), key or make_key())

    def _write_once(self, method: str, path: str, body: Mapping[str, Json] | None = None) -> Fields:
        """Send a write that is refused if it is done already, such as the creation of a branch."""
        self._check_writable()
        return self._connection.write(Request(method, path, body=body))

    def _check_writable(self) -> None:
        if self.mode == "ro":
            raise ReadOnly(f"{self.uri} was opened read-only", hint='open it with mode="rw"')

    def __repr__(self) -> str:
        return f"RemoteGraph({self.uri!r}, mode={self.mode!r})"


def _place(branch: str, at: Reference | None) -> dict[str, Json]:
    return {"branch": branch, "at": to_reference_text(at)}


def place_of(branch: str, at: Reference | None) -> dict[str, Json]:
    """Return the fields that say what to read."""
    found = _place(branch, at)
    return {name: value for name, value in found.items() if value is not None}


def list_objects(found: Fields, name: str) -> Sequence[Mapping[str, Json]]:
    """Return a list of objects in an answer."""
    return cast("Sequence[Mapping[str, Json]]", found[name])


def txn_text(txn: tuple[str, int] | None) -> str | None:
    """Return a ``txn`` as the wire has it."""
    return None if txn is None else f"{txn[0]}:{txn[1]}"
