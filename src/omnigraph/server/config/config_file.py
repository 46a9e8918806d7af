"""``server.yaml``: many graphs in one server. Every problem of the file is reported at once, with its line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from yaml.nodes import Node

from omnigraph.errors import ConfigError, NotFound, ParameterError, Problem, Unsupported
from omnigraph.language.source import Source, Span, read_source
from omnigraph.pipeline import codes
from omnigraph.pipeline.yaml_reader import YamlReader, node_span, start_of
from omnigraph.policy import Policy, load_policy
from omnigraph.read.search import EmbeddingSettings, resolve_embedding_settings
from omnigraph.server.config.queries import QueryFolder, read_query_folder
from omnigraph.server.config.settings import (
    DEFAULT_BIND,
    MOST_WORKERS,
    OPTIONAL_LIMITS,
    REQUEST_LIMITS,
    AgentSettings,
    AgentWrites,
    Limits,
    Network,
    ServedGraph,
    ServerSettings,
    TlsFiles,
    is_graph_id,
    parse_bind,
    parse_network,
)
from omnigraph.storage.location import has_scheme

_KEYS: Final = (
    "version",
    "bind",
    "public_url",
    "hosts",
    "cors",
    "trusted_proxies",
    "tokens",
    "server_policy",
    "audit",
    "state",
    "workers",
    "tls",
    "ui",
    "limits",
    "mcp",
    "graphs",
)
_GRAPH_KEYS: Final = ("uri", "queries", "read_only", "policy", "storage_options", "embed", "limits")
_LIMITS: Final = tuple(each.name for each in fields(Limits))
_VERSION: Final = 1


def read_config(path: Path, environment: Mapping[str, str], actor: str | None = None) -> ServerSettings:
    """Read the settings of a server from a file. Paths in it are relative to it."""
    source = read_source(path, path.suffix)
    if isinstance(source, Problem):
        raise ConfigError([source])
    full = path.resolve()
    reader = _ConfigReader(source, environment, full.parent, _find_default_state(full, environment))
    settings = reader.read(actor)
    if reader.yaml.problems or settings is None:
        raise ConfigError(reader.yaml.problems)
    return settings


def _find_default_state(path: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder that a server with this file keeps its state in: the same after a restart."""
    home = environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "omnigraph" / sha256(os.fsencode(path)).hexdigest()[:16]


class _ConfigReader:
    """Reads one file."""

    def __init__(self, source: Source, environment: Mapping[str, str], folder: Path, default_state: Path) -> None:
        self.yaml = YamlReader(source, environment)
        self._folder = folder
        self._default_state = default_state

    def read(self, actor: str | None) -> ServerSettings | None:
        """Return the settings; what is wrong is among the problems."""
        root = self.yaml.compose()
        if root is None:
            if not self.yaml.problems:
                self.yaml.add_problem(codes.SYNTAX, "the file is empty", Span(0, 1), "add version: 1 and graphs:")
            return None
        found = self.yaml.read_fields(root, "the file", _KEYS, ("version", "graphs"))
        if "version" in found and self.yaml.read_value(found["version"], "version") != _VERSION:
            self._add_wrong(found["version"], f"version must be {_VERSION}")
        server_policy, server_policy_file = self._read_policy(found.get("server_policy"), "server_policy", None)
        limits = self._read_limits(found.get("limits"), "limits", Limits(), _LIMITS)
        return ServerSettings(
            server_policy=server_policy,
            server_policy_file=server_policy_file,
            graphs=self._read_graphs(found.get("graphs"), limits),
            bind=self._read_bind(found.get("bind")),
            tokens=self._read_path(found.get("tokens"), "tokens"),
            actor=actor,
            hosts=self._read_hosts(found),
            cors=self._read_origins(found.get("cors")),
            trusted_proxies=self._read_networks(found.get("trusted_proxies")),
            limits=limits,
            audit=self._read_audit(found.get("audit")),
            state=self._read_path(found.get("state"), "state") or self._default_state,
            workers=self._read_workers(found.get("workers")),
            tls=self._read_tls(found.get("tls")),
            agents=self._read_agents(found.get("mcp")),
            has_page=self._read_flag(found.get("ui"), "ui", default=True),
            is_quarantining=True,
        )

    def _read_graphs(self, node: Node | None, limits: Limits) -> tuple[ServedGraph, ...]:
        graphs: list[ServedGraph] = []
        for entry in [] if node is None else self.yaml.read_entries(node, "graphs"):
            if not is_graph_id(entry.name):
                hint = "use up to 64 letters, digits and -, and not 'policies'"
                self.yaml.add_problem(codes.WRONG_VALUE, f"'{entry.name}' is no id of a graph", entry.span, hint)
            what = f"graph '{entry.name}'"
            found = self.yaml.read_fields(entry.value, what, _GRAPH_KEYS, ("uri",))
            uri = None if "uri" not in found else self.yaml.read_text(found["uri"], f"uri of {what}")
            is_read_only = self._read_flag(found.get("read_only"), f"read_only of {what}")
            options = self._read_options(found.get("storage_options"), what)
            queries = self._read_queries(found.get("queries"), what)
            policy, policy_file = self._read_policy(found.get("policy"), f"policy of {what}", entry.name)
            embed = self._read_embedding(found.get("embed"), what)
            own = self._read_limits(found.get("limits"), f"limits of {what}", limits, REQUEST_LIMITS)
            if uri is not None:
                place = uri.value if has_scheme(uri.value) else str(self._folder / uri.value)
                graphs.append(
                    ServedGraph(
                        entry.name,
                        place,
                        is_read_only,
                        options,
                        queries,
                        policy,
                        policy_file,
                        embed,
                        None if own == limits else own,
                    )
                )
        if node is not None and not graphs and not self.yaml.problems:
            self._add_wrong(node, "no graph is named")
        return tuple(graphs)

    def _read_queries(self, node: Node | None, what: str) -> QueryFolder:
        path = self._read_path(node, f"queries of {what}")
        if node is None or path is None:
            return QueryFolder()
        try:
            return read_query_folder(path)
        except ConfigError as error:
            self.yaml.problems += error.problems
        except NotFound as error:
            self._add_wrong(node, error.message)
        return QueryFolder()

    def _read_options(self, node: Node | None, what: str) -> dict[str, str]:
        entries = [] if node is None else self.yaml.read_entries(node, f"storage_options of {what}")
        found = {entry.name: self.yaml.read_setting(entry.value, entry.name) for entry in entries}
        return {name: text.value for name, text in found.items() if text is not None}

    def _read_bind(self, node: Node | None) -> str:
        text = None if node is None else self.yaml.read_text(node, "bind")
        if text is None or node is None:
            return DEFAULT_BIND
        try:
            parse_bind(text.value)
        except ParameterError as error:
            self._add_wrong(node, str(error))
        return text.value

    def _read_path(self, node: Node | None, what: str) -> Path | None:
        text = None if node is None else self.yaml.read_text(node, what)
        return None if text is None else self._folder / text.value

    def _read_policy(self, node: Node | None, what: str, graph_id: str | None) -> tuple[Policy | None, Path | None]:
        """Read the policy that a value names. Problems in it are problems of the configuration."""
        path = self._read_path(node, what)
        if node is None or path is None:
            return None, None
        try:
            return load_policy(path, graph_id), path
        except ConfigError as error:
            self.yaml.problems.extend(error.problems)
        except (NotFound, ParameterError, Unsupported) as error:
            self._add_wrong(node, str(error))
        return None, path

    def _read_audit(self, node: Node | None) -> Path | None:
        found = {} if node is None else self.yaml.read_fields(node, "audit", ("file",), ("file",))
        return self._read_path(found.get("file"), "file of audit")

    def _read_hosts(self, found: Mapping[str, Node]) -> tuple[str, ...]:
        hosts: list[str] = []
        if "hosts" in found:
            texts = [self.yaml.read_text(each, "a host") for each in self.yaml.read_items(found["hosts"], "hosts")]
            hosts += [text.value.lower() for text in texts if text is not None]
        if "public_url" in found:
            url = self.yaml.read_text(found["public_url"], "public_url")
            host = None if url is None else urlsplit(url.value).hostname
            if url is not None and host is None:
                self._add_wrong(found["public_url"], "public_url is no URL such as https://graphs.example.org")
            hosts += [] if host is None else [host]
        return tuple(hosts)

    def _read_texts(self, node: Node | None, name: str, what: str) -> Iterator[tuple[Node, str]]:
        """Yield the texts of a list, each with its place."""
        if node is not None:
            for each in self.yaml.read_items(node, name):
                text = self.yaml.read_text(each, what)
                if text is not None:
                    yield each, text.value

    def _read_origins(self, node: Node | None) -> tuple[str, ...]:
        origins: list[str] = []
        for place, text in self._read_texts(node, "cors", "an origin"):
            parts = urlsplit(text)
            is_exact = text == f"{parts.scheme}://{parts.netloc}" and "*" not in text
            if parts.scheme not in ("http", "https") or not is_exact:
                self._add_wrong(place, f"'{text}' is no origin such as https://tools.example.org")
            origins.append(text)
        return tuple(origins)

    def _read_networks(self, node: Node | None) -> tuple[Network, ...]:
        networks: list[Network] = []
        for place, text in self._read_texts(node, "trusted_proxies", "an address"):
            try:
                networks.append(parse_network(text))
            except ValueError:
                self._add_wrong(place, f"'{text}' is no address or network such as 10.0.0.0/8")
        return tuple(networks)

    def _read_embedding(self, node: Node | None, what: str) -> EmbeddingSettings | None:
        if node is None:
            return None
        names = [each.name for each in fields(EmbeddingSettings)]
        found = self.yaml.read_fields(node, f"embed of {what}", names, ("provider",))
        if "provider" not in found:
            return None
        given = {name: self.yaml.read_value(each, name) for name, each in found.items()}
        try:
            return resolve_embedding_settings(given)
        except ParameterError as error:
            self.yaml.add_problem(codes.WRONG_VALUE, error.message, start_of(node_span(node)), error.hint)
        return None

    def _read_limits(self, node: Node | None, what: str, default: Limits, names: Sequence[str]) -> Limits:
        """Read limits of some names; the others are those by default."""
        found = {} if node is None else self.yaml.read_fields(node, what, names)
        values: dict[str, int | float] = {}
        for name, each in found.items():
            value = self.yaml.read_value(each, name)
            least = 0 if name in OPTIONAL_LIMITS else 1
            if isinstance(value, bool) or not isinstance(value, int | float) or not (value > 0 or value == least):
                self._add_wrong(each, f"'{name}' must be a number {'above 0' if least else 'of 0 or more'}")
            else:
                values[name] = value
        return replace(default, **cast("dict[str, int]", values))

    def _read_workers(self, node: Node | None) -> int:
        value = 1 if node is None else self.yaml.read_value(node, "workers")
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_WORKERS:
            return value
        if node is not None:
            self._add_wrong(node, f"workers must be a number from 1 to {MOST_WORKERS}")
        return 1

    def _read_tls(self, node: Node | None) -> TlsFiles | None:
        found = {} if node is None else self.yaml.read_fields(node, "tls", ("cert", "key"), ("cert", "key"))
        certificate, key = (self._read_path(found.get(name), f"{name} of tls") for name in ("cert", "key"))
        return None if certificate is None or key is None else TlsFiles(certificate, key)

    def _read_agents(self, node: Node | None) -> AgentSettings:
        found = {} if node is None else self.yaml.read_fields(node, "mcp", ("enabled", "write", "ad_hoc"))
        default = AgentSettings()
        write = default.write
        if "write" in found:
            # YAML reads the word off as false.
            given = self.yaml.read_value(found["write"], "write of mcp")
            words: dict[object, AgentWrites] = {"off": "off", False: "off", "branch": "branch", "any": "any"}
            if given in words:
                write = words[given]
            else:
                self._add_wrong(found["write"], "write of mcp must be off, branch or any")
        return AgentSettings(
            self._read_flag(found.get("enabled"), "enabled of mcp", default=default.is_enabled),
            write,
            self._read_flag(found.get("ad_hoc"), "ad_hoc of mcp", default=default.is_ad_hoc),
        )

    def _read_flag(self, node: Node | None, what: str, *, default: bool = False) -> bool:
        value = default if node is None else self.yaml.read_value(node, what)
        if node is not None and not isinstance(value, bool):
            self._add_wrong(node, f"{what} must be true or false")
        return value is True

    def _add_wrong(self, node: Node, message: str) -> None:
        self.yaml.add_problem(codes.WRONG_VALUE, message, node_span(node))
