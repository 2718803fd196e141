"""The constructs of a program: facts about which operations occur, in what form and where.

A construct is a line of text that starts with its kind:

- ``operation``: an operation, its spelling, and the kinds of its operands and results;
- ``attribute``: an attribute of an operation with its value; names and sizes are all alike;
- ``number``: what a number depends on that an operation takes: nothing (``constant``), arguments of the
  function, counters of loops, numbers of blocks, what loops and branches give, ...;
- ``handle``: what made a tile, view or pointer that an operation uses;
- ``place``: the regions around an operation; instructions that only compute are all alike here;
- ``tile``: a tile by its place, element order, valid region, padding and compact mode;
- ``addresses``: how two tiles of constant addresses share bytes;
- ``function``: an attribute of a function, a kind of argument or result, or the cores it runs on;
- ``module``: an attribute of the whole program;
- ``rejected``: a rule of the verifier and the operation that breaks it.

Element types and extents are left out: the recorded vectors of ``tests/golden`` have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from pto_jax import ir
from pto_jax.errors import Diagnostic
from pto_jax.interpreter import needs_rule
from pto_jax.interpreter.cores import cores_of
from pto_jax.isa import find
from tests.programs.cases import FOLDER

#: Operations that end a region: what they hand on shows in the operation around them.
ENDS = frozenset({"return", "scf.yield", "scf.condition"})
#: Attributes whose numbers choose what is done; all other numbers are sizes or names.
CHOICES = frozenset({"split", "dir_mask", "upperOrLower"})
#: Attributes whose texts choose what is done.
WORDS = frozenset({"predicate"})
_HANDLES = (ir.TileType, ir.MemRefType, ir.PtrType, ir.PartitionViewType, ir.TensorViewType, ir.OpaqueType)

#: A construct, and the operation or function that it belongs to (None: the whole program).
Construct = tuple[ir.Op | ir.Function | None, str]


def recorded(status: str) -> set[str]:
    """The constructs of the public programs: those that are ``executed``, or those that are only ``read``."""
    rows = (FOLDER / "constructs.txt").read_text(encoding="utf-8").splitlines()
    return {row.removeprefix(f"{status} ") for row in rows if row.startswith(f"{status} ")}


def constructs(program: ir.Program) -> Iterator[Construct]:
    """The constructs of a program."""
    yield from ((None, f"module {name}={_shown(value)}") for name, value in program.attributes)
    for function in program.functions:
        yield from ((function, f"function {fact}") for fact in _signature(program, function))
        names = _Names()
        names.bind(function.args, "function argument", "argument")
        yield from _Reader().region(function.body, (), names)


def rejections(diagnostics: Iterable[Diagnostic]) -> set[str]:
    """The constructs of a verification that ends with errors."""
    errors = [d for d in diagnostics if d.severity == "error"]
    return {f"rejected {d.rule} {d.instruction or ''}".rstrip() for d in errors}


def _signature(program: ir.Program, function: ir.Function) -> Iterator[str]:
    yield from (f"{name}={_shown(value)}" for name, value in function.attributes)
    yield from ["private"] if function.private else []
    yield from (f"takes {kind(a.type)}" for a in function.args)
    yield from (f"gives {kind(t)}" for t in function.results)
    if not function.private:
        yield "runs on " + (", ".join(core.name for core in cores_of(program, function)) or "one core")


@dataclass
class _Names:
    """What the names of a region stand for: what made a handle, what a number depends on, and constants."""

    makers: dict[str, str] = field(default_factory=dict)
    causes: dict[str, frozenset[str]] = field(default_factory=dict)
    constants: dict[str, object] = field(default_factory=dict)

    def inner(self) -> _Names:
        return _Names(dict(self.makers), dict(self.causes), dict(self.constants))

    def bind(self, values: Sequence[ir.Value], maker: str, *causes: str) -> None:
        for value in values:
            self.makers[value.name], self.causes[value.name] = maker, frozenset(causes)

    def causes_of(self, values: Sequence[ir.Value]) -> set[str]:
        return set[str]().union(*(self.causes.get(v.name, ()) for v in values))

    def shown(self, values: Sequence[ir.Value]) -> str:
        """What numbers depend on, as text."""
        return ", ".join(sorted(self.causes_of(values))) or "constant"


@dataclass
class _Reader:
    """Reads the operations of a function in order; ``placed`` are the tiles at constant addresses so far."""

    placed: list[tuple[int, ir.TileType]] = field(default_factory=list)

    def region(self, region: ir.Region, path: tuple[str, ...], names: _Names) -> Iterator[Construct]:
        for op in region.ops:
            if op.name in ENDS:
                continue
            yield from ((op, line) for line in self.operation(op, path, names))
            for inner in op.regions:
                below = names.inner()
                below.bind(inner.args, f"{op.name} argument", "carried")
                if op.name == "scf.for":
                    below.bind(inner.args[:1], f"{op.name} argument", "counter")
                yield from self.region(inner, (*path, op.name), below)
            _bind_results(op, names)

    def operation(self, op: ir.Op, path: tuple[str, ...], names: _Names) -> Iterator[str]:
        yield _operation(op)
        yield f"place {' > '.join((*path, role(op)))}"
        if op.name != "arith.constant":
            yield from (f"attribute {op.name} {name}={_shown(value, name)}" for name, value in op.attributes)
        for group, values in _groups(op):
            numbers = [v for v in values if isinstance(v.type, ir.ScalarType)]
            if numbers and not op.name.startswith("arith."):
                yield f"number {role(op)} {group}: {names.shown(numbers)}"
        for use, values in (("of", op.ins), ("written by", op.outs)):
            handles = [v for v in values if isinstance(v.type, _HANDLES)]
            yield from (f"handle {use} {role(op)}: {names.makers.get(v.name, 'unknown')}" for v in handles)
        yield from (_tile(v.type) for v in op.results if isinstance(v.type, ir.TileType))
        yield from self.addresses(op, names)

    def addresses(self, op: ir.Op, names: _Names) -> Iterator[str]:
        """How a new tile shares bytes with those placed before it in the function."""
        address = [names.constants.get(v.name) for v in op.group("addr")]
        if op.name != "alloc_tile" or not address or not isinstance(address[0], int):
            return
        new = op.results[0].type
        assert isinstance(new, ir.TileType)
        for start, old in self.placed:
            apart = start >= address[0] + new.bytes or address[0] >= start + old.bytes
            if old.loc == new.loc and not apart:
                yield f"addresses {_shared(start, old, address[0], new)}"
        self.placed.append((address[0], new))


def _bind_results(op: ir.Op, names: _Names) -> None:
    maker, causes = op.name, {op.name}
    if op.name == "alloc_tile" and op.group("addr"):
        maker = f"alloc_tile at an address ({names.shown(op.group('addr'))})"
    if op.name.startswith("arith."):
        causes = names.causes_of(op.ins)
    if op.name == "arith.constant":
        names.constants[op.results[0].name] = op.attrs["value"]
    names.bind(op.results, maker, *causes)


def kind(t: ir.Type) -> str:
    """A type, as far as reading, handles and memory tell types apart."""
    match t:
        case ir.TileType():
            return t.loc.name.lower()
        case ir.ScalarType() if t.dtype.kind == "index" or t.dtype.name == "i1":
            return t.dtype.name
        case ir.ScalarType():
            return "float" if t.dtype.is_float else "integer"
        case ir.PtrType():
            return "pointer"
        case ir.TensorViewType():
            return f"view {len(t.dims)}D"
        case ir.PartitionViewType():
            return f"window {len(t.dims)}D"
        case ir.MemRefType():
            return "memref" if t.space is None else f"memref {t.space.name.lower()}"
        case ir.VectorType():
            return "vector"
        case ir.OpaqueType():
            return t.name
    return "unknown"


def role(op: ir.Op) -> str:
    """What an operation is to whatever follows a program: its name, or that it only computes."""
    if op.name.startswith("arith."):
        return "arithmetic"
    instruction = find(op.name)
    return "instruction" if instruction is not None and needs_rule(instruction) else op.name


def _operation(op: ir.Op) -> str:
    """The name, the spelling where there are several, and kinds of operands and results."""
    name = op.name if op.form == "custom" else f"{op.name} {op.form}"
    ins = [f"{group} {_many(values)}" for group, values in _groups(op)] if op.groups else _kinds(op.ins)
    gives = " -> ".join(f"({', '.join(kinds)})" for kinds in (_kinds(op.outs), _kinds(op.results)) if kinds)
    regions = f" {len(op.regions)} regions" if len(op.regions) > 1 else ""
    return f"operation {name} ({', '.join(ins)}) -> {gives or '()'}{regions}"


def _kinds(values: Sequence[ir.Value]) -> list[str]:
    return [kind(v.type) for v in values]


def _many(values: Sequence[ir.Value]) -> str:
    """The kinds of the values of a group, with their number."""
    kinds = _kinds(values)
    return kinds[0] if len(kinds) == 1 else f"{len(kinds)} {'/'.join(sorted(set(kinds)))}".rstrip()


def _groups(op: ir.Op) -> Iterator[tuple[str, tuple[ir.Value, ...]]]:
    """Operands by name where the text names them, else by number."""
    if not op.groups:
        yield from ((str(i), (v,)) for i, v in enumerate(op.ins))
    yield from ((name, op.group(name)) for name, size in op.groups if size)


def _shown(value: ir.AttrValue, name: str = "") -> str:
    """The value of an attribute, without names and sizes."""
    match value:
        case IntEnum():
            return value.name
        case bool() | None:
            return str(value)
        case int() if name not in CHOICES:
            return "a number"
        case str() if name not in WORDS:
            return "a text"
        case ir.Symbol():
            return "a function"
        case tuple():
            return f"{len(value)} numbers"
    return str(value)


def _tile(t: ir.TileType) -> str:
    sizes = [
        "run time" if v is None else "all" if v == n else "some"
        for v, n in zip(t.valid, t.shape, strict=True)
    ]
    valid = [] if t.is_full else [f"valid rows: {sizes[0]}", f"valid columns: {sizes[1]}"]
    modes = [x.name for x in (t.pad, t.compact) if x]
    return ", ".join([f"tile {t.loc.name.lower()} {t.layout}", *valid, *modes])


def _shared(old_start: int, old: ir.TileType, new_start: int, new: ir.TileType) -> str:
    """How two tiles that share bytes lie to each other, and in what their types differ."""
    old_end, new_end = old_start + old.bytes, new_start + new.bytes
    if old_start == new_start:
        place = "same bytes" if old_end == new_end else "same start"
    else:
        within = old_start <= new_start and new_end <= old_end
        around = new_start <= old_start and old_end <= new_end
        place = "one inside the other" if within or around else "part of each"
    same = {
        "element type": old.dtype == new.dtype,
        "shape": old.shape == new.shape,
        "order": old.layout == new.layout,
    }
    other = [name for name, equal in same.items() if not equal]
    return f"{place}, other {' and '.join(other)}" if other else place
