"""Compare, explore and the large diff, in a browser: flows 4 to 6."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, Site, Visit, serve_site, write_into
from tests.page.story import EVIDENCE

pytest.importorskip("playwright")
from playwright.sync_api import Locator, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
TRIALS = "query t() { match { $t: Trial } return { $t.code, $t.status, $t.enrolled } order { $t.code } }"


@pytest.fixture(scope="module")
def site(story_site: Site) -> Site:
    return story_site


# Flow 4: compare.


def test_a_query_runs_again_at_an_older_commit_and_changed_cells_are_marked(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view(f"/query?q={quote(TRIALS)}"))
    expect(page.get_by_role("table", name="Rows of t")).to_be_visible()
    page.get_by_label("Run again at").fill("release-1")
    rows = page.get_by_role("table", name="Rows that differ")
    # Rows are matched by the key of the type that is returned.
    expect(page.get_by_label("t.code")).to_be_checked()
    expect(rows.locator("tbody tr")).to_have_count(1)
    changed = rows.get_by_role("row", name="tri-104")
    expect(changed.locator(".cell-changed")).to_have_count(2)
    expect(changed).to_contain_text("recruiting → completed")
    expect(changed).to_contain_text("301 → 612 (+311)")
    expect(page.get_by_text("8 rows the same")).to_be_visible()
    page.get_by_role("button", name="Swap").click()
    expect(changed).to_contain_text("612 → 301 (\u2212311)")
    page.get_by_role("link", name="The diff between them").click()
    expect(page.get_by_role("heading", name="Diff")).to_be_visible()


def test_across_a_change_of_the_schema_one_side_shows_its_problems(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    with og.init(path, EVIDENCE / "evidence.pg", actor="act-ines") as graph:
        graph.load(EVIDENCE / "evidence.jsonl", message="the evidence")
        graph.create_tag("before")
        graph.apply_schema(EVIDENCE / "evidence_v2.pg", message="the second version")
    query = "query t() { match { $t: Trial } return { $t.code, $t.participants } order { $t.code } }"
    with serve_site(path, tmp_path) as site:
        page = visit("reader", site=site)
        page.goto(site.view(f"/compare?q={quote(query)}&a=before&b=main"))
        expect(page.get_by_label("Side A").get_by_role("alert")).to_contain_text("participants")
        expect(page.get_by_label("Side B")).to_contain_text("9 rows")
        # The page says when the schema changed, and shows the one of then.
        page.goto(site.view("/schema"))
        page.get_by_text("History of the schema").click()
        expect(page.locator(".schema-history")).to_contain_text("the second version")
        page.get_by_text("What changed").first.click()
        expect(page.locator(".schema-history .cm-deletedChunk").filter(has_text="enrolled")).to_be_visible()
        page.goto(site.view("/schema?at=before"))
        expect(page.get_by_label("Text of the schema")).to_contain_text("enrolled: U32?")


def test_names_and_values_of_the_graph_are_offered_where_they_are_typed(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/query"))
    page.locator(".cm-content").wait_for()
    editor, option = page.get_by_label("Query", exact=True), page.get_by_role("option")
    expect(editor).to_contain_text("query first")
    for text, typed, offered in (
        ('query t() { match { $t: Trial { status: "completed", ', "ti", "title"),
        ('query t() { update Trial set { title: "x" } where ', "co", "code"),
        ("query t() { match { $a $e:tests $b } return { $e.", "do", "dose_mg"),
        ('query t() { match { $t: Trial { code: "', "tri-10", "tri-104"),
        ('query t() { insert Compound { family: "', "pep", "peptide"),
    ):
        write_into(page, "Query", text)
        page.keyboard.type(typed)
        expect(option.filter(has_text=offered)).to_be_visible()
        page.keyboard.press("Escape")
    page.goto(
        site.view(f"/query?q={quote('query t($c: String) { match { $t: Trial { code: $c } } return { $t.title } }')}")
    )
    page.get_by_label("$c").fill("tri-10")
    expect(page.locator("datalist option[value='tri-104']")).to_be_attached()


# Flow 5: explore.


def test_a_neighbourhood_is_searched_drawn_expanded_and_undone(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view())
    expect(page.get_by_role("heading", name="brain")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("recurrent gout")
    page.get_by_label("Found").get_by_role("button", name=re.compile("tri-104")).click()
    page.get_by_role("link", name="Draw it").click()
    drawing, twin = page.locator(".drawing"), page.get_by_label("What is drawn")
    expect(drawing).to_have_attribute("data-nodes", "6")
    _agree(drawing, twin)
    twin.get_by_text("Compound").click()
    twin.get_by_role("button", name="Sirolane", exact=True).click()
    page.get_by_role("group", name="Expand").get_by_role("button", name=re.compile("← Tests")).click()
    expect(drawing).to_have_attribute("data-nodes", "7")
    _agree(drawing, twin)
    page.keyboard.press("Control+z")
    expect(drawing).to_have_attribute("data-nodes", "6")
    page.get_by_role("button", name="Redo").click()
    expect(drawing).to_have_attribute("data-nodes", "7")
    page.get_by_role("button", name="Collapse").click()
    page.get_by_role("button", name="Hide").click()
    expect(drawing).to_have_attribute("data-nodes", "5")
    page.get_by_label("Colour by").select_option("status")
    assert "colour=status" in page.url
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as .gq").click()
    text = Path(saved.value.path()).read_text("utf-8")
    with og.open(site.graph, "ro") as graph:
        assert len(graph.query(text, "drawn_paper").rows) == 3


def test_the_result_of_a_query_is_drawn_with_the_edges_between(site: Site, visit: Visit) -> None:
    pattern = "$t: Trial { status: $s } $t tests $c $c: Compound"
    query = f"query t($s: String) {{ match {{ {pattern} }} return {{ $t.code, $c.code as c }} }}"
    with og.open(site.graph, "ro") as graph:
        rows = graph.query(query, params={"s": "completed"}).rows
    nodes = {row["t.code"] for row in rows} | {row["c"] for row in rows}
    page = visit("reader")
    params = quote('{"s": "completed"}')
    page.goto(site.view(f"/query?q={quote(query)}&p={params}"))
    page.get_by_role("link", name="Draw it").click()
    drawing = page.locator(".drawing")
    expect(drawing).to_have_attribute("data-nodes", str(len(nodes)))
    expect(drawing).to_have_attribute("data-edges", str(len(rows)))
    # The address draws the same again.
    page.reload()
    expect(drawing).to_have_attribute("data-nodes", str(len(nodes)))


def test_the_drawing_goes_back_in_time_and_nothing_moves(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view("/explore?node=Trial/tri-104"))
    drawing = page.locator(".drawing")
    expect(drawing).to_have_attribute("data-nodes", "6")
    expect(drawing).to_have_attribute("data-busy", "false")
    for _ in range(3):
        page.keyboard.press("[")
    # Three commits ago there was neither the final report nor the letter.
    expect(drawing).to_have_attribute("data-nodes", "4")
    expect(drawing).to_have_attribute("data-busy", "false")
    assert "at=" in page.url
    expect(page.get_by_label("What is drawn")).to_contain_text("2 not there")
    # What is counted is of then, too.
    expect(page.get_by_role("group", name="Expand").get_by_role("button", name="← Reports")).to_have_text(
        "← Reports 1 of 1"
    )
    page.get_by_role("button", name="Back to now").click()
    expect(drawing).to_have_attribute("data-nodes", "6")
    # No layout ran: whatever was drawn is where it was.
    expect(drawing).to_have_attribute("data-busy", "false")


def test_more_neighbours_than_a_page_are_counted_and_come_page_by_page(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    with og.init(path, "node P { code: String @key } edge Knows: P -> P", actor="a") as graph:
        people = [{"type": "P", "data": {"code": f"p{n}"}} for n in range(260)]
        graph.load([*people, *({"edge": "Knows", "from": "p0", "to": f"p{n}"} for n in range(1, 260))])
    with serve_site(path, tmp_path) as site:
        page = visit("reader", site=site)
        page.goto(site.view("/explore?node=P/p0"))
        more = page.get_by_role("group", name="Expand").get_by_role("button", name="→ Knows")
        expect(more).to_contain_text("100 of 259")
        more.click()
        expect(more).to_contain_text("200 of 259")
        more.click()
        expect(more).to_contain_text("259 of 259")
        expect(more).to_be_disabled()
        expect(page.locator(".drawing")).to_have_attribute("data-nodes", "260")


def _agree(drawing: Locator, twin: Locator) -> None:
    for name in ("data-nodes", "data-edges"):
        assert drawing.get_attribute(name) == twin.get_attribute(name)


# Flow 6, large: bubbles.


def test_five_thousand_changes_begin_as_bubbles(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    with og.init(path, "node P { code: String @key } node Q { code: String @key }", actor="a") as graph:
        graph.create_branch("many")
        rows = [{"type": "P" if n % 5 else "Q", "data": {"code": f"p{n}"}} for n in range(5000)]
        graph.load(rows, branch="many", message="many")
    with serve_site(path, tmp_path) as site:
        page = visit("reader", site=site)
        page.goto(site.view("/diff?a=main&b=many&view=graph"))
        expect(page.locator(".bubbles")).to_have_attribute("data-bubbles", "2")
        page.locator(".bubble").filter(has_text="Q").click()
        expect(page.locator(".drawing")).to_have_attribute("data-nodes", "1000")


# Tables.


def test_every_row_of_a_table_can_be_found_copied_and_walked(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    link, long = "https://example.org/a", "z" * 400
    with og.init(path, "node R { code: String @key text: String? n: I64? }", actor="a") as graph:
        rows = [{"code": f"r{n:04}", "n": n} for n in range(1200)]
        rows[0] |= {"text": link}
        rows[1] |= {"text": long}
        graph.load([{"type": "R", "data": row} for row in rows])
    query = "query t() { match { $r: R } return { $r.code, $r.text, $r.n } order { $r.code } }"
    with serve_site(path, tmp_path) as site:
        page = visit("reader", site=site)
        page.goto(site.view(f"/query?q={quote(query)}"))
        table = page.get_by_role("table", name="Rows of t")
        expect(table.locator("tbody tr")).to_have_count(1000)
        expect(table.get_by_role("link", name=link)).to_be_visible()
        table.get_by_role("button", name="Show all 400 characters").click()
        expect(table.get_by_role("cell", name=long)).to_contain_text("Fold")
        assert page.evaluate("window.find('r0999')")
        assert page.evaluate("getSelection().toString()") == "r0999"
        page.evaluate("getSelection().selectAllChildren(document.querySelector('.frame table'))")
        copied = str(page.evaluate("getSelection().toString()"))
        assert copied.splitlines()[-1].split() == ["r0999", "null", "999"]
        # What does not fit on the page is said, and comes with the next one.
        page.get_by_role("button", name=re.compile("^Next")).click()
        expect(table.locator("tbody tr")).to_have_count(200)
        expect(table.get_by_role("cell", name="r1199")).to_be_attached()


def test_rows_are_comfortable_for_who_likes_that(site: Site, visit: Visit) -> None:
    page = visit("reader")
    page.goto(site.view(f"/query?q={quote(TRIALS)}"))
    row = page.get_by_role("table", name="Rows of t").locator("tbody tr").nth(1)
    assert 28 <= row.evaluate("(own) => own.getBoundingClientRect().height") <= 29
    page.get_by_role("combobox", name="Rows").select_option("comfortable")
    assert 36 <= row.evaluate("(own) => own.getBoundingClientRect().height") <= 37
    page.reload()
    expect(page.get_by_role("combobox", name="Rows")).to_have_value("comfortable")
    page.goto(site.view("/commits"))
    # The lines between commits follow the rows.
    page.locator(".lanes li").first.wait_for()
    rows, drawn = page.locator(".lanes ol"), page.locator(".lanes svg")
    assert rows.evaluate("(own) => own.offsetHeight") == drawn.evaluate("(own) => own.getBoundingClientRect().height")
    assert page.locator(".lanes li").first.evaluate("(own) => own.offsetHeight") == 36
