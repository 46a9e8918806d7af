"""Which names of a SQL text are types of the graph, and at which moment."""

from __future__ import annotations

import pytest

from omnigraph.errors import ParameterError
from omnigraph.spark.source.sql_text import parse_sql

NAMES = ("Ship", "Tows", "Port")


def found_in(text: str) -> list[tuple[str, str | None, bool]]:
    return [(text[each.start : each.end], each.at, each.has_alias) for each in parse_sql(text, NAMES).relations]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT code FROM Ship", [("Ship", None, False)]),
        ("select ship.code from SHIP where ship.code = 'FROM Port'", [("SHIP", None, False)]),
        ("SELECT s.code FROM Ship s, `Port` AS p", [("Ship", None, True), ("`Port`", None, True)]),
        ("SELECT Port FROM Ship -- , Tows\n WHERE /* JOIN Tows */ Port > 1", [("Ship", None, False)]),
        ("SELECT 1 FROM Ship a LEFT JOIN Tows ON Tows.`from` = a.code", [("Ship", None, True), ("Tows", None, False)]),
        ("SELECT 1 FROM other.Ship, Ship.other, Shipping, Port", [("Port", None, False)]),
        ("SELECT extract(year FROM Ship), trim(BOTH FROM Port) FROM Tows", [("Tows", None, False)]),
        ("SELECT (SELECT max(x) FROM Port), Ship FROM Tows GROUP BY Ship, Port",
         [("Port", None, False), ("Tows", None, False)]),
        ("WITH Ship AS (SELECT 1 FROM Tows), x(a) AS (SELECT 2 FROM Ship) SELECT * FROM Ship, x, Port",
         [("Tows", None, False), ("Port", None, False)]),
        ("SELECT 1 FROM (Ship CROSS JOIN Port) WHERE code IN (SELECT code FROM Ship)",
         [("Ship", None, False), ("Port", None, False), ("Ship", None, False)]),
        ("SELECT 1 FROM Ship TABLESAMPLE (5 ROWS)", [("Ship", None, True)]),
        ("TABLE Ship", [("Ship", None, False)]),
        ("(SELECT 1 FROM Ship) UNION ALL SELECT 2 FROM Port ORDER BY 1, Tows",
         [("Ship", None, False), ("Port", None, False)]),
        ("SELECT 1 FROM Ship VERSION AS OF 12", [("Ship VERSION AS OF 12", "v12", False)]),
        ("SELECT 1 FROM Ship FOR SYSTEM_VERSION AS OF 'v3' s JOIN Ship t",
         [("Ship FOR SYSTEM_VERSION AS OF 'v3'", "v3", True), ("Ship", None, True)]),
        ("SELECT 1 FROM Ship TIMESTAMP AS OF '2024-05-01T10:00Z' AS s",
         [("Ship TIMESTAMP AS OF '2024-05-01T10:00Z'", "2024-05-01T10:00:00+00:00", True)]),
        ("SELECT 1 FROM Ship TIMESTAMP AS OF TIMESTAMP '2024-05-01T10:00Z' WHERE 1 = 1",
         [("Ship TIMESTAMP AS OF TIMESTAMP '2024-05-01T10:00Z'", "2024-05-01T10:00:00+00:00", False)]),
        ("SELECT 1", []),
    ],
)  # fmt: skip
def test_types_are_found_where_a_table_is_expected(text: str, found: list[tuple[str, str | None, bool]]) -> None:
    assert found_in(text) == found


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("SELECT count(*) FROM Ship", False),
        ("SELECT size * 2, COUNT( * ) FROM Ship", False),
        ("SELECT * FROM Ship", True),
        ("SELECT s.* FROM Ship s", True),
        ("SELECT DISTINCT * FROM Ship", True),
        ("SELECT count(1), * FROM Ship", True),
        ("SELECT struct(*) FROM Ship", True),
        ("FROM Ship", True),
        ("TABLE Ship", True),
    ],
)
def test_a_star_may_stand_for_columns(text: str, every: bool) -> None:
    assert parse_sql(text, NAMES).shows_every_column is every


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DROP TABLE Ship", "takes a query, beginning with SELECT"),
        ("", "takes a query"),
        ("SELECT 1 FROM Ship VERSION AS OF x", "VERSION AS OF is followed by 'x'"),
        ("SELECT 1 FROM Ship VERSION AS OF", "VERSION AS OF is followed by ''"),
        ("SELECT 1 FROM Ship TIMESTAMP AS OF now()", "TIMESTAMP AS OF is followed by 'now'"),
        ("SELECT 1 FROM Ship TIMESTAMP AS OF 'june'", "'june' is no date or time"),
    ],
)
def test_what_is_no_query_or_no_moment_is_told(text: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message.replace("(", r"\(")):
        parse_sql(text, NAMES)
