"""What Lance says only as text: the messages of its errors, and what it prints of a version.

Every Lance and Arrow exception becomes one of ours here. Lance has a type for one exception only, the conflict of an
explicit commit; everything else is an ``OSError``, ``ValueError``, ``RuntimeError`` or a Rust panic whose message says
what happened. ``tests/storage/test_lance_errors.py`` provokes each message, so that a Lance release that rewords one
turns red.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import TracebackType

import pyarrow as pa
from lance.commit import CommitConflictError
from lance.dataset import LanceDataset
from lance.debug import format_manifest, list_transactions

from omnigraph.errors import (
    AlreadyExists,
    HistoryGone,
    InputError,
    NotFound,
    ParameterError,
    PublishContention,
    ReadOnly,
    StorageError,
)


class CommitRefused(Exception):
    """Internal: Lance rejected a commit because of other commits since its pin. No row was changed.

    ``retryable`` is Lance's opinion: the same work, done again on the newer version, may succeed.
    """

    def __init__(self, subject: str, message: str, *, retryable: bool) -> None:
        super().__init__(f"{subject}: {message}")
        self.subject = subject
        self.retryable = retryable


class HeadMoved(Exception):
    """Internal: a commit landed, but not on its pin, so it is based on an unpublished change of another writer."""

    def __init__(self, subject: str, expected: int, actual: int) -> None:
        super().__init__(f"{subject}: the commit was meant to be version {expected} and became {actual}")
        self.subject = subject
        self.expected = expected
        self.actual = actual


class RefsMoved(Exception):
    """Internal: another process deleted a branch while Lance read all refs. Nothing was changed."""


class ExplainedErrors:
    """A block that raises, instead of an error, what a function returns for it.

    Not a generator: every lookup enters one, and a generator takes three calls more.
    """

    __slots__ = ("_explain",)

    def __init__(self, explain: Callable[[BaseException], BaseException]) -> None:
        self._explain = explain

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            found = self._explain(error)
            if found is not error:
                raise found


def translate_errors(subject: str) -> ExplainedErrors:
    """Turn errors of the Lance calls inside the block into our errors, with ``subject`` in their message."""
    return ExplainedErrors(lambda error: translate_raised(error, subject))


def translate_raised(error: BaseException, subject: str) -> BaseException:
    """Return our error for what a Lance call raised, which is its cause; everything else as it is."""
    if isinstance(error, (OSError, ValueError, RuntimeError, pa.ArrowException)):
        found = translate_error(error, subject)
    elif type(error).__name__ == "PanicException":
        # A Rust panic derives from BaseException and its class cannot be imported.
        found = StorageError(f"{subject}: Lance panicked: {_strip_rust_locations(error)}")
    else:
        return error
    found.__cause__ = error
    return found


def translate_error(error: Exception, subject: str) -> Exception:
    """Return our error for an error of Lance or Arrow about ``subject``."""
    text = _strip_rust_locations(error)
    if isinstance(error, CommitConflictError):
        return CommitRefused(subject, text, retryable=error.retryable)
    for pattern, make in _MEANINGS:
        if pattern.search(text):
            return make(subject, text)
    return StorageError(f"{subject}: {text}")


def find_missing_file(error: Exception) -> str | None:
    """Return the file that an error says is not there, as a path below its table."""
    found = _MISSING_FILE.search(str(error))
    return None if found is None else found.group(1)


def _strip_rust_locations(error: BaseException) -> str:
    return _RUST_PLACE.sub("", str(error)).strip()


_MISSING_FILE = re.compile(r"Not found: \S*/(data/[^\s/]+\.lance|_deletions/[^\s/,]+)")
_RUST_PLACE = re.compile(r",?\s*(?:location:\s*)?/[^\s,]*\.rs:\d+:\d+")


def _history_gone(subject: str, text: str) -> Exception:
    hint = "cleanup has removed it, or it was never made"
    return HistoryGone(f"{subject}: that version is not there: {text}", hint=hint)


def _folder_gone(subject: str, text: str) -> Exception:
    del text
    hint = "if nobody deleted it, look at the storage of the graph"
    return NotFound(f"{subject}: the folder went away while a file was written to it", hint=hint)


def _no_dynamodb_table(subject: str, text: str) -> Exception:
    # The text is a dump of the whole response.
    del text
    hint = "create it, with base_uri (string) as partition key and version (number) as sort key"
    return StorageError(f"{subject}: there is no such DynamoDB table", hint=hint)


def _too_fuzzy(subject: str, text: str) -> Exception:
    del subject, text
    return ParameterError("the words are too long to be found with so many edits", hint="use at most 2 edits")


def _read_only(subject: str, text: str) -> Exception:
    return ReadOnly(f"{subject} cannot be written: {text}", hint="open it read-only, or change its permissions")


def _error_of(kind: Callable[[str], Exception]) -> Callable[[str, str], Exception]:
    return lambda subject, text: kind(f"{subject}: {text}")


def _build_refusal(*, retryable: bool) -> Callable[[str, str], Exception]:
    return lambda subject, text: CommitRefused(subject, text, retryable=retryable)


# The first match decides: Lance also calls a missing version a missing dataset.
_MEANINGS: tuple[tuple[re.Pattern[str], Callable[[str, str], Exception]], ...] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (r"^Too many concurrent writers", _error_of(PublishContention)),
        (r"^Retryable commit conflict|^Commit conflict", _build_refusal(retryable=True)),
        (r"^Incompatible transaction", _build_refusal(retryable=False)),
        (r"^Dataset already exists", _error_of(AlreadyExists)),
        # Lance's error if the storage of a branch exists already: it checks the ref too late.
        (r"Clone operation should not enter build_manifest", _error_of(AlreadyExists)),
        (r"^(Dataset at path .*|Not found: \S*)\.manifest( was not found|$)", _history_gone),
        # Lance saw the file of the version, and it was removed before Lance read it.
        (r"^LanceError\(IO\): Generic N/A error: Not found: \S*/_versions/\S+\.manifest$", _history_gone),
        (r"failed to persist temp file to .*\(os error 2\)", _folder_gone),
        (r"^Dataset at path .* was not found|^Not found: \S*_versions$|^Ref not found", _error_of(NotFound)),
        (r"^Not found: \S*/_refs/branches/\S+\.json", _error_of(RefsMoved)),
        (r"^LanceError\(IO\): WrappedSdkError.*ResourceNotFoundException", _no_dynamodb_table),
        (r"^Ref conflict error", _error_of(InputError)),
        (
            r"^Ref is invalid|^Invalid user input|Ambiguous merge insert|^Append with different schema",
            _error_of(ParameterError),
        ),
        (r"Levenshtein automaton exceeds", _too_fuzzy),
        (r"\(os error (1|13|30)\)", _read_only),
    )
)


# --------------------------------------------------------------------------------------------- printed texts


def print_transaction(dataset: LanceDataset, version: int) -> tuple[str | None, str | None]:
    """Return the operation and the uuid of the transaction that made a version, as far as they are printed."""
    printed = list_transactions(dataset.checkout_version(version), 1)[0]
    operation, uuid = re.search(r"operation: (\w+)", printed), re.search(r'uuid: "([^"]+)"', printed)
    return operation and operation.group(1), uuid and uuid.group(1)


def print_highest_fragment_id(dataset: LanceDataset) -> int | None:
    """Return the greatest fragment id that the dataset ever had, in use or not."""
    found = re.search(r"max_fragment_id: Some\(\s*(\d+)", format_manifest(dataset))
    return None if found is None else int(found.group(1))
