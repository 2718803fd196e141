"""Legal sample transfers between global memory and tiles of every layout."""

from collections.abc import Iterator

from ... import ir, profiles
from ..declare import Instruction
from .operations import Sample

_G = ir.GlobalLayout
_COL, _ROW = ir.BLayout.COL_MAJOR, ir.BLayout.ROW_MAJOR
_BOX_ROW, _BOX_COL = ir.SLayout.ROW_MAJOR, ir.SLayout.COL_MAJOR
_F32, _F16, _I8, _I16 = ir.dtype("f32"), ir.dtype("f16"), ir.dtype("i8"), ir.dtype("i16")
_Transfer = tuple[ir.TileType, tuple[int, ...], ir.GlobalLayout | None]


def transfers(instruction: Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """A plain transfer per element type, then one per pair of layouts."""
    for (name,) in instruction.types[profile.name]:
        d = ir.dtype(name)
        cols = 2 * 256 // d.word_bits
        yield _sample(instruction, (ir.TileType(d, 8, cols), (8, cols), None))
    found = _loaded(profile) if _loads(instruction) else _stored(profile)
    for transfer in found:
        yield _sample(instruction, transfer)


def _loads(instruction: Instruction) -> bool:
    return instruction.operand("dst").kind == "tile"


def _sample(instruction: Instruction, transfer: _Transfer) -> Sample:
    t, dims, layout = transfer
    view = ir.PartitionViewType(dims, t.dtype)
    types: dict[str, ir.Type] = {"dst": t, "src": view} if _loads(instruction) else {"dst": view, "src": t}
    return Sample(instruction, types, ("src",), {} if layout is None else {"layout": layout})


def _nz(
    d: ir.DType, loc: ir.Loc, rows: int = 32, cols: int = 64, v_row: int = -1, v_col: int = -1
) -> ir.TileType:
    return ir.TileType(d, rows, cols, v_row, v_col, loc, _COL, _BOX_ROW)


def _in_boxes(d: ir.DType, loc: ir.Loc) -> _Transfer:
    """A window of 2x2 boxes into a larger tile of boxes."""
    c0 = 256 // d.word_bits
    return _nz(d, loc, 32, 3 * c0, 32, 2 * c0), (1, 2, 2, 16, c0), _G.NZ


def _loaded(profile: profiles.Profile) -> Iterator[_Transfer]:
    yield ir.TileType(_F32, 16, 16, 10, 13, pad=ir.Pad.MAX), (2, 5, 13), _G.ND
    yield ir.TileType(_F16, 16, 16, 7, 6, ir.Loc.MAT, _COL), (1, 3, 1, 7, 2), _G.DN
    yield _in_boxes(_F32, ir.Loc.VEC)
    yield _in_boxes(_I8, ir.Loc.MAT)
    yield _nz(_F16, ir.Loc.MAT, 32, 32, 19, 20), (19, 20), _G.ND
    yield ir.TileType(_I16, 32, 32, 18, 21, ir.Loc.MAT, _ROW, _BOX_COL), (18, 21), _G.DN
    if profile.name != "a2a3":
        yield from _scales()
    yield from _images()
    if profile.name != "a5":
        return
    image = ir.conv_tile(_F16, ir.Conv(_G.NC1HWC0, (2, 1, 2, 3, 16)))
    weights = ir.conv_tile(_F32, ir.Conv(_G.FRACTAL_Z, (2 * 2 * 3, 1, 16, 8)))
    yield image, (2, 2, 3, 11), _G.NHWC
    yield image, (2, 11, 2, 3), _G.NCHW
    yield weights, (5, 11, 2, 3), _G.NCHW
    yield ir.conv_tile(_F32, ir.Conv(_G.NDC1HWC0, (1, 2, 2, 2, 3, 8))), (1, 11, 2, 2, 3), _G.NCDHW
    yield ir.conv_tile(_F32, ir.Conv(_G.FRACTAL_Z_3D, (2 * 2 * 6, 1, 16, 8))), (5, 11, 2, 2, 3), _G.NCDHW


def _scales() -> Iterator[_Transfer]:
    e8 = ir.dtype("f8e8m0")
    left = ir.TileType(e8, 32, 4, loc=ir.Loc.MAT, slayout=_BOX_ROW, fractal=32)
    right = ir.TileType(e8, 4, 32, loc=ir.Loc.MAT, blayout=_COL, slayout=_BOX_COL, fractal=32)
    yield left, (1, 2, 2, 16, 2), _G.MX_A_ZZ
    yield left.with_valid(19, 3), (1, 2, 2, 16, 2), _G.MX_A_ZZ
    yield left, (32, 2, 2), _G.MX_A_ND
    yield left, (2, 32, 2), _G.MX_A_DN
    yield right, (1, 2, 2, 16, 2), _G.MX_B_NN
    yield right, (2, 32, 2), _G.MX_B_ND
    yield right, (32, 2, 2), _G.MX_B_DN


def _images() -> Iterator[_Transfer]:
    image = (1, 2, 3, 2)
    for d in (_F32, _I8):
        shape = (*image, ir.block_channels(d))
        yield ir.conv_tile(d, ir.Conv(_G.NC1HWC0, shape)), shape, _G.NC1HWC0
    yield ir.conv_tile(_F16, ir.Conv(_G.FRACTAL_Z, (1, 2, 1, 16, 16))), (1, 2, 1, 16, 16), _G.FRACTAL_Z
    yield ir.conv_tile(_F16, ir.Conv(_G.FRACTAL_Z, (4, 1, 16, 16))), (2, 2, 1, 16, 16), _G.FRACTAL_Z


def _stored(profile: profiles.Profile) -> Iterator[_Transfer]:
    yield ir.TileType(_F32, 16, 16, 10, 13), (2, 5, 13), _G.ND
    yield ir.TileType(_F16, 16, 16, 7, 6, blayout=_COL), (1, 3, 1, 7, 2), _G.DN
    yield _in_boxes(_F32, ir.Loc.VEC)
    if profile.name != "a5":
        yield _in_boxes(_I8, ir.Loc.MAT)
    if profile.name == "cpu_sim":
        yield ir.TileType(_I16, 16, 32, 12, 32), (1, 2, 3, 4, 16), _G.NC1HWC0
        shape = (1, 2, 3, 2, 8)
        yield ir.conv_tile(_F32, ir.Conv(_G.NC1HWC0, shape)), shape, _G.NC1HWC0
