"""Ranks over time: copies into windows, signals and waits, in the order in which they were executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import ArgumentError, one_of
from ..interpreter import Interpreter, Pointer, Scalar, Scope, Steps, View
from ..interpreter.cores import Block, Core
from ..interpreter.ranks import Cell, Watch
from ..ir import Op, Program, WaitCmp
from ..isa import effects, find
from .svg import Canvas, Picture, num

#: Steps that are drawn; later ones are counted.
STEPS = 120
_LEFT, _LANE, _BAR, _STEP = 74.0, 46.0, 20.0, 26.0
_KINDS = {"copy": "first", "signal": "reuse", "wait": "other"}


class Ranks(Protocol):
    """What is drawn: a kernel on ranks."""

    @property
    def ranks(self) -> int:
        """How many there are."""

    def prepared(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, list[Any]]]:
        """The buffers and scalars of a call."""

    def interpreted(
        self, arrays: Mapping[str, Any], numbers: Mapping[str, Sequence[Any]], **watching: Any
    ) -> dict[str, Any]:
        """Execute a call."""


@dataclass(frozen=True)
class Step:
    """One step of a rank: a copy, a signal or the end of a wait, and the cells of signals."""

    rank: int
    kind: str
    op: Op
    what: str
    cells: tuple[Cell, ...] = ()


@dataclass(eq=False)
class _Story(Watch):
    steps: list[Step] = field(default_factory=list)

    def notified(self, rank: int, op: Op, place: Pointer, value: Scalar, *, adds: bool) -> None:
        """A signal changes."""
        cell = Cell(str(place.buffer), int(place.offset))
        what = f"{cell} {'+=' if adds else '='} {int(value)}"
        self.steps.append(Step(rank, "signal", op, what, (cell,)))

    def waited(self, rank: int, op: Op, places: Sequence[Pointer], compared: WaitCmp, value: Scalar) -> None:
        """A wait ends."""
        cells = tuple(Cell(str(p.buffer), int(p.offset)) for p in places)
        self.steps.append(Step(rank, "wait", op, f"{cells[0]} {compared.name.lower()} {int(value)}", cells))

    def interpreter(self, program: Program, machine: Any, core: Core, shared: Block) -> Interpreter:
        """What executes the operations of a core and notes its copies."""
        return _Teller(self, program, machine, core, shared)


class _Teller(Interpreter):
    def __init__(self, story: _Story, program: Program, machine: Any, core: Core, shared: Block) -> None:
        super().__init__(program, machine, core, shared)
        self.story = story

    def step(self, op: Op, scope: Scope) -> Steps[None]:
        """Execute one operation, and note a copy."""
        yield from super().step(op, scope)
        instruction = find(op.name)
        if (
            instruction is None
            or instruction.cls != "communication"
            or effects.traits_of(op).order is not None
        ):
            return
        views = [v for v in map(scope.find, (*op.outs, *op.ins)) if isinstance(v, View)]
        if views:
            what = " <- ".join(dict.fromkeys(str(v.buffer) for v in views))
            self.story.steps.append(Step(self.shared.rank, "copy", op, what))


def ranks(kernel: Ranks, values: Mapping[str, Any]) -> Picture:
    """The ranks of a kernel over time: a lane for each, and arrows from signals to the waits they end.

    ``kernel`` is compiled with ``ranks``, ``values`` are the arguments of one call, which the interpreter
    executes. Bars are copies, signals and waits in the order of their execution; their titles name the line,
    the cell and the value. Errors as for a call.

    >>> import pto_jax as pto
    >>> from pto_jax.examples import ON_RANKS
    >>> ring = ON_RANKS["ring_exchange"]
    >>> options = {"shared": ring.shared, "context": ring.context}
    >>> kernel = pto.compile(pto.load(ring.path), ranks=4, **options)
    >>> ranks(kernel, ring.arguments())
    <Picture: 4 ranks, 12 steps: 4 copies, 4 signals, 4 waits>
    """
    if not hasattr(kernel, "interpreted") or not isinstance(values, Mapping):
        got = f"{one_of(kernel)} and {one_of(values)}"
        allowed = "a kernel on ranks, and its arguments by name"
        raise ArgumentError(f"picture: got {got}", allowed=allowed, fix="pto.compile(program, ranks=2)")
    story = _Story()
    kernel.interpreted(*kernel.prepared((), values), watch=story, make=story.interpreter)
    steps = story.steps[:STEPS]
    counts = ", ".join(
        f"{n} {word}" for kind, word in (("copy", "copies"), ("signal", "signals"), ("wait", "waits"))
        if (n := sum(s.kind == kind for s in story.steps))
    )  # fmt: skip
    label = f"{kernel.ranks} ranks, {len(story.steps)} steps: {counts or 'nothing that ranks see'}"
    canvas = Canvas(max(360.0, _LEFT + _STEP * (len(steps) + 1)), label)
    canvas.text(12, 20, label, "title")
    for rank in range(kernel.ranks):
        y = _lane(rank)
        canvas.text(12, y + 14, f"rank {rank}", "soft")
        canvas.path(f"M{num(_LEFT)} {num(y + _BAR / 2)}H{num(canvas.width - 12)}", "thin")
    _draw(canvas, steps)
    bottom = canvas.legend(
        (
            ("first", "copy"),
            ("reuse", "signal"),
            ("other", "end of a wait"),
            ("", "arrows: what ends a wait"),
        ),
        _lane(kernel.ranks) + 4,
    )
    return canvas.picture(bottom + 6)


def _lane(rank: int) -> float:
    return 36 + _LANE * rank


def _draw(canvas: Canvas, steps: Sequence[Step]) -> None:
    latest: dict[Cell, int] = {}
    for number, step in enumerate(steps):
        x, y = _LEFT + _STEP * number + 4, _lane(step.rank)
        line = f"{step.op.span.file}:{step.op.span.line}: " if step.op.span is not None else ""
        title = f"{line}{step.op.name}: {step.what}"
        canvas.rect(x, y, _STEP - 8, _BAR, _KINDS[step.kind], title=title, radius=3)
        for cell in step.cells if step.kind == "wait" else ():
            if cell in latest:
                _arrow(canvas, latest[cell], steps[latest[cell]].rank, number, step.rank)
        if step.kind == "signal":
            latest[step.cells[0]] = number


def _arrow(canvas: Canvas, start: int, of: int, end: int, to: int) -> None:
    """An arrow from a signal to the wait that it ends."""
    x0, x1 = (_LEFT + _STEP * n + _STEP / 2 for n in (start, end))
    edge = 0.0 if of == to else _BAR if to > of else 0.0
    y0, y1 = _lane(of) + edge, _lane(to) + (_BAR - edge if of != to else 0.0)
    canvas.path(f"M{num(x0)} {num(y0)}L{num(x1)} {num(y1)}", "arrow", "ends the wait")
