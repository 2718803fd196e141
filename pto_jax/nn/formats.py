"""Number formats of layers: what their codes are, and how their products are cut into tiles."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..errors import ArgumentError
from ..profiles import ProfileName, profile as find_profile
from .tiling import even

Name = Literal["int8", "fp8", "mx", "f16", "bf16", "f32"]
Numerics = Literal["exact", "fast"]
#: Rows, columns and depth of tiles are padded to multiples that every layout allows.
ROWS, COLUMNS, DEPTH = 16, 32, 64
#: Elements along K that share an exponent in the format "mx".
GROUP = 32


@dataclass(frozen=True)
class Format:
    """A number format: PTO element type of its codes, their bytes, the largest code, profiles that have it.

    ``largest`` is None where codes have no scale of their own choice.
    """

    name: Name
    element: str
    bytes: int
    largest: float | None
    profiles: tuple[ProfileName, ...]


_EVERY: tuple[ProfileName, ...] = ("a2a3", "a5", "cpu_sim")
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("int8", "i8", 1, 127.0, _EVERY),
        Format("fp8", "f8e4m3", 1, 448.0, ("a5",)),
        Format("mx", "f8e4m3", 1, None, ("a5", "cpu_sim")),
        Format("f16", "f16", 2, None, _EVERY),
        Format("bf16", "bf16", 2, None, _EVERY),
        Format("f32", "f32", 4, None, _EVERY),
    )
}


@dataclass(frozen=True)
class Settings:
    """How numbers are quantised and multiplied: format, profile and numerics, all checked."""

    format: Format
    profile: ProfileName
    numerics: Numerics

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of instructions."""
        return {"profile": self.profile, "numerics": self.numerics}


def settings(what: str, format: str, profile: str | None, numerics: str) -> Settings:
    """Checked settings; without a profile the first that has the format. ArgumentError for what is none."""
    found = FORMATS.get(format)
    if found is None:
        raise ArgumentError(f"{what}: format is {format!r}, allowed: {', '.join(FORMATS)}")
    if numerics not in ("exact", "fast"):
        raise ArgumentError(f"{what}: numerics is {numerics!r}, allowed: exact, fast")
    name = found.profiles[0] if profile is None else find_profile(profile).name
    if name not in found.profiles:
        raise ArgumentError(
            f"{what}: profile {name!r} has no products of format {format!r}, allowed: "
            f"{', '.join(found.profiles)}; usual fix: profile={found.profiles[0]!r}"
        )
    return Settings(found, name, "exact" if numerics == "exact" else "fast")


class Block(NamedTuple):
    """Rows, depth and columns of the tiles that one multiplication takes."""

    m: int
    k: int
    n: int


def block_of(format: Format, m: int, k: int, n: int) -> Block:
    """Tiles for a product of M x K and K x N that every profile's buffers hold.

    At most 128 rows, 256 bytes along K and 256 columns: 64 KiB of right tiles, 128 KiB of accumulators and of
    the vector tiles that hold them. Blocks of one extent are of nearly one size.
    """
    return Block(even(m, 128, ROWS), even(k, 256 // format.bytes, DEPTH), even(n, 256, COLUMNS))
