"""What ``make demo`` shows: the main job end to end on an embedded local Spark, then a graph that is kept by hand.

Everything is made in a folder that is gone afterwards; ``--keep FOLDER`` keeps it, to look around. ``--small`` makes a
few hundred rows instead of a few hundred thousand.
"""

from __future__ import annotations

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import demo_evidence
import demo_harbour
from demo_page import Clock
from pipeline.make_raw import LARGE, SMALL


def main() -> None:
    """Both parts, and how long they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a few hundred rows only")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="where to make everything, and leave it")
    given = parser.parse_args()
    clock = Clock()
    with workplace(given.keep) as folder:
        with demo_harbour.local_spark(folder / "spark.log", clock) as session:
            demo_harbour.tour(folder, session, SMALL if given.small else LARGE, clock)
        with clock.step("A graph that is kept by hand, without Spark"):
            demo_evidence.walk(folder)
    clock.summary()


@contextmanager
def workplace(keep: Path | None) -> Generator[Path]:
    """An empty folder: one that is named and stays, or one that goes."""
    if keep is None:
        with TemporaryDirectory(prefix="omnigraph-demo-") as folder:
            yield Path(folder)
        return
    keep.mkdir(parents=True)
    yield keep
    print(f"\nEverything is in {keep}; begin with: omnigraph commit list --branch load/june -g {keep / 'harbour.og'}")


if __name__ == "__main__":
    main()
