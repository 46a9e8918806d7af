"""Ports, copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import Graph
from tests.case_files import CASES
from tests.graphs import insert
from tests.maintain.ports import make_template
from tests.write.conftest import FLEET


@pytest.fixture(scope="session")
def ports_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that nobody writes to."""
    return make_template(tmp_path_factory.mktemp("ports"), 12)


@pytest.fixture
def ports(ports_template: Path, tmp_path: Path) -> Graph:
    """Twelve ports that came in twelve commits."""
    return omnigraph.open(shutil.copytree(ports_template, tmp_path / "ports.og"))


@pytest.fixture
def fleet(tmp_path: Path) -> Graph:
    """Vessels, with rules of all kinds."""
    graph = omnigraph.init(tmp_path / "fleet.og", CASES / "vessels.pg")
    with graph.transaction() as tx:
        for record in FLEET:
            insert(tx, graph.schema, record)
    return graph
