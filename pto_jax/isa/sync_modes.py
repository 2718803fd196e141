"""Sync and config: the modes in which multiplications read f32 operands."""

from collections.abc import Iterator

from ..ir import RoundMode
from .declare import Attribute, Decision, Finding, Instruction, Site
from .rules.forbid import assign, forbid
from .rules.handles import Shown, custom
from .sync_config import required
from .traits import Effect, Traits

_SOURCES = ("pages sethf32mode, settf32mode", "pto_tile.hpp (SetMadTF32Mode)")
_ROUNDINGS = (RoundMode.RINT, RoundMode.ROUND)

_WIDTH = Decision(
    "The page gives TF32 a 7-bit mantissa on A5 and nothing on A2/A3, the header 11 bits on A2/A3 and 10 on "
    "A5, the HF32 page nothing. How short are operands?",
    "11 mantissa bits on a2a3, 10 on a5, for both instructions: they set the same two control bits.",
    "pto_tile.hpp (backend headers go before pages)",
)
_ROUNDING = Decision(
    "The page calls CAST_ROUND nearest-even, the enumeration nearest with ties away. Which is it?",
    "Ties away from zero; CAST_RINT is nearest-even.",
    "constants.hpp (RoundMode); pto_tile.hpp",
)
_SIMULATOR = Decision(
    "What does the mode change on cpu_sim?",
    "Nothing: products of f32 tiles stay full f32.",
    "public CPU simulator",
)


@forbid(
    "rounding",
    "mode is CAST_ROUND or CAST_RINT",
    source=_SOURCES[1],
    invalid_if=assign(mode=RoundMode.FLOOR),
)
def _rounding(site: Site) -> Iterator[Finding]:
    mode = site.attrs.get("mode")
    if isinstance(mode, RoundMode) and mode not in _ROUNDINGS:
        yield None, f"mode is {mode.name}; allowed: {', '.join(m.name for m in _ROUNDINGS)}"


def _mode(name: str, short: str) -> Instruction:
    modes = ((True, RoundMode.ROUND), (False, RoundMode.RINT))
    return custom(
        name,
        f"Switch the {short} mode of multiplications on or off.",
        "From here on multiplications round each f32 operand to the short format first; products and sums "
        "stay f32. Both modes are one state.",
        (),
        tuple(Shown({}, attrs={"enable": enable, "mode": mode}) for enable, mode in modes),
        (
            Attribute("enable", bool, None, "on or off"),
            Attribute("mode", RoundMode, RoundMode.ROUND, "rounding of the operands"),
        ),
        (required("enable"), _rounding),
        (_WIDTH, _ROUNDING, _SIMULATOR),
        Traits(effects=(Effect("write", "mode"),)),
        sources=_SOURCES,
        syntax="tile",
    )


INSTRUCTIONS: tuple[Instruction, ...] = (_mode("sethf32mode", "HF32"), _mode("settf32mode", "TF32"))
