"""What people do on the page, in a real browser against a real server."""

from __future__ import annotations

import re

import pytest

import omnigraph as og
from tests.page.conftest import Site, Visit

pytest.importorskip("playwright")
from playwright.sync_api import Page, expect

expect.set_options(timeout=60_000)


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


def test_a_reader_sees_no_button_that_writes(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/review/review/june"))
    expect(page.get_by_text("You may read this, not merge it.")).to_be_visible()
    assert page.get_by_role("button", name=re.compile("Merge into")).count() == 0
    status = page.evaluate(
        """async () => (await fetch('/graphs/brain/merges', {method: 'POST', headers: {
             'Content-Type': 'application/json', Authorization: 'Bearer ' + sessionStorage.getItem('omnigraph-token')},
             body: JSON.stringify({source: 'review/june', target: 'main', prefer: 'theirs'})})).status"""
    )
    assert status == 403


def test_a_query_is_mended_run_and_shared(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/query"))
    _write(page, "query t() { match { $t: Tril } return { $t.code, $t.title } order { $t.code asc } }")
    expect(page.locator(".cm-lintRange-error")).to_be_visible()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert")).to_contain_text("did you mean 'Trial'?")
    _write(page, "query t() { match { $t: Trial } return { $t.code, $t.title } order { $t.code asc } }")
    page.keyboard.press("Control+Enter")
    rows = page.get_by_role("table", name="Rows of t")
    expect(rows.get_by_role("cell", name="tri-101")).to_be_visible()
    link = page.url
    other = visit("curator")
    other.goto(link)
    expect(other.get_by_role("table", name="Rows of t").get_by_role("cell", name="tri-101")).to_be_visible()


def test_a_diff_is_drawn_on_the_graph_with_the_counts_of_the_engine(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/diff?a=main&b=review/june&view=graph"))
    with og.open(site.graph, "ro") as graph:
        summary = graph.diff("main", "review/june").summary()
    changed = sum(each.inserted + each.updated + each.deleted for each in summary)
    expect(page.locator(".drawing")).to_have_attribute("data-nodes", str(changed))
    expect(page.locator(".changes")).to_have_attribute("data-count", str(changed))
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


def _write(page: Page, text: str) -> None:
    """Put a text into the editor. What is there goes first: a browser would keep its style on the new text."""
    page.get_by_label("Query", exact=True).click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def _decide(page: Page, trial: str, side: str) -> None:
    page.get_by_role("group").filter(has_text=trial).get_by_role("radio", name=re.compile(f"^{side}")).check()


def test_the_history_of_an_entity_leads_back(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view("/entity/node/Trial/tri-102"))
    latest = page.locator(".history > li").first
    latest.get_by_role("button", name="Take this commit back").click()
    expect(page.get_by_text("Nothing is erased")).to_be_visible()
