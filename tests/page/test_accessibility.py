"""Every view passes axe-core, which comes with the sources of the page, in both themes, and fits on a small screen."""

from __future__ import annotations

from pathlib import Path
from typing import cast
from urllib.parse import quote

import pytest

from tests.page.conftest import PATIENCE, Site, Visit, write_into
from tests.page.story import EVIDENCE

pytest.importorskip("playwright")
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
QUERY = quote("query t() { match { $t: Trial } return { $t.code, $t.title, $t.enrolled } order { $t.code } }")
RUN = """async () => {
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
  const { violations } = await axe.run(document, { runOnly: tags });
  const show = (node) => node.html.slice(0, 160) + ' ' + (node.any[0]?.message ?? '');
  return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 4).map(show).join(' | ')}`);
}"""
VIEWS = {
    "overview": "",
    "schema": "/schema?type=Trial",
    "explore": "/explore?node=Trial/tri-104",
    "explore-empty": "/explore",
    "query": f"/query?q={QUERY}",
    "compare": f"/compare?q={QUERY}&a=release-1&b=main",
    "commits": "/commits",
    "commit": "/commits/release-1",
    "diff": "/diff?a=release-1&b=review/tomas",
    "diff-drawn": "/diff?a=release-1&b=review/tomas&view=graph",
    "review": "/review/review/tomas",
    "entity": "/entity/node/Trial/tri-104",
    "entity-then": "/entity/node/Trial/tri-104?at=release-1",
    "branches": "/branches",
    "tags": "/tags",
    "changes": "/changes",
    "load": "/load",
    "health": "/health",
    "access": "/access",
    "error": "/entity/node/Trial/tri-999",
    "nothing": "/nothing",
}


@pytest.fixture(scope="module")
def site(story_site: Site) -> Site:
    return story_site


def list_problems(page: Page) -> list[str]:
    """What axe-core finds by the rules of WCAG 2.2 AA and by what is known to be good."""
    page.evaluate(AXE.read_text("utf-8"))
    return cast("list[str]", page.evaluate(RUN))


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_view_is_accessible(site: Site, visit: Visit, *, is_dark: bool) -> None:
    assert AXE.exists(), "axe-core is not there: run `make test-ui`, which brings it"
    found: dict[str, list[str]] = {}
    page = visit("boss", is_dark=is_dark)
    for name, view in VIEWS.items():
        page.goto(site.view(view))
        _settle(page)
        problems = list_problems(page)
        if problems:
            found[name] = problems
    page.goto(site.view("/entity/node/Trial/tri-104"))
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Edit").get_by_role("button", name="Read again").wait_for()
    found["edit"] = list_problems(page)
    page.goto(site.view("/schema"))
    page.get_by_role("button", name="Plan a change…").click()
    write_into(page, "The new schema", (EVIDENCE / "evidence_v2.pg").read_text("utf-8"))
    page.get_by_role("button", name="Show what it means").click()
    expect(page.get_by_text("rename property Trial")).to_be_visible()
    found["plan"] = list_problems(page)
    stranger = visit(None, is_dark=is_dark)
    stranger.goto(site.url)
    stranger.get_by_label("Token").wait_for()
    found["sign in"] = list_problems(stranger)
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_every_view_fits_on_a_small_screen(site: Site, visit: Visit) -> None:
    page = visit("boss", width=360)
    wide: dict[str, int] = {}
    for name, view in VIEWS.items():
        page.goto(site.view(view))
        _settle(page)
        width = int(page.evaluate("document.documentElement.scrollWidth"))
        if width > 360:
            wide[name] = width
    assert wide == {}
    page.goto(site.view(VIEWS["explore"]))
    _settle(page)
    # The drawing becomes its list.
    assert page.locator(".drawing").is_hidden()
    assert page.get_by_label("What is drawn").is_visible()


def _settle(page: Page) -> None:
    """Wait until the view has shown something and reads nothing any more."""
    page.locator("#content h1, #content .notice").first.wait_for()
    if not page.url.endswith(("/changes", "/health")):
        # Those two never stop reading.
        page.wait_for_load_state("networkidle")
    expect(page.locator(".waiting, .skeleton, #content [aria-busy=true]")).to_have_count(0)
