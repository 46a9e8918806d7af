"""What people do on the page every day, in a real browser. The other flows are in the files beside it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, RETITLE, Site, Visit, write_into
from tests.server.live import start_server

pytest.importorskip("playwright")
from playwright.sync_api import Page, expect

expect.set_options(timeout=PATIENCE)
QUERY = "query t() { match { $t: Trial } return { $t.code, $t.title } order { $t.code asc } }"


def test_a_stranger_signs_in_by_a_token(site: Site, visit: Visit) -> None:
    page = visit(None)
    page.goto(site.url)
    page.get_by_label("Token").fill("og_" + "x" * 43)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    page.get_by_label("Token").fill(site.tokens["reader"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="brain")).to_be_visible()
    assert "og_" not in page.url
    assert page.evaluate("localStorage.length") == 0
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('omnigraph-token')") is None


def test_the_printed_link_signs_in_once(site: Site, visit: Visit, tmp_path: Path) -> None:
    with start_server("--as", "ines", "--read-only", "--state", str(tmp_path / "state"), graph=site.graph) as server:
        page = visit(None)
        page.goto(f"{server.url}/#code={server.code}")
        expect(page.get_by_role("heading", name="brain")).to_be_visible()
        assert "code" not in page.url
        assert "#" not in page.url
        again = visit(None)
        again.goto(f"{server.url}/#code={server.code}")
        expect(again.get_by_role("alert")).to_contain_text("used already")
        assert "code" not in again.url


def test_a_reader_sees_no_button_that_writes(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/review/review/june"))
    expect(page.get_by_text("You may read this, not merge it.")).to_be_visible()
    assert page.get_by_role("button", name=re.compile("Merge into")).count() == 0
    page.goto(site.view("/load"))
    expect(page.get_by_text("You may read brain, not load into it.")).to_be_visible()
    page.goto(site.view("/health"))
    expect(page.get_by_role("alert").first).to_contain_text("You may not do this")


def test_a_forged_click_is_refused_and_the_page_says_by_what(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view("/branches"))
    delete = page.get_by_role("button", name="Delete review/june")
    delete.click()
    expect(delete).to_have_text("Delete review/june")
    # The buttons of a curator, pressed with the token of a reader.
    page.evaluate(f"sessionStorage.setItem('omnigraph-token', '{site.tokens['reader']}')")
    with page.expect_response(re.compile("/branches/review/june$")) as answered:
        delete.click()
    assert answered.value.status == 403
    told = page.get_by_role("alert")
    expect(told).to_contain_text("You may not do this")
    expect(told).to_contain_text("may not delete branches of /graphs/brain")
    expect(told).to_contain_text("the role of the token is 'read'")
    with og.open(site.graph, "ro") as graph:
        assert "review/june" in [branch.name for branch in graph.branches()]


def test_a_query_is_mended_run_and_shared(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/query"))
    write_into(page, "Query", "query t() { match { $t: Tril } return { $t.code, $t.title } order { $t.code asc } }")
    expect(page.locator(".cm-lintRange-error")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'Trial'?")
    write_into(page, "Query", "query t() { match { $t: Tri")
    page.get_by_role("option", name="Trial").click()
    expect(page.get_by_label("Query", exact=True)).to_contain_text("$t: Trial")
    write_into(page, "Query", QUERY)
    page.keyboard.press("Control+Enter")
    rows = page.get_by_role("table", name="Rows of t")
    expect(rows.get_by_role("cell", name="tri-101")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    command = [sys.executable, "-m", "omnigraph", "-g", str(site.graph), "query", "--format", "csv", "-e"]
    told = subprocess.run([*command, QUERY], capture_output=True, check=True)
    assert Path(saved.value.path()).read_bytes().split() == told.stdout.split()
    link = page.url
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_label(re.compile("Frame")).get_by_text("explain", exact=True)).to_be_visible()
    page.get_by_role("button", name="Profile").click()
    expect(page.get_by_label(re.compile("Frame"))).to_contain_text(re.compile(r"Scan \$t: Trial.* ms"))
    other = visit("curator")
    other.goto(link)
    expect(other.get_by_role("table", name="Rows of t").get_by_role("cell", name="tri-101")).to_be_visible()


def test_a_diff_is_drawn_on_the_graph_with_the_counts_of_the_engine(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/diff?a=main&b=review/june&view=graph"))
    command = [sys.executable, "-m", "omnigraph", "-g", str(site.graph), "diff", "main", "review/june", "--json"]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    counts = {name: sum(each[name] for each in told["summary"]) for name in ("inserted", "updated", "deleted")}
    drawn = page.locator(".drawn-diff")
    for name, mark in (("inserted", "came"), ("updated", "changed"), ("deleted", "went")):
        expect(drawn).to_have_attribute(f"data-{mark}", str(counts[name]))
    expect(page.locator(".changes")).to_have_attribute("data-count", str(sum(counts.values())))
    # Neighbours that did not change are drawn around, and a side only hides what is not there.
    expect(page.locator(".drawing")).not_to_have_attribute("data-nodes", str(sum(counts.values())))
    both = int(page.locator(".drawing").get_attribute("data-nodes") or 0)
    page.get_by_role("button", name="before", exact=True).click()
    expect(page.locator(".drawing")).to_have_attribute("data-nodes", str(both - counts["inserted"]))
    # What is in the graph is text, also where it looks like markup.
    page.get_by_role("button", name="came", exact=True).click()
    page.get_by_role("link", name="cmp-900").click()
    expect(page.get_by_text("<b>Nova</b>").first).to_be_visible()


def test_a_branch_with_conflicts_is_reviewed_decided_merged_and_deleted(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view("/review/review/june"))
    expect(page.get_by_role("heading", name="2 conflicts to decide")).to_be_visible()
    merge = page.get_by_role("button", name="Merge into main")
    expect(merge).to_be_disabled()
    _decide(page, "tri-101", "ours")
    _decide(page, "tri-102", "theirs")
    merge.click()
    expect(page.get_by_role("status").get_by_text("Merged")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        assert [branch.name for branch in graph.branches()] == ["main"]
        assert graph.commits()[0].actor == "curator"
        titles = {code: graph.get("Trial", code) for code in ("tri-101", "tri-102")}
        assert [titles[code]["title"] for code in titles] == ["A title of main", "A title of june"]  # pyright: ignore[reportOptionalSubscript]


def _decide(page: Page, trial: str, side: str) -> None:
    page.get_by_role("group").filter(has_text=trial).get_by_role("radio", name=re.compile(f"^{side}")).check()


def test_a_change_is_found_in_the_history_of_an_entity_and_taken_back(site: Site, visit: Visit) -> None:
    with og.open(site.graph, actor="act-ines") as graph:
        for title in ("first", "second", "third"):
            graph.mutate(RETITLE, params={"trial": "tri-103", "title": title}, message=f"the {title} title")
    page = visit("curator")
    page.goto(site.view("/entity/node/Trial/tri-103"))
    entries = page.locator(".history > li")
    third = entries.filter(has_text="the third title")
    third.get_by_role("button", name="Take this commit back").click()
    expect(page.get_by_text("Nothing is erased")).to_be_visible()
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("status").filter(has_text="Taken back by the commit")).to_be_visible()
    expect(entries.first).to_contain_text("Revert")
    expect(entries.first).to_contain_text("second")
    with og.open(site.graph, "ro") as graph:
        row = graph.get("Trial", "tri-103")
        assert row is not None
        assert row["title"] == "second"
        assert (graph.commits()[0].message or "").startswith("Revert ")
        assert graph.commits()[0].actor == "curator"
    # Later commits changed the same property: the page says so and offers to look at properties.
    entries.filter(has_text="the first title").get_by_role("button", name="Take this commit back").click()
    expect(page.get_by_text("Later commits changed the same entity")).to_be_visible()
    page.get_by_role("button", name="Take back single properties instead").click()
    expect(page.get_by_label("take the older values all the same")).to_be_visible()
