"""Strides and addresses of views and tiles; pointers, numbers, and tiles at addresses.

Every buffer of global memory has an address, so that a pointer that becomes a number and a pointer again is
the same one on every machine. A pointer into a tile is a handle of one row over its bytes.
"""

from dataclasses import replace

from ..errors import Diagnostic, NotExecutableError
from ..ir import I1, I64, INDEX, AddressSpace, DType, Op, PtrType, TileType
from . import reinterpret, windows
from .interpreter import Interpreter, executes
from .operands import NOWHERE, Choice, Operand, Pointer, Scalar, TileRef, chosen, region_of
from .scope import Scope
from .views import named_dimensions

#: Bytes from the beginning of one buffer to that of the next, as a power of two.
SPAN = 40


@executes("get_tensor_view_stride")
def _get_tensor_view_stride(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], interpreter.select(index, named_dimensions(op, view.strides)))


@executes("tensor_view_addr")
def _tensor_view_addr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    view = scope[op.ins[0]]
    scope.bind(op.results[0], Pointer(view.buffer, view.dtype, view.offset))


@executes("tile_buf_addr")
def _tile_buf_addr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, PtrType)
    scope.bind(op.results[0], _elements(interpreter, op, scope[op.ins[0]], t.dtype))


@executes("castptr")
def _castptr(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    given, t = scope[op.ins[0]], op.results[0].type
    found: Operand
    if not isinstance(t, PtrType):
        if isinstance(given, TileRef):
            raise _refused(op, "the address of a tile, which the planner chooses")
        found = address_of(interpreter, given)
    elif isinstance(given, Pointer):
        found = _retyped(interpreter, op, given, t.dtype)
    elif isinstance(given, TileRef):
        found = _elements(interpreter, op, given, t.dtype)
    elif t.space == AddressSpace.GM:
        found = pointer_at(interpreter, op, given, t.dtype)
    else:
        raise _refused(op, f"an address in {t.space.name.lower()}, which names no storage without an extent")
    scope.bind(op.results[0], found)


@executes("pointer_cast")
def _pointer_cast(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    addresses = [scope[v] for v in op.group("addrs")]
    if len(addresses) > 1:
        raise _refused(op, f"{len(addresses)} buffers used in turn; allowed: one address")
    t = reinterpret.tile_type(op, op.results[0])
    sizes = [scope[op.group(n)[0]] if op.group(n) else None for n in ("valid_row", "valid_col")]
    if None not in sizes:
        t = t.with_valid(None, None)
    ref = TileRef(t, interpreter.machine.allocate(op, t, addresses[0]), *region_of(t, *sizes))
    interpreter.machine.region(op, ref)
    scope.bind(op.results[0], ref)


def address_of(interpreter: Interpreter, pointer: Pointer) -> Scalar:
    """The address of the byte that a pointer is at."""
    choice, memory = chosen(pointer), interpreter.shared.memory
    options = (pointer.buffer,) if choice is None else choice.options
    bases = [(memory.index(str(name)) + 1) << SPAN for name in options]
    base = bases[0] if choice is None else interpreter.select(choice.index, bases)
    return windows.advanced(interpreter.machine, base, pointer.offset, pointer.dtype.storage_bits // 8)


def pointer_at(interpreter: Interpreter, op: Op, address: Scalar, dtype: DType) -> Pointer:
    """The pointer to the elements at an address."""
    memory, machine = interpreter.shared.memory, interpreter.machine

    def of(name: str, *args: Scalar, result: DType = INDEX) -> Scalar:
        return interpreter.scalar(f"arith.{name}", args, I64, result)

    if not memory:
        raise _refused(op, "an address in a function without buffers")
    first = memory[0]
    # The buffer is the address divided by the distance of two, rounded down.
    at = of("andi", address, (1 << SPAN) - 1)
    number = of("subi", of("divsi", of("subi", address, at), 1 << SPAN), 1)
    ends = (of("cmpi.slt", number, 0, result=I1), of("cmpi.sge", number, len(memory), result=I1))
    outside = windows.either(machine, *ends)
    machine.require(op, "address", "an address of a buffer", outside, "address {}", (address,))
    known = machine.known(number)
    if known is not None:
        buffer: Operand = memory[known] if 0 <= known < len(memory) else first
    else:
        buffer = Choice(number, memory) if len(memory) > 1 else first
    offset = _counted(interpreter, op, at, 1, dtype.storage_bits // 8)
    offset = interpreter.scalar("arith.select", (outside, NOWHERE, offset), INDEX, INDEX)
    return Pointer(buffer, dtype, offset, cast=True)


def _retyped(interpreter: Interpreter, op: Op, pointer: Pointer, dtype: DType) -> Pointer:
    """A pointer to elements of another type at the same byte."""
    old, new = pointer.dtype.storage_bits, dtype.storage_bits
    offset = _counted(interpreter, op, pointer.offset, old, new)
    return Pointer(pointer.buffer, dtype, offset, pointer.cast or old != new)


def _counted(interpreter: Interpreter, op: Op, offset: Scalar, old: int, new: int) -> Scalar:
    """An offset in units of ``old`` in units of ``new``, of which it has to be a whole number."""
    if old % new == 0:
        return windows.advanced(interpreter.machine, 0, offset, old // new)
    size = new // old
    rest = interpreter.scalar("arith.remsi", (offset, size), INDEX, INDEX)
    broken = interpreter.scalar("arith.cmpi.ne", (rest, 0), INDEX, I1)
    allowed = "an address that is a multiple of the element's size"
    interpreter.machine.require(op, "address-aligned", allowed, broken, "{} elements too many", (rest,))
    quotient = interpreter.scalar("arith.divsi", (offset, size), INDEX, INDEX)
    return interpreter.scalar("arith.select", (broken, NOWHERE, quotient), INDEX, INDEX)


def _elements(interpreter: Interpreter, op: Op, ref: TileRef, dtype: DType) -> TileRef:
    """A tile's bytes as one row of elements."""
    t = TileType(dtype, 1, ref.type.bytes * 8 // dtype.storage_bits, loc=ref.type.loc)
    storage = reinterpret.of_each(ref, lambda option: interpreter.machine.alias(op, option, t))
    return replace(ref, type=t, storage=storage, v_row=1, v_col=t.cols, pitched=False)


def _refused(op: Op, found: str) -> NotExecutableError:
    return NotExecutableError(Diagnostic("error", f"found {found}", op.span, op.name, rule="executable"))
