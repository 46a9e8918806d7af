"""Who asks, from where, and whether they may: tokens, one-time codes, origins, and the gate.

No route decides this by itself: it declares what it asks, and the gate answers.
"""

from omnigraph.server.access.gate import (
    ANY_TOKEN,
    PLACE,
    PUBLIC,
    Action,
    Gate,
    RouteAccess,
    RouteAsk,
    ask_all,
    ask_graph,
    ask_place,
    ask_server,
    check_access,
    list_actions,
    require_types_asked,
)
from omnigraph.server.access.origins import answer_preflight, check_origin, find_address, make_cors_headers
from omnigraph.server.access.sessions import SessionStore
from omnigraph.server.access.tokens import (
    Role,
    Token,
    TokenBook,
    create_token,
    make_token,
    parse_lifetime,
    read_token_file,
    revoke_token,
)

__all__ = [
    "ANY_TOKEN",
    "PLACE",
    "PUBLIC",
    "Action",
    "Gate",
    "Role",
    "RouteAccess",
    "RouteAsk",
    "SessionStore",
    "Token",
    "TokenBook",
    "answer_preflight",
    "ask_all",
    "ask_graph",
    "ask_place",
    "ask_server",
    "check_access",
    "check_origin",
    "create_token",
    "find_address",
    "list_actions",
    "make_cors_headers",
    "make_token",
    "parse_lifetime",
    "read_token_file",
    "require_types_asked",
    "revoke_token",
]
