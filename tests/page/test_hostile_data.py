"""Data that would like to be markup, script or another number: flow 11."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, Site, Visit, serve_site

pytest.importorskip("playwright")
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
HOSTILE = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
HTML = b"<script>window.opener.broken = 1; window.broken = 1</script>"
SCHEMA = """
node Thing { code: String @key name: String @index n: U64? signed: I64? share: F64? url: String? page: Blob? }
edge Holds: Thing -> Thing { scan: Blob? }
"""
LONG, TURNED = "y" * 100_000, "abc\u202edcba"
LARGEST, EXACT = 2**64 - 1, 2**53 + 1
SET = "query s($code: String, $n: I64) { update Thing set { signed: $n } where code = $code }"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """Names with markup, long texts, the largest numbers, pages of HTML as blobs, and a conflict of large numbers."""
    folder = tmp_path_factory.mktemp("hostile")
    page = f"base64:{b64encode(HTML).decode()}"
    things = [
        {"code": HOSTILE, "name": HOSTILE, "n": LARGEST, "page": page},
        {"code": "long", "name": LONG, "url": "javascript:alert(1)"},
        {"code": TURNED, "name": TURNED, "url": "https://example.org/a"},
        {"code": "number", "name": "NaN", "signed": EXACT, "share": 0.5},
    ]
    with og.init(folder / "brain.og", SCHEMA, actor="<b>ines</b>") as graph:
        edge = {"edge": "Holds", "from": "long", "to": "number", "data": {"scan": page}}
        graph.load([*({"type": "Thing", "data": value} for value in things), edge], message=HOSTILE)
        graph.create_tag("before")
        graph.create_branch("review/numbers")
        for branch, value in (("main", EXACT + 2), ("review/numbers", EXACT + 4)):
            graph.mutate(SET, params={"code": "number", "n": value}, branch=branch, message="another number")
    with serve_site(folder / "brain.og", folder) as served:
        yield served


def _entity(code: str, kind: str = "node/Thing") -> str:
    return f"/entity/{kind}/{quote(code, safe='')}"


def test_hostile_data_stay_text(site: Site, visit: Visit) -> None:
    page = visit("reader")
    query = "query t() { match { $t: Thing } return { $t.code, $t.name, $t.n, $t.url } }"
    for view in (
        "",
        f"/query?q={quote(query)}",
        "/commits",
        "/changes",
        "/diff?a=v1&b=main",
        "/diff?a=v1&b=main&view=graph",
    ):
        page.goto(site.view(view))
        expect(page.get_by_text("<script>").or_(page.locator(".drawing")).locator("visible=true").first).to_be_visible()
    page.goto(site.view(f"/explore?node=Thing/{quote(HOSTILE, safe='')}"))
    expect(page.locator(".drawing")).to_have_attribute("data-nodes", "1")
    page.goto(site.view(_entity("long")))
    expect(page.get_by_role("button", name=re.compile("Show all 100.000 characters"))).to_be_visible()
    assert page.get_by_role("link", name="javascript:alert(1)").count() == 0
    page.goto(site.view(_entity(TURNED)))
    expect(page.get_by_role("link", name="https://example.org/a")).to_have_attribute("rel", "noopener noreferrer")
    # A text is drawn apart from what stands beside it: the mark turns nothing but itself.
    turned = page.locator("dd").get_by_text(TURNED).first
    assert turned.evaluate("(own) => getComputedStyle(own).unicodeBidi") == "isolate"
    assert page.evaluate("window.broken") is None


def test_a_blob_is_saved_and_never_shown(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view(_entity(HOSTILE)))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download page").click()
    assert Path(saved.value.path()).read_bytes() == HTML
    assert saved.value.suggested_filename.endswith(".bin")
    assert page.evaluate("window.broken") is None
    # One that is null says so, and one of an edge is there as well.
    page.goto(site.view(_entity("long")))
    page.get_by_role("button", name="Download page").click()
    expect(page.get_by_role("alert")).to_contain_text("'page' of Thing 'long' is null")
    with og.open(site.graph, "ro") as graph:
        [edge] = graph.edges("Holds", columns=["id"]).to_arrow().to_pylist()
    page.goto(site.view(_entity(edge["id"], "edge/Holds")))
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download scan").click()
    assert Path(saved.value.path()).read_bytes() == HTML


def test_digits_are_exact_wherever_they_are_shown(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view(_entity(HOSTILE)))
    expect(page.get_by_text(str(LARGEST))).to_be_visible()
    page.goto(site.view(_entity("number")))
    expect(page.locator(".history > li").first).to_contain_text(f"{EXACT} → {EXACT + 2}")
    page.goto(site.view("/diff?a=before&b=review/numbers"))
    expect(page.locator(".changes")).to_contain_text(f"{EXACT} → {EXACT + 4}")
    query = "query t() { match { $t: Thing $t.signed is not null } return { $t.code, $t.signed } }"
    page.goto(site.view(f"/compare?q={quote(query)}&a=before&b=main"))
    changed = page.get_by_role("table", name="Rows that differ").get_by_role("row", name="number")
    expect(changed).to_contain_text(f"{EXACT} → {EXACT + 2} (+2)")
    page.get_by_role("button", name="Swap").click()
    expect(changed).to_contain_text("(\u22122)")
    page.goto(site.view("/review/review/numbers"))
    for value in (EXACT, EXACT + 2, EXACT + 4):
        expect(page.locator(".conflict").get_by_text(str(value))).to_be_visible()
    # What both began with is sent back as it came, to the digit.
    page.get_by_role("radio", name=re.compile("^base")).check()
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_role("status").get_by_text("Merged")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        row = graph.get("Thing", "number")
        assert row is not None
        assert row["signed"] == EXACT


@pytest.mark.parametrize("typed", ["NaN", "Infinity", "1e999"])
def test_what_is_no_number_is_not_sent(site: Site, visit: Visit, typed: str) -> None:
    page = visit("curator")
    page.goto(site.view(_entity("number")))
    # A name that says NaN is a name.
    expect(page.locator("dd").get_by_text("NaN", exact=True)).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    form = page.get_by_label("Edit")
    form.get_by_label(re.compile("^share")).fill(typed)
    expect(form.get_by_role("alert")).to_contain_text("share is not a value of the type F64")
    expect(form.get_by_role("button", name=re.compile("Save on"))).to_be_disabled()


def test_a_file_with_nan_is_refused_with_its_line(site: Site, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "nan.jsonl"
    file.write_text('{"type": "Thing", "data": {"code": "x", "name": "x", "share": NaN}}\n')
    page = visit("curator")
    page.goto(site.view("/load"))
    page.get_by_label("File").set_input_files(file)
    expect(page.get_by_role("alert")).to_contain_text("record:1: not JSON")
    expect(page.get_by_text("Nothing was written.")).to_be_visible()
