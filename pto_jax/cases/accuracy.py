"""Accuracy of a program's results: exact, bounded in ULP, or derived from a bounded result.

Instructions without a correctly rounded definition have a bound; what is computed from their results has
none, because a comparison or a cancellation makes any difference large. Where data may flow is found as if
every path were taken (:mod:`pto_jax.analysis.provenance`).
"""

from collections.abc import Iterable

from .. import isa
from ..analysis import dataflow, provenance
from ..analysis.entries import fragment_outputs, written_buffers
from ..analysis.resolve import resolve
from ..ir import Function, Op, Program, ScalarType, Value
from ..isa.effects import traits_of
from ..isa.rules.constraints import element_type
from .targets import UNBOUNDED

_NONE = 1 << 62


def bounds(program: Program, function: Function) -> dict[str, int]:
    r"""ULP bounds of results that are not exact, :data:`.targets.UNBOUNDED` for those that have none.

    >>> import pto_jax as pto
    >>> text = "texp %b, %a : !pto.tile<16x16xf32>"
    >>> program = pto.parse(text)
    >>> bounds(program, program.functions[0])
    {'b': 1}
    >>> program = pto.parse(text + "\ntneg %c, %b : !pto.tile<16x16xf32>")
    >>> bounds(program, program.functions[0])
    {'b': 1, 'c': -1}
    """
    levels = _Levels(program)
    names = fragment_outputs(program) if program.fragment else written_buffers(program, function)
    table = {name: levels.of(function, name) for name in names}
    return {name: UNBOUNDED if level == _NONE else level for name, level in table.items() if level}


class _Levels:
    """The sparse problem: levels of all data, 0 exact, a bound, or the highest one, where there is none."""

    def __init__(self, program: Program) -> None:
        self._levels: dict[provenance.Name, int] = {}
        #: What decides on a path was not exact.
        self._everything = False
        ops = [(f, op) for f in program.functions for op in f.walk()]
        if any(_declared(op) for _, op in ops):
            self._resolved, self._classes = resolve(program), provenance.AliasClasses(program)
            dataflow.raise_values(ops, lambda at: self._execute(*at))

    def of(self, function: Function, name: str) -> int:
        """The level of what a name of a function stands for."""
        if self._everything or not self._levels:
            return _NONE if self._everything else 0
        return self._levels.get(self._classes.of(function.name, name), 0)

    def _execute(self, f: Function, op: Op) -> bool:
        """Raise the levels of what an operation writes; whether one changed."""
        if self._highest(f, _deciding(op)):
            changed, self._everything = not self._everything, True
            return changed
        source = self._highest(f, op.ins)
        changed = False
        for v in dict.fromkeys((*op.outs, *op.results, *self._resolved.of(op).written())):
            declared = _declared(op, v)
            exact_move = not declared and _moves(op)
            level = declared if not source else source if exact_move else _NONE
            written = self._classes.of(f.name, v.name)
            if level > self._levels.get(written, 0):
                self._levels[written], changed = level, True
        return changed

    def _highest(self, f: Function, values: Iterable[Value]) -> int:
        return max((self.of(f, v.name) for v in values), default=0)


def _deciding(op: Op) -> tuple[Value, ...]:
    """The values that decide which operations are executed."""
    traits = traits_of(op)
    if traits.decides:
        return op.ins[:1]
    if not op.regions or (traits.regions is not None and traits.regions.runs == "while"):
        return ()
    return op.ins[: len(op.ins) - len(op.group("inits"))]


def _declared(op: Op, written: Value | None = None) -> int:
    """The bound that an instruction's declaration gives its results, 0 where they are exact."""
    instruction = isa.find(op.name)
    if instruction is None or not instruction.ulp:
        return 0
    if written is None:
        return max(instruction.ulp.values())
    d = getattr(written.type, "dtype", None)
    return instruction.ulp.get(d.name, 0) if d is not None else max(instruction.ulp.values())


def _moves(op: Op) -> bool:
    """Whether an operation gives the elements of its source as they are, or makes another name of it."""
    traits = traits_of(op)
    if traits.alias is not None or traits.placement is not None:
        return True
    instruction = isa.find(op.name)
    if instruction is None or instruction.moves != "copy":
        return False
    types = {element_type(v.type) for v in (*op.ins, *op.destinations) if not isinstance(v.type, ScalarType)}
    attributes = (instruction.attribute(name) for name, _ in op.attributes)
    return len(types) == 1 and all(a is not None and a.of_layout for a in attributes)
