"""Embed texts as vectors: settings, providers, and the checks of what a provider returns.

``openai-compatible`` calls a server; ``mock`` computes deterministic vectors without a network. A vector of the wrong
dimension, of zeros, or with a value that is not finite is refused. All others are scaled to length 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, ParameterError
from omnigraph.language.source import suggest_similar
from omnigraph.lazy_dataclass import dataclass

OPENAI_COMPATIBLE: Final = "openai-compatible"
MOCK: Final = "mock"
_PREFIX: Final = "OMNIGRAPH_EMBED_"
_FROM_ENVIRONMENT: Final = ("provider", "url", "model", "api_key", "timeout")

Vectors: TypeAlias = npt.NDArray[np.float32]
"""A matrix with one vector of length 1 in each row."""


class EmbeddingClient(Protocol):
    """A provider of embeddings."""

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        """Return one vector for each text, as the provider computes it."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """How texts are embedded. ``timeout`` limits one request, ``deadline`` one call with its retries, in seconds."""

    provider: str
    url: str | None = None
    model: str | None = None
    # Secret: never printed.
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    deadline: float = 120.0
    batch: int = 128
    """The number of texts in one request."""
    attempts: int = 5
    backoff: float = 0.5
    """The pause before the first retry in seconds; it doubles with each retry."""

    def __post_init__(self) -> None:
        if self.provider not in (OPENAI_COMPATIBLE, MOCK):
            hint = f"use {OPENAI_COMPATIBLE} or {MOCK}"
            raise ParameterError(f"the embedding provider is {self.provider!r}", hint=hint)
        if self.provider == OPENAI_COMPATIBLE and not self.url:
            hint = f"set {_PREFIX}URL, such as https://host/v1"
            raise ParameterError(f"the provider {OPENAI_COMPATIBLE} needs a URL", hint=hint)
        _check_number("timeout", self.timeout, above=0)
        _check_number("deadline", self.deadline, above=0)
        _check_number("backoff", self.backoff, above=0)
        _check_number("batch", self.batch, above=0, whole=True)
        _check_number("attempts", self.attempts, above=0, whole=True)


def resolve_embedding_settings(
    given: EmbeddingSettings | Mapping[str, object] | None, environment: Mapping[str, str] | None = None
) -> EmbeddingSettings:
    """Return the given settings, or those of the environment variables ``OMNIGRAPH_EMBED_*``."""
    if isinstance(given, EmbeddingSettings):
        return given
    if given is None:
        return _read_environment(os.environ if environment is None else environment)
    names = [each.name for each in fields(EmbeddingSettings)]
    unknown = [name for name in given if name not in names]
    if unknown:
        hint = suggest_similar(unknown[0], names) or f"the settings are {', '.join(names)}"
        raise ParameterError(f"embeddings have no setting '{unknown[0]}'", hint=hint)
    if "provider" not in given:
        raise ParameterError("the embedding provider is missing", hint=f"use {OPENAI_COMPATIBLE} or {MOCK}")
    for name in ("url", "model", "api_key"):
        if not isinstance(given.get(name), str | None):
            raise ParameterError(f"the {name} of embeddings is not a text", hint="give a text")
    # Numbers are checked by the constructor.
    construct = cast("Callable[..., EmbeddingSettings]", EmbeddingSettings)
    return construct(**given)


def _read_environment(environment: Mapping[str, str]) -> EmbeddingSettings:
    texts = {name: environment.get(f"{_PREFIX}{name.upper()}", "") for name in _FROM_ENVIRONMENT}
    given: dict[str, object] = {name: text for name, text in texts.items() if text}
    if "provider" not in given:
        raise EmbeddingError(
            "a text must be embedded, but no embedding provider is set",
            hint=f"set {_PREFIX}PROVIDER to {OPENAI_COMPATIBLE} or {MOCK}, or open the graph with embed=",
        )
    if "timeout" in given:
        # A text that is not a number is refused below.
        with suppress(ValueError):
            given["timeout"] = float(texts["timeout"])
    return resolve_embedding_settings(given)


def _check_number(name: str, value: object, above: float, *, whole: bool = False) -> None:
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not above < cast(float, value) < np.inf:
        expected = "a whole number" if whole else "a number"
        raise ParameterError(f"the {name} of embeddings is {value!r}", hint=f"give {expected} above 0")


# --------------------------------------------------------------------------------------------- one model


@dataclass(frozen=True, slots=True)
class Embedder:
    """An embedding provider and the model to use."""

    client: EmbeddingClient
    model: str | None

    def vectors(self, texts: Sequence[str], dimension: int) -> Vectors:
        """Return one vector of length 1 for each text."""
        if not texts:
            return np.zeros((0, dimension), np.float32)
        return _normalize(self.client.embed(texts, dimension, self.model), len(texts), dimension)


def create_embedder(settings: EmbeddingSettings | None, recorded: str | None) -> Embedder:
    """Create the embedder of a property; ``recorded`` is the model of its ``@embed``. Default settings: environment."""
    settings = resolve_embedding_settings(settings)
    if recorded is not None and settings.model not in (None, recorded):
        raise EmbeddingError(
            f"the vectors were made by the model '{recorded}', but the provider is set to '{settings.model}'",
            hint=f"set {_PREFIX}MODEL to {recorded}, or leave it out",
            details={"recorded": recorded, "configured": settings.model},
        )
    settings = replace(settings, model=settings.model or recorded)
    if settings.provider == MOCK:
        return Embedder(MockClient(), settings.model)
    if settings.model is None:
        hint = f'set {_PREFIX}MODEL, or record it in the schema: @embed("text", model="...")'
        raise EmbeddingError("no embedding model is set", hint=hint)
    # Imported here: only this provider needs an HTTP client.
    from omnigraph.read.search.embedding_http import HttpClient

    return Embedder(HttpClient(settings), settings.model)


def _normalize(vectors: Sequence[npt.NDArray[np.float64]], count: int, dimension: int) -> Vectors:
    if len(vectors) != count:
        raise EmbeddingError(f"the provider returned {len(vectors)} vectors for {count} texts")
    for vector in vectors:
        if vector.shape != (dimension,):
            raise EmbeddingError(
                f"the provider returned a vector of {vector.size} numbers; the property is Vector({dimension})",
                hint="choose a model of that dimension",
                details={"expected": dimension, "found": vector.size},
            )
    matrix = np.stack(vectors)
    if not np.isfinite(matrix).all():
        raise EmbeddingError("the provider returned a vector with a value that is not a finite number")
    # Scaled to 1 first: squares of very large or small numbers overflow or underflow.
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbeddingError("the provider returned a vector of zeros, which has no direction")
    matrix = matrix / largest
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


# --------------------------------------------------------------------------------------------- mock

_MASK_64: Final = 2**64 - 1
_FNV_BASIS: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


@dataclass(frozen=True, slots=True)
class MockClient:
    """Derives vectors from a hash of the text: meaningless but deterministic, without a network."""

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        """Return one vector for each text; the model is ignored."""
        del model
        return [_hash_to_vector(text, dimension) for text in texts]


def _hash_to_vector(text: str, dimension: int) -> npt.NDArray[np.float64]:
    """Seed with FNV-1a of the UTF-8 bytes, then take one step of xorshift64 for each component, from -1 to 1."""
    state = _FNV_BASIS
    for byte in text.encode():
        state = ((state ^ byte) * _FNV_PRIME) & _MASK_64
    components = np.empty(dimension, np.float32)
    for at in range(dimension):
        state ^= (state << 13) & _MASK_64
        state ^= state >> 7
        state ^= (state << 17) & _MASK_64
        components[at] = 2 * (state / _MASK_64) - 1
    return components.astype(np.float64)
