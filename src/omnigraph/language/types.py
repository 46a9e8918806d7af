"""The types of values: of properties, parameters and expressions."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from omnigraph.lazy_dataclass import dataclass

MAX_VECTOR_DIMENSION = 2**31 - 1


class Scalar(StrEnum):
    """The basic types, spelled as in both languages."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    VECTOR = "Vector"


INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
FLOATS = frozenset({Scalar.F32, Scalar.F64})
NUMBERS = INTEGERS | FLOATS
INTEGER_RANGES = {
    Scalar.I32: range(-(2**31), 2**31),
    Scalar.I64: range(-(2**63), 2**63),
    Scalar.U32: range(2**32),
    Scalar.U64: range(2**64),
}


@dataclass(frozen=True, slots=True)
class ValueType:
    """A scalar or a list of scalars, nullable or not. An enum is a String with sorted allowed values."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimension: int | None = None

    def __str__(self) -> str:
        if self.enum_values is not None:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            core = f"Vector({self.dimension})"
        else:
            core = str(self.scalar)
        return (f"[{core}]" if self.is_list else core) + ("?" if self.nullable else "")

    @property
    def is_number(self) -> bool:
        """Whether it is a single number, not a list."""
        return self.scalar in NUMBERS and not self.is_list

    @property
    def item(self) -> ValueType:
        """The type of a list's elements."""
        return replace(self, is_list=False, nullable=False)

    def as_nullable(self) -> ValueType:
        """Return the same type, but nullable."""
        return replace(self, nullable=True)
