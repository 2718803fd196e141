"""Micro-operations between global memory and the unified buffer, their settings, and sorting in it."""

from collections.abc import Iterator, Sequence
from functools import partial

from ..ir import Op, Pipe, ScalarType
from .declare import Decision
from .micro import Lanes, MicroCall, MicroOperation, Numbers, Place, Rows, RowsOf, Span, all_known, micro
from .rules import micro_types
from .traits import Effect, Traits

_PAGE = "micro-isa chapter 02"
#: Loops around the bursts of one transfer, from the inner to the outer one.
LOOPS = 4
#: The numbers of a grouped transfer.
_LOOPED = [f"{letter}{k}?" for k in range(1, LOOPS + 1) for letter in "csd"]
GROUPED_WORDS = " ".join(("len n s d", *_LOOPED))
_PADS = Decision(
    "Which bytes does a pad fill?",
    "Left elements, the data, right elements, then up to the next 32 bytes. Without a pad these bytes are "
    "undefined.",
    f"{_PAGE}: its text and its C code differ",
)
_REGISTERS = Decision(
    "Do the grouped forms obey the registers of loop sizes and strides?",
    "No: they have separate loops. The raw copies obey them.",
    f"{_PAGE}; cases set such registers before grouped copies without an effect",
)
_ORDER = Decision(
    "Which operand of the registers of loops is which?",
    "Sizes: outer, inner. Strides: source, destination, in bytes.",
    "operand names of the assembler; public cases set sizes of 1 only",
)
OVERLAPS = Decision(
    "What holds where destinations of one operation overlap?",
    "Bursts and rows are written one after another: the last one stays, and of atomic ones each counts. "
    "Atomic stores combine whole elements of their type.",
    f"not stated in {_PAGE}; micro-isa chapter 16 calls the value not stable for mte_gm_l1_frac",
)
_MOVES = Decision(
    "What does a move read whose source and destination overlap?",
    "The bytes from before the operation.",
    f"not stated in {_PAGE}",
)
_MODE = Traits(effects=(Effect("write", "mode"),))


def grouped_rows(stride: str, *, filled: bool = False) -> RowsOf:
    """The bursts of a grouped transfer on one side; ``stride`` is the letter of its strides there.

    ``filled``: a burst with a pad takes its pads, too, up to whole blocks of 32 bytes.
    """

    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        steps = [(numbers.get("n"), numbers.get(stride))]
        for k in range(1, LOOPS + 1):
            if f"c{k}" in numbers:
                steps.append((numbers[f"c{k}"], numbers[f"{stride}{k}"]))
        length = numbers.get("len")
        if filled and "pad" in numbers and length is not None:
            length = _padded(call, length, numbers.get("left", 0), numbers.get("right", 0))
        return _made(length, steps)

    return rows


def _padded(call: MicroCall, length: int, left: int | None, right: int | None) -> int | None:
    """The bytes of a burst with elements on both sides, in whole blocks."""
    to = call.types[1]
    if left is None or right is None or not isinstance(to, Lanes):
        return None
    return -(-(length + (left + right) * to.dtype.storage_bits // 8) // 32) * 32


def _made(width: int | None, steps: Sequence[tuple[int | None, int | None]]) -> Rows | None:
    sizes = [(count, step) for count, step in steps if count is not None and step is not None]
    return None if width is None or len(sizes) < len(steps) else Rows(width, tuple(sizes))


def reach(rows: RowsOf, blocks: int = 1) -> Span:
    """The bytes from the first to the last one of rows, in whole ``blocks``."""

    def span(call: MicroCall, numbers: Numbers) -> int | None:
        extent = rows(call, numbers)
        if extent is None or any(step < 0 for _, step in extent.steps):
            return None
        size = extent.start + extent.width + sum(max(0, count - 1) * step for count, step in extent.steps)
        return -(-size // blocks) * blocks

    return span


def _raw(way: str, at: int, stride: str, *, filled: bool = False) -> RowsOf:
    """The bursts of a raw copy on one side, in the loops that registers give.

    ``at`` is the side's number in the registers of strides; ``filled`` as above.
    """

    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        loops = call.attributes.get("loops", {})
        outer, inner = loops.get(f"loop_size_{way}", (1, 1))
        strides = [loops.get(f"loop{k}_stride_{way}", (0, 0))[at] for k in (1, 2)]
        steps = [(numbers["n"], numbers[stride]), (inner, strides[0]), (outer, strides[1])]
        length = numbers["len"]
        if filled and numbers.get("select") != 0 and length is not None:
            length = _padded(call, length, numbers.get("left"), numbers.get("right"))
        return _made(length, steps)

    return rows


def grouped(
    first: str, second: str, extra: str = "", after: str = "", tail: str = "", tail_types: str = ""
) -> str:
    """The text of a grouped transfer: pointers, further operands, a burst, loops, and what follows."""
    loops = " ".join(f"(? loop ( $c{k} , $s{k} , $d{k} ) ?)" for k in range(1, LOOPS + 1))
    types = " ".join(f"(?t , loop !c{k} , !s{k} , !d{k} ?)" for k in range(1, LOOPS + 1))
    text = f"${first} , ${second} , {extra}$len nburst ( $n , $s , $d ) {after} {loops} {tail} {{}}"
    typed = extra.replace("$", "!")
    behind = "(?t , !l2 ?)" if after else ""
    return f"{text} : !{first} , !{second} , {typed}!len , !n , !s , !d {behind} {types} {tail_types}"


def counts(call: MicroCall, numbers: Numbers) -> Iterator[str]:
    """Lengths and counts of bursts, loops and pads are no negative numbers."""
    for name in ("len", "n", "left", "right", *(f"c{k}" for k in range(1, LOOPS + 1))):
        number = numbers.get(name)
        if number is not None and number < 0:
            yield f"{name} = {number}; allowed: 0 or more"


def _pad_type(op: Op) -> Iterator[str]:
    """A pad is a scalar of at most 32 bits."""
    pad = op.group("pad") if any(name == "pad" and size for name, size in op.groups) else ()
    for t in (value.type for value in pad):
        if isinstance(t, ScalarType) and t.dtype.bits > 32:
            yield f"got a pad of {t}; allowed: integers of 8, 16, 32 bits, f16, bf16, f32"


_LOAD_TEXT = grouped(
    "gm",
    "ub",
    "$l2 , ",
    "",
    "(? pad ( $pad (? , $left , $right ?) ) ?)",
    "(?t , pad !pad (?t , !left , !right ?) ?)",
)
_STORE_TEXT = grouped("ub", "gm", "", "(? l2_cache_ctl ( $l2 ) ?)", "", "")


def blocks(stride: str, *, looped: bool = False, unit: int = 32) -> RowsOf:
    """Bursts of blocks of ``unit`` bytes with gaps after them, ``looped`` inside loops over bytes."""

    def rows(call: MicroCall, numbers: Numbers) -> Rows | None:
        values = all_known(numbers, ("n", "len", stride))
        if values is None:
            return None
        n, length, gap = values
        around = grouped_rows(stride)(call, numbers) if looped else None
        if looped and around is None:
            return None
        outer = around.steps[1:] if around is not None else ()
        return Rows(unit * length, ((n, unit * (length + gap)), *outer))

    return rows


def _set(name: str, operands: str, summary: str) -> MicroOperation:
    types = " ".join("i64" for _ in operands.split())
    return micro(name, summary, operands, types, kind="scalar", traits=_MODE, source=_PAGE)


_RAW_LOAD = "gm ub sid n len left right select l2 gm_stride ub_stride"
_RAW_STORE = "ub gm sid n len l2 gm_stride ub_stride"


def place_of(pointer: str, access: str, rows: RowsOf, *, whole: int = 1, **more: object) -> Place:
    """A place that is accessed in rows, from the first byte to the last one in units of ``whole``."""
    return Place(pointer, access, rows=rows, span=reach(rows, whole), **more)  # type: ignore[arg-type]


def _on_blocks(call: MicroCall) -> int:
    """Addresses of the unified buffer are multiples of a block."""
    return 32


_in_ub = partial(place_of, aligned=_on_blocks)
_COUNTS = ["i64"] * (5 + 3 * LOOPS)
_transfer = partial(micro, kind="memory", source=_PAGE, number_rules=counts)

_TRANSFERS: tuple[MicroOperation, ...] = (
    _transfer("mte_gm_ub", "Bursts of bytes from global memory into the unified buffer.",
              " ".join(("gm ub l2 len n s d", *_LOOPED, "pad? left? right?")),
              " ".join(("g* p*", *_COUNTS, "- i64 i64")), pipe=Pipe.MTE2, written=_LOAD_TEXT,
              rules=(_pad_type,),
              places=(place_of("gm", "read", grouped_rows("s")),
                      _in_ub("ub", "write", grouped_rows("d", filled=True), whole=32)),
              decisions=(_PADS, _REGISTERS, OVERLAPS)),
    _transfer("mte_ub_gm", "Bursts of bytes from the unified buffer into global memory.",
              " ".join(("ub gm len n s d l2?", *_LOOPED)), " ".join(("p* g*", *_COUNTS)), pipe=Pipe.MTE3,
              written=_STORE_TEXT,
              places=(_in_ub("ub", "read", grouped_rows("s")),
                      place_of("gm", "write", grouped_rows("d"), in_bytes="len d d1 d2 d3 d4")),
              decisions=(_REGISTERS, OVERLAPS)),
    _transfer("mte_ub_ub", "Bursts of 32-byte blocks inside the unified buffer, with gaps after them.",
              "src dst len n s d", "p* p* i64 i64 i64 i64",
              written="$src , $dst , $len nburst ( $n , $s , $d ) {} : !src , !dst , !len , !n , !s , !d",
              places=(_in_ub("src", "read", blocks("s")), _in_ub("dst", "write", blocks("d"))),
              decisions=(OVERLAPS, _MOVES)),
    _transfer("copy_gm_to_ubuf",
              "Bursts of bytes from global memory into the unified buffer, inside the loops that registers "
              "give.", _RAW_LOAD, "g* p* i64 i64 i64 i64 i64 i1 i64 i64 i64", pipe=Pipe.MTE2,
              places=(Place("gm", "read", rows=_raw("outtoub", 0, "gm_stride")),
                      Place("ub", "write", rows=_raw("outtoub", 1, "ub_stride", filled=True),
                            aligned=_on_blocks)),
              decisions=(_ORDER, _PADS, OVERLAPS)),
    _transfer("copy_ubuf_to_gm",
              "Bursts of bytes from the unified buffer into global memory, inside the loops that registers "
              "give.", _RAW_STORE, "p* g* i64 i64 i64 i64 i64 i64", pipe=Pipe.MTE3,
              places=(Place("ub", "read", rows=_raw("ubtoout", 0, "ub_stride"), aligned=_on_blocks),
                      Place("gm", "write", rows=_raw("ubtoout", 1, "gm_stride"),
                            in_bytes="len gm_stride")),
              decisions=(_ORDER, OVERLAPS)),
    *(
        _set(f"set_{what}_{way}", operands, f"Register of the raw copies: {summary}.")
        for way in ("outtoub", "ubtoout")
        for what, operands, summary in (
            ("loop_size", "outer inner", "sizes of the two loops"),
            ("loop1_stride", "source destination", "strides of the inner loop"),
            ("loop2_stride", "source destination", "strides of the outer loop"),
        )
    ),
    micro("ld_dev", "Load of a scalar from global memory, past the caches of the core.",
          "gm[offset] -> value", "g* x -> -", kind="scalar", places=(Place("gm", "read"),),
          rules=(micro_types.scalar_in_memory,), source="micro-isa chapter 14"),
    micro("st_dev", "Store of a scalar to global memory, past the caches of the core.", "value gm[offset]",
          "- g* x", kind="scalar", written="$value , $gm [ $offset ] {} : !gm , !value",
          places=(Place("gm", "write"),), rules=(micro_types.scalar_in_memory,),
          source="micro-isa chapter 14"),
    micro("dcci", "Clean and invalidate a cache.", 'ptr "line" "dst"', "- - -", kind="order",
          between_scopes=True, written="$ptr @line:string (? , @dst:string ?) {} : !ptr",
          choices={"line": "SINGLE_CACHE_LINE ENTIRE_DATA_CACHE",
                   "dst": "CACHELINE_ALL CACHELINE_UB CACHELINE_OUT CACHELINE_ATOMIC"},
          source="micro-isa chapter 01"),
    micro("set_mov_pad_val", "Value that the raw copies pad with.", "value", "-", kind="scalar",
          traits=_MODE, source=_PAGE),
    *(
        _set(f"set_atomic_{what}", "", "Mode or type of atomic stores into global memory.")
        for what in ("add", "max", "min", "none", "f32", "f16", "bf16", "s32", "s16", "s8")
    ),
)  # fmt: skip


# -- sorting and merging of records ------------------------------------------------------------------

_SORT_PAGE = "micro-isa chapter 13"
_FIELDS = Decision(
    "What are the fields of the count and of the configuration of a merge?",
    "Four lengths of 16 bits; repeats in bits 0 to 7, a bit per list from bit 8 on, and in bit 12 whether "
    "the merge ends with the first list that ends. One repeat is executed.",
    f"pto-isa headers (TMrgSort.hpp) for the same hardware; {_SORT_PAGE} says nothing",
)
_TIES = Decision(
    "Which record stands first where scores are equal?",
    "The one that stands first in the input, that of the lowest list.",
    _SORT_PAGE,
)
#: Lists that a merge takes.
LISTS = 4
#: Records that one repeat of a sort makes, and bytes of a record.
GROUP, RECORD = 32, 8


def _sorted(size: int) -> Span:
    def span(call: MicroCall, numbers: Numbers) -> int | None:
        repeats = numbers["repeats"]
        return None if repeats is None else GROUP * size * repeats

    return span


def _merged(*lists: int) -> Span:
    """The bytes of records of some lists, or those that a merge comes to for certain if it may end early."""

    def span(call: MicroCall, numbers: Numbers) -> int | None:
        count, config = numbers["count"], numbers["config"]
        if count is None or config is None:
            return None
        lengths = [(count >> 16 * k & 0xFFFF) * (config >> 8 + k & 1) for k in lists]
        early = config >> 12 & 1
        return RECORD * (min(1, max(lengths)) if early else sum(lengths))

    return span


_SOURCES = " ".join(f"src{k}" for k in range(LISTS))

_sort = partial(micro, kind="memory", source=_SORT_PAGE)
_SORTS: tuple[MicroOperation, ...] = (
    _sort("vbitsort",
          "Sort of groups of 32 scores, in descending order, into records of a score and an index.",
          "dst src idx repeats", "p* p* p* x", between_scopes=True,
          places=(Place("dst", "write", span=_sorted(RECORD)), Place("src", "read", span=_sorted(4)),
                  Place("idx", "read", span=_sorted(4))), decisions=(_TIES,)),
    _sort("vmrgsort4", "Merge of up to four lists of records, in descending order.",
          f"dst {_SOURCES} count config", "p* p* p* p* p* i64 i64", between_scopes=True,
          rules=(micro_types.records,), decisions=(_FIELDS, _TIES),
          places=(Place("dst", "write", span=_merged(*range(LISTS))),
                  *(Place(f"src{k}", "read", span=_merged(k)) for k in range(LISTS)))),
    _sort("get_vms4_sr", "Records of each list that the last merge has taken.",
          "-> list0 list1 list2 list3", "-> i16 i16 i16 i16"),
)  # fmt: skip

OPERATIONS: tuple[MicroOperation, ...] = (*_TRANSFERS, *_SORTS)
