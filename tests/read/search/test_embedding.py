"""Settings of embeddings, the mock provider, the model that a schema records, and what every vector is held to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from omnigraph.errors import EmbeddingError, ParameterError
from omnigraph.read.search.embedding import (
    Embedder,
    EmbeddingSettings,
    MockClient,
    create_embedder,
    resolve_embedding_settings,
)

MOCK = EmbeddingSettings("mock")


class Fixed:
    """A provider that answers the same whatever it is asked."""

    def __init__(self, *vectors: Sequence[float]) -> None:
        self.given = [np.array(vector, np.float64) for vector in vectors]

    def embed(self, texts: Sequence[str], dimension: int, model: str | None) -> list[npt.NDArray[np.float64]]:
        del texts, dimension, model
        return self.given


def test_mock_is_the_hash_of_the_text_stirred_for_each_component() -> None:
    # Computed step by step from the definition: FNV-1a-64, then xorshift64 (13, 7, 17).
    state = 0xCBF29CE484222325
    for byte in "é".encode():
        state = (state ^ byte) * 0x100000001B3 % 2**64
    expected: list[np.float32] = []
    for _ in range(3):
        state = (state ^ (state << 13)) % 2**64
        state ^= state >> 7
        state = (state ^ (state << 17)) % 2**64
        expected.append(np.float32(2 * (state / (2**64 - 1)) - 1))
    (found,) = MockClient().embed(["é"], 3, None)
    assert found.tolist() == [float(value) for value in expected]
    unit = np.array(expected, np.float64) / np.linalg.norm(np.array(expected, np.float64))
    assert create_embedder(MOCK, None).vectors(["é"], 3)[0] == pytest.approx(unit, abs=1e-7)


def test_mock_gives_equal_texts_equal_vectors_of_length_one() -> None:
    found = create_embedder(MOCK, None).vectors(["fox", "dog", "fox", ""], 64)
    assert (found.shape, found.dtype) == ((4, 64), np.float32)
    assert (found[0] == found[2]).all()
    assert not (found[0] == found[1]).any()
    assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(4))


def test_no_texts_ask_nobody() -> None:
    assert create_embedder(MOCK, None).vectors([], 4).shape == (0, 4)


# --------------------------------------------------------------------------------------------- what comes back


def test_vectors_are_given_length_one() -> None:
    found = Embedder(Fixed([3.0, 4.0], [1e200, 0.0], [0.0, 1e-200]), None).vectors(["a", "b", "c"], 2)
    assert found == pytest.approx(np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([1.0, 2.0, 3.0], r"a vector of 3 numbers; the property is Vector\(2\)"),
        ([], r"a vector of 0 numbers"),
        ([float("nan"), 1.0], "not a finite number"),
        ([float("inf"), 1.0], "not a finite number"),
        ([0.0, 0.0], "a vector of zeros"),
    ],
)
def test_what_is_no_vector_of_the_property_is_refused(vector: list[float], says: str) -> None:
    with pytest.raises(EmbeddingError, match=says):
        Embedder(Fixed([1.0, 0.0], vector), None).vectors(["good", "bad"], 2)


def test_a_vector_too_few_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="1 vectors for 2 texts"):
        Embedder(Fixed([1.0, 0.0]), None).vectors(["a", "b"], 2)


# --------------------------------------------------------------------------------------------- the model


def test_the_recorded_model_is_used_and_another_one_refused() -> None:
    assert create_embedder(MOCK, "m1").model == "m1"
    assert create_embedder(EmbeddingSettings("mock", model="m1"), "m1").model == "m1"
    assert create_embedder(EmbeddingSettings("mock", model="m1"), None).model == "m1"
    with pytest.raises(EmbeddingError, match="by the model 'm1', but the provider is set to 'm2'"):
        create_embedder(EmbeddingSettings("mock", model="m2"), "m1")


def test_a_server_has_to_be_told_a_model() -> None:
    settings = EmbeddingSettings("openai-compatible", url="http://127.0.0.1:1/v1")
    with pytest.raises(EmbeddingError, match="no embedding model"):
        create_embedder(settings, None)
    assert create_embedder(settings, "m1").model == "m1"


# --------------------------------------------------------------------------------------------- settings


def test_settings_from_the_environment() -> None:
    environment = {
        "OMNIGRAPH_EMBED_PROVIDER": "openai-compatible",
        "OMNIGRAPH_EMBED_URL": "http://host/v1",
        "OMNIGRAPH_EMBED_MODEL": "m1",
        "OMNIGRAPH_EMBED_API_KEY": "sk-secret",
        "OMNIGRAPH_EMBED_TIMEOUT": "2.5",
    }
    found = resolve_embedding_settings(None, environment)
    assert found == EmbeddingSettings("openai-compatible", "http://host/v1", "m1", "sk-secret", 2.5)
    assert "sk-secret" not in repr(found)


def test_without_any_settings_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER", raising=False)
    with pytest.raises(EmbeddingError, match="no embedding provider") as caught:
        create_embedder(None, None)
    assert "OMNIGRAPH_EMBED_PROVIDER" in str(caught.value.hint)
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    assert create_embedder(None, None).vectors(["a"], 2).shape == (1, 2)


def test_settings_from_a_mapping() -> None:
    assert resolve_embedding_settings({"provider": "mock", "batch": 3}) == EmbeddingSettings("mock", batch=3)
    assert resolve_embedding_settings(MOCK) is MOCK


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "provider is missing"),
        ({"provider": "magic"}, "the embedding provider is 'magic'"),
        ({"provider": "openai-compatible"}, "needs a URL"),
        ({"provider": "mock", "modell": "m"}, "no setting 'modell'"),
        ({"provider": "mock", "model": 3}, "model of embeddings is not a text"),
        ({"provider": "mock", "timeout": 0}, "timeout of embeddings is 0"),
        ({"provider": "mock", "deadline": "1"}, "deadline of embeddings is '1'"),
        ({"provider": "mock", "deadline": float("inf")}, "deadline of embeddings is inf"),
        ({"provider": "mock", "batch": 1.5}, "batch of embeddings is 1.5"),
        ({"provider": "mock", "attempts": True}, "attempts of embeddings is True"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, object], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        resolve_embedding_settings(given)


def test_a_timeout_of_the_environment_that_is_no_number() -> None:
    with pytest.raises(ParameterError, match="timeout of embeddings is 'soon'"):
        resolve_embedding_settings(None, {"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_TIMEOUT": "soon"})
