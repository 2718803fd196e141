"""Looking keys up in a hash table in global memory, element by element."""

from functools import partial, reduce

from ..ir import I1, I32, INDEX, DType, Op
from .interpreter import Interpreter, executes
from .machine import Body, Machine
from .operands import Operand, Pointer, Scalar, View
from .scope import Frame, Scope
from .windows import advanced, either

#: How many slots are looked at, the key of an empty one, and what a query without a value gives.
PROBES, EMPTY, ABSENT = 64, -(1 << 31), -1
#: The shift before each product of the hash, and the factor; a last shift follows.
MIXED, LAST_SHIFT = ((16, 0x7FEB352D), (15, 0x846CA68B - (1 << 32))), 16


@executes("hashfind")
def _hashfind(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    dst, (keys, values, queries) = scope[op.destinations[0]], [scope[v] for v in op.ins]
    machine, frame = interpreter.machine, interpreter.frame(op, scope)
    number = _Numbers(interpreter)

    def element(view: View, at: Scalar) -> Pointer:
        return Pointer(view.buffer, view.dtype, number.position(view, at))

    last = number("index_cast", number.index("subi", number.elements(keys), 1), source=INDEX)

    def look_up(at: Scalar, carried: tuple[Operand, ...]) -> tuple[Operand, ...]:
        query = machine.load(op, element(queries, at), I32)
        hashed = number.hashed(query)

        def probe(count: Scalar, state: tuple[Operand, ...]) -> tuple[Operand, ...]:
            found, searching = state
            slot = number("andi", number("addi", hashed, number("index_cast", count, source=INDEX)), last)
            slot = number.index("index_cast", slot, source=I32)
            key = machine.load(op, element(keys, slot), I32)
            hit, end = (number("cmpi.eq", key, wanted, result=I1) for wanted in (query, EMPTY))
            value = number.index("index_cast", machine.load(op, element(values, slot), I32), source=I32)
            takes = number.index("select", hit, searching, 0)
            takes = number("cmpi.ne", takes, 0, source=INDEX, result=I1)
            stops = either(machine, hit, end)
            return number.index("select", takes, value, found), number.index("select", stops, 0, searching)

        found, _ = _repeated(machine, frame, PROBES, (ABSENT, 1), probe)
        machine.store(op, element(dst, at), number("index_cast", found, source=INDEX))
        return ()

    _repeated(machine, frame, number.elements(queries), (), look_up)


def _repeated(
    machine: Machine, frame: Frame, trips: Scalar, inits: tuple[Operand, ...], body: Body
) -> tuple[Operand, ...]:
    """What is carried after so many trips, or once the last of it is known to be 0."""
    known = machine.known(trips)
    if known is None or not machine.unrolls(frame.op, known):
        return machine.loop(frame, trips, inits, body)
    carried = inits
    for trip in range(known):
        if carried and machine.known(carried[-1]) == 0:
            break
        carried = body(machine.counter(trip), carried)
    return carried


class _Numbers:
    """Arithmetic on 32-bit numbers and on indices."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def __call__(self, name: str, *args: Scalar, source: DType = I32, result: DType = I32) -> Scalar:
        return self.interpreter.scalar(f"arith.{name}", args, source, result)

    def index(self, name: str, *args: Scalar, source: DType = INDEX) -> Scalar:
        """An operation whose result is an index."""
        return self(name, *args, source=source, result=INDEX)

    def hashed(self, number: Scalar) -> Scalar:
        """The hash of a number."""
        for shift, factor in MIXED:
            number = self("muli", self("xori", number, self("shrui", number, shift)), factor)
        return self("xori", number, self("shrui", number, LAST_SHIFT))

    def elements(self, view: View) -> Scalar:
        """How many elements a view has."""
        return reduce(partial(self.interpreter.index, "arith.muli"), view.shape)

    def position(self, view: View, at: Scalar) -> Scalar:
        """The offset of an element of a view, counted row by row."""
        offset, rest = view.offset, at
        for extent, stride in reversed(list(zip(view.shape, view.strides, strict=True))):
            offset = advanced(self.interpreter.machine, offset, self.index("remsi", rest, extent), stride)
            rest = self.index("divsi", rest, extent)
        return offset
