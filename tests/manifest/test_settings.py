"""The settings of a graph: who decides, what is kept, and that two kinds of lock never meet on one graph."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from threading import current_thread, main_thread

import pytest

import omnigraph
from omnigraph.errors import ParameterError, StorageError
from omnigraph.graph import Graph
from omnigraph.storage.durability import Durability
from omnigraph.storage.failpoints import When, WriteStep, _arm
from omnigraph.storage.location import Location
from tests.manifest.publishing import manifest_of

SCHEMA = "node Port { code: String @key }"
POWER, PROCESS = "power", "process"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests choose durability "process" in the environment."""
    monkeypatch.delenv("OMNIGRAPH_DURABILITY", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "graph.og"


def stored(root: Path) -> dict[str, object]:
    return json.loads((root / "__settings.json").read_text())


def durability_of(graph: Graph) -> Durability:
    return manifest_of(graph).access.durability


def test_a_new_graph_keeps_what_was_chosen(root: Path) -> None:
    omnigraph.init(root, SCHEMA, durability="power", lock="lease")
    assert stored(root) == {"durability": "power", "keep": "off", "lock": "lease"}
    assert durability_of(omnigraph.open(root)) == "power"
    assert manifest_of(omnigraph.open(root)).locks.kind == "lease"


@pytest.mark.parametrize(
    ("argument", "variable", "kept", "expected"),
    [
        (PROCESS, POWER, POWER, PROCESS),
        (None, POWER, PROCESS, POWER),
        (None, "", POWER, POWER),
        (None, None, POWER, POWER),
        (None, None, PROCESS, PROCESS),
    ],
)
def test_an_argument_wins_over_the_environment_and_that_over_the_graph(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    argument: Durability | None,
    variable: str | None,
    kept: Durability,
    expected: Durability,
) -> None:
    omnigraph.init(root, SCHEMA, durability=kept)
    if variable is not None:
        monkeypatch.setenv("OMNIGRAPH_DURABILITY", variable)
    graph = omnigraph.open(root, durability=argument)
    assert durability_of(graph) == expected
    assert durability_of(pickle.loads(pickle.dumps(graph))) == expected  # noqa: S301  our own bytes
    assert stored(root)["durability"] == kept


def test_a_new_graph_survives_power_cuts_unless_somebody_chooses_otherwise(root: Path) -> None:
    omnigraph.init(root, SCHEMA)
    assert stored(root) == {"durability": "power", "keep": "off", "lock": "flock"}


def test_init_takes_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "process")
    omnigraph.init(root, SCHEMA)
    assert stored(root)["durability"] == "process"


def test_a_graph_without_settings_is_one_of_an_older_release(root: Path) -> None:
    omnigraph.init(root, SCHEMA, durability="power")
    (root / "__settings.json").unlink()
    graph = omnigraph.open(root)
    assert durability_of(graph) == "process"
    graph.load([{"type": "Port", "data": {"code": "ams"}}])
    assert not (root / "__settings.json").exists()
    with pytest.raises(ParameterError, match="'flock', not by 'lease'"):
        omnigraph.open(root, lock="lease")


@pytest.mark.parametrize(("kept", "asked"), [("flock", "lease"), ("lease", "flock")])
@pytest.mark.parametrize("mode", ["rw", "ro"])
def test_another_kind_of_lock_is_refused_by_name(root: Path, kept: str, asked: str, mode: str) -> None:
    omnigraph.init(root, SCHEMA, lock=kept)  # pyright: ignore[reportArgumentType]
    omnigraph.open(root, mode, lock=kept)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ParameterError, match=f"locked by '{kept}', not by '{asked}'") as refused:
        omnigraph.open(root, mode, lock=asked)  # pyright: ignore[reportArgumentType]
    assert refused.value.details == {"lock": kept, "asked": asked}


def test_an_interrupted_init_has_decided_the_kind_of_lock_and_nothing_else(root: Path) -> None:
    root.mkdir()
    (root / "__settings.json").write_text('{"durability": "process", "lock": "lease"}')
    with pytest.raises(ParameterError, match="locked by 'lease', not by 'flock'"):
        omnigraph.init(root, SCHEMA)
    omnigraph.init(root, SCHEMA, lock="lease", durability="power")
    assert stored(root) == {"durability": "power", "keep": "off", "lock": "lease"}


@pytest.mark.parametrize("torn", [b"", b'{"durability":"po'])
def test_torn_settings_of_an_interrupted_init_are_written_again(root: Path, torn: bytes) -> None:
    root.mkdir()
    (root / "__settings.json").write_bytes(torn)
    omnigraph.init(root, SCHEMA, durability="power")
    assert stored(root) == {"durability": "power", "keep": "off", "lock": "flock"}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"lock": "none"}', b'{"durability": 1}'])
def test_damaged_settings_are_named(root: Path, content: bytes) -> None:
    omnigraph.init(root, SCHEMA)
    (root / "__settings.json").write_bytes(content)
    with pytest.raises(StorageError, match=r"the settings of .* are damaged"):
        omnigraph.open(root)


def test_settings_of_a_later_release_are_kept(root: Path) -> None:
    omnigraph.init(root, SCHEMA)
    (root / "__settings.json").write_text('{"keep": "30d", "later": true}')
    assert durability_of(omnigraph.open(root)) == "process"


@pytest.mark.parametrize("call", [omnigraph.init, omnigraph.open])
def test_a_wrong_word_is_refused_before_anything_is_written(root: Path, call: object) -> None:
    arguments = (root, SCHEMA) if call is omnigraph.init else (root,)
    with pytest.raises(ParameterError, match="durability is 'fast'"):
        call(*arguments, durability="fast")  # pyright: ignore[reportCallIssue]
    assert not root.exists()


def test_a_wrong_word_in_the_environment_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_DURABILITY", "fast")
    with pytest.raises(ParameterError, match="OMNIGRAPH_DURABILITY is 'fast'"):
        omnigraph.init(root, SCHEMA)


CONCURRENCY = ["OMNIGRAPH_LOAD_CONCURRENCY", "OMNIGRAPH_MAINTENANCE_CONCURRENCY"]


@pytest.mark.parametrize("variable", CONCURRENCY)
@pytest.mark.parametrize("text", ["0", "-1", "2.5", "many", "\u0663"])
def test_a_concurrency_that_is_no_positive_number_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    omnigraph.init(root, SCHEMA)
    monkeypatch.setenv(variable, text)
    with pytest.raises(ParameterError, match=f"{variable} is '{text}'"):
        omnigraph.open(root)
    assert omnigraph.open(root, "ro").commits()


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("variable", CONCURRENCY)
def test_a_write_stages_as_many_tables_at_once_as_the_environment_says(
    root: Path, monkeypatch: pytest.MonkeyPatch, variable: str, at_once: int
) -> None:
    monkeypatch.setenv(variable, str(at_once))
    names = ("Port", "Ship", "Sea")
    graph = omnigraph.init(root, "\n".join(f"node {name} {{ code: String @key @index }}" for name in names))
    load = partial(graph.load, [{"type": name, "data": {"code": "a"}} for name in names])
    if variable == CONCURRENCY[1]:
        load()
    busy = set[str]()

    def note(when: When, step: WriteStep) -> None:
        if when == "before" and "nodes" in step.detail and step.name != "table.commit":
            busy.add(current_thread().name)

    with _arm(note):
        load() if variable == CONCURRENCY[0] else graph.ensure_indexes()
    assert (busy == {main_thread().name}) == (at_once == 1)
    assert busy


def test_on_an_object_store_durability_means_nothing(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    graph = omnigraph.init(s3_location.uri, SCHEMA, storage_options=options, durability="power")
    assert durability_of(graph) == "process"
    graph.load([{"type": "Port", "data": {"code": "ams"}}])
    opened = omnigraph.open(s3_location.uri, storage_options=options, durability="power")
    assert opened.info().nodes == {"Port": 1}
