"""Questions of ``query.py`` answered by Polars: lazy frames and joins, and a loop where others have a recursion."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from scans import Parameters, Row

if TYPE_CHECKING:
    # Only the process that asks Polars imports it.
    import polars as pl

Frames: TypeAlias = "Callable[[str], pl.LazyFrame]"
"""The rows of a type."""
FrameAnswer: TypeAlias = "Callable[[Frames, Parameters], list[Row]]"


def _rows(frame: pl.LazyFrame) -> list[Row]:
    return frame.collect().rows()


def _count(frame: pl.LazyFrame) -> list[Row]:
    import polars as pl

    return _rows(frame.select(pl.len()))


def _highest(frame: pl.LazyFrame, count: str, number: str, limit: int) -> pl.LazyFrame:
    """The rows with the highest counts; equals by their number."""
    return frame.sort([count, number], descending=[True, False]).head(limit)


def _most_reached(frames: Frames, edge_type: str, count: str, limit: int) -> pl.LazyFrame:
    return _highest(frames(edge_type).group_by("to").len(count), count, "to", limit)


def _paths(first: pl.LazyFrame, second: pl.LazyFrame) -> list[Row]:
    return _count(first.join(second, left_on="to", right_on="from"))


def _paths_by_degrees(first: pl.LazyFrame, second: pl.LazyFrame) -> list[Row]:
    import polars as pl

    into, out = first.group_by("to").len("into"), second.group_by("from").len("out")
    # A length has 32 bits, and so would their product.
    product = pl.col("into").cast(pl.Int64) * pl.col("out").cast(pl.Int64)
    return _rows(into.join(out, left_on="to", right_on="from").select(product.sum()))


def _reached(frames: Frames, edge_type: str, number: int | str, hops: int) -> list[Row]:
    levels = _levels(frames, edge_type, number, hops)
    return [(levels.height - 1,)]


def _levels(
    frames: Frames, edge_type: str, number: int | str, hops: int, until: int | str | None = None
) -> pl.DataFrame:
    """Every node that was reached, with its number of hops; no further than the level of ``until``."""
    import polars as pl

    last = seen = pl.DataFrame({"to": [int(number)], "hops": [0]})
    for hop in range(1, hops + 1):
        step = frames(edge_type).join(last.lazy(), left_on="from", right_on="to", how="semi").select("to").unique()
        last = step.join(seen.lazy(), on="to", how="anti").with_columns(hops=pl.lit(hop, pl.Int64)).collect()
        seen = seen.vstack(last)
        if last.is_empty() or (until is not None and last["to"].eq(int(until)).any()):
            break
    return seen


# ------------------------------------------------------------------------------------------------ the power law


def most_linked(frames: Frames, _: Parameters) -> list[Row]:
    """The three pages with the most links to them."""
    return _rows(_most_reached(frames, "Links", "pages", 3))


def two_links(frames: Frames, _: Parameters) -> list[Row]:
    """Paths of two links."""
    return _paths(frames("Links"), frames("Links"))


def pages_in_two_hops(frames: Frames, parameters: Parameters) -> list[Row]:
    """Pages that are one or two links away."""
    return _reached(frames, "Links", parameters["number"], 2)


def pages_in_four_hops(frames: Frames, parameters: Parameters) -> list[Row]:
    """Pages that are one to four links away."""
    return _reached(frames, "Links", parameters["number"], 4)


# ------------------------------------------------------------------------------------------------ the social graph


def _lives_in(frames: Frames) -> pl.LazyFrame:
    return frames("LivesIn").rename({"from": "person", "to": "city"})


def _city_in(frames: Frames) -> pl.LazyFrame:
    return frames("CityIn").rename({"from": "city", "to": "state"})


def _state_in(frames: Frames) -> pl.LazyFrame:
    return frames("StateIn").rename({"from": "state", "to": "country"})


def _has_interest(frames: Frames, interest: int | str) -> pl.LazyFrame:
    edges = frames("HasInterest").rename({"from": "person", "to": "interest"})
    return edges.join(_named(frames, "Interest").filter(interest_name=interest), on="interest")


def _named(frames: Frames, type_name: str) -> pl.LazyFrame:
    number = type_name.lower()
    return frames(type_name).rename({"number": number, "name": f"{number}_name"})


def person(frames: Frames, parameters: Parameters) -> list[Row]:
    """One person by key."""
    return _rows(frames("Person").filter(number=parameters["number"]).select("name", "gender", "age"))


def people_in_two_hops(frames: Frames, parameters: Parameters) -> list[Row]:
    """People who are one or two follows away."""
    return _reached(frames, "Follows", parameters["number"], 2)


def shortest_path(frames: Frames, parameters: Parameters) -> list[Row]:
    """How many follows lead from one person to another."""
    levels = _levels(frames, "Follows", parameters["first"], 30, until=parameters["last"])
    return _rows(levels.lazy().filter(to=parameters["last"]).select("hops"))


def most_followed(frames: Frames, _: Parameters) -> list[Row]:
    """The three most followed."""
    best = _most_reached(frames, "Follows", "followers", 3).join(frames("Person"), left_on="to", right_on="number")
    return _rows(_highest(best, "followers", "to", 3).select("to", "name", "followers"))


def home_of_most_followed(frames: Frames, _: Parameters) -> list[Row]:
    """Where the most followed lives."""
    best = _most_reached(frames, "Follows", "followers", 1).rename({"to": "person"})
    home = best.join(_lives_in(frames), on="person").join(_named(frames, "City"), on="city")
    home = home.join(_city_in(frames), on="city").join(_named(frames, "State"), on="state")
    home = home.join(_state_in(frames), on="state").join(_named(frames, "Country"), on="country")
    return _rows(home.select("person", "city_name", "state_name", "country_name", "followers"))


def youngest_cities(frames: Frames, parameters: Parameters) -> list[Row]:
    """The youngest cities of a country."""
    import polars as pl

    country = _named(frames, "Country").filter(country_name=parameters["country"])
    cities = country.join(_state_in(frames), on="country").join(_city_in(frames), on="state")
    people = cities.join(_named(frames, "City"), on="city").join(_lives_in(frames), on="city")
    ages = people.join(_named(frames, "Person"), on="person").group_by("city", "city_name").agg(pl.col("age").mean())
    return _rows(ages.sort("age", "city").head(5))


def people_by_country(frames: Frames, parameters: Parameters) -> list[Row]:
    """People of an age, by country."""
    import polars as pl

    people = _named(frames, "Person").filter(pl.col("age").is_between(parameters["least"], parameters["most"]))
    homes = people.join(_lives_in(frames), on="person").join(_city_in(frames), on="city")
    countries = homes.join(_state_in(frames), on="state").join(_named(frames, "Country"), on="country")
    counted = countries.group_by("country_name").len("people")
    return _rows(counted.sort(["people", "country_name"], descending=[True, False]))


def men_of_city(frames: Frames, parameters: Parameters) -> list[Row]:
    """Men of a city with an interest."""
    men = _named(frames, "Person").filter(gender="male").join(_lives_in(frames), on="person")
    here = men.join(_named(frames, "City").filter(city_name=parameters["city"]), on="city")
    return _count(here.join(_has_interest(frames, parameters["interest"]), on="person"))


def cities_of_women(frames: Frames, parameters: Parameters) -> list[Row]:
    """Cities of most women with an interest."""
    people = _has_interest(frames, parameters["interest"]).join(_named(frames, "Person"), on="person")
    homes = people.filter(gender="female").join(_lives_in(frames), on="person").join(_named(frames, "City"), on="city")
    return _rows(_highest(homes.group_by("city", "city_name").len("people"), "people", "city", 5))


def state_of_young(frames: Frames, parameters: Parameters) -> list[Row]:
    """The state of most young people with an interest."""
    import polars as pl

    young = _named(frames, "Person").filter(pl.col("age").is_between(23, 30))
    homes = _has_interest(frames, parameters["interest"]).join(young, on="person").join(_lives_in(frames), on="person")
    states = homes.join(_city_in(frames), on="city").join(_named(frames, "State"), on="state")
    countries = states.join(_state_in(frames), on="state").join(_named(frames, "Country"), on="country")
    counted = countries.group_by("state", "state_name", "country_name").len("people")
    return _rows(_highest(counted, "people", "state", 1))


def two_follows(frames: Frames, _: Parameters) -> list[Row]:
    """Paths of two follows, by joining the edges with themselves."""
    return _paths(frames("Follows"), frames("Follows"))


def two_follows_by_degrees(frames: Frames, _: Parameters) -> list[Row]:
    """The same, as products of degrees."""
    return _paths_by_degrees(frames("Follows"), frames("Follows"))


def two_follows_by_age(frames: Frames, _: Parameters) -> list[Row]:
    """Paths by people under 50 to people over 25."""
    return _paths(*_follows_by_age(frames))


def two_follows_by_age_and_degrees(frames: Frames, _: Parameters) -> list[Row]:
    """The same, as products of degrees."""
    return _paths_by_degrees(*_follows_by_age(frames))


def _follows_by_age(frames: Frames) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    import polars as pl

    follows, people = frames("Follows"), frames("Person")
    under, over = people.filter(pl.col("age") < 50), people.filter(pl.col("age") > 25)
    return (
        follows.join(under, left_on="to", right_on="number", how="semi"),
        follows.join(over, left_on="to", right_on="number", how="semi"),
    )
