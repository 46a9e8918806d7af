"""``python -m omnigraph``: the command line where the console script is not on the path."""

from __future__ import annotations

import sys

from omnigraph.cli.app import main

sys.exit(main())
