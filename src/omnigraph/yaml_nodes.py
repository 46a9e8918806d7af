"""The one place where a text becomes YAML nodes, for every file of ours: without aliases, mistakes with their place."""

from __future__ import annotations

from typing import cast

import yaml
from yaml.composer import ComposerError
from yaml.error import Mark, MarkedYAMLError
from yaml.nodes import Node
from yaml.reader import ReaderError


class MalformedYaml(ValueError):
    """A text that is not YAML, or uses what is refused here. Callers show the place in their file."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        """The index of the character where it is noticed; never beyond the last one."""
        self.hint = hint


class _NoAliasLoader(yaml.SafeLoader):
    """Refuses aliases, with which a small file could expand without limit."""

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = cast("Mark", self.peek_event().start_mark)
            raise ComposerError(None, None, "aliases are not supported; write the value itself", mark)
        return super().compose_node(parent, index)


def compose_yaml(text: str) -> Node | None:
    """Return the nodes of a text; None if it is empty. Raise ``MalformedYaml`` if it is not YAML."""
    last = max(len(text.rstrip()) - 1, 0)
    try:
        return yaml.compose(text, Loader=_NoAliasLoader)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = last if mark is None else min(mark.index, last)
        raise MalformedYaml(error.problem or error.context or "this is not YAML", at, error.context) from None
    except ReaderError as error:
        message = f"the character U+{cast(int, error.character):04X} is not allowed in YAML"
        raise MalformedYaml(message, min(error.position, last)) from None
    except RecursionError:
        raise MalformedYaml("nested too deeply", 0, "flatten the file") from None
