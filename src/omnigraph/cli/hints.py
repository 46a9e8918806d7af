"""Hints of the library in the words of the command line: ``--mode merge`` where it says ``mode="merge"``."""

from __future__ import annotations

import re

_NAMES = "create|engine|format|from_|from_branch|if_commit|indexes|keep|mode|on_error|overwrite|rejects|timeout|txn"
_TEXT = re.compile(rf'\b({_NAMES})="([^"]*)"')
_SWITCH = re.compile(rf"\b({_NAMES}|allow_data_loss|allow_empty|confirm|force|rewrite_ids)=True")
_NO_COLUMN_CHARACTER = re.compile(r'[ "]')
_IDENTITY = re.compile(r'\bidentity=\{"(\w+)": \[([^\]]*)\]\}')


_FLAGS = {"confirm": "--yes", "from_": "--from", "from_branch": "--from"}
"""The options that have another name than the argument."""
_PHRASES = {
    "name one of them": "name one of them with --name",
    "run it as a query": "run it with omnigraph query",
    "run it with mutate": "run it with omnigraph mutate",
}
_TABLES = re.compile(r"load\(nodes=\{[^}]*\}\), or (omnigraph load [^;]*); .*\Z")
_VALUE = re.compile(r"\Agive (\w+) a value\Z")


def speak_flags(hint: str) -> str:
    """Replace arguments of Python functions by the options that a user of the command line types."""
    hint = _VALUE.sub(r"give it a value: -p \1=VALUE", _PHRASES.get(hint, hint))
    hint = _TABLES.sub(r"\1, or --edge for edges", hint)
    hint = _IDENTITY.sub(lambda found: f"--identity {found[1]}={_NO_COLUMN_CHARACTER.sub('', found[2])}", hint)
    hint = _TEXT.sub(lambda found: f"{_flag(found[1])} {found[2]}", hint)
    return _SWITCH.sub(lambda found: _flag(found[1]), hint)


def _flag(name: str) -> str:
    return _FLAGS.get(name, f"--{name.replace('_', '-')}")
