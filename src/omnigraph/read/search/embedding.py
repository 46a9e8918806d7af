"""Texts to vectors: the settings, two providers behind one protocol, and what every answer is held to.

``openai-compatible`` asks a server; ``mock`` computes, without a network, always the same. Whoever answers: a vector
of another length, of zeros, or with something in it that is no number is refused, and all others are given length 1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Final, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnigraph.errors import EmbeddingError, ParameterError
from omnigraph.language.source import suggest_similar

OPENAI_COMPATIBLE: Final = "openai-compatible"
MOCK: Final = "mock"
_PREFIX: Final = "OMNIGRAPH_EMBED_"
_FROM_ENVIRONMENT: Final = ("provider", "url", "model", "api_key", "timeout")

Vectors: TypeAlias = npt.NDArray[np.float32]
"""One vector of length 1 in each row."""


class EmbeddingClient(Protocol):
    """A provider of embeddings."""

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        """One vector for each text, as the provider gives it."""
        ...


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """How texts are embedded. Times are in seconds: of one request, and of all requests and retries of one call."""

    provider: str
    url: str | None = None
    model: str | None = None
    # Never printed.
    api_key: str | None = field(default=None, repr=False)
    timeout: float = 30.0
    deadline: float = 120.0
    batch: int = 128
    """Texts in one request."""
    attempts: int = 5
    backoff: float = 0.5
    """The pause before the first retry; it doubles with each."""

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
    """The settings that were given, or those of the environment: ``OMNIGRAPH_EMBED_PROVIDER`` and its like."""
    if isinstance(given, EmbeddingSettings):
        return given
    if given is None:
        return _from_environment(os.environ if environment is None else environment)
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
    # Numbers are checked where the settings are made, whoever makes them.
    make = cast("Callable[..., EmbeddingSettings]", EmbeddingSettings)
    return make(**given)


def _from_environment(environment: Mapping[str, str]) -> EmbeddingSettings:
    named = {name: environment.get(f"{_PREFIX}{name.upper()}", "") for name in _FROM_ENVIRONMENT}
    given: dict[str, object] = {name: text for name, text in named.items() if text}
    if "provider" not in given:
        raise EmbeddingError(
            "a text has to be embedded, and no provider of embeddings is set",
            hint=f"set {_PREFIX}PROVIDER to {OPENAI_COMPATIBLE} or {MOCK}, or open the graph with embed=",
        )
    if "timeout" in given:
        # What is no number is refused below, by its name.
        with suppress(ValueError):
            given["timeout"] = float(named["timeout"])
    return resolve_embedding_settings(given)


def _check_number(name: str, value: object, above: float, *, whole: bool = False) -> None:
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not above < cast(float, value) < np.inf:
        wanted = "a whole number" if whole else "a number"
        raise ParameterError(f"the {name} of embeddings is {value!r}", hint=f"give {wanted} above 0")


# --------------------------------------------------------------------------------------------- one model


@dataclass(frozen=True, slots=True)
class Embedder:
    """A provider and the model that it is asked for."""

    client: EmbeddingClient
    model: str | None

    def vectors(self, texts: Sequence[str], dimension: int) -> Vectors:
        """One vector of length 1 for each text."""
        if not texts:
            return np.zeros((0, dimension), np.float32)
        return _checked(self.client.embed(texts, dimension, self.model), len(texts), dimension)


def create_embedder(settings: EmbeddingSettings | None, recorded: str | None) -> Embedder:
    """What embeds for a property whose ``@embed`` may record a model; without settings, the environment decides."""
    settings = resolve_embedding_settings(settings)
    if recorded is not None and settings.model not in (None, recorded):
        raise EmbeddingError(
            f"the vectors are of the model '{recorded}', and the provider is set to '{settings.model}'",
            hint=f"set {_PREFIX}MODEL to {recorded}, or leave it out",
            details={"recorded": recorded, "configured": settings.model},
        )
    settings = replace(settings, model=settings.model or recorded)
    if settings.provider == MOCK:
        return Embedder(MockClient(), settings.model)
    if settings.model is None:
        hint = f'set {_PREFIX}MODEL, or record it in the schema: @embed("text", model="...")'
        raise EmbeddingError("it is not known which model to embed with", hint=hint)
    # Only who asks a server needs to import a client for it.
    from omnigraph.read.search.embedding_http import HttpClient

    return Embedder(HttpClient(settings), settings.model)


def _checked(vectors: Sequence[npt.NDArray[np.float64]], count: int, dimension: int) -> Vectors:
    if len(vectors) != count:
        raise EmbeddingError(f"the provider gave {len(vectors)} vectors for {count} texts")
    for vector in vectors:
        if vector.shape != (dimension,):
            raise EmbeddingError(
                f"the provider gave a vector of {vector.size} numbers; the property is Vector({dimension})",
                hint="choose a model of that dimension",
                details={"expected": dimension, "found": vector.size},
            )
    matrix = np.stack(vectors)
    if not np.isfinite(matrix).all():
        raise EmbeddingError("the provider gave a vector with something in it that is no finite number")
    # Brought to the range around 1 first: squares of very large or small numbers are infinite or zero.
    largest = np.abs(matrix).max(axis=1, keepdims=True)
    if not largest.all():
        raise EmbeddingError("the provider gave a vector of zeros, which points nowhere")
    matrix = matrix / largest
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


# --------------------------------------------------------------------------------------------- mock

_WORD: Final = 2**64 - 1
_FNV_BASIS: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


@dataclass(frozen=True, slots=True)
class MockClient:
    """Vectors from a hash of the text: nothing like its meaning, but always the same, and without a network."""

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        """One vector for each text; the model makes no difference."""
        del model
        return [_mock_vector(text, dimension) for text in texts]


def _mock_vector(text: str, dimension: int) -> npt.NDArray[np.float64]:
    """FNV-1a of the UTF-8 bytes as the seed, then one step of xorshift64 for each component, from -1 to 1."""
    state = _FNV_BASIS
    for byte in text.encode():
        state = ((state ^ byte) * _FNV_PRIME) & _WORD
    components = np.empty(dimension, np.float32)
    for at in range(dimension):
        state ^= (state << 13) & _WORD
        state ^= state >> 7
        state ^= (state << 17) & _WORD
        components[at] = 2 * (state / _WORD) - 1
    return components.astype(np.float64)
