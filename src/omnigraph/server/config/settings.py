"""The settings of a server: what it serves, where, to whom, and within which limits."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import field
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Final, Literal, TypeAlias

from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.policy import Policy
from omnigraph.read.search import EmbeddingSettings
from omnigraph.server.config.queries import QueryFolder

Network: TypeAlias = IPv4Network | IPv6Network
AgentWrites: TypeAlias = Literal["off", "branch", "any"]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
DEFAULT_BIND: Final = "127.0.0.1:8080"
MOST_WORKERS: Final = 64
DEFAULT_GRAPH: Final = "default"
"""The one graph of a server is served under this id too."""
_GRAPH_ID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request may cost. Times are seconds where the name does not say otherwise."""

    read_seconds: float = 30
    stream_seconds: float = 600
    write_seconds: float = 120
    header_seconds: float = 10
    """How long the headers of a request may take."""
    body_window_seconds: float = 30
    body_window_bytes: int = 30 << 10
    """What must arrive of a body within each window: who sends less is too slow."""
    rows: int = 10_000
    """Rows of a JSON answer without ``limit``."""
    result_bytes: int = 32 * _MIB
    body_bytes: int = 2 * _MIB
    json_load_bytes: int = 32 * _MIB
    load_bytes: int = 256 * _MIB
    load_decoded_bytes: int = 2048 * _MIB
    load_ratio: int = 200
    """Decoded bytes for each byte that was sent."""
    json_depth: int = 64
    line_bytes: int = 8 * _MIB
    """One line of a load."""
    hops: int = 20
    """Hops of one walk of a query; 0 for any number."""
    estimate_rows: int = 50_000_000
    """Rows that one step of a query is estimated to make; 0 for any number."""
    read_threads: int = 2 * (os.cpu_count() or 1) + 4
    write_threads: int = 8
    upkeep_threads: int = 1
    """Operations of upkeep on one graph at the same time."""
    actor_reads: int = 16
    actor_writes: int = 8
    branch_queue: int = 16
    """Writers of one branch that may wait."""
    branch_writers: int = 4
    """Writers of one branch that prepare their changes at the same time. Its lock serializes their commits."""
    read_wait_ms: int = 2_000
    write_wait_ms: int = 20_000
    subscribers: int = 64
    """Clients of one graph that wait for changes."""
    exports: int = 4
    failed_logins: int = 10
    """Per minute and address."""
    drain_seconds: float = 25


REQUEST_LIMITS: Final = (
    "read_seconds",
    "stream_seconds",
    "write_seconds",
    "rows",
    "result_bytes",
    "body_bytes",
    "json_load_bytes",
    "load_bytes",
    "load_decoded_bytes",
    "load_ratio",
    "json_depth",
    "line_bytes",
    "hops",
    "estimate_rows",
)
"""The limits of one request, which a graph may have of its own. The others share out the whole server."""
OPTIONAL_LIMITS: Final = frozenset({"hops", "estimate_rows"})
"""Those that 0 turns off."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What agents may do over MCP, within the rights of their token."""

    is_enabled: bool = True
    write: AgentWrites = "branch"
    """Where they may write: nowhere, on branches that are not protected, or anywhere."""
    is_ad_hoc: bool = True
    """Whether they may bring queries and records of their own. Otherwise only stored queries are left."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path

    def check(self) -> None:
        """Refuse files that cannot be used."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise ParameterError(
                f"{self.certificate} and {self.key} are no certificate and its key: {error.strerror or error}",
                hint="give two files in the format PEM, the key without a password",
            ) from error


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """One graph to serve."""

    id: str
    uri: str
    read_only: bool = False
    storage_options: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    queries: QueryFolder = field(default=QueryFolder(), repr=False)
    policy: Policy | None = None
    policy_file: Path | None = None
    """Where the policy comes from: its tests lie beside it."""
    embed: EmbeddingSettings | None = None
    """How texts are embedded. Without it, by the environment of the server."""
    limits: Limits | None = None
    """Those of its requests, where they differ from those of the server."""

    @property
    def public_uri(self) -> str:
        """What clients see as its location."""
        return f"/graphs/{self.id}"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Everything that a server is started with. Without ``tokens``, one token is made for the run."""

    graphs: tuple[ServedGraph, ...]
    bind: str = DEFAULT_BIND
    tokens: Path | None = None
    actor: str | None = None
    is_unauthenticated: bool = False
    is_agent: bool = False
    """Whether it serves the agent at stdin alone: whose actor is known without a token."""
    hosts: tuple[str, ...] = ()
    """Names that requests may use for this server, beside those of loopback."""
    cors: tuple[str, ...] = ()
    """The origins of other pages that may use this server, exactly as browsers name them."""
    trusted_proxies: tuple[Network, ...] = ()
    """Whose word about the address of a client counts."""
    limits: Limits = Limits()
    audit: Path | None = None
    """The file of the audit. Without one, its lines go to the log, at the level INFO."""
    workers: int = 1
    """How many processes serve."""
    tls: TlsFiles | None = None
    """Without them, TLS is the matter of a proxy."""
    state: Path | None = None
    """The folder of operations, which outlive a process. Without one they are kept for the run only."""
    agents: AgentSettings = AgentSettings()
    has_page: bool = True
    """Whether the web page is served."""
    is_quarantining: bool = False
    """Whether a graph that cannot be opened at the start is tried again later; otherwise it is an error."""
    server_policy: Policy | None = None
    """Who may list the graphs, and administer the server."""
    server_policy_file: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        """The host and the port to listen at."""
        return parse_bind(self.bind)

    @property
    def has_policy(self) -> bool:
        """Whether a policy decides anywhere."""
        return self.server_policy is not None or any(each.policy is not None for each in self.graphs)

    def check(self) -> None:
        """Refuse settings that would open the server to strangers."""
        host, _ = self.address
        if host not in LOOPBACK and self.is_unauthenticated:
            raise ParameterError(
                f"--unauthenticated on {host}: everybody who reaches this machine could change the graph",
                hint="bind to 127.0.0.1, or create tokens and give --tokens FILE",
            )
        if host not in LOOPBACK and self.tokens is None:
            raise ParameterError(
                f"{host} can be reached from other machines, and there is no tokens file",
                hint="`omnigraph token create --actor NAME --tokens FILE`, then give --tokens FILE",
            )
        if self.tokens is None and self.has_policy and not self.is_agent:
            raise ParameterError(
                "there is a policy, and no tokens file: nobody could be told from anybody else",
                hint="`omnigraph token create --actor NAME --tokens FILE`, then give --tokens FILE",
            )
        if self.tls is not None:
            self.tls.check()
        if self.is_unauthenticated and self.tokens is not None:
            raise ParameterError("--tokens and --unauthenticated exclude each other", hint="leave out one of them")


def parse_network(text: str) -> Network:
    """Parse an address, or a network such as 10.0.0.0/8. A wrong one is a ``ValueError``."""
    return ip_network(text, strict=False)


def parse_bind(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT``; an IPv6 address stands in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ParameterError(f"cannot listen at '{text}'", hint="give HOST:PORT, such as 127.0.0.1:8080")
    return host, int(port)


def make_graph_id(uri: str) -> str:
    """Return the id of a graph by default: the name of its folder, in lower case, with ``-`` for other characters."""
    name = uri.rstrip("/").rpartition("/")[2].lower().removesuffix(".og")
    found = re.sub(r"[^a-z0-9]+", "-", name).strip("-")[:64]
    return found if is_graph_id(found) else DEFAULT_GRAPH


def is_graph_id(text: str) -> bool:
    """Whether a text can be the id of a graph in a URL."""
    return _GRAPH_ID.fullmatch(text) is not None and text != "policies"
