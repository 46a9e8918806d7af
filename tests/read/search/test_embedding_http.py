"""Embeddings from a real server: what is sent, what is tried again, when it is given up, and what is never said."""

from __future__ import annotations

import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import numpy as np
import pytest

from omnigraph.errors import EmbeddingError, ParameterError
from omnigraph.read.search.embedding import EmbeddingSettings, create_embedder
from tests.read.search.embedding_server import (
    Answer,
    EmbeddingServer,
    ReceivedRequest,
    Respond,
    serve_embeddings,
    vectors,
)

KEY = "sk-very-secret"


def settings(server: EmbeddingServer, **more: float) -> EmbeddingSettings:
    values = {"timeout": 5.0, "deadline": 20.0, "backoff": 0.001, **more}
    batch, attempts = int(values.pop("batch", 128)), int(values.pop("attempts", 5))
    return EmbeddingSettings("openai-compatible", server.url, "m1", KEY, batch=batch, attempts=attempts, **values)


def one_each(asked: ReceivedRequest, _: int) -> Answer:
    """For each text a vector that tells its length."""
    return vectors([[float(len(text)), 1.0] for text in asked.texts])


def first(*answers: Answer) -> Respond:
    """These answers to the first requests, then right ones."""
    return lambda asked, number: answers[number] if number < len(answers) else one_each(asked, number)


def test_what_is_sent_and_what_comes_back() -> None:
    with serve_embeddings(one_each) as server:
        found = create_embedder(settings(server), None).vectors(["", "fox"], 2)
    assert found == pytest.approx(np.array([[0.0, 1.0], [3 / 10**0.5, 1 / 10**0.5]]))
    (asked,) = server.asked
    assert (asked.path, asked.authorization) == ("/v1/embeddings", f"Bearer {KEY}")
    assert asked.body == {"model": "m1", "input": ["", "fox"], "dimensions": 2, "encoding_format": "float"}


def test_texts_are_sent_in_batches_and_keep_their_order() -> None:
    texts = ["x" * length for length in range(7)]
    with serve_embeddings(one_each) as server:
        found = create_embedder(settings(server, batch=3), None).vectors(texts, 2)
    assert [len(asked.texts) for asked in server.asked] == [3, 3, 1]
    assert (found[:, 0] / found[:, 1]).round().tolist() == [0, 1, 2, 3, 4, 5, 6]


def test_vectors_are_told_apart_by_their_index() -> None:
    with serve_embeddings(lambda _, __: vectors([[1.0, 0.0], [0.0, 1.0]], order=[1, 0])) as server:
        assert create_embedder(settings(server), None).vectors(["a", "b"], 2).tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_trouble_of_the_server_is_tried_again(status: int) -> None:
    with serve_embeddings(first(Answer(status), Answer(status))) as server:
        assert create_embedder(settings(server), None).vectors(["a"], 2).shape == (1, 2)
    assert len(server.asked) == 3


def test_attempts_run_out() -> None:
    with (
        serve_embeddings(lambda _, __: Answer(503)) as server,
        pytest.raises(EmbeddingError, match="answered 503, 3 times"),
    ):
        create_embedder(settings(server, attempts=3), None).vectors(["a"], 2)
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_what_will_not_change_is_not_tried_again(status: int) -> None:
    answer = Answer(status, body=f"no model for {KEY}".encode())
    with (
        serve_embeddings(lambda _, __: answer) as server,
        pytest.raises(EmbeddingError, match=rf"it answered {status}: no model for \*\*\*"),
    ):
        create_embedder(settings(server), None).vectors(["a"], 2)
    assert len(server.asked) == 1


def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    with serve_embeddings(first(Answer(429, headers={"Retry-After": "1"}))) as server:
        begun = time.monotonic()
        create_embedder(settings(server), None).vectors(["a"], 2)
    assert time.monotonic() - begun >= 1


@pytest.mark.parametrize(
    "after", ["3600", format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)], ids=["seconds", "date"]
)
def test_no_pause_goes_beyond_the_deadline(after: str) -> None:
    begun = time.monotonic()
    with (
        serve_embeddings(lambda _, __: Answer(503, headers={"Retry-After": after})) as server,
        pytest.raises(EmbeddingError, match="the deadline of 20 s leaves no time"),
    ):
        create_embedder(settings(server), None).vectors(["a"], 2)
    assert len(server.asked) == 1
    assert time.monotonic() - begun < 10


def test_a_date_in_the_past_and_a_word_are_no_reason_to_wait() -> None:
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    answers = (Answer(503, headers={"Retry-After": past}), Answer(503, headers={"Retry-After": "soon"}))
    with serve_embeddings(first(*answers)) as server:
        create_embedder(settings(server), None).vectors(["a"], 2)
    assert len(server.asked) == 3


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        given = EmbeddingSettings(
            "openai-compatible", f"http://127.0.0.1:{port}/v1", "m1", KEY, attempts=2, backoff=0.001
        )
        with pytest.raises(EmbeddingError, match=r"cannot be reached.*, 2 times") as caught:
            create_embedder(given, None).vectors(["a"], 2)
    assert f"http://127.0.0.1:{port}/v1/embeddings" in caught.value.message
    assert caught.value.hint is not None


def test_a_server_that_is_silent() -> None:
    gone = threading.Event()
    try:
        with serve_embeddings(lambda _, __: Answer(wait=gone.wait)) as server:
            with pytest.raises(EmbeddingError, match="did not answer in time, 2 times"):
                create_embedder(settings(server, timeout=0.2, attempts=2), None).vectors(["a"], 2)
            gone.set()
    finally:
        gone.set()


def test_a_server_that_trickles() -> None:
    gone = threading.Event()
    try:
        with serve_embeddings(lambda _, __: Answer(body=b"x" * 1000, trickle=lambda: gone.wait(0.02))) as server:
            begun = time.monotonic()
            with pytest.raises(EmbeddingError, match="did not finish its answer in time"):
                create_embedder(settings(server, timeout=1, attempts=1), None).vectors(["a"], 2)
            assert time.monotonic() - begun < 5
            gone.set()
    finally:
        gone.set()


def test_the_deadline_is_one_for_all_batches() -> None:
    never = threading.Event()

    def slow(asked: ReceivedRequest, number: int) -> Answer:
        return Answer(body=one_each(asked, number).body, wait=lambda: never.wait(0.1))

    with (
        serve_embeddings(slow) as server,
        pytest.raises(EmbeddingError, match=r"deadline of 0\.35 s"),
    ):
        create_embedder(settings(server, batch=1, deadline=0.35), None).vectors(["a"] * 50, 2)
    assert len(server.asked) < 50, "each batch alone has time enough"


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[]", b'{"data": 3}', b'{"data": [{"index": 5, "embedding": [1, 2]}]}', b'{"data": [{"index": 0}]}',
     b'{"data": [{"index": 0, "embedding": ["a", "b"]}]}', b'{"data": [{"index": 0, "embedding": null}]}'],
)  # fmt: skip
def test_an_answer_that_is_none(body: bytes) -> None:
    with serve_embeddings(lambda _, __: Answer(body=body)) as server, pytest.raises(EmbeddingError):
        create_embedder(settings(server), None).vectors(["a"], 2)
    assert len(server.asked) == 1


def test_a_vector_of_another_dimension() -> None:
    with (
        serve_embeddings(one_each) as server,
        pytest.raises(EmbeddingError, match=r"2 numbers; the property is Vector\(3\)"),
    ):
        create_embedder(settings(server), None).vectors(["a"], 3)


def test_a_password_in_the_url_is_not_shown() -> None:
    with serve_embeddings(lambda _, __: Answer(404)) as server:
        url = server.url.replace("http://", "http://ann:hunter2@") + "?token=t0k"
        with pytest.raises(EmbeddingError) as caught:
            create_embedder(EmbeddingSettings("openai-compatible", url, "m1"), None).vectors(["a"], 2)
    assert "hunter2" not in str(caught.value)
    assert "t0k" not in str(caught.value)
    assert server.asked[0].path == "/v1/embeddings?token=t0k"


def test_a_url_that_is_none() -> None:
    with pytest.raises(EmbeddingError, match="cannot be reached"):
        create_embedder(EmbeddingSettings("openai-compatible", "nowhere", "m1", attempts=1), None).vectors(["a"], 2)
    with pytest.raises(ParameterError, match="the embedding URL is not valid"):
        create_embedder(EmbeddingSettings("openai-compatible", "http://host:port", "m1"), None).vectors(["a"], 2)
