"""Micro-operations of the cube unit: staging in L1, fractals for factors, products, stores of accumulators.

Factors and results are made of fractals of 16 rows, and factors of rows of 32 bytes (``C0`` elements). What
stands where, for sizes m, n, k in whole fractals M1, N1, K1:

===============  =====================  ==================================================
memory           order of the elements  written by
===============  =====================  ==================================================
``l1``           [K1][M1][16][C0]       ``mte_gm_l1_frac``, or bytes as they are
``l0a``          [K1][M1][16][C0]       ``mte_l1_l0a``; a GEMV has its k elements in a row
``l0b``          [K1][N1][16][C0]       ``mte_l1_l0b``: the rows of a fractal are columns n
``l0c``          [N1][16 * M1][16]      ``mad``; four bytes per element
block scales     [M1][K / 64][16][2]    ``mte_l1_l0a_mx``; those of l0b with n in place of m
===============  =====================  ==================================================
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from ..ir import DType, Loc, MemRefType, Op, Pipe, PtrType, unpaired
from .declare import Decision
from .micro import Beside, Lanes, MicroCall, MicroOperation, Numbers, Rows, RowsOf, all_known, micro
from .traits import Effect, Traits
from .ub_transfers import GROUPED_WORDS, OVERLAPS, blocks, counts, grouped, grouped_rows, place_of

#: What is wrong with the numbers of an operation, one sentence each.
NumberRules: TypeAlias = Callable[[MicroCall, Numbers], Iterator[str]]
#: Where the operations of the cube unit are described.
PAGE = "micro-isa chapter 16"
EXPANSION = "expansion of wrapper operations in the assembler (VPTOExpandWrapperOps.cpp)"
#: Bytes of a fractal, of one of its rows, and its rows.
FRACTAL, ROW, SIDE = 512, 32, 16
#: Bytes of an element of an accumulator, and of the sixteen of a row.
WORD, ACC_ROW = 4, 64
#: Elements along K that share a block scale, and bytes of a fragment of them: 16 rows of two scales.
GROUP, FRAGMENT = 32, 32
#: Block scales of a factor: their address is that of the factor in these units.
SCALES = {"lhs": Beside(Loc.SCALELEFT, 16), "rhs": Beside(Loc.SCALERIGHT, 16)}
#: Bytes that loads of parameters and of a bias count in.
PARAMETERS, BIASES = 64, 32
#: Bits of the control register: nothing saturates; a saturating store keeps NaN.
KEEPS_OVERFLOW, KEEPS_NAN = 48, 50

_MODE = Traits(effects=(Effect("write", "mode"),))

_STARTS = Decision(
    "In which units do start_row and start_col count?",
    "In fractals: 16 rows, and 32 bytes of columns.",
    f"{EXPANSION}; {PAGE} calls them row and column offsets, public cases have 0",
)
_BLOCKS = Decision(
    "In which units do copies between L1 and the unified buffer count?",
    "Lengths and strides of bursts in blocks of 32 bytes, strides as gaps behind a burst; loops in bytes.",
    f"{EXPANSION} and goldens of public cases; {PAGE} says bytes from start to start",
)
_UNKNOWN_COPY = Decision(
    "In which units does copy_gm_to_cbuf count?",
    "In blocks of 32 bytes with gaps behind a burst, as the copies between L1 and the unified buffer.",
    "not documented; the operation stands in dead branches of public cases only",
)
CONTROL = Decision(
    "What holds where neither sat nor nosat is written?",
    "Bit 48 of the control register, which is set when a kernel begins: nothing saturates. Bit 50 keeps NaN "
    "in stores that saturate.",
    f"{EXPANSION}; the golden of a public case needs NaN to pass a product without a flag",
)
_SUMS = Decision(
    "In which order are products summed?",
    "From the first k on, each product added with one rounding to f32; from the accumulator in mad_acc; a "
    "bias is added to the finished sum: as the matrix instructions on tiles have it.",
    "tmatmul; goldens of public cases allow 1e-4",
)
_OUTSIDE = Decision(
    "What becomes of the rows and columns that fill up fractals?",
    "Products leave them as they are; loads of fractals copy them.",
    f"{PAGE} defines the logical rectangle only",
)
_SATURATED = Decision(
    "Where does a product with sat saturate?",
    "Factors, after the rounding to tf32, and the finished sum: infinities become the largest, NaN 0.",
    PAGE,
)
_PACKED = Decision(
    "What are two 4-bit numbers in a byte along K?",
    "The first one is in the low half; a row of a fractal has 64, a square to transpose 64 by 64. Matrices "
    "in global memory count bytes, products and loads numbers; loads start at the first one along K.",
    f"{EXPANSION}; {PAGE} and the expansion disagree on the unit of a start along K",
)
_SMALL = Decision(
    "Where does a load with few channels put them?",
    "Rows of four channels one after another, then zeros up to 32 bytes; groups as written.",
    PAGE,
)


def blocks_of(size: int, unit: int) -> int:
    """Units that a size begins."""
    return -(-size // unit)


def size_of(call: MicroCall, at: int) -> int:
    """Bytes of an element of a pointer."""
    t = call.types[at]
    assert isinstance(t, Lanes)
    return max(1, t.dtype.storage_bits // 8)


def number_of(call: MicroCall, at: int) -> DType:
    """The type of the numbers that a pointer is to: of two in a byte that of one."""
    t = call.types[at]
    assert isinstance(t, Lanes)
    return unpaired(t.dtype)


def channels(call: MicroCall, at: int = 0) -> int:
    """``C0``: numbers in a row of a fractal."""
    return ROW * 8 // number_of(call, at).storage_bits


# -- loads of fractals -------------------------------------------------------------------------------------


class Fractals(NamedTuple):
    """A rectangle of fractals: where it begins, rows and columns of fractals, and pitches of columns.

    Fractal (i, j) is number ``(first_col + j) * source_pitch + first_row + i`` of the source.
    """

    first_row: int
    first_col: int
    rows: int
    cols: int
    source_pitch: int
    target_pitch: int

    @property
    def source(self) -> Rows:
        """The bytes of the source."""
        begin = (self.first_col * self.source_pitch + self.first_row) * FRACTAL
        return Rows(self.rows * FRACTAL, ((self.cols, self.source_pitch * FRACTAL),), begin)


def fractals(call: MicroCall, numbers: Numbers) -> Fractals | None:
    """The fractals that a load takes; None where its numbers are not known.

    Of four numbers - sizes and starts - the last two count fractals; six are the fields themselves.
    """
    fields = all_known(numbers, (name for name in FIELDS if name in numbers))
    if fields is None or len(fields) == 6:
        return None if fields is None else Fractals(*fields)
    outer, inner, row, col = _sides_first(call, fields)
    lanes = channels(call)
    if not is_transposed(call):
        rows = blocks_of(outer, SIDE)
        return Fractals(row, col, rows, blocks_of(inner, lanes), rows, rows)
    square = max(SIDE, lanes)
    wide, high = blocks_of(outer, square) * square, blocks_of(inner, square) * square
    rows = high // SIDE
    return Fractals(row, col, rows, wide // lanes, rows, wide // SIDE)


#: The greatest number of a scalar of 64 bits.
MAX_INTEGER = 2**63 - 1
#: The numbers of a load of fractals.
FIELDS = ("n0", "n1", "n2", "n3", "n4", "n5")


def extents_of(numbers: Collection[str]) -> tuple[str, str]:
    """Which numbers of a load are sizes: others are starts and pitches."""
    return ("n2", "n3") if "n4" in numbers else ("n0", "n1")


def _sides_first(call: MicroCall, fields: tuple[int, ...]) -> tuple[int, ...]:
    """The size of a factor along m or n, that along k, and both starts."""
    first, second, row, col = fields
    return (first, second, row, col) if "l0a" in call.name else (second, first, row, col)


def is_transposed(call: MicroCall) -> bool:
    """Whether the fractals of a load are transposed."""
    return call.attributes.get("transpose") in (True, 1)


def _squares(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """Transposed loads are of whole squares, whose sides are rows of a fractal and numbers of one.

    Sources disagree on the unit of a start along K where two numbers share a byte.
    """
    sizes, start = extents_of(numbers), "n1" if "n4" in numbers else "n3"
    if number_of(call, 0).packed and numbers[start] != 0:
        text = "that only execution knows" if numbers[start] is None else f"of {numbers[start]}"
        yield f"a start {text} along K of {number_of(call, 0)}; allowed: 0"
    places = fractals(call, {n: v if n in sizes else v or 0 for n, v in numbers.items()})
    if places is None or not is_transposed(call):
        return
    square = max(SIDE, channels(call))
    rows, cols = places.rows * SIDE, places.cols * channels(call)
    if rows % square or cols % square:
        yield f"{rows} x {cols} elements to transpose; allowed: squares of {square}"


def _taken(call: MicroCall, numbers: Numbers) -> Rows | None:
    places = fractals(call, numbers)
    return None if places is None else places.source


def _placed(call: MicroCall, numbers: Numbers) -> Rows | None:
    places = fractals(call, numbers)
    if places is None:
        return None
    rows, cols = places.rows, places.cols
    if is_transposed(call):
        lanes = channels(call)
        rows, cols = places.cols * lanes // SIDE, places.rows * SIDE // lanes
    return Rows(rows * FRACTAL, ((cols, places.target_pitch * FRACTAL),))


def fragments(call: MicroCall, numbers: Numbers) -> Fractals | None:
    """The fragments of block scales that a load takes: rows of 16 rows, columns of two groups along K."""
    fields = all_known(numbers, (name for name in FIELDS if name in numbers))
    if fields is None or len(fields) == 6:
        return None if fields is None else Fractals(*fields)
    rows, depth, row, col = _sides_first(call, fields)
    pairs = blocks_of(blocks_of(depth, GROUP), 2)
    return Fractals(row, col, blocks_of(rows, SIDE), pairs, pairs, pairs)


def _fragments(source: bool) -> RowsOf:
    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        places = fragments(call, numbers)
        if places is None:
            return None
        pitch = places.source_pitch if source else places.target_pitch
        begin = (places.first_row * pitch + places.first_col) * FRAGMENT if source else 0
        return Rows(places.cols * FRAGMENT, ((places.rows, pitch * FRAGMENT),), begin)

    return rows


def _matrix(call: MicroCall, numbers: Numbers) -> Rows | None:
    """The bytes of a matrix in global memory."""
    size, by_column = size_of(call, 0), call.attributes.get("mode") == "dn2nz"
    values = all_known({"s2": 0, **numbers}, (*("dn" if by_column else "nd"), "s", "s2", "g"))
    if values is None:
        return None
    count, width, inner, outer, groups = values
    return Rows(width * size, ((count, inner), (groups, outer)))


#: Channels of a row where few of them are packed.
FEW = 4


def _channels(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """Few channels are four at most."""
    count = numbers.get("d")
    if numbers.get("small") and count is not None and count > FEW:
        yield f"{count} channels to be packed; allowed: up to {FEW}"


def _packed_matrix(call: MicroCall, numbers: Numbers) -> Rows | None:
    """The bytes of the same matrix in rows of fractals."""
    values = all_known(numbers, ("n", "d", "g", "d2", "d3", "d4", "small"))
    if values is None:
        return None
    n, d, groups, row, col, group, small = values
    if small:
        return Rows(blocks_of(n * FEW * size_of(call, 0), ROW) * ROW, ((groups, group * ROW),))
    blocks = blocks_of(d * size_of(call, 0), ROW)
    return Rows(ROW, ((n, row * ROW), (blocks, col * ROW), (groups, group * ROW)))


def widened(call: MicroCall) -> int:
    """How many bytes of a bias a byte of its source becomes."""
    return WORD // size_of(call, 0)


def _biases(call: MicroCall, numbers: Numbers) -> Rows | None:
    return blocks("d", unit=BIASES * widened(call))(call, numbers)


def _filled(call: MicroCall, numbers: Numbers) -> Rows | None:
    values = all_known(numbers, ("offset", "repeats", "length", "gap"))
    if values is None:
        return None
    offset, repeats, length, gap = values
    return Rows(length * ROW, ((repeats, (length + gap) * ROW),), offset)


#: An operation that accesses memories of the cube unit.
_staged = partial(micro, kind="memory", between_scopes=True, source=PAGE)
_bursts = partial(_staged, number_rules=counts)


# -- products ----------------------------------------------------------------------------------------------


def is_row(call: MicroCall, m: int) -> bool:
    """Whether a product takes its left factor as one row of elements."""
    return m == 1 and "disable_gemv" not in call.attributes


def _left(call: MicroCall, numbers: Numbers) -> Rows | None:
    shape = all_known(numbers, "mk")
    if shape is None:
        return None
    m, k = shape
    if is_row(call, m):
        return Rows(blocks_of(k * ROW, channels(call)))
    return Rows(blocks_of(m, SIDE) * blocks_of(k, channels(call)) * FRACTAL)


def _right(call: MicroCall, numbers: Numbers) -> Rows | None:
    shape = all_known(numbers, "nk")
    if shape is None:
        return None
    return Rows(blocks_of(shape[0], SIDE) * blocks_of(shape[1], channels(call, 1)) * FRACTAL)


def _sums(call: MicroCall, numbers: Numbers) -> Rows | None:
    shape = all_known(numbers, "mn")
    if shape is None:
        return None
    m, n = shape
    pitch = blocks_of(m, SIDE) * SIDE * ACC_ROW
    return Rows(
        m * min(n, SIDE) * WORD if n < SIDE and m == 1 else m * ACC_ROW, ((blocks_of(n, SIDE), pitch),)
    )


def _bias(call: MicroCall, numbers: Numbers) -> Rows | None:
    n = numbers.get("n")
    return None if n is None else Rows(n * WORD)


def _scales(side: str) -> RowsOf:
    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        shape = all_known(numbers, (side, "k"))
        if shape is None:
            return None
        return Rows(blocks_of(shape[0], SIDE) * blocks_of(blocks_of(shape[1], GROUP), 2) * FRAGMENT)

    return rows


_FLOATS = frozenset("f16 bf16 f32".split())
_SHORT = frozenset("f8e4m3 f8e5m2".split())


def pointed(op: Op, at: int) -> str:
    """The element type of a pointer or memref among the operands, by its name."""
    t = op.ins[at].type if at < len(op.ins) else None
    return t.dtype.name if isinstance(t, PtrType | MemRefType) else ""


def _factors(op: Op) -> Iterator[str]:
    """Element types of a product: equal floats, two fp8, two hif8, two 8-bit integers."""
    left, right, result = (pointed(op, k) for k in range(3))
    if not (left and right and result):
        return
    block_scaled = "_mx" in op.name
    packed = block_scaled and left.startswith("f4") and right.startswith("f4")
    floats = (
        packed
        or {left, right} <= _SHORT
        or (not block_scaled and left == right and left in (*_FLOATS, "hif8"))
    )
    integers = not block_scaled and left == right and left in ("i8", "u8")
    if not floats and not integers:
        allowed = (
            "f8E4M3FN and f8E5M2, or 4-bit floats"
            if block_scaled
            else "f16, bf16, f32, hif8, i8, ui8 twice, or two fp8"
        )
        yield f"got factors of {left} and {right}; allowed: {allowed}"
    elif result != (expected := "i32" if integers else "f32"):
        yield f"got sums of {result}; allowed: {expected}, for factors of {left} and {right}"
    elif integers and "saturate" in op.attrs:
        yield f"got {op.attrs['saturate']} with integers; allowed: with floats"
    elif "tf32" in op.attrs and left != "f32":
        yield f"got tf32_mode with factors of {left}; allowed: f32"


def _bias_type(op: Op) -> Iterator[str]:
    result, bias = pointed(op, 2), pointed(op, 3)
    if result and bias and result != bias:
        yield f"got a bias of {bias}; allowed: {result}, as the sums"


_CLAUSES = (
    "(? unit_flag ( @unit_flag:word ) ?) (? @disable_gemv:word ?) (? @saturate:word ?) "
    "{}(? @n_dir:word ?) {{}}"
)
_TF32 = "(? tf32_mode ( @tf32:word ) ?) "
LIMIT = (1, 4095)


_PRODUCT_WORDS = {"unit_flag": "check_only check_and_set", "disable_gemv": "disable_gemv",
                  "saturate": "sat nosat", "n_dir": "n_dir"}  # fmt: skip


def _product(name: str, summary: str) -> MicroOperation:
    bias, scaled, adds = "bias" in name, "_mx" in name, "acc" in name
    left, right = (" * lhs_scale[m, k / 32]", " * rhs_scale[k / 32, n]") if scaled else ("", "")
    total = f"sum over k of lhs[m, k]{left} * rhs[k, n]{right}" + (" + bias[n]" if bias else "")
    operands = ["lhs", "rhs", "dst", *(["bias"] if bias else [])]
    shown, types = (" , ".join(f"{sign}{n}" for n in operands) for sign in "$!")
    places = [place_of("lhs", "read", _left), place_of("rhs", "read", _right)]
    places += [place_of("bias", "read", _bias)] if bias else []
    places += [
        place_of(of, "read", _scales(side), name=f"{of}_scale", beside=SCALES[of])
        for of, side in (("lhs", "m"), ("rhs", "n")) if scaled
    ]  # fmt: skip
    places += [place_of("dst", "read", _sums)] if adds else []
    return _staged(
        name, summary, " ".join((*operands, "m n k")),
        "@l0a @l0b @l0c " + ("@bt " if bias else "") + "i64 i64 i64", pipe=Pipe.M,
        written=f"{shown} , $m , $n , $k {_CLAUSES.format('' if scaled else _TF32)} : {types} , !m , !n , !k",
        clauses=_PRODUCT_WORDS if scaled else {**_PRODUCT_WORDS, "tf32": "round_even round_away"},
        places=[*places, place_of("dst", "write", _sums)], rules=(_factors, *([_bias_type] if bias else [])),
        limits={"m": LIMIT, "n": LIMIT, "k": LIMIT}, semantics=f"dst[m, n] {'+=' if adds else '='} {total}",
        decisions=(_SUMS, _SATURATED, CONTROL, _OUTSIDE, *([_PACKED] if scaled else [])),
    )  # fmt: skip


_PRODUCTS = tuple(
    _product(name, summary)
    for name, summary in (
        ("mad", "Matrix product."),
        ("mad_acc", "Matrix product added to an accumulator."),
        ("mad_bias", "Matrix product with a bias."),
        ("mad_mx", "Block-scaled matrix product: 32 elements along K share a power of two."),
        ("mad_mx_acc", "Block-scaled matrix product added to an accumulator."),
        ("mad_mx_bias", "Block-scaled matrix product with a bias."),
    )
)


# -- staging -----------------------------------------------------------------------------------------------

_LOAD_WORDS = "src dst n0 n1 n2 n3 n4? n5?"
_STEPS = "m_start, k_start, m_step, k_step, src_stride, dst_stride"
_SCALE_STEPS = "x_start, y_start, x_step, y_step, src_stride, dst_stride"
#: Least and greatest values of the six fields of a load of fractals.
_FIELD_RANGES = ((0, 65535), (0, 65535), (1, 255), (1, 255), (1, 65535), (1, 65535))


def _sizes(name: str) -> str:
    """The four numbers of a load: the sizes of the factor, and where it begins."""
    return ("m, k" if "l0a" in name else "k, n") + ", start_row, start_col"


def _load_text(name: str, steps: str) -> str:
    """Numbers in their order or by their names."""
    forms = f"{_sizes(name)}|{steps}".replace(" ", "")
    return (
        f"$src , $dst , (?{forms} $n0 , $n1 , $n2 , $n3 (? , $n4 , $n5 ?) ?) {{}} "
        ": !src , !dst , !n0 , !n1 , !n2 , !n3 (?t , !n4 , !n5 ?)"
    )


def _field_ranges(steps: str, ranges: Sequence[tuple[int, int]]) -> NumberRules:
    """Numbers are in the ranges of their fields; sizes and starts count from 0."""

    def rule(call: MicroCall, numbers: Numbers) -> Iterator[str]:
        six = "n4" in numbers
        fields = (steps if six else _sizes(call.name)).split(", ")
        for k, (field, limits) in enumerate(zip(fields, ranges, strict=False)):
            number, (low, high) = numbers.get(f"n{k}"), limits if six else (0, MAX_INTEGER)
            if number is not None and not low <= number <= high:
                text = f"{low} or more" if high == MAX_INTEGER else f"{low} to {high}"
                yield f"{field} = {number}; allowed: {text}"

    return rule


def _fractal_load(name: str, side: str, target: str) -> MicroOperation:
    raw = name.startswith("load")
    return _staged(
        name,
        f"Load of fractals of the {side} factor.",
        _LOAD_WORDS.replace("?", "") if raw else _LOAD_WORDS,
        f"@l1 @{target} i64 i64 i64 i64 i64 i64",
        pipe=Pipe.MTE1,
        written="" if raw else _load_text(name, _STEPS),
        places=(place_of("src", "read", _taken), place_of("dst", "write", _placed)),
        rules=(_one_type, _no_pairs if raw else _field_limits),
        flags="transpose",
        number_rules=_field_ranges(_STEPS, _FIELD_RANGES),
        unexecuted=_squares,
        semantics="numbers: " + (_STEPS if raw else f"{_sizes(name)}; or {_STEPS}"),
        decisions=(OVERLAPS, _PACKED) if raw else (_STARTS, _OUTSIDE, OVERLAPS, _PACKED),
    )


def _one_type(op: Op) -> Iterator[str]:
    # A pair of 4-bit numbers is also an element.
    source, target = (pointed(op, k).replace("_pair", "x2") for k in (0, 1))
    if source and target and source != target:
        yield f"got {source} copied to {target}; allowed: one element type"


def _no_pairs(op: Op) -> Iterator[str]:
    """Two numbers in a byte are loaded by wrappers, whose expansion has operations of its own for them."""
    pairs = [t for t in (pointed(op, k) for k in (0, 1)) if t.startswith("f4")]
    if pairs:
        wrapper = op.name.replace("load_cbuf_to_c", "pto.mte_l1_l0")
        yield f"got {pairs[0]}, two numbers in a byte; allowed: other elements, or {wrapper}"


def has_operand(op: Op, name: str) -> bool:
    """Whether an operation has an optional operand."""
    return any(n == name and size for n, size in op.groups)


def _field_limits(op: Op) -> Iterator[str]:
    """The six fields come together; of the others there are four."""
    if op.groups and has_operand(op, "n4") != has_operand(op, "n5"):
        yield f"got five numbers; allowed: four, or six ({_STEPS})"


def _scale_load(name: str, side: str, target: str) -> MicroOperation:
    scales = SCALES["lhs" if side == "left" else "rhs"]
    return _staged(
        name,
        f"Load of the block scales of the {side} factor.",
        _LOAD_WORDS,
        f"@l1 @{target} i64 i64 i64 i64 i64 i64",
        pipe=Pipe.MTE1,
        written=_load_text(name, _SCALE_STEPS),
        number_rules=_field_ranges(_SCALE_STEPS, ((0, MAX_INTEGER),) * 6),
        places=(
            place_of("src", "read", _fragments(source=True), aligned=lambda call: ROW),
            place_of("dst", "write", _fragments(source=False), beside=scales, aligned=lambda call: 16),
        ),
        rules=(_field_limits,),
        semantics=f"numbers: {_sizes(name)}; or {_SCALE_STEPS}",
        decisions=(_STARTS,),
    )


_FRACTIONAL_TEXT = (
    "$gm , $l1 , @mode:word , shape ( $n , $d ) , src_layout ( $s (? , $s2 ?) ) , "
    "dst_group ( $g , $d2 , $d3 , $d4 ) , ctrl ( $l2 , $small ) {} "
    ": !gm , !l1 , @mode:again , shape !n , !d , src_layout ( !s (?t , !s2 ?) ) , "
    "dst_group !g , !d2 , !d3 , !d4 , ctrl !l2 , !small"
)


_NAMES = {"gm": "global memory", "l1": "L1", "ub": "the unified buffer"}
_BURSTS = "$src , $dst , $len nburst ( $n , $s , $d ) {} : !src , !dst , !len , !n , !s , !d"
_GROUPED_TYPES = " ".join(["i64"] * len(GROUPED_WORDS.split()))


def _copy(
    name: str, first: str, second: str, pipe: Pipe, words: str, decisions: Sequence[Decision] = ()
) -> MicroOperation:
    """A copy of blocks of 32 bytes with gaps behind a burst."""
    spaces = {"gm": "g*", "ub": "@ub", "l1": "@l1"}
    core = (lambda call, numbers: numbers.get("sid", 0)) if first == "l1" else None
    return _bursts(
        name,
        f"Bursts of 32-byte blocks from {_NAMES[first]} into {_NAMES[second]}.",
        f"{first} {second} {words}",
        f"{spaces[first]} {spaces[second]} " + " ".join("i64" for _ in words.split()),
        pipe=pipe,
        places=(place_of(first, "read", blocks("s")), place_of(second, "write", blocks("d"), subblock=core)),
        decisions=decisions,
    )


def _grouped_copy(name: str, first: str, second: str, pipe: Pipe, what: str) -> MicroOperation:
    """A copy of blocks in loops over bytes."""
    return _bursts(
        name,
        f"Bursts of 32-byte blocks from {what}.",
        f"{first} {second} {GROUPED_WORDS}",
        f"@{first} @{second} {_GROUPED_TYPES}",
        pipe=pipe,
        written=grouped(first, second),
        places=(
            place_of(first, "read", blocks("s", looped=True)),
            place_of(second, "write", blocks("d", looped=True), subblock=lambda call, numbers: 0),
        ),
        decisions=(_BLOCKS,),
    )


def _bias_pairs(op: Op) -> Iterator[str]:
    pair = pointed(op, 0), pointed(op, 1)
    if all(pair) and pair not in (("f32", "f32"), ("i32", "i32"), ("f16", "f32"), ("bf16", "f32")):
        yield f"got {pair[0]} as {pair[1]}; allowed: f32, f16 and bf16 as f32, i32 as i32"


def _fill_word(op: Op) -> Iterator[str]:
    if op.attrs.get("fill_word_bits") not in (16, 32):
        yield f"got fill_word_bits = {op.attrs.get('fill_word_bits')}; allowed: 16, 32"


def _fill_offset(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """A fill begins at a block."""
    offset = numbers.get("offset")
    if offset is not None and (offset < 0 or offset % ROW):
        yield f"offset = {offset}; allowed: multiples of {ROW} bytes from 0 on"


_BIAS_UNIT = Decision(
    "In which units does it count?",
    "In 32 bytes of the source, gaps of the destination in what these become.",
    "copies of a bias in the headers of pto-isa for a5 (TMov.hpp)",
)
_PARAMETER_UNIT = Decision(
    "In which units does it count?",
    "In 64 bytes.",
    "copies of parameters in the headers of pto-isa for a5 (TMov.hpp); sizes in public cases",
)
_PARAMETER_PARTS = Decision(
    "Which addresses does the memory of parameters have?",
    "Two parts of equal size: from 0 on for words of quantisation, from 65536 on for slopes. "
    "A store reads them where its pointer says.",
    f"{EXPANSION}: bits 15:0 are the address in a part; a public case has slopes at 65600",
)

_STAGING = (
    _bursts("mte_gm_l1", "Bursts of bytes from global memory into L1.", f"gm l1 {GROUPED_WORDS}",
            f"g* @l1 {_GROUPED_TYPES}", pipe=Pipe.MTE2, written=grouped("gm", "l1"),
            places=(place_of("gm", "read", grouped_rows("s")), place_of("l1", "write", grouped_rows("d")))),
    _grouped_copy("mte_l1_ub", "l1", "ub", Pipe.MTE1, "L1 into the unified buffer of the first vector core"),
    _grouped_copy("mte_ub_l1", "ub", "l1", Pipe.MTE3, "the unified buffer into L1"),
    _copy("copy_gm_to_cbuf", "gm", "l1", Pipe.MTE2, "n len s d", decisions=(_UNKNOWN_COPY,)),
    _copy("copy_ubuf_to_cbuf", "ub", "l1", Pipe.MTE3, "sid n len s d"),
    _copy("copy_cbuf_to_ubuf", "l1", "ub", Pipe.MTE1, "sid n len s d"),
    _staged("mte_gm_l1_frac",
            "Matrices from global memory into fractals of L1, with zeros behind their columns.",
            "gm l1 n d s s2? g d2 d3 d4 l2 small", "g* @l1 i64 i64 i64 i64 i64 i64 i64 i64 i64 i1",
            pipe=Pipe.MTE2, written=_FRACTIONAL_TEXT, choices={"mode": "nd2nz dn2nz"},
            places=(place_of("gm", "read", _matrix), place_of("l1", "write", _packed_matrix)),
            rules=(_one_type,), limits={"g": (1, 65535)}, unexecuted=_channels,
            semantics="nd2nz reads src[n, d], dn2nz src[d, n]; element (n, d) becomes that of row n and "
                      "column d", decisions=(_SMALL, OVERLAPS, _PACKED)),
    *(load(f"{prefix}{letter}{suffix}", side, f"l0{letter}")
      for load, prefix, suffix in ((_fractal_load, "mte_l1_l0", ""), (_fractal_load, "load_cbuf_to_c", ""),
                                   (_scale_load, "mte_l1_l0", "_mx"))
      for letter, side in (("a", "left"), ("b", "right"))),
    _bursts("mte_l1_bt", "Load of a bias, widened to 32 bits.", "src dst len n s d",
            "@l1 @bt i64 i64 i64 i64",
            pipe=Pipe.MTE1, written=_BURSTS, rules=(_bias_pairs,), decisions=(_BIAS_UNIT,),
            places=(place_of("src", "read", blocks("s", unit=BIASES)), place_of("dst", "write", _biases))),
    _bursts("mte_l1_fb", "Load of parameters of stores: 64-bit words of quantisation, or slopes.",
            "src dst len n s d", "@l1 @fb i64 i64 i64 i64", pipe=Pipe.FIX, written=_BURSTS,
            places=(place_of("src", "read", blocks("s", unit=PARAMETERS)),
                    place_of("dst", "write", blocks("d", unit=PARAMETERS))),
            decisions=(_PARAMETER_UNIT, _PARAMETER_PARTS)),
    _staged("raw_fill_l1", "A word repeated in blocks of L1.", "dst offset value repeats length gap",
            "@l1 i64 i32 i64 i64 i64", pipe=Pipe.MTE2, places=(place_of("dst", "write", _filled),),
            rules=(_fill_word,), number_rules=_fill_offset,
            limits=dict.fromkeys(("repeats", "length", "gap"), (0, 32767))),
)  # fmt: skip

_scalar = partial(micro, kind="scalar")
_CONTROLS = (
    _scalar("get_ctrl", "The control register.", "-> result", "-> i64", written="{} : ^", source=PAGE),
    _scalar("set_ctrl", "Set the control register.", "value", "i64", traits=_MODE, source=PAGE),
    *(_scalar(f"sbitset{bit}", f"A number with a bit set to {bit}.", "value at -> result", "i64 i64 -> i64",
              source="micro-isa chapter 18") for bit in (0, 1)),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_STAGING, *_PRODUCTS, *_CONTROLS)
