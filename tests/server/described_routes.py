"""The description of the routes that is kept in the documentation. ``make openapi`` writes it anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import orjson

from omnigraph.server.app import add_routes, make_described_app

FILE = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"


def describe() -> dict[str, Any]:
    """The description as a server gives it."""
    app = make_described_app()
    add_routes(app, cast("Any", None))
    return app.openapi()


if __name__ == "__main__":
    FILE.write_bytes(orjson.dumps(describe(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
