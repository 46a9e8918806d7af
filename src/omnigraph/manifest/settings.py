"""The settings of a graph, kept in ``__settings.json`` at its root.

``init`` writes them; a graph of an older release has none. The kind of lock is decided by the graph alone: processes
that lock in different ways do not exclude each other. Any process may choose another durability for its own writes.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from omnigraph.errors import ParameterError, StorageError
from omnigraph.lazy_dataclass import dataclass
from omnigraph.storage.durability import DURABILITIES, Durability
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LOCK_KINDS, LockKind, refs_lock
from omnigraph.storage.objects import Objects
from omnigraph.storage.records import TEXT, MalformedRecord, RecordCodec, Spelling, choice_of, nullable

if TYPE_CHECKING:
    from omnigraph.manifest.handle import Manifest

FILE: Final = "__settings.json"
VARIABLE: Final = "OMNIGRAPH_DURABILITY"
LOAD_CONCURRENCY: Final = "OMNIGRAPH_LOAD_CONCURRENCY"
"""The variable with how many tables a write of rows writes at once."""
MAINTENANCE_CONCURRENCY: Final = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
"""The same for compactions and index builds."""
_TABLES_AT_ONCE: Final = 8
UPKEEP_VARIABLE: Final = "OMNIGRAPH_UPKEEP"
DEFAULT_DURABILITY: Final[Durability] = "power"
"""The durability of a new graph, if nobody chooses another."""
OFF: Final = "off"
"""The value of ``keep`` with which history is never deleted unasked."""
_AGE: Final = re.compile(r"(\d+)\s*([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The settings of one graph. ``keep``: how long automatic cleanup keeps history, such as "30d", or "off"."""

    lock: LockKind
    durability: Durability = "process"
    keep: str = OFF


def choose_settings(location: Location, durability: str | None, lock: str | None) -> GraphSettings:
    """Return the settings to open a graph with. An argument wins over the environment, and that over the graph."""
    wanted = _read_wanted_durability(durability)
    if not location.is_local:
        # There is one kind of lock there, and every acknowledged write is durable: nothing needs to be read.
        return GraphSettings("lease")
    stored = read_settings(Objects(location)) or default_settings(location)
    _refuse_other_lock(location, stored, lock)
    return replace(stored, durability=wanted or stored.durability)


def choose_new_settings(
    location: Location, durability: str | None, lock: str | None, keep: str | None = None
) -> GraphSettings:
    """Return the settings to make a graph with."""
    if keep is not None:
        parse_keep(keep)
    default = default_settings(location)
    if lock not in (None, *LOCK_KINDS):
        raise ParameterError(f"lock is {lock!r}", hint=f"use {' or '.join(map(repr, LOCK_KINDS))}")
    kind = default.lock if lock is None else lock
    wanted = _read_wanted_durability(durability) or DEFAULT_DURABILITY
    return replace(default, lock=kind, durability=wanted, keep=keep or default.keep)


def parse_keep(keep: str) -> timedelta | None:
    """Return how long history is kept; None if it is never deleted unasked."""
    if keep == OFF:
        return None
    try:
        return parse_age(keep)
    except ParameterError as error:
        raise ParameterError(f"keep is {keep!r}", hint='use an age such as "30d", or "off"') from error


def parse_age(text: str) -> timedelta:
    """Parse an age like ``7d``."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise ParameterError(f"'{text}' is not an age", hint="write a number and s, m, h, d or w, such as 12h or 7d")
    try:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError as error:
        raise ParameterError(f"'{text}' is too long an age", hint="write an age like 7d") from error


def should_do_upkeep() -> bool:
    """Return whether writers do upkeep after their commits; the environment can switch it off."""
    wanted = os.environ.get(UPKEEP_VARIABLE) or "on"
    if wanted not in ("on", "off"):
        raise ParameterError(f"{UPKEEP_VARIABLE} is {wanted!r}", hint="use 'on' or 'off'")
    return wanted == "on"


def read_concurrency(variable: str) -> int:
    """Return how many tables are written at once, as a variable of the environment says."""
    text = os.environ.get(variable) or str(_TABLES_AT_ONCE)
    if re.fullmatch("[0-9]+", text) is None or int(text) == 0:
        raise ParameterError(f"{variable} is {text!r}", hint="give a number of tables, 1 or more")
    return int(text)


def default_settings(location: Location) -> GraphSettings:
    """Return the settings of a graph that has none: one of an older release."""
    return GraphSettings("flock" if location.is_local else "lease")


def _read_wanted_durability(durability: str | None) -> Durability | None:
    for source, value in (("durability", durability), (VARIABLE, os.environ.get(VARIABLE) or None)):
        if value is None:
            continue
        if value not in DURABILITIES:
            raise ParameterError(f"{source} is {value!r}", hint=f"use {' or '.join(map(repr, DURABILITIES))}")
        return value
    return None


def _refuse_other_lock(location: Location, stored: GraphSettings, lock: str | None) -> None:
    if lock in (None, stored.lock):
        return
    raise ParameterError(
        f"{location} is locked by '{stored.lock}', not by '{lock}': processes that lock in different ways do not "
        "exclude each other",
        hint=f'leave lock out; to change the kind, close the graph everywhere and set "lock" in {FILE}',
        details={"lock": stored.lock, "asked": lock},
    )


# --------------------------------------------------------------------------------------------- the file


def read_settings(objects: Objects) -> GraphSettings | None:
    """Return the stored settings; None if there are none."""
    data = objects.get(FILE)
    if data is None:
        return None
    try:
        return _codec(objects.location).loads(data)
    except MalformedRecord as error:
        raise StorageError(
            f"the settings of {objects.location} are damaged: {error}",
            hint=f"restore {FILE} from a copy, or write it again; the documentation of storage shows its form",
        ) from error


def keep_first_settings(objects: Objects, settings: GraphSettings) -> None:
    """Write the settings of a graph that is being made, before its first lock is taken.

    Of two processes that make it, or after an interrupted init, the first one decides the kind of lock.
    """
    if not objects.put_if_absent(FILE, _codec(objects.location).dumps(settings)):
        try:
            stored = read_settings(objects)
        except StorageError:
            # Torn by a power cut during init: nobody has relied on it.
            return replace_settings(objects, settings)
        _refuse_other_lock(objects.location, stored or settings, settings.lock)
    return None


def replace_settings(objects: Objects, settings: GraphSettings) -> None:
    """Write other settings. The caller holds the refs lock."""
    objects.put(FILE, _codec(objects.location).dumps(settings))


def read_current_settings(manifest: Manifest) -> GraphSettings:
    """Return the settings as they are stored now."""
    return read_settings(manifest.objects) or default_settings(manifest.location)


def change_settings(manifest: Manifest, keep: str | None) -> GraphSettings:
    """Store other settings, those that are given, and return all."""
    if keep is not None:
        parse_keep(keep)
    with refs_lock(manifest.location, manifest.locks) as refs:
        stored = read_current_settings(manifest)
        changed = replace(stored, keep=keep or stored.keep)
        if changed != stored:
            refs.check()
            replace_settings(manifest.objects, changed)
    return changed


def _decode_keep(value: object) -> object:
    try:
        parse_keep(cast("str", TEXT.decode(value)))
    except ParameterError as error:
        raise ValueError("neither an age nor off") from error
    return value


def _codec(location: Location) -> RecordCodec[GraphSettings]:
    default = default_settings(location)
    return RecordCodec(
        GraphSettings,
        (
            nullable("durability", choice_of(DURABILITIES), default=default.durability),
            nullable("keep", Spelling(TEXT.encode, _decode_keep), default=default.keep),
            nullable("lock", choice_of(LOCK_KINDS), default=default.lock),
        ),
    )
