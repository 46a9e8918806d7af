"""The evidence base as two curators have kept it for a while: what the page shows in screenshots and in long flows."""

from __future__ import annotations

import shutil
from pathlib import Path

import omnigraph as og

EVIDENCE = Path(__file__).parent.parent.parent / "examples" / "evidence"
CHECKS = """\
query check_trials_without_compound()
  @description("Every trial tests at least one compound")
{
  match { $t: Trial
          not { $t tests $_ } }
  return { $t.code, $t.title }
}

query check_completed_trials_are_reviewed()
  @description("A completed trial was reviewed by somebody")
{
  match { $t: Trial
          $t.status = "completed"
          $t.reviewed_by is null }
  return { $t.code, $t.title }
}
"""


def write_queries(folder: Path) -> Path:
    """Write the stored queries of the example, and two checks, into a folder of their own."""
    folder.mkdir()
    for name in ("questions.gq", "curation.gq"):
        shutil.copy(EVIDENCE / name, folder / name)
    (folder / "checks.gq").write_text(CHECKS, "utf-8")
    return folder


def tell_story(path: Path) -> Path:
    """Make the graph: a month of curation on main, a tag, and two reviews that conflict in one trial."""
    with og.init(path, EVIDENCE / "evidence.pg", actor="act-ines") as graph:
        graph.load(EVIDENCE / "evidence.jsonl", message="the evidence so far")
        graph.create_tag("release-1")
        curation = EVIDENCE / "curation.gq"
        progress = (
            ("tri-104", "recruiting", 355, "act-tomas"),
            ("tri-106", "recruiting", 96, "act-ines"),
            ("tri-104", "recruiting", 480, "act-tomas"),
        )
        for trial, status, enrolled, actor in progress:
            row = graph.get("Trial", trial)
            assert row is not None
            params = {"trial": trial, "status": status, "started": row["started"], "enrolled": enrolled}
            message = f"{trial}: {enrolled} people enrolled"
            graph.mutate(curation, "record_progress", params, message=message, actor=actor)
        paper = {
            "code": "pap-020",
            "title": "Sirolane in gout: a letter",
            "abstract": "Enrolment goes as planned; no safety signal so far.",
            "published": "2024-04-02",
            "trial": "tri-104",
            "outcome": "mixed",
        }
        graph.mutate(curation, "add_paper", paper, message="a letter about tri-104", actor="act-tomas")
        graph.mutate(
            curation, "cite", {"paper": "pap-020", "cited": "pap-010"}, message="what it builds on", actor="act-tomas"
        )
        graph.create_branch("review/ines")
        graph.create_branch("review/tomas")
        for name in ("ines", "tomas"):
            graph.load(
                EVIDENCE / f"branch_{name}.jsonl",
                mode="merge",
                branch=f"review/{name}",
                message=f"the review of {name}",
                actor=f"act-{name}",
            )
        graph.mutate(
            curation,
            "retract_paper",
            {"paper": "pap-005"},
            branch="review/tomas",
            message="pap-005 was retracted",
            actor="act-tomas",
        )
        graph.merge("review/ines", message="merge the review of ines", actor="act-ines")
    return path
