"""Automatic cleanup: off unless asked for, after commits, and nothing goes that a tag, a branch or a merge needs."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli import detached_upkeep
from omnigraph.cli.app import main
from omnigraph.errors import ChangeGap, HistoryGone, OmniGraphError, ParameterError, ReadOnly, StorageError
from omnigraph.graph import Graph
from omnigraph.maintain import automatic_cleanup, cleanup_times, cleanup_turns
from omnigraph.maintain.automatic_cleanup import clean_up_if_due, find_due
from omnigraph.storage.location import Location
from tests.crash import fresh_copy, kill_at, record, some_crashes
from tests.maintain.ports import AT_ONCE, SCHEMA, add, shown
from tests.maintain.test_cleanup import readable, sizes


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no commit of a test is old enough: readers have an hour."""
    monkeypatch.setattr(automatic_cleanup, "READER_GRACE", AT_ONCE)


def settle(graph: Graph) -> None:
    """Wait until no upkeep is going on."""
    if graph._background is not None:
        graph._background.join(60)


def mark_of(graph: Graph) -> Path:
    return Path(graph.uri) / "__cleanup.json"


# --------------------------------------------------------------------------------------------- off and on


@pytest.mark.usefixtures("no_grace")
def test_history_is_never_deleted_unasked(ports: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ports.settings().keep == "off"
    ports._next_look = 0.0
    add(ports, "q1")
    settle(ports)
    ports.do_upkeep()
    assert len(readable(ports)) == len(ports.commits())
    assert not mark_of(ports).exists()
    ports.change_settings(keep="0s")
    ports.change_settings(keep="off")
    add(ports, "q2")
    settle(ports)
    assert len(readable(ports)) == len(ports.commits())
    monkeypatch.setenv("OMNIGRAPH_UPKEEP", "off")
    switched_off = omnigraph.open(ports.uri, keep="0s")
    add(switched_off, "q3")
    assert len(readable(ports)) == len(ports.commits())


@pytest.mark.usefixtures("no_grace")
def test_old_history_goes_after_a_commit(ports: Graph) -> None:
    assert ports.change_settings(keep="0s").keep == "0s"
    before = sum(sizes(ports).values())
    head = add(ports, "q1")
    settle(ports)
    assert readable(ports) == [head]
    assert sum(sizes(ports).values()) < before
    assert len(ports.commits()) == 14, "they are listed as before"
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        shown(ports, at=ports.commits()[3].id)
    with pytest.raises(HistoryGone, match="removed by cleanup"):
        ports.create_branch("late", ports.commits()[3].id)
    with pytest.raises(ChangeGap):
        list(ports.changes(f"after:{ports.commits()[3].id}"))
    assert ports.verify().findings == ()
    add(ports, "q2")
    settle(ports)
    assert len(readable(ports)) == 2, "the next one is due later"


@pytest.mark.usefixtures("no_grace")
def test_tags_heads_and_merge_bases_stay_whatever_their_age(ports: Graph) -> None:
    commits = [commit.id for commit in ports.commits()]
    ports.create_tag("old", commits[8])
    ports.create_branch("dev", from_=commits[6])
    add(ports, "d1", "dev")
    ports.create_branch("merged", from_=commits[4])
    add(ports, "m1", "merged")
    ports.merge("merged")
    before = shown(ports, at="old"), shown(ports, "dev"), shown(ports, "merged")
    ports.change_settings(keep="0s")
    add(ports, "q1")
    settle(ports)
    assert (shown(ports, at="old"), shown(ports, "dev"), shown(ports, "merged")) == before
    assert commits[6] in readable(ports)
    assert commits[2] not in readable(ports)
    add(ports, "m2", "merged")
    for branch in ("dev", "merged"):
        ports.merge(branch)
    assert {"d1", "m1", "m2", "q1"} <= set(shown(ports)[0])
    assert ports.verify().findings == ()


def test_what_is_young_stays(ports: Graph) -> None:
    ports.change_settings(keep="30d")
    add(ports, "q1")
    settle(ports)
    assert mark_of(ports).exists()
    assert len(readable(ports)) == len(ports.commits())


def test_readers_have_an_hour(ports: Graph) -> None:
    ports.change_settings(keep="0s")
    add(ports, "q1")
    settle(ports)
    assert len(readable(ports)) == len(ports.commits())


# --------------------------------------------------------------------------------------------- when it is due


@pytest.mark.parametrize(
    ("keep", "before", "is_due"),
    [
        ("30d", timedelta(hours=23), False),
        ("30d", timedelta(hours=25), True),
        ("30d", -timedelta(days=3), True),
        ("5h", timedelta(minutes=29), False),
        ("5h", timedelta(minutes=31), True),
        ("1s", timedelta(minutes=9), False),
        ("1s", timedelta(minutes=11), True),
        ("off", timedelta(days=999), False),
    ],
)
def test_the_mark_says_when_it_is_due(ports: Graph, keep: str, before: timedelta, is_due: bool) -> None:
    manifest, now = ports._manifest, datetime.now(UTC)
    assert (find_due(manifest, now, keep) is not None) == (keep != "off"), "nobody has cleaned up yet"
    clean_up_if_due(manifest, "30d")
    assert (find_due(manifest, now + before, keep) is not None) == is_due


def test_a_torn_mark_is_none(ports: Graph) -> None:
    mark_of(ports).write_bytes(b'{"began_')
    assert clean_up_if_due(ports._manifest, "30d") is not None
    assert "began_at" in json.loads(mark_of(ports).read_bytes())


@pytest.mark.usefixtures("no_grace")
def test_a_handle_may_choose_otherwise(ports: Graph) -> None:
    ports.change_settings(keep="0s")
    careful = omnigraph.open(ports.uri, keep="off")
    add(careful, "q1")
    settle(careful)
    assert len(readable(ports)) == len(ports.commits())
    assert pickle.loads(pickle.dumps(careful)).keep == "off"  # noqa: S301  our own bytes
    thorough = omnigraph.open(ports.uri, keep="0s")
    head = add(thorough, "q2")
    settle(thorough)
    assert readable(ports) == [head]


def test_an_error_is_nobody_s_problem(ports: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> object:
        raise OmniGraphError("the disk is on fire")

    monkeypatch.setattr(automatic_cleanup, "cleanup", fail)
    ports.change_settings(keep="0s")
    add(ports, "q1")
    settle(ports)
    assert "q1" in shown(ports)[0]


@pytest.mark.usefixtures("no_grace")
def test_writers_branches_and_merges_go_on_beside_it(ports: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    others: list[Callable[[], object]] = [
        lambda: add(ports, "beside"),
        lambda: ports.create_branch("side"),
        lambda: add(ports, "s1", "side"),
        lambda: ports.merge("side"),
        lambda: ports.create_tag("now", "side"),
    ]

    def let_others_act(_seconds: float) -> None:
        if others:
            others.pop(0)()

    monkeypatch.setattr(cleanup_turns, "sleep", let_others_act)
    ports.change_settings(keep="0s")
    clean_up_if_due(omnigraph.open(ports.uri)._manifest)
    while others:
        others.pop(0)()
    assert {"beside", "s1"} <= set(shown(ports)[0])
    assert shown(ports, at="now") == shown(ports, "side")
    assert ports.verify().findings == ()


def clean_up_at(uri: str) -> None:
    automatic_cleanup.READER_GRACE = AT_ONCE  # pyright: ignore[reportConstantRedefinition]  in a process of its own
    clean_up_if_due(omnigraph.open(uri)._manifest)


def test_killed_anywhere_the_next_one_ends_it(ports: Graph) -> None:
    ports.change_settings(keep="0s")
    head, rows = ports.commits()[0].id, shown(ports)
    steps = record(clean_up_at, str(fresh_copy(Path(ports.uri))))
    for number, when in [*some_crashes(steps)][:: 1 + len(steps) // 6]:
        root = fresh_copy(Path(ports.uri))
        kill_at(clean_up_at, (str(root),), number, when)
        left = omnigraph.open(root)
        assert shown(left) == shown(left, at=head) == rows
        mark_of(left).unlink(missing_ok=True)
        clean_up_at(str(root))
        assert readable(left) == [head]
        assert add(left, "next")
        assert left.verify().is_sound


# --------------------------------------------------------------------------------------------- where it is kept


def test_a_new_graph_keeps_it(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.og", SCHEMA, keep="30d")
    assert graph.settings().keep == "30d"
    stored = json.loads((tmp_path / "g.og" / "__settings.json").read_text())
    assert stored["keep"] == "30d"
    assert omnigraph.open(tmp_path / "g.og").change_settings().keep == "30d"
    with pytest.raises(ReadOnly):
        omnigraph.open(tmp_path / "g.og", "ro").change_settings(keep="1d")


@pytest.mark.parametrize("keep", ["soon", "", "-1d", "30", "99999999999d", "OFF"])
def test_a_wrong_age_is_refused_before_anything_is_written(tmp_path: Path, ports: Graph, keep: str) -> None:
    with pytest.raises(ParameterError, match="keep is"):
        omnigraph.init(tmp_path / "new.og", SCHEMA, keep=keep)
    assert not (tmp_path / "new.og").exists()
    for call in (lambda: omnigraph.open(ports.uri, keep=keep), lambda: ports.change_settings(keep=keep)):
        with pytest.raises(ParameterError, match="keep is"):
            call()
    assert ports.settings().keep == "off"


def test_a_wrong_age_in_the_file_is_named(ports: Graph) -> None:
    (Path(ports.uri) / "__settings.json").write_text('{"keep": "soon"}')
    with pytest.raises(StorageError, match=r"the settings of .* are damaged"):
        ports.settings()


def test_the_command_line_keeps_and_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, schema, query = str(tmp_path / "g.og"), tmp_path / "ports.pg", tmp_path / "add.gq"
    schema.write_text(SCHEMA)
    query.write_text('query add() { insert Port { code: "cli" } }')
    assert main(["init", uri, "--schema", str(schema), "--keep", "30d"]) == 0
    capsys.readouterr()
    assert main(["settings", "-g", uri, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["keep"] == "30d"
    started: list[tuple[object, ...]] = []

    def start(*task: object) -> None:
        started.append(task)

    monkeypatch.setattr(detached_upkeep, "start_upkeep", start)
    assert main(["mutate", str(query), "-g", uri]) == 0
    assert started == [(uri, {}, "main")], "a child does it, after the command"
    task = json.dumps({"uri": uri, "storage_options": {}, "branch": "main"})
    detached_upkeep.run_upkeep(task.encode())
    assert (tmp_path / "g.og" / "__cleanup.json").exists()
    query.write_text('query add() { insert Port { code: "again" } }')
    assert main(["mutate", str(query), "-g", uri]) == 0
    assert len(started) == 1, "it is not due again"
    assert main(["settings", "-g", uri, "--keep", "off"]) == 0
    assert "keep        off" in capsys.readouterr().out
    assert main(["settings", "-g", uri, "--keep", "soon"]) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("no_grace")
def test_on_an_object_store(s3_location: Location) -> None:
    options = dict(s3_location.storage_options)
    graph = omnigraph.init(s3_location.uri, SCHEMA, storage_options=options, keep="0s")
    for number in range(3):
        add(graph, f"p{number}")
    settle(graph)
    again = omnigraph.open(s3_location.uri, storage_options=options)
    graph._manifest.objects.delete(cleanup_times.FILE)
    head = add(again, "q")
    settle(again)
    assert readable(again) == [head]
    assert again.verify().findings == ()
