"""The page of ``SparkGraph`` has every public method, with the signature of the class."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import omnigraph.errors
from omnigraph.spark.graph import SparkGraph

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "spark-graph.md"
METHODS: Final = {
    name: method for name, method in vars(SparkGraph).items() if callable(method) and not name.startswith("_")
}


def sections() -> dict[str, str]:
    """The text of each section, by its heading."""
    _, *parts = re.split(r"^## ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return {heading: text for part in parts for heading, _, text in [part.partition("\n")]}


def signature_of(method: Callable[..., object]) -> str:
    """A signature as the page has it: names and defaults, without types but that of the result."""
    signature = inspect.signature(method)
    return f"{method.__name__}({', '.join(_parameters(signature))}) -> {signature.return_annotation}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    before: inspect.Parameter | None = None
    for each in list(signature.parameters.values())[1:]:
        if each.kind is each.KEYWORD_ONLY and (before is None or before.kind is not each.KEYWORD_ONLY):
            yield "*"
        default = json.dumps(each.default) if isinstance(each.default, str) else repr(each.default)
        yield each.name if each.default is each.empty else f"{each.name}={default}"
        before = each


def test_the_page_has_every_method_and_no_other() -> None:
    assert list(sections()) == list(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_a_section_has_the_signature_and_the_page_an_example(name: str) -> None:
    (signature,) = re.findall(r"```text\n(.*?)\n```", sections()[name], re.DOTALL)
    assert signature == signature_of(METHODS[name])
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert any(f"sg.{name}(" in example for example in examples)


def test_the_errors_of_the_page_exist() -> None:
    named = set(re.findall(r"`([A-Z]\w+)`", PAGE.read_text("utf-8")))
    results = {"SparkGraph", "SparkSession", "SparkSnapshot", "StreamingQuery"}
    assert {name for name in named - results if not hasattr(omnigraph.errors, name)} == set()
