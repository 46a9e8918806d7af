"""Write what can be generated of the documentation: ``make reference``.

The commands come from the command line itself, the names of the API from ``omnigraph.__all__``, the tree of errors from
``errors.py``, the licences from the metadata of the installed packages, and the notebooks from the pages of the
tutorial. ``tests/test_reference.py`` compares the files with what this makes.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import Final, cast

from typer._click import Command, Context
from typer.core import TyperGroup
from typer.main import get_command

import omnigraph
from make_pictures import draw_all
from omnigraph import errors
from omnigraph.cli.app import app
from omnigraph.errors import OmniGraphError

DOCS: Final = Path(__file__).parent
ROOT: Final = DOCS.parent
HELP_WIDTH: Final = 100
GENERATED: Final = "<!-- Written by `make reference`: do not edit. -->"
NOTEBOOKS: Final = {"notebook.md": "harbour.ipynb", "spark.md": "harbour_on_spark.ipynb"}
CODE: Final = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
EXTRAS: Final = ("spark", "spark-connect", "server", "rdf", "analytics")
_TREE: Final = re.compile(r"(<!-- tree -->\n).*?(<!-- end of tree -->\n)", re.DOTALL)


# -------------------------------------------------------------------------------------------------- the command line


def write_commands() -> str:
    """Return the page of all commands: what ``--help`` prints of each."""
    root = cast(TyperGroup, get_command(app))
    context = Context(root, info_name="omnigraph", terminal_width=HELP_WIDTH, **root.context_settings)
    parts = [
        f"# Commands\n\n{GENERATED}\n",
        "Every command with its options, as `--help` prints it. [Command line](cli.md) explains them with examples, "
        "and says which options work everywhere.\n",
        _help_block("omnigraph", root, context),
    ]
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None, name
        parts += _describe_command(f"omnigraph {name}", command, Context(command, info_name=name, parent=context))
    return "\n".join(parts)


def _describe_command(title: str, command: Command, context: Context) -> Iterator[str]:
    yield _help_block(title, command, context)
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            yield _help_block(f"{title} {name}", child, Context(child, info_name=name, parent=context))


def _help_block(title: str, command: Command, context: Context) -> str:
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return f"## `{title}`\n\n```text\n" + "\n".join(lines) + "\n```\n"


# ------------------------------------------------------------------------------------------------------------ the API


def write_api() -> str:
    """Return the page of the public names; mkdocstrings fills it from the docstrings when the site is built."""
    parts = [
        f"# API\n\n{GENERATED}\n",
        "Every public name of `omnigraph`, from its docstring. [Python](python.md) is the guide to them, "
        "[errors](errors.md) has the whole tree, and [SparkGraph](spark-graph.md) what `graph.spark()` returns.\n",
        "The examples are run by a test: `graph` there is a small graph of three people, with a branch `review` and a "
        "tag `june`, and `folder` is an empty folder.\n",
    ]
    for heading, names in list_public_names().items():
        parts.append(f"## {heading}\n")
        parts += [_describe_name(name) for name in names]
    return "\n".join(parts)


def _describe_name(name: str) -> str:
    """Ask for one name; of a class that is its fields, for these too."""
    value: object = attrgetter(name)(omnigraph)
    is_its_fields = is_dataclass(value) and not any(each.name.startswith("_") for each in fields(value))
    return f"::: omnigraph.{name}\n" + ("    options:\n      merge_init_into_class: true\n" if is_its_fields else "")


def list_public_names() -> dict[str, list[str]]:
    """Return the public names by group."""
    groups: dict[str, list[str]] = {"Graphs": [], "What verbs take and return": [], "Pipelines": [], "Errors": []}
    for name in omnigraph.__all__:
        value: object = getattr(omnigraph, name)
        if name in ("__version__", "errors", "pipeline"):
            continue
        is_error = isinstance(value, type) and issubclass(value, OmniGraphError)
        first = name in ("init", "open", "Graph", "RemoteGraph")
        groups["Errors" if is_error else "Graphs" if first else "What verbs take and return"].append(name)
    groups["Pipelines"] += [f"pipeline.{name}" for name in omnigraph.pipeline.__all__]
    return groups


# --------------------------------------------------------------------------------------------------------- the errors


def write_errors() -> str:
    """Return the page of errors with its tree drawn anew; the rest of the page is written by hand."""
    page = (DOCS / "reference" / "errors.md").read_text("utf-8")
    tree = "\n".join(_draw_tree(OmniGraphError, 0))
    return _TREE.sub(lambda found: f"{found[1]}```text\n{tree}\n```\n{found[2]}", page)


def _draw_tree(kind: type[OmniGraphError], depth: int) -> Iterator[str]:
    children = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    is_public = not kind.__name__.startswith("_")
    if is_public:
        name = "  " * depth + kind.__name__
        yield f"{name:<28} {kind.code}"
    for child in children:
        yield from _draw_tree(child, depth + is_public)


# ------------------------------------------------------------------------------------------------------- the licences


def write_licences() -> str:
    """Return the page of the packages that omnigraph needs, with their licences."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [
        f"# Licences\n\n{GENERATED}\n",
        "OmniGraph has the [MIT licence](https://opensource.org/license/mit). It needs these packages, which have "
        "their own: it is shown as their metadata states it. They need further packages, which are not listed.\n",
        "| Package | Needed by | Licence |\n|---|---|---|",
    ]
    needed = {"omnigraph": project["dependencies"]}
    needed |= {f"omnigraph[{extra}]": project["optional-dependencies"][extra] for extra in EXTRAS}
    for owner, requirements in needed.items():
        for requirement in requirements:
            name = re.split(r"[\[<>=!~;, ]", requirement, maxsplit=1)[0]
            if name != "omnigraph":
                lines.append(f"| `{name}` | `{owner}` | {_find_licence(name)} |")
    return "\n".join(lines) + "\n"


def _find_licence(name: str) -> str:
    found = metadata.metadata(name)
    classifiers = found.get_all("Classifier") or []
    approved = (each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License :: OSI Approved ::"))
    stated = found.get_all("License-Expression") or [", ".join(approved)]
    # Some packages have the whole text as their licence: its first line names it.
    return stated[0] or (found.get_all("License") or ["not stated"])[0].strip().splitlines()[0]


# ------------------------------------------------------------------------------------------------------ the notebooks


def write_notebook(page: str) -> str:
    """Return a page as a notebook: its Python blocks are the cells, without output."""
    cells: list[dict[str, object]] = []
    # Even parts are text, odd ones code. Links and pictures are relative to the page.
    for number, part in enumerate(CODE.split(page)):
        text = re.sub(r"^!\[.*\n", "", part, flags=re.MULTILINE) if number % 2 == 0 else part
        text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text) if number % 2 == 0 else text
        source = text.strip("\n").splitlines(keepends=True)
        if not source:
            continue
        cell: dict[str, object] = {"id": f"cell-{len(cells)}", "metadata": {}, "source": source}
        if number % 2:
            cells.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
        else:
            cells.append({"cell_type": "markdown", **cell})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def make_all() -> dict[Path, str]:
    """Return the text of every generated file."""
    reference, tutorial = DOCS / "reference", DOCS / "tutorial"
    notebooks = {
        ROOT / "examples" / "notebooks" / name: write_notebook((tutorial / page).read_text("utf-8"))
        for page, name in NOTEBOOKS.items()
    }
    return {
        reference / "api.md": write_api(),
        reference / "commands.md": write_commands(),
        reference / "errors.md": write_errors(),
        reference / "licences.md": write_licences(),
        **notebooks,
        **draw_all(),
    }


if __name__ == "__main__":
    for file, text in make_all().items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
