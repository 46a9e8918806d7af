"""The flows of the page that take long, or need a server that dies. Those of every day are in ``test_flows.py``."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import pytest

import omnigraph as og
from tests.maintain.ports import cleanup_now
from tests.page.conftest import PATIENCE, RETITLE, Site, Visit, serve_site
from tests.page.story import EVIDENCE, tell_story, write_queries

pytest.importorskip("playwright")
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)
TRIALS = "query t() { match { $t: Trial } return { $t.code, $t.status, $t.enrolled } order { $t.code } }"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    """A month of curation, served with stored queries and checks."""
    folder = tmp_path_factory.mktemp("story")
    path = tell_story(folder / "brain.og")
    with serve_site(path, folder, "--queries", str(write_queries(folder / "queries"))) as served:
        yield served


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
        page.goto(site.view("/schema?at=before"))
        expect(page.get_by_label("Text of the schema")).to_contain_text("enrolled: U32?")


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


# Flow 8: edit.


def test_a_form_makes_a_branch_and_a_commit_and_a_stale_form_is_told(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view("/entity/node/Trial/tri-105"))
    page.get_by_role("button", name="Edit").click()
    form = page.get_by_label("Edit")
    form.get_by_label(re.compile("^title")).fill("A better title")
    expect(form.get_by_text("update Trial set { title: $title } where id = $id")).to_be_visible()
    form.get_by_role("button", name=re.compile("Save on edit")).click()
    expect(page.get_by_role("heading", name=re.compile("Review edit.curator"))).to_be_visible()
    expect(page.get_by_text("No conflicts: this can be merged.")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        [branch] = [each.name for each in graph.branches() if each.name.startswith("edit/curator/")]
        row, old = graph.get("Trial", "tri-105", branch=branch), graph.get("Trial", "tri-105")
        assert row is not None
        assert row["title"] == "A better title"
        assert old is not None
        assert old["title"] != "A better title"
    # Straight to main, while somebody else is faster.
    page.goto(site.view("/entity/node/Trial/tri-107"))
    page.get_by_role("button", name="Edit").click()
    form.get_by_label("write straight to main").check()
    form.get_by_label(re.compile("^title")).fill("A late title")
    with og.open(site.graph, actor="act-tomas") as graph:
        graph.mutate(RETITLE, params={"trial": "tri-107", "title": "An early title"}, message="tomas was first")
    form.get_by_role("button", name="Save on main").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("Others were faster")
    expect(told.get_by_role("link", name="tomas was first")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        row = graph.get("Trial", "tri-107")
        assert row is not None
        assert row["title"] == "An early title"
    # The reader of an older page is told of the commit, and nothing changes until they ask.
    expect(page.get_by_role("button", name="main has 1 new commit: show")).to_be_visible()


def test_an_edge_is_edited(site: Site, visit: Visit) -> None:
    with og.open(site.graph, "ro") as graph:
        [edge] = [
            row["id"]
            for row in graph.edges("Tests", columns=["id", "from"]).to_arrow().to_pylist()
            if row["from"] == "tri-101"
        ]
    page = visit("curator")
    page.goto(site.view(f"/entity/edge/Tests/{edge}"))
    page.get_by_role("button", name="Edit").click()
    page.get_by_label(re.compile("^dose_mg")).fill("55.5")
    page.get_by_role("button", name=re.compile("Save on edit")).click()
    expect(page.get_by_role("heading", name=re.compile("Review edit.curator"))).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        [branch] = [each.name for each in graph.branches() if each.name.startswith("edit/curator/")]
        rows = graph.edges("Tests", {"id": edge}, branch=branch).to_arrow().to_pylist()
        assert rows[0]["dose_mg"] == 55.5


# Flow 2, more: a value typed in.


def test_a_conflict_is_decided_by_a_value(site: Site, visit: Visit) -> None:
    page = visit("curator")
    page.goto(site.view("/review/review/tomas"))
    expect(page.get_by_text("✗ finds 1 row")).to_be_visible()
    expect(page.get_by_text("✓ finds nothing")).to_be_visible()
    page.get_by_role("radio", name="a value").check()
    page.get_by_label("Value of enrolled").fill("605")
    page.get_by_role("button", name="Merge into main").click()
    expect(page.get_by_role("status").get_by_text("Merged")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        row = graph.get("Trial", "tri-104")
        assert row is not None
        assert (row["enrolled"], row["status"]) == (605, "completed")


# Flow 9: load.


def test_a_bad_file_lists_its_violations_and_a_good_one_lands_on_a_branch(
    site: Site, visit: Visit, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(
        '{"type": "Trial", "data": {"code": "tri-9", "title": "x", "phase": "four", "status": "planned"}}\n'
        '{"edge": "Cites", "from": "pap-001", "to": "pap-999"}\n'
    )
    page = visit("curator")
    page.goto(site.view("/load"))
    page.get_by_label("File").set_input_files(bad)
    table = page.get_by_role("table", name="Violations")
    expect(table.get_by_role("row", name=re.compile("^1 Trial tri-9 phase"))).to_contain_text("four")
    expect(table.get_by_role("row", name=re.compile("^2 Cites"))).to_contain_text("pap-999")
    expect(page.get_by_text("Nothing was written.")).to_be_visible()
    good = tmp_path / "good.jsonl"
    good.write_text('{"type": "Condition", "data": {"code": "cough", "name": "Cough", "chronic": false}}\n')
    page.get_by_label("File").set_input_files(good)
    checked = page.get_by_label("Checked")
    expect(checked).to_contain_text("1 node, 0 edges")
    checked.get_by_label("Onto the branch").fill("main")
    expect(checked.get_by_role("button", name="Load")).to_be_disabled()
    checked.get_by_label("Onto the branch").fill("load/cough")
    checked.get_by_role("button", name="Load").click()
    page.get_by_role("link", name="Review load/cough").click()
    expect(page.get_by_role("link", name="cough")).to_be_visible()
    with og.open(site.graph, "ro") as graph:
        assert graph.get("Condition", "cough") is None
        assert graph.get("Condition", "cough", branch="load/cough") is not None


@pytest.mark.parametrize("is_written", [True, False])
def test_a_server_that_dies_in_a_load_is_asked_by_key(visit: Visit, tmp_path: Path, *, is_written: bool) -> None:
    path, port = tell_story(tmp_path / "brain.og"), _free_port()
    good = tmp_path / "good.jsonl"
    good.write_text('{"type": "Condition", "data": {"code": "cough", "name": "Cough", "chronic": false}}\n')
    with serve_site(path, tmp_path, port=port) as site:
        page = visit("curator", site=site)
        page.goto(site.view("/load"))
        page.get_by_label("File").set_input_files(good)
        page.get_by_label("Onto the branch").fill("load/cough")

        def die(route: object) -> None:
            # The answer is lost: with the write done, or before it began.
            if is_written:
                route.fetch()  # pyright: ignore[reportAttributeAccessIssue]
            site.server.stop(signal.SIGKILL)
            route.abort("connectionreset")  # pyright: ignore[reportAttributeAccessIssue]

        page.route(re.compile(r"/load\?branch=load"), die)
        page.get_by_role("button", name="Load", exact=True).click()
        expect(page.get_by_text("The connection was cut")).to_be_visible()
    with serve_site(path, tmp_path, port=port) as site:
        told = "It was loaded before the connection was cut." if is_written else "Nothing was written"
        expect(page.get_by_text(told)).to_be_visible()
        with og.open(path, "ro") as graph:
            assert ("load/cough" in [branch.name for branch in graph.branches()]) == is_written


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


# Flow 10: the live feed.


def test_the_feed_sees_commits_of_others_and_goes_on_after_a_restart(visit: Visit, tmp_path: Path) -> None:
    path, port = tell_story(tmp_path / "brain.og"), _free_port()

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


# Flow 11: hostile data.

HOSTILE = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


def test_hostile_data_stay_text_and_digits_are_exact(visit: Visit, tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    schema = "node Thing { code: String @key name: String @index n: U64? url: String? }"
    long, turned = "y" * 100_000, "abc\u202edcba"
    with og.init(path, schema, actor="<b>ines</b>") as graph:
        values = [
            {"code": HOSTILE, "name": HOSTILE, "n": 2**64 - 1},
            {"code": "long", "name": long, "url": "javascript:alert(1)"},
            {"code": turned, "name": turned, "url": "https://example.org/a"},
        ]
        graph.load([{"type": "Thing", "data": value} for value in values], message=HOSTILE)
    with serve_site(path, tmp_path) as site:
        page = visit("reader", site=site)
        query = "query t() { match { $t: Thing } return { $t.code, $t.name, $t.n, $t.url } }"
        entity = f"/entity/node/Thing/{quote(HOSTILE, safe='')}"
        for view in (
            "",
            f"/query?q={quote(query)}",
            "/commits",
            "/changes",
            "/diff?a=v1&b=main",
            "/diff?a=v1&b=main&view=graph",
        ):
            page.goto(site.view(view))
            expect(
                page.get_by_text("<script>").or_(page.locator(".drawing")).locator("visible=true").first
            ).to_be_visible()
        page.goto(site.view(f"/explore?node=Thing/{quote(HOSTILE, safe='')}"))
        expect(page.locator(".drawing")).to_have_attribute("data-nodes", "1")
        page.goto(site.view(entity))
        expect(page.get_by_text(str(2**64 - 1))).to_be_visible()
        page.goto(site.view("/entity/node/Thing/long"))
        expect(page.get_by_role("button", name=re.compile("Show all 100.000 characters"))).to_be_visible()
        assert page.get_by_role("link", name="javascript:alert(1)").count() == 0
        page.goto(site.view(f"/entity/node/Thing/{quote(turned, safe='')}"))
        expect(page.get_by_role("link", name="https://example.org/a")).to_have_attribute("rel", "noopener noreferrer")
        assert page.evaluate("window.broken") is None


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
        page.get_by_role("link", name="OmniGraph").focus()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
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
        _tab_to(
            page,
            page.get_by_role("row", name=re.compile("review.tomas")).get_by_role("link", name="Review", exact=True),
        )
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
    path, port = tell_story(tmp_path / "brain.og"), _free_port()
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
    expect(page.get_by_role("button", name="cleanup now")).to_be_visible()
    page.goto(site.view("/access"))
    expect(page.get_by_role("row", name=re.compile("^schema_apply"))).to_contain_text("yes")
    page.get_by_label("Another actor").fill("act-bot")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("heading", name=re.compile("What act-bot may do"))).to_be_visible()


def test_a_schema_is_planned_and_names_the_queries_it_breaks(site: Site, visit: Visit) -> None:
    page = visit("boss")
    page.goto(site.view("/schema"))
    page.get_by_role("button", name=re.compile("^Reports")).first.press("Enter")
    expect(page.locator(".panel")).to_contain_text("outcome")
    page.get_by_role("button", name="Plan a change…").click()
    page.get_by_label("The new schema").fill((EVIDENCE / "evidence_v2.pg").read_text("utf-8"))
    page.get_by_role("button", name="Show what it means").click()
    expect(page.get_by_text("rename property Trial: enrolled → participants")).to_be_visible()
    expect(page.get_by_text("rewrites all rows").first).to_be_visible()
    expect(page.get_by_text("Stored queries that would break: record_progress")).to_be_visible()


def test_tags_and_branches_are_made_from_a_commit(site: Site, visit: Visit) -> None:
    with og.open(site.graph, "ro") as graph:
        commit = graph.commits()[2].id
    page = visit("curator")
    page.goto(site.view(f"/commits/{commit}"))
    page.get_by_role("button", name="Tag it…").click()
    page.get_by_label("Name of the tag").fill("release-2")
    page.get_by_role("button", name="Create the tag").click()
    expect(page.get_by_text("release-2 is made.")).to_be_visible()
    page.goto(site.view("/tags"))
    page.get_by_role("link", name="release-2").click()
    expect(page.get_by_role("button", name="Back to now")).to_be_visible()
    assert json.dumps([each.name for each in og.open(site.graph, "ro").tags()]) == '["release-1", "release-2"]'
