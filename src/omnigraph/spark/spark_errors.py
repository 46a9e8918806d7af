"""Translate errors of Spark to errors of OmniGraph."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import NotFound, OmniGraphError, StorageError

_MISSING: Final = "PATH_NOT_FOUND"
_OWN_ERROR: Final = re.compile(r"^omnigraph\.errors\.\w+: (.+)$", re.MULTILINE)


@contextmanager
def translate_spark_errors(activity: str) -> Generator[None]:
    """Raise errors of Spark from the block as errors of OmniGraph. ``activity`` says what failed."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if error.getCondition() == _MISSING:
            path = (error.getMessageParameters() or {}).get("path", "")
            raise NotFound(f"there is no file '{path.removeprefix('file:')}'") from error
        raise _to_storage_error(activity, error) from error
    except Py4JError as error:
        raise _to_storage_error(activity, error) from error


def _to_storage_error(activity: str, error: Exception) -> OmniGraphError:
    text = str(error)
    own = _OWN_ERROR.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = own[-1] if own else (lines[0] if lines else type(error).__name__)
    return StorageError(f"{activity} failed on Spark: {reason}", hint="see the log of Spark; nothing was changed")
