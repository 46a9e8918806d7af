"""A real server on the evidence example, and a real browser that looks at it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import pytest

import omnigraph as og
from omnigraph.server import Role, create_token
from tests.page.story import EVIDENCE, tell_story, write_queries
from tests.server.live import LiveServer, start_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

RETITLE = "query t($trial: String, $title: String) { update Trial set { title: $title } where code = $trial }"
PATIENCE = int(os.environ.get("OMNIGRAPH_PATIENCE", "60")) * 1000
"""Milliseconds that a busy machine may take for anything."""
EXPECTED = re.compile(
    "the server responded with a status of (4|503)|net::ERR_|Failed to fetch dynamically imported module"
)
BROWSER_FLAGS = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
TOKENS = {"reader": Role.READ, "curator": Role.WRITE, "boss": Role.ADMIN}


def find_browser() -> str | None:
    """The browser of OMNIGRAPH_BROWSER, or a Chromium on the path."""
    named = os.environ.get("OMNIGRAPH_BROWSER")
    return named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass(frozen=True, slots=True)
class Site:
    """A served graph: where it is, and a token for each kind of user."""

    url: str
    graph: Path
    tokens: dict[str, str]
    server: LiveServer

    def view(self, rest: str = "") -> str:
        return f"{self.url}/ui/brain{rest}"


def make_graph(folder: Path) -> Path:
    """The evidence with two curators' branches that conflict in two trials."""
    path = folder / "brain.og"
    graph = og.init(path, EVIDENCE / "evidence.pg", actor="act-ines")
    graph.load(EVIDENCE / "evidence.jsonl", message="the evidence so far")
    graph.create_branch("review/june")
    for branch, title in (("review/june", "A title of june"), ("main", "A title of main")):
        for trial in ("tri-101", "tri-102"):
            graph.mutate(
                RETITLE, params={"trial": trial, "title": title}, branch=branch, message=f"{trial} gets a title"
            )
    graph.mutate(
        'query c() { insert Compound { code: "cmp-900", name: "<b>Nova</b>", family: "peptide" } }',
        branch="review/june",
        message="a new compound",
    )
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """The graph of the daily flows, served."""
    folder = tmp_path_factory.mktemp("site")
    with serve_site(make_graph(folder), folder) as served:
        yield served


@contextmanager
def serve_site(path: Path, folder: Path, *words: str, port: int = 0) -> Generator[Site]:
    """Serve a graph with a token for each kind of user. The tokens of a folder are made once."""
    kept = folder / "told.json"
    if not kept.exists():
        file = folder / "tokens.json"
        made = {actor: create_token(file, actor, role, None, None)[1] for actor, role in TOKENS.items()}
        kept.write_text(json.dumps(made))
    tokens = cast("dict[str, str]", json.loads(kept.read_text()))
    options = ["--tokens", str(folder / "tokens.json"), "--state", str(folder / "state"), *words]
    with start_server("-g", str(path), "--bind", f"127.0.0.1:{port}", *options) as server:
        yield Site(server.url, path, tokens, server)


def free_port() -> int:
    """A port that nobody listens at: a server that comes back has it again."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def story_site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """A month of curation, served with stored queries and checks."""
    folder = tmp_path_factory.mktemp("story")
    path = tell_story(folder / "brain.og")
    with serve_site(path, folder, "--queries", str(write_queries(folder / "queries"))) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    """A browser for the tests of one file: while it runs, its event loop is in the way of other tests."""
    path = find_browser()
    if path is None:
        pytest.skip("NO BROWSER: set OMNIGRAPH_BROWSER, or install chromium; the page is not tested")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=BROWSER_FLAGS)
        yield launched
        launched.close()


def write_into(page: Page, label: str, text: str) -> None:
    """Put a text into an editor. What is there goes first: a browser would keep its style on the new text."""
    page.locator(".cm-content").first.wait_for()
    page.get_by_label(label, exact=True).click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


class Visit(Protocol):
    """Signs somebody in, and gives their page."""

    def __call__(
        self, actor: str | None, *, width: int = 1280, is_dark: bool = False, site: Site | None = None
    ) -> Page: ...


@dataclass(slots=True)
class Visitor:
    """Somebody at the page. Whatever the browser complains about fails the test."""

    page: Page
    complaints: list[str]


@pytest.fixture
def visit(browser: Browser, request: pytest.FixtureRequest) -> Generator[Visit]:
    """Sign somebody in: ``visit("reader")``; nobody is ``visit(None)``."""
    contexts: list[BrowserContext] = []
    visitors: list[Visitor] = []

    def enter(actor: str | None, *, width: int = 1280, is_dark: bool = False, site: Site | None = None) -> Page:
        # A busy machine must not matter.
        where = site or cast("Site", request.getfixturevalue("site"))
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if is_dark else "light",
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        if actor is not None:
            context.add_init_script(f"sessionStorage.setItem('omnigraph-token', '{where.tokens[actor]}')")
        page = context.new_page()
        complaints: list[str] = []
        page.on(
            "console",
            lambda message: (
                complaints.append(f"{message.text} ({message.location})") if message.type == "error" else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        visitors.append(Visitor(page, complaints))
        return page

    yield enter
    for visitor in visitors:
        # A refused request, or one to a server that was killed, is part of some flows; the browser reports it.
        serious = [text for text in visitor.complaints if not EXPECTED.search(text)]
        assert serious == []
    for context in contexts:
        context.close()
