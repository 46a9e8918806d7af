"""The commands beside the actions of the page: each is run as it is copied, and does what the button does."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, Site, Visit, make_graph, serve_site

pytest.importorskip("playwright")
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
LISTS = '''query l($codes: [String], $flag: Bool, $n: U64) {
  // it may say """ or end with a "
  match { $t: Trial
          $t.code in $codes
          $flag = true
          $n > 9007199254740993 }
  return { $t.code }
} // "'''


def copied(button: Locator) -> str:
    """What a button copies; its title shows it."""
    expect(button).to_have_attribute("title", re.compile("."))
    return button.get_attribute("title") or ""


def run(site: Site, command: str, folder: Path) -> None:
    """Run a copied command as a shell would."""
    program, *words = shlex.split(command)
    assert program == "omnigraph"
    environment = {**os.environ, "OMNIGRAPH_TOKEN": site.tokens["curator"]}
    told = subprocess.run(
        [sys.executable, "-m", "omnigraph", "--yes", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, f"{command}\n{told.stderr}"


def test_the_commands_beside_the_buttons_do_the_same(visit: Visit, tmp_path: Path) -> None:
    with serve_site(make_graph(tmp_path), tmp_path) as site:
        page = visit("curator", site=site)
        copy = page.get_by_role("button", name="Copy as command")
        page.goto(site.view("/branches"))
        page.get_by_label("New branch").fill("review/july")
        run(site, copied(copy), tmp_path)
        page.goto(site.view("/tags"))
        page.get_by_label("New tag").fill("release-1")
        run(site, copied(copy), tmp_path)
        page.goto(site.view("/review/review/june"))
        for trial, side in (("tri-101", "ours"), ("tri-102", "theirs")):
            decided = page.get_by_role("group").filter(has_text=trial)
            decided.get_by_role("radio", name=re.compile(f"^{side}")).check()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the decisions for it").click()
        saved.value.save_as(tmp_path / saved.value.suggested_filename)
        page.get_by_label("Message").fill("two curators' titles")
        run(site, copied(page.locator("button[title*=' merge ']")), tmp_path)
        with og.open(site.graph, "ro") as graph:
            assert sorted(branch.name for branch in graph.branches()) == ["main", "review/july"]
            assert [tag.name for tag in graph.tags()] == ["release-1"]
            merged = graph.commits()[0]
            assert (merged.message, merged.actor) == ("two curators' titles", "curator")
            row = graph.get("Trial", "tri-102")
            assert row is not None
            assert row["title"] == "A title of june"
        page.goto(site.view(f"/commits/{merged.id}"))
        page.get_by_role("button", name="Take this commit back").click()
        run(site, copied(page.locator("button[title*=' revert ']")), tmp_path)
        with og.open(site.graph, "ro") as graph:
            assert (graph.commits()[0].message or "").startswith(f"Revert {merged.id}")


def test_a_query_is_copied_as_python_that_runs(visit: Visit, tmp_path: Path) -> None:
    with serve_site(make_graph(tmp_path), tmp_path) as site:
        page = visit("reader", site=site)
        params = '{"codes": ["tri-101", "tri-102"], "flag": true, "n": 18446744073709551615}'
        page.goto(site.view(f"/query?q={quote(LISTS)}&p={quote(params)}"))
        expect(page.get_by_role("table", name="Rows of l").locator("tbody tr")).to_have_count(2)
        # The digits of the address are those of the form.
        expect(page.get_by_label("$n")).to_have_value("18446744073709551615")
        page.get_by_text("Copy as…").click()
        text = copied(page.get_by_role("button", name="Python"))
        told = subprocess.run(
            [sys.executable, "-c", f"{text}\nprint(len(result.rows))"],
            env={**os.environ, "OMNIGRAPH_TOKEN": site.tokens["reader"]},
            capture_output=True,
            text=True,
        )
        assert told.stdout.split() == ["2"], told.stderr
        command = copied(page.get_by_role("button", name="command"))
        run(site, command, tmp_path)
