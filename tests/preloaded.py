"""Import this before a fork: whatever a child may need is then there, and nothing is opened or read yet."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import datafusion
import lance
import orjson
import pytest

import omnigraph
from omnigraph.language.query import parse_queries
from omnigraph.language.schema import parse_schema

assert all((datafusion, lance, orjson, pytest))
for module in walk_packages(omnigraph.__path__, "omnigraph."):
    if not module.name.startswith("omnigraph.spark") and not module.name.endswith("__main__"):
        import_module(module.name)
parse_schema("node A { a: String @key }")
parse_queries("query a() { match { $a: A } return { $a } }")
