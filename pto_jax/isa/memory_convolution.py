"""Memory and data movement: what convolution tiles exchange with global memory."""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..ir import Conv, GlobalLayout, Loc, TileType, block_channels
from ..profiles import PROFILE_NAMES, ProfileName
from .declare import Constraint, Finding, Site
from .rules.forbid import edit, forbid
from .rules.typesets import FLOATS, INT32

Dims = tuple[int | None, ...]
_G = GlobalLayout
_EQUAL_CONV = tuple((g, g) for g in (_G.NC1HWC0, _G.NDC1HWC0, _G.FRACTAL_Z))
#: Layouts of a window and of a convolution tile that a transfer connects.
CONV_LOADED: dict[str, tuple[tuple[GlobalLayout, GlobalLayout], ...]] = {
    "cpu_sim": _EQUAL_CONV,
    "a2a3": (*_EQUAL_CONV, (_G.FRACTAL_Z_3D, _G.FRACTAL_Z_3D)),
    "a5": (
        (_G.NC1HWC0, _G.NC1HWC0),
        (_G.FRACTAL_Z, _G.FRACTAL_Z),
        (_G.NHWC, _G.NC1HWC0),
        (_G.NCHW, _G.NC1HWC0),
        (_G.NCHW, _G.FRACTAL_Z),
        (_G.NCDHW, _G.NDC1HWC0),
        (_G.NCDHW, _G.FRACTAL_Z_3D),
    ),
}
CONV_STORED: dict[str, tuple[tuple[GlobalLayout, GlobalLayout], ...]] = {
    "cpu_sim": _EQUAL_CONV[:2],
    "a2a3": (),
    "a5": (),
}
#: Element types of convolution tiles.
CONV_TYPES = (*FLOATS, *INT32)


CONV_TEXT = (
    "A convolution tile takes the elements of the window in row-major order of their indices; an ndc1hwc0 "
    "window has a block of C0 elements of unit stride at each index, and the first two dimensions of a "
    "window count together for a fractal_z tile of four. Without a layout the window has the tile's. a5 "
    "also converts: from nhwc (1, n, h, w, c), nchw (1, n, c, h, w), ncdhw (n, c, d, h, w) channel "
    "c1 * C0 + c0 of an image goes to (n, c1, h, w, c0), (n, d, c1, h, w, c0), ((c1 H + h) W + w, n/N0, "
    "n % N0, c0) or (((d C1 + c1) H + h) W + w, n/N0, n % N0, c0); channels beyond c in the last block of "
    "channels become 0, places of images beyond n keep their elements. No other padding happens."
)


def five(dims: Dims) -> Dims:
    """Dimensions of a view counted from the right, missing leading ones 1."""
    return (1,) * (5 - len(dims)) + dims


def times(*sizes: int | None) -> int | None:
    """The product of sizes, None where one of them is not known."""
    return None if None in sizes else prod(s for s in sizes if s is not None)


def expected_window(t: TileType, layout: GlobalLayout) -> tuple[Dims, str]:
    """The dimensions of a window that fills a convolution tile, and what they are called.

    None stands for channels and images of any number, as the tile rounds them up to whole blocks.
    """
    conv = t.conv
    assert conv is not None
    s, rank = conv.shape, len(conv.shape)
    match layout, conv.layout:
        case _G.NHWC, _:
            return (1, s[0], s[2], s[3], None), "n, h, w, c"
        case _G.NCHW, _G.NC1HWC0:
            return (1, s[0], None, s[2], s[3]), "n, c, h, w"
        case _G.NCHW, _:
            return (1, None, None, None, None), "n, c, h, w"
        case _G.NCDHW, _G.NDC1HWC0:
            return (s[0], None, s[1], s[3], s[4]), "n, c, d, h, w"
        case _G.NCDHW, _:
            return (None, None, None, None, None), "n, c, d, h, w"
    if rank == 4:
        return (1, *s), "c1hw, n1, n0, c0"
    return s[:5], "the dimensions of the tile"


def conv_fits(t: TileType, dims: Dims, layout: GlobalLayout) -> bool:
    """Whether a view of some dimensions can fill a convolution tile; what is not known is taken to fit."""
    want, have = expected_window(t, layout)[0], five(dims)
    conv = t.conv
    assert conv is not None
    if len(conv.shape) == 4 and layout in (_G.FRACTAL_Z, _G.FRACTAL_Z_3D):
        have = (1, times(have[0], have[1]), *have[2:])
    if any(None not in (w, h) and w != h for w, h in zip(want, have, strict=True)):
        return False
    return None in have or _rounded_up(conv, have, layout, block_channels(t.dtype))


def _rounded_up(conv: Conv, dims: Dims, layout: GlobalLayout, c0: int) -> bool:
    """Whether channels and images, in whole blocks, fit the tile."""
    n = [d or 0 for d in dims]
    s = conv.shape
    match layout:
        case _G.NHWC:
            return n[4] <= s[1] * c0
        case _G.NCHW if conv.layout == _G.NC1HWC0:
            return n[2] <= s[1] * c0
        case _G.NCHW:
            return n[1] <= s[1] * s[2] and -(-n[2] // c0) * n[3] * n[4] == s[0]
        case _G.NCDHW if conv.layout == _G.NDC1HWC0:
            return n[1] <= s[2] * c0
        case _G.NCDHW:
            return n[0] <= s[1] * s[2] and -(-n[1] // c0) * n[2] * n[3] * n[4] == s[0]
    return True


def conv_tiles(
    tile: str, locs: tuple[Loc, ...], profiles: tuple[ProfileName, ...] = PROFILE_NAMES
) -> Constraint:
    """Convolution tiles have one of few element types, and a place."""
    words = " or ".join(p.name.lower() for p in locs)
    elsewhere = next(p for p in (Loc.VEC, Loc.MAT) if p not in locs)

    @forbid(
        "conv-tiles",
        f"convolution tiles of {', '.join(CONV_TYPES)} in {words}",
        profiles,
        invalid_if=edit(tile, lambda t: None if t.conv is None else replace(t, loc=elsewhere)),
    )
    def rule(site: Site) -> Iterator[Finding]:
        t = site.tile(tile)
        if t is None or t.conv is None:
            return
        if t.dtype.name not in CONV_TYPES:
            allowed = ", ".join(CONV_TYPES)
            yield tile, f"{tile} is a convolution tile of {t.dtype}; allowed: {allowed}"
        if t.loc not in locs:
            yield tile, f"{tile} is a convolution tile in {t.loc.name.lower()}; allowed: {words}"

    return rule
