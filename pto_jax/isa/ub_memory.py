"""Micro-operations that load and store registers and masks."""

from collections.abc import Callable, Mapping
from functools import partial

from .declare import Decision
from .micro import Access, Lanes, MicroCall, MicroOperation, Numbers, Place, Rows, Span, micro
from .rules import micro_types
from .traits import Order, Traits

_LOADS = "micro-isa chapter 03"
_PREDICATES = "micro-isa chapter 04"
_VENDOR = "Ascend C 9.0, register level"
#: Bytes that a load reads by its distribution; 0: one element.
LOADED = {
    "NORM": 256,
    **{f"BRC_B{w}": w // 8 for w in (8, 16, 32)},
    "BRC_BLK": 32,
    **{f"US_B{w}": 128 for w in (8, 16)},
    **{f"DS_B{w}": 512 for w in (8, 16)},
    **{f"UNPK_B{w}": 128 for w in (8, 16, 32)},
    "UNPK4": 64,
    **{f"E2B_B{w}": w for w in (16, 32)},
    "SPLT4CHN": 256,
    **{f"SPLT2CHN_B{w}": 256 for w in (8, 16)},
}
#: Bytes that a store writes by its distribution.
STORED = {
    "NORM": 256,
    **{f"NORM_B{w}": 256 for w in (8, 16, 32)},
    **{f"1PT_B{w}": w // 8 for w in (8, 16, 32)},
    **{f"PK_B{w}": 128 for w in (16, 32, 64)},
    "PK4_B32": 64,
    "MRG4CHN_B8": 256,
    **{f"MRG2CHN_B{w}": 256 for w in (8, 16)},
}
_CHANNELS = Decision(
    "Which elements do the channel distributions (SPLT, MRG) move?",
    "No source states it: they are read and verified; execution ends with an error that names them.",
    f"{_LOADS}; the assembler accepts the names",
)
_BLOCKS = Decision(
    "Which mask bits govern a block of a strided load?",
    "Any of the 32 bits of the block; a block without one is zero. Stores write the bytes whose bit is set.",
    f"{_VENDOR}, pages 0321 and 0322; {_LOADS} reads one bit per block",
)
_STREAM = Decision(
    "When do bytes of an unaligned stream become visible?",
    "At once; the flush writes nothing. A stream that is never flushed is a finding of the sanitizer.",
    f"{_LOADS}; whole blocks may be visible before the flush",
)
_DUPLICATES = Decision(
    "Which element stays where active indices of a scatter are equal?",
    "That of the last lane; the sanitizer reports it.",
    f"{_LOADS} leaves it open",
)
_PAIRS = Decision(
    "Which lane of a mask governs a 64-bit pair of PK_B64?",
    "Lane 2i governs pair i.",
    "the chapter says 64-bit data, the verifier asks for a b32 mask; goldens use whole masks",
)


_OVERLAPS = Decision(
    "Which accesses inside a scope does the order of the text not order?",
    "Accesses of the same bytes of which one writes: a load behind a store, a store behind a load, stores. "
    "An inactive lane of a store accesses nothing.",
    "docs/vpto-spec.md (the hardware does not track addresses); PTOAS 869 and 906, found on boards. Nine "
    "public cases have such accesses without a barrier, five of them stores that overwrite each other",
)
_SCOPES = Decision(
    "Are scopes that follow each other in order?",
    "Yes: the vector pipe executes one after the other. A barrier orders accesses inside its scope.",
    "micro-isa chapter 01 (within a scope); PTOAS 866 is about operations that share a scope",
)
_FOLLOWS = Decision(
    "Does a store come behind the loads that its value is computed from?",
    "Yes: it cannot begin before its register has been computed.",
    "no source states it; public cases change data in place without a barrier",
)


def _units(prior: str, later: str) -> tuple[frozenset[Access], frozenset[Access]]:
    return frozenset(_ACCESSES[prior]), frozenset(_ACCESSES[later])


_ACCESSES: Mapping[str, tuple[Access, ...]] = {
    "VLD": (("vector", "read"),),
    "VST": (("vector", "write"),),
    "V": (("vector", "read"), ("vector", "write")),
    "LD": (("scalar", "read"),),
    "ST": (("scalar", "write"),),
    "S": (("scalar", "read"), ("scalar", "write")),
}
#: The accesses that the kinds of a barrier order: those before it, and those behind it.
BARRIERS = {
    "VV_ALL": _units("V", "V"),
    "VST_VLD": _units("VST", "VLD"),
    "VLD_VST": _units("VLD", "VST"),
    "VST_VST": _units("VST", "VST"),
    "VS_ALL": _units("V", "S"),
    "VST_LD": _units("VST", "LD"),
    "VLD_ST": _units("VLD", "ST"),
    "VST_ST": _units("VST", "ST"),
    "SV_ALL": _units("S", "V"),
    "ST_VLD": _units("ST", "VLD"),
    "LD_VST": _units("LD", "VST"),
    "ST_VST": _units("ST", "VST"),
}


def _width(call: MicroCall) -> int:
    """Bytes of an element of the register that is loaded or stored."""
    register = next(t for t in (*call.results, *call.types) if isinstance(t, Lanes) and t.lanes > 1)
    return register.dtype.word_bits // 8


def _loaded(call: MicroCall, numbers: Numbers) -> int | None:
    return LOADED.get(str(call.attributes["dist"]), 256)


def _stored(call: MicroCall, numbers: Numbers) -> int | None:
    return STORED.get(str(call.attributes["dist"]), 256)


def _blocks(call: MicroCall, numbers: Numbers) -> int | None:
    stride = numbers["block_stride"]
    return None if stride is None or stride < 0 else 32 * (7 * stride + 1)


def _in_blocks(call: MicroCall, numbers: Numbers) -> Rows | None:
    stride = numbers["block_stride"]
    return None if stride is None else Rows(32, ((8, 32 * stride),))


def _obeys_mask(call: MicroCall) -> bool:
    """Whether inactive lanes of a store are not written: a store of one element ignores the mask."""
    return not str(call.attributes.get("dist", "")).startswith("1PT")


def _exactly(count: int) -> Span:
    return lambda call, numbers: count


def _predicate_bytes(call: MicroCall, numbers: Numbers) -> int | None:
    return {"NORM": 32, "DS": 64}.get(str(call.attributes["dist"]), 16)


def _counted(call: MicroCall, numbers: Numbers) -> int | None:
    count = numbers["count"]
    return None if count is None else max(0, count) * _width(call)


def _image_unit(call: MicroCall) -> int:
    return 16 if call.attributes["dist"] in ("US", "PK") else 32


def _lane_bits(call: MicroCall) -> int:
    """Bytes of one bit per lane of the mask that is stored."""
    bits = next(t for t in call.types if isinstance(t, int))
    return 256 // bits


def _on(bytes_of: int) -> Callable[[MicroCall], int]:
    return lambda call: bytes_of


_LOAD = Place("base", "read", "offset", span=_loaded, aligned=lambda call: min(32, _loaded(call, {}) or 32))
_STORE = Place("base", "write", "offset", span=_stored, masked=_obeys_mask,
               aligned=lambda call: min(32, _stored(call, {}) or 32))  # fmt: skip
_STRIDED = partial(Place, "base", offset="repeat_stride", unit=32, span=_blocks, rows=_in_blocks,
                   aligned=_on(32))  # fmt: skip
_DISTS = {"dist": " ".join(LOADED)}
_LOADED_MASKS, _STORED_MASKS = {"dist": "NORM US DS"}, {"dist": "NORM PK"}
_access = partial(micro, kind="memory", source=_LOADS)
_mask_access = partial(_access, source=_PREDICATES)

_REGISTERS: tuple[MicroOperation, ...] = (
    _access("vlds", "Load of a register.", "base[offset] -> value base_out?", "p* x -> T p*", choices=_DISTS,
            refused="SPLT4CHN SPLT2CHN_B8 SPLT2CHN_B16", places=(_LOAD,), decisions=(_CHANNELS,)),
    _access("vldsx2", "Load of two registers whose elements, or blocks of 32 bytes, alternate in memory.",
            'base[offset:] "dist" -> low high base_out?', "p* x - -> T T p*",
            choices={"dist": "DINTLV_B8 DINTLV_B16 DINTLV_B32 BDINTLV"},
            places=(Place("base", "read", "offset", span=_exactly(512), aligned=_on(32)),)),
    _access("vsldb", "Load of eight blocks of 32 bytes at a stride.",
            "base block_stride repeat_stride mask -> value base_out?", "p* i16 i16 M -> T p*",
            places=(_STRIDED(access="read"),), decisions=(_BLOCKS,)),
    _access("vldas", "Beginning of an unaligned stream of loads.", "base -> align", "p* -> al"),
    _access("vldus", "Load of 256 bytes at any address.",
            "base align increment? -> value align_out base_out?", "p* al x -> T al p*",
            rules=(micro_types.moves_by_increment,),
            places=(Place("base", "read", "increment", steady=True, span=_exactly(256)),)),
    *(
        _access(name, "Load of elements at offsets that a register gives.", "base offsets mask -> value",
                "p* D m -> T", rules=(rule,), places=(Place("base", "read"),))
        for name, rule in (("vgather2", micro_types.gathered), ("vgather2_bc", micro_types.gathered_wide))
    ),
    _access("vgatherb", "Load of eight blocks of 32 bytes at offsets that a register gives, in bytes.",
            "base offsets mask -> value", "p* D m32 -> T", D="i32 u32", places=(Place("base", "read"),)),
    _access("vsts", "Store of a register; bytes of inactive lanes are not written.",
            "value base[offset] mask -> base_out?", "T p* x m -> p*", rules=(micro_types.packed_mask,),
            choices={"dist": " ".join(STORED)}, refused="MRG4CHN_B8 MRG2CHN_B8 MRG2CHN_B16",
            places=(_STORE,), decisions=(_CHANNELS, _PAIRS)),
    _access("vstsx2",
            "Store of two registers so that their elements alternate in memory; the mask is ignored.",
            'low high base[offset:] "dist" mask', "T T p* x - m",
            choices={"dist": "INTLV_B8 INTLV_B16 INTLV_B32"},
            places=(Place("base", "write", "offset", span=_exactly(512), aligned=_on(32)),)),
    _access("vsstb", "Store of eight blocks of 32 bytes at a stride.",
            "value base block_stride repeat_stride mask -> base_out?", "T p* i16 i16 M -> p*",
            places=(_STRIDED(access="write", masked=_obeys_mask),), decisions=(_BLOCKS,)),
    _access("vscatter", "Store of elements at offsets that a register gives.", "value base offsets mask",
            "T p* D m", rules=(micro_types.scattered,), places=(Place("base", "write"),),
            decisions=(_DUPLICATES,)),
    _access("init_align", "Beginning of an unaligned stream of stores.", "-> align", "-> as"),
    _access("vstus", "Store of the first elements of a register at any address.",
            "align count value base -> align_out base_out?", "as i32 T p* -> as p*",
            places=(Place("base", "write", "count", steady=True, span=_counted),), decisions=(_STREAM,)),
    _access("vstur",
            "Store of as many bytes of a register as the last squeeze gave, at the address register.",
            'align value base "mode" -> align_out', "as T p* - -> as",
            choices={"mode": "NO_POST_UPDATE POST_UPDATE"}, places=(Place("base", "write"),),
            decisions=(_STREAM,)),
    _access("vstas", "End of an unaligned stream of stores.", "align base offset -> base_out?",
            "as p* i32 -> p*", places=(Place("base", "write", "offset", steady=True, span=_exactly(0)),),
            decisions=(_STREAM,)),
    _access("vstar", "End of an unaligned stream of stores at the address register.", "align base", "as p*",
            places=(Place("base", "write", span=_exactly(0)),)),
)  # fmt: skip

_MASKS: tuple[MicroOperation, ...] = (
    *(
        _mask_access(name, "Load of a mask.", 'base[offset:] "dist" -> mask base_out?', "p* x - -> m p*",
                     choices=_LOADED_MASKS, immediate="offset" if name == "pldi" else "",
                     places=(Place("base", "read", "offset", unit, span=_predicate_bytes),))
        for name, unit in (("plds", 1), ("pldi", _image_unit))
    ),
    *(
        _mask_access(name, "Store of a mask.", 'mask base[offset:] "dist" -> base_out?', "m p* x - -> p*",
                     choices=_STORED_MASKS, immediate="offset" if name == "psti" else "",
                     places=(Place("base", "write", "offset", unit, span=_predicate_bytes),))
        for name, unit in (("psts", 1), ("psti", _image_unit))
    ),
    _mask_access("pstu", "Store of one bit per lane of a mask in a stream.",
                 "align mask base -> align_out base_out", "as m p* -> as p*",
                 rules=(micro_types.stream_of_bits,), decisions=(_STREAM,),
                 places=(Place("base", "write", unit=_lane_bits,
                               span=lambda call, numbers: _lane_bits(call)),)),
    micro("sprclr", "Zero in a special register.", '"spr"', "-", kind="memory", choices={"spr": "AR"}),
    *(
        _access(name, "Store of a special register, 4 bytes.", '"spr" base[offset:] -> base_out?',
                "- p* i32 -> p*", rules=(micro_types.words_of_32_bits,),
                immediate="offset" if name == "sprsti" else "",
                limits={"offset": (-128, 127)} if name == "sprsti" else None, choices={"spr": "AR"},
                places=(Place("base", "write", "offset", unit, span=_exactly(4), aligned=_on(4)),))
        for name, unit in (("sprsti", 4), ("sprsts", 1))
    ),
)  # fmt: skip

_ORDERS: tuple[MicroOperation, ...] = (
    micro("mem_bar", "Order of accesses to the unified buffer inside a vector scope.", '"kind"', "-",
          kind="order", choices={"kind": " ".join(BARRIERS)},
          traits=Traits(order=Order("barrier", "operation")), orders=BARRIERS,
          decisions=(_OVERLAPS, _SCOPES, _FOLLOWS), source="micro-isa chapter 01"),
    micro("dsb", "Barrier of the scalar unit.", '"memory"', "-", kind="order", between_scopes=True,
          source="micro-isa chapter 01"),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_REGISTERS, *_MASKS, *_ORDERS)
