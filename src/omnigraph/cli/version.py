"""``omnigraph version``: which releases work together here."""

from __future__ import annotations

import platform
from importlib.metadata import version as release_of

import typer

from omnigraph.cli.render.language import Versions
from omnigraph.cli.session import session_of

LIBRARIES = ("datafusion", "lark", "numpy", "obstore", "pandas", "pyarrow", "pylance", "pyspark")


def version(context: typer.Context) -> int:
    """Print the versions of omnigraph, Python and the libraries below.

    \b
    Example:
      omnigraph version --json
    """
    # Package metadata, because importing the libraries to ask them would take seconds.
    libraries = {name: release_of(name) for name in LIBRARIES}
    releases = {"omnigraph": release_of("omnigraph"), "python": platform.python_version(), **libraries}
    session_of(context).output.show(Versions(releases))
    return 0
