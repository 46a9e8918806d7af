"""The client of an embedding server: ``POST {url}/embeddings``, in batches, with retries.

Status 429, server errors, timeouts and broken connections are retried after a pause that doubles, or that the server
asks for, but never beyond the deadline of the call. The API key is sent and never shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime
from typing import Final, NoReturn, cast

import httpx
import numpy as np
import numpy.typing as npt
import orjson

from omnigraph.errors import EmbeddingError, ParameterError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.search.embedding import EmbeddingSettings

_TOO_MANY: Final = 429
_SERVER_ERRORS: Final = 500
_OK: Final = 200
_SHOWN_BYTES: Final = 200


class _RetryableError(Exception):
    """A failure that a retry may mend; ``after`` is the pause that the server asks for, in seconds."""

    def __init__(self, message: str, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class HttpClient:
    """A client of a server with the embeddings endpoint of the OpenAI API."""

    settings: EmbeddingSettings

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        """Return one vector for each text. One deadline applies to all requests of this call."""
        deadline = time.monotonic() + self.settings.deadline
        size = self.settings.batch
        found: list[npt.NDArray[np.float64]] = []
        with httpx.Client(headers=self._headers()) as client:
            for begin in range(0, len(texts), size):
                batch = list(texts[begin : begin + size])
                body = {"model": model, "input": batch, "dimensions": dimension, "encoding_format": "float"}
                found += _parse_vectors(self._post_with_retries(client, orjson.dumps(body), deadline), len(batch))
        return found

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json"}
        if self.settings.api_key:
            headers["Authorization"] = f"Bearer {self.settings.api_key}"
        return headers

    def _post_with_retries(self, client: httpx.Client, body: bytes, deadline: float) -> bytes:
        pause = self.settings.backoff
        for attempt in range(1, self.settings.attempts + 1):
            try:
                return self._post(client, body, deadline)
            except _RetryableError as error:
                wait = pause if error.after is None else error.after
                if attempt == self.settings.attempts:
                    self._fail(f"{error}, {attempt} times")
                if time.monotonic() + wait >= deadline:
                    self._fail(f"{error}, and the deadline of {self.settings.deadline:g} s leaves no time to retry")
            time.sleep(wait)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    def _post(self, client: httpx.Client, body: bytes, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        try:
            # The timeout of httpx applies to each read: a server that trickles is stopped by `_read_until`.
            with client.stream(
                "POST", self._endpoint, content=body, timeout=max(0.001, min(self.settings.timeout, left))
            ) as response:
                ends = min(deadline, time.monotonic() + self.settings.timeout)
                answer = b"".join(_read_until(response, ends))
        except httpx.TimeoutException:
            raise _RetryableError("it did not answer in time") from None
        except httpx.TransportError as error:
            raise _RetryableError(f"it cannot be reached: {error}") from None
        except httpx.HTTPError as error:
            self._fail(f"the request could not be made: {error}")
        if response.status_code == _TOO_MANY or response.status_code >= _SERVER_ERRORS:
            raise _RetryableError(f"it answered {response.status_code}", _retry_after(response))
        if response.status_code != _OK:
            self._fail(f"it answered {response.status_code}: {answer[:_SHOWN_BYTES].decode(errors='replace')}")
        return answer

    @property
    def _endpoint(self) -> httpx.URL:
        """The URL with ``/embeddings`` added to its path; a query string is kept."""
        assert self.settings.url is not None
        try:
            url = httpx.URL(self.settings.url)
        except httpx.InvalidURL as error:
            raise ParameterError(f"the embedding URL is not valid: {error}", hint="set OMNIGRAPH_EMBED_URL") from None
        return url.copy_with(path=f"{url.path.rstrip('/')}/embeddings")

    def _fail(self, what: str) -> NoReturn:
        """Raise an error with the URL, without the key, a password or the query string of the URL."""
        message = f"embedding by {self._endpoint.copy_with(userinfo=b'', query=None)} failed: {what}"
        if self.settings.api_key:
            message = message.replace(self.settings.api_key, "***")
        hint = "check OMNIGRAPH_EMBED_URL and the server, then try again"
        raise EmbeddingError(message, hint=hint) from None


def _read_until(response: httpx.Response, ends: float) -> list[bytes]:
    pieces: list[bytes] = []
    for piece in response.iter_bytes():
        pieces.append(piece)
        if time.monotonic() > ends:
            raise _RetryableError("it did not finish its answer in time")
    return pieces


def _retry_after(response: httpx.Response) -> float | None:
    """The pause that the server asks for, as seconds or as a date; None if it does not."""
    text = response.headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _parse_vectors(answer: bytes, count: int) -> list[npt.NDArray[np.float64]]:
    """Return the vectors of an answer in the order of the texts; the answer may have another order."""
    try:
        entries = cast("list[dict[str, object]]", orjson.loads(answer)["data"])
        by_index = {cast(int, each["index"]): np.array(each["embedding"], np.float64) for each in entries}
        return [by_index[at] for at in range(count)]
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        shown = answer[:_SHOWN_BYTES].decode(errors="replace")
        raise EmbeddingError(f"the provider's answer holds no list of {count} embeddings: {shown}") from error
