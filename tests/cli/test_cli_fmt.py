"""``omnigraph fmt``."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Command

LOOSE = "query all( ) { match{$p:Person} // everyone\n return {$p.name} }"
LAID_OUT = "query all() {\n  match { $p: Person } // everyone\n  return { $p.name }\n}\n"
SCHEMA = "node Person{name:String@key}"
SCHEMA_LAID_OUT = "node Person {\n  name: String @key\n}\n"
BROKEN = "query broken() {\n  match { $p Person }\n  return { $p }\n}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files in both languages."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.gq": LOOSE, "b.gq": LAID_OUT, "s.pg": SCHEMA, "broken.gq": BROKEN}.items():
        Path(name).write_text(text, "utf-8")
    return tmp_path


@pytest.mark.usefixtures("here")
def test_files_are_replaced_and_named(omnigraph: Command) -> None:
    untouched = Path("b.gq").stat()
    answer = omnigraph("fmt", "a.gq", "b.gq", "s.pg")
    assert (answer.code, answer.out) == (0, "changed: a.gq\nchanged: s.pg\n")
    assert answer.err == "3 files: 2 changed, 0 errors\n"
    assert Path("a.gq").read_text("utf-8") == LAID_OUT
    assert Path("s.pg").read_text("utf-8") == SCHEMA_LAID_OUT
    assert (Path("b.gq").stat().st_ino, Path("b.gq").stat().st_mtime_ns) == (untouched.st_ino, untouched.st_mtime_ns)
    assert omnigraph("fmt", "a.gq", "b.gq", "s.pg", "--check").code == 0


def test_check_names_the_files_and_changes_nothing(omnigraph: Command, here: Path) -> None:
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in here.iterdir()}
    answer = omnigraph("fmt", "--check", "a.gq", "b.gq", "s.pg")
    assert (answer.code, answer.out) == (1, "would change: a.gq\nwould change: s.pg\n")
    assert answer.err == "3 files: 2 would change, 0 errors\n"
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in here.iterdir()} == before


@pytest.mark.usefixtures("here")
def test_a_syntax_error_has_its_place_and_the_file_is_left_alone(omnigraph: Command) -> None:
    answer = omnigraph("fmt", "broken.gq", "a.gq")
    assert answer.code == 1
    assert answer.out.startswith("broken.gq:2:14  Q000  ")
    assert answer.out.endswith("changed: a.gq\n")
    assert Path("broken.gq").read_text("utf-8") == BROKEN
    assert Path("a.gq").read_text("utf-8") == LAID_OUT


@pytest.mark.usefixtures("here")
def test_json(omnigraph: Command) -> None:
    answer = omnigraph("fmt", "--check", "a.gq", "b.gq", "broken.gq", "--json")
    found = answer.json
    assert answer.code == 1
    assert (found["status"], found["errors"], found["changed"]) == ("error", 1, 1)
    files = found["files"]
    assert isinstance(files, list)
    assert files[:2] == [
        {"path": "a.gq", "status": "ok", "changed": True},
        {"path": "b.gq", "status": "ok", "changed": False},
    ]
    assert isinstance(files[2], dict)
    assert (files[2]["status"], len(files[2]["problems"])) == ("error", 1)  # pyright: ignore[reportArgumentType]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("text", "expected"), [(LOOSE, LAID_OUT), (f"/* s */ {SCHEMA}", f"/* s */ {SCHEMA_LAID_OUT}")])
def test_the_layout_of_stdin_is_printed(omnigraph: Command, text: str, expected: str) -> None:
    answer = omnigraph("fmt", "-", "--quiet", stdin=text.encode())
    assert (answer.code, answer.out, answer.err) == (0, expected, "")
    assert omnigraph("fmt", "-", "--json", stdin=text.encode()).json["files"] == [
        {"path": "-", "status": "ok", "changed": True, "text": expected}
    ]
    checked = omnigraph("fmt", "-", "--check", stdin=text.encode())
    assert (checked.code, checked.out) == (1, "would change: -\n")


@pytest.mark.usefixtures("here")
def test_a_link_stays_a_link_and_a_file_keeps_its_mode(omnigraph: Command) -> None:
    Path("a.gq").chmod(0o640)
    Path("link.gq").symlink_to("a.gq")
    assert omnigraph("fmt", "link.gq").code == 0
    assert Path("link.gq").is_symlink()
    assert Path("a.gq").read_text("utf-8") == LAID_OUT
    assert stat.S_IMODE(Path("a.gq").stat().st_mode) == 0o640


def test_a_file_that_cannot_be_replaced_stays(omnigraph: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(self), None, str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    answer = omnigraph("fmt", "a.gq")
    assert answer.code == 1
    assert "cannot write a.gq: Permission denied" in answer.err
    assert Path("a.gq").read_text("utf-8") == LOOSE
    assert sorted(path.name for path in here.iterdir()) == ["a.gq", "b.gq", "broken.gq", "s.pg"]


@pytest.mark.usefixtures("here")
def test_other_files_are_refused_before_anything_is_written(omnigraph: Command) -> None:
    answer = omnigraph("fmt", "a.gq", "notes.txt", "missing.gq")
    assert (answer.code, "notes.txt" in answer.err) == (1, True)
    answer = omnigraph("fmt", "a.gq", "missing.gq")
    assert (answer.code, "missing.gq" in answer.err) == (1, True)
    assert Path("a.gq").read_text("utf-8") == LOOSE
    Path("bytes.gq").write_bytes(b"query \xff")
    answer = omnigraph("fmt", "bytes.gq")
    assert (answer.code, answer.out.startswith("bytes.gq:1:7  Q000")) == (1, True)
