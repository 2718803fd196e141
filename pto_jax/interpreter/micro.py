"""Micro-operations on every machine: where they access memory, and the pointers that they move.

Addresses are arithmetic of the interpreter; what an operation computes, and what it does to the bytes at the
addresses, is the machine's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import NotExecutableError
from ..ir import I1, I64, INDEX, Op, ScalarType, dtype
from ..isa import find_micro
from ..isa.micro import Beside, MicroCall, MicroOperation, Numbers, Place
from .interpreter import MICRO, TRANSFERS, Interpreter, executes
from .operands import LocalPointer, Operand, Pointer, Scope, TileRef, TransferState, View
from .views import load_scalar, local_pointer, moved, store_scalar


@executes(MICRO)
def _micro(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    operation = find_micro(op.name)
    assert operation is not None, op.name
    if operation.kind == "order":
        return
    call = operation.call(op)
    for value in call.attributes.values():
        if value in operation.refused:
            raise _refused(op, f'"{value}", of which no source says what it does')
    operands: dict[str, Operand] = {name: scope[v] for name, v in operation.values(op).items()}
    if operation.kind == "scalar":
        if op.results:
            scope.bind(op.results[0], _queried(interpreter, op, list(operands.values())))
        else:
            _configure(interpreter, op, operands)
        return
    values = dict(operands)
    asked = operation.unexecuted is not None or any(p.subblock is not None for p in operation.places)
    numbers = _numbers(interpreter, operation, op, values) if asked else {}
    if operation.unexecuted is not None and not interpreter.machine.abstract:
        for message in operation.unexecuted(call, numbers):
            raise _refused(op, message)
    ends = [
        _placed(interpreter, operation, op, call, numbers, values, operands, place)
        for place in operation.places
    ]
    call = _with_state(interpreter, op, operation, call)
    if call.attributes.get("atomic") and not interpreter.machine.abstract:
        _require_elements(interpreter, op, operation, call, operands)
    results = interpreter.machine.micro(op, call, operands)
    if operation.updated(op):
        results = (*results, ends[-1])
    for value, result in zip(op.results, results, strict=True):
        scope.bind(value, result)


@executes("ld_dev")
def _load_device(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    load_scalar(interpreter, op, scope)


@executes("st_dev")
def _store_device(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    store_scalar(interpreter, op, scope)


def _placed(
    interpreter: Interpreter,
    declared: MicroOperation,
    op: Op,
    call: MicroCall,
    numbers: Numbers,
    values: Mapping[str, Operand],
    operands: dict[str, Operand],
    place: Place,
) -> Operand:
    """Move a pointer among the operands to where it is accessed; returns where it moves to.

    ``values`` are the operands as the operation has them, ``numbers`` the integers among them.
    """
    operand = values.get(place.pointer)
    if isinstance(operand, View):
        operand = Pointer(operand.buffer, operand.dtype, operand.offset)
    if not isinstance(operand, Pointer | LocalPointer | TileRef) or not place.applies(call):
        return operand
    if isinstance(operand, Pointer):
        operands[place.key] = operand
        return operand
    pointer = local_pointer(operand)
    unit = place.unit(call) if callable(place.unit) else place.unit
    size = pointer.dtype.storage_bits // 8 if unit is None else unit
    offset = operands.get(place.offset, 1 if unit is not None and not place.offset else 0)
    after = moved(interpreter.machine, pointer, offset, size)
    stays = declared.updated(op) or place.steady or not place.offset
    accessed = pointer if stays else after
    _require_aligned(interpreter, op, accessed, place.aligned(call))
    if place.beside is not None:
        accessed = _beside(interpreter, op, accessed, place.beside)
    if place.subblock is not None:
        accessed = replace(accessed, subblock=_subblock(interpreter, op, place.subblock(call, numbers)))
    operands[place.key] = accessed
    return after


def _beside(interpreter: Interpreter, op: Op, pointer: LocalPointer, beside: Beside) -> LocalPointer:
    """The place that belongs to a pointer in another memory, also where this is into a tile."""
    address = pointer.address
    if pointer.tile is not None:
        if pointer.tile.address is None:
            raise _refused(op, "a tile without an address; allowed: with addr at its pto.alloc_tile")
        address = interpreter.scalar("arith.addi", (pointer.tile.address, address), INDEX, INDEX)
    address = interpreter.scalar("arith.divsi", (address, beside.unit), INDEX, INDEX)
    return replace(pointer, space=beside.loc, address=address, tile=None)


def _numbers(
    interpreter: Interpreter, declared: MicroOperation, op: Op, values: Mapping[str, Operand]
) -> dict[str, int | None]:
    """The integers among the operands; None for one that only execution knows."""
    return {
        n: interpreter.machine.known(values[n])
        for n, v in declared.values(op).items()
        if isinstance(v.type, ScalarType) and v.type.dtype.is_integer
    }


def _subblock(interpreter: Interpreter, op: Op, result: int | None) -> int | None:
    """The vector core whose memory a place is in; NotExecutableError where only execution knows it."""
    if result is None and not interpreter.machine.abstract:
        raise _refused(op, "a number of a vector core that only execution knows")
    if result not in (None, 0, 1):
        raise _refused(op, f"vector core {result}; allowed: 0, 1")
    return result


def _require_aligned(interpreter: Interpreter, op: Op, pointer: LocalPointer, aligned: int) -> None:
    """The run-time rule that an address is a multiple of some bytes."""
    if aligned <= 1 or interpreter.machine.abstract:
        return
    _require_multiple(interpreter, op, "address", pointer.address, aligned)


def _require_multiple(interpreter: Interpreter, op: Op, name: str, number: Any, unit: int) -> None:
    """The run-time rule that a number of bytes is a multiple of some."""
    rest = interpreter.scalar("arith.remsi", (number, unit), INDEX, INDEX)
    broken = interpreter.scalar("arith.cmpi.ne", (rest, 0), INDEX, I1)
    truth = interpreter.machine.known(broken)
    broken = broken if truth is None else bool(truth)
    interpreter.machine.require(
        op, "address-aligned", f"a multiple of {unit} bytes", broken, f"{name} {{}}", (number,)
    )


def _require_elements(
    interpreter: Interpreter,
    op: Op,
    declared: MicroOperation,
    call: MicroCall,
    operands: Mapping[str, Operand],
) -> None:
    """The rule that atomic stores combine whole elements of the type that is set."""
    name = call.attributes["atomic_type"]
    for place in declared.places:
        pointer = operands.get(place.key)
        if place.access != "write" or not isinstance(pointer, Pointer):
            continue
        if not name:
            raise _refused(op, "an atomic store without a type; allowed: behind pto.set_atomic_f32 or alike")
        if not place.in_bytes:
            if pointer.dtype.name != name:
                raise _refused(op, f"an atomic store of {name} into {pointer.dtype}; allowed: of its type")
            continue
        size = dtype(name).word_bits // 8
        start = interpreter.scalar(
            "arith.muli", (pointer.offset, max(1, pointer.dtype.storage_bits // 8)), INDEX, INDEX
        )
        _require_multiple(interpreter, op, "address", start, size)
        for number in place.in_bytes.split():
            if number in operands:
                _require_multiple(interpreter, op, number, operands[number], size)


# -- configuration -----------------------------------------------------------------------------------------


def _configure(interpreter: Interpreter, op: Op, operands: Mapping[str, Operand]) -> None:
    """What the scalar unit sets for transfers that follow."""
    state: TransferState = interpreter.mode(op, TRANSFERS)
    what = op.name.partition("_")[2]
    numbers = tuple(map(interpreter.machine.known, operands.values()))
    if what.startswith("atomic_"):
        state = _atomic(state, what.removeprefix("atomic_"))
    elif None in numbers:
        raise _refused(op, "a number that only execution knows")
    elif what == "mov_pad_val":
        state = replace(state, pad=numbers[0] or 0)
    elif what == "ctrl":
        state = replace(state, control=numbers[0] or 0)
    else:
        state = replace(state, loops={**state.loops, what: tuple(n or 0 for n in numbers)})
    interpreter.modes[TRANSFERS] = state


def _queried(interpreter: Interpreter, op: Op, operands: Sequence[Operand]) -> Operand:
    """The control register, or a number with another bit."""
    if not operands:
        state: TransferState = interpreter.mode(op, TRANSFERS)
        return state.control
    value, at = operands
    bit = interpreter.scalar("arith.shli", (1, at), I64, I64)
    if op.name.endswith("0"):
        return interpreter.scalar(
            "arith.andi", (value, interpreter.scalar("arith.xori", (bit, -1), I64, I64)), I64, I64
        )
    return interpreter.scalar("arith.ori", (value, bit), I64, I64)


def _atomic(state: TransferState, what: str) -> TransferState:
    if what == "none":
        return replace(state, atomic="", atomic_type="")
    if what in ("add", "max", "min"):
        return replace(state, atomic=what)
    return replace(state, atomic_type=what.replace("s", "i"))


def _with_state(interpreter: Interpreter, op: Op, declared: MicroOperation, call: MicroCall) -> MicroCall:
    """A transfer with what is set for it."""
    if len(declared.places) < 2:
        return call
    state: TransferState = interpreter.mode(op, TRANSFERS)
    more: dict[str, Any] = {"atomic": state.atomic, "atomic_type": state.atomic_type}
    more |= {"loops": state.loops, "pad_value": state.pad, "control": state.control}
    # A clause of the operation itself comes before what is set.
    return replace(call, attributes={**call.attributes, **more, **_own(call, declared)})


def _own(call: MicroCall, declared: MicroOperation) -> Mapping[str, Any]:
    """The clauses of an operation that set what the scalar unit sets for others."""
    own = {
        n: call.attributes[n]
        for n in ("atomic", "atomic_type")
        if n in declared.clauses and n in call.attributes
    }
    if "atomic_type" in own:
        own["atomic_type"] = str(own["atomic_type"]).replace("s", "i")
    return own


def _refused(op: Op, what: str) -> NotExecutableError:
    return NotExecutableError(op.error("executable", f"got {what}"))
