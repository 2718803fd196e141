"""Cases as functions over pointers, which compilers and boards take: no tile and no view is an argument.

A view becomes a pointer, of which the function makes the view. A tile becomes a pointer to its valid region,
row by row: the function allocates the tile, loads it, and stores it at the end where the program writes it.
Lanes outside the region then hold what new tiles hold, and are no result.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from .. import errors, ir, isa
from ..analysis.entries import fragment_outputs, select_entry
from ..generate.options import MANY_FORMS, Options
from ..generate.programs import Case, case_id, generate
from ..generate.state import Input
from ..isa import effects, memory, views
from ..isa.rules import constraints
from ..verifier.programs import Build
from .edits import is_legal, renamed, rewritten
from .identity import is_device

#: The function that is made of instructions without one.
NAME = "kernel"
#: How kernels are built: by tools that place tiles and insert synchronisation.
TOOLS = Build(level=2)
#: Programs that are drawn for an index, and the bit at which the indices of further ones begin.
_DRAWS, _FAR = 8, 56
#: How much more often than in other programs instructions of many forms are in kernels, which are short.
_FREQUENT = tuple((name, 3.0) for name in MANY_FORMS)
_Views = ir.TensorViewType | ir.PartitionViewType
#: Arguments that stay what they are: memory and numbers.
_Kept = ir.PtrType | ir.MemRefType | ir.ScalarType


def as_kernel(case: Case) -> Case | None:
    """The case as a function over pointers; the case itself where it is one, None where it cannot be.

    It cannot be with tiles as arguments or results outside vector memory or not row by row, and with regions
    without an element; with calls of functions that take views or tiles nothing changes in these.

    >>> import pto_jax as pto
    >>> t = pto.TileType("i32", 4, 8).with_valid(2, 3)
    >>> a = Input(t, np.arange(32, dtype=np.uint32).reshape(4, 8))
    >>> program = pto.parse("tneg %d, %a : !pto.tile<4x8xi32, valid=2x3>")
    >>> made = as_kernel(Case("id", 0, 0, pto.profile("a5"), program, {"a": a, "d": a}, {}))
    >>> {name: (str(i.type), i.words.tolist()) for name, i in made.inputs.items()}["a"]
    ('ptr<i32>', [0, 1, 2, 8, 9, 10])
    """
    program = case.program
    if case.grid == 1 and program.fragment and len(program.functions) == 1:
        function, results = program.functions[0], fragment_outputs(program)
    elif not program.fragment:
        function, results = select_entry(program, case.entry), ()
    else:
        return None
    if is_kernel(case):
        return case
    maker = _Maker(case)
    try:
        result = maker.function(function, results)
    except _Unfit:
        return None
    functions = tuple(result if f is function else f for f in program.functions)
    kernel = replace(program, functions=functions, fragment=False, fragment_results=(), has_module=True)
    changed = replace(case, program=kernel, inputs=maker.inputs, entry=result.name, ulp=maker.bounds())
    return changed if is_legal(changed) else None


def is_kernel(case: Case) -> bool:
    """Whether a case is a function over pointers and numbers."""
    return not case.program.fragment and all(isinstance(i.type, _Kept) for i in case.inputs.values())


def form_for(case: Case, *machines: str, kernels: bool = False) -> Callable[[Case], Case | None] | None:
    """The form in which smaller cases are executed: functions over pointers stay such for devices.

    So they do in a campaign of ``kernels``. What tools can build stays that, too.
    """
    if not kernels and not (is_kernel(case) and any(map(is_device, machines))):
        return None
    return _as_built_kernel if is_legal(case, TOOLS) else as_kernel


def _as_built_kernel(case: Case) -> Case | None:
    """The case as a function over pointers that tools build, None where there is none."""
    result = as_kernel(case)
    return result if result is not None and is_legal(result, TOOLS) else None


def kernels_only(options: Options) -> Options:
    """Options of the generator with which nearly all programs can be functions over pointers.

    Tools place the tiles of these and order their pipes: a program with addresses would have to do all of
    that itself.
    """
    factors = (*options.factors, *_FREQUENT)
    return replace(options, functions=1.0, tile_arguments=0.0, addresses=0.0, factors=factors)


def kernel(seed: int, index: int, options: Options) -> Case:
    """The case of an index as a function over pointers; a shorter one, or another, where it cannot be one.

    PtoError where none can.
    """
    for draw in range(_DRAWS):
        for statements in range(options.statements, 0, -1):
            case = generate(seed, index + (draw << _FAR), replace(options, statements=statements))
            result = _as_built_kernel(case)
            if result is not None:
                return replace(result, id=case_id(seed, index), index=index)
    raise errors.PtoError(f"index {index}: no program of these options is a function over pointers")


def watched(case: Case) -> tuple[Case, dict[str, ir.Op]] | None:
    """A function over pointers that stores every intermediate once, and by buffer what computed it, in order.

    In a loop the last one is stored. None where nothing can be stored.
    """
    if not is_kernel(case) or case.grid > 1 or case.ranks is not None:
        return None
    function, maker = select_entry(case.program, case.entry), _Maker(case, dict(case.inputs), "watch")
    seen: dict[str, ir.Op] = {}

    def change(op: ir.Op) -> tuple[ir.Op, ...]:
        stores: list[ir.Op] = []
        traits = effects.traits_of(op)
        if traits.placement is None and traits.alias is None and not op.regions:
            for value in op.destinations:
                if isinstance(value.type, ir.TileType) and _is_plain(value.type, value.type.valid):
                    name = f"watch_{len(seen)}"
                    seen[name] = op
                    stores.append(maker.stored(name, value))
        return (op, *stores)

    body = rewritten(function.body, change)
    args = tuple(ir.Value(n, i.type) for n, i in maker.inputs.items())
    result = replace(function, args=args, body=ir.Region((*maker.before, *body.ops)))
    functions = tuple(result if f is function else f for f in case.program.functions)
    bounds = {name: _bound(op) for name, op in seen.items()}
    program = replace(case.program, functions=functions)
    watching = replace(case, program=program, inputs=maker.inputs, ulp={**case.ulp, **bounds})
    return (watching, seen) if seen and is_legal(watching) else None


def _is_plain(t: ir.TileType, valid: tuple[int | None, int | None]) -> bool:
    """Whether a tile is one of vector memory, row by row, with elements that are stored as they are."""
    plain = t.loc == ir.Loc.VEC and t.layout == "ND" and t.conv is None and not t.dtype.packed
    return plain and None not in valid and 0 not in valid


def _bound(op: ir.Op) -> int:
    """How far the result of an operation may be from another machine's."""
    instruction, d = isa.find(op.name), constraints.element_type(op.destinations[0].type)
    return instruction.ulp.get(d.name, 0) if instruction is not None and d is not None else 0


class _Unfit(Exception):
    """A case that no function over pointers does the same as."""


@dataclass
class _Maker:
    """The operations that stand before and after the body, and the arguments in the new form."""

    case: Case
    inputs: dict[str, Input] = field(default_factory=dict)
    prefix: str = "form"
    before: list[ir.Op] = field(default_factory=list)
    _after: list[ir.Op] = field(default_factory=list)
    _numbers: dict[int, ir.Value] = field(default_factory=dict)

    def function(self, function: ir.Function, results: tuple[str, ...]) -> ir.Function:
        """The function over pointers; ``results`` are the tiles that a fragment gives."""
        used = {v.name for op in function.walk() for v in (*op.ins, *op.outs, *op.results)}
        if any(n.startswith(f"{self.prefix}_") for n in used):
            raise _Unfit
        names: dict[str, ir.Value] = {}
        for a in function.args:
            i = self.case.inputs[a.name]
            if isinstance(i.type, _Views):
                names[a.name] = self._viewed(a.name, i)
            elif isinstance(i.type, ir.TileType):
                names[a.name] = self._tile(a.name, i, stored=a.name in results or not results)
            elif isinstance(i.type, _Kept):
                self.inputs[a.name] = i
            else:
                raise _Unfit
        if set(results) - {a.name for a in function.args}:
            raise _Unfit
        body = rewritten(function.body, lambda op: (renamed(op, names),))
        ops = [op for op in body.ops if not effects.traits_of(op).terminator]
        ends = [op for op in body.ops if effects.traits_of(op).terminator] or [ir.Op("return")]
        args = tuple(ir.Value(n, i.type) for n, i in self.inputs.items())
        region = ir.Region((*self.before, *ops, *self._after, *ends))
        name = NAME if self.case.program.fragment else function.name
        return replace(function, name=name, args=args, body=region)

    def bounds(self) -> dict[str, int]:
        """The bounds of the results that are still there."""
        return {n: bound for n, bound in self.case.ulp.items() if n in self.inputs}

    def _viewed(self, name: str, i: Input) -> ir.Value:
        """A view of a pointer, in place of an argument."""
        assert isinstance(i.type, _Views)
        shape = i.words.shape
        self.inputs[name] = Input(ir.PtrType(i.type.dtype), i.words.reshape(-1))
        view = ir.Value(f"{self.prefix}_{name}", i.type)
        if isinstance(i.type, ir.TensorViewType):
            self.before += self._views(name, view, shape)
            return view
        whole = ir.Value(f"{self.prefix}_{name}_all", ir.TensorViewType(shape, i.type.dtype))
        self.before += self._views(name, whole, shape)
        self.before += self._part(whole, view, shape)
        return view

    def _tile(self, name: str, i: Input, *, stored: bool) -> ir.Value:
        """A tile that is loaded from a pointer, and stored to it at the end."""
        t = i.type
        assert isinstance(t, ir.TileType)
        rows, cols = i.valid or (t.v_row or 0, t.v_col or 0)
        if not _is_plain(t, (rows, cols)):
            raise _Unfit
        words = np.ascontiguousarray(i.words[:rows, :cols]).reshape(-1)
        self.inputs[name] = Input(ir.PtrType(t.dtype), words)
        whole = ir.Value(f"{self.prefix}_{name}_all", ir.TensorViewType((rows, cols), t.dtype))
        window = ir.Value(f"{self.prefix}_{name}_part", ir.PartitionViewType((rows, cols), t.dtype))
        tile = ir.Value(f"{self.prefix}_{name}", t)
        self.before += self._views(name, whole, (rows, cols))
        self.before += self._part(whole, window, (rows, cols))
        sizes = [("valid_row", rows, t.v_row), ("valid_col", cols, t.v_col)]
        dynamic = [(group, n) for group, n, static in sizes if static is None]
        numbers = tuple(self._number(n) for _, n in dynamic)
        groups = tuple((group, 1) for group, _ in dynamic)
        self.before.append(ir.Op(views.ALLOC_TILE, numbers, results=(tile,), groups=groups))
        self.before.append(ir.Op(memory.TLOAD, (window,), (tile,)))
        if stored:
            self._after.append(ir.Op(memory.TSTORE, (tile,), (window,)))
        return tile

    def stored(self, name: str, tile: ir.Value) -> ir.Op:
        """A store of a tile to a buffer of its own."""
        t = tile.type
        assert isinstance(t, ir.TileType)
        shape = (t.v_row or 0, t.v_col or 0)
        self.inputs[name] = Input(ir.PtrType(t.dtype), np.zeros(shape[0] * shape[1], t.dtype.word))
        whole = ir.Value(f"{self.prefix}_{name}_all", ir.TensorViewType(shape, t.dtype))
        window = ir.Value(f"{self.prefix}_{name}_part", ir.PartitionViewType(shape, t.dtype))
        self.before += self._views(name, whole, shape)
        self.before += self._part(whole, window, shape)
        return ir.Op(memory.TSTORE, (tile,), (window,))

    def _views(self, name: str, view: ir.Value, shape: tuple[int, ...]) -> Iterator[ir.Op]:
        t = view.type
        assert isinstance(t, ir.TensorViewType)
        strides = [int(np.prod(shape[k + 1 :], dtype=np.int64)) for k in range(len(shape))]
        operands = (ir.Value(name, ir.PtrType(t.dtype)), *map(self._number, (*shape, *strides)))
        groups = (("ptr", 1), ("shape", len(shape)), ("strides", len(shape)))
        yield ir.Op(views.MAKE_TENSOR_VIEW, operands, results=(view,), groups=groups)

    def _part(self, whole: ir.Value, part: ir.Value, shape: tuple[int, ...]) -> Iterator[ir.Op]:
        numbers = (*(self._number(0) for _ in shape), *map(self._number, shape))
        groups = (("view", 1), ("offsets", len(shape)), ("sizes", len(shape)))
        yield ir.Op(views.PARTITION_VIEW, (whole, *numbers), results=(part,), groups=groups)

    def _number(self, n: int) -> ir.Value:
        """A constant index, made once before everything that uses it."""
        if n not in self._numbers:
            value = ir.Value(f"{self.prefix}_c{n}", ir.ScalarType(ir.INDEX))
            self._numbers[n] = value
            self.before.append(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=int(n))))
        return self._numbers[n]
