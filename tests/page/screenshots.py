"""Pictures of the main views, light and dark, from the evidence example. ``make screenshots`` writes them anew.

Look at every one of them before it is committed: alignment, density, clipped text, contrast, what the eye meets first.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tests.page.conftest import BROWSER_FLAGS, Site, find_browser, serve_site
from tests.page.story import tell_story, write_queries

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images" / "page"
_QUERY: Final = """query enrolment() {
  match { $t: Trial }
  return { $t.code, $t.title, $t.status, $t.enrolled }
  order { $t.code }
}"""
VIEWS: Final = {
    "overview": "",
    "explore": "/explore?node=Trial/tri-104&colour=",
    "query": f"/query?q={quote(_QUERY)}",
    "diff": "/diff?a=release-1&b=review/tomas&view=graph",
    "review": "/review/review/tomas",
    "entity": "/entity/node/Trial/tri-104",
}
_WIDTH, _HEIGHT = 1280, 800


def main() -> int:
    """Write the pictures."""
    from playwright.sync_api import sync_playwright

    path = find_browser()
    if path is None:
        sys.stderr.write("no browser: set OMNIGRAPH_BROWSER, or install chromium\n")
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        graph = tell_story(folder / "brain.og")
        with serve_site(graph, folder, "--queries", str(write_queries(folder / "queries"))) as site:
            browser = playwright.chromium.launch(executable_path=path, args=BROWSER_FLAGS)
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": _WIDTH, "height": _HEIGHT}, color_scheme=scheme, reduced_motion="reduce"
                )
                context.set_default_timeout(60_000)
                context.add_init_script(f"sessionStorage.setItem('omnigraph-token', '{site.tokens['curator']}')")
                page = context.new_page()
                for view in VIEWS:
                    _shoot(page, site, view, FOLDER / f"{view}-{scheme}.png")
            browser.close()
    return 0


def _shoot(page: Page, site: Site, view: str, file: Path) -> None:
    page.goto(site.view(VIEWS[view]))
    page.wait_for_load_state("networkidle")
    if view in ("explore", "diff"):
        page.locator(".drawing[data-busy=true]").wait_for()
        page.locator(".drawing[data-busy=false]").wait_for()
    page.screenshot(path=file)


if __name__ == "__main__":
    sys.exit(main())
