"""The cache: one budget, each value made once, whoever asks and whatever fails."""

from __future__ import annotations

import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Lock

import pytest

from omnigraph.errors import ParameterError
from omnigraph.read.frames.cache import Cache, shared_cache
from omnigraph.storage.machine_memory import available_memory


def keep(cache: Cache, key: str, nbytes: int) -> str:
    return cache.get_or_make(key, lambda: key, lambda _: nbytes)


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(budget=30)
    for key in "abc":
        keep(cache, key, 10)
    keep(cache, "a", 10)
    assert cache.peek("b") == "b"
    keep(cache, "d", 10)
    assert cache.all_keys() == ("c", "a", "d")
    assert (cache.peek("b"), cache.nbytes) == (None, 30)


def test_many_small_values_are_bounded_by_their_number() -> None:
    cache = Cache(budget=1000, most_entries=3)
    for key in "abcde":
        keep(cache, key, 1)
    assert (cache.all_keys(), cache.nbytes) == (("c", "d", "e"), 3)


def test_one_large_value_makes_room_for_itself() -> None:
    cache = Cache(budget=30)
    for key in "abc":
        keep(cache, key, 10)
    keep(cache, "d", 25)
    assert (cache.all_keys(), cache.nbytes) == (("d",), 25)


def test_a_value_beyond_the_budget_is_given_out_and_pushes_nothing_out() -> None:
    cache = Cache(budget=30)
    keep(cache, "a", 10)
    assert keep(cache, "b", 31) == "b"
    assert (cache.all_keys(), cache.nbytes) == (("a",), 10)


def test_dropping_all_frees_the_budget() -> None:
    cache = Cache(budget=30)
    keep(cache, "a", 30)
    cache.clear()
    assert (cache.all_keys(), cache.nbytes, cache.peek("a")) == ((), 0, None)
    keep(cache, "b", 30)
    assert cache.all_keys() == ("b",)


def test_threads_that_ask_at_once_get_one_value_made_once() -> None:
    cache, made, start = Cache(budget=100), list[int](), Barrier(8)

    def make() -> object:
        made.append(1)
        return object()

    def ask(number: int) -> list[object]:
        start.wait()
        return [cache.get_or_make((number + shift) % 5, make, lambda _: 1) for shift in range(5)]

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert (len(made), cache.nbytes) == (5, 5)
    assert len({id(value) for answer in answers for value in answer}) == 5


def test_whoever_waits_for_a_value_that_fails_makes_it_himself() -> None:
    cache, asked, go_on = Cache(budget=100), Event(), Event()

    def fail() -> str:
        asked.set()
        assert go_on.wait(10)
        raise ValueError("no")

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(cache.get_or_make, "a", fail, len)
        assert asked.wait(10)
        second = threads.submit(cache.get_or_make, "a", lambda: "made", len)
        go_on.set()
        assert second.result(10) == "made"
        with pytest.raises(ValueError, match="no"):
            first.result(10)
    assert cache.all_keys() == ("a",)


def test_making_a_value_may_ask_for_another() -> None:
    cache = Cache(budget=100)
    assert cache.get_or_make("outer", lambda: keep(cache, "inner", 1) + "!", len) == "inner!"
    assert set(cache.all_keys()) == {"inner", "outer"}


@pytest.fixture
def quick_switches() -> Generator[None]:
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("quick_switches")
def test_many_threads_never_pass_the_budget_and_count_right() -> None:
    cache, lock, over = Cache(budget=50), Lock(), list[int]()

    def ask(number: int) -> None:
        for step in range(300):
            key = (number * 7 + step * 3) % 23
            assert cache.get_or_make(key, lambda key=key: key, lambda value: value) == key
            if step % 50 == 0 and number == 0:
                cache.clear()
            with lock:
                over.extend([cache.nbytes] * (cache.nbytes > cache.budget))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(ask, range(6)))
    assert over == []
    assert cache.nbytes == sum(key for key in cache.all_keys() if isinstance(key, int))


def test_the_budget_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    shared_cache.cache_clear()
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", "123")
    assert shared_cache().budget == 123
    assert shared_cache() is shared_cache()
    shared_cache.cache_clear()
    monkeypatch.delenv("OMNIGRAPH_CACHE_BYTES")
    assert shared_cache().budget == min(4 * 2**30, available_memory() // 4)


@pytest.mark.parametrize("wrong", ["1.5", "-1", "2GB", "²"])
def test_a_budget_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    shared_cache.cache_clear()
    monkeypatch.setenv("OMNIGRAPH_CACHE_BYTES", wrong)
    with pytest.raises(ParameterError, match="OMNIGRAPH_CACHE_BYTES"):
        shared_cache()
