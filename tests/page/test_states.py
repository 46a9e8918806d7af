"""The live feed, the keyboard, and what the page says when something is the matter: flows 10 and 12."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import omnigraph as og
from tests.maintain.ports import cleanup_now
from tests.page.conftest import PATIENCE, RETITLE, Site, Visit, free_port, serve_site
from tests.page.story import tell_story

pytest.importorskip("playwright")
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
TRIALS = "query t() { match { $t: Trial } return { $t.code, $t.status, $t.enrolled } order { $t.code } }"


@pytest.fixture(scope="module")
def site(story_site: Site) -> Site:
    return story_site


# Flow 10: the live feed.


def test_the_feed_sees_commits_of_others_and_goes_on_after_a_restart(visit: Visit, tmp_path: Path) -> None:
    path, port = tell_story(tmp_path / "brain.og"), free_port()

    def retitle(title: str) -> None:
        with og.open(path, actor="act-tomas") as graph:
            graph.mutate(RETITLE, params={"trial": "tri-101", "title": title}, message=title)

    with serve_site(path, tmp_path, port=port) as site:
        page = visit("reader", site=site)
        page.goto(site.view("/changes"))
        feed = page.locator(".feed > li")
        expect(page.get_by_role("status").filter(has_text="following main")).to_be_visible()
        expect(feed).to_have_count(8)
        retitle("first of the feed")
        expect(feed.first).to_contain_text("first of the feed")
        page.get_by_role("button", name="Pause").click()
        retitle("while it is paused")
        page.get_by_role("button", name="Go on (1 new commit)").click()
        expect(feed.first).to_contain_text("while it is paused")
        assert site.server.stop(signal.SIGTERM) == 0
        expect(page.get_by_role("status").filter(has_text="the server is away")).to_be_visible()
    retitle("while it was away")
    with serve_site(path, tmp_path, port=port):
        expect(feed.first).to_contain_text("while it was away")
        retitle("and afterwards")
        expect(feed.first).to_contain_text("and afterwards")
        ids = (page.locator(".feed").get_attribute("data-commits") or "").split()
        with og.open(path, "ro") as graph:
            assert ids == [commit.id for commit in graph.commits()]


# Flow 12: the keyboard, and states.


def test_a_query_and_a_review_need_no_mouse(visit: Visit, tmp_path: Path) -> None:
    path = tell_story(tmp_path / "brain.og")
    with serve_site(path, tmp_path) as site:
        page = visit("curator", site=site)
        page.goto(site.view())
        expect(page.get_by_role("heading", name="brain")).to_be_visible()
        page.keyboard.press("g")
        page.keyboard.press("q")
        editor = page.get_by_label("Query", exact=True)
        expect(editor).to_contain_text("query first")
        expect(page.locator(".cm-content")).to_be_visible()
        editor.focus()
        page.keyboard.press("Control+a")
        page.keyboard.press("Delete")
        page.keyboard.insert_text(TRIALS)
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("table", name="Rows of t")).to_be_visible()
        page.keyboard.press("Escape")
        brand, keys = page.get_by_role("link", name="OmniGraph"), page.get_by_role("dialog", name="Keys")
        brand.focus()
        for closing in ("Escape", "?"):
            page.keyboard.press("?")
            expect(keys).to_be_visible()
            page.keyboard.press("g")
            page.keyboard.press(closing)
            expect(keys).to_be_hidden()
            expect(brand).to_be_focused()
        # The search box and the bar give the focus back.
        for key, control in (("/", page.get_by_label("Search")), (".", page.locator("#ref-branch"))):
            page.keyboard.press(key)
            expect(control).to_be_focused()
            page.keyboard.press("Escape")
            expect(brand).to_be_focused()
        page.keyboard.press("g")
        page.keyboard.press("c")
        expect(page.get_by_role("heading", name="Commits")).to_be_visible()
        expect(page.locator(".lanes li").first).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("Space")
        page.keyboard.press("j")
        page.keyboard.press("Space")
        expect(page.get_by_role("button", name="Compare two")).to_be_enabled()
        page.keyboard.press("g")
        page.keyboard.press("b")
        row = page.get_by_role("row", name=re.compile("review.tomas"))
        # What opens in the place of a button has the focus; closed, the button has it again.
        delete = row.get_by_role("button", name="Delete review/tomas")
        _tab_to(page, delete)
        page.keyboard.press("Enter")
        expect(delete).to_have_text("Delete review/tomas")
        expect(delete).to_be_focused()
        _tab_to(page, row.get_by_role("button", name="Cancel"))
        page.keyboard.press("Enter")
        expect(delete).to_have_text("Delete…")
        expect(delete).to_be_focused()
        page.get_by_label("New branch").focus()
        _tab_to(page, row.get_by_role("link", name="Review", exact=True))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="1 conflict to decide")).to_be_visible()
        _tab_to(page, page.get_by_role("radio", name=re.compile("^ours")))
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("radio", name=re.compile("^theirs"))).to_be_checked()
        _tab_to(page, page.get_by_role("button", name="Merge into main"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").get_by_text("Merged")).to_be_visible()


def _tab_to(page: Page, target: Locator) -> None:
    """Press Tab until something has the focus."""
    target.wait_for()
    for _ in range(100):
        if target.evaluate("(own) => own === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the focus never came there")


def test_states_say_what_is_the_matter(visit: Visit, tmp_path: Path) -> None:
    path, port = tell_story(tmp_path / "brain.og"), free_port()
    with og.open(path, actor="act-ines") as graph:
        graph.delete_tag("release-1")
        gone = graph.commits()[-2].id
        cleanup_now(graph, 1)
    with serve_site(path, tmp_path, port=port) as site:
        page = visit("reader", site=site)
        page.goto(site.view(f"/entity/node/Trial/tri-104?at={gone}"))
        expect(page.get_by_role("alert").first).to_contain_text("This moment can no longer be read")
        expect(page.get_by_text("The oldest that can be read").first).to_be_visible()
        page.goto(site.view("/nothing"))
        expect(page.get_by_text("There is no such page")).to_be_visible()
        page.goto(site.view("/entity/node/Trial/tri-999"))
        expect(page.get_by_role("alert").first).to_contain_text("no Trial 'tri-999'")
        expect(page.get_by_text(re.compile("request 01"))).to_be_visible()
        page.goto(site.view("/commits"))
        expect(page.locator(".lanes li").first).to_be_visible()
        site.server.stop(signal.SIGKILL)
        page.keyboard.press("g")
        page.keyboard.press("b")
        expect(page.get_by_text("The server does not answer").first).to_be_visible()
    with serve_site(path, tmp_path, port=port):
        expect(
            page.get_by_role("cell", name="review/tomas").or_(page.get_by_role("rowheader", name="review/tomas"))
        ).to_be_visible()
        expect(page.get_by_text("The server does not answer")).to_have_count(0)


def test_a_slow_read_says_so_and_can_be_cancelled(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.route(re.compile("/graphs/brain/branches$"), lambda _route: None)
    page.goto(site.view("/branches"))
    expect(page.get_by_text("Reading the branches.")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Reading the branches.")).to_be_hidden()


def test_upkeep_shows_what_it_would_do_and_access_names_the_rule(site: Site, visit: Visit) -> None:
    page = visit("boss")
    page.goto(site.view("/health"))
    expect(page.get_by_role("table", name="Tables")).to_contain_text("Trial")
    page.get_by_role("button", name="verify").click()
    expect(page.get_by_text("verify succeeded")).to_be_visible()
    page.get_by_role("button", name="cleanup…").click()
    expect(page.get_by_text('"confirmed": false').first).to_be_visible()
    page.get_by_role("button", name="cleanup now").click()
    expect(page.get_by_text('"confirmed": true').first).to_be_attached()
    page.goto(site.view("/access"))
    expect(page.get_by_role("row", name=re.compile("^schema_apply"))).to_contain_text("yes")
    page.get_by_label("Another actor").fill("act-bot")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name=re.compile("What act-bot may do"))).to_be_visible()
