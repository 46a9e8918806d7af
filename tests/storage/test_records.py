"""Codecs: fields that are declared once, written in that order, and read again; what has another form is named."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import pytest

from omnigraph.language.schema import TableKey
from omnigraph.storage.records import (
    FLAG,
    INSTANT,
    NUMBER,
    NUMBER_AS_TEXT,
    TABLE_KEY,
    TXN,
    VERSIONS,
    MalformedRecord,
    RecordCodec,
    from_microseconds,
    json_text_of,
    list_of,
    nullable,
    optional,
    required,
    to_microseconds,
    word_of,
)


class Colour(StrEnum):
    RED = "Red"


@dataclass(frozen=True)
class Part:
    key: TableKey
    version: int


@dataclass(frozen=True)
class Whole:
    id: str
    parts: tuple[Part, ...]
    colour: Colour = Colour.RED
    at: datetime | None = None
    count: int = 0
    scheme: str = "V2"
    txn: tuple[str, int] | None = None
    versions: dict[str, int] | None = None
    done: bool = False
    text: tuple[Part, ...] = ()


PART = RecordCodec(Part, (required("key", TABLE_KEY, "table_key"), required("version", NUMBER)))
PARTS = list_of(PART.spelling)
WHOLE = RecordCodec(
    Whole,
    (
        required("parts", PARTS),
        required("colour", word_of(Colour)),
        nullable("at", INSTANT),
        required("count", NUMBER_AS_TEXT),
        nullable("scheme", default="V2"),
        optional("txn", TXN),
        optional("versions", VERSIONS),
        optional("done", FLAG, default=False),
        optional("text", json_text_of(PARTS), default=()),
    ),
)
BARE = Whole("a", (), count=3)
FULL = Whole(
    "b",
    (Part(TableKey("node:A"), 1), Part(TableKey("edge:B"), 2)),
    at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    txn=("app", 7),
    versions={TableKey("node:A"): 4},
    done=True,
    text=(Part(TableKey("node:A"), 1),),
)


def test_fields_are_written_in_their_order_and_defaults_are_left_out() -> None:
    assert WHOLE.dumps(BARE) == b'{"parts":[],"colour":"Red","at":null,"count":"3","scheme":"V2"}'
    assert WHOLE.dumps(FULL).decode() == (
        '{"parts":[{"table_key":"node:A","version":1},{"table_key":"edge:B","version":2}],"colour":"Red",'
        '"at":1000000,"count":"0","scheme":"V2","txn":["app",7],"versions":{"node:A":4},"done":true,'
        '"text":"[{\\"table_key\\":\\"node:A\\",\\"version\\":1}]"}'
    )


@pytest.mark.parametrize("record", [BARE, FULL], ids=["bare", "full"])
def test_what_is_written_is_read_again(record: Whole) -> None:
    read = WHOLE.loads(WHOLE.dumps(record), id=record.id)
    assert read == record
    assert all(isinstance(part.key, TableKey) for part in read.parts)


def test_absent_and_unknown_names_are_fine_where_they_may_be() -> None:
    read = WHOLE.loads(b'{"parts":[],"colour":"Red","count":"3","future":1,"scheme":null,"done":1}', id="a")
    assert read == BARE


GOOD: dict[str, object] = {"parts": [], "colour": "Red", "count": "3"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"parts": None}, "parts is None, not a list"),
        ({"parts": {}}, "parts is {}, not a list"),
        ({"parts": [1]}, "parts is [1], not an object"),
        ({"parts": [{"table_key": "A", "version": 1}]}, "table_key is 'A', not a table key"),
        ({"parts": [{"table_key": "node:A"}]}, "version is None, not a number"),
        ({"colour": "Blue"}, "colour is 'Blue', "),
        ({"count": 3}, "count is 3, not a text"),
        ({"count": "x"}, "count is 'x', "),
        ({"at": "now"}, "at is 'now', not a number"),
        ({"at": 10**30}, "not a time"),
        ({"scheme": 2}, "scheme is 2, not a text"),
        ({"txn": ["app"]}, "txn is ['app'], not an application and a number"),
        ({"versions": ["node:A"]}, "versions is ['node:A'], not an object"),
        ({"versions": {"node:A": "1"}}, "not a number"),
        ({"text": "["}, "text is '[', "),
    ],
)
def test_a_value_of_another_form_is_named(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(MalformedRecord) as refused:
        WHOLE.decode({**GOOD, **wrong}, id="a")
    assert why in str(refused.value)


@pytest.mark.parametrize(("data", "why"), [(b"{", "no JSON: "), (b"[]", "no JSON object"), (b"\xff", "no JSON: ")])
def test_what_is_no_object_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(MalformedRecord, match=why):
        WHOLE.loads(data)


def test_instants_are_whole_microseconds() -> None:
    instant = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
    assert (to_microseconds(instant), from_microseconds(1_714_979_289_123_456)) == (1_714_979_289_123_456, instant)
    with pytest.raises(OverflowError):
        from_microseconds(2**62)
