"""Defaults of public calls. They stand here because the signatures need them before the verbs are imported."""

from __future__ import annotations

from typing import Final

COMMITS_TO_KEEP: Final = 10
"""How many of the newest commits of each branch cleanup keeps."""
MUTATION_RETRIES: Final = 3
"""How often a mutation is run again if other writers change what it read or writes, as a load is checked again."""
TEXTS_PER_EMBEDDING_CALL: Final = 1_000
