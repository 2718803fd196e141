"""Liveness of a function's tiles, from the last operation to the first.

A tile lives from the first operation that writes it to the last one that reads what was written. Handles,
windows and reshapes are followed to the tile that they are over, also through branches and loops; where one
may be over several, all of them are read and none is replaced. A write of a whole tile ends the need of what
was there before, whatever its valid region: programs that rely on old lanes around it are rare, and tools
that place tiles count as is done here.

Sets of tiles are integers with one bit for each.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ..ir import Function, MemRefType, MultiTileType, Op, Region, TileType, Type, Value
from ..isa.effects import aliased, flows, placed, traits_of
from ..isa.multi_tiles import slot_bytes
from ..isa.rules.tile_legality import tile_of_memref
from ..isa.traits import FUNCTION_END, GRAPH
from . import dataflow
from .provenance import called
from .resolve import ResolvedOp, ResolvedProgram


@dataclass(frozen=True)
class Tile:
    """A tile that a function makes: the handle, and the operation that makes it."""

    handle: Value
    op: Op

    @property
    def type(self) -> TileType:
        """The type of the tile, of one of several buffers' where it has more."""
        t = _tile_type(self.handle.type)
        assert t is not None
        return t

    @property
    def name(self) -> str:
        """The handle as the text spells it."""
        return self.handle.name.partition("#")[0]

    @property
    def count(self) -> int:
        """How many buffers it has."""
        return self.handle.type.count if isinstance(self.handle.type, MultiTileType) else 1

    @property
    def bytes(self) -> int:
        """The bytes that it takes."""
        return self.count * slot_bytes(self.type) if self.count > 1 else self.type.bytes

    @property
    def address(self) -> Value | None:
        """Where the program places it, None where a tool does."""
        return (placed(self.op) or (None, None))[1]


@dataclass(frozen=True)
class Access:
    """The tiles that an operation reads, writes, uses as scratch, and replaces as a whole."""

    reads: int = 0
    writes: int = 0
    scratch: int = 0
    replaces: int = 0

    @property
    def all(self) -> int:
        """Every tile that it uses."""
        return self.reads | self.writes | self.scratch


#: What is done at an operation: the tiles that it uses, those whose contents are needed before it and behind.
Visit = Callable[[Op, Access, int, int], None]


@dataclass(eq=False)
class Lifetimes:
    """The tiles of a function and what each operation does to them."""

    resolved: ResolvedProgram
    function: Function
    tiles: list[Tile] = field(default_factory=list)
    #: For every tile the first one of those that it takes turns with: a handle is over one at a time.
    turns: list[int] = field(default_factory=list)
    #: The tiles that a handle may be over, and the handles over a part of one.
    over: dict[str, int] = field(default_factory=dict)
    parts: set[str] = field(default_factory=set)
    #: The tiles whose contents begin at an operation or inside of it, as none uses them earlier.
    _begin: dict[int, tuple[int, ...]] = field(default_factory=dict)
    #: The tiles that anything writes; others have no contents.
    _filled: int = 0
    _heads: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.function = _with_unique_names(self.function)
        for op in self.function.walk():
            for tile in made_tiles(op):
                self.over[tile.handle.name] = self.over.get(tile.handle.name, 0) | 1 << len(self.tiles)
                self.tiles.append(tile)
        self._follow()
        self.turns = list(range(len(self.tiles)))
        if self.tiles:
            self._take_turns()
            self._first_uses(self.function.body, 0)

    def visit(self, visit: Visit) -> None:
        """Go through the function from its end; operations in loops are visited until nothing changes."""
        self._heads.clear()
        count = 0
        for name in self.resolved.program.fragment_results:
            count |= self.over.get(name, 0)
        self._region(self.function.body, count, visit)

    def listed(self, tiles: int) -> Iterator[Tile]:
        """The tiles of a set, in the order of the text."""
        return (self.tiles[i] for i in bits(tiles))

    # -- handles -------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Find the tiles that every handle may be over."""

        def transfer(pairs: tuple[tuple[Value, Value, bool], ...]) -> bool:
            changed = False
            for result, source, part in pairs:
                before = self.over.get(result.name, 0)
                after = before | self.over.get(source.name, 0)
                if part or source.name in self.parts:
                    changed |= result.name not in self.parts
                    self.parts.add(result.name)
                if after != before:
                    self.over[result.name], changed = after, True
            return changed

        dataflow.raise_values(
            [pairs for op in self.function.walk() if (pairs := tuple(_pairs(op)))], transfer
        )

    def _take_turns(self) -> None:
        """Let tiles take turns that an operation hands on, where it makes one of them itself."""
        maker = {tile.handle.name: 1 << i for i, tile in enumerate(self.tiles)}

        def made_inside(op: Op) -> int:
            inner = (o for region in op.regions for i in region.ops for o in i.walk())
            return sum(maker.get(value.name, 0) for o in inner for value in o.results)

        for op in self.function.walk():
            handed = [self.over.get(result.name, 0) for result, _ in flows(op)] if op.regions else []
            several = [tiles for tiles in handed if tiles & (tiles - 1)]
            inside = made_inside(op) if several else 0
            for tiles in several:
                if tiles & inside:
                    joined = {self.turns[i] for i in bits(tiles)}
                    self.turns = [min(joined) if at in joined else at for at in self.turns]

    # -- accesses ------------------------------------------------------------------------------------

    def access(self, op: Op) -> Access:
        """What an operation does to the tiles, its regions apart."""
        resolved = self.resolved.of(op)
        if called(self.resolved.program, op) is not None:
            handed = self._union(op.ins)
            return Access(handed, handed)
        if op.name == FUNCTION_END:
            return Access(self._union(op.ins))
        reads = writes = scratch = replaces = 0
        for effect, value in resolved.accesses():
            tiles = self.over.get(value.name, 0)
            match effect.access:
                case "read":
                    reads |= tiles
                case "write":
                    writes |= tiles
                    whole = not effect.indexed and value.name not in self.parts
                    replaces |= tiles if whole and tiles.bit_count() == 1 else 0
                case "scratch" if _is_used(resolved, value, self.resolved):
                    scratch |= tiles
        return Access(reads, writes, scratch, replaces & ~reads)

    def _union(self, values: tuple[Value, ...]) -> int:
        tiles = 0
        for value in values:
            tiles |= self.over.get(value.name, 0)
        return tiles

    def _first_uses(self, region: Region, count: int) -> int:
        """Note where tiles are first used, in the order of the text; the tiles used up to a region's end."""
        for op in region.ops:
            before = count
            access = self.access(op)
            count |= access.all
            self._filled |= access.writes
            for inner in op.regions:
                count = self._first_uses(inner, count)
            # What is read first has contents before that its text does not give.
            self._begin[id(op)] = tuple(bits(count & ~before & ~access.reads))
        return count

    # -- liveness ------------------------------------------------------------------------------------

    def _region(self, region: Region, needed: int, visit: Visit) -> int:
        """The tiles needed before a region, when some are needed behind it."""
        for op in reversed(region.ops):
            if op.regions:
                needed = self._nested(op, needed, visit) & ~self._beginning(op)
            else:
                needed = self._operation(op, needed, visit)
        return needed

    def _operation(self, op: Op, needed: int, visit: Visit) -> int:
        access = self.access(op)
        before = needed & ~access.replaces & ~self._beginning(op) | access.reads & self._filled
        visit(op, access, before, needed)
        for tile in made_tiles(op):
            before &= ~self.over[tile.handle.name]
        return before

    def _beginning(self, op: Op) -> int:
        """The tiles whose contents begin at an operation, or inside of it."""
        return sum(1 << i for i in self._begin.get(id(op), ()))

    def _nested(self, op: Op, needed: int, visit: Visit) -> int:
        regions = traits_of(op).regions
        match regions.runs if regions is not None else "once":
            case "for":
                return needed | self._repeated(
                    op, lambda head: self._region(op.regions[0], needed | head, visit)
                )
            case "while" if len(op.regions) == 2:
                before, after = op.regions

                def trip(head: int) -> int:
                    return self._region(before, needed | self._region(after, head, visit), visit)

                return self._repeated(op, trip)
            case "graph":
                first, *others = op.regions

                def blocks(head: int) -> int:
                    for region in reversed(others):
                        head |= self._region(region, head, visit)
                    return head

                return self._region(first, self._repeated(op, blocks), visit)
            case "if" | "switch" as runs:
                ends = needed if runs == "if" and len(op.regions) == 1 else 0
                for region in op.regions:
                    ends |= self._region(region, needed, visit)
                return ends
            case _:
                for region in reversed(op.regions):
                    needed = self._region(region, needed, visit)
                return needed

    def _repeated(self, op: Op, trip: Callable[[int], int]) -> int:
        """The tiles needed before every trip of a loop, given those that one trip needs for its next one."""
        # A loop inside of another one goes on from where it was, so that passes grow with the nest's depth.
        head = self._heads.get(id(op), 0)
        while (begin := trip(head) | head) != head:
            head = begin
        self._heads[id(op)] = head
        return head


def _tile_type(t: Type) -> TileType | None:
    """The tile that a handle is one of, None for what is no handle of on-chip memory."""
    if isinstance(t, MemRefType):
        return tile_of_memref(t)
    slot = t.slot if isinstance(t, MultiTileType) else t
    return slot if isinstance(slot, TileType) else None


def _with_unique_names(function: Function) -> Function:
    """The function with other names for handles that are equally named in regions side by side."""
    seen: set[str] = set()
    equal: set[str] = set()
    for op in function.walk():
        for value in (*op.results, *(a for region in op.regions for a in region.args)):
            if _tile_type(value.type) is not None:
                (equal if value.name in seen else seen).add(value.name)
    if not equal:
        return function
    count = 0

    def defined(values: tuple[Value, ...], names: dict[str, Value]) -> tuple[Value, ...]:
        nonlocal count
        for value in values:
            if value.name in equal:
                count += 1
                names[value.name] = replace(value, name=f"{value.name}#{count}")
        return named(values, names)

    def named(values: tuple[Value, ...], names: Mapping[str, Value]) -> tuple[Value, ...]:
        return tuple(replace(v, name=names[v.name].name) if v.name in names else v for v in values)

    def renamed(region: Region, names: dict[str, Value]) -> Region:
        ops, args = [], defined(region.args, names)
        for op in region.ops:
            # Names of blocks that branches lead to end with all of them.
            regions = tuple(renamed(r, names if op.name == GRAPH else dict(names)) for r in op.regions)
            ins, outs = named(op.ins, names), named(op.outs, names)
            results = defined(op.results, names)
            ops.append(replace(op, ins=ins, outs=outs, results=results, regions=regions))
        return Region(tuple(ops), args)

    return replace(function, body=renamed(function.body, {}))


def bits(tiles: int) -> Iterator[int]:
    """The positions of the tiles of a set."""
    while tiles:
        yield (tiles & -tiles).bit_length() - 1
        tiles &= tiles - 1


def made_tiles(op: Op) -> Iterator[Tile]:
    """The tiles that an operation makes: it allocates them, or binds a destination that it writes."""
    traits = traits_of(op)
    if traits.placement is not None:
        handle = (placed(op) or (None,))[0]
        if handle is not None and _tile_type(handle.type) is not None:
            yield Tile(handle, op)
    elif traits.effects and traits.alias is None and traits.fifo is None and not op.regions:
        yield from (Tile(value, op) for value in op.results if isinstance(value.type, TileType))


def _pairs(op: Op) -> Iterator[tuple[Value, Value, bool]]:
    """Handles that an operation makes with those they are made of, and whether it is of a part."""
    traits, pair = traits_of(op), aliased(op)
    if pair is not None and traits.alias is not None:
        if traits.alias.memory == "tile":
            yield *pair, traits.alias.part != "same"
    elif op.regions:
        yield from ((result, source, False) for result, source in flows(op))
    elif not traits.effects and traits.fifo is None:
        # A choice between handles, or what a call hands back.
        for result in op.results:
            if _tile_type(result.type) is not None:
                yield from ((result, v, False) for v in op.ins if _tile_type(v.type) is not None)


def _is_used(resolved: ResolvedOp, value: Value, program: ResolvedProgram) -> bool:
    """Whether the profile writes a scratch tile; others take it and leave it alone."""
    if resolved.instruction is None or program.profile is None:
        return True
    names = [name for name, v in resolved.values.items() if v == value]
    operands = [resolved.instruction.operand(name) for name in names]
    return any(o.role != "tmp" or o.is_scratch_on(program.profile.name) for o in operands)
