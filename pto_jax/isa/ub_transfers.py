"""Micro-operations that move bytes between global memory and the unified buffer, and what configures them."""

from collections.abc import Mapping

from ..ir import Pipe
from .declare import Decision
from .micro import MicroCall, MicroOperation, Place, Span, micro
from .traits import Effect, Traits

_PAGE = "micro-isa chapter 02"
#: Loops around the bursts of one transfer, from the inner to the outer one.
LOOPS = 4
_PADS = Decision(
    "Which bytes does a pad fill?",
    "Left elements, the data, right elements, then up to the next 32 bytes. Without a pad these bytes are "
    "undefined.",
    f"{_PAGE}: its text and its C code differ",
)
_REGISTERS = Decision(
    "Do the grouped forms obey the registers of loop sizes and strides?",
    "No: they have loops of their own. The raw copies obey them.",
    f"{_PAGE}; cases set such registers before grouped copies without an effect",
)
_ORDER = Decision(
    "Which operand of the registers of loops is which?",
    "Sizes: outer, inner. Strides: source, destination, in bytes.",
    "operand names of the assembler; public cases set sizes of 1 only",
)
_MODE = Traits(effects=(Effect("write", "mode"),))


def _strided(count: str, length: str, stride: str, loops: str, blocks: int = 1) -> Span:
    """The bytes that a grouped transfer may access on one side.

    ``loops`` is the letter of its strides, and a burst takes whole ``blocks`` of bytes.
    """

    def span(call: MicroCall, numbers: Mapping[str, int | None]) -> int | None:
        steps = [(numbers.get(count), numbers.get(stride))]
        for k in range(1, LOOPS + 1):
            if f"c{k}" in numbers:
                steps.append((numbers[f"c{k}"], numbers[f"{loops}{k}"]))
        reach = numbers.get(length)
        for times, step in steps:
            if reach is None or times is None or step is None or step < 0:
                return None
            reach += max(0, times - 1) * step
        return None if reach is None else -(-reach // blocks) * blocks

    return span


def _grouped(first: str, second: str, extra: str, after: str, tail: str, tail_types: str) -> str:
    loops = " ".join(f"(? loop ( $c{k} , $s{k} , $d{k} ) ?)" for k in range(1, LOOPS + 1))
    types = " ".join(f"(?t , loop !c{k} , !s{k} , !d{k} ?)" for k in range(1, LOOPS + 1))
    shown = f"${first} , ${second} , {extra}$len nburst ( $n , $s , $d ) {after} {loops} {tail} {{}}"
    typed = extra.replace("$", "!")
    behind = "(?t , !l2 ?)" if after else ""
    return f"{shown} : !{first} , !{second} , {typed}!len , !n , !s , !d {behind} {types} {tail_types}"


_LOAD_TEXT = _grouped(
    "gm",
    "ub",
    "$l2 , ",
    "",
    "(? pad ( $pad (? , $left , $right ?) ) ?)",
    "(?t , pad !pad (?t , !left , !right ?) ?)",
)
_STORE_TEXT = _grouped("ub", "gm", "", "(? l2_cache_ctl ( $l2 ) ?)", "", "")


def _blocks(stride: str) -> Span:
    """The bytes of bursts of 32-byte blocks with gaps after them."""

    def span(call: MicroCall, numbers: Mapping[str, int | None]) -> int | None:
        n, length, gap = (numbers.get(name) for name in ("n", "len", stride))
        if n is None or length is None or gap is None or gap < 0:
            return None
        return 32 * max(0, n * length + max(0, n - 1) * gap)

    return span


def _set(name: str, operands: str, summary: str) -> MicroOperation:
    types = " ".join("n" for _ in operands.split())
    return micro(name, summary, operands, types, kind="scalar", traits=_MODE, source=_PAGE)


_RAW_LOAD = "gm ub sid n len left right select l2 gm_stride ub_stride"
_RAW_STORE = "ub gm sid n len l2 gm_stride ub_stride"

OPERATIONS: tuple[MicroOperation, ...] = (
    micro(
        "mte_gm_ub",
        "Bursts of bytes from global memory into the unified buffer.",
        " ".join(
            ("gm ub l2 len n s d", *(f"c{k}? s{k}? d{k}?" for k in range(1, LOOPS + 1)), "pad? left? right?")
        ),
        " ".join(("g* p* n n n n n", *("n n n" for _ in range(LOOPS)), "- n n")),
        kind="memory",
        pipe=Pipe.MTE2,
        written=_LOAD_TEXT,
        places=(
            Place("gm", "read", span=_strided("n", "len", "s", "s")),
            Place("ub", "write", span=_strided("n", "len", "d", "d", 32), aligned=lambda call: 32),
        ),
        decisions=(_PADS, _REGISTERS),
        source=_PAGE,
    ),
    micro(
        "mte_ub_gm",
        "Bursts of bytes from the unified buffer into global memory.",
        " ".join(("ub gm len n s d l2?", *(f"c{k}? s{k}? d{k}?" for k in range(1, LOOPS + 1)))),
        " ".join(("p* g* n n n n n", *("n n n" for _ in range(LOOPS)))),
        kind="memory",
        pipe=Pipe.MTE3,
        written=_STORE_TEXT,
        places=(
            Place("ub", "read", span=_strided("n", "len", "s", "s"), aligned=lambda call: 32),
            Place("gm", "write", span=_strided("n", "len", "d", "d")),
        ),
        decisions=(_REGISTERS,),
        source=_PAGE,
    ),
    micro(
        "mte_ub_ub",
        "Bursts of 32-byte blocks inside the unified buffer, with gaps after them.",
        "src dst len n s d",
        "p* p* n n n n",
        kind="memory",
        written="$src , $dst , $len nburst ( $n , $s , $d ) {} : !src , !dst , !len , !n , !s , !d",
        places=(
            Place("src", "read", span=_blocks("s"), aligned=lambda call: 32),
            Place("dst", "write", span=_blocks("d"), aligned=lambda call: 32),
        ),
        source=_PAGE,
    ),
    micro(
        "copy_gm_to_ubuf",
        "Bursts of bytes from global memory into the unified buffer, inside the loops that registers give.",
        _RAW_LOAD,
        "g* p* n n n n n n n n n",
        kind="memory",
        pipe=Pipe.MTE2,
        places=(Place("gm", "read"), Place("ub", "write", aligned=lambda call: 32)),
        decisions=(_ORDER, _PADS),
        source=_PAGE,
    ),
    micro(
        "copy_ubuf_to_gm",
        "Bursts of bytes from the unified buffer into global memory, inside the loops that registers give.",
        _RAW_STORE,
        "p* g* n n n n n n",
        kind="memory",
        pipe=Pipe.MTE3,
        places=(Place("ub", "read", aligned=lambda call: 32), Place("gm", "write")),
        decisions=(_ORDER,),
        source=_PAGE,
    ),
    *(
        _set(f"set_{what}_{way}", operands, f"Register of the raw copies: {summary}.")
        for way in ("outtoub", "ubtoout")
        for what, operands, summary in (
            ("loop_size", "outer inner", "sizes of the two loops"),
            ("loop1_stride", "source destination", "strides of the inner loop"),
            ("loop2_stride", "source destination", "strides of the outer loop"),
        )
    ),
    micro(
        "ld_dev",
        "Load of a scalar from global memory, past the caches of the core.",
        "gm[offset] -> value",
        "g* n -> -",
        kind="scalar",
        places=(Place("gm", "read"),),
        source="micro-isa chapter 14",
    ),
    micro(
        "st_dev",
        "Store of a scalar to global memory, past the caches of the core.",
        "value gm[offset]",
        "- g* n",
        kind="scalar",
        written="$value , $gm [ $offset ] {} : !gm , !value",
        places=(Place("gm", "write"),),
        source="micro-isa chapter 14",
    ),
    micro(
        "dcci",
        "Clean and invalidate a cache.",
        'ptr "line" "dst"',
        "- - -",
        kind="order",
        written="$ptr @line:string (? , @dst:string ?) {} : !ptr",
        choices={
            "line": "SINGLE_CACHE_LINE ENTIRE_DATA_CACHE",
            "dst": "CACHELINE_ALL CACHELINE_UB CACHELINE_OUT CACHELINE_ATOMIC",
        },
        source="micro-isa chapter 01",
    ),
    _set("set_mov_pad_val", "value", "Value that the raw copies pad with."),
    *(
        _set(f"set_atomic_{what}", "", "Mode or type of atomic stores into global memory.")
        for what in ("add", "max", "min", "none", "f32", "f16", "bf16", "s32", "s16", "s8")
    ),
)
