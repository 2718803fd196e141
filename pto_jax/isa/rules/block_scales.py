"""Block-scaled quantisation: what a text says of it, and the shapes of its tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.dtypes import F32
from ...ir.program import AttrValue
from ...ir.types import MxQuantAlg, QuantScaleAlg, QuantType, TileType
from ..declare import Finding, Site

GROUP = 32
FP8_ALGS = (MxQuantAlg.OCP_MX_FP8_E4M3, MxQuantAlg.NV_MX_FP8_E4M3)
FP4_ALGS = (MxQuantAlg.OCP_MX_FP4_E2M1, MxQuantAlg.NV_MX_FP4_E2M1)


def algorithm(attrs: Mapping[str, AttrValue]) -> MxQuantAlg:
    """The element format and exponent rule of an operation.

    >>> algorithm({"quant_type": QuantType.MXFP4_E2M1, "quantScaleAlg": QuantScaleAlg.NV}).name
    'NV_MX_FP4_E2M1'
    """
    said = attrs.get("mx_alg")
    if isinstance(said, MxQuantAlg):
        return said
    formats = FP4_ALGS if attrs.get("quant_type") == QuantType.MXFP4_E2M1 else FP8_ALGS
    return formats[attrs.get("quantScaleAlg") == QuantScaleAlg.NV]


def assembled_shapes(site: Site, down: bool) -> Iterator[Finding]:
    """Where the tiles of groups have their elements in the assembler's form of the instruction.

    ``down``: the groups run down the columns.
    """
    rows, cols = site.region("src")
    for name in ("max", "scaling"):
        t, have = site.tile(name), site.valid.get(name, (None, None))
        if t is None or rows is None or cols is None or None in have:
            continue
        wanted = (rows // GROUP, cols)
        if down and have != wanted:
            found = f"{name} has valid region {have[0]}x{have[1]}"
            yield name, f"{found}; allowed: {wanted[0]}x{wanted[1]}, one per group"
        elif not down and have[0] != 1 and have[1] != t.cols:
            yield name, f"{name} has {t.cols} columns, {have[1]} of them valid; allowed: all, or one row"
    src, exp, scaling = (site.tile(name) for name in ("src", "exp", "scaling"))
    if src is not None and exp is not None and scaling is not None and not down and exp.rows == 1:
        if src.dtype != F32 and site.attrs.get("quantScaleAlg") == QuantScaleAlg.NV:
            yield (
                "exp",
                f"exponents of {src.dtype} in one row with quantScaleAlg nv; allowed: ocp, or a row each",
            )
        least = _factors(site, src)
        if scaling.elements < least:
            yield (
                "scaling",
                f"scaling has {scaling.elements} elements; allowed: at least {least}, with padding",
            )
    if not site.attrs.get("interleave") or src is None or exp is None:
        return
    pairs = (src.rows // 64, -(-2 * src.cols // 32) * 32)
    if exp.shape != pairs:
        found = f"exp is {exp.rows}x{exp.cols}, src {src.rows}x{src.cols}"
        yield "exp", f"{found}; allowed with interleave: {pairs[0]}x{pairs[1]}, two columns for each"


def _factors(site: Site, src: TileType) -> int:
    """Factors of exponents in one row: whole vectors, twice as many where the loop is unrolled."""
    rows, cols = site.region("src")
    valid, wide = (rows or 0) * (cols or 0), src.dtype == F32
    unrolled = wide and src.elements > 1024 and src.elements % 256 == valid % 256 == 0
    vector = 64 if wide else 128
    return -(-valid // GROUP * (1 + unrolled) // vector) * vector
