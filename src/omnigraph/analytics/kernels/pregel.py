"""Programs of one's own, run superstep by superstep: each node hears its neighbours, changes, and speaks.

A program sees the nodes of one block as columns, never a single node, and is called once for each block and superstep.
The state of all nodes is one structured array, so a superstep is a kernel like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from omnigraph.analytics.kernels.blocks import AdjacencyBlock, BlockEngine, State
from omnigraph.deadlines import check_deadline
from omnigraph.errors import ParameterError
from omnigraph.lazy_dataclass import dataclass

StateColumns: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The columns of the state, a value for each node of a block."""
Combine: TypeAlias = Literal["sum", "min", "max"]
Along: TypeAlias = Literal["copy", "plus_weight", "times_weight"]

GIVEN: Final = ("node", "degree", "count")
"""The columns that a state begins with: the number of a node, its edges, and the number of all nodes."""
_MESSAGE: Final = " message"
_SENDS: Final = " sends"
_TAKEN: Final = frozenset({"type", "id", _MESSAGE, _SENDS})
"""Columns that every result has, and internal columns of a state."""


class PregelProgram(Protocol):
    """A function of the number of the superstep, the state, and the messages that came, combined for each node.

    It returns the new state and the message that each node sends along its edges: a NumPy array, a masked one where
    some nodes send none, or None if no node of the block sends.
    """

    def __call__(
        self, step: int, state: StateColumns, messages: npt.NDArray[Any], /
    ) -> tuple[StateColumns, npt.NDArray[Any] | None]:
        """Run one superstep for the nodes of one block."""
        ...


@dataclass(frozen=True, slots=True)
class PregelRules:
    """How messages travel: combined by a sum, the smallest or the largest, and changed by weights on their way."""

    combine: Combine = "sum"
    along: Along = "copy"


def run_program(engine: BlockEngine, program: PregelProgram, rules: PregelRules, iterations: int) -> StateColumns:
    """Run a program until no node sends a message, at most ``iterations`` supersteps after the first."""
    degrees = engine.count_neighbours("outgoing")
    state = _pack(
        {"node": np.arange(engine.num_nodes), "degree": degrees, "count": np.full(engine.num_nodes, engine.num_nodes)},
        np.zeros(engine.num_nodes),
        np.zeros(engine.num_nodes, np.bool_),
    )
    for step in range(iterations + 1):
        check_deadline()
        try:
            state = engine.map_rows("incoming", PregelStep(program, rules, step), state)
        except np.exceptions.DTypePromotionError:
            raise ParameterError(
                "the program returns other columns for some blocks than for others",
                hint="return the same columns, whatever the nodes",
            ) from None
        if not len(state) or not state[_SENDS].any():
            break
    return {name: state[name] for name in _names_of(state) if name not in GIVEN}


@dataclass(frozen=True, slots=True)
class PregelStep:
    """One superstep of a program, as a kernel."""

    program: PregelProgram
    rules: PregelRules
    step: int

    def __call__(self, block: AdjacencyBlock, state: State) -> State:
        """Return the new state of the rows of a block."""
        own = state[block.first : block.first + block.num_rows]
        heard = _combine_messages(block, state, self.rules)
        found: Any = self.program(self.step, {name: own[name].copy() for name in _names_of(own)}, heard)
        if not isinstance(found, tuple) or len(cast("tuple[object, ...]", found)) != 2:
            raise ParameterError("the program does not return two values", hint="return state, messages")
        columns, messages = cast("tuple[Any, Any]", found)
        if not isinstance(columns, Mapping):
            raise ParameterError("the program returns no columns", hint='return a mapping such as {"rank": ranks}')
        kept = {
            _check_name(name): _check_column(block, name, each) for name, each in cast("StateColumns", columns).items()
        }
        if messages is None:
            return _pack(kept, np.zeros(block.num_rows, state[_MESSAGE].dtype), np.zeros(block.num_rows, np.bool_))
        sent = _check_column(block, "messages", np.ma.getdata(messages))
        is_sent: npt.NDArray[np.bool_] = ~np.ma.getmaskarray(np.ma.asanyarray(messages))
        return _pack(kept, sent, is_sent)


def _combine_messages(block: AdjacencyBlock, state: State, rules: PregelRules) -> npt.NDArray[Any]:
    """Return for each row the messages of its neighbours, combined; nothing is 0, or what the others win over."""
    values = state[_MESSAGE][block.neighbours]
    if block.weights is not None and rules.along != "copy":
        values = values + block.weights if rules.along == "plus_weight" else values * block.weights
    reduce_, nothing = _find_reduction(rules.combine, values.dtype)
    heard = np.full(block.num_rows, nothing, values.dtype)
    values = np.where(state[_SENDS][block.neighbours], values, nothing)
    rows = np.flatnonzero(np.diff(block.indptr))
    if len(rows):
        heard[rows] = reduce_.reduceat(values, block.indptr[rows])
    return heard


def _find_reduction(combine: Combine, dtype: np.dtype[Any]) -> tuple[np.ufunc, Any]:
    """Return how values are combined, and the value that changes nothing."""
    if combine == "sum":
        return np.add, dtype.type(0)
    is_whole = np.issubdtype(dtype, np.integer)
    if combine == "min":
        return np.minimum, np.iinfo(dtype).max if is_whole else np.inf
    return np.maximum, np.iinfo(dtype).min if is_whole else -np.inf


def _names_of(state: State) -> list[str]:
    return [name for name in state.dtype.names or () if name not in (_MESSAGE, _SENDS)]


def _pack(columns: StateColumns, messages: npt.NDArray[Any], sends: npt.NDArray[np.bool_]) -> State:
    parts = {**columns, _MESSAGE: messages, _SENDS: sends}
    packed = np.empty(len(sends), [(name, each.dtype) for name, each in parts.items()])
    for name, each in parts.items():
        packed[name] = each
    return packed


def _check_name(given: object) -> str:
    """Return the name of a column. Refuse a name that the result already has, in upper or lower case."""
    name = str(given)
    if name.lower() in _TAKEN:
        raise ParameterError(
            f"the program returns a column '{name}', and the result has one already",
            hint=f"give it another name, such as '{name.strip()}_value'",
        )
    return name


def _check_column(block: AdjacencyBlock, name: object, given: object) -> npt.NDArray[Any]:
    """Return a column with one of three types, so that those of all blocks agree; refuse anything else."""
    values: npt.NDArray[Any] = np.asarray(given)
    if values.shape != (block.num_rows,):
        raise ParameterError(
            f"the program returns {name} of shape {values.shape} for {block.num_rows} nodes",
            hint="return one value for each node of the state that was given",
        )
    if isinstance(given, np.ma.MaskedArray):
        raise ParameterError(f"the program returns {name} with a mask", hint="only messages may have one")
    for kind, kept in ((np.bool_, np.bool_), (np.integer, np.int64), (np.floating, np.float64)):
        if np.issubdtype(values.dtype, kind):
            return values.astype(kept)
    raise ParameterError(f"the program returns {name} as {values.dtype}", hint="return numbers or booleans")
