"""What a server serves, where, to whom and within which limits: settings, ``server.yaml``, folders of stored queries.

Settings are read as a whole and never change; a running server that finds others replaces its state.
"""

from omnigraph.server.config.config_file import read_config
from omnigraph.server.config.queries import (
    QueryFolder,
    StoredQueries,
    StoredQuery,
    describe_query,
    read_query_folder,
    refuse_broken,
)
from omnigraph.server.config.settings import (
    DEFAULT_BIND,
    DEFAULT_GRAPH,
    LOOPBACK,
    REQUEST_LIMITS,
    AgentSettings,
    Limits,
    Network,
    ServedGraph,
    ServerSettings,
    TlsFiles,
    make_graph_id,
    parse_bind,
)

__all__ = [
    "DEFAULT_BIND",
    "DEFAULT_GRAPH",
    "LOOPBACK",
    "REQUEST_LIMITS",
    "AgentSettings",
    "Limits",
    "Network",
    "QueryFolder",
    "ServedGraph",
    "ServerSettings",
    "StoredQueries",
    "StoredQuery",
    "TlsFiles",
    "describe_query",
    "make_graph_id",
    "parse_bind",
    "read_config",
    "read_query_folder",
    "refuse_broken",
]
