"""What a profile says, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from omnigraph.errors import Json
from omnigraph.read.profile import Profile


def list_operators(profile: Profile) -> Iterator[dict[str, Json]]:
    """The operators of a profile as JSON, each before its inputs."""
    waiting = [cast("dict[str, dict[str, Json]]", profile.to_json())["plan"]]
    while waiting:
        operator = waiting.pop()
        yield operator
        waiting += reversed(cast("list[dict[str, Json]]", operator["inputs"]))


def find_operator(profile: Profile, name: str) -> dict[str, Json]:
    """The first operator of a kind."""
    return next(each for each in list_operators(profile) if str(each["operator"]).startswith(name))
