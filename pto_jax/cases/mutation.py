r"""Legal mutations of a program.

A mutation exchanges an operation or two of its operands, changes an attribute, an element type, a valid
region or a shape; types change in the whole program. Of a program that orders its pipes it also takes away a
barrier, or a flag with its waits, or moves one of them past an instruction. What the verifier does not accept
is not taken.

>>> import random
>>> import pto_jax as pto
>>> tile = "!pto.tile<16x16xf32>"
>>> program = pto.parse(f"tadd %c, %a, %b : {tile}\ntmul %d, %c, %b : {tile}")
>>> made = mutated(program, pto.profile("a5"), random.Random(2))
>>> made.program != program, len(made.changes) >= 1
(True, True)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from .. import errors, ir, isa
from ..analysis.resolve import resolve
from ..api import parse
from ..generate.operations import legal
from ..isa import effects
from ..isa.declare import Instruction
from ..profiles import Profile, ProfileName
from ..verifier.programs import WITHOUT_FIXES, verify_program
from .edits import renamed, rewritten

#: Most mutations of a program, and how often each is tried until the program is legal.
MOST, TRIES = 3, 24
#: Instructions of which one may take the place of another.
_CANDIDATES = 40
_Typed = ir.TileType | ir.PartitionViewType | ir.TensorViewType | ir.PtrType | ir.MemRefType
#: A change of types; it gives the same type for equal types.
_Change = Callable[[ir.Type], ir.Type]
#: What stands in the place of an operation.
_Rewriting = Callable[[ir.Op], tuple[ir.Op, ...]]
_CONSTANT = "arith.constant"


@dataclass(frozen=True)
class Mutated:
    """A legal program, and what was changed in the one that it was made of, in words."""

    program: ir.Program
    changes: tuple[str, ...]


def mutated(program: ir.Program, profile: Profile, rng: random.Random) -> Mutated:
    """A program with one to :data:`MOST` mutations; with fewer, or none, where no other is legal."""
    count, result = rng.randint(1, MOST), Mutated(program, ())
    mutations = (*_MUTATIONS, *_ORDERS) if any(_orders(program)) else _MUTATIONS
    for _ in range(count * TRIES):
        tried = _tried(rng.choice(mutations), result.program, profile, rng)
        if tried is not None and tried[0] != program:
            result = Mutated(tried[0], (*result.changes, tried[1]))
            if len(result.changes) == count:
                break
    return result


def _tried(
    mutation: _Mutation, program: ir.Program, profile: Profile, rng: random.Random
) -> tuple[ir.Program, str] | None:
    """A program with a mutation, and the change in words; None where it is not legal."""
    try:
        result = mutation(program, profile, rng)
    except errors.PtoError:
        return None
    return result if result is not None and _is_legal(result[0], profile) else None


def _is_legal(program: ir.Program, profile: Profile) -> bool:
    """Whether the verifier accepts a program as its text says it, which devices are given."""
    try:
        result = resolve(parse(str(program))).program
        findings = verify_program(result, profile, limits=WITHOUT_FIXES)
    except errors.PtoError:
        return False
    return result == program and all(d.severity != "error" for d in findings)


_Mutation = Callable[[ir.Program, Profile, random.Random], tuple[ir.Program, str] | None]


def _with_operation(program: ir.Program, old: ir.Op, new: ir.Op) -> ir.Program:
    def change(op: ir.Op) -> tuple[ir.Op, ...]:
        return (new,) if op is old else (op,)

    functions = tuple(replace(f, body=rewritten(f.body, change)) for f in program.functions)
    return replace(program, functions=functions)


def _instructions(program: ir.Program) -> list[tuple[ir.Op, Instruction]]:
    """The tile instructions of a program, whose operands stand in the order of their declaration."""
    pairs = ((op, isa.find(op.name)) for op in program.walk())
    return [(op, i) for op, i in pairs if i is not None and i.syntax == "tile" and not op.groups]


def _place(op: ir.Op) -> str:
    return f"{op.span}: " if op.span is not None else ""


def _exchanged(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Another instruction that takes the same operands."""
    candidates = _instructions(program)
    if not candidates:
        return None
    op, instruction = rng.choice(candidates)
    names = [n for n in _alike(instruction, profile.name) if n != op.name]
    for name in rng.sample(names, min(len(names), _CANDIDATES)):
        new = replace(op, name=name, attributes=(), implied=())
        if legal(profile, new):
            return _with_operation(program, op, new), f"{_place(op)}{op.name} became {name}"
    return None


def _alike(instruction: Instruction, profile: ProfileName) -> list[str]:
    """Instructions with as many operands, and with destinations of the same kinds."""
    kinds = [o.kind for o in instruction.destinations]
    return [
        name
        for name, other in isa.instructions().items()
        if other.syntax == "tile"
        and other.executable
        and other.types.get(profile)
        and [o.kind for o in other.destinations] == kinds
        and {len(f) for f in other.forms} & {len(f) for f in instruction.forms}
    ]


def _operands(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Two sources of one type change places."""
    pairs = [
        (op, i, j)
        for op, _ in _instructions(program)
        for i in range(len(op.ins))
        for j in range(i + 1, len(op.ins))
        if op.ins[i].type == op.ins[j].type and op.ins[i].name != op.ins[j].name
    ]
    if not pairs:
        return None
    op, i, j = rng.choice(pairs)
    ins = list(op.ins)
    ins[i], ins[j] = ins[j], ins[i]
    what = f"{_place(op)}sources {i} and {j} of {op.name} changed places"
    return _with_operation(program, op, replace(op, ins=tuple(ins))), what


def _attribute(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Another value of an attribute that is a choice."""
    choices = [
        (op, a.name, value)
        for op, instruction in _instructions(program)
        for a in instruction.attributes
        if not issubclass(a.type, ir.GlobalLayout)
        for value in a.choices
        if op.attrs.get(a.name, a.default) != value
    ]
    if not choices:
        return None
    op, name, value = rng.choice(choices)
    changed = replace(op, attributes=ir.attrs({**op.attrs, name: value}), implied=())
    if not legal(profile, changed):
        return None
    text = str(getattr(value, "name", value)).lower()
    return _with_operation(program, op, changed), f"{_place(op)}{name} of {op.name} became {text}"


def _element(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Another element type wherever there is one."""
    there = {t.dtype for t in _types(program) if isinstance(t, _Typed)}
    if not there:
        return None
    old = rng.choice(sorted(there, key=lambda d: d.name))
    # The same width keeps rows at whole blocks; other widths are legal in wide tiles.
    same = [d for d in ir.TILE_DTYPES if d.bits == old.bits and d != old]
    new = rng.choice(same if same and rng.random() < 0.7 else [d for d in ir.TILE_DTYPES if d != old])

    def change(t: ir.Type) -> ir.Type:
        if isinstance(t, ir.ScalarType):
            return ir.ScalarType(new) if t.dtype == old and old.name not in _NUMBERS else t
        return replace(t, dtype=new) if isinstance(t, _Typed) and t.dtype == old else t

    numbers = _converting(new) if old.name not in _NUMBERS else _same
    return _retyped(program, change, numbers), f"{old.name} became {new.name}"


#: Types of numbers that also count and address.
_NUMBERS = frozenset({"index", "i64", "i32", "i1"})
_INDICES = (ir.ScalarType(ir.INDEX), ir.ScalarType(ir.I64))


def _converting(new: ir.DType) -> _Rewriting:
    """Constants of an element type become those of another one."""

    def one(op: ir.Op) -> tuple[ir.Op, ...]:
        if op.name != _CONSTANT:
            return (op,)
        value, t = op.attrs.get("value"), op.results[0].type
        if not isinstance(value, int | float) or t != ir.ScalarType(new):
            return (op,)
        number = float(value) if new.is_float else int(value) if abs(value) < 1 << 31 else 1
        return (replace(op, attributes=ir.attrs({**op.attrs, "value": number})),)

    return one


def _region(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Fewer valid rows or columns, with the windows and numbers of that size or without them."""
    axis = rng.randint(0, 1)
    sizes = sorted({n for t in _types(program) if isinstance(t, ir.TileType) and (n := t.valid[axis])})
    if not sizes or max(sizes) < 2:
        return None
    old = rng.choice([n for n in sizes if n > 1])
    new = rng.choice([n for n in dict.fromkeys((1, old - 1, old // 2, rng.randrange(1, old) | 1)) if n < old])
    windows = rng.random() < 0.7

    def change(t: ir.Type) -> ir.Type:
        if isinstance(t, ir.TileType) and t.valid[axis] == old:
            return t.with_valid(new, t.v_col) if axis == 0 else t.with_valid(t.v_row, new)
        if windows and isinstance(t, ir.PartitionViewType) and len(t.dims) >= 2 and t.dims[axis - 2] == old:
            dims = list(t.dims)
            dims[axis - 2] = new
            return replace(t, dims=tuple(dims))
        return t

    result = _retyped(program, change, _windows(program, axis, old, new) if windows else _same)
    return result, f"valid {('rows', 'columns')[axis]} {old} became {new}"


def _same(op: ir.Op) -> tuple[ir.Op, ...]:
    return (op,)


def _windows(program: ir.Program, axis: int, old: int, new: int) -> _Rewriting:
    """Windows into global memory of another size where that is a constant."""
    constants = {op.results[0].name: op.attrs.get("value") for op in program.walk() if op.name == _CONSTANT}

    def one(op: ir.Op) -> tuple[ir.Op, ...]:
        sizes = op.group("sizes")
        if len(sizes) < 2 or constants.get(sizes[axis - 2].name) != old:
            return (op,)
        was = sizes[axis - 2]
        size = ir.Value(f"{was.name}_{new}_{op.results[0].name}", was.type)
        at = (
            next(i for i in range(len(op.ins)) if op.ins[i : i + len(sizes)] == sizes) + len(sizes) + axis - 2
        )
        ins = (*op.ins[:at], size, *op.ins[at + 1 :])
        return ir.Op(_CONSTANT, results=(size,), attributes=ir.attrs(value=new)), replace(op, ins=ins)

    return one


def _shape(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Another number of rows or columns in all tiles, windows and numbers that have it."""
    sizes = sorted({n for t in _types(program) if isinstance(t, ir.TileType) for n in t.shape if n > 1})
    if not sizes:
        return None
    old = rng.choice(sizes)
    new = old * 2 if rng.random() < 0.5 else old // 2

    def one(n: int | None) -> int | None:
        return new if n == old else n

    def change(t: ir.Type) -> ir.Type:
        if isinstance(t, ir.TileType):
            rows, cols = one(t.rows) or 0, one(t.cols) or 0
            valid = [
                None if n is None else min(one(n) or 0, m) for n, m in zip(t.valid, (rows, cols), strict=True)
            ]
            return replace(t, rows=rows, cols=cols, v_row=valid[0], v_col=valid[1])
        if isinstance(t, ir.PartitionViewType | ir.TensorViewType):
            return replace(t, dims=tuple(map(one, t.dims)))
        return t

    return _retyped(program, change, _numbers({old: new})), f"size {old} became {new}"


def _numbers(changed: Mapping[int, int]) -> _Rewriting:
    """Indices that are constants change with the sizes."""

    def one(op: ir.Op) -> tuple[ir.Op, ...]:
        value = op.attrs.get("value")
        if op.name != _CONSTANT or op.results[0].type not in _INDICES or value not in changed:
            return (op,)
        assert isinstance(value, int)
        return (replace(op, attributes=ir.attrs({**op.attrs, "value": changed[value]})),)

    return one


def _orders(program: ir.Program) -> Iterator[tuple[ir.Function, ir.Op]]:
    """The operations that order the pipes of a core, and waits for other ranks, with their functions."""
    for function in program.functions:
        for op in function.walk():
            order = effects.traits_of(op).order
            if order is None:
                continue
            if order.through in ("flag", "event", "pipe") or (order.role, order.through) == _RANK_WAIT:
                yield function, op


def _lost(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """Without a barrier, or without all of a flag: its signals and its waits."""
    function, op = rng.choice(list(_orders(program)))
    key = _flag_of(op)
    lost = {id(o) for f, o in _orders(program) if f is function and key is not None and _flag_of(o) == key}
    lost |= {id(op)}

    def kept(other: ir.Op) -> tuple[ir.Op, ...]:
        return () if id(other) in lost else (other,)

    functions = tuple(
        replace(f, body=rewritten(f.body, kept)) if f is function else f for f in program.functions
    )
    more = f" and {len(lost) - 1} more of its flag" if len(lost) > 1 else ""
    return replace(program, functions=functions), f"{_place(op)}{op.name}{more} was taken away"


def _flag_of(op: ir.Op) -> tuple[object, ...] | None:
    """What tells a flag from others of its function; None for one of a run-time number, and a barrier."""
    event = op.attrs.get("event")
    return (*effects.ends_of(op), event) if isinstance(event, int) else None


def _later(program: ir.Program, profile: Profile, rng: random.Random) -> tuple[ir.Program, str] | None:
    """A wait or a barrier behind the next instruction, or a signal before the last one."""
    _, op = rng.choice(list(_orders(program)))
    order = effects.traits_of(op).order
    before = order is not None and order.role == "signal"

    def moved(region: ir.Region) -> ir.Region:
        ops = [replace(o, regions=tuple(map(moved, o.regions))) if o.regions else o for o in region.ops]
        at = next((i for i, o in enumerate(ops) if o is op), None)
        if at is not None:
            places = range(at - 1, -1, -1) if before else range(at + 1, len(ops))
            other = next((i for i in places if isa.find(ops[i].name) and not _is_order(ops[i])), at)
            ops.insert(other, ops.pop(at))
        return replace(region, ops=tuple(ops))

    functions = tuple(replace(f, body=moved(f.body)) for f in program.functions)
    what = f"{_place(op)}{op.name} was moved {'before the last' if before else 'behind the next'} instruction"
    return replace(program, functions=functions), what


def _is_order(op: ir.Op) -> bool:
    return effects.traits_of(op).order is not None


def _types(program: ir.Program) -> Iterator[ir.Type]:
    for function in program.functions:
        yield from (a.type for a in function.args)
        for op in function.walk():
            yield from (v.type for v in (*op.ins, *op.outs, *op.results))


def _retyped(program: ir.Program, change: _Change, rewriting: _Rewriting) -> ir.Program:
    """The program with other types of all its values, then with other operations."""

    def of(function: ir.Function) -> ir.Function:
        names: dict[str, ir.Value] = {a.name: replace(a, type=change(a.type)) for a in function.args}
        for op in function.walk():
            inner = (*op.results, *(a for r in op.regions for a in r.args))
            names |= {v.name: replace(v, type=change(v.type)) for v in inner}

        args = tuple(names[a.name] for a in function.args)
        results = tuple(map(change, function.results))
        body = rewritten(function.body, lambda op: rewriting(renamed(op, names)))
        return replace(function, args=args, body=body, results=results)

    return replace(program, functions=tuple(map(of, program.functions)))


_MUTATIONS: tuple[_Mutation, ...] = (
    *(_exchanged, _exchanged, _attribute, _attribute, _region, _region),
    *(_operands, _element, _shape),
)
#: Without a wait for another rank its data may be missing; without a signal ranks wait for ever.
_RANK_WAIT = ("wait", "signal")
#: Mutations of programs that order their pipes or ranks.
_ORDERS: tuple[_Mutation, ...] = (_lost, _lost, _later)
