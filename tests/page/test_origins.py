"""A page of another origin, in a real browser: it reads nothing, writes nothing, and a blob does not run as a page."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import pytest

import omnigraph as og
from omnigraph.server import Role, create_token
from tests.page.conftest import find_browser
from tests.server.live import LiveServer, start_server
from tests.server.test_server_workers_live import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Page

STRANGER = "evil.example"
ADD = 'query add() { insert File { name: "from a stranger" } }'
ASK = """async ([url, method, token, body, mode]) => {
  const headers = token ? {Authorization: `Bearer ${token}`, "Content-Type": "application/json"} : {};
  try {
    const answer = await fetch(url, {method, headers, body, mode, credentials: "include"});
    return [answer.type, answer.status, await answer.text()];
  } catch (error) {
    return ["failed", 0, String(error)];
  }
}"""


class _Stranger(BaseHTTPRequestHandler):
    """A site that somebody else runs."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>a stranger</title>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as in the base
        """Say nothing."""


@dataclass(frozen=True)
class Scene:
    """A server, a token that may do everything, and a page of a stranger."""

    server: LiveServer
    token: str
    folder: Path
    page: Page
    stranger: str

    def ask(
        self, path: str, method: str = "GET", *, token: bool = True, body: str | None = None, mode: str = "cors"
    ) -> Any:
        """What a script of the stranger's page gets."""
        self.page.goto(self.stranger)
        return self.page.evaluate(ASK, [self.server.url + path, method, self.token if token else None, body, mode])

    def list_statuses(self, method: str) -> list[int]:
        """The statuses of all requests so far. The audit is written after the answer: wait until it has one."""
        file = self.folder / "audit.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        audited = [cast("dict[str, Any]", json.loads(line)) for line in lines]
        return [each["status"] for each in audited if each["method"] == method]

    def own(self) -> httpx.Client:
        return self.server.client(self.token)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Generator[Scene]:
    path = find_browser()
    if path is None:
        pytest.skip("NO BROWSER: set OMNIGRAPH_BROWSER, or install chromium; the page is not tested")
    from playwright.sync_api import sync_playwright

    folder = tmp_path_factory.mktemp("origins")
    graph = og.init(folder / "brain.og", "node File { name: String @key  content: Blob? }")
    html = base64.b64encode(b"<script>document.title = 'it ran'</script>").decode()
    graph.load([{"type": "File", "data": {"name": "page", "content": f"base64:{html}"}}])
    graph.close()
    _, token = create_token(folder / "tokens.json", "act-ann", Role.ADMIN, None, None)
    (folder / "server.yaml").write_text(
        "version: 1\nbind: 127.0.0.1:0\ntokens: tokens.json\naudit: {file: audit.jsonl}\nstate: state\n"
        "graphs: {brain: {uri: brain.og}}\n"
    )
    site = ThreadingHTTPServer(("127.0.0.1", 0), _Stranger)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {STRANGER} 127.0.0.1"]
    with (
        start_server("--config", str(folder / "server.yaml")) as server,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=path, args=arguments) as browser,
    ):
        page = browser.new_page()
        page.set_default_timeout(120_000)
        yield Scene(server, token, folder, page, f"http://{STRANGER}:{site.server_address[1]}/")
    site.shutdown()
    site.server_close()


def test_a_page_of_another_origin_reads_nothing(scene: Scene) -> None:
    kind, _, text = scene.ask("/graphs/brain")
    assert (kind, "Failed to fetch" in text) == ("failed", True)
    # Without a token it is a simple request, which browsers send before they look at the answer.
    assert scene.ask("/healthz", token=False)[0] == "failed"
    assert scene.ask("/graphs/brain", token=False, mode="no-cors")[0] == "failed"
    # They arrived. A browser names no origin where the script cannot see the answer; then the token is missing.
    wait_until(lambda: {401, 403} <= set(scene.list_statuses("GET")))


def test_a_page_of_another_origin_writes_nothing(scene: Scene) -> None:
    body = json.dumps({"query": ADD})
    assert scene.ask("/graphs/brain/mutate", "POST", body=body)[0] == "failed"
    assert scene.ask("/graphs/brain/mutate", "POST", token=False, body=body, mode="no-cors")[0] == "failed"
    # The first asked by OPTIONS whether it may be sent, the second was sent.
    wait_until(lambda: bool(scene.list_statuses("OPTIONS") and scene.list_statuses("POST")))
    assert {*scene.list_statuses("OPTIONS"), *scene.list_statuses("POST")} == {403}
    with scene.own() as http:
        assert http.get("/graphs/brain").json()["nodes"] == {"File": 1}


def test_another_name_for_this_machine_is_refused(scene: Scene) -> None:
    """A name of the stranger that leads here: what the page loads is of its own origin, so only the server can tell."""
    port = httpx.URL(scene.server.url).port
    answer = scene.page.goto(f"http://{STRANGER}:{port}/healthz")
    assert answer is not None
    assert answer.status == 421
    assert cast("dict[str, Any]", answer.json())["code"] == "bad_request"


def test_a_blob_of_html_runs_nothing(scene: Scene) -> None:
    from playwright.sync_api import Error

    scene.page.goto(f"{scene.server.url}/healthz")
    title = scene.page.title()
    scene.page.set_extra_http_headers({"Authorization": f"Bearer {scene.token}"})
    # It is saved, not shown: the page stays where it was.
    with pytest.raises(Error, match="Download is starting"):
        scene.page.goto(f"{scene.server.url}/graphs/brain/blob?entity=node&type=File&id=page&property=content")
    scene.page.set_extra_http_headers({})
    assert scene.page.title() == title
