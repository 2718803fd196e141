"""Functions of a program as C++ functions.

Tiles, views, pointers and scalars are variables of the names they have in the program. A tile is a handle:
in manual mode a loop or a branch hands one on by copying the C++ object, which auto mode does not allow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from ... import ir
from ...analysis.resolve import ResolvedProgram
from ...isa.effects import traits_of
from .places import Places
from .spelling import Aliases, identifier, refuse, valid_sizes

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
