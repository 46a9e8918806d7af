"""The session of an agent on the page about agents is what the example prints, over stdin and stdout."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import omnigraph

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "examples" / "evidence"
COMMIT = re.compile(r"\b01[0-9A-Z]{24}\b")


def test_the_transcript_is_what_the_example_prints(tmp_path: Path) -> None:
    path = tmp_path / "brain.og"
    omnigraph.init(path, EVIDENCE / "evidence.pg").load(EVIDENCE / "evidence.jsonl")
    command = [sys.executable, str(ROOT / "examples" / "server" / "agent_session.py"), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "how-to" / "agents.md").read_text()
    transcript = page.split("```text\n")[1].split("```")[0]
    assert COMMIT.sub("01...", ran.stdout).strip() == transcript.strip()
