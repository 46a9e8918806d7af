"""Every route declares what it asks of the gate, and what it declares fits it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from omnigraph.server.access.gate import (
    ANY_TOKEN,
    Action,
    RouteAccess,
    RouteAsk,
    ask_all,
    ask_graph,
    ask_place,
    ask_server,
)
from omnigraph.server.app import MCP_PATH, OPENAPI_PATH, add_routes, make_described_app
from omnigraph.server.calls import Answer, Route, ServerCall
from omnigraph.server.routes import ROUTES


def work(_call: ServerCall) -> Answer:
    return Answer()


@pytest.mark.parametrize(
    ("path", "access", "what"),
    [
        ("/graphs/{graph_id}/x", None, "does not declare"),
        ("/graphs/{graph_id}/x", Action.READ, "does not declare"),
        ("/graphs/{graph_id}/x", RouteAccess("graph"), "asks nothing"),
        ("/x", ask_graph(Action.READ), "not what it is about"),
        ("/graphs/{graph_id}/x", ask_server(Action.ADMIN), "not what it is about"),
        ("/graphs/{graph_id}/x", ask_place(), "fields that it does not have"),
        ("/graphs/{graph_id}/x", ask_all(RouteAsk(Action.CHANGE, branch="brunch")), "brunch"),
    ],
)
def test_a_route_that_does_not_declare_its_asks_cannot_be_made(path: str, access: object, what: str) -> None:
    with pytest.raises(TypeError, match=what):
        Route("GET", path, work, cast("Any", access))


def test_a_route_that_declares_its_asks_can_be_made() -> None:
    assert Route("GET", "/x", work, ANY_TOKEN).access.level == "token"
    one = ask_all(RouteAsk(Action.READ, branch="branch"))
    assert Route("GET", "/graphs/{graph_id}/x/{branch:path}", work, one).is_of_graph


def test_the_application_has_no_route_beside_those_that_declare() -> None:
    app = make_described_app()
    add_routes(app, cast("Any", None))
    served = {str(getattr(route, "path", "")) for route in app.routes}
    # Each tool of an agent is a request to another route, which asks for it.
    assert served == {route.path for route in ROUTES} | {OPENAPI_PATH, MCP_PATH}
    for route in ROUTES:
        assert isinstance(route.access, RouteAccess), route.path
