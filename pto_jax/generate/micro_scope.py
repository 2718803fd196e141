"""Operations inside a vector scope of a generated kernel: registers, masks, loads and stores.

What an operation takes follows from its signature and from the places that its declaration accesses; only
operations whose operands belong together (gathers, scatters, unaligned streams) are built one by one. Bytes
that one access writes and another one uses have a barrier between them, so that the order of the text counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir import (
    I1,
    I16,
    I32,
    INDEX,
    U8,
    U16,
    U32,
    AddressSpace,
    AlignType,
    DType,
    MaskType,
    Op,
    PtrType,
    Region,
    ScalarType,
    Type,
    Value,
    VRegType,
    attrs,
)
from ..isa import micro_operations
from ..isa.micro import MicroCall, Place
from ..isa.views import ADDPTR
from .micro_samples import MicroSample, element, register
from .options import CASTPTR
from .state import Level, State

#: Bytes of the areas of the unified buffer that kernels load, change and store.
AREA = 2048
#: Registers of results that each element type has room for.
RESULTS = 8
#: Gathers whose offsets count bytes.
_BYTES = frozenset({"vgatherb"})
#: Stores of words of 32 bits, and masks that become ones for narrower or for wider lanes.
_WORDS = frozenset({"sprsti", "sprsts"})
_NEXT_WIDTH = {"ppack": {32: 16, 16: 8}, "punpack": {8: 16, 16: 32}}


@dataclass(frozen=True)
class Area:
    """Bytes of the unified buffer at an address, and a pointer to the first."""

    pointer: Value
    dtype: DType
    size: int = AREA


@dataclass(frozen=True)
class At:
    """A pointer to a byte of an area."""

    pointer: Value
    area: Area
    byte: int = 0

    @property
    def dtype(self) -> DType:
        """The element type that the pointer has."""
        assert isinstance(self.pointer.type, PtrType)
        return self.pointer.type.dtype


@dataclass
class Pool:
    """The registers and masks that can be used at a place, and pointers that operations have moved."""

    registers: list[Value] = field(default_factory=list)
    masks: list[Value] = field(default_factory=list)
    moved: list[At] = field(default_factory=list)
    counters: list[tuple[Value, int]] = field(default_factory=list)

    def inner(self) -> Pool:
        """The pool of a region inside."""
        return Pool([*self.registers], [*self.masks], [*self.moved], [*self.counters])


def mask_bits(t: VRegType) -> int:
    """The bits per lane of the masks of a register."""
    return min(32, t.dtype.word_bits)


def storable(d: DType) -> DType:
    """The element type of memory that a register is in: bytes where two elements share one."""
    return U8 if d.pair_of else d


def _word(number: int, d: DType) -> NDArray[Any]:
    return np.array(number).astype(d.word)


#: Takes a register whose bits count, or are within a bound, and shows it in global memory.
Keep = Callable[["ScopeWriter", Value, int], None]


class ScopeWriter:
    """Writes the operations of one vector scope."""

    def __init__(self, state: State, areas: Sequence[Area], keep: Keep) -> None:
        self.state, self.rng, self.areas = state, state.rng, areas
        self.pool = Pool()
        self.keep = keep
        #: What has been read and written since the last barrier, by areas.
        self.read: set[int] = set()
        self.written: set[int] = set()

    # -- building -------------------------------------------------------------------------------------

    def emit(
        self, name: str, ins: Sequence[Value] = (), results: Sequence[Type] = (), **attributes: str | None
    ) -> tuple[Value, ...]:
        """Add an operation; the values that it gives, by their types."""
        values = tuple(Value(self.state.name("v"), t) for t in results)
        present = {n: v for n, v in attributes.items() if v is not None}
        self.state.emit(Op(name, tuple(ins), results=values, attributes=attrs(present)))
        return values

    @contextmanager
    def region(self, loop: bool = False) -> Iterator[Level]:
        """A region inside, with values of its own."""
        outside, level = self.pool, Level(loop=loop)
        self.pool = outside.inner()
        self.state.levels.append(level)
        try:
            yield level
        finally:
            self.state.levels.pop()
            self.pool = outside

    def barrier(self) -> None:
        """What came before is over."""
        if self.read or self.written:
            self.state.emit(Op("mem_bar", attributes=attrs(kind="VV_ALL")))
        self.read.clear()
        self.written.clear()

    def ordered(self, area: Area, *, write: bool) -> None:
        """A barrier between earlier accesses of an area and the next one, where it needs one."""
        key = id(area)
        kinds = [
            kind
            for kind, needed in (
                ("VST_VLD", not write and key in self.written),
                ("VLD_VST", write and key in self.read),
                ("VST_VST", write and key in self.written),
            )
            if needed
        ]
        if kinds:
            kind = kinds[0] if len(kinds) == 1 and self.state.chance(0.7) else "VV_ALL"
            self.state.emit(Op("mem_bar", attributes=attrs(kind=kind)))
            if kind in ("VV_ALL", "VLD_VST"):
                self.read.clear()
            if kind != "VLD_VST":
                self.written.clear()
        (self.written if write else self.read).add(key)

    # -- operands -------------------------------------------------------------------------------------

    def register(self, t: VRegType) -> Value:
        """A register of a type: one that there is, by its bits."""
        same = [v for v in self.pool.registers if v.type == t]
        if same and self.state.chance(0.7):
            return self.rng.choice(same)
        value = self.rng.choice(self.pool.registers)
        if value.type == t:
            return value
        (result,) = self.emit("vbitcast", (value,), (t,))
        return result

    def mask(self, bits: int) -> Value:
        """A mask of a width: one that there is, or a new one of a pattern or a count."""
        same = [v for v in self.pool.masks if v.type == MaskType(bits)]
        if same and self.state.chance(0.5):
            return self.rng.choice(same)
        if self.state.chance(0.3):
            count = self.number(self.rng.randint(0, 2048 // bits + 3), I32)
            flags, _ = self.emit(f"plt_b{bits}", (count,), (MaskType(bits), ScalarType(I32)))
        else:
            patterns = micro_operations()[f"pset_b{bits}"].choices["pattern"]
            pattern = "PAT_ALL" if self.state.chance(0.4) else self.rng.choice(patterns)
            (flags,) = self.emit(f"pset_b{bits}", (), (MaskType(bits),), pattern=pattern)
        self.pool.masks.append(flags)
        return flags

    def whole(self, t: VRegType) -> Value:
        """A mask of all lanes of a register."""
        bits = mask_bits(t)
        (mask,) = self.emit(f"pset_b{bits}", (), (MaskType(bits),), pattern="PAT_ALL")
        return mask

    def number(self, number: int, d: DType) -> Value:
        """A number of a type: a constant, or an argument that only execution knows."""
        if self.state.chance(0.75):
            return self.state.constant(number, d)
        return self.state.argument("n", ScalarType(d), _word(number, d))

    def index(self, number: int) -> Value:
        """An index: a constant, an argument, or computed from the counter of a loop at run time."""
        return self.state.number(number, 0.7)

    # -- operations by their signature ----------------------------------------------------------------

    def operation(self, sample: MicroSample) -> None:
        """One operation of a kind with operands that fit it."""
        special = _BUILT.get(sample.name)
        if special is not None:
            special(self, sample)
        else:
            self.plain(sample)

    def plain(self, sample: MicroSample) -> None:
        """An operation that its signature describes."""
        operation = sample.operation
        attributes = self.attributes(sample)
        kinds = dict(zip(operation.names, operation.types.replace("->", " ").split(), strict=True))
        values: dict[str, Value] = {}
        numbers: dict[str, int | None] = {}
        late = {n for p in operation.places for n in (p.pointer, p.offset) if n}
        for name in operation.operands:
            if name not in late:
                values[name] = self.operand(sample, name, kinds[name], numbers)
        kept = [n for n in operation.results if not kinds[n].startswith("p")]
        results: list[Type] = [self.type_of(sample, kinds[n]) for n in kept]
        moves = any(kinds[n].startswith("p") for n in operation.results) and self.state.chance(0.3)
        moved: At | None = None
        for place in operation.places:
            call = self.call(sample, values, results, attributes)
            moved = self.placed(sample, place, call, values, numbers, moves=moves)
        ins = [values[n] for n in operation.operands]
        if moves and moved is not None:
            results.append(moved.pointer.type)
        outputs = self.emit(operation.name, ins, results, **attributes)
        if moves and moved is not None:
            self.pool.moved.append(At(outputs[-1], moved.area, moved.byte))
        self.add(sample, outputs)

    def attributes(self, sample: MicroSample) -> dict[str, str | None]:
        """Values of the attributes and strings that an operation has, None where one is left out."""
        pair, operation = sample.pair, sample.operation
        if pair is not None:
            parts = {1: "", 2: "EVEN ODD", 4: "P0 P1 P2 P3"}[pair.parts].split()
            long = self.state.chance(0.2)
            saturation = ("RS_ENABLE", "RS_DISABLE") if long else ("SAT", "NOSAT")
            prefix, named = ("ROUND_", "PART_") if long else ("", "")
            return {
                "rnd": f"{prefix}{self.rng.choice(pair.letters)}" if pair.letters else None,
                "sat": self.rng.choice(saturation) if pair.saturates else None,
                "part": f"{named}{self.rng.choice(parts)}" if parts else None,
            }
        written = {w.strip('"') for w in operation.words[0] if w.startswith('"')}
        chosen: dict[str, str | None] = {}
        for name, allowed in sample.choices.items():
            left_out = name not in written and self.state.chance(0.4)
            chosen[name] = None if left_out else self.rng.choice(allowed)
        return chosen

    def operand(self, sample: MicroSample, name: str, kind: str, numbers: dict[str, int | None]) -> Value:
        """A value for an operand of a signature."""
        if kind[0] == "s":
            return self.state.scalar(sample.register(kind[1:]).dtype)
        if kind in ("i16", "i32", "n", "x"):
            number = self.small(sample, name)
            numbers[name] = number
            d = {"i16": I16, "i32": I32}.get(kind, INDEX)
            return self.number(number, d) if kind == "i32" else self.state.constant(number, d)
        if kind == "-":
            return self.scalar_or_register(sample)
        t = self.type_of(sample, kind)
        if isinstance(t, VRegType):
            return self.register(t)
        assert isinstance(t, MaskType)
        return self.mask(t.bits)

    def small(self, sample: MicroSample, name: str) -> int:
        """A number for an operand: of a stride, a shift, a half, a count of lanes."""
        if name == "scalar":
            return self.rng.randrange(sample.types[0].dtype.bits)
        return self.rng.randint(*{"part": (0, 1), "bin": (0, 1), "block_stride": (1, 3)}.get(name, (0, 70)))

    def scalar_or_register(self, sample: MicroSample) -> Value:
        """What may be a scalar; of an operation with a mask also a register, for one of its lanes."""
        t = sample.types[0]
        if "mask" in sample.operation.operands and self.state.chance(0.5):
            return self.register(t)
        d = t.dtype
        plain = d.is_integer or d.name in ("f16", "bf16", "f32")
        return self.state.scalar(d if plain else U8)

    def type_of(self, sample: MicroSample, kind: str) -> VRegType | MaskType | ScalarType:
        """The type that a word of a signature stands for."""
        if kind in sample.letters:
            return sample.register(kind)
        if kind[0] == "M":
            return MaskType(mask_bits(sample.register(kind[1:]) if kind[1:] else sample.types[0]))
        if kind[0] == "m":
            own = mask_bits(sample.types[0]) if sample.types else self.rng.choice((8, 16, 32))
            return MaskType(int(kind[1:]) if kind[1:] else own)
        return ScalarType({"i16": I16, "i32": I32}[kind])

    def add(self, sample: MicroSample, values: Sequence[Value]) -> None:
        """Results are there for further operations; those that are not exact are shown and not used."""
        for value in values:
            if isinstance(value.type, VRegType):
                if sample.operation.ulp:
                    self.keep(self, value, sample.operation.ulp)
                else:
                    self.pool.registers.append(value)
            elif isinstance(value.type, MaskType):
                self.pool.masks.append(value)

    # -- memory ---------------------------------------------------------------------------------------

    def call(
        self,
        sample: MicroSample,
        values: Mapping[str, Value],
        results: Sequence[Type],
        attributes: Mapping[str, str | None],
    ) -> MicroCall:
        """What the declaration's functions of places see."""
        outputs = tuple(Value("r", t) for t in results)
        present = {n: v for n, v in attributes.items() if v is not None}
        return sample.operation.call(
            Op(sample.name, tuple(values.values()), results=outputs, attributes=attrs(present))
        )

    def placed(
        self,
        sample: MicroSample,
        place: Place,
        call: MicroCall,
        values: dict[str, Value],
        numbers: Mapping[str, int | None],
        *,
        moves: bool,
    ) -> At:
        """Choose a pointer and an offset for a place; returns where the pointer moves to."""
        size = place.span(call, numbers)
        assert size is not None, sample.name
        base = self.base(self.pointer_type(sample))
        bytes_of = base.dtype.storage_bits // 8
        unit = place.unit(call) if callable(place.unit) else place.unit or bytes_of
        step = max(1, place.aligned(call) // unit)
        aligned = max(place.aligned(call), 1)
        if base.byte % aligned or base.byte + size > base.area.size:
            base = self.base(self.pointer_type(sample), moved=False)
        most = (base.area.size - size - base.byte) // unit // step
        units = step * self.rng.randint(0, max(0, most))
        if place.offset and place.offset == sample.operation.immediate:
            units = min(units, 127)
        values[place.pointer] = base.pointer
        if place.offset:
            values[place.offset] = self.offset(sample, place, units, step, most)
        self.ordered(base.area, write=place.access == "write")
        return At(base.pointer, base.area, base.byte + units * unit)

    def pointer_type(self, sample: MicroSample) -> DType:
        """The element type of the pointer of an access: that of the register, words for what has none."""
        registers = [t.dtype for t in sample.types]
        if registers:
            return storable(registers[0])
        return self.rng.choice((U32, I32) if sample.name in _WORDS else (U8, I32))

    def offset(self, sample: MicroSample, place: Place, units: int, step: int, most: int) -> Value:
        """An offset of some units: a number of the text, or one that execution computes."""
        kinds = dict(
            zip(sample.operation.names, sample.operation.types.replace("->", " ").split(), strict=True)
        )
        if kinds[place.offset] == "i16":
            return self.state.constant(units, I16)
        if place.offset == sample.operation.immediate:
            return self.state.constant(units, I32 if kinds[place.offset] == "i32" else INDEX)
        if kinds[place.offset] == "i32":
            return self.number(units, I32)
        usable = [(c, trips) for c, trips in self.pool.counters if (trips - 1) <= most]
        if usable and units // step >= usable[-1][1] - 1:
            counter, trips = usable[-1]
            by, first = self.state.constant(step), self.state.constant(units - step * (trips - 1))
            (scaled,) = self.emit("arith.muli", (counter, by), (ScalarType(INDEX),))
            (moved,) = self.emit("arith.addi", (scaled, first), (ScalarType(INDEX),))
            return moved
        return self.index(units)

    def base(self, d: DType, *, moved: bool = True) -> At:
        """A pointer of an element type to an area, or one that was moved."""
        fitting = [at for at in self.pool.moved if at.dtype == d]
        if moved and fitting and self.state.chance(0.4):
            return self.rng.choice(fitting)
        area = self.rng.choice(self.areas)
        return At(self.cast(area, d), area)

    def cast(self, area: Area, d: DType) -> Value:
        """The pointer to an area for another element type."""
        if area.dtype == d:
            return area.pointer
        (made,) = self.emit(CASTPTR, (area.pointer,), (PtrType(d, AddressSpace.VEC),))
        return made

    def anywhere(self, d: DType, room: int) -> At:
        """A pointer to any element of an area with some bytes behind it."""
        area = self.rng.choice(self.areas)
        size = d.storage_bits // 8
        at = self.rng.randint(0, (area.size - room) // size)
        (pointer,) = self.emit(ADDPTR, (self.cast(area, d), self.index(at)), (PtrType(d, AddressSpace.VEC),))
        return At(pointer, area, at * size)

    # -- operations whose operands belong together -----------------------------------------------------

    def load(self, t: VRegType) -> Value:
        """A plain load of a register."""
        area = self.rng.choice(self.areas)
        d = storable(t.dtype)
        lanes = 256 // (d.storage_bits // 8)
        at = self.state.constant(lanes * self.rng.randrange(AREA // 256))
        pointer = self.cast(area, d)
        self.ordered(area, write=False)
        (made,) = self.emit("vlds", (pointer, at), (t,))
        self.pool.registers.append(made)
        return made

    def positions(self, sample: MicroSample, *, distinct: bool) -> Value:
        """A register of offsets inside an area: any ones, or one of its own for each lane."""
        value, offsets = sample.types
        width = offsets.dtype.word_bits
        plain = register(element(f"i{width}"), signless=True)
        size = value.dtype.storage_bits // 8
        last = AREA // size - 1 if sample.name not in _BYTES else AREA - 32
        every = self.whole(plain)
        if distinct:
            change, order = self.rng.randrange(plain.lanes), self.rng.choice(("ASC", "DESC"))
            first = self.state.constant(0 if order == "ASC" else plain.lanes - 1, element(f"i{width}"))
            (lanes,) = self.emit("vci", (first,), (plain,), order=order)
            number, name = change, "vxor"
        else:
            lanes, number, name = self.register(plain), last & ~31 if sample.name in _BYTES else last, "vand"
        (limit,) = self.emit("vdup", (self.state.constant(number, element(f"i{width}")), every), (plain,))
        (lanes,) = self.emit(name, (lanes, limit, every), (plain,))
        if offsets != plain:
            (lanes,) = self.emit("vbitcast", (lanes,), (offsets,))
        return lanes

    def gather(self, sample: MicroSample) -> None:
        """A load of elements at offsets of a register."""
        t = sample.register("T")
        offsets = self.positions(sample, distinct=False)
        area = self.rng.choice(self.areas)
        bits = 32 if sample.operation.types.split()[2] == "m32" else mask_bits(sample.register("D"))
        # Registers of 16 bits may be gathered from bytes.
        bytes_of = t.dtype.is_integer and bits == mask_bits(t) == 2 * 8 and self.state.chance(0.4)
        d = element(f"{t.dtype.name[0]}8") if bytes_of else storable(t.dtype)
        pointer, mask = self.cast(area, d), self.mask(bits)
        self.ordered(area, write=False)
        self.add(sample, self.emit(sample.name, (pointer, offsets, mask), (t,)))

    def scatter(self, sample: MicroSample) -> None:
        """A store of lanes to offsets of a register, each of its own."""
        value, offsets = self.register(sample.register("T")), self.positions(sample, distinct=True)
        area = self.rng.choice(self.areas)
        pointer = self.cast(area, storable(sample.register("T").dtype))
        mask = self.mask(mask_bits(sample.register("D")))
        self.ordered(area, write=True)
        self.emit(sample.name, (value, pointer, offsets, mask))

    def loads(self, sample: MicroSample) -> None:
        """A stream of unaligned loads."""
        t = sample.register("T") if "T" in sample.letters else register(element("f32"))
        count, moves = self.rng.randint(1, 3), self.state.chance(0.6)
        d = storable(t.dtype)
        at = self.anywhere(d, 256 * count)
        self.ordered(at.area, write=False)
        pointer = at.pointer
        (align,) = self.emit("vldas", (pointer,), (AlignType(),))
        for _ in range(count if moves else 1):
            more = [self.index(t.lanes)] if moves else []
            results = [t, AlignType(), *([pointer.type] if moves else [])]
            values = tuple(Value(self.state.name("v"), r) for r in results)
            ins = (pointer, align, *more)
            groups = tuple((n, 1) for n in ("base", "align", "increment")[: len(ins)])
            self.state.emit(Op("vldus", ins, results=values, groups=groups))
            self.pool.registers.append(values[0])
            align, pointer = values[1], values[-1] if moves else pointer

    def stores(self, sample: MicroSample) -> None:
        """A stream of unaligned stores, and its end."""
        t = sample.register("T") if "T" in sample.letters else register(element("f32"))
        steps = [self.rng.randint(0, t.lanes) for _ in range(self.rng.randint(1, 3))]
        d = storable(t.dtype)
        values = [self.register(t) for _ in steps]
        counts = [self.number(n, I32) for n in steps]
        at = self.anywhere(d, 256 * len(steps))
        self.ordered(at.area, write=True)
        pointer, (align,) = at.pointer, self.emit("init_align", (), (AlignType(),))
        moves = len(steps) > 1 or self.state.chance(0.5)
        for value, count in zip(values, counts, strict=True):
            results = [AlignType(), *([pointer.type] if moves else [])]
            outputs = self.emit("vstus", (align, count, value, pointer), results)
            align, pointer = outputs[0], outputs[-1] if moves else pointer
        self.flush(align, pointer)

    def flush(self, align: Value, pointer: Value) -> None:
        """The end of a stream of stores."""
        if self.state.chance(0.5):
            self.emit("vstar", (align, pointer))
        else:
            self.emit("vstas", (align, pointer, self.state.constant(0, I32)))

    def squeezed(self, sample: MicroSample) -> None:
        """Active lanes moved to the front and stored, one or two times, at the address register."""
        t = sample.register("T") if "T" in sample.letters else register(element("f32"))
        at = self.anywhere(storable(t.dtype), 512)
        self.emit("sprclr", spr="AR")
        self.ordered(at.area, write=True)
        (align,) = self.emit("init_align", (), (AlignType(),))
        for _ in range(self.rng.randint(1, 2)):
            value, mask = self.register(t), self.mask(mask_bits(t))
            (result,) = self.emit("vsqz", (value, mask), (t,))
            self.pool.registers.append(result)
            mode = self.rng.choice(("NO_POST_UPDATE", "POST_UPDATE"))
            (align,) = self.emit("vstur", (align, result, at.pointer), (AlignType(),), mode=mode)
        self.emit("vstar", (align, at.pointer))

    def mask_stream(self, sample: MicroSample) -> None:
        """A stream of masks, one bit per lane."""
        bits = self.rng.choice((8, 16, 32))
        at = self.anywhere(self.rng.choice([d for d in (U16, U32) if bits in (8, d.bits)]), 64)
        masks = [self.mask(bits) for _ in range(self.rng.randint(1, 2))]
        self.ordered(at.area, write=True)
        pointer, (align,) = at.pointer, self.emit("init_align", (), (AlignType(),))
        for mask in masks:
            align, pointer = self.emit("pstu", (align, mask, pointer), (AlignType(), pointer.type))
        self.flush(align, pointer)

    def repacked(self, sample: MicroSample) -> None:
        """A mask that becomes one of another width: of the next one, where it is packed."""
        source, target = self.rng.sample((8, 16, 32), 2)
        if sample.name in _NEXT_WIDTH:
            target = _NEXT_WIDTH[sample.name].get(source, source) if self.state.chance(0.8) else source
        self.pool.masks += self.emit(
            sample.name, (self.mask(source),), (MaskType(target),), **self.attributes(sample)
        )

    def duplicated(self, sample: MicroSample) -> None:
        """A scalar in every active lane, or a lane of a register."""
        (t,) = sample.types
        source = self.scalar_or_register(sample)
        attributes = self.attributes(sample) if isinstance(source.type, VRegType) else {}
        mask = self.mask(mask_bits(t))
        self.add(sample, self.emit(sample.name, (source, mask), (t,), **attributes))

    def summed(self, sample: MicroSample) -> None:
        """A sum of lanes, most of floats below 2, so that it is finite and rounded."""
        t = sample.register("T")
        value = self.register(t)
        if t.dtype.is_float and self.state.chance(0.7):
            value = self.below_two(value, t)
        results = [sample.register("D" if "D" in sample.letters else "T")]
        self.add(sample, self.emit(sample.name, (value, self.mask(mask_bits(t))), results))

    def below_two(self, value: Value, t: VRegType) -> Value:
        """The lanes without the highest bit of the exponent."""
        plain = register(element(f"i{t.dtype.bits}"))
        every = self.whole(t)
        kept = self.state.constant(-1 - (1 << t.dtype.bits - 2), element(f"i{t.dtype.bits}"))
        (limit,) = self.emit("vdup", (kept, every), (plain,))
        (bits,) = self.emit("vbitcast", (value,), (plain,))
        (bits,) = self.emit("vand", (bits, limit, every), (plain,))
        (cast,) = self.emit("vbitcast", (bits,), (t,))
        return cast

    def shifted(self, sample: MicroSample) -> None:
        """A shift by lanes, whose counts are mostly below the width."""
        value, counts = (self.register(t) for t in sample.types)
        t = sample.types[1]
        if self.state.chance(0.8):
            every = self.whole(t)
            most = self.state.constant(t.dtype.bits - 1, t.dtype)
            (limit,) = self.emit("vdup", (most, every), (t,))
            (counts,) = self.emit("vand", (counts, limit, every), (t,))
        mask = self.mask(mask_bits(sample.types[0]))
        self.add(sample, self.emit(sample.name, (value, counts, mask), (sample.types[0],)))

    # -- control --------------------------------------------------------------------------------------

    def loop(self, body: Callable[[], None]) -> None:
        """A loop that carries registers and a mask."""
        trips = self.rng.randint(1, 3)
        carried = [self.rng.choice(self.pool.registers) for _ in range(self.rng.randint(1, 2))]
        if self.pool.masks and self.state.chance(0.4):
            carried.append(self.rng.choice(self.pool.masks))
        bounds = (self.index(0), self.index(trips), self.index(1))
        self.barrier()
        arguments = tuple(Value(self.state.name("b"), v.type) for v in carried)
        counter = Value(self.state.name("k"), ScalarType(INDEX))
        with self.region(loop=True) as level:
            self.hold(arguments)
            self.pool.counters.append((counter, trips))
            body()
            self.barrier()
            self.state.emit(Op("scf.yield", tuple(map(self.like, carried))))
        results = tuple(Value(self.state.name("v"), v.type) for v in carried)
        groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(carried)))
        region = Region(tuple(level.ops), (counter, *arguments))
        self.state.emit(Op("scf.for", (*bounds, *carried), results=results, groups=groups, regions=(region,)))
        self.hold(results)

    def branch(self, body: Callable[[], None]) -> None:
        """A branch whose arms both give registers."""
        inits = [self.rng.choice(self.pool.registers)]
        condition = self.state.constant(self.state.chance(0.5), I1)
        if self.state.chance(0.7):
            condition = self.state.condition()
        self.barrier()
        arms = []
        for _ in range(2):
            with self.region() as level:
                body()
                self.barrier()
                self.state.emit(Op("scf.yield", tuple(map(self.like, inits))))
            arms.append(Region(tuple(level.ops)))
        results = tuple(Value(self.state.name("v"), v.type) for v in inits)
        self.state.emit(Op("scf.if", (condition,), results=results, regions=tuple(arms)))
        self.hold(results)

    def like(self, value: Value) -> Value:
        """A value of the same type."""
        if isinstance(value.type, VRegType):
            return self.register(value.type)
        assert isinstance(value.type, MaskType)
        return self.mask(value.type.bits)

    def hold(self, values: Sequence[Value]) -> None:
        """Registers and masks that can be used from here on."""
        self.pool.registers += [v for v in values if isinstance(v.type, VRegType)]
        self.pool.masks += [v for v in values if isinstance(v.type, MaskType)]


_BUILT: Mapping[str, Callable[[ScopeWriter, MicroSample], None]] = {
    **dict.fromkeys(("vgather2", "vgather2_bc", "vgatherb"), ScopeWriter.gather),
    "vscatter": ScopeWriter.scatter,
    **dict.fromkeys(("vldas", "vldus"), ScopeWriter.loads),
    **dict.fromkeys(("init_align", "vstus", "vstas", "vstar"), ScopeWriter.stores),
    **dict.fromkeys(("vstur", "sprclr"), ScopeWriter.squeezed),
    "pstu": ScopeWriter.mask_stream,
    **dict.fromkeys(("ppack", "punpack", "pbitcast"), ScopeWriter.repacked),
    **dict.fromkeys(("vshl", "vshr"), ScopeWriter.shifted),
    **dict.fromkeys(("vcadd", "vcgadd", "vcpadd"), ScopeWriter.summed),
    "vdup": ScopeWriter.duplicated,
}
