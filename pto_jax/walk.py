"""Executes a program's operations in order on some machine.

The walker owns what does not depend on how tiles are computed: names and scopes, scalar constants,
global-memory views, tile handles, calls. A :class:`Machine` owns storage and arithmetic; the JAX
lowering and the NumPy oracle are two machines. Scalars are Python numbers while they are known and the
machine's own scalars afterwards, so views and addresses fold to constants wherever the text allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

from . import isa
from .analysis import fragment_outputs
from .dtypes import I1, INDEX, DType
from .errors import Diagnostic, NotExecutableError
from .fold import fold, operation, scalar_dtype
from .image_state import ImageState
from .ir import AttrValue, Function, Op, Program, Region, Symbol, Value
from .isa.layout_img2col import IMG2COL_STATE
from .isa.matrix import ROUNDING_STATE
from .isa.modes import FmatrixMode
from .types import (
    GlobalLayout,
    OpaqueType,
    TileType,
    UnknownType,
    VectorType,
)

#: A Python number, or whatever the machine computes scalars with.
Scalar: TypeAlias = Any


@dataclass(frozen=True)
class Pointer:
    """A position in a global-memory buffer, ``offset`` in elements."""

    buffer: str
    dtype: DType
    offset: Scalar = 0


@dataclass(frozen=True)
class View:
    """A strided window of a buffer: element (i0, i1, ...) is at ``offset + sum(i_k * strides[k])``."""

    buffer: str
    dtype: DType
    offset: Scalar
    shape: tuple[Scalar, ...]
    strides: tuple[Scalar, ...]
    layout: GlobalLayout | None = None


@dataclass(frozen=True)
class TileRef:
    """A tile handle: a typed view of storage, with its run-time valid region."""

    type: TileType
    storage: Hashable
    v_row: Scalar
    v_col: Scalar


#: A TileRef, View, Pointer or Scalar.
Operand: TypeAlias = Any


@dataclass(frozen=True)
class Execution:
    """One instruction about to execute: its operands by declared name, attributes with defaults.

    ``vectors`` gives the types of destinations outside tile memory, which are no operands.
    """

    op: Op
    instruction: isa.Instruction
    operands: Mapping[str, Operand]
    attrs: Mapping[str, AttrValue]
    form: tuple[str, ...]
    vectors: Mapping[str, VectorType] = field(default_factory=dict)

    def tile(self, name: str) -> TileRef:
        ref = self.operands[name]
        assert isinstance(ref, TileRef), name
        return ref

    def dtype(self, name: str) -> DType:
        """Element type of a tile, view or pointer operand, or of a scalar's declared type."""
        operand = self.operands[name]
        if isinstance(operand, TileRef):
            return operand.type.dtype
        assert isinstance(operand, View | Pointer), name
        return operand.dtype


class Machine(Protocol):
    """Storage and arithmetic behind the walker."""

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """An ``arith`` operation on scalars of type ``source`` of which at least one is not a number."""

    def allocate(self, op: Op, type: TileType, address: Scalar | None) -> Hashable:
        """Storage of an ``alloc_tile``; the same operation always names the same storage."""

    def fresh(self, op: Op, result: Value, type: TileType) -> Hashable:
        """Storage of a result that no allocation names; its contents start over at every execution."""

    def rebind(self, ref: TileRef, type: TileType, address: Scalar) -> Hashable:
        """Storage of an existing tile's memory space at another address."""

    def execute(self, execution: Execution) -> Mapping[str, Operand]:
        """Compute one instruction and write its destinations; returns the values of those that are
        vectors outside tile memory."""

    def region(self, op: Op, ref: TileRef) -> None:
        """Called where a handle gets its valid sizes; they must lie within its physical shape."""

    def begin(self, op: Op) -> None:
        """Called before each operation, for traces and reports."""


class Scope:
    """Names visible in a region; handles are updated where they are bound."""

    def __init__(self, parent: Scope | None = None) -> None:
        self._parent = parent
        self._names: dict[str, Operand] = {}

    def bind(self, value: Value, operand: Operand) -> None:
        self._names[value.name] = operand

    def names(self) -> Mapping[str, Operand]:
        """The names bound in this scope itself."""
        return self._names

    def __getitem__(self, value: Value) -> Operand:
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                return scope._names[value.name]
            scope = scope._parent
        raise KeyError(value.name)

    def update(self, value: Value, operand: Operand) -> None:
        """Change what an existing name stands for, in the scope that owns it."""
        scope: Scope | None = self
        while scope is not None:
            if value.name in scope._names:
                scope._names[value.name] = operand
                return
            scope = scope._parent
        raise KeyError(value.name)


Handler: TypeAlias = Callable[["Walker", Op, Scope], None]
_HANDLERS: dict[str, Handler] = {}


def _handles(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            _HANDLERS[name] = handler
        return handler

    return register


def needs_rule(instruction: isa.Instruction) -> bool:
    """Whether a machine has to execute an instruction: the walker does not, and it has an effect.

    >>> needs_rule(isa.instructions()["tadd"]), needs_rule(isa.instructions()["barrier"])
    (True, False)
    """
    return instruction.name not in _HANDLERS and instruction.syntax != "custom"


class Walker:
    """Runs functions of a program on a machine."""

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program = program
        self.machine = machine
        #: How multiplications round f32 operands, while an f32 mode is on.
        self.f32_rounding: AttrValue = None
        #: What image-to-column was told by configuration instructions.
        self.image = ImageState()

    def run(
        self, function: Function, arguments: Sequence[Operand], scope: Scope | None = None
    ) -> tuple[Operand, ...]:
        """Execute a function; returns what its ``return`` gives, or a fragment's results.

        ``scope`` receives the function's names, for callers that look at them afterwards.
        """
        scope = scope or Scope()
        for value, operand in zip(function.args, arguments, strict=True):
            scope.bind(value, operand)
        returned = self.block(function.body, scope)
        if self.program.fragment:
            return tuple(scope[Value(n, UnknownType())] for n in fragment_outputs(self.program))
        return returned

    def block(self, region: Region, scope: Scope) -> tuple[Operand, ...]:
        """Execute a region's operations; returns the operands of its terminator."""
        for op in region.ops:
            if op.name in ("return", "scf.yield"):
                return tuple(scope[v] for v in op.ins)
            self.step(op, scope)
        return ()

    def step(self, op: Op, scope: Scope) -> None:
        self.machine.begin(op)
        handler = _HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op, scope)
            return
        if op.name.startswith("arith."):
            _arith(self, op, scope)
            return
        instruction = isa.find(op.name)
        if instruction is None or not instruction.executable:
            raise NotExecutableError(
                Diagnostic("error", "is not executed by this version", op.span, op.name, rule="executable")
            )
        if instruction.syntax == "custom":
            return
        self.instruction(isa.bind(instruction, op), op, scope)

    def instruction(self, bound: isa.Bound, op: Op, scope: Scope) -> None:
        operands: dict[str, Operand] = {}
        destinations = {o.name for o in bound.instruction.destinations}
        vectors = _vectors(bound)
        for name, value in bound.values.items():
            if name not in vectors and (name not in destinations or op.outs):
                operands[name] = scope[value]
        if op.groups:
            operands = {n: _indexed(self, op, v, operands, scope) for n, v in operands.items()}
        if not op.outs:
            for name in (o.name for o in bound.instruction.destinations if o.name in bound.values):
                if name in vectors:
                    continue
                result = bound.values[name]
                ref = self.fresh(op, result, operands)
                operands[name] = ref
                scope.bind(result, ref)
        made = self.machine.execute(
            Execution(op, bound.instruction, operands, self._attrs(bound), bound.form, vectors)
        )
        for name in vectors:
            store = scope.update if op.outs else scope.bind
            store(bound.values[name], made[name])

    def _attrs(self, bound: isa.Bound) -> Mapping[str, AttrValue]:
        """The attributes of an instruction, and what modes set earlier add to them."""
        if bound.instruction.name == "timg2col":
            mode = bound.attrs["mode"]
            assert isinstance(mode, FmatrixMode)
            return {**bound.attrs, IMG2COL_STATE: self.image.registers(mode, bound.values["src"].type)}
        if self.f32_rounding is None or bound.instruction.cls != "matrix":
            return bound.attrs
        return {**bound.attrs, ROUNDING_STATE: self.f32_rounding}

    def fresh(self, op: Op, result: Value, operands: Mapping[str, Operand]) -> TileRef:
        t = result.type
        assert isinstance(t, TileType), f"untyped result {result}"
        source = next((o for o in operands.values() if isinstance(o, TileRef)), None)
        # A product has the rows of its left tile and the columns of its right one.
        above, beside = operands.get("a", source), operands.get("b", source)
        rows, cols = t.v_row, t.v_col
        return TileRef(
            t,
            self.machine.fresh(op, result, t),
            rows if rows is not None else above.v_row if above else t.rows,
            cols if cols is not None else beside.v_col if beside else t.cols,
        )

    def scalar(self, name: str, args: Sequence[Scalar], source: DType, result: DType) -> Scalar:
        """An ``arith`` operation, folded when every operand is a Python integer."""
        known = fold(name, args, result)
        return known if known is not None else self.machine.scalar(name, args, source, result)

    def index(self, name: str, a: Scalar, b: Scalar) -> Scalar:
        """Index arithmetic that keeps constants constant."""
        if name == "arith.muli" and (_is(a, 0) or _is(b, 0)):
            return 0
        neutral = 1 if name == "arith.muli" else 0
        if _is(a, neutral):
            return b
        if _is(b, neutral):
            return a
        return self.scalar(name, (a, b), INDEX, INDEX)

    def select(self, index: Scalar, choices: Sequence[Scalar]) -> Scalar:
        """``choices[index]`` for an index that may only be known at run time."""
        if isinstance(index, int):
            return choices[index]
        chosen = choices[0]
        for i, choice in enumerate(choices[1:], 1):
            hit = self.scalar("arith.cmpi.eq", (index, i), INDEX, I1)
            chosen = self.scalar("arith.select", (hit, choice, chosen), INDEX, INDEX)
        return chosen


def _vectors(bound: isa.Bound) -> dict[str, VectorType]:
    """The destinations of an operation that are small vectors outside tile memory."""
    named = {
        o.name: bound.values[o.name].type for o in bound.instruction.destinations if o.name in bound.values
    }
    return {name: t for name, t in named.items() if isinstance(t, VectorType)}


def _indexed(
    walker: Walker, op: Op, operand: Operand, operands: Mapping[str, Operand], scope: Scope
) -> Operand:
    """The window that ``%view[%r, %c]`` names: the tile's valid shape at the given offsets."""
    offsets = [scope[v] for v in op.group("offsets")]
    if not isinstance(operand, View) or not offsets:
        return operand
    tiles = [o for o in operands.values() if isinstance(o, TileRef)]
    destination = op.destinations[0].type
    if tiles:
        rows, cols = tiles[0].v_row, tiles[0].v_col
    else:
        assert isinstance(destination, TileType)
        rows, cols = destination.valid
    lead = len(operand.shape) - 2
    return _window(walker, operand, [0] * lead + offsets, [1] * lead + [rows, cols])


def _window(walker: Walker, view: View, offsets: Sequence[Scalar], sizes: Sequence[Scalar]) -> View:
    offset = view.offset
    for o, s in zip(offsets, view.strides, strict=True):
        offset = walker.index("arith.addi", offset, walker.index("arith.muli", o, s))
    return replace(view, offset=offset, shape=tuple(sizes))


@_handles("make_tensor_view")
def _make_tensor_view(walker: Walker, op: Op, scope: Scope) -> None:
    pointer = scope[op.group("ptr")[0]]
    layout = op.attrs.get("layout")
    shape = tuple(scope[v] for v in op.group("shape"))
    strides = tuple(scope[v] for v in op.group("strides"))
    view = View(
        pointer.buffer,
        pointer.dtype,
        pointer.offset,
        shape,
        strides,
        layout if isinstance(layout, GlobalLayout) else None,
    )
    scope.bind(op.results[0], view)


@_handles("partition_view", "subview")
def _partition_view(walker: Walker, op: Op, scope: Scope) -> None:
    view = scope[op.group("view")[0]]
    offsets = [scope[v] for v in op.group("offsets")]
    sizes = [scope[v] for v in op.group("sizes")]
    scope.bind(op.results[0], _window(walker, view, offsets, sizes))


@_handles("get_tensor_view_dim")
def _get_tensor_view_dim(walker: Walker, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, view.shape))


@_handles("get_tensor_view_stride")
def _get_tensor_view_stride(walker: Walker, op: Op, scope: Scope) -> None:
    view, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, view.strides))


@_handles("tensor_view_addr")
def _tensor_view_addr(walker: Walker, op: Op, scope: Scope) -> None:
    view = scope[op.ins[0]]
    scope.bind(op.results[0], Pointer(view.buffer, view.dtype, view.offset))


@_handles("addptr")
def _addptr(walker: Walker, op: Op, scope: Scope) -> None:
    pointer, offset = (scope[v] for v in op.ins)
    moved = walker.index("arith.addi", pointer.offset, offset)
    scope.bind(op.results[0], replace(pointer, offset=moved))


@_handles("alloc_tile")
def _alloc_tile(walker: Walker, op: Op, scope: Scope) -> None:
    result = op.results[0]
    t = result.type
    assert isinstance(t, TileType)
    given = {name: scope[op.group(name)[0]] for name, size in op.groups if size}
    storage = walker.machine.allocate(op, t, given.get("addr"))
    ref = TileRef(t, storage, *_region(t, given.get("valid_row"), given.get("valid_col")))
    walker.machine.region(op, ref)
    scope.bind(result, ref)


def _region(t: TileType, row: Scalar | None, col: Scalar | None) -> tuple[Scalar, Scalar]:
    """Valid sizes of a new handle: static ones from its type, others as given, else the whole tile."""
    rows = t.v_row if t.v_row is not None else t.rows if row is None else row
    cols = t.v_col if t.v_col is not None else t.cols if col is None else col
    return rows, cols


@_handles("set_validshape")
def _set_validshape(walker: Walker, op: Op, scope: Scope) -> None:
    tile, row, col = op.ins
    ref = replace(scope[tile], v_row=scope[row], v_col=scope[col])
    walker.machine.region(op, ref)
    scope.update(tile, ref)


@_handles("tassign")
def _tassign(walker: Walker, op: Op, scope: Scope) -> None:
    ref, address = scope[op.ins[0]], scope[op.ins[1]]
    t = op.results[0].type if op.results else ref.type
    assert isinstance(t, TileType)
    moved = replace(ref, type=t, storage=walker.machine.rebind(ref, t, address))
    if op.results:
        scope.bind(op.results[0], moved)
    else:
        scope.update(op.ins[0], moved)


@_handles("talias")
def _talias(walker: Walker, op: Op, scope: Scope) -> None:
    ref, t = scope[op.ins[0]], op.destinations[0].type
    assert isinstance(t, TileType)
    same = t.shape == ref.type.shape
    rows, cols = _region(t, ref.v_row if same else None, ref.v_col if same else None)
    alias = replace(ref, type=t, v_row=rows, v_col=cols)
    walker.machine.region(op, alias)
    scope.bind(op.destinations[0], alias)


@_handles("sethf32mode", "settf32mode")
def _set_f32_mode(walker: Walker, op: Op, scope: Scope) -> None:
    instruction = isa.find(op.name)
    assert instruction is not None
    attrs = isa.bind(instruction, op).attrs
    walker.f32_rounding = attrs["mode"] if attrs["enable"] else None


@_handles("setfmatrix", "set_img2col_padding", "set_img2col_rpt")
def _set_image(walker: Walker, op: Op, scope: Scope) -> None:
    instruction = isa.find(op.name)
    assert instruction is not None
    mode = isa.bind(instruction, op).attrs["mode"]
    assert isinstance(mode, FmatrixMode)
    walker.image.configure(op.name, mode, op.ins[0].type)


@_handles("tget_scale_addr")
def _scale_address(walker: Walker, op: Op, scope: Scope) -> None:
    """Scales have storage of their own; nothing moves."""
    for result in op.results:
        scope.bind(result, walker.fresh(op, result, {}))


@_handles("tprefetch_async")
def _prefetch(walker: Walker, op: Op, scope: Scope) -> None:
    for result in op.results:
        scope.bind(result, None)


@_handles("declare_eventid_array")
def _declare_events(walker: Walker, op: Op, scope: Scope) -> None:
    t = op.results[0].type
    assert isinstance(t, OpaqueType)
    scope.bind(op.results[0], (0,) * int(t.params))


@_handles("eventid_array_get")
def _get_event(walker: Walker, op: Op, scope: Scope) -> None:
    array, index = (scope[v] for v in op.ins)
    scope.bind(op.results[0], walker.select(index, array))


@_handles("eventid_array_set")
def _set_event(walker: Walker, op: Op, scope: Scope) -> None:
    array, index, value = (scope[v] for v in op.ins)
    hits = [walker.scalar("arith.cmpi.eq", (index, i), INDEX, I1) for i in range(len(array))]
    chosen = [
        walker.scalar("arith.select", (hit, value, old), INDEX, INDEX)
        for hit, old in zip(hits, array, strict=True)
    ]
    scope.update(op.ins[0], tuple(chosen))


@_handles("section.cube", "section.vector")
def _section(walker: Walker, op: Op, scope: Scope) -> None:
    """One machine stands for both cores; the reader keeps the names of sections apart."""
    for region in op.regions:
        walker.block(region, scope)


@_handles("call")
def _call(walker: Walker, op: Op, scope: Scope) -> None:
    callee = op.attrs["callee"]
    assert isinstance(callee, Symbol)
    function = walker.program.function(callee.name)
    assert function is not None, callee
    returned = walker.run(function, [scope[v] for v in op.ins])
    for value, operand in zip(op.results, returned, strict=True):
        scope.bind(value, operand)


@_handles("arith.constant")
def _constant(walker: Walker, op: Op, scope: Scope) -> None:
    scope.bind(op.results[0], op.attrs["value"])


def _arith(walker: Walker, op: Op, scope: Scope) -> None:
    args = [scope[v] for v in op.ins]
    source = scalar_dtype(op.ins[-1].type)
    result = scalar_dtype(op.results[0].type)
    try:
        value = walker.scalar(operation(op), args, source, result)
    except NotExecutableError:
        finding = Diagnostic("error", "is not executed by this version", op.span, op.name, rule="executable")
        raise NotExecutableError(finding) from None
    scope.bind(op.results[0], value)


def _is(a: Scalar, n: int) -> bool:
    return isinstance(a, int) and a == n
