"""Memory and data movement: transfers between global memory and tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..dtypes import dtype
from ..profiles import Profile
from ..types import (
    AtomicType,
    GlobalLayout,
    Loc,
    PartitionViewType,
    Pipe,
    ReluPreMode,
    StPhase,
    TensorViewType,
    TileType,
    Type,
)
from .common import PAGES, SIMULATOR_VALUES
from .constraints import HARDWARE, HEADERS, element_type, place, size, type_row, with_dtype
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .typesets import BYTE_FLOATS, NIBBLE_FLOATS, STANDARD, TypeTable, table

_STORED = (*STANDARD, *BYTE_FLOATS, *NIBBLE_FLOATS, "f8e8m0", "i4")
#: Tiles of every stored type move; i4 is packed on A2/A3 only.
MOVED: TypeTable = table(_STORED, (*STANDARD, "i4"), tuple(d for d in _STORED if d != "i4"))
_QUANTISED_LOCS = (Loc.ACC,)


def _elements_match(tile: str, view: str, *, converts: bool) -> Constraint:
    """A transfer copies bits: elements of one size; an accumulator store may convert."""

    def check(site: Site) -> Iterator[Finding]:
        t, d = site.tile(tile), element_type(site.types.get(view))
        if t is None or d is None or t.dtype.storage_bits == d.storage_bits:
            return
        if converts and (t.loc in _QUANTISED_LOCS or site.profile.name == "cpu_sim"):
            return
        yield (
            view,
            f"{view} has element type {d}, {tile} has {t.dtype}; allowed: elements of one size"
            + (" (only accumulator tiles are converted)" if converts else ""),
        )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        if converts and profile.name == "cpu_sim":
            return False
        d = element_type(types[view])
        types[view] = with_dtype(types[view], dtype("f32" if d is None or d.storage_bits != 32 else "f16"))
        return True

    return Constraint(
        "element-size",
        f"elements of {tile} and {view} have one size",
        check,
        source=f"{PAGES}; {HEADERS}",
        breaks=breaks,
    )


def _reinterprets(tile: str, view: str) -> Constraint:
    def check(site: Site) -> Iterator[Finding]:
        t, d = site.tile(tile), element_type(site.types.get(view))
        if t is None or d is None or t.dtype == d or t.dtype.storage_bits != d.storage_bits:
            return
        if t.dtype.is_integer and d.is_integer:
            return
        yield (
            view,
            f"{view} has element type {d}, {tile} has {t.dtype}; the bits are copied, no value is converted",
        )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        d = element_type(types[view])
        if d is None or d.name != "f32":
            return False
        types[view] = with_dtype(types[view], dtype("i32"))
        return True

    return Constraint(
        "reinterprets",
        f"{tile} and {view} have one element type",
        check,
        severity="warning",
        source=HEADERS,
        breaks=breaks,
    )


def _window_shape(dims: tuple[int | None, ...], layout: GlobalLayout | None) -> tuple[int | None, int | None]:
    """Rows and columns a window has as a tile: leading dimensions are rows, the last one columns.

    Layouts other than nd order more than two dimensions differently.
    """
    five = (1,) * (5 - len(dims)) + dims
    if layout == GlobalLayout.NZ:
        return _times(five[2], five[3]), _times(five[0], five[1], five[4])
    if layout == GlobalLayout.DN and len(dims) > 2:
        return five[3], _times(five[0], five[1], five[2], five[4])
    return _times(*five[:4]), five[4]


def _times(*sizes: int | None) -> int | None:
    return None if None in sizes else prod(s for s in sizes if s is not None)


def _window_fits(tile: str, view: str) -> Constraint:
    """Where all sizes are static the window has as many elements as the tile has valid lanes."""

    def check(site: Site) -> Iterator[Finding]:
        t, v = site.types.get(tile), site.types.get(view)
        if not isinstance(t, TileType) or not isinstance(v, PartitionViewType | TensorViewType):
            return
        if site.op.group("offsets") or t.v_row is None or t.v_col is None:
            return
        count = _times(*v.dims)
        if count is not None and count != t.v_row * t.v_col:
            rows, cols = _window_shape(v.dims, None)
            yield (
                view,
                f"{view} has {count} elements ({'x'.join(size(d) for d in v.dims)}), the valid "
                f"region of {tile} has "
                f"{t.v_row * t.v_col} ({t.v_row}x{t.v_col}); allowed: equal sizes, or a dynamic valid region",
            )
            return
        rows, cols = _window_shape(v.dims, None)
        if len(v.dims) <= 2 and (rows, cols) != (t.v_row, t.v_col) and count is not None:
            yield (
                view,
                f"{view} is a window of {size(rows)}x{size(cols)}, the valid region of {tile} is "
                f"{t.v_row}x{t.v_col}; "
                "allowed: equal rows and columns",
            )

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        v = types[view]
        if not isinstance(v, PartitionViewType) or v.dims[0] is None:
            return False
        types[view] = replace(v, dims=(v.dims[0] - 1, *v.dims[1:]))
        return True

    return Constraint(
        "window-size",
        f"{view} has the shape of the valid region of {tile}, where both are static",
        check,
        source=f"{PAGES}; PTOAS verifier",
        breaks=breaks,
    )


def _accumulator_only() -> Constraint:
    """Pre-quantisation and ReLU while storing exist for accumulator tiles."""

    def check(site: Site) -> Iterator[Finding]:
        t = site.tile("src")
        if t is None or t.loc == Loc.ACC:
            return
        if "preQuantScalar" in site.values:
            yield "preQuantScalar", f"a {t.loc.name.lower()} tile with preQuantScalar; allowed: an acc tile"
        if site.attrs.get("reluPreMode") == ReluPreMode.NORMAL_RELU:
            yield "src", f"a {t.loc.name.lower()} tile with reluPreMode normal_relu; allowed: an acc tile"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        attrs["reluPreMode"] = ReluPreMode.NORMAL_RELU
        return True

    return Constraint(
        "acc-only",
        "quantisation and ReLU with acc tiles only",
        check,
        HARDWARE,
        source=f"{HEADERS}; PTOAS verifier",
        breaks=breaks,
    )


def _atomic_types() -> Constraint:
    allowed = ("f16", "f32", "i16", "i32", "i8", "bf16")

    def check(site: Site) -> Iterator[Finding]:
        d = element_type(site.types.get("dst"))
        if site.attrs.get("atomicType") == AtomicType.ATOMIC_ADD and d is not None and d.name not in allowed:
            yield "dst", f"atomic_add on {d}; allowed on {site.profile.name}: {', '.join(allowed)}"

    def breaks(types: dict[str, Type], attrs: AttrMap, profile: Profile) -> bool:
        d = element_type(types["dst"])
        if d is None or d.name in allowed:
            return False
        attrs["atomicType"] = AtomicType.ATOMIC_ADD
        return True

    return Constraint(
        "atomic-type", f"atomic_add on {', '.join(allowed)}", check, HARDWARE, source=HEADERS, breaks=breaks
    )


_LOAD_OPERANDS = (
    Operand("dst", "out", note="vec or mat tile; its valid region is the transfer's shape"),
    Operand("src", "in", "gm", None),
)
_STORE_OPERANDS = (
    Operand("dst", "out", "gm", None),
    Operand("src", "in", note="its valid region is the transfer's shape"),
    Operand(
        "preQuantScalar", "in", "scalar", None, optional=True, note="64-bit word, accumulator tiles only"
    ),
)
_PTOAS_LOAD = tuple(
    Attribute(name, kind, None, "assembler option without effect on values")
    for name, kind in (
        ("pad_mode", str),
        ("pad_value", str),
        ("left_padding_num", int),
        ("right_padding_num", int),
        ("init_out_buffer", bool),
        ("init_condition", str),
    )
)
_LAYOUT = Attribute("layout", GlobalLayout, None, "layout of the view; absent: as the view says")
_INFERRED = Attribute(
    "inferred_layout", bool, None, "mark of the assembler's layout inference", ("pto.inferred_layout",)
)

INSTRUCTIONS: tuple[Instruction, ...] = (
    Instruction(
        "tload",
        "memory",
        "Copy a window of global memory into a tile.",
        "dst(r, c) = window element (r, c) as a bit copy, through the window's strides and the "
        "tile's layout. cpu_sim "
        "first fills the whole tile with its pad value (0 for null); a2a3 and a5 pad to the next 32 "
        "bytes only.",
        _LOAD_OPERANDS,
        MOVED,
        ("T",),
        (_LAYOUT, _INFERRED, *_PTOAS_LOAD),
        (
            type_row(_LOAD_OPERANDS, ("T",), MOVED),
            place((_LOAD_OPERANDS[0],), (Loc.VEC, Loc.MAT), ("cpu_sim", "a2a3", "a5")),
            _elements_match("dst", "src", converts=False),
            _reinterprets("dst", "src"),
            _window_fits("dst", "src"),
        ),
        (("src",),),
        "dst",
        Pipe.MTE2,
        decisions=(
            Decision(
                "Must the window have the tile's valid shape?",
                "Where both are static, yes; a dynamic valid region smaller than the window "
                "transfers its own lanes.",
                f"{PAGES}; PTOAS verifier and programs; the simulator's assertions are not rules",
            ),
            Decision(
                "What do lanes outside the valid region hold after a load?",
                "cpu_sim: the pad value, 0 for null. a2a3 and a5: unchanged, except padding up to "
                "the next 32 bytes.",
                SIMULATOR_VALUES,
            ),
        ),
        sources=("page tload", HEADERS, SIMULATOR_VALUES),
    ),
    Instruction(
        "tstore",
        "memory",
        "Copy a tile's valid region into a window of global memory.",
        "window element (r, c) = src(r, c) for the valid lanes of src; atomic_add adds in the "
        "element type of the "
        "window. Elements outside the window keep their value.",
        _STORE_OPERANDS,
        MOVED,
        ("T",),
        (
            Attribute(
                "atomicType",
                AtomicType,
                AtomicType.ATOMIC_NONE,
                "overwrite or add",
                ("atomicType", "atomic_type"),
            ),
            Attribute(
                "reluPreMode",
                ReluPreMode,
                ReluPreMode.NO_RELU,
                "clamp at zero first",
                ("reluPreMode", "relu_pre_mode"),
            ),
            Attribute(
                "stPhase", StPhase, StPhase.UNSPECIFIED, "no effect on values", ("stPhase", "st_phase")
            ),
            _LAYOUT,
            _INFERRED,
        ),
        (
            type_row(_STORE_OPERANDS, ("T",), MOVED),
            place((_STORE_OPERANDS[1],), (Loc.VEC, Loc.MAT, Loc.ACC), ("cpu_sim", "a2a3")),
            place((_STORE_OPERANDS[1],), (Loc.VEC, Loc.ACC), ("a5",)),
            _elements_match("src", "dst", converts=True),
            _reinterprets("src", "dst"),
            _window_fits("src", "dst"),
            _accumulator_only(),
            _atomic_types(),
        ),
        (("src",), ("src", "preQuantScalar")),
        "src",
        Pipe.MTE3,
        decisions=(
            Decision(
                "Is atomic_add limited to accumulator tiles, and to hardware?",
                "No: vec tiles too, and the simulator implements it.",
                f"{HEADERS}; {SIMULATOR_VALUES}",
            ),
            Decision(
                "How does ReLU while storing treat NaN and -0?",
                "v > 0 ? v : 0, so both become +0.",
                SIMULATOR_VALUES,
            ),
        ),
        sources=("page tstore", HEADERS, SIMULATOR_VALUES),
    ),
)
