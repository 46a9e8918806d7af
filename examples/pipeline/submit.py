"""The command line as a program for ``spark-submit``, which takes no programs but those that end with ``.py``."""

import sys

from omnigraph.cli.app import main

sys.exit(main())
