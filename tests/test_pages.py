"""Pages stay true to each other: every link leads somewhere, what is missing is said in one place, lines are short."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
FENCED = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
OPEN_WORK = re.compile(r"not yet|not there yet|still to come|in a later release|for now\b|coming soon", re.IGNORECASE)
LONGEST = 160
GENERATED = {"api.md", "commands.md", "errors.md", "licences.md"}
# The pages that say what is missing. Everything else describes what is there.
SAY_WHAT_IS_MISSING = {"docs/how-to/page.md"}


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page as the site makes them; a second heading of one name gets a number."""
    found: set[str] = set()
    for heading in HEADING.findall(
        re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        base = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())
        name, number = base, 0
        while name in found:
            number += 1
            name = f"{base}_{number}"
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    dead: list[str] = []
    for link in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_there = target.exists() and target.is_relative_to(ROOT)
        if not is_there or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            dead.append(link)
    assert dead == []


def test_pages_outside_the_site_are_not_linked_from_it() -> None:
    docs = ROOT / "docs"
    leaving = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in docs.rglob("*.md")
        for link in LINK.findall(FENCED.sub("", page.read_text("utf-8")))
        if not re.match(r"https?:|#", link)
        and not (page.parent / link.partition("#")[0]).resolve().is_relative_to(docs)
    ]
    assert leaving == []


def test_what_is_missing_is_said_on_few_pages() -> None:
    """A page that says "not yet" is stale the day the thing is there: whoever builds it finds the page here."""
    found = {
        str(page.relative_to(ROOT))
        for page in PAGES
        if page.name != "CHANGELOG.md" and OPEN_WORK.search(FENCED.sub("", page.read_text("utf-8")))
    }
    assert found <= SAY_WHAT_IS_MISSING


def test_no_line_of_a_source_is_long() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyi", "*.gq", "*.pg", "*.yaml", "*.sh", "Makefile"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    long = [
        f"{name}:{number}"
        for name in listed
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), 1)
        if len(line.partition("  # pyright:")[0]) > LONGEST
        and "tests/language/layouts" not in name
        and "tests/cases" not in name
    ]
    assert long == []


def test_no_line_of_prose_is_long() -> None:
    """Tables, code and the pages that are generated are as wide as they are."""
    long = [
        f"{page.relative_to(ROOT)}: {line[:60]}"
        for page in PAGES
        if page.name not in GENERATED
        for line in FENCED.sub("", page.read_text("utf-8")).splitlines()
        if len(line) > LONGEST and not line.lstrip().startswith("|")
    ]
    assert long == []
