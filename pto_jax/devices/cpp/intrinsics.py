"""Instructions as calls of C++ intrinsics.

An intrinsic has the instruction's name in capitals and its operands in the declared order. What differs
stands in the table below: enumerations among the arguments, template arguments, other orders.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

from ...analysis.addresses import scalar_dtype
from ...ir import AccPhase, Coalesce, Loc, Precision, ScatterAtomicOp, ScatterConflict, StPhase
from ...isa.irregular_quant import algorithm, along_rows
from ...isa.rules.typesets import BYTE_FLOATS
from ...text.cpp_names import intrinsic, member, ordered
from .writer import Call, valid_sizes

Text = Callable[[Call], str]


def text(call: Call) -> str:
    """The C++ statement of an instruction, without its semicolon."""
    name = call.bound.instruction.name
    missing = _ABSENT.get(name) or _not_simulated(call)
    if missing is not None:
        raise call.refuse(missing)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(call)
    instruction = call.bound.instruction
    return f"{intrinsic(instruction)}{_precision(call)}({call.listed(*ordered(instruction))})"


def _not_simulated(call: Call) -> str | None:
    """What the simulator declares but does not define."""
    name = call.bound.instruction.name
    if name in _LACKED:
        return "the simulator has no such instruction"
    if name == "trowsum" and call.tile("src").rows != call.tile("dst").rows:
        return "dst has other rows than src; the simulator's sums over rows take equal ones"
    for group in _OF_ONE_TYPE.get(name, ()):
        if len({call.types[n] for n in group if n in call.types}) > 1:
            return f"{' and '.join(group)} of several types; the simulator has no such overload"
    if name in _SCRATCH_LIKE_RESULT and "tmp" in call and call.types["tmp"] != call.types["dst"]:
        return "a scratch tile of another type than dst; the simulator has no such overload"
    if name in _BY_VALUE and call.mode == "auto":
        return "the simulator takes its tiles by value, which auto mode does not allow (use manual)"
    if name in _EQUAL_SIZES and len({valid_sizes(call.tile(n)) for n in ("dst", "src")}) > 1:
        return "dst and src have other valid sizes in their types; the simulator takes equal ones"
    return None


def needs_scratch(call: Call) -> bool:
    """Whether the intrinsic takes a scratch tile that the operation leaves out."""
    return call.bound.instruction.name in _SCRATCH and "tmp" not in call


def _template(*arguments: str) -> str:
    return f"<{', '.join(arguments)}>" if arguments else ""


def _precision(call: Call) -> str:
    if call.attribute("precision") != Precision.HIGH_PRECISION:
        return ""
    formula = call.bound.instruction.formula(call.bound.form)
    if formula is None:
        raise call.refuse("precision HIGH_PRECISION; the intrinsic has no such argument")
    kind = _ALGORITHMS.get(call.bound.instruction.name, formula.operation.capitalize())
    return f"<{kind}Algorithm::HIGH_PRECISION>"


def _divided(call: Call) -> str:
    return f"TDIVS{_precision(call)}({call.listed('dst', *call.bound.form)})"


def _three_sources(call: Call) -> str:
    if "src2" not in call:
        raise call.refuse("has two sources; the intrinsic takes three")
    return f"{intrinsic(call.bound.instruction)}({call.listed('dst', 'src0', 'src1', 'src2')})"


def _with_mode(*operands: str) -> Text:
    def spelled(call: Call) -> str:
        mode = call.chosen("cmpMode")
        assert mode is not None
        return f"{intrinsic(call.bound.instruction)}({call.listed(*operands)}, {member(mode)})"

    return spelled


def _convert(call: Call) -> str:
    if "tmp" in call:
        raise call.refuse("a scratch tile; the simulator has no such overload")
    if {call.element("dst").name, call.element("src").name} == {"f16", "bf16"}:
        raise call.refuse("f16 and bf16; Clang has no conversion between them")
    modes = [member(m) for m in (call.chosen("rmode"), call.chosen("sat_mode")) if m is not None]
    return f"TCVT({call.listed('dst', 'src', 'tmp')}, {', '.join(modes)})"


def _column_sum(call: Call) -> str:
    binary = ", true" if call.attribute("isBinary") else ", false"
    return f"TCOLSUM({call.listed('dst', 'src', 'tmp')}{binary if 'tmp' in call else ''})"


def _set_value(call: Call) -> str:
    value, d = call.names["val"], call.element("dst")
    if scalar_dtype(call.bound.values["val"].type) != d:
        value = f"__builtin_bit_cast({d.cpp}, {value})"
    return f"{call.names['dst']}.SetValue({call.names['offset']}, {value})"


def _phase(call: Call) -> list[str]:
    phase = call.attribute("stPhase") or call.attribute("accPhase")
    return [member(phase)] if phase not in (None, StPhase.UNSPECIFIED, AccPhase.UNSPECIFIED) else []


def _fixpipe(name: str, has_phase: bool) -> Text:
    """Moves that an accumulator leaves by: rectifying, splitting and quantising are template arguments."""

    def spelled(call: Call) -> str:
        relu, mode = call.chosen("reluPreMode"), call.chosen("accToVecMode")
        from_acc, to_vec = call.tile("src").loc == Loc.ACC, call.tile("dst").loc == Loc.VEC
        split = mode is not None and from_acc and to_vec
        phase = _phase(call) if from_acc else []
        if phase and not has_phase:
            raise call.refuse(f"{phase[0]}; the intrinsic has no such argument")
        arguments = call.listed("dst", "src", "fp", "preQuantScalar", "indexRow", "indexCol")
        types = [call.types[n] for n in ("dst", "src", "fp") if n in call]
        spelled_name = f"{name}_FP" if "fp" in call and not split else name
        extra = [member(mode)] if mode is not None and split else []
        if relu:
            if not from_acc:
                raise call.refuse("reluPreMode on a move that no accumulator is the source of")
            extra.append(member(relu))
        if not extra and not phase:
            return f"{spelled_name}({arguments})"
        return f"{spelled_name}{_template(*phase, *types, *extra)}({arguments})"

    return _with_saturation(spelled)


def _with_saturation(spelled: Text) -> Text:
    def switched(call: Call) -> str:
        if call.attribute("saturateInf"):
            raise call.refuse("saturateInf, a mode register that is not written in C++")
        return spelled(call)

    return switched


def _store(call: Call) -> str:
    atomic, relu = call.chosen("atomicType"), call.chosen("reluPreMode")
    assert atomic is not None
    assert relu is not None
    from_acc = call.tile("src").loc == Loc.ACC
    fp = "fp" in call
    phase = _phase(call) if from_acc else []
    if fp and phase:
        raise call.refuse(f"{phase[0]}; the intrinsic has no such argument")
    if relu and not from_acc:
        raise call.refuse("reluPreMode on a store that no accumulator is the source of")
    name = "TSTORE_FP" if fp else "TSTORE"
    arguments = call.listed("dst", "src", "fp", "preQuantScalar")
    if not (phase or atomic or relu):
        return f"{name}({arguments})"
    types = [call.types[n] for n in ("src", "dst", "fp") if n in call]
    modes = [member(atomic)] + ([member(relu)] if relu else [])
    return f"{name}{_template(*phase, *types, *modes)}({arguments})"


def _product(call: Call) -> str:
    phase = _phase(call)
    if phase and call.bound.instruction.name in _NO_PHASE:
        raise call.refuse("accPhase; the simulator has no such overload")
    every = [o.name for o in call.bound.instruction.operands]
    return f"{intrinsic(call.bound.instruction)}{_template(*phase)}({call.listed(*every)})"


def _sequence(call: Call) -> str:
    d = call.element("start")
    direction = "1" if call.attribute("descending") else "0"
    if "tmp" in call:
        raise call.refuse("a scratch tile; the simulator has no such overload")
    types = [call.types[n] for n in ("dst", "tmp") if n in call]
    return f"TCI{_template(*types, d.cpp, direction)}({call.listed('dst', 'start', 'tmp')})"


def _triangle(call: Call) -> str:
    upper = call.attribute("upperOrLower")
    return f"TTRI<{call.types['dst']}, {upper}>({call.listed('dst', 'diagonal')})"


def _random(call: Call) -> str:
    key, counter = (call.listed(*(f"{n}{i}" for i in range(k))) for n, k in (("key", 2), ("counter", 4)))
    return (
        f"{{ TRandomKey key = {{{key}}}; TRandomCounter counter = {{{counter}}}; "
        f"TRANDOM<{call.attribute('rounds')}>({call.names['dst']}, key, counter); }}"
    )


def _gather(call: Call) -> str:
    if "kValue" in call:
        raise call.refuse("the comparing form, whose thresholds are a tile in C++")
    pattern, axis = call.chosen("maskPattern"), call.chosen("axis")
    if "indices" in call:
        return f"TGATHER({call.listed('dst', 'src', 'indices', 'tmp')})"
    assert pattern is not None
    assert axis is not None
    types = (call.types["dst"], call.types["src"], member(pattern), member(axis))
    return f"TGATHER{_template(*types)}({call.listed('dst', 'src')})"


def _scatter(call: Call) -> str:
    pattern, axis = call.chosen("maskPattern"), call.chosen("axis")
    if "indexes" in call:
        return f"TSCATTER({call.listed('dst', 'src', 'indexes')})"
    assert pattern is not None
    assert axis is not None
    return f"TSCATTER<{member(pattern)}, {member(axis)}>({call.listed('dst', 'src')})"


def _merge(call: Call) -> str:
    if "blockLen" in call:
        return f"TMRGSORT({call.listed('dst', 'src0', 'blockLen')})"
    sources = [f"src{i}" for i in range(4) if f"src{i}" in call]
    types = [call.types[n] for n in ("dst", "tmp", *sources)]
    ended = "true" if call.attribute("exhausted") else "false"
    arguments = call.listed("dst", "executed", "tmp", *sources)
    return f"TMRGSORT{_template(*types, ended)}({arguments})"


def _histogram(call: Call) -> str:
    byte = call.chosen("byte")
    if byte is not None:
        spelled = member(byte)
    elif call.element("src").bits == 16:
        spelled = "HistByte::BYTE_1" if call.attribute("isMSB") else "HistByte::BYTE_0"
    else:
        raise call.refuse("has no byte attribute; C++ needs one for 32-bit sources")
    return f"THISTOGRAM<{spelled}>({call.listed('dst', 'src', 'idx')})"


def _quantise(call: Call) -> str:
    if "tmp" in call:
        raise call.refuse("a scratch tile; the simulator has no such overload")
    kind = call.chosen("quant_type")
    assert kind is not None
    offset = f", &{call.names['offset']}" if "offset" in call else ""
    return f"TQUANT<{member(kind)}>({call.listed('dst', 'src', 'scale')}{offset})"


def _quantise_blocks(call: Call) -> str:
    grouped = int(not along_rows(call.bound.attrs))
    interleaved = ["true"] if call.attribute("interleave") else []
    template = _template(str(grouped), member(algorithm(call.bound.attrs)), *interleaved)
    pointers = ", ".join(f"&{call.names[n]}" for n in ("exp", "max", "scaling"))
    return f"TQUANT{template}({call.listed('dst', 'src')}, {pointers})"


def _pad(call: Call) -> str:
    if call.attribute("padValue") is not None:
        raise call.refuse("padValue; in C++ the destination's type gives the pad value")
    return f"{intrinsic(call.bound.instruction)}({call.listed('dst', 'src')})"


def _gather_memory(call: Call) -> str:
    modes = _modes(call, ("coalesce", Coalesce.ELEM), ("gatherOob", None))
    return f"MGATHER{_template(*modes)}({call.listed('dst', 'src', 'indexes')})"


def _scatter_memory(call: Call) -> str:
    if call.chosen("scatterAtomicOp") == ScatterAtomicOp.ADD and call.element("src").name in BYTE_FLOATS:
        raise call.refuse("adds up 8-bit floats; the simulator has no such operator")
    modes = _modes(call, ("coalesce", Coalesce.ELEM), ("scatterAtomicOp", None), ("scatterOob", None))
    conflict = call.chosen("scatterConflict")
    if conflict is not None and conflict != ScatterConflict.DEFAULT:
        modes.append(member(conflict))
    return f"MSCATTER{_template(*modes)}({call.listed('dst', 'src', 'indexes')})"


def _modes(call: Call, *defaults: tuple[str, IntEnum | None]) -> list[str]:
    choices = [call.chosen(name) for name, _ in defaults]
    if call.op.attrs.keys().isdisjoint(name for name, _ in defaults):
        return []
    modes = [g if g is not None else d for g, (_, d) in zip(choices, defaults, strict=True)]
    return [member(m) for m in modes if m is not None]


def _load(call: Call) -> str:
    padding = ("pad_mode", "pad_value", "left_padding_num", "right_padding_num", "init_condition")
    names = [n for n in padding if call.attribute(n) is not None]
    if names:
        raise call.refuse(f"{names[0]}; the intrinsic has no such argument")
    return f"{intrinsic(call.bound.instruction)}({call.listed('dst', 'src')})"


#: What the simulator's headers lack or restrict.
_LACKED = frozenset({"taddrelu", "taddreluconv", "tsubreluconv", "hashfind"})
_BINARY, _PAIR = ("dst", "src0", "src1"), (("dst0", "dst1"), ("src0", "src1"))
#: Operands that one template parameter stands for.
_OF_ONE_TYPE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "tabs": (("dst", "src"),),
    **dict.fromkeys(("tadd", "tsel", "taddsc", "tsubsc"), (_BINARY,)),
    **dict.fromkeys(("taddc", "tsubc"), ((*_BINARY, "src2"),)),
    **dict.fromkeys(("tinterleave", "tdeinterleave"), _PAIR),
    **{f"{n}{s}.acc": (("dst", "acc"),) for n in ("tmatmul", "tgemv") for s in ("", ".mx")},
    "tdequant": (("scale", "offset"),),
}
_BY_VALUE = frozenset({"tsqrt"})
_EQUAL_SIZES = frozenset({"tsqrt", "trsqrt"})
_SCRATCH_LIKE_RESULT = frozenset({"txors", "trems"})
# Instructions by name: how the C++ interface spells each of them is no property of the instruction.
_NO_PHASE = frozenset({"tmatmul.acc", "tmatmul.bias"})
_SCRATCH = frozenset(
    """txor txors trem trems tprelu tpow tpows tsel tsels ttrans trowsum trowprod trowmax trowmin trowargmax
    trowargmin tcolargmax tcolargmin tadddeqrelu""".split()
)
#: Algorithms that are not called as the function they compute.
_ALGORITHMS = {"trems": "RemS", "tfmods": "FmodS"}
_MODES = "sets a mode that the C++ interface has no intrinsic for"
_ABSENT = {
    "tpack": "has no intrinsic",
    "tmov.zz": "moves exponents, which the simulator does not",
    "sethf32mode": _MODES,
    "settf32mode": _MODES,
}
_SPECIAL: Mapping[str, Text] = {
    **{n: _with_mode("dst", "src0", "src1") for n in ("tcmp", "tcmps")},
    **dict.fromkeys(("tfillpad", "tfillpad_inplace", "tfillpad_expand"), _pad),
    **{f"{n}{s}": _product for n in ("tmatmul", "tgemv") for s in ("", ".acc", ".bias")},
    **{f"{n}.mx{s}": _product for n in ("tmatmul", "tgemv") for s in ("", ".acc", ".bias")},
    **{n: _fixpipe("TMOV", True) for n in ("tmov", "tmov.fp")},
    **{n: _fixpipe("TEXTRACT", False) for n in ("textract", "textract_fp")},
    **{n: _fixpipe("TINSERT", False) for n in ("tinsert", "tinsert_fp")},
    **{n: _with_saturation(_store) for n in ("tstore", "tstore_fp")},
    **dict.fromkeys(("taddc", "tsubc"), _three_sources),
    "tdivs": _divided,
    "tload": _load,
    "tprefetch": _load,
    "tcvt": _convert,
    "tcolsum": _column_sum,
    "tsetval": _set_value,
    "tci": _sequence,
    "ttri": _triangle,
    "trandom": _random,
    "tgather": _gather,
    "tscatter": _scatter,
    "tmrgsort": _merge,
    "thistogram": _histogram,
    "tquant": _quantise,
    "tquant.mx": _quantise_blocks,
    "tquant_dn": _quantise_blocks,
    "mgather": _gather_memory,
    "mscatter": _scatter_memory,
}
