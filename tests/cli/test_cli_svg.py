"""``--svg``: a schema, a history and a diff as pictures in a file or on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import BRANCH, Command, Stocked, error_of

GRAPH = ("-g", "brain.og")


def texts_of(svg: str) -> str:
    return " ".join(ElementTree.fromstring(svg).itertext())  # noqa: S314  the text is ours


@pytest.mark.parametrize(
    ("words", "shown"),
    [(["schema", "show"], "Person"), (["commit", "list"], BRANCH), (["diff", BRANCH], "came")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,  # pyright: ignore[reportUnknownArgumentType]
)
def test_a_picture_goes_to_a_file_or_to_stdout(
    omnigraph: Command, stocked: Stocked, words: list[str], shown: str
) -> None:
    answer = omnigraph(*GRAPH, *words, "--svg", "picture.svg")
    assert (answer.code, answer.out, answer.err) == (0, "", "drawn in picture.svg\n")
    svg = (stocked.path.parent / "picture.svg").read_text()
    assert shown in texts_of(svg)
    assert omnigraph(*GRAPH, *words, "--svg", "-").out == f"{svg}\n"
    answer = omnigraph(*GRAPH, "--json", *words, "--svg", "picture.svg")
    assert json.loads(answer.out) == {"file": "picture.svg"}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["diff", BRANCH, "--stat"], "--stat"),
        (["diff", BRANCH, "--format", "csv"], "--format"),
        (["commit", "list", "--recoveries"], "--recoveries"),
        (["commit", "list", "--filter", "actor=a"], "--filter"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,  # pyright: ignore[reportUnknownArgumentType]
)
@pytest.mark.usefixtures("stocked")
def test_a_picture_shows_the_whole(omnigraph: Command, words: list[str], why: str) -> None:
    answer = omnigraph(*GRAPH, *words, "--svg", "picture.svg")
    assert answer.code == 2
    assert why in answer.err
    assert not Path("picture.svg").exists()


@pytest.mark.usefixtures("stocked")
def test_a_folder_that_is_not_there_is_named(omnigraph: Command) -> None:
    answer = omnigraph(*GRAPH, "--json", "schema", "show", "--svg", "nowhere/picture.svg")
    assert answer.code == 1
    assert "nowhere" in str(error_of(answer)["message"])
