"""Rules on pipes that convert accumulators: both ends agree, and tiles and scales fit the conversion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .. import ir
from ..analysis.pipes import End, number_of
from ..errors import Diagnostic
from ..isa import effects, sync_handles
from .errors import error_of

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
class _Side:
    """One end of a converting pipe with what goes through it."""

    end: End
    function: ir.Function
    uses: list[ir.Op]

    @property
    def epilogue(self) -> ir.AccPushEpilogue | None:
        """What is done to accumulators here."""
        found = self.end.op.attrs.get("acc_push_epilogue")
        return found if isinstance(found, ir.AccPushEpilogue) else None

    def named(self, *kinds: str) -> list[ir.Op]:
        """The operations of these kinds that go through the end."""
        return [op for op in self.uses if effects.traits_of(op).fifo in kinds]


def epilogue_findings(pipe: Sequence[tuple[End, ir.Function, list[ir.Op]]]) -> Iterator[Diagnostic]:
    """What is wrong with a pipe that converts accumulators; nothing for others."""
    sides = [_Side(*one) for one in pipe]
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
    return error_of(op, "pipe-epilogue", message, value)


def _whole(side: _Side) -> Iterator[Diagnostic]:
    for op in side.uses:
        if side.epilogue is not None and op.attrs.get("split", 0) != 0:
            yield _error(op, f"split = {op.attrs['split']} on a pipe with acc_push_epilogue; allowed: 0")


def _ends(producer: _Side, consumers: list[_Side]) -> Iterator[Diagnostic]:
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


def _unreserved(side: _Side) -> Diagnostic:
    return _error(
        side.end.op,
        "c2v_consumer_buf is no reserved buffer; allowed with acc_push_epilogue: an address from "
        "import_reserved_buffer or reserve_buffer",
    )


def _shown(epilogue: ir.AccPushEpilogue | None) -> str:
    if epilogue is None:
        return "missing"
    return ", ".join(f"{key} = {v.name.lower()}" for key, v in epilogue._asdict().items())


def _source(side: _Side, push: ir.Op) -> Iterator[Diagnostic]:
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


def _scales(side: _Side) -> Iterator[Diagnostic]:
    """Quantising pushes follow the instruction that sets their scale, in the same block."""
    kind = _scale_kind(side.epilogue)
    if not kind:
        return
    for region in _regions(side.function.body):
        known = False
        for op in region.ops:
            known = known or (op.name == kind and number_of(op) == side.end.number)
            pushes = effects.traits_of(op).fifo == "push" and number_of(op) == side.end.number
            if pushes and effects.traits_of(op).core is ir.KernelKind.CUBE and not known:
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


def _results(consumer: _Side, producers: list[_Side]) -> Iterator[Diagnostic]:
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
    pop: ir.Op, result: ir.Value, t: ir.TileType, consumer: _Side, producers: list[_Side]
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
    wanted = _LAYOUTS[epilogue.layout]
    if (t.blayout, t.slayout) != wanted:
        words = " and ".join(w.name.lower() for w in wanted)
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
        epilogue = _Side(end, function, []).epilogue if end is not None else None
        if epilogue is None:
            have = "has no acc_push_epilogue" if end is not None else f"is no pipe of @{function.name}"
            yield _error(op, f"id = {number_of(op)} {have}; allowed: an aic pipe with acc_push_epilogue")
        elif _scale_kind(epilogue) != op.name:
            yield _error(
                op,
                f"id = {number_of(op)} converts by {epilogue.quant.name.lower()}; allowed: "
                + (_scale_kind(epilogue) or "no scale"),
            )
