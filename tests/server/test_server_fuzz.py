"""Random requests, made from the description of the routes: no 500, and every error has the body of all errors.

The graph supplies names that exist, so that requests get past the look-up; the rest is what schemathesis makes up.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from omnigraph.server import Role, create_token
from tests.selection import sized
from tests.server.live import LiveServer, start_server
from tests.server.random_requests import check_answer, find_operations, list_names, make_request

pytestmark = pytest.mark.costly

CONFIG = """
version: 1
bind: 127.0.0.1:0
tokens: tokens.json
limits: {{failed_logins: 1000000, read_seconds: 20, write_seconds: 20, subscribers: 1000}}
graphs: {{brain: {{uri: {graph}}}}}
"""


@pytest.fixture(scope="module")
def server(graph_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[LiveServer]:
    folder = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(graph_path, folder / "brain.og")
    _, text = create_token(folder / "tokens.json", "act-fuzz", Role.ADMIN, None, None)
    (folder / "server.yaml").write_text(CONFIG.format(graph=folder / "brain.og"))
    with start_server("--config", str(folder / "server.yaml")) as server:
        assert server.url
        server.lines.append(f"export OMNIGRAPH_TOKEN={text}")
        yield server


@pytest.fixture(scope="module")
def http(server: LiveServer) -> Generator[httpx.Client]:
    with server.client() as http:
        http.post("/graphs/brain/branches", json={"name": "review/june"})
        yield http


@pytest.mark.parametrize("name", list_names())
def test_no_request_is_too_much(name: str, http: httpx.Client, server: LiveServer) -> None:
    operation = find_operations()[name]

    @settings(
        max_examples=sized(5, 200),
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(case=cast("st.SearchStrategy[Any]", operation.as_strategy()))
    def send(case: Any) -> None:
        request = make_request(case, server.url, {"Authorization": http.headers["Authorization"]})
        if request is None:
            return
        try:
            answer = http.send(request)
        except httpx.LocalProtocolError:
            # A header that no client can send.
            return
        check_answer(answer)

    send()
