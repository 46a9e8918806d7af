"""What Spark raises, as errors of ours."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from omnigraph.errors import NotFound, OmniGraphError, StorageError

_MISSING: Final = "PATH_NOT_FOUND"
_OURS: Final = re.compile(r"^omnigraph\.errors\.\w+: (.+)$", re.MULTILINE)


@contextmanager
def translate_spark_errors(activity: str) -> Generator[None]:
    """The one place where a failure of Spark becomes an error of ours."""
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


def _to_storage_error(doing: str, error: Exception) -> OmniGraphError:
    text = str(error)
    ours = _OURS.findall(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = ours[-1] if ours else (lines[0] if lines else type(error).__name__)
    return StorageError(f"{doing} failed on Spark: {reason}", hint="the log of Spark says more; nothing was changed")
