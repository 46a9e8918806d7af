"""The one assertion of the Lance release.

This room reads files, pickles, printed texts and error messages whose form Lance may change in any release. With a
release that it does not know, a graph could be damaged without a word: so it refuses to work.
"""

from __future__ import annotations

import logging
from typing import Final

from omnigraph.errors import Unsupported

_log = logging.getLogger("omnigraph")

TESTED: Final = frozenset({(14, 0)})
"""The releases of pylance, by major and minor number, that ``tests/storage`` and ``tests/substrate`` passed with."""


def refuse_untested_lance(version: str) -> None:
    """Refuse a release of another major number; warn of a minor one that is newer than the tests.

    ``pyproject.toml`` allows every minor release of the tested major one, and an installer may bring one.
    """
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    release = (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
    if release in TESTED:
        return
    tested = ", ".join(f"{a}.{b}" for a, b in sorted(TESTED))
    if release is None or release[0] not in {a for a, _ in TESTED}:
        majors = sorted({a for a, _ in TESTED})
        raise Unsupported(
            f"pylance {version} is installed; this release of omnigraph works with {tested}",
            hint=f"pip install 'pylance>={majors[0]},<{majors[-1] + 1}'",
            details={"installed": version, "tested": tested},
        )
    _log.warning("pylance %s is newer than the releases that omnigraph was tested with (%s)", version, tested)
