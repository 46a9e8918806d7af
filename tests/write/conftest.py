"""A small fleet, copied for each test that writes to it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from omnigraph.write.load.rows import row_buffer as gathering
from tests.case_files import CASES
from tests.graphs import insert

FLEET: tuple[dict[str, object], ...] = (
    {"type": "Vessel", "data": {"code": "v1", "name": "Aurora", "tonnage": 5000, "kind": "ferry"}},
    {"type": "Vessel", "data": {"code": "v2", "name": "Boreas", "tonnage": 900, "kind": "tug"}},
    {"type": "Vessel", "data": {"code": "v3", "name": "Cetus", "kind": "tug"}},
    {"type": "Port", "data": {"code": "p1", "name": "Oslo", "depth": 12.5}},
    {"type": "Port", "data": {"code": "p2", "name": "Kiel"}},
    {"edge": "Tows", "from": "v2", "to": "v1"},
    {"edge": "CallsAt", "from": "v1", "to": "p1", "data": {"at": "2024-01-01T08:00:00Z"}},
)


@pytest.fixture(scope="session")
def fleet_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody writes to."""
    folder = tmp_path_factory.mktemp("fleet") / "fleet.og"
    graph = omnigraph.init(folder, CASES / "vessels.pg")
    with graph.transaction() as tx:
        for record in FLEET:
            insert(tx, graph.schema, record)
    return folder


@pytest.fixture
def fleet(fleet_template: Path, tmp_path: Path) -> Graph:
    """Three vessels, two ports, a tow and a call."""
    return omnigraph.open(shutil.copytree(fleet_template, tmp_path / "fleet.og"))


@pytest.fixture(params=["held", pytest.param("staged", marks=pytest.mark.slow)])
def staged_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Loads with their rows in memory, and with their rows staged while they are read, as if they were many.

    Gives the first durable step that a load makes on its snapshot.
    """
    if request.param == "held":
        return "table.stage"
    monkeypatch.setattr(gathering, "MAX_BUFFERED_BYTES", 0)
    return "table.audit"
