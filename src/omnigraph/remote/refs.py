"""Verbs of branches and tags, of a graph on a server."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.arguments import check_calls
from omnigraph.deadlines import observe_timeouts
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.tags import Tag
from omnigraph.remote.base import ACTOR_REASON, RemoteBase, list_objects
from omnigraph.remote.wire_values import (
    refuse_given,
    to_branch_of_wire,
    to_path_part,
    to_reference_text,
    to_tag_of_wire,
)


@observe_timeouts
@check_calls
class RemoteReferences(RemoteBase):
    """List, create and delete branches and tags. Each is refused if it is done already."""

    def branches(self) -> list[Branch]:
        """List the branches with their heads: main first, then the others by name."""
        return [to_branch_of_wire(each) for each in list_objects(self._connection.read("branches"), "items")]

    def create_branch(self, name: str, from_: Reference = MAIN, *, actor: str | None = None) -> None:
        """Create a branch from a branch, a commit, a tag, a manifest version of main, or a time on main."""
        refuse_given(ACTOR_REASON, actor=actor)
        self._write_once("POST", "branches", {"name": name, "from": to_reference_text(from_)})

    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and the data only it has. Refused for main, and while a branch or a tag depends on it."""
        refuse_given(ACTOR_REASON, actor=actor)
        self._write_once("DELETE", f"branches/{_to_path(name)}")

    def tags(self) -> list[Tag]:
        """List the tags, sorted by name."""
        return [to_tag_of_wire(each) for each in list_objects(self._connection.read("tags"), "tags")]

    def create_tag(self, name: str, ref: Reference = MAIN, *, branch: str = MAIN, actor: str | None = None) -> Tag:
        """Name a commit: the newest of a branch, or the one at a reference on ``branch``. A tag never moves."""
        refuse_given(ACTOR_REASON, actor=actor)
        return to_tag_of_wire(
            self._write_once("POST", "tags", {"name": name, "ref": to_reference_text(ref), "branch": branch})
        )

    def delete_tag(self, name: str, *, actor: str | None = None) -> None:
        """Delete a tag. The commit stays, but cleanup may delete it like any other."""
        refuse_given(ACTOR_REASON, actor=actor)
        self._write_once("DELETE", f"tags/{_to_path(name)}")


def _to_path(name: str) -> str:
    """Return the name of a branch or a tag as a path; slashes stay."""
    parts: Sequence[str] = name.split("/")
    return "/".join(to_path_part(part) for part in parts)
