"""Run the operators of a match one after the other, on as many rows at a time as the memory of the query allows.

Every operator but a ranking looks at one row at a time. So an operator that would need too much memory for a frame gets
it in parts, and each part goes on through the operators above before the next one is made. What the parts leave is put
together again where it is small, because equal rows are kept once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from types import GeneratorType
from typing import Final, TypeAlias

from omnigraph.deadlines import check_deadline
from omnigraph.errors import MemoryExceeded
from omnigraph.language.query.plan import Cross, Select
from omnigraph.lazy_dataclass import dataclass
from omnigraph.read.context import QueryContext
from omnigraph.read.frames import Frame, OptionalEntities, PathSet, join_pieces
from omnigraph.read.match.counting import collapse_frame
from omnigraph.read.match.liveness import StepPlan, Variables
from omnigraph.read.memory import Holding

PIECE_ROWS: Final = 65_536
"""A match that runs in pieces anyway takes so many rows at a time."""


@dataclass(slots=True)
class Task:
    """One operator to execute, or a product together with the selection above it that makes it a join."""

    plan: StepPlan
    needed: Variables
    is_test: bool = False
    """Whether it is asked only if there are rows, and not how many."""
    join: Select | None = None
    right: Frame | None = None
    """The right side of a product, once it is computed: it is the same for all pieces of the left."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a match, and whether these are all of them."""

    frame: Frame
    is_only: bool


ExecuteTask: TypeAlias = Callable[[Task, Frame, QueryContext], Frame]


def measure_frame(frame: Frame) -> int:
    """Return the bytes of a frame, with the paths that only its rows refer to."""
    nbytes = frame.nbytes
    for column in frame.bindings.values():
        nbytes += _measure_paths(column.entities)
    return nbytes


def _measure_paths(entities: object) -> int:
    base = entities.base if isinstance(entities, OptionalEntities) else entities
    return base.nbytes if isinstance(base, PathSet) else 0


def collect_pieces(pieces: Iterable[Piece], context: QueryContext) -> Frame:
    """Return all rows of a match as one frame."""
    frames: list[Frame] = []
    with context.memory.hold() as held:
        for piece in pieces:
            if piece.is_only:
                return piece.frame
            # Twice, because they are put together in the end.
            held.add(2 * measure_frame(piece.frame))
            frames.append(piece.frame)
        return _join(frames)


def _join(frames: Sequence[Frame]) -> Frame:
    filled = [frame for frame in frames if frame.num_rows]
    return collapse_frame(join_pieces(filled)) if len(filled) > 1 else (filled or frames)[0]


def _raise_unless_fewer_rows_help(error: MemoryExceeded, frame: Frame) -> None:
    """Raise an error again if the task would fail for fewer rows too.

    So it is for one row. If a block inside failed for one of its rows, fewer rows help only if much is held out here.
    """
    is_held_outside = error.held * 2 >= error.budget
    if frame.num_rows <= 1 or (error.is_for_one_row and not is_held_outside):
        error.is_for_one_row = True
        raise error


@dataclass(frozen=True, slots=True)
class PieceRunner:
    """Runs some tasks of a match, each as far as the memory of the query allows."""

    tasks: Sequence[Task]
    execute: ExecuteTask
    load_right: Callable[[Task, Piece, QueryContext], Frame]
    context: QueryContext
    drop_done: Callable[[Frame], Frame] | None = None
    """Drops the rows for which there is nothing to find any more. It makes all tasks run in pieces."""
    is_streamed: bool = False
    """Whether the first rows are wanted early, so that products run in pieces."""
    _holdings: list[Holding] = field(default_factory=list[Holding], init=False)
    """What the input of each task holds, then the result, and last the right sides of products."""

    def run(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        """Yield the results of all tasks for some input, at least one piece, even if it has no rows."""
        self._holdings.extend(Holding(self.context.memory) for _ in range(len(self.tasks) + 2))
        # Not recursive: a long match has many tasks. The iterator at a place yields the input of the task there.
        levels: list[Iterator[Piece]] = [self._hold_input(pieces)]
        try:
            while levels:
                piece = next(levels[-1], None)
                if piece is None:
                    levels.pop()
                elif len(levels) <= len(self.tasks):
                    levels.append(self._apply(len(levels) - 1, piece))
                else:
                    yield piece
                    del piece
                    self._holdings[len(self.tasks)].resize(0)
        finally:
            for level in reversed(levels):
                if isinstance(level, GeneratorType):
                    level.close()
            for holding in self._holdings:
                holding.resize(0)

    def _hold_input(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            self._holdings[0].resize(measure_frame(piece.frame))
            yield piece

    def _apply(self, number: int, piece: Piece) -> Iterator[Piece]:
        """Yield what a task makes of a piece."""
        task, frame, is_only = self.tasks[number], self._drop(piece.frame), piece.is_only
        if isinstance(task.plan, Cross) and task.right is None:
            task.right = self.load_right(task, piece, self.context)
            self._holdings[-1].add(measure_frame(task.right))
        del piece
        size = self._choose_size(task)
        result = self._try_to_execute(number, frame) if size is None or size >= frame.num_rows else None
        if result is None:
            yield from self._apply_in_parts(number, frame, size or frame.num_rows // 2, is_only=is_only)
            self._holdings[number].resize(0)
            return
        # The input is not needed any more, while the result is on its way through the tasks above.
        del frame
        self._holdings[number].resize(0)
        made = [Piece(result, is_only)]
        del result
        yield made.pop()

    def _try_to_execute(self, number: int, frame: Frame) -> Frame | None:
        """Return what a task makes of a whole frame; None if that would need too much memory."""
        try:
            with self.context.memory.share(len(self.tasks) - number + 1):
                result = self.execute(self.tasks[number], frame, self.context)
            self._holdings[number + 1].resize(measure_frame(result))
        except MemoryExceeded as error:
            _raise_unless_fewer_rows_help(error, frame)
            return None
        return result

    def _drop(self, frame: Frame) -> Frame:
        return frame if self.drop_done is None else self.drop_done(frame)

    def _choose_size(self, task: Task) -> int | None:
        """Return how many rows a task takes at a time, whatever the memory."""
        if self.drop_done is not None:
            return PIECE_ROWS
        if self.is_streamed and isinstance(task.plan, Cross) and task.join is None and task.right is not None:
            return max(1, PIECE_ROWS // max(1, task.right.num_rows))
        return None

    def _apply_in_parts(self, number: int, frame: Frame, size: int, *, is_only: bool) -> Iterator[Piece]:
        """Yield what a task makes of a frame, a part after the other; small results are put together."""
        memory, shares = self.context.memory, len(self.tasks) - number + 1
        is_gathering = self.drop_done is None and not self.is_streamed
        most = memory.left // (2 * shares) if is_gathering else 0
        begin, made = 0, list[Frame]()
        with memory.hold() as held:
            while begin < frame.num_rows:
                check_deadline()
                part = self._drop(frame.slice(begin, begin + size))
                try:
                    with memory.share(shares) as share:
                        result = self.execute(self.tasks[number], part, self.context)
                    # Twice, because they are put together.
                    held.add(2 * measure_frame(result))
                except MemoryExceeded as error:
                    if made:
                        is_only = False
                        yield self._hand_over(number, made, held, is_only=False)
                    else:
                        _raise_unless_fewer_rows_help(error, part)
                        size = max(1, min(size, part.num_rows) // 2)
                    continue
                begin += size
                made.append(result)
                if is_gathering and share.used * 4 <= share.size:
                    size *= 2
                if held.nbytes > most:
                    made[:] = [_join(made)]
                    held.resize(2 * measure_frame(made[0]))
                if 2 * held.nbytes > most and made[0].num_rows and begin < frame.num_rows:
                    is_only = False
                    yield self._hand_over(number, made, held, is_only=False)
            if made:
                yield self._hand_over(number, made, held, is_only=is_only)

    def _hand_over(self, number: int, made: list[Frame], held: Holding, *, is_only: bool) -> Piece:
        joined = _join(made)
        made.clear()
        held.resize(0)
        self._holdings[number + 1].resize(measure_frame(joined))
        return Piece(joined, is_only)
