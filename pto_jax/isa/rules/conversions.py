"""Conversions of ``tcvt`` on each profile, with their rounding and saturation.

The rows are facts about the targets; the verifier, the documentation, the lowering and the reference
interpreter all read them here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from ...errors import ArgumentError
from ...ir import RoundMode, SaturationMode, dtype
from .typesets import BYTE_FLOATS, FLOATS, NIBBLE_FLOATS, STANDARD

NEAREST_AND_DIRECTED = (
    RoundMode.RINT,
    RoundMode.ROUND,
    RoundMode.FLOOR,
    RoundMode.CEIL,
    RoundMode.TRUNC,
)


@dataclass(frozen=True)
class Conversion:
    """How one pair of element types is converted on one profile.

    ``modes`` are the rounding modes honoured, every other mode acts as ``fallback``; a fallback of None
    means that no rounding takes place (the conversion is exact, or keeps the low bits of an integer).
    ``default_saturation`` applies when the program gives no mode; None means that every source value
    has a result in range. Where ``saturation_selectable`` is false a given mode has no effect, unless
    ``selectable_with_tmp`` says that the overload with a scratch tile honours it.
    """

    modes: tuple[RoundMode, ...]
    fallback: RoundMode | None
    default_saturation: SaturationMode | None
    saturation_selectable: bool
    selectable_with_tmp: bool = False
    note: str = ""

    def rounding(self, mode: RoundMode) -> RoundMode | None:
        """The rounding mode in effect when the program asks for ``mode``."""
        return mode if mode in self.modes else self.fallback

    def saturation(self, given: SaturationMode | None, *, tmp: bool = False) -> SaturationMode | None:
        """The saturation mode in effect when the program gives ``given`` (None: nothing)."""
        if given is None or not (self.saturation_selectable or (tmp and self.selectable_with_tmp)):
            return self.default_saturation
        return given


ON, OFF = SaturationMode.ON, SaturationMode.OFF
_TRUNC, _RINT = RoundMode.TRUNC, RoundMode.RINT


def _row(
    fallback: RoundMode | None,
    default: SaturationMode | None = None,
    selectable: bool = False,
    *,
    modes: tuple[RoundMode, ...] = NEAREST_AND_DIRECTED,
    note: str = "",
) -> Conversion:
    return Conversion(modes, fallback, default, selectable, note=note)


_EXACT = _row(None, modes=())
_TO_INT = _row(_TRUNC, ON, True)
_TO_INT_WRAPPING = _row(_TRUNC, OFF, True)
_TO_FLOAT = _row(_RINT)
_NARROW_INT = _row(None, ON, True, modes=())
_NARROW_INT_WRAPPING = _row(None, OFF, True, modes=())
_SMALL_FLOAT = _row(_RINT, ON)
_HIF8 = _row(
    RoundMode.ROUND,
    OFF,
    modes=(),
    note="rounds half away from zero whatever the rounding mode says, and never saturates",
)
_FLOAT_ODD = (*NEAREST_AND_DIRECTED, RoundMode.ODD)

_A5: dict[tuple[str, str], Conversion] = {
    ("f32", "f16"): _row(
        _RINT, ON, True, modes=_FLOAT_ODD, note="ODD sets the last bit of an inexact result"
    ),
    ("f32", "bf16"): _row(_RINT, ON, True),
    ("f32", "f32"): _row(_RINT, note="rounds to an integral value, kept as f32"),
    ("f32", "i16"): _TO_INT_WRAPPING,
    ("f32", "i32"): _TO_INT,
    ("f32", "i64"): _TO_INT,
    ("f32", "f8e4m3"): _SMALL_FLOAT,
    ("f32", "f8e5m2"): _SMALL_FLOAT,
    ("f32", "hif8"): _HIF8,
    ("f16", "f32"): _EXACT,
    ("f16", "i32"): _TO_INT,
    ("f16", "i16"): _TO_INT_WRAPPING,
    ("f16", "i8"): _TO_INT_WRAPPING,
    ("f16", "u8"): _TO_INT_WRAPPING,
    ("f16", "hif8"): _HIF8,
    ("bf16", "f32"): _EXACT,
    ("bf16", "i32"): _TO_INT,
    ("bf16", "f16"): _row(_RINT, ON, True),
    ("bf16", "f4e1m2x2"): _row(_RINT, ON, note="saturates to 1.75; converts whole bytes only"),
    ("bf16", "f4e2m1x2"): _row(_RINT, ON, note="saturates to 6; converts whole bytes only"),
    ("f4e1m2x2", "bf16"): _EXACT,
    ("f4e2m1x2", "bf16"): _EXACT,
    ("bf16", "f4e1m2_pair"): _row(_RINT, ON, note="saturates to 1.75"),
    ("bf16", "f4e2m1_pair"): _row(_RINT, ON, note="saturates to 6"),
    ("f4e1m2_pair", "bf16"): _EXACT,
    ("f4e2m1_pair", "bf16"): _EXACT,
    ("u8", "f16"): _EXACT,
    ("u8", "u16"): _EXACT,
    ("i8", "f16"): _EXACT,
    ("i8", "i16"): _EXACT,
    ("i8", "i32"): _EXACT,
    ("i16", "f16"): _TO_FLOAT,
    ("i16", "f32"): _EXACT,
    ("i16", "u8"): _NARROW_INT,
    ("i16", "u32"): _row(None, ON, modes=(), note="negative values become 0"),
    ("i16", "i32"): _EXACT,
    ("i32", "f32"): _TO_FLOAT,
    ("i32", "i16"): _NARROW_INT_WRAPPING,
    ("i32", "u16"): _NARROW_INT,
    ("i32", "i64"): _EXACT,
    ("i32", "u8"): _NARROW_INT,
    ("u32", "u8"): _NARROW_INT,
    ("u32", "u16"): _NARROW_INT,
    ("u32", "i16"): _NARROW_INT,
    ("i64", "f32"): _TO_FLOAT,
    ("i64", "i32"): _NARROW_INT_WRAPPING,
    ("f8e4m3", "f32"): _EXACT,
    ("f8e5m2", "f32"): _EXACT,
    ("hif8", "f32"): _EXACT,
}

#: Without a scratch tile A2/A3 honours a saturation mode only for the pairs whose default is OFF.
_A2A3_PAIRS = (
    ("f32", "f16"), ("f32", "bf16"), ("f32", "f32"), ("f32", "i16"), ("f32", "i32"), ("f32", "i64"),
    ("f16", "f32"), ("f16", "i32"), ("f16", "i16"), ("f16", "i8"), ("f16", "u8"), ("bf16", "f32"),
    ("bf16", "i32"), ("u8", "f16"), ("i8", "f16"), ("i16", "f16"), ("i16", "f32"), ("i32", "f32"),
    ("i32", "i16"), ("i32", "i64"), ("i64", "f32"), ("i64", "i32"),
)  # fmt: skip


def _a2a3(row: Conversion) -> Conversion:
    wraps = row.default_saturation == OFF
    has_mode = row.default_saturation is not None
    return Conversion(
        row.modes, row.fallback, row.default_saturation, wraps, has_mode and not wraps, row.note
    )


_A2A3: dict[tuple[str, str], Conversion] = {
    **{pair: _a2a3(_A5[pair]) for pair in _A2A3_PAIRS},
    ("f32", "f32"): _row(_RINT, ON, note="rounds to an integral value, kept as f32"),
    ("f16", "i4"): Conversion(NEAREST_AND_DIRECTED, _RINT, ON, False, True),
    ("i32", "f16"): _row(_RINT, ON, modes=(), note="dequantisation path with scale 1.0"),
    ("i4", "f16"): _EXACT,
}


def _simulated(src: str, dst: str) -> Conversion:
    """The CPU simulator's rule: modes matter for float to integer, saturation is off unless asked for."""
    s, d = dtype(src), dtype(dst)
    if d.name == "i4" and src != dst:
        modes = _FLOAT_ODD if s.is_float else ()
        return _row(_TRUNC if s.is_float else None, ON, modes=modes, note="always clamps to [-8, 7]")
    if s.is_float and d.is_integer:
        return _row(_TRUNC, OFF, True, modes=_FLOAT_ODD, note="ODD is nearest with ties to the odd integer")
    fallback = _RINT if d.is_float and src != dst else None
    return _row(fallback, OFF, True, modes=())


def _simulated_pairs() -> dict[tuple[str, str], Conversion]:
    small = (*BYTE_FLOATS, *NIBBLE_FLOATS)
    pairs = [(s, d) for s in STANDARD for d in STANDARD]
    pairs += [(s, d) for a in small for b in FLOATS for s, d in ((a, b), (b, a))]
    pairs += [(s, s) for s in (*small, "i4")]
    pairs += [(s, d) for a in STANDARD for s, d in ((a, "i4"), ("i4", a))]
    return {(s, d): _simulated(s, d) for s, d in pairs}


@cache
def conversions(profile_name: str) -> Mapping[tuple[str, str], Conversion]:
    """Every (source, destination) pair a profile converts, by canonical type names."""
    tables = {"a2a3": _A2A3, "a5": _A5}
    if profile_name == "cpu_sim":
        return MappingProxyType(_simulated_pairs())
    if profile_name not in tables:
        raise ArgumentError(f"got the profile {profile_name!r}", allowed="cpu_sim, a2a3, a5")
    return MappingProxyType(tables[profile_name])


def conversion(profile_name: str, src: str, dst: str) -> Conversion:
    """How ``src`` is converted to ``dst`` on a profile.

    >>> conversion("a2a3", "f32", "i16").default_saturation.name
    'OFF'
    >>> conversion("a5", "f32", "i32").rounding(RoundMode.NONE).name
    'TRUNC'
    """
    table = conversions(profile_name)
    row = table.get((dtype(src).name, dtype(dst).name))
    if row is None:
        targets = ", ".join(sorted({d for s, d in table if s == dtype(src).name})) or "nothing"
        raise ArgumentError(
            f"got a conversion of {src} to {dst}", allowed=f"on {profile_name} from {src}: {targets}"
        )
    return row
