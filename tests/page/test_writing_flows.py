"""Edit, decide by a value, load, tag and plan a schema, in a browser: flows 8 and 9, and what stands beside them."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

import omnigraph as og
from tests.page.conftest import PATIENCE, RETITLE, Site, Visit, free_port, serve_site, write_into
from tests.page.story import EVIDENCE, tell_story

pytest.importorskip("playwright")
from playwright.sync_api import Route, expect

pytestmark = pytest.mark.slow
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def site(story_site: Site) -> Site:
    return story_site


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
    path, port = tell_story(tmp_path / "brain.og"), free_port()
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


# Tags, branches and the schema.


def test_a_schema_is_planned_and_names_the_queries_it_breaks(site: Site, visit: Visit) -> None:
    page = visit("boss")
    page.goto(site.view("/schema"))
    page.get_by_role("button", name=re.compile("^Reports")).first.press("Enter")
    expect(page.locator(".panel")).to_contain_text("outcome")
    page.locator(".panel").get_by_role("button", name="Paper").click()
    expect(page.locator(".panel")).to_contain_text("implementsReviewed")
    page.get_by_role("button", name="Plan a change…").click()
    write_into(page, "The new schema", "node Trial { code: Strin @key }")
    # What is wrong is marked where it is, and what goes stays in view.
    expect(page.locator(".cm-lintRange-error")).to_be_visible()
    expect(page.locator(".cm-deletedChunk").first).to_contain_text("An evidence base")
    write_into(page, "The new schema", (EVIDENCE / "evidence_v2.pg").read_text("utf-8"))
    expect(page.locator(".cm-deletedChunk").filter(has_text="enrolled: U32?")).to_be_attached()
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
    with og.open(site.graph, "ro") as graph:
        tags = {each.name: each.commit for each in graph.tags()}
    assert set(tags) == {"release-1", "release-2"}
    assert tags["release-2"] == commit


# What belongs to one thing is not shown for another.


def test_a_form_and_a_question_stay_with_what_they_are_about(site: Site, visit: Visit) -> None:
    with og.open(site.graph, actor="act-ines") as graph:
        for name in ("gone/a", "gone/b"):
            graph.create_branch(name)
    page = visit("curator")
    page.goto(site.view("/entity/node/Trial/tri-105"))
    page.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Edit").get_by_label(re.compile("^title"))).to_be_visible()
    page.locator("details").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="Paper")).to_be_visible()
    expect(page.get_by_label("Edit").get_by_role("button", name="Cancel")).to_have_count(0)
    page.goto(site.view("/branches"))
    page.get_by_role("button", name="Delete gone/a").click()
    page.get_by_role("button", name="Delete gone/a").click()
    expect(page.get_by_role("rowheader", name="gone/a")).to_have_count(0)
    # The question about the first one is not asked about the one that took its row.
    expect(page.get_by_role("button", name="Delete gone/b")).to_have_text("Delete…")


def test_the_bar_follows_what_the_page_itself_writes(site: Site, visit: Visit) -> None:
    with og.open(site.graph, actor="act-ines") as graph:
        graph.mutate(RETITLE, params={"trial": "tri-108", "title": "a slip"}, message="a slip")
        slip = graph.commits()[0].id
    page = visit("curator")
    page.goto(site.view(f"/commits/{slip}"))
    page.get_by_role("button", name="Take this commit back").click()
    page.get_by_role("button", name="Take it back").click()
    expect(page.get_by_role("group", name="Moment")).to_contain_text("Revert")
    expect(page.get_by_role("heading", name=re.compile("^Revert"))).to_be_visible()
    # The preview was of the other commit.
    expect(page.get_by_text("Nothing is erased")).to_have_count(0)


def test_a_branch_whose_answer_is_lost_is_made_once(site: Site, visit: Visit) -> None:
    page = visit("curator")
    keys: list[str | None] = []

    def lose_first(route: Route) -> None:
        keys.append(route.request.headers.get("idempotency-key"))
        if len(keys) == 1:
            # The server does it, and nobody hears of it.
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.goto(site.view("/branches"))
    page.get_by_label("New branch").fill("review/lost")
    page.route(
        re.compile("/graphs/brain/branches$"),
        lambda route: lose_first(route) if route.request.method == "POST" else route.continue_(),
    )
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_role("rowheader", name="review/lost")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert len(keys) == 2
    assert keys[0] is not None
    assert keys[0] == keys[1]
    # A name that is taken is told, and another one is another write.
    page.get_by_label("New branch").fill("review/lost")
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_role("alert")).to_contain_text("review/lost")
    page.get_by_label("New branch").fill("review/found")
    page.get_by_role("button", name="Create the branch").click()
    expect(page.get_by_role("rowheader", name="review/found")).to_be_visible()
    assert len(set(keys)) == 3
