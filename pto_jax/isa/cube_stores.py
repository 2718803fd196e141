"""Micro-operations of the cube unit that store accumulators: quantisation, ReLU, layouts, one core or two."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..ir import MemRefType, Op, Pipe, PtrType, ScalarType
from .cube import (
    ACC_ROW,
    CONTROL,
    EXPANSION,
    LIMIT,
    PAGE,
    SIDE,
    blocks_of,
    has_operand,
    pointed,
    size_of,
)
from .declare import Decision
from .micro import Lanes, MicroCall, MicroOperation, Numbers, Place, Rows, RowsOf, all_known, micro
from .ub_transfers import OVERLAPS, place_of

_QUANTISED = Decision(
    "What does a word of parameters mean?",
    "What it means in tmov.fp; the scale of a scalar payload is the payload, and 8-bit results have the sign "
    "of their type.",
    f"{PAGE} and goldens of public cases (short float in bits 31:13)",
)
_LAST = Decision(
    "Where do ReLU and clip stand?",
    "On the scaled f32 before it is converted, or on the finished integer; ReLU with a slope in front of an "
    "integer is not executed.",
    PAGE,
)
_ACC_UNITS = Decision(
    "How large is the unit of the strides of an accumulator?",
    "A row of 16 elements, 64 bytes, in src_stride and in loop3.",
    f"goldens of public cases for src_stride; the formula of {PAGE} has 32 bytes in loop3, cases one trip",
)
_SPLIT = Decision(
    "What is written with nz2nz?",
    "Groups of 16 columns, with a split other than 0 of 8; dst_stride elements from group to group.",
    f"{EXPANSION}: the operand enables the split of channels",
)


@dataclass(frozen=True)
class Quantisation:
    """What a mode of ``pre_quant`` does: element types of the accumulator and of results, and the kind.

    ``kind``: ``scale`` multiplies, ``byte`` makes 8-bit integers, ``shift`` shifts, ``cast`` only converts.
    """

    source: str
    targets: tuple[str, ...]
    kind: str


_FAMILIES: Mapping[str, Quantisation] = {
    "qf322hif8_pre": Quantisation("f32", ("hif8",), "scale"),
    "qf322fp8_pre": Quantisation("f32", ("f8e4m3", "f8e5m2"), "scale"),
    "qf322f32_pre": Quantisation("f32", ("f32",), "scale"),
    "qf322f16_pre": Quantisation("f32", ("f16",), "scale"),
    "qf322bf16_pre": Quantisation("f32", ("bf16",), "scale"),
    "qf322b8_pre": Quantisation("f32", ("i8", "u8"), "byte"),
    "req8": Quantisation("i32", ("i8", "u8"), "byte"),
    "deqf16": Quantisation("i32", ("f16",), "scale"),
    "qs322bf16_pre": Quantisation("i32", ("bf16",), "scale"),
    "deqs16": Quantisation("i32", ("i16",), "shift"),
    "qf322hif8_pre_hybrid": Quantisation("f32", ("hif8",), ""),
    "deqs32_int": Quantisation("i32", ("i32",), ""),
    "qf162b8_pre": Quantisation("f32", ("i8", "u8"), ""),
    "qf162s4_pre": Quantisation("f32", ("i4",), ""),
    "qf162s16_pre": Quantisation("i32", ("i16",), ""),
    "req4": Quantisation("i32", ("i4",), ""),
    "qf322s4_pre": Quantisation("f32", ("i4",), ""),
}
#: Modes of ``pre_quant`` by their names in the text.
QUANTISATIONS: Mapping[str, Quantisation] = {
    "f32_f16": Quantisation("f32", ("f16",), "cast"),
    "f32_bf16": Quantisation("f32", ("bf16",), "cast"),
    **{f"{name}_{form}": q for name, q in _FAMILIES.items() for form in ("vec", "scalar")},
}
_NOT_EXECUTED = (*(n for n, q in QUANTISATIONS.items() if not q.kind), "deqs16_scalar")
_SLOPES = ("scalar_relu", "vector_relu")
_RELUS = " ".join(("no_relu normal_relu", *_SLOPES))
_PAYLOADS = frozenset("f16 bf16 f32".split())


def is_vector(mode: str) -> bool:
    """Whether a mode takes a word of parameters per column."""
    return mode.endswith("_vec")


def _store_rules(op: Op) -> Iterator[str]:
    source, target = pointed(op, 0), pointed(op, 1)
    if source and source not in ("f32", "i32"):
        yield f"got an accumulator of {source}; allowed: f32, i32"
        return
    yield from _quantisation_rules(op, source, target)
    yield from _relu_rules(op, target)
    if op.attrs.get("layout") == "nz2nz" and target and target != "f32":
        yield f"got nz2nz into {target}; allowed: f32"
    if op.attrs.get("layout") == "nz2nz" and has_operand(op, "loop_count"):
        yield "got loop3 with nz2nz; allowed: with nz2nd, nz2dn"
    if op.attrs.get("layout") == "nz2dn" and not has_operand(op, "layout_value"):
        yield "got nz2dn without a stride; allowed: nz2dn(%stride)"
    if op.attrs.get("layout") == "nz2nd" and has_operand(op, "layout_value"):
        yield "got nz2nd with an operand; allowed: nz2nd"
    if op.attrs.get("nan") is not None and op.attrs.get("saturate") != "sat":
        yield "got nosat(preserve_nan); allowed: sat(preserve_nan), nosat"
    atomic = op.attrs.get("atomic_type")
    if atomic is not None and target and str(atomic).replace("s", "i") != target:
        yield f"got an atomic store of {atomic} into {target}; allowed: the type of the destination"
    split = op.attrs.get("split")
    beside = [n for n in ("quant_mode", "relu_mode") if n in op.attrs]
    if split is not None and (beside or op.attrs.get("layout") not in (None, "nz2nd")):
        yield f"got {split} with a transform; allowed: nz2nd alone"


def _payload(op: Op, name: str) -> PtrType | MemRefType | ScalarType | None:
    values = op.group(name) if has_operand(op, name) else ()
    t = values[0].type if values else None
    return t if isinstance(t, PtrType | MemRefType | ScalarType) else None


def _quantisation_rules(op: Op, source: str, target: str) -> Iterator[str]:
    name = op.attrs.get("quant_mode")
    mode = QUANTISATIONS.get(str(name))
    if mode is None:
        if (
            source
            and target
            and source != target
            and (source, target) not in (("f32", "f16"), ("f32", "bf16"))
        ):
            yield f"got {source} stored as {target} without pre_quant; allowed: {source}, or a pre_quant mode"
        return
    if source and source != mode.source:
        yield f"got {name} on sums of {source}; allowed: on {mode.source}"
    elif target and target not in mode.targets:
        yield f"got {name} into {target}; allowed: {', '.join(mode.targets)}"
    payload = _payload(op, "quant")
    if payload is not None:
        pointer = isinstance(payload, PtrType | MemRefType)
        if pointer != is_vector(str(name)) or payload.dtype.name not in _PAYLOADS:
            allowed = "!pto.ptr<f32, fb>" if is_vector(str(name)) else "a scalar of f16, bf16, f32"
            yield f"got {payload} for {name}; allowed: {allowed}"


def _relu_rules(op: Op, target: str) -> Iterator[str]:
    name, payload = op.attrs.get("relu_mode"), _payload(op, "relu")
    if name in ("no_relu", "normal_relu") and payload is not None:
        yield f"got {name} with a slope; allowed: scalar_relu, vector_relu"
    if name in _SLOPES:
        pointer = isinstance(payload, PtrType | MemRefType)
        if payload is None or pointer != (name == "vector_relu") or payload.dtype.name not in _PAYLOADS:
            allowed = "!pto.ptr<f32, fb>" if name == "vector_relu" else "a scalar of f16, bf16, f32"
            yield f"got {'no slope' if payload is None else payload} for {name}; allowed: {allowed}"
    clip = _payload(op, "clip")
    if clip is not None and target and target not in ("f16", "u8", "i4", "i8", "i16"):
        yield f"got a clip for results of {target}; allowed: f16, ui8, i4, i8, i16"


def _stored_sums(call: MicroCall, numbers: Numbers) -> Rows | None:
    values = all_known(numbers, ("m", "n", "src_stride"))
    if values is None:
        return None
    m, n, stride = values
    steps = [(blocks_of(n, SIDE), stride * ACC_ROW)]
    return _repeated(m * ACC_ROW, steps, numbers, "loop_source", ACC_ROW)


def _repeated(
    width: int, steps: list[tuple[int, int]], numbers: Numbers, stride: str, unit: int
) -> Rows | None:
    """Rows in the loop around a store."""
    if "loop_count" in numbers:
        count, step = numbers["loop_count"], numbers[stride]
        if count is None or step is None:
            return None
        steps = [*steps, (count, step * unit)]
    return Rows(width, tuple(steps))


def _results(call: MicroCall, numbers: Numbers) -> Rows | None:
    values = all_known(numbers, ("m", "n", "dst_stride"))
    if values is None:
        return None
    m, n, stride = values
    size, split = size_of(call, 1), call.attributes.get("split")
    m, n = (m // 2 if split == "split_m" else m), (n // 2 if split == "split_n" else n)
    match call.attributes.get("layout"):
        case "nz2dn":
            width, steps = m * size, [(n, stride * size)]
        case "nz2nz":
            group = 8 if numbers.get("layout_value") else SIDE
            width, steps = m * group * size, [(blocks_of(n, group), stride * size)]
        case _:
            width, steps = n * size, [(m, stride * size)]
    return _repeated(width, steps, numbers, "loop_target", size)


def _per_column(bytes_of_a_column: int) -> RowsOf:
    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        n = numbers.get("n")
        return None if n is None else Rows(n * bytes_of_a_column)

    return rows


_TRANSFORMS = (
    "(? , unit_flag ( @unit_flag:word ) ?) "
    "(? , pre_quant ( $quant , mode = @quant_mode:word ) ?) "
    "(? , pre_relu ( (? $relu , ?) mode = @relu_mode:word (? , clip = $clip ?) ) ?) "
    "(? , @layout:word (? ( $layout_value ) ?) ?) "
    "(? , loop3 ( $loop_count , $loop_source , $loop_target ) ?) "
    "(? , @saturate:word (? ( @nan:word ) ?) ?) "
)
_ATOMIC = "(? , atomic ( type = @atomic_type:word , op = @atomic:word ) ?) "
_TRANSFORM_TYPES = (
    "(?t , !quant ?) (?t , !relu ?) (?t , !clip ?) (?t , !layout_value ?) "
    "(?t , !loop_count , !loop_source , !loop_target ?)"
)


def _halves_and_flags(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """Halves are equal, those of columns in whole columns of fractals; unit flags go with one stride."""
    split, stride = call.attributes.get("split"), numbers.get("layout_value")
    name, unit = {"split_m": ("m", 2), "split_n": ("n", 2 * SIDE)}.get(str(split), ("", 1))
    size = numbers.get(name)
    if size is not None and size % unit:
        yield f"{split} of {size}; allowed: a multiple of {unit}"
    flag = call.attributes.get("unit_flag")
    if flag is not None and call.attributes.get("layout") == "nz2dn" and stride != 1:
        text = "a stride that is no constant" if stride is None else stride
        yield f"unit_flag({flag}) with nz2dn of {text}; allowed: nz2dn of 1, or no unit_flag"


def _unexecuted_stores(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """One stride of nz2dn is known; slopes are applied to results that are floats."""
    yield from _halves_and_flags(call, numbers)
    stride = numbers.get("layout_value")
    if call.attributes.get("layout") == "nz2dn" and stride not in (None, 1):
        yield f"nz2dn({stride}), of which no source says what it does; allowed: nz2dn(1)"
    relu, target = call.attributes.get("relu_mode"), call.types[1]
    if relu in _SLOPES and isinstance(target, Lanes) and target.dtype.is_integer:
        yield f"{relu} in front of results of {target.dtype}; allowed: no_relu, normal_relu"


def _chosen_core(call: MicroCall, numbers: Numbers) -> int | None:
    return numbers.get("core", 0)


_STORE_CLAUSES = {
    "unit_flag": "check_only check_and_clear",
    "quant_mode": " ".join(QUANTISATIONS),
    "relu_mode": _RELUS,
    "layout": "nz2nd nz2dn nz2nz",
    "saturate": "sat nosat",
    "nan": "preserve_nan",
}
_COMBINES = {"atomic": "add max min", "atomic_type": "f32 f16 bf16 s32 s16 s8"}


def _store(space: str, more: str, behind: str, tail: str, places: Sequence[Place]) -> MicroOperation:
    operands = f"src dst m n src_stride dst_stride {more}".split()
    numbers = [w for w in operands if not w.endswith("?")]
    shown, typed = (" , ".join(f"{sign}{w}" for w in numbers) for sign in "$!")
    core = " (?t , !core ?)" if behind else ""
    return micro(
        f"mte_l0c_{space}",
        f"Store of accumulators into {_MEMORIES[space]}, with quantisation, ReLU and a layout.",
        " ".join((*operands, "quant? relu? clip? layout_value? loop_count? loop_source? loop_target?")),
        " ".join(("@l0c", "g*" if space == "gm" else f"@{space}", *["i64"] * (len(operands) - 2),
                  "- - - i64 i64 i64 i64")),
        kind="memory", pipe=Pipe.FIX, between_scopes=True, source=PAGE, refused=" ".join(_NOT_EXECUTED),
        written=f"{shown} {behind}{_TRANSFORMS}{tail}{{}} : {typed}{core} {_TRANSFORM_TYPES}",
        clauses={**_STORE_CLAUSES, **({"split": "split_m split_n"} if behind else {}),
                 **(_COMBINES if tail else {})},
        places=(place_of("src", "read", _stored_sums), *places, place_of("quant", "read", _per_column(8)),
                place_of("relu", "read", _per_column(4))),
        rules=(_store_rules,), number_rules=_halves_and_flags, unexecuted=_unexecuted_stores,
        limits={"m": LIMIT, "n": LIMIT, **_HINTS},
        decisions=(_QUANTISED, _LAST, CONTROL, _ACC_UNITS, _SPLIT, OVERLAPS),
    )  # fmt: skip


#: Least and greatest vector cores, and hints of paths to global memory.
_HINTS = {"core": (0, 1), "sid": (0, 3), "l2": (0, 15)}
_MEMORIES = {"l1": "L1", "gm": "global memory", "ub": "the unified buffer of one vector core or of two"}
_RESULTS = place_of("dst", "write", _results)
OPERATIONS: tuple[MicroOperation, ...] = (
    _store("l1", "", "", "", [_RESULTS]),
    _store("gm", "sid l2", "", _ATOMIC, [_RESULTS]),
    _store("ub", "core?", ", dst_mode ( @split:word|$core ) ", "",
           [place_of("dst", "write", _results, subblock=_chosen_core),
            place_of("dst", "write", _results, name="other", subblock=lambda call, numbers: 1,
                     applies=lambda call: "split" in call.attributes)]),
)  # fmt: skip
