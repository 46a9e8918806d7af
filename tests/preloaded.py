"""Import this before a fork: whatever a child may need is then there, and nothing is opened or read yet."""

from __future__ import annotations

import gc
from importlib import import_module
from pkgutil import walk_packages


def _preload() -> None:
    for name in ("datafusion", "lance", "orjson", "pytest"):
        import_module(name)
    for module in walk_packages(import_module("omnigraph").__path__, "omnigraph."):
        if not module.name.startswith("omnigraph.spark") and not module.name.endswith("__main__"):
            import_module(module.name)

    from omnigraph.language.query import parse_queries
    from omnigraph.language.schema import parse_schema

    parse_schema("node A { a: String @key }")
    parse_queries("query a() { match { $a: A } return { $a } }")


# Modules are no garbage: nobody looks for it while they are imported, and no child does so among them.
gc.disable()
_preload()
gc.freeze()
gc.enable()
