"""The Lance transaction specification as a table that runs: who may commit after whom.

Two operations are staged on the same version; the first is committed, then the second meets it. ``SPECIFICATION``
says what the published text promises, ``DEVIATIONS`` what the installed Lance does otherwise. Both are the subject
of ``docs/reference/lance-transactions.md``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.substrate.operations import (
    Outcome,
    Stage,
    appending,
    commit,
    configuring,
    deleting,
    indexing,
    merging,
    outcome,
    overwriting,
    projecting,
    replacing,
    restoring,
    rewriting,
    two_fragments,
    updating,
)

COMPATIBLE, REBASED, RETRYABLE, INCOMPATIBLE = Outcome
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "lance-transactions.md"

# Each operation as the first and as the second committer. The two deletes and the two updates touch
# different rows of one fragment; all others touch the same things.
OPERATIONS: dict[str, tuple[Stage, Stage]] = {
    "Append": (appending("e"), appending("f")),
    "Delete": (deleting(0, "a"), deleting(0, "b")),
    "Overwrite": (overwriting, overwriting),
    "CreateIndex": (indexing("v"), indexing("v")),
    "Rewrite": (rewriting, rewriting),
    "Merge": (merging(preserves_nullability=False), merging(preserves_nullability=False)),
    "Project": (projecting(preserves_nullability=True), projecting(preserves_nullability=True)),
    "Restore": (restoring, restoring),
    "Update": (updating("a"), updating("b")),
    "UpdateConfig": (configuring("k"), configuring("k")),
    "DataReplacement": (replacing(0, "v"), replacing(0, "v")),
}

# By the operation that is being committed, the outcome after each operation that was committed first.
# What is not listed is compatible.
SPECIFICATION: dict[str, dict[str, Outcome]] = {
    "Append": {"Overwrite": INCOMPATIBLE, "Restore": INCOMPATIBLE},
    "Delete": {
        "Overwrite": INCOMPATIBLE,
        "Restore": INCOMPATIBLE,
        "Merge": RETRYABLE,
        "Rewrite": RETRYABLE,
        "DataReplacement": RETRYABLE,
        "Delete": REBASED,
        "Update": REBASED,
    },
    "Overwrite": {"Overwrite": RETRYABLE},
    "CreateIndex": {"Overwrite": INCOMPATIBLE, "Restore": INCOMPATIBLE, "DataReplacement": RETRYABLE},
    "Rewrite": {
        "Overwrite": INCOMPATIBLE,
        "Restore": INCOMPATIBLE,
        "Merge": RETRYABLE,
        "DataReplacement": RETRYABLE,
        "Delete": RETRYABLE,
        "Update": RETRYABLE,
        "Rewrite": RETRYABLE,
    },
    "Merge": {
        "Overwrite": INCOMPATIBLE,
        "Restore": INCOMPATIBLE,
        "Project": INCOMPATIBLE,
        "Update": RETRYABLE,
        "Append": RETRYABLE,
        "Delete": RETRYABLE,
        "Merge": RETRYABLE,
        "Rewrite": RETRYABLE,
        "DataReplacement": RETRYABLE,
    },
    "Project": {"Overwrite": INCOMPATIBLE, "Restore": INCOMPATIBLE, "Project": RETRYABLE, "Merge": RETRYABLE},
    "Restore": {},
    "Update": {
        "Overwrite": INCOMPATIBLE,
        "Restore": INCOMPATIBLE,
        "Rewrite": RETRYABLE,
        "DataReplacement": RETRYABLE,
        "Merge": RETRYABLE,
        "Delete": REBASED,
        "Update": REBASED,
    },
    "UpdateConfig": {"Overwrite": INCOMPATIBLE, "UpdateConfig": INCOMPATIBLE},
    "DataReplacement": {
        "Overwrite": INCOMPATIBLE,
        "Restore": INCOMPATIBLE,
        "DataReplacement": RETRYABLE,
        "CreateIndex": RETRYABLE,
        "Rewrite": RETRYABLE,
        "Update": RETRYABLE,
        "Merge": RETRYABLE,
    },
}

# The "only if" clauses: (being committed, committed first) that touch less of each other, or more.
CLAUSES: dict[tuple[str, str], tuple[Stage, Stage, Outcome]] = {
    ("Delete", "Delete of the same row"): (deleting(0, "a"), deleting(0, "a"), RETRYABLE),
    ("Delete", "Delete in another fragment"): (deleting(1, "c"), deleting(0, "a"), COMPATIBLE),
    ("Delete", "Update in another fragment"): (updating("c"), deleting(0, "a"), COMPATIBLE),
    ("Delete", "DataReplacement in another fragment"): (replacing(1, "v"), deleting(0, "a"), COMPATIBLE),
    ("Update", "Update of the same row"): (updating("a"), updating("a"), RETRYABLE),
    ("Update", "Update in another fragment"): (updating("c"), updating("a"), COMPATIBLE),
    ("Update", "DataReplacement in another fragment"): (replacing(1, "v"), updating("a"), COMPATIBLE),
    ("Update that only inserts", "Rewrite"): (rewriting, updating("n"), COMPATIBLE),
    ("Update that only inserts", "Update that inserts the same row"): (updating("n"), updating("n"), COMPATIBLE),
    ("CreateIndex", "CreateIndex of another column"): (indexing("w"), indexing("v"), COMPATIBLE),
    ("CreateIndex", "DataReplacement of another column"): (replacing(0, "w"), indexing("v"), COMPATIBLE),
    ("UpdateConfig", "UpdateConfig of another key"): (configuring("j"), configuring("k"), COMPATIBLE),
    ("DataReplacement", "DataReplacement of another column"): (replacing(0, "w"), replacing(0, "v"), COMPATIBLE),
    ("DataReplacement", "DataReplacement in another fragment"): (replacing(1, "v"), replacing(0, "v"), COMPATIBLE),
    ("DataReplacement", "Update in another fragment"): (updating("c"), replacing(0, "v"), COMPATIBLE),
    ("DataReplacement", "Project without its column"): (
        projecting(preserves_nullability=True),
        replacing(0, "w"),
        COMPATIBLE,
    ),
    ("Append", "Merge of nullable columns"): (merging(preserves_nullability=True), appending("e"), COMPATIBLE),
    ("Append", "Project of unknown nullability"): (projecting(preserves_nullability=False), appending("e"), COMPATIBLE),
}

# What the installed Lance does where the specification says otherwise.
DEVIATIONS: dict[tuple[str, str], Outcome] = {
    ("Append", "Merge"): RETRYABLE,
    ("Append", "Project of unknown nullability"): RETRYABLE,
    ("Delete", "Delete"): RETRYABLE,
    ("Delete", "Update"): RETRYABLE,
    ("Update", "Delete"): RETRYABLE,
    ("Update", "Update"): RETRYABLE,
    ("CreateIndex", "CreateIndex"): RETRYABLE,
    ("CreateIndex", "Rewrite"): RETRYABLE,
    ("Rewrite", "CreateIndex"): RETRYABLE,
    ("UpdateConfig", "Overwrite"): COMPATIBLE,
    ("DataReplacement", "Project without its column"): INCOMPATIBLE,
}


def promised(second: str, first: str) -> Outcome:
    if (second, first) in CLAUSES:
        return CLAUSES[second, first][2]
    return SPECIFICATION[second].get(first, COMPATIBLE)


@pytest.mark.parametrize("first", OPERATIONS)
@pytest.mark.parametrize("second", OPERATIONS)
def test_what_the_second_committer_meets(tmp_path: Path, second: str, first: str) -> None:
    met = outcome(tmp_path / "t", OPERATIONS[first][0], OPERATIONS[second][1])
    assert met == DEVIATIONS.get((second, first), promised(second, first))


@pytest.mark.parametrize("pair", CLAUSES, ids=" after ".join)
def test_what_the_second_committer_meets_when_less_or_more_overlaps(tmp_path: Path, pair: tuple[str, str]) -> None:
    first, second, _ = CLAUSES[pair]
    assert outcome(tmp_path / "t", first, second) == DEVIATIONS.get(pair, promised(*pair))


def test_a_deviation_is_one() -> None:
    assert [pair for pair, seen in DEVIATIONS.items() if seen == promised(*pair)] == []


def test_the_page_lists_the_table_and_the_deviations() -> None:
    text = PAGE.read_text()
    for second, first in DEVIATIONS:
        row = f"| {second} | {first} | {promised(second, first)} | {DEVIATIONS[second, first]} |"
        assert row in text, row
    for second, after in SPECIFICATION.items():
        cells = (
            ", ".join(name for name in OPERATIONS if after.get(name) is kind) or "none"
            for kind in (REBASED, RETRYABLE, INCOMPATIBLE)
        )
        row = f"| {second} | {' | '.join(cells)} |"
        assert row in text, row


@pytest.mark.parametrize("second", [name for name in OPERATIONS if name != "Overwrite"])
def test_no_retries_does_not_mean_that_head_must_stand_still(tmp_path: Path, second: str) -> None:
    dataset = two_fragments(tmp_path / "t")
    first, later = configuring("other")(dataset), OPERATIONS[second][1](dataset)
    commit(dataset, first)
    assert commit(dataset, later, max_retries=0).version == dataset.version + 2
