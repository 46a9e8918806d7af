"""Verbs of branches and tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.arguments import check_calls
from omnigraph.deadlines import observe_timeouts
from omnigraph.graph.base import GraphBase
from omnigraph.late_imports import LateModule
from omnigraph.manifest import branches, references, tags
from omnigraph.manifest.branches import Branch
from omnigraph.manifest.references import Reference
from omnigraph.manifest.rows import MAIN
from omnigraph.manifest.tags import Tag

if TYPE_CHECKING:
    from omnigraph.write import commit
else:
    commit = LateModule("omnigraph.write.commit")


@observe_timeouts
@check_calls
class ReferenceVerbs(GraphBase):
    """List, create and delete branches and tags."""

    def branches(self) -> list[Branch]:
        """List the branches with their heads: main first, then the others by name.

        Examples:
            >>> [branch.name for branch in graph.branches()]
            ['main', 'review']
        """
        return branches.list_branches(self._manifest)

    def create_branch(self, name: str, from_: Reference = MAIN, *, actor: str | None = None) -> None:
        """Create a branch from a branch, a commit, a tag, a manifest version of main, or a time on main.

        Nobody is recorded: ``actor`` is whom a policy is asked about.

        Examples:
            >>> graph.create_branch("as-in-june", from_="june")
        """
        self._check_writable()
        self._ask("branch_create", actor, branch=str(from_), target_branch=name)
        references.create_branch(self._manifest, name, from_, commit.finish_removals)

    def delete_branch(self, name: str, *, actor: str | None = None) -> None:
        """Delete a branch and the data only it has. Refused for main, and while a branch or a tag depends on it.

        Examples:
            >>> graph.create_branch("mistake")
            >>> graph.delete_branch("mistake")
        """
        self._check_writable()
        self._ask("branch_delete", actor, target_branch=name)
        branches.delete_branch(self._manifest, name, commit.heal)

    def tags(self) -> list[Tag]:
        """List the tags, sorted by name.

        Examples:
            >>> graph.tags()[0].name
            'june'
        """
        return tags.list_tags(self._manifest)

    def create_tag(self, name: str, ref: Reference = MAIN, *, branch: str = MAIN, actor: str | None = None) -> Tag:
        """Name a commit: the newest of a branch, or the one at a reference on ``branch``. A tag never moves.

        Examples:
            >>> graph.create_tag("reviewed", "review").name
            'reviewed'
        """
        self._check_writable()
        self._ask("tag", actor)
        return references.create_tag(self._manifest, name, ref, branch, actor or self.actor, commit.finish_removals)

    def delete_tag(self, name: str, *, actor: str | None = None) -> None:
        """Delete a tag. The commit stays, but cleanup may delete it like any other.

        Examples:
            >>> tag = graph.create_tag("wrong")
            >>> graph.delete_tag("wrong")
        """
        self._check_writable()
        self._ask("tag", actor)
        references.delete_tag(self._manifest, name)
