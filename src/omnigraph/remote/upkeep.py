"""Verbs that keep a graph on a server in order. Each runs there as an operation, and is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Final, TypeVar, cast

from omnigraph.arguments import check_calls
from omnigraph.deadlines import Timeout, check_deadline, find_remaining_seconds, observe_timeouts, suspend_deadlines
from omnigraph.defaults import COMMITS_TO_KEEP, TEXTS_PER_EMBEDDING_CALL
from omnigraph.errors import Cancelled, ConflictError, Json, OmniGraphError, OutcomeUnknown, Unsupported
from omnigraph.maintain.cleanup import Cleaned
from omnigraph.maintain.health import Health
from omnigraph.maintain.optimize import Optimized
from omnigraph.maintain.repair import Repaired
from omnigraph.maintain.verify import Verified
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.settings import GraphSettings
from omnigraph.remote.base import ACTOR_REASON, RemoteBase, list_objects
from omnigraph.remote.connection import Fields, Request
from omnigraph.remote.error_bodies import to_error
from omnigraph.remote.json_records import to_record
from omnigraph.remote.wire_values import refuse_given
from omnigraph.write.commit import Key, Recovery
from omnigraph.write.embed import EmbedResult
from omnigraph.write.executor import LOCAL, Executor
from omnigraph.write.indexes import IndexReport

_Result = TypeVar("_Result")

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_CANCEL_SECONDS: Final = 5.0
_FAILED: Final = 500
_MOST: Final = 2**53


def _age_text(age: timedelta | str | None) -> str | None:
    return f"{age.total_seconds():.0f}s" if isinstance(age, timedelta) else age


@observe_timeouts
@check_calls
class RemoteUpkeep(RemoteBase):
    """Keep a graph on a server in order. The token needs the role admin."""

    def embed(
        self,
        type_name: str,
        *,
        branch: str = MAIN,
        batch: int = TEXTS_PER_EMBEDDING_CALL,
        commit_each: bool = False,
        changed_since: str | None = None,
        actor: str | None = None,
        key: Key = None,
        timeout: Timeout = None,
    ) -> EmbedResult:
        """Fill the missing ``@embed`` vectors of a type, with one commit at the end or one for each batch.

        ``changed_since`` also replaces vectors whose texts changed after a commit, a tag or a time.
        """
        refuse_given(ACTOR_REASON, actor=actor)
        refuse_given("an operation has a key of its own", key=key)
        self._check_writable()
        args: dict[str, Json] = {
            "type_name": type_name,
            "branch": branch,
            "batch": batch,
            "commit_each": commit_each,
            "changed_since": changed_since,
        }
        return self._operate("embed", args, EmbedResult)

    def ensure_indexes(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        *,
        timeout: Timeout = None,
    ) -> IndexReport:
        """Build the indexes that the schema declares, where they are missing or do not cover all rows."""
        refuse_given(ACTOR_REASON, actor=actor)
        self._check_writable()
        return self._operate("index", _table_arguments(branch, types), IndexReport)

    def optimize(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        actor: str | None = None,
        runner: Executor = LOCAL,
        *,
        timeout: Timeout = None,
    ) -> Optimized:
        """Compact the tables of a branch, build the declared indexes, and compact the manifest."""
        refuse_given(ACTOR_REASON, actor=actor)
        if runner is not LOCAL:
            raise Unsupported("runner= cannot be used with a graph on a server", hint="the server does the work")
        self._check_writable()
        return self._operate("optimize", _table_arguments(branch, types), Optimized)

    def cleanup(
        self,
        keep: int | None = COMMITS_TO_KEEP,
        older_than: timedelta | str | None = None,
        *,
        staged_older_than: timedelta | str | None = None,
        confirm: bool = False,
    ) -> Cleaned:
        """Delete unneeded files and old history; the newest ``keep`` commits of each branch and younger ones stay."""
        self._check_writable()
        most = None if keep is None else min(keep, _MOST)
        arguments: dict[str, Json] = {
            "keep": most,
            "older_than": _age_text(older_than),
            "staged_older_than": _age_text(staged_older_than),
            "confirm": confirm,
        }
        return self._operate("cleanup", arguments, Cleaned)

    def repair(self, *, confirm: bool = False, force: bool = False) -> Repaired:
        """Report tables that were changed outside the graph (drift). With ``confirm``, repair them."""
        self._check_writable()
        return self._operate("repair", {"confirm": confirm, "force": force}, Repaired)

    def verify(self, *, timeout: Timeout = None) -> Verified:
        """Read the whole graph and report everything that is wrong with it."""
        return self._operate("verify", {}, Verified)

    def health(self, branch: str = MAIN, *, timeout: Timeout = None) -> Health:
        """Describe the state of a graph: what is unfinished, and how far its tables are from compact and indexed."""
        return to_record(Health, self._connection.read("health", {"branch": branch}))

    def recoveries(self) -> list[Recovery]:
        """List the recoveries: writes that another process finished or rolled back, newest first."""
        return [to_record(Recovery, each) for each in list_objects(self._connection.read("recoveries"), "recoveries")]

    def settings(self) -> GraphSettings:
        """Return the settings that the graph keeps: durability, kind of lock, and how long history is kept."""
        return to_record(GraphSettings, self._connection.read("settings"))

    def change_settings(self, *, keep: str | None = None) -> GraphSettings:
        """Change the settings that the graph keeps, and return them."""
        self._check_writable()
        body: dict[str, Json] = {} if keep is None else {"keep": keep}
        return to_record(GraphSettings, self._connection.write(Request("POST", "settings", body=body)))

    def do_upkeep(self, branch: str = MAIN) -> None:
        """Do nothing on a branch that is there: the server does the upkeep that follows commits."""
        self._check_writable()
        self._take_snapshot(branch, None)

    def delegate_upkeep(self, start: Callable[[str], object]) -> None:
        """Do nothing: the server does the upkeep that follows commits."""

    # ----------------------------------------------------------------------------------------- operations

    def _operate(self, kind: str, args: Mapping[str, Json], result: type[_Result]) -> _Result:
        """Start an operation, wait for its end, and return its result. Who stops waiting cancels it."""
        given: dict[str, Json] = {name: value for name, value in args.items() if value is not None}
        path = self._begin({"kind": kind, "args": given})
        try:
            ended = self._wait_for(path)
        except BaseException:
            self._cancel(path)
            raise
        match ended["state"]:
            case "succeeded":
                return to_record(result, ended["result"])
            case "failed":
                raise to_error(_FAILED, cast("Fields", ended["error"]))
            case "cancelled":
                raise Cancelled
            case _:
                raise OutcomeUnknown(None, f"the server ended while it worked on the operation {ended['id']}")

    def _begin(self, body: Fields) -> str:
        """Start an operation, after the one that is under way, and return its path."""
        while True:
            try:
                begun = self._connection.write(Request("POST", "operations", body=body))
            except ConflictError as error:
                other = error.details.get("operation")
                if not isinstance(other, str):
                    raise
                self._wait_for(f"operations/{other}")
            else:
                return f"operations/{_operation_of(begun)['id']}"

    def _wait_for(self, path: str) -> Fields:
        pause = _FIRST_PAUSE
        while (found := _operation_of(self._connection.read(path)))["state"] == "running":
            check_deadline()
            time.sleep(min(pause, find_remaining_seconds() or pause))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return found

    def _cancel(self, path: str) -> None:
        """Cancel an operation. What made us stop waiting for it is told, whether or not this succeeds."""
        resume = suspend_deadlines()
        try:
            self._connection.send_once(Request("DELETE", path), _CANCEL_SECONDS)
        except OmniGraphError:
            return
        finally:
            resume()


def _table_arguments(branch: str, types: Collection[str] | None) -> dict[str, Json]:
    return {"branch": branch, "types": None if types is None else list(types)}


def _operation_of(answer: Fields) -> Fields:
    return cast("Fields", answer["operation"])
