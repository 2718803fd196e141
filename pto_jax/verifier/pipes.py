"""Rules on pipes across operations and functions: positions, agreement of both sides, halves, slots."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .. import ir
from ..analysis.pipes import End, buffers_of, ends, number_of
from ..errors import Diagnostic
from ..ir import Function, KernelKind, Op, Program, Symbol, TensorViewType, TileType, Value
from ..isa import effects, sync_handles
from ..isa.effects import traits_in, traits_of
from ..isa.traits import Fifo
from ..profiles import Profile

#: Splits of an odd number of rows and of columns.
_ODD = (3, 4)


def entry_findings(end: End, uses: list[Op], profile: Profile) -> Iterator[Diagnostic]:
    """What is wrong with the operations that go through an end of a pipe."""
    for op in uses:
        entry = _entry(op, end)
        if isinstance(entry.type if entry else None, TensorViewType):
            yield from _view(end, op, entry)
        if op.attrs.get("split") in _ODD:
            yield from (_odd if end.core is not None else _odd_handle)(end, op, entry, profile)
        if end.core is None:
            continue
        if traits_of(op).fifo == "push" and end.core is KernelKind.CUBE:
            yield from _parity(op, entry)


def _entry(op: Op, end: End) -> Value | None:
    """The tile or view that an operation pushes, gets or frees."""
    handles = {v.name for v in end.op.results}
    values = [v for v in (*op.results, *op.ins) if v.name not in handles]
    return next((v for v in values if isinstance(v.type, TileType | TensorViewType)), None)


def _odd(end: End, op: Op, entry: Value | None, profile: Profile) -> Iterator[Diagnostic]:
    split, names = op.attrs["split"], [name for name, size in end.op.groups if size]
    memory = "gm_slot_tensor" in names or (profile.name != "a5" and "gm_slot_buffer" in names)
    if end.mask != 1 or not memory or "c2v_consumer_buf" not in names:
        yield op.error(
            "pipe-odd",
            f"split = {split} on a pipe of dir_mask = {end.mask} with {', '.join(names) or 'no slots'}; "
            "allowed: dir_mask = 1, c2v_consumer_buf, and gm_slot_tensor (gm_slot_buffer on a2a3)",
        )
    if entry is not None and isinstance(entry.type, TensorViewType):
        yield op.error("pipe-odd", f"split = {split} of a view; allowed: of a tile", entry)
    elif traits_of(op).fifo == "pop" and not op.group("valid_row"):
        yield op.error(
            "pipe-odd", f"split = {split} without valid_row and valid_col; allowed: those of the core's part"
        )


def _odd_handle(end: End, op: Op, entry: Value | None, profile: Profile) -> Iterator[Diagnostic]:
    if end.mask != 1 or not (end.op.group("gm_addr") and end.op.group("local_addr")):
        yield op.error(
            "pipe-odd",
            f"split = {op.attrs['split']} on a pipe of dir_mask = {end.mask} made by {end.op.name}; allowed: "
            "dir_mask = 1, with slots in global and in local memory",
        )


def _parity(op: Op, entry: Value | None) -> Iterator[Diagnostic]:
    """Halves are those of an even number where the split says so, and of an odd one where it says that."""
    split = op.attrs.get("split", 0)
    if not isinstance(split, int) or not 1 <= split <= 4 or entry is None:
        return
    t, axis = entry.type, (split - 1) % 2
    sizes = t.valid if isinstance(t, TileType) else t.dims if isinstance(t, TensorViewType) else ()
    size = sizes[axis] if len(sizes) == 2 else None
    if size is not None and (size % 2 == 1) != (split in _ODD):
        what = ("rows", "columns")[axis]
        other = split + 2 if split < 3 else split - 2
        yield op.error(
            "pipe-parity",
            f"split = {split} of {size} valid {what}; allowed: an {'odd' if split in _ODD else 'even'} "
            f"number of {what}; try: split = {other}",
            entry,
        )


def _view(end: End, op: Op, entry: Value | None) -> Iterator[Diagnostic]:
    """A slot in global memory has the element type and the extents of the view that describes slots."""
    assert entry is not None
    assert isinstance(entry.type, TensorViewType)
    memory = end.memory
    if end.core is not None and (memory is None or memory.type == entry.type):
        if memory is None:
            message = f"{entry} is a view, and id = {end.number} has no gm_slot_tensor; allowed: a tile"
            yield op.error("pipe-slot", message, entry)
        return
    slot = memory.type if memory is not None else None
    if not isinstance(slot, TensorViewType) or (end.core is None and op.attrs.get("split", 0) != 0):
        return
    if slot.dtype != entry.type.dtype or len(slot.dims) != len(entry.type.dims):
        yield op.error("pipe-slot", f"{entry} is {entry.type}; allowed: {slot} as gm_slot_tensor", entry)
        return
    for axis, (have, want) in enumerate(zip(entry.type.dims, slot.dims, strict=True)):
        if None not in (have, want) and have != want:
            yield op.error(
                "pipe-slot",
                f"dimension {axis} of {entry} has {have}; allowed: {want}, that of gm_slot_tensor",
                entry,
            )


#: What a program does with a pipe that it has initialised.
USES: tuple[Fifo, ...] = ("allocate", "push", "pop", "free")
_BUFFERS: tuple[Fifo, ...] = ("reserve", "import")
#: Flags of a core that pipes take in pairs, one pair for each direction.
_FLAGS = 16


@dataclass
class _Side:
    """What one function does with pipes."""

    function: Function
    ends: list[End]
    ops: list[tuple[Op, KernelKind | None]] = field(default_factory=list)
    #: Buffers as (owner, name), by the name of the value that is their address.
    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)

    def having(self, *uses: Fifo) -> list[Op]:
        """The operations that use pipes or their buffers in one of these ways."""
        return [op for op, _ in self.ops if traits_of(op).fifo in uses]

    def of(self, end: End) -> list[Op]:
        """The operations that go through an end: those of its number, or of its handle."""
        uses = self.having(*USES)
        if end.core is not None:
            return [op for op in uses if traits_of(op).core == end.core and number_of(op) == end.number]
        handles = {v.name for v in end.op.results}
        return [op for op in uses if any(v.name in handles for v in op.ins)]


#: Ends of one pipe, each with its function.
_Pipe = list[tuple[_Side, End]]


def pipe_findings(program: Program, profile: Profile) -> Iterator[Diagnostic]:
    """What is wrong with the pipes of a program; nothing for a fragment, which is no whole function."""
    if program.fragment:
        return
    using = (f for f in program.functions if any(traits.fifo for traits in traits_in(f)))
    sides = {f.name: _side(f) for f in using}
    for side in sides.values():
        yield from _places(side)
        yield from _once(side)
        yield from _numbers(side)
        yield from _flags(side)
        yield from _addresses(side)
        yield from scale_findings(side.function, side.ends)
        for end in side.ends:
            yield from entry_findings(end, side.of(end), profile)
    peers = [finding for side in sides.values() for finding in _imports(side, sides)]
    yield from peers
    complete = not peers and all(end.mask in (1, 2, 3) for side in sides.values() for end in side.ends)
    for pipe in _pipes(sides):
        if complete:
            yield from _pairs(pipe)
        yield from _shapes(pipe)
        yield from _splits(pipe)
        yield from epilogue_findings([(end, side.function, side.of(end)) for side, end in pipe])


def _side(function: Function) -> _Side:
    side = _Side(function, ends(function), buffers=buffers_of(function))
    kind = function.attrs.get("pto.kernel_kind")
    _collect(function.body.ops, kind if isinstance(kind, KernelKind) else None, side)
    return side


def _collect(ops: tuple[Op, ...], kind: KernelKind | None, side: _Side) -> None:
    for op in ops:
        traits = traits_of(op)
        if traits.fifo in ("initialise", *USES, *_BUFFERS):
            side.ops.append((op, kind))
        for region in op.regions:
            _collect(region.ops, kind if traits.core is None else traits.core, side)


def _places(side: _Side) -> Iterator[Diagnostic]:
    """Each core's operations stand in its functions."""
    for op, kind in side.ops:
        traits = traits_of(op)
        expected = traits.core
        if expected is not None and kind != expected:
            where = "no kernel" if kind is None else f"a {kind.name.lower()} kernel"
            yield op.error("pipe-kernel", f"in {where}; allowed: in a {expected.name.lower()} kernel")
        if expected is None and traits.fifo in USES and kind is None:
            yield op.error("pipe-kernel", "in no kernel; allowed: in a cube or vector kernel or section")


def _once(side: _Side) -> Iterator[Diagnostic]:
    """Pipes of a core have different numbers, buffers of a function different names."""
    seen: set[tuple[object, ...]] = set()
    for op in side.having("initialise", *_BUFFERS):
        fifo, core = traits_of(op).fifo, traits_of(op).core
        if fifo == "initialise":
            if core is None:
                continue
            key: tuple[object, ...] = (core, number_of(op))
            what = f"the pipe with id = {number_of(op)}"
        else:
            peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
            key = (fifo, peer, name)
            what = f'"{name}"' + (f" of @{peer.name}" if isinstance(peer, Symbol) else "")
        if key in seen:
            yield op.error("pipe-once", f"{what} a second time in @{side.function.name}; allowed: each once")
        seen.add(key)


def _numbers(side: _Side) -> Iterator[Diagnostic]:
    """A push, pop or free names a pipe of its function that was set up before, in its direction."""
    there: list[End] = []
    for op, _ in side.ops:
        traits = traits_of(op)
        there += [end for end in side.ends if end.op is op]
        if traits.core is None or traits.fifo not in USES:
            continue
        end = next((e for e in there if e.core == traits.core and e.number == number_of(op)), None)
        if end is None:
            numbers = ", ".join(str(e.number) for e in there if e.core == traits.core) or "none"
            core = "aic" if traits.core is KernelKind.CUBE else "aiv"
            message = (
                f"id = {number_of(op)}, but no pipe of that id was initialised before it in "
                f"@{side.function.name}; allowed: {numbers}; try: pto.{core}_initialize_pipe with this id"
            )
            yield op.error("pipe-id", message)
            continue
        bit = direction(op)
        if end.mask in (1, 2, 3) and not end.mask & bit:
            way = "from the cube to the vector cores" if bit == 1 else "from the vector cores to the cube"
            message = f"id = {end.number} has dir_mask = {end.mask}; allowed {way}: dir_mask = {bit} or 3"
            yield op.error("pipe-direction", message)


def direction(op: Op) -> int:
    """The bit of ``dir_mask`` of an operation: 1 from the cube core to the vector cores, 2 back."""
    cube, produces = traits_of(op).core is KernelKind.CUBE, traits_of(op).fifo in ("allocate", "push")
    return 1 if cube == produces else 2


def _flags(side: _Side) -> Iterator[Diagnostic]:
    """The pipes of a core have two flags for each of their directions."""
    for core in (*KernelKind, None):
        count = 0
        for end in (e for e in side.ends if e.core == core):
            count += 4 if end.mask == 3 else 2
            if count > _FLAGS:
                message = (
                    f"the pipes of @{side.function.name} need more than {_FLAGS} flags with this one; "
                    f"allowed: {_FLAGS}, 2 for a pipe of one direction and 4 for one with dir_mask = 3"
                )
                yield end.op.error("pipe-flags", message)
                break


def _imports(side: _Side, sides: Mapping[str, _Side]) -> Iterator[Diagnostic]:
    for op in side.having("import"):
        peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
        if not isinstance(peer, Symbol):
            continue
        other = sides.get(peer.name)
        reserved = [o.attrs.get("name") for o in other.having("reserve")] if other else []
        if name not in reserved:
            buffers = ", ".join(f'"{r}"' for r in reserved) or "nothing"
            yield op.error(
                "pipe-peer", f'"{name}" of @{peer.name}, which reserves {buffers}; allowed: its buffers'
            )


def _addresses(side: _Side) -> Iterator[Diagnostic]:
    """Flags are assigned by buffer; without one they have to be given."""
    for end in side.ends:
        local = end.core is None and (end.op.group("local_addr") or not end.op.groups)
        if local and end.op.attrs.get("flag_base") is None and not end.buffers:
            yield end.op.error(
                "pipe-buffer",
                "local_addr is no reserved buffer and flag_base is missing; allowed: an address from "
                "reserve_buffer or import_reserved_buffer, or flag_base = N",
            )


def _pipes(sides: Mapping[str, _Side]) -> Iterator[_Pipe]:
    """The pipes of a program: ends that one of their directions connects."""
    left: _Pipe = [(side, end) for side in sides.values() for end in side.ends]
    while left:
        pipe, grown = [left.pop(0)], True
        while grown:
            keys = {k for _, end in pipe for k in _keys(end)}
            joined = [one for one in left if keys & set(_keys(one[1]))]
            pipe += joined
            left = [one for one in left if not any(one is j for j in joined)]
            grown = bool(joined)
        yield pipe


def _keys(end: End) -> list[tuple[object, ...]]:
    """What an end is known by in each of its directions."""
    keys: list[tuple[object, ...]] = [
        (bit, end.buffers[bit]) for bit in (1, 2) if end.mask & bit and bit in end.buffers
    ]
    local = any(name.endswith("consumer_buf") for name, _ in end.op.groups)
    if end.core is not None and not local:
        keys.append((end.mask, "slots", end.number))
    return keys


def _pairs(pipe: _Pipe) -> Iterator[Diagnostic]:
    """A pipe over a reserved buffer is initialised on both of its sides."""
    for side, end in pipe:
        for bit, buffer in end.buffers.items():
            others = (o for s, o in pipe if (o is not end and s is not side) or o.core != end.core)
            if end.mask & bit and not any(o.buffers.get(bit) == buffer for o in others):
                yield end.op.error(
                    "pipe-pair",
                    f'only @{side.function.name} initialises the pipe of "{buffer[1]}"; allowed: both sides',
                )


def _shapes(pipe: _Pipe) -> Iterator[Diagnostic]:
    """Both sides of a pipe have the same directions and slots."""
    first = pipe[0][1]
    for _, end in pipe[1:]:
        for key in ("dir_mask", "slot_size", "slot_num"):
            here, there = end.op.attrs.get(key), first.op.attrs.get(key)
            if here != there and end.function != first.function:
                texts = ["the default" if n is None else str(n) for n in (here, there)]
                yield end.op.error(
                    "pipe-shape",
                    f"{key} is {texts[0]}, and {texts[1]} at the other end in @{first.function}; allowed: "
                    "equal ones",
                )


def _splits(pipe: _Pipe) -> Iterator[Diagnostic]:
    """One pipe is used whole by all its operations, or in halves by all of them."""
    uses = [op for side, end in pipe for op in side.of(end)]
    whole = [op for op in uses if op.attrs.get("split", 0) == 0]
    halves = [op for op in uses if op.attrs.get("split", 0) != 0]
    if whole and halves:
        yield halves[0].error(
            "pipe-split",
            f"split {halves[0].attrs['split']} here, split 0 at {whole[0].name} of the same pipe; allowed: "
            "split 0 everywhere or nowhere",
        )
    for _, end in pipe:
        nosplit = end.op.attrs.get("nosplit")
        clash = whole if nosplit is False else halves if nosplit is True else []
        if clash:
            used, written = clash[0].attrs.get("split", 0), str(nosplit).lower()
            got = f"nosplit = {written} and split {used} at {clash[0].name}"
            yield end.op.error("pipe-split", f"{got}; allowed: nosplit = {str(not nosplit).lower()} or none")
    settings = [(end, end.op.attrs.get("nosplit")) for _, end in pipe if "nosplit" in end.op.attrs]
    for end, nosplit in settings[1:]:
        if nosplit != settings[0][1]:
            yield end.op.error(
                "pipe-split",
                f"nosplit = {str(nosplit).lower()}, and {str(settings[0][1]).lower()} at the other end; "
                "allowed: the same at both ends",
            )


# -- accumulators on their way through a pipe --------------------------------------------------------

_BYTES, _BYTE = ("i8", "u8"), ("i8",)
#: Element types of accumulators and of what they become, by conversion; theirs where none is named.
_TYPES: dict[ir.PushQuant, tuple[tuple[str, ...], tuple[str, ...]]] = {
    ir.PushQuant.NO_CONVERT: (("f32", "i32"), ()),
    ir.PushQuant.F32_F16: (("f32",), ("f16",)),
    ir.PushQuant.F32_BF16: (("f32",), ("bf16",)),
    ir.PushQuant.REQ8_SCALAR: (("i32",), _BYTES),
    ir.PushQuant.REQ8_VEC: (("i32",), _BYTE),
    ir.PushQuant.DEQF16_SCALAR: (("i32",), ("f16",)),
    ir.PushQuant.DEQF16_VEC: (("i32",), ("f16",)),
    ir.PushQuant.QF322B8_PRE_SCALAR: (("f32",), _BYTES),
    ir.PushQuant.QF322B8_PRE_VEC: (("f32",), _BYTE),
    ir.PushQuant.QF322F16_PRE_SCALAR: (("f32",), ("f16",)),
    ir.PushQuant.QF322BF16_PRE_SCALAR: (("f32",), ("bf16",)),
    ir.PushQuant.QS322BF16_PRE_SCALAR: (("i32",), ("bf16",)),
    ir.PushQuant.QS322BF16_PRE_VEC: (("i32",), ("bf16",)),
    ir.PushQuant.QF322HIF8_PRE_SCALAR: (("f32",), ("hif8",)),
    ir.PushQuant.QF322FP8_PRE_SCALAR: (("f32",), ("f8e4m3",)),
}
#: The instructions that set scales, by the ending of the conversions that use them.
_SCALES = {"_SCALAR": sync_handles.SET_QUANT_SCALAR, "_VEC": sync_handles.SET_QUANT_VECTOR}
_LAYOUTS = {
    ir.PushLayout.NZ2ND: (ir.BLayout.ROW_MAJOR, ir.SLayout.NONE_BOX),
    ir.PushLayout.NZ2DN: (ir.BLayout.COL_MAJOR, ir.SLayout.NONE_BOX),
    ir.PushLayout.NZ2NZ: (ir.BLayout.COL_MAJOR, ir.SLayout.ROW_MAJOR),
}


@dataclass(frozen=True)
class _End:
    """One end of a converting pipe with what goes through it."""

    end: End
    function: ir.Function
    uses: list[ir.Op]

    @property
    def epilogue(self) -> ir.AccPushEpilogue | None:
        """What is done to accumulators here."""
        value = self.end.op.attrs.get("acc_push_epilogue")
        return value if isinstance(value, ir.AccPushEpilogue) else None

    def named(self, *kinds: str) -> list[ir.Op]:
        """The operations of these kinds that go through the end."""
        return [op for op in self.uses if effects.traits_of(op).fifo in kinds]


def epilogue_findings(pipe: Sequence[tuple[End, ir.Function, list[ir.Op]]]) -> Iterator[Diagnostic]:
    """What is wrong with a pipe that converts accumulators; nothing for others."""
    sides = [_End(*one) for one in pipe]
    epilogues = [s.epilogue for s in sides if s.epilogue is not None]
    if not epilogues:
        return
    producers = [s for s in sides if s.end.core is ir.KernelKind.CUBE]
    consumers = [s for s in sides if s.end.core is ir.KernelKind.VECTOR]
    for side in sides:
        yield from _whole(side)
    for producer in producers:
        yield from _ends(producer, consumers)
        yield from _scales(producer)
        for push in producer.named("push"):
            yield from _source(producer, push)
    for consumer in consumers:
        yield from _results(consumer, producers)


def _error(op: ir.Op, message: str, value: ir.Value | None = None) -> Diagnostic:
    return op.error("pipe-epilogue", message, value)


def _whole(side: _End) -> Iterator[Diagnostic]:
    for op in side.uses:
        if side.epilogue is not None and op.attrs.get("split", 0) != 0:
            yield _error(op, f"split = {op.attrs['split']} on a pipe with acc_push_epilogue; allowed: 0")


def _ends(producer: _End, consumers: list[_End]) -> Iterator[Diagnostic]:
    """The consumer is known by the name of its buffer, and says the same."""
    if 1 not in producer.end.buffers:
        yield _unreserved(producer)
        return
    if not consumers:
        yield _error(
            producer.end.op,
            f'no vector kernel initialises the pipe of "{producer.end.buffers[1][1]}"; allowed with '
            "acc_push_epilogue: the same epilogue at both ends",
        )
    for consumer in consumers:
        if consumer.epilogue != producer.epilogue:
            here, there = (_shown(s.epilogue) for s in (producer, consumer))
            yield _error(
                producer.end.op,
                f"acc_push_epilogue is {here}, and {there} at the other end in @{consumer.function.name}; "
                "allowed: the same at both ends",
            )


def _unreserved(side: _End) -> Diagnostic:
    return _error(
        side.end.op,
        "c2v_consumer_buf is no reserved buffer; allowed with acc_push_epilogue: an address from "
        "import_reserved_buffer or reserve_buffer",
    )


def _shown(epilogue: ir.AccPushEpilogue | None) -> str:
    if epilogue is None:
        return "missing"
    return ", ".join(f"{key} = {v.name.lower()}" for key, v in epilogue._asdict().items())


def _source(side: _End, push: ir.Op) -> Iterator[Diagnostic]:
    tile = push.ins[0]
    if side.epilogue is None:
        return
    if not isinstance(tile.type, ir.TileType) or tile.type.loc is not ir.Loc.ACC:
        yield _error(push, f"{tile} is {tile.type}; allowed with acc_push_epilogue: an acc tile", tile)
        return
    allowed = _TYPES[side.epilogue.quant][0]
    if tile.type.dtype.name not in allowed:
        quant = side.epilogue.quant.name.lower()
        yield _error(
            push,
            f"{tile} has element type {tile.type.dtype}; allowed with {quant}: {', '.join(allowed)}",
            tile,
        )


def _scales(side: _End) -> Iterator[Diagnostic]:
    """Quantising pushes follow the instruction that sets their scale, in the same block."""
    kind = _scale_kind(side.epilogue)
    if not kind:
        return
    for region in _regions(side.function.body):
        scaled = False
        for op in region.ops:
            scaled = scaled or (op.name == kind and number_of(op) == side.end.number)
            pushes = effects.traits_of(op).fifo == "push" and number_of(op) == side.end.number
            if pushes and effects.traits_of(op).core is ir.KernelKind.CUBE and not scaled:
                yield _error(
                    op,
                    f"no {kind} with id = {side.end.number} before it in its block; allowed: one that sets "
                    "the scale",
                )


def _scale_kind(epilogue: ir.AccPushEpilogue | None) -> str:
    """The instruction that sets the scale of a conversion, "" where it has none."""
    quant = epilogue.quant.name if epilogue is not None else ""
    for ending, name in _SCALES.items():
        if quant.endswith(ending):
            return name
    return ""


def _regions(region: ir.Region) -> Iterator[ir.Region]:
    yield region
    for op in region.ops:
        for inner in op.regions:
            yield from _regions(inner)


def _results(consumer: _End, producers: list[_End]) -> Iterator[Diagnostic]:
    """At least one tile comes out, all of one type, which is that of the conversion."""
    pops = consumer.named("pop")
    if 1 not in consumer.end.buffers:
        yield _unreserved(consumer)
    elif not pops:
        yield _error(
            consumer.end.op, "nothing pops from the pipe; allowed with acc_push_epilogue: one pop or more"
        )
    first = next((op.results[0].type for op in pops if op.results), None)
    for pop in pops:
        result = pop.results[0] if pop.results else None
        if result is None or consumer.epilogue is None:
            continue
        t = result.type
        if not isinstance(t, ir.TileType):
            yield _error(pop, f"{result} is {t}; allowed with acc_push_epilogue: a tile", result)
            continue
        if t != first:
            yield _error(pop, f"{result} is {t}; allowed: {first} as of the first pop", result)
            return
    for pop in pops:
        result = pop.results[0] if pop.results else None
        if result is None or consumer.epilogue is None or not isinstance(result.type, ir.TileType):
            continue
        yield from _fits(pop, result, result.type, consumer, producers)


def _fits(
    pop: ir.Op, result: ir.Value, t: ir.TileType, consumer: _End, producers: list[_End]
) -> Iterator[Diagnostic]:
    epilogue, size = consumer.epilogue, consumer.end.op.attrs.get("slot_size")
    assert epilogue is not None
    pushed = [op.ins[0].type for p in producers for op in p.named("push")]
    sources = {p.dtype.name for p in pushed if isinstance(p, ir.TileType)}
    allowed = _TYPES[epilogue.quant][1] or tuple(sorted(sources))
    if allowed and t.dtype.name not in allowed:
        quant = epilogue.quant.name.lower()
        yield _error(
            pop, f"{result} has element type {t.dtype}; allowed with {quant}: {', '.join(allowed)}", result
        )
        return
    expected = _LAYOUTS[epilogue.layout]
    if (t.blayout, t.slayout) != expected:
        words = " and ".join(w.name.lower() for w in expected)
        layout = epilogue.layout.name.lower()
        yield _error(
            pop,
            f"{result} is {t.blayout.name.lower()} and {t.slayout.name.lower()}; allowed with {layout}: "
            f"{words}",
            result,
        )
    elif isinstance(size, int) and size < t.bytes:
        yield _error(
            consumer.end.op,
            f"slot_size is {size}, and {result} has {t.bytes} bytes; allowed with acc_push_epilogue: at "
            "least those of the tile that is popped",
        )


def scale_findings(function: ir.Function, ends: Sequence[End]) -> Iterator[Diagnostic]:
    """An instruction that sets the scale of a pipe names one of its function, which uses such a scale."""
    for op in function.walk():
        if op.name not in _SCALES.values() or "id" not in op.attrs:
            continue
        end = next((e for e in ends if e.core is ir.KernelKind.CUBE and e.number == number_of(op)), None)
        epilogue = _End(end, function, []).epilogue if end is not None else None
        if epilogue is None:
            have = "has no acc_push_epilogue" if end is not None else f"is no pipe of @{function.name}"
            yield _error(op, f"id = {number_of(op)} {have}; allowed: an aic pipe with acc_push_epilogue")
        elif _scale_kind(epilogue) != op.name:
            yield _error(
                op,
                f"id = {number_of(op)} converts by {epilogue.quant.name.lower()}; allowed: "
                + (_scale_kind(epilogue) or "no scale"),
            )
