"""The budgets of the page, measured in the browser that is there and printed as a table.

The drawing is by software where there is no GPU, which the table says. What is bounded here is what the page itself
takes; times are compared with their budgets only if ``OMNIGRAPH_BUDGETS=fail``, as on a machine that does nothing else.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator
from dataclasses import dataclass

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, Site, Visit, serve_site

pytest.importorskip("playwright")
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
SCHEMA = "node P { code: String @key name: String n: I64? } edge Knows: P -> P"
WIDE = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of the table."""

    what: str
    value: float
    budget: float
    unit: str

    @property
    def is_within(self) -> bool:
        return self.value <= self.budget


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Ten thousand people who know each other, a hundred types, 200 commits."""
    folder = tmp_path_factory.mktemp("large")
    path = folder / "brain.og"
    columns = " ".join(f"c{n}: I64?" for n in range(WIDE))
    types = " ".join(f"node T{n} {{ code: String @key }}" for n in range(98))
    edges = " ".join(f"edge E{n}: T{n} -> T{(n * 7 + 1) % 98}" for n in range(60))
    with og.init(path, f"{SCHEMA} node Row {{ code: String @key {columns} }} {types} {edges}", actor="a") as graph:
        people = [{"type": "P", "data": {"code": f"p{n}", "name": f"person {n}"}} for n in range(10_000)]
        knows = [
            {"edge": "Knows", "from": f"p{n % 10_000}", "to": f"p{(n * 7919 + 1) % 10_000}"} for n in range(20_000)
        ]
        rows = [
            {"type": "Row", "data": {"code": f"r{n}", **{f"c{c}": n * c for c in range(WIDE)}}} for n in range(1000)
        ]
        graph.load([*people, *knows, *rows], message="everybody")
        graph.create_branch("changed")
        graph.load(
            [{"type": "P", "data": {"code": f"p{n}", "name": f"renamed {n}"}} for n in range(500)],
            mode="merge",
            branch="changed",
            message="five hundred",
        )
        for number in range(200):
            graph.mutate(
                "query t($n: I64) { update P set { n: $n } where code = 'p1' }".replace("'", '"'),
                params={"n": number},
                message=f"commit {number}",
            )
    with serve_site(path, folder) as served:
        yield served


def test_the_budgets_hold(site: Site, visit: Visit, capsys: pytest.CaptureFixture[str]) -> None:
    page = visit("boss")
    page.goto(site.url)
    page.get_by_role("heading", name="brain").wait_for()
    renderer = _find_renderer(page)
    is_software = "SwiftShader" in renderer or "llvmpipe" in renderer
    table = [
        Measured("overview usable, cold cache", _open(page, site, "", "table.compact tbody tr"), 600, "ms"),
        Measured("schema of 100 types drawn", _switch(page, site, "/schema", "svg.schema .box"), 500, "ms"),
        Measured("200 commits drawn", _switch(page, site, "/commits", ".lanes li"), 300, "ms"),
        Measured("diff of 500 entities", _switch(page, site, "/diff?a=main&b=changed", ".changes > *"), 300, "ms"),
        Measured("table of 1,000 rows x 10", _table(page, site), 200, "ms"),
        Measured("drawing 500 nodes, 1,000 edges", _draw(page, site, 500, 1_000), 2_000 if is_software else 300, "ms"),
        Measured(
            "drawing 10,000 nodes, 20,000 edges",
            _draw(page, site, 10_000, 20_000),
            6_000 if is_software else 1_000,
            "ms",
        ),
        Measured("lint requests after twenty keys", _lint(page, site), 1, "requests"),
        Measured("memory after 50 page changes", _remember(page, site), 20, "MB"),
    ]
    with capsys.disabled():
        sys.stdout.write(
            f"\n{'software rendering' if is_software else 'GPU'}: {renderer}; load {os.getloadavg()[0]:.1f}\n"
        )
        sys.stdout.write(f"{'what':<38}{'measured':>12}{'budget':>12}\n")
        for each in table:
            note = "" if each.is_within else "  over"
            sys.stdout.write(f"{each.what:<38}{each.value:>9.0f} {each.unit:<8}{each.budget:>6.0f}{note}\n")
    # Keys that a busy machine delivers late are keys after a rest.
    counted = [each for each in table if each.unit == "MB"]
    judged = table if os.environ.get("OMNIGRAPH_BUDGETS") == "fail" else counted
    assert [each.what for each in judged if not each.is_within] == []


def _find_renderer(page: Page) -> str:
    script = """() => { const gl = document.createElement('canvas').getContext('webgl');
      const info = gl?.getExtension('WEBGL_debug_renderer_info');
      return info ? gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : 'none'; }"""
    return str(page.evaluate(script))


def _open(page: Page, site: Site, view: str, mark: str) -> float:
    """From a new document to the first sight of something."""
    page.goto(site.view(view))
    page.locator(mark).first.wait_for()
    return float(page.evaluate("performance.now()"))


def _switch(page: Page, site: Site, view: str, mark: str) -> float:
    """From the arrival of the last answer that a view needs to the frame that shows it."""
    script = """([url, mark]) => new Promise((resolve) => {
      history.pushState(null, '', url);
      dispatchEvent(new PopStateEvent('popstate'));
      const look = () => {
        if (!document.querySelector(mark)) return requestAnimationFrame(look);
        const shown = performance.now();
        const all = performance.getEntriesByType('resource').map((each) => each.responseEnd);
        const answers = all.filter((end) => end < shown);
        resolve(shown - Math.max(...answers));
      };
      look();
    })"""
    page.goto(site.view("/access"))
    page.locator("#content table").first.wait_for()
    page.evaluate("performance.clearResourceTimings()")
    return float(page.evaluate(script, [site.view(view), mark]))


def _table(page: Page, site: Site) -> float:
    text = "query t() { match { $r: Row } return { " + ", ".join(f"$r.c{n}" for n in range(WIDE)) + " } limit 1000 }"
    page.goto(site.view("/query"))
    # Until the editor is there, a field that takes no keys stands in its place.
    page.locator(".cm-content").wait_for()
    page.get_by_label("Query", exact=True).click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)
    page.evaluate("performance.clearResourceTimings()")
    page.keyboard.press("Control+Enter")
    script = """() => new Promise((resolve) => {
      const look = () => {
        const rows = document.querySelectorAll('.frame tbody tr');
        if (rows.length < 1000) return requestAnimationFrame(look);
        // Asking for a place makes the browser lay out all of them.
        rows[999].getBoundingClientRect();
        const answer = performance.getEntriesByType('resource').filter((each) => each.name.endsWith('/query')).at(-1);
        resolve(performance.now() - answer.responseEnd);
      };
      look();
    })"""
    return float(page.evaluate(script))


def _draw(page: Page, site: Site, nodes: int, edges: int) -> float:
    """From the answer with a large neighbourhood to the first frame that shows it, at its starting positions."""
    ends = [(f"p{n % nodes}", f"p{(n * 7919 + 1) % nodes}") for n in range(edges)]
    listed = [{"type": "Knows", "id": f"e{n}", "from": a, "to": b, "direction": "out"} for n, (a, b) in enumerate(ends)]
    answer = json.dumps({"edges": listed, "nodes": [], "next": None})
    page.route(
        re.compile("/entity/neighbors"), lambda route: route.fulfill(body=answer, content_type="application/json")
    )
    # What follows the drawing is not part of it.
    page.route(re.compile(r"/rows\?"), lambda _route: None)
    page.goto(site.view("/access"))
    page.locator("#content table").first.wait_for()
    script = """([url, nodes]) => new Promise((resolve) => {
      performance.clearResourceTimings();
      history.pushState(null, '', url);
      dispatchEvent(new PopStateEvent('popstate'));
      const look = () => {
        if (!document.querySelector(`.drawing[data-nodes="${nodes}"] canvas`)) return requestAnimationFrame(look);
        requestAnimationFrame(() => {
          const all = performance.getEntriesByType('resource');
          const answer = all.find((each) => each.name.includes('/entity/neighbors'));
          resolve(performance.now() - answer.responseEnd);
        });
      };
      look();
    })"""
    took = float(page.evaluate(script, [site.view("/explore?node=P/p0"), nodes]))
    page.unroute_all()
    return took


def _lint(page: Page, site: Site) -> float:
    """How many requests twenty fast keys make."""
    page.goto(site.view("/query"))
    page.locator(".cm-content").wait_for()
    editor = page.get_by_label("Query", exact=True)
    editor.click()
    page.wait_for_timeout(1_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/lint") else None)
    page.keyboard.type("// twenty keys ahead", delay=10)
    page.wait_for_timeout(2_000)
    return len(asked)


def _remember(page: Page, site: Site) -> float:
    """How much the heap grows over fifty changes of the view."""
    views = ("/schema", "/commits", "/branches", "/query", "/diff?a=main&b=changed")
    session = page.context.new_cdp_session(page)

    def heap() -> float:
        session.send("HeapProfiler.collectGarbage")
        return float(page.evaluate("performance.memory.usedJSHeapSize")) / 1e6

    def walk() -> None:
        for view in views:
            page.evaluate(
                "(url) => { history.pushState(null, '', url); dispatchEvent(new PopStateEvent('popstate')); }",
                site.view(view),
            )
            page.wait_for_timeout(300)

    walk()
    before = heap()
    for _ in range(10):
        walk()
    return heap() - before
