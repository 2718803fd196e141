"""Pipes between the cube core and the vector cores of a block.

A slot is the logical contents of a tile: which memory a FIFO occupies has no effect on values. With
``split`` 1 or 2 each vector core has one half of the rows or columns, with 0 the first core has all.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from ..errors import Diagnostic, NotExecutableError
from ..ir.program import Op
from ..ir.types import TileType
from .cores import Block, Core, Kind
from .interpreter import Interpreter, Steps, Waiting, executes
from .operands import Operand, TileRef, region_of
from .scope import Scope

#: Buffers and rings have no effect on values; addresses of buffers are numbers nobody computes with.
_SETUP = ("reserve_buffer", "import_reserved_buffer", "aic_initialize_pipe", "aiv_initialize_pipe")


@executes(*_SETUP)
def _set_up(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    for result in op.results:
        scope.bind(result, op.attrs.get("base", 0))


@executes("initialize_l2l_pipe", "initialize_l2g2l_pipe")
def _ring(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], (op.attrs.get("flag_base", 0),))


@executes("declare_tile")
def _declare(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, TileType)
    scope.bind(op.results[0], TileRef(t, interpreter.machine.fresh(op, op.results[0], t), *region_of(t)))


@executes("tfree_from_aic", "tfree_from_aiv", "tfree")
def _free(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    """A slot is a value here: nothing has to be given back."""


@executes("tpush_to_aiv", "tpush_to_aic", "tpush")
def _push(interpreter: Interpreter, op: Op, scope: Scope) -> None:
    tile, ring = _operands(op, scope)
    if not isinstance(tile, TileRef):
        raise _refused(op, "a slot in global memory; allowed: a tile")
    if interpreter.machine.abstract:
        return
    shared, core = _meeting(interpreter, op), interpreter.core
    _partnered(op, shared, core)
    split = _split(op)
    contents = interpreter.machine.contents(tile)
    if core.kind == "cube":
        for other in shared.cores:
            if other.kind == "vector" and (split or other.subblock == 0):
                part = _half(contents, split, other.subblock) if split else contents
                _queue(shared, "c2v", ring, other).append(part)
    elif split or core.subblock == 0:
        _queue(shared, "v2c", ring, core).append(contents)
    shared.changes += 1


@executes("tpop_from_aic", "tpop_from_aiv", "tpop")
def _pop(interpreter: Interpreter, op: Op, scope: Scope) -> Steps[None]:
    target = op.results[0] if op.results else op.ins[0]
    _, ring = _operands(op, scope)
    t = target.type
    if not isinstance(t, TileType):
        raise _refused(op, "a slot in global memory; allowed: a tile")
    given = {name: scope[op.group(name)[0]] for name, size in op.groups if size and name.startswith("valid")}
    sizes = region_of(t, given.get("valid_row"), given.get("valid_col"))
    contents = None if interpreter.machine.abstract else (yield from _next(interpreter, op, ring, t))
    ref = TileRef(t, interpreter.machine.receive(op, target.name, t, contents), *sizes)
    interpreter.machine.region(op, ref)
    (scope.bind if op.results else scope.update)(target, ref)


def _next(interpreter: Interpreter, op: Op, ring: Any, t: TileType) -> Steps[Any]:
    """The contents of the next slot for a core."""
    shared, core = _meeting(interpreter, op), interpreter.core
    _partnered(op, shared, core)
    if core.kind == "cube":
        cores = [c for c in shared.cores if c.kind == "vector" and (_split(op) or c.subblock == 0)]
        queues = [_queue(shared, "v2c", ring, c) for c in cores]
    else:
        queues = [_queue(shared, "c2v", ring, core)]
    while not all(queues):
        yield Waiting(op, "a tile in the pipe")
    parts = [queue.popleft() for queue in queues]
    shared.changes += 1
    contents = parts[0] if len(parts) == 1 else interpreter.machine.concatenate(parts, _split(op) - 1)
    if contents.shape != t.shape or contents.dtype != t.dtype.word:
        found = "x".join(map(str, contents.shape))
        words = f"{found} words of {contents.dtype.itemsize} bytes"
        raise _refused(op, f"a slot of {words} for a tile {t}; allowed: equal sizes")
    return contents


def _operands(op: Op, scope: Scope) -> tuple[Operand, Any]:
    """The tile pushed and the ring it goes through; functions without handles have one ring."""
    named = {v.name: scope[v] for v in op.ins if not op.groups}
    ring = next((o for o in named.values() if isinstance(o, tuple)), (0,))
    return next((o for o in named.values() if not isinstance(o, tuple)), None), ring


def _split(op: Op) -> int:
    split = op.attrs.get("split", 0)
    assert isinstance(split, int)
    return int(split)


def _half(contents: Any, split: int, which: int) -> Any:
    size = contents.shape[split - 1] // 2
    part = slice(which * size, (which + 1) * size)
    return contents[part] if split == 1 else contents[:, part]


def _queue(shared: Block, direction: str, ring: Any, core: Core) -> deque[Any]:
    return shared.queues.setdefault((direction, ring, core.subblock), deque())


def _meeting(interpreter: Interpreter, op: Op) -> Block:
    """The block of a core, which must be known to come here."""
    if interpreter.machine.depth != interpreter.shared.depth:
        raise _refused(
            op, "under control flow that only execution knows; allowed: known conditions and trip counts"
        )
    return interpreter.shared


def _partnered(op: Op, shared: Block, core: Core) -> None:
    """A pipe has a core at its other end."""
    other: Kind = "vector" if core.kind == "cube" else "cube"
    if not shared.has(other):
        raise _refused(op, f"a pipe without a {other} core; allowed: a program of both kinds of cores")


def _refused(op: Op, found: str) -> NotExecutableError:
    return NotExecutableError(Diagnostic("error", f"found {found}", op.span, op.name, rule="pipe"))
