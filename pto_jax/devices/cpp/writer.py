"""Functions of a program as C++ functions: declarations, instructions, control flow and scalar expressions.

Tiles, views, pointers and scalars are variables with their names of the program. A tile is a handle: in
manual mode a loop or a branch passes it by a copy of the C++ object, which auto mode does not allow. Programs
that place their tiles get addresses in the memories of the simulator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal

from ... import errors, ir, isa
from ...analysis.addresses import scalar_dtype
from ...analysis.facts import ANYWHERE, Entered
from ...analysis.resolve import ResolvedProgram
from ...ir import DType, Function, Loc, Op, Region, TileType, Value
from ...isa.effects import placed, traits_of
from ...profiles import CPU_SIM
from ...text.cpp_names import camel, location

#: Names a program may use that mean something else in C++.
_TAKEN = frozenset(
    """alignas and asm auto bool break case catch char class const continue default delete do double else enum
    explicit export extern false float for friend goto half if inline int long main mutable namespace new not
    operator or private protected public register return short signed sizeof static struct switch template
    this throw true try typedef typename union unsigned using virtual void volatile while xor pto
    std""".split()
)


def refuse(op: ir.Op | None, message: str) -> errors.NotExecutableError:
    """A program that cannot be written in C++, with the place in it."""
    span, name = (op.span, op.name) if op is not None else (None, None)
    return errors.NotExecutableError(errors.Diagnostic("error", message, span, name, rule="emit"))


def identifier(name: str) -> str:
    """A C++ identifier for a name of a program; different names give different ones.

    >>> identifier("x1"), identifier("for"), identifier("0"), identifier("r#1")
    ('x1', 'for_', 'v0_', 'r_1_')
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    if plain[0].isdigit():
        plain = f"v{plain}_"
    elif plain != name or plain in _TAKEN or plain.isupper() or plain.endswith("_"):
        plain += "_"
    return plain


def literal(value: object, d: ir.DType) -> str:
    """A constant of an element type.

    >>> literal(0.75, ir.F32), literal(-3, ir.INDEX), literal(float("inf"), ir.F32)
    ('0x1.8000000000000p-1f', 'int64_t{-3}', 'std::numeric_limits<float>::infinity()')
    """
    if d.name == "i1":
        return "true" if value else "false"
    if not d.is_float:
        assert isinstance(value, int)
        number = value % (1 << d.bits) if d.kind == "uint" else value
        if number == -(1 << 63):
            return "std::numeric_limits<int64_t>::min()"
        return f"{d.cpp}{{{number}{'u' if d.kind == 'uint' else ''}{'ll' if abs(number) >> 31 else ''}}}"
    assert isinstance(value, int | float)
    text = float(value).hex() + "f"
    if math.isnan(value):
        text = "std::numeric_limits<float>::quiet_NaN()"
    elif math.isinf(value):
        text = ("-" if value < 0 else "") + "std::numeric_limits<float>::infinity()"
    return text if d.name == "f32" else f"static_cast<{d.cpp}>({text})"


def valid_sizes(t: ir.TileType) -> tuple[int | None, int | None]:
    """The valid sizes that a C++ type states; an empty extent is one that execution gives."""
    rows, cols = (n or None for n in t.valid)
    return rows, cols


def tile(t: ir.TileType, op: ir.Op | None = None) -> str:
    """The C++ type of a tile, with as many template arguments as it needs.

    >>> tile(ir.TileType(ir.F32, 16, 16))
    'Tile<TileType::Vec, float, 16, 16>'
    >>> tile(ir.TileType(ir.F16, 16, 32, None, None, blayout=ir.BLayout.COL_MAJOR))
    'Tile<TileType::Vec, half, 16, 32, BLayout::ColMajor, DYNAMIC, DYNAMIC>'
    """
    if t.conv is not None:
        raise refuse(op, f"has a convolution tile ({t}), which is not written in C++")
    if t.compact == ir.Compact.ROW_PLUS_ONE:
        raise refuse(op, f"has a tile with padded rows ({t}), which is not written in C++")
    rows, cols = ("DYNAMIC" if n is None else str(n) for n in valid_sizes(t))
    parameters = [
        f"TileType::{location(t.loc)}",
        t.dtype.cpp,
        str(t.rows),
        str(t.cols),
        f"BLayout::{camel(t.blayout.name)}",
        rows,
        cols,
        f"SLayout::{camel(t.slayout.name)}",
        str(t.fractal),
        f"PadValue::{camel(t.pad.name)}",
        f"CompactMode::{camel(t.compact.name)}",
    ]
    plain = ir.TileType(t.dtype, t.rows, t.cols)
    defaults = [*parameters[:4], "BLayout::RowMajor", str(plain.rows), str(plain.cols)]
    defaults += ["SLayout::NoneBox", "512", "PadValue::Null", "CompactMode::Null"]
    while len(parameters) > 4 and parameters[-1] == defaults[len(parameters) - 1]:
        parameters.pop()
    return f"Tile<{', '.join(parameters)}>"


@dataclass
class Aliases:
    """Short names for the tile types of a program, in order of first use."""

    types: dict[str, str] = field(default_factory=dict)

    def of(self, t: ir.TileType, op: ir.Op | None = None) -> str:
        """The short name of a tile type, made where it has none; errors name the place of ``op``."""
        spelled = tile(t, op)
        if spelled not in self.types:
            stem = f"{location(t.loc)}{camel(t.dtype.name)}_{t.rows}x{t.cols}"
            taken = set(self.types.values())
            name, number = stem, 2
            while name in taken:
                name, number = f"{stem}_{number}", number + 1
            self.types[spelled] = name
        return self.types[spelled]

    def lines(self) -> list[str]:
        """The declarations of the names."""
        return [f"using {name} = {spelled};" for spelled, name in self.types.items()]


#: Locations that the simulator keeps in one memory.
_TOGETHER = frozenset({Loc.VEC, Loc.BIAS, Loc.SCALING, Loc.CTRL})
_ALIGNMENT = 512


@dataclass
class Places:
    """Free bytes of every memory of the simulator, after those the program itself addresses."""

    used: dict[Loc, int] = field(default_factory=dict)
    #: Addresses of allocations by operation: one that executes again, in a call too, has the same place.
    _given: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, resolved: ResolvedProgram, entry: Function, scalars: Mapping[str, int]) -> Places:
        """The places of a program; ``known`` has the values of its entry's scalar arguments."""
        places = cls()
        ranges: list[tuple[Loc, int, int]] = []
        for op, t, at in _addressed(resolved, entry, Entered(tuple(scalars.items()))):
            if at is None:
                raise refuse(op, "has an address that is computed at run time; allowed: known ones")
            space = _space(t.loc)
            for loc, start, end in ranges:
                if loc != t.loc and _space(loc) == space and start < at + t.bytes and at < end:
                    both = f"{loc.name.lower()} and {t.loc.name.lower()}"
                    raise refuse(op, f"overlaps another tile: the simulator has one memory for {both}")
            ranges.append((t.loc, at, at + t.bytes))
            places.used[space] = max(places.used.get(space, 0), at + t.bytes)
        return places

    def take(self, t: TileType, op: Op | None) -> int:
        """The address of a new tile, or of one that an operation allocated before."""
        if op is not None and id(op) in self._given:
            return self._given[id(op)]
        space = _space(t.loc)
        start = -(-self.used.get(space, 0) // _ALIGNMENT) * _ALIGNMENT
        self.used[space] = start + t.bytes
        capacity = CPU_SIM.capacity[space]
        if self.used[space] > capacity:
            raise refuse(
                op,
                f"tiles in {space.name.lower()} take {self.used[space]} bytes together, the simulator "
                f"has {capacity}",
            )
        if op is not None and placed(op) is not None:
            self._given[id(op)] = start
        return start


def _space(loc: Loc) -> Loc:
    return Loc.VEC if loc in _TOGETHER else loc


def _addressed(
    resolved: ResolvedProgram, entry: Function, entered: Entered
) -> Iterator[tuple[Op, TileType, int | None]]:
    """Operations that point a tile at an address, with the tile's type and the address where it is known."""
    for function in resolved.program.functions:
        facts = resolved.facts(function, entered if function.name == entry.name else ANYWHERE)
        for op in function.walk():
            handle, address = placed(op) or (None, None)
            if handle is None or address is None:
                continue
            if not isinstance(handle.type, TileType):
                raise refuse(op, f"places {handle} of type {handle.type}; allowed: a tile")
            yield op, handle.type, facts.of(op).number(address)


Mode = Literal["auto", "manual"]


@dataclass
class Scope:
    """What names stand for where code is written: C++ name, and for tiles where their storage was made."""

    names: dict[str, str] = field(default_factory=dict)
    #: Depth in loops at which the storage of a tile was made; 0 outside of loops.
    depths: dict[str, int] = field(default_factory=dict)
    layouts: dict[str, ir.GlobalLayout] = field(default_factory=dict)


@dataclass
class Unit:
    """What all functions of a program share; ``operation`` writes one operation of them."""

    program: ir.Program
    resolved: ResolvedProgram
    mode: Mode
    places: Places
    operation: Callable[[Writer, ir.Op], None]
    types: Aliases = field(default_factory=Aliases)
    functions: list[str] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def name(self, stem: str) -> str:
        """A name for a function that no other has."""
        name, number = stem, 2
        while name in self._names:
            name, number = f"{stem}_{number}", number + 1
        self._names.add(name)
        return name


class Writer:
    """Writes one function; a function that is called has a copy per call, with storage of its own."""

    def __init__(self, unit: Unit, function: ir.Function, active: frozenset[str] = frozenset()) -> None:
        self.unit = unit
        self.function = function
        self.active = active | {function.name}
        self.lines: list[str] = []
        self.indent = 1
        self.loops = 0
        self.scope = Scope()
        #: Names that are variables of the caller: what a fragment yields.
        self.outside: set[str] = set()
        #: Pipes with work that later work on others is not ordered after.
        self.pending: set[str] = set()
        self._count = 0

    def write(self, name: str, results: Sequence[ir.Value] = ()) -> str:
        """The text of the function.

        ``results`` are values of a fragment that its caller wants to see; they, and its tiles, are the
        caller's variables.
        """
        self.outside = {v.name for v in results}
        fragment = self.unit.program.fragment
        parameters = [self.parameter(a, reference=fragment) for a in self.function.args]
        parameters += [f"{self.type(v.type)}& {identifier(v.name)}" for v in results]
        returned = self.block(self.function.body)
        types = [self.type(v.type) for v in returned]
        result = "void"
        if len(types) == 1:
            result = types[0]
        elif types:
            result = f"std::tuple<{', '.join(types)}>"
        head = f"static AICORE {result} {name}({', '.join(parameters)})"
        if returned:
            values = ", ".join(self.of(v) for v in returned)
            self.line(f"return {values};" if len(returned) == 1 else f"return {{{values}}};")
        return "\n".join([head, "{", *self.lines, "}"])

    # -- names and types ---------------------------------------------------------------------------------

    def parameter(self, value: ir.Value, reference: bool) -> str:
        """A parameter of the function in C++; ``reference`` makes tiles references, as auto mode does."""
        name = self.bind(value)
        if isinstance(value.type, ir.TileType):
            self.scope.depths[value.name] = 0
            # A copy is a handle of its own; auto mode has no copies.
            reference = reference or self.unit.mode == "auto"
            return f"{self.type(value.type)}{'&' if reference else ''} {name}"
        if isinstance(value.type, ir.VectorType):
            return f"MrgSortExecutedNumList& {name}"
        if isinstance(value.type, ir.PartitionViewType | ir.TensorViewType):
            self.scope.layouts[value.name] = ir.GlobalLayout.ND
        return f"{self.type(value.type)} {name}"

    def bind(self, value: ir.Value) -> str:
        """The C++ name of a value defined here."""
        name = identifier(value.name)
        self.scope.names[value.name] = name
        return name

    def of(self, value: ir.Value) -> str:
        """The C++ name of a value in scope."""
        return self.scope.names[value.name]

    def fresh_name(self, stem: str) -> str:
        """A name that begins with ``stem`` and that no other value of the function has."""
        self._count += 1
        return f"{stem}_{self._count}_"

    def type(self, t: ir.Type, layout: ir.GlobalLayout = ir.GlobalLayout.ND, op: ir.Op | None = None) -> str:
        """A type in C++; NotExecutableError, with the place of ``op``, for types that it lacks."""
        if isinstance(t, ir.TileType):
            return self.unit.types.of(t, op)
        if isinstance(t, ir.ScalarType):
            return t.dtype.cpp
        if isinstance(t, ir.PtrType):
            return f"__gm__ {t.dtype.cpp}*"
        if isinstance(t, ir.PartitionViewType | ir.TensorViewType):
            return f"View<{t.dtype.cpp}{'' if layout == ir.GlobalLayout.ND else f', Layout::{layout.name}'}>"
        raise refuse(op, f"has a value of type {t}, which is not written in C++")

    def line(self, text: str) -> None:
        """Add a line at the current indentation."""
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def braces(self, head: str, loop: bool = False) -> Iterator[None]:
        """A region: names defined in it end with it. Work before, in and after it is ordered."""
        self.settle()
        self.line(f"{head} {{" if head else "{")
        outer, self.scope = (
            self.scope,
            Scope(dict(self.scope.names), dict(self.scope.depths), dict(self.scope.layouts)),
        )
        self.indent += 1
        self.loops += loop
        yield
        self.settle()
        self.loops -= loop
        self.indent -= 1
        self.scope = outer
        self.line("}")

    # -- order of pipes ----------------------------------------------------------------------------------

    def order(self, pipe: str) -> None:
        """Order work on a pipe after all before it on others, and on the same one."""
        if self.unit.mode == "auto":
            return
        for other in sorted(self.pending):
            if other == pipe:
                self.line(f"pipe_barrier({pipe});")
            else:
                self.line(f"set_flag({other}, {pipe}, EVENT_ID0);")
                self.line(f"wait_flag({other}, {pipe}, EVENT_ID0);")
        self.pending = {pipe}

    def settle(self) -> None:
        """Order all work that follows after all before it."""
        if self.unit.mode == "manual" and self.pending:
            self.line("pipe_barrier(PIPE_ALL);")
        self.pending = set()

    # -- statements --------------------------------------------------------------------------------------

    def block(self, region: ir.Region) -> tuple[ir.Value, ...]:
        """Write the operations of a region; gives the operands of its terminator."""
        for op in region.ops:
            if traits_of(op).terminator:
                return op.ins
            self.unit.operation(self, op)
        return ()

    def declare_tile(
        self, op: ir.Op, value: ir.Value, sizes: tuple[str, str], address: str | None, clear: bool = False
    ) -> None:
        """A tile variable; without an address it has storage of its own in manual mode."""
        t = value.type
        assert isinstance(t, ir.TileType)
        name = self.tile_variable(value, sizes, op)
        self.scope.depths[value.name] = self.loops
        if address is not None:
            self.line(f"TASSIGN({name}, {address});")
        elif self.unit.mode == "manual":
            self.line(f"TASSIGN({name}, {self.unit.places.take(t, op):#x});")
            if clear:
                self.line(f"clear({name});")

    def tile_variable(self, value: ir.Value, sizes: tuple[str, str], op: ir.Op | None) -> str:
        """A tile variable with the sizes that its type leaves open; gives its name."""
        t, name = value.type, self.bind(value)
        assert isinstance(t, ir.TileType)
        opened = [static is None for static in valid_sizes(t)]
        arguments = [
            f"static_cast<unsigned>({size})" for size, free in zip(sizes, opened, strict=True) if free
        ]
        if value.name not in self.outside:
            self.line(f"{self.type(t, op=op)} {name}{called(arguments)};")
        elif arguments:
            setter = "Shape" if all(opened) else "Row" if opened[0] else "Col"
            self.line(f"{name}.SetValid{setter}{called(arguments)};")
        return name

    def hand_on(self, op: ir.Op, targets: Sequence[str], values: Sequence[ir.Value]) -> None:
        """Assign values to variables, all at once."""
        pairs = [(t, self.of(v)) for t, v in zip(targets, values, strict=True)]
        regions = traits_of(op).regions
        repeats = regions is not None and regions.repeats
        tiles = [v for v in values if repeats and isinstance(v.type, ir.TileType)]
        for value in tiles:
            if self.scope.depths.get(value.name, 0) >= self.loops > 0:
                raise refuse(op, f"hands on the tile {value}, which is made anew on every trip")
        pairs = [(t, v) for t, v in pairs if t != v]
        sources = {v for _, v in pairs}
        if any(t in sources for t, _ in pairs):
            renamed = [(t, self.fresh_name("next")) for t, _ in pairs]
            for (_, source), (_, kept) in zip(pairs, renamed, strict=True):
                self.line(f"auto {kept} = {source};")
            pairs = renamed
        for target, source in pairs:
            self.line(f"{target} = {source};")

    def variables(
        self, op: ir.Op, results: Sequence[ir.Value], inits: Sequence[ir.Value] = (), renamed: bool = False
    ) -> list[str]:
        """Variables for what an operation with regions hands on, under the results' names or other ones."""
        names = []
        for i, result in enumerate(results):
            t = result.type
            if isinstance(t, ir.TileType) and self.unit.mode == "auto":
                raise refuse(op, f"hands on the tile {result}; allowed in auto mode: scalars (use manual)")
            name = self.fresh_name("turn") if renamed else self.bind(result)
            layout = (
                self.scope.layouts.get(inits[i].name, ir.GlobalLayout.ND) if inits else ir.GlobalLayout.ND
            )
            start = f" = {self.of(inits[i])}" if inits else ""
            if inits and inits[i].type != t:
                raise refuse(op, f"hands on {inits[i]} of type {inits[i].type} as {t}")
            if renamed or result.name not in self.outside:
                self.line(f"{self.type(t, layout, op)} {name}{start};")
            elif start:
                self.line(f"{name}{start};")
            if not renamed:
                origin = self.scope.depths.get(inits[i].name, 0) if inits else self.loops
                self.scope.depths[result.name] = origin
                self.scope.layouts[result.name] = layout
            names.append(name)
        return names

    def copies(self, values: Sequence[ir.Value], sources: Sequence[str], like: Sequence[ir.Value]) -> None:
        """Variables of a region that start as copies of those around it."""
        for value, source, origin in zip(values, sources, like, strict=True):
            layout = self.scope.layouts.get(origin.name, ir.GlobalLayout.ND)
            self.line(f"{self.type(value.type, layout)} {self.bind(value)} = {source};")
            self.scope.depths[value.name] = self.scope.depths.get(origin.name, 0)
            self.scope.layouts[value.name] = layout


def called(arguments: Sequence[str]) -> str:
    """Arguments in parentheses, nothing where there are none."""
    return f"({', '.join(arguments)})" if arguments else ""


@dataclass(frozen=True)
class Call:
    """One instruction: C++ names and types of its operands by declared name, attributes with defaults."""

    op: Op
    bound: isa.Bound
    names: Mapping[str, str]
    types: Mapping[str, str]
    #: How tiles are placed: auto or manual.
    mode: str

    def __contains__(self, operand: str) -> bool:
        return operand in self.names

    def attribute(self, name: str) -> Any:
        """The value of an attribute, its default where the operation gives none."""
        return self.bound.attrs.get(name)

    def chosen(self, name: str) -> IntEnum | None:
        """The member of an attribute that is a choice; None where it is left out and has no default."""
        value = self.attribute(name)
        assert value is None or isinstance(value, IntEnum)
        return value

    def tile(self, name: str) -> TileType:
        """The type of an operand that is a tile."""
        t = self.bound.values[name].type
        assert isinstance(t, TileType)
        return t

    def element(self, name: str) -> DType:
        """The element type of a tile, or the type of a scalar."""
        t = self.bound.values[name].type
        return t.dtype if isinstance(t, TileType) else scalar_dtype(t)

    def listed(self, *operands: str) -> str:
        """Arguments in an order, those left out by the operation left out here too."""
        return ", ".join(self.names[n] for n in operands if n in self.names)

    def refuse(self, message: str) -> Exception:
        """The error for what is not written in C++, with the operation's place."""
        return refuse(self.op, message)


Handler = Callable[[Writer, Op], None]


def _for(writer: Writer, op: Op) -> None:
    lower, upper, step = (writer.of(op.group(g)[0]) for g in ("lb", "ub", "step"))
    body = op.regions[0]
    counter, *carried = body.args
    names = writer.variables(op, op.results, op.group("inits"))
    index, kind = writer.fresh_name("i"), writer.type(counter.type)
    with writer.braces(f"for ({kind} {index} = {lower}; {index} < {upper}; {index} += {step})", loop=True):
        writer.line(f"{kind} {writer.bind(counter)} = {index};")
        writer.copies(carried, names, op.results)
        writer.hand_on(op, names, writer.block(body))


def _while(writer: Writer, op: Op) -> None:
    before, after = op.regions
    starts = writer.variables(op, op.ins, op.ins, renamed=True)
    results = writer.variables(op, op.results)
    with writer.braces("while (true)", loop=True):
        writer.copies(before.args, starts, op.ins)
        go, *passed = writer.block(before)
        with writer.braces(f"if (!({writer.of(go)}))"):
            writer.hand_on(op, results, passed)
            writer.line("break;")
        writer.copies(after.args, [writer.of(v) for v in passed], passed)
        writer.hand_on(op, starts, writer.block(after))


def _if(writer: Writer, op: Op) -> None:
    names = writer.variables(op, op.results)
    heads = [f"if ({writer.of(op.ins[0])})", "else"]
    _arms(writer, op, names, heads, op.regions)


def _switch(writer: Writer, op: Op) -> None:
    names = writer.variables(op, op.results)
    cases = op.attrs.get("cases")
    assert isinstance(cases, tuple)
    value = writer.of(op.ins[0])
    tests = [f"{value} == {n}" for n in cases]
    heads = [f"{'else ' if i else ''}if ({t})" for i, t in enumerate(tests)]
    # The default is the last region; without cases it is all there is.
    _arms(writer, op, names, [*heads, "else" if heads else ""], op.regions)


def _execute(writer: Writer, op: Op) -> None:
    _arms(writer, op, writer.variables(op, op.results), [""], op.regions)


def _section(writer: Writer, op: Op) -> None:
    raise refuse(op, "is one core's part of a program, which is not written in C++")


def _arms(
    writer: Writer, op: Op, names: Sequence[str], heads: Sequence[str], regions: Sequence[Region]
) -> None:
    """Regions of which one is executed and hands values on."""
    depths: dict[str, int] = {}
    for head, region in zip(heads, regions, strict=False):
        with writer.braces(head):
            passed = writer.block(region)
            writer.hand_on(op, names, passed)
            for result, value in zip(op.results, passed, strict=True):
                _same_type(op, result, value)
                depths[result.name] = max(depths.get(result.name, 0), writer.scope.depths.get(value.name, 0))
    writer.scope.depths.update(depths)


def _same_type(op: Op, result: Value, value: Value) -> None:
    if isinstance(result.type, TileType) and result.type != value.type:
        raise refuse(op, f"hands on {value} of type {value.type} as {result.type}")


CONTROL: dict[str, Handler] = {
    "scf.for": _for,
    "scf.while": _while,
    "scf.if": _if,
    "scf.index_switch": _switch,
    "scf.execute_region": _execute,
    "section.cube": _section,
    "section.vector": _section,
}


#: Helpers that the expressions below call.
PRELUDE = """\
template <typename T>
AICORE inline T quotient(T a, T b)
{
    if (b == 0 || (std::is_signed_v<T> && b == T(-1)))
        return b == 0 ? T(-1) : static_cast<T>(-static_cast<uint64_t>(a));
    return static_cast<T>(a / b);
}
template <typename T>
AICORE inline T rest(T a, T b)
{
    return b == 0 ? a : std::is_signed_v<T> && b == T(-1) ? T(0) : static_cast<T>(a % b);
}
template <typename T>
AICORE inline T maximum(T a, T b)
{
    if (a != a || b != b)
        return static_cast<T>(a + b);
    return a == b ? (std::signbit(static_cast<float>(a)) ? b : a) : a > b ? a : b;
}
template <typename T>
AICORE inline T minimum(T a, T b)
{
    return static_cast<T>(-maximum(static_cast<T>(-a), static_cast<T>(-b)));
}
"""
_WRAPPING = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^"}
_FLOATS = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/"}
_HELPERS = {"divsi": "quotient", "remsi": "rest", "maximumf": "maximum", "minimumf": "minimum"}
_UNSIGNED_HELPERS = {"divui": "quotient", "remui": "rest"}
_CASTS = frozenset({"index_cast", "extsi", "trunci", "extf", "truncf", "sitofp"})
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def expression(op: Op, names: list[str]) -> str:
    """The value of an ``arith`` operation, given its operands' C++ names."""
    name = op.name.removeprefix("arith.")
    result = scalar_dtype(op.results[0].type)
    if name == "constant":
        value = op.attrs["value"]
        if isinstance(value, tuple):
            raise refuse(op, "is a vector constant, which is not written in C++")
        return literal(value, result)
    source = scalar_dtype(op.ins[-1].type)
    if name == "select":
        return f"{names[0]} ? {names[1]} : {names[2]}"
    if name == "cmpi":
        return _compare(op, names, source)
    text = _of_two(name, names, source, result) if len(names) == 2 else None
    if text is not None:
        return text
    if name in ("extui", "index_castui") or (name == "uitofp" and source.bits < 64):
        return f"static_cast<{result.cpp}>({_unsigned(names[0], source)})"
    if name == "negf":
        return f"static_cast<{result.cpp}>(-{names[0]})"
    if name in _CASTS and not (source.name == "i1" and name in ("extsi", "sitofp")):
        return f"static_cast<{result.cpp}>({names[0]})"
    raise refuse(op, "is a scalar operation that is not written in C++")


def _of_two(name: str, names: list[str], source: DType, result: DType) -> str | None:
    """An operation on two operands of one type; None for what is not written in C++."""
    a, b = names
    if name in _WRAPPING and source.name == "i1":
        return f"({a} {_WRAPPING[name]} {b}) & 1"
    if name in _WRAPPING:
        first, second = f"static_cast<uint64_t>({a})", f"static_cast<uint64_t>({b})"
        return f"static_cast<{result.cpp}>({first} {_WRAPPING[name]} {second})"
    if name in _FLOATS:
        return f"static_cast<{result.cpp}>({a} {_FLOATS[name]} {b})"
    if name in _HELPERS:
        return f"{_HELPERS[name]}({a}, {b})"
    x, y = _unsigned(a, source), _unsigned(b, source)
    if name in _UNSIGNED_HELPERS:
        return f"static_cast<{result.cpp}>({_UNSIGNED_HELPERS[name]}({x}, {y}))"
    if name in ("maxsi", "minsi"):
        return f"{a} {'>' if name == 'maxsi' else '<'} {b} ? {a} : {b}"
    if name in ("maxui", "minui"):
        return f"{x} {'>' if name == 'maxui' else '<'} {y} ? {a} : {b}"
    return None


def _unsigned(name: str, d: DType) -> str:
    return name if d.name == "i1" else f"static_cast<uint{max(8, d.bits)}_t>({name})"


def _compare(op: Op, names: list[str], d: DType) -> str:
    predicate = str(op.attrs["predicate"])
    a, b = names
    if predicate.startswith("u"):
        a, b = _unsigned(a, d), _unsigned(b, d)
    return f"{a} {_COMPARE[predicate.lstrip('su') if predicate not in _COMPARE else predicate]} {b}"
