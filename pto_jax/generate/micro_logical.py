"""Operations on logical registers in generated kernels: any number of lanes, a mask of a bit per lane.

As in :mod:`.micro_scope`, what an operation takes follows from its signature; those whose operands belong
together (groups, positions, memory) are built one by one. A scope has logical registers or physical ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import I16, I32, DType, MaskType, Op, ScalarType, Type, Value, VRegType, attrs
from ..isa import micro_operations
from ..isa.vmi import SIX
from .micro_samples import MicroSample, element
from .micro_scope import AREA, At, ScopeWriter

#: How many lanes the registers of a scope have; some fill no register, some several.
LANES = (1, 4, 8, 12, 24, 64, 100, 128, 256)
#: Those that fill registers of 32 bits.
WHOLE = (64, 128, 256)
#: Lanes of the counts of a histogram.
BINS = (128, 256)
_PREFIX = "vmi."


class LogicalWriter(ScopeWriter):
    """Writes the operations of one scope of logical registers."""

    def lanes(self, most: int = 256) -> int:
        """A number of lanes, mostly one that a register has."""
        there = [v.type.lanes for v in self.pool.registers if isinstance(v.type, VRegType)]
        fitting = [n for n in there if n <= most]
        if fitting and self.state.chance(0.8):
            return self.rng.choice(fitting)
        return self.rng.choice([n for n in LANES if n <= most])

    def of(self, d: DType, lanes: int) -> VRegType:
        """A register type."""
        return VRegType(lanes, d, logical=True)

    def made(
        self, name: str, ins: Mapping[str, Value], results: Sequence[Type], **attributes: str | int | None
    ) -> tuple[Value, ...]:
        """Add an operation with operands by name, of which some may be absent."""
        operation = micro_operations()[name]
        outputs = tuple(Value(self.state.name("v"), t) for t in results)
        groups = tuple((n, 1) for n in ins) if "(?" in operation.syntax else ()
        present = {n: v for n, v in attributes.items() if v is not None}
        op = Op(name, tuple(ins.values()), results=outputs, attributes=attrs(present), groups=groups)
        self.state.emit(op)
        return outputs

    # -- operands -------------------------------------------------------------------------------------

    def register(self, t: VRegType) -> Value:
        """A register of a type: one that there is, by its bits, or a new one from memory."""
        same = [v for v in self.pool.registers if v.type == t]
        if same and self.state.chance(0.8):
            return self.rng.choice(same)
        bits = t.lanes * t.dtype.word_bits
        alike = [v for v in self.pool.registers if _bits(v.type) == bits and v.type != t]
        if alike and self.state.chance(0.7):
            (value,) = self.made("vmi.vinterpret_cast", {"src": self.rng.choice(alike)}, (t,))
            return value
        return self.load(t)

    def flags(self, lanes: int) -> Value:
        """A mask of so many lanes: one that there is, or a new one of a count or a pattern."""
        t = MaskType(0, lanes)
        same = [v for v in self.pool.masks if v.type == t]
        if same and self.state.chance(0.5):
            return self.rng.choice(same)
        mask = self.lane_mask(self.rng.choice(("create_mask", "create_group_mask", "pge")), lanes, {})
        self.pool.masks.append(mask)
        return mask

    def like(self, value: Value) -> Value:
        """A value of the same type."""
        if isinstance(value.type, VRegType):
            return self.register(value.type)
        assert isinstance(value.type, MaskType)
        return self.flags(value.type.lanes)

    def chosen(self, sample: MicroSample) -> dict[str, str | int | None]:
        """Values of the attributes; the mode of inactive lanes may be left out."""
        pair = sample.pair
        if pair is not None:
            return {
                "rounding": self.rng.choice(pair.letters) if pair.letters else None,
                "saturate": self.saturation(sample),
            }
        whole = sample.types and sample.types[0].dtype.is_integer
        words = {n: self.rng.choice(SIX if n == "cmp" and whole else c) for n, c in sample.choices.items()}
        return {n: None if n == "pmode" and self.state.chance(0.5) else v for n, v in words.items()}

    def saturation(self, sample: MicroSample) -> str | None:
        """Whether a conversion saturates: floats to integers always do, others would be undefined."""
        source, target = (sample.register(letter).dtype for letter in "TD")
        if sample.pair is None or not sample.pair.saturates:
            return None
        if source.is_float and target.is_integer:
            return "SAT"
        return "NOSAT" if (source.name, target.name) == ("i32", "i8") else self.rng.choice(("SAT", "NOSAT"))

    # -- operations -----------------------------------------------------------------------------------

    def operation(self, sample: MicroSample) -> None:
        """One operation with operands that fit it."""
        build = _BUILT.get(sample.name.removeprefix(_PREFIX), LogicalWriter.plain)
        build(self, sample)

    def plain(self, sample: MicroSample) -> None:
        """An operation on lanes that its signature describes."""
        operation, lanes = sample.operation, self.lanes()
        if sample.name == "vmi.vmull":
            lanes = self.rng.choice(WHOLE)
        kinds = dict(zip(operation.names, operation.types.replace("->", " ").split(), strict=True))
        optional = {w.removesuffix("?") for w in operation.words[0] if w.endswith("?")}
        ins = {
            name: self.taken(sample, kinds[name], lanes)
            for name in operation.operands
            if name not in optional or self.state.chance(0.6)
        }
        results: list[Type] = [self.typed(sample, kinds[n], lanes) for n in operation.results]
        self.add(sample, self.made(sample.name, ins, results, **self.chosen(sample)))

    def typed(self, sample: MicroSample, kind: str, lanes: int) -> VRegType | MaskType:
        """The type that a word of a signature stands for; masks of registers and of nothing else."""
        return self.of(sample.register(kind).dtype, lanes) if kind in sample.letters else MaskType(0, lanes)

    def taken(self, sample: MicroSample, kind: str, lanes: int) -> Value:
        """A value for a word of a signature."""
        if kind[0] == "s":
            return self.state.scalar(sample.register(kind[1:]).dtype)
        if kind == "i16":
            return self.state.constant(self.rng.randrange(sample.types[0].dtype.bits), I16)
        t = self.typed(sample, kind, lanes)
        return self.register(t) if isinstance(t, VRegType) else self.flags(lanes)

    def bitwise(self, sample: MicroSample) -> None:
        """An operation on the bits of registers, or on masks."""
        lanes, names = self.lanes(), sample.operation.operands[:-1]
        if self.state.chance(0.5):
            ins = {n: self.flags(lanes) for n in names}
            results: list[Type] = [MaskType(0, lanes)]
        else:
            t = self.of(element(self.rng.choice("i8 u16 i32 u32".split())), lanes)
            ins, results = {n: self.register(t) for n in names}, list[Type]([t])
            if self.state.chance(0.6):
                ins["mask"] = self.flags(lanes)
        self.add(sample, self.made(sample.name, ins, results))

    def counted_up(self, sample: MicroSample) -> None:
        """Numbers from a scalar on, in groups or not."""
        (t,), lanes = sample.types, self.lanes()
        groups = self.divisor(lanes)
        attributes = self.chosen(sample) | {"group": groups if groups > 1 else None}
        base = self.state.scalar(t.dtype)
        self.add(sample, self.made(sample.name, {"base": base}, (self.of(t.dtype, lanes),), **attributes))

    def broadcast(self, sample: MicroSample) -> None:
        """A scalar, the only lane, or the lane of each group, in all lanes."""
        t, lanes = sample.types[0], self.lanes()
        groups = self.divisor(lanes)
        value, group = self.register(self.of(t.dtype, groups)), groups
        if sample.operation.types.startswith("-") and self.state.chance(0.4):
            value, group = self.state.scalar(t.dtype), 1
        name = "num_groups" if "group" in sample.name else "group"
        more = {name: group} if group > 1 or name == "num_groups" else {}
        self.add(sample, self.made(sample.name, {"value": value}, (self.of(t.dtype, lanes),), **more))

    def reduced(self, sample: MicroSample) -> None:
        """A number for each group of lanes; most sums of floats are finite."""
        d, lanes = sample.types[0].dtype, self.lanes()
        value = self.register(self.of(d, lanes))
        groups = self.divisor(lanes)
        name = "num_groups" if "group" in sample.name else "group"
        more: dict[str, int] = {name: groups} if groups > 1 or name == "num_groups" else {}
        if d.is_float and "add" in sample.name:
            more["reassoc"] = True
        ins = {"src": value, "mask": self.flags(lanes)}
        result = self.of(sample.register("D").dtype, groups)
        self.add(sample, self.made(sample.name, ins, (result,), **self.chosen(sample), **more))

    def histogram(self, sample: MicroSample) -> None:
        """Counts of the values of bytes."""
        lanes, t = self.lanes(), self.of(sample.register("T").dtype, self.rng.choice(BINS))
        source = self.of(sample.register("U").dtype, lanes)
        ins = {"acc": self.register(t), "src": self.register(source), "mask": self.flags(lanes)}
        self.add(sample, self.made(sample.name, ins, (t,)))

    def interpreted(self, sample: MicroSample) -> None:
        """The bits of a register as elements of another width."""
        source, target = sample.register("T").dtype, sample.register("D").dtype
        lanes = max(1, target.word_bits // source.word_bits) * self.rng.randint(1, 16)
        t = self.of(target, lanes * source.word_bits // target.word_bits)
        value = self.register(self.of(source, lanes))
        self.add(sample, self.made(sample.name, {"src": value}, (t,)))

    def mask_made(self, sample: MicroSample) -> None:
        """A mask of a count, a pattern or a list."""
        name = sample.name.removeprefix(_PREFIX)
        self.pool.masks.append(self.lane_mask(name, self.lanes(), self.chosen(sample)))

    def lane_mask(self, name: str, lanes: int, attributes: dict[str, str | int | None]) -> Value:
        """A mask of so many lanes by an operation, which may have other choices."""
        results: list[Type] = [MaskType(0, lanes)]
        ins = {}
        if name == "constant_mask":
            bits = ", ".join(self.rng.choice(("true", "false")) for _ in range(lanes))
            attributes = {"value": f"dense<[{bits}]> : vector<{lanes}xi1>"}
        elif name == "create_group_mask":
            groups = self.divisor(lanes)
            size = lanes // groups
            ins = {"count": self.index(self.active(size))}
            attributes = {"num_groups": groups, "group_size": size}
        elif name == "pge":
            attributes = {"pattern": f"PAT_VL{self.rng.randint(1, lanes)}"}
        elif name == "plt":
            ins = {"count": self.number(self.active(lanes), I32)}
            results.append(ScalarType(I32))
        elif name == "create_mask":
            ins = {"count": self.index(self.active(lanes))}
        return self.made(_PREFIX + name, ins, results, **attributes)[0]

    def active(self, lanes: int) -> int:
        """How many lanes a mask has active: none, one, all but one, all, more than all, or any number."""
        return self.rng.choice((0, 1, lanes - 1, lanes, lanes + 1, lanes + 9, self.rng.randint(0, lanes)))

    def divisor(self, lanes: int) -> int:
        """A number of groups."""
        return self.rng.choice([n for n in (1, 2, 3, 4, 8, lanes) if lanes % n == 0])

    # -- memory ---------------------------------------------------------------------------------------

    def at(self, d: DType, room: int, *, write: bool) -> tuple[At, Value]:
        """A pointer to elements, and an offset with some bytes behind it."""
        area = self.rng.choice(self.areas)
        size = d.storage_bits // 8
        offset = self.index(self.rng.randint(0, (AREA - room) // size))
        at = At(self.cast(area, d), area)
        self.ordered(area, write=write)
        return at, offset

    def load(self, t: VRegType) -> Value:
        """A load of lanes one after the other."""
        at, offset = self.at(t.dtype, t.lanes * t.dtype.storage_bits // 8, write=False)
        (value,) = self.made("vmi.vload", {"source": at.pointer, "offset": offset}, (t,))
        self.pool.registers.append(value)
        return value

    def spread(self, d: DType, lanes: int) -> tuple[int, dict[str, Value], dict[str, int]]:
        """The bytes of lanes in memory, and the stride of groups or blocks with its attribute."""
        size, block = d.storage_bits // 8, 32 * 8 // d.storage_bits
        groups = self.divisor(lanes)
        each = lanes // groups
        most = (AREA // size - each) // max(1, groups - 1)
        if most >= each and self.state.chance(0.5):
            stride = self.rng.randint(each, min(most, each + 9))
            reach = ((groups - 1) * stride + each) * size
            return reach, {"stride": self.index(stride)}, {"group": groups}
        blocks = -(-lanes // block)
        if lanes % block == 0 and self.state.chance(0.6):
            stride = self.rng.randint(1, max(1, min(3, (AREA // 32 - 1) // max(1, blocks - 1))))
            reach, more = 32 * ((blocks - 1) * stride + 1), {"stride": self.state.constant(stride, I16)}
            repeat = self.rng.randint(0, 2)
            if reach + 32 * repeat <= AREA and self.state.chance(0.5):
                return reach + 32 * repeat, {**more, "repeat": self.state.constant(repeat, I16)}, {}
            return reach, more, {}
        return self.run(d, lanes)

    def run(self, d: DType, lanes: int) -> tuple[int, dict[str, Value], dict[str, int]]:
        """The bytes of lanes one after the other."""
        return lanes * d.storage_bits // 8, {}, {}

    def loaded(self, sample: MicroSample) -> None:
        """A load of lanes, of groups or blocks at a stride, of one element, or of lanes by turns."""
        d, lanes = sample.register("T").dtype, self.lanes()
        plain, parts = sample.name == "vmi.load", 1
        reach, more, attributes = self.run(d, lanes) if plain else self.spread(d, lanes)
        mode: str | None = None
        if not plain and self.state.chance(0.3):
            fits = ["brc"] if more else ["brc", *["dintlv"] * (2 * reach <= AREA), "continuous"]
            mode = self.rng.choice(fits) if attributes or not more else None
        if mode == "dintlv":
            reach, parts = 2 * reach, 2
        at, offset = self.at(d, reach, write=False)
        ins = {"source": at.pointer, "offset": offset, **more}
        values = self.made(sample.name, ins, (self.of(d, lanes),) * parts, **attributes, dist_mode=mode)
        self.add(sample, values)

    def stored(self, sample: MicroSample) -> None:
        """A store of lanes: of the active ones, of groups or blocks at a stride, or by turns."""
        d, lanes = sample.register("T").dtype, self.lanes()
        more: dict[str, Value] = {}
        attributes: dict[str, int] = {}
        reach, _, _ = self.run(d, lanes)
        mode, masked = None, sample.name == "vmi.vsstb"
        if masked:
            block = 32 * 8 // d.storage_bits
            lanes = block * self.rng.randint(1, 8)
            stride = self.rng.randint(1, 3)
            reach = 32 * ((lanes // block - 1) * stride + 1)
            more = {"stride": self.state.constant(stride, I16)}
        elif sample.name == "vmi.vstore" and self.state.chance(0.5):
            reach, more, attributes = self.spread(d, lanes)
            masked = not attributes and self.state.chance(0.5)
        elif sample.name == "vmi.vstore":
            mode = "dintlv" if 2 * reach <= AREA and self.state.chance(0.3) else None
            masked = self.state.chance(0.7)
        values = {"value": self.register(self.of(d, lanes))}
        if mode is not None:
            reach, values["high"] = 2 * reach, self.register(self.of(d, lanes))
        behind = [*more.values(), *([self.flags(lanes)] if masked else [])]
        names = ("stride", "mask") if sample.name == "vmi.vsstb" else ("extra", "repeat", "mask")
        at, offset = self.at(d, reach, write=True)
        ins = {**values, "dest": at.pointer, "offset": offset, **dict(zip(names, behind, strict=False))}
        self.made(sample.name, ins, (), **attributes, dist_mode=mode)

    def indexed(self, sample: MicroSample) -> None:
        """A gather from, or a scatter to, positions inside an area; a scatter has one for each lane."""
        value, offsets = sample.register("T").dtype, sample.register("D").dtype
        scatters, size = sample.name == "vmi.vscatter", value.storage_bits // 8
        lanes = self.lanes(min(256, AREA // size))
        t, positions = self.of(value, lanes), self.positions_in(sample, offsets, lanes)
        area, mask = self.rng.choice(self.areas), self.flags(lanes)
        pointer = self.cast(area, value)
        if scatters:
            ins = {"value": self.register(t), "dest": pointer, "offsets": positions, "mask": mask}
        else:
            ins = {"source": pointer, "offsets": positions, "mask": mask}
        self.ordered(area, write=scatters)
        self.add(sample, self.made(sample.name, ins, () if scatters else (t,)))

    def positions_in(self, sample: MicroSample, d: DType, lanes: int) -> Value:
        """Offsets inside an area: of elements, or of bytes that elements begin at."""
        plain, size = element(f"i{d.bits}"), sample.register("T").dtype.storage_bits // 8
        t = VRegType(lanes, plain, signless=True, logical=True)
        if sample.name == "vmi.vscatter":
            (value,) = self.made("vmi.vci", {"base": self.state.constant(0, plain)}, (t,), order="ASC")
        else:
            last = AREA - size if sample.name == "vmi.vgatherb" else AREA // size - 1
            below = (1 << last.bit_length() - 1) - 1
            kept = below & ~(size - 1) if sample.name == "vmi.vgatherb" else below
            (limit,) = self.made("vmi.vbrc", {"value": self.state.constant(kept, plain)}, (t,))
            (value,) = self.made("vmi.vand", {"lhs": self.register(t), "rhs": limit}, (t,))
        if d != plain:
            (value,) = self.made("vmi.vinterpret_cast", {"src": value}, (self.of(d, lanes),))
        return value


def _bits(t: Type) -> int:
    return t.lanes * t.dtype.word_bits if isinstance(t, VRegType) else 0


_BUILT: Mapping[str, Callable[[LogicalWriter, MicroSample], None]] = {
    **dict.fromkeys(("vand", "vor", "vxor", "vnot"), LogicalWriter.bitwise),
    "vci": LogicalWriter.counted_up,
    **dict.fromkeys(("vbrc", "group_broadcast"), LogicalWriter.broadcast),
    **dict.fromkeys(("vcadd", "vcmax", "vcmin"), LogicalWriter.reduced),
    **{f"group_reduce_{n}": LogicalWriter.reduced for n in ("addf", "addi", "maxf", "maxi", "minf", "mini")},
    **dict.fromkeys(("vdhist", "vchist"), LogicalWriter.histogram),
    "vinterpret_cast": LogicalWriter.interpreted,
    **dict.fromkeys(
        ("create_mask", "constant_mask", "create_group_mask", "pset", "pge", "plt"), LogicalWriter.mask_made
    ),
    **dict.fromkeys(("vload", "load"), LogicalWriter.loaded),
    **dict.fromkeys(("vstore", "store", "vsstb"), LogicalWriter.stored),
    **dict.fromkeys(("vgather", "vgatherb", "vscatter"), LogicalWriter.indexed),
}
