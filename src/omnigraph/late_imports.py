"""Imports that wait: for the first use of a module, so that opening a graph does not load every verb, or for ever."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from importlib.abc import Loader


_IMPORTED: Final = "__imported__"


class LateModule(ModuleType):
    """Stands for a module. The type checker sees the module itself, imported under ``TYPE_CHECKING``."""

    def __getattr__(self, name: str) -> object:
        found = self.__dict__.get(_IMPORTED)
        if found is None:
            found = self.__dict__[_IMPORTED] = import_module(self.__name__)
        return getattr(found, name)


def import_late(package: str, names_by_module: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package that imports some of its modules when one of their names is used."""
    modules = {name: module for module, names in names_by_module.items() for name in names}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(f"{package}.{modules[name]}"), name)
        # The next use does not come here.
        setattr(sys.modules[package], name, found)
        return found

    return find


@contextmanager
def leave_out(module: str, until: str) -> Generator[None]:
    """Make the import of an installed module fail, as if it were not installed, until another one is imported."""
    finder = _LeftOut(module, until)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _LeftOut:
    """Finds the module, and refuses to load it."""

    def __init__(self, module: str, until: str) -> None:
        self._module = module
        self._until = until

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002  Python passes them
        return (
            ModuleSpec(name, cast("Loader", self)) if name == self._module and self._until not in sys.modules else None
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ModuleNotFoundError(f"{spec.name} is left out", name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        raise AssertionError(f"{module} cannot be created")
