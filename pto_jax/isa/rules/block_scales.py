"""Block-scaled quantisation: what a text says of it, and the shapes of its tiles."""

from collections.abc import Iterator, Mapping

from ...ir import U8, AttrValue, MxQuantAlg, QuantScaleAlg, QuantType, TileType, VecStoreMode
from ...profiles import Profile
from ..changes import DIALECT
from ..declare import AttrMap, Finding, Site
from .constraints import HEADERS, size
from .forbid import Types, assign, forbid, retile

GROUP = 32
FP8_ALGS = (MxQuantAlg.OCP_MX_FP8_E4M3, MxQuantAlg.NV_MX_FP8_E4M3)
OCP_ALGS = (MxQuantAlg.OCP_MX_FP8_E4M3, MxQuantAlg.OCP_MX_FP4_E2M1)
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


#: What is said of an operation with such a destination.
REORDERED = "is not executed: its store mode has no defined result; usual fix: tmov of exp with scratch"


def along_rows(attrs: Mapping[str, AttrValue]) -> bool:
    """Whether groups run down the columns of the source, by the attributes with their defaults.

    Instructions without such an attribute have no other groups.

    >>> along_rows({"grp_axis": 1}), along_rows({"grp_axis": 1, "grpAxis": 0}), along_rows({})
    (False, True, True)
    """
    axis = attrs.get("grpAxis")
    return (attrs.get("grp_axis", 0) if axis is None else axis) == 0


def grouped_down(site: Site) -> bool:
    """Whether the groups of an operation run down the columns of its source."""
    return along_rows(site.attrs)


def groups_in_line(site: Site) -> int | None:
    """Whole groups of a line of src: the valid ones, on cpu_sim all."""
    t, down = site.tile("src"), grouped_down(site)
    if t is None:
        return None
    extent = t.shape[not down] if site.profile.name == "cpu_sim" else site.region("src")[not down]
    return None if extent is None else extent // GROUP


def _narrow(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    t = types["dst"]
    return isinstance(t, TileType) and retile("dst", cols=t.cols // 2, v_col=t.cols // 2)(
        types, attrs, profile
    )


@forbid(
    "codes-room",
    "dst has a code for every valid element of src; along columns in rows as long as those of src",
    ("a5",),
    invalid_if=_narrow,
)
def codes_room(site: Site) -> Iterator[Finding]:
    """Codes lie in rows as long as those of the source, which the hardware counts by."""
    src, dst, (rows, cols) = site.tile("src"), site.tile("dst"), site.region("src")
    if src is None or dst is None:
        return
    have = dst.cols * dst.dtype.numbers
    wide = have >= (cols or 0) if grouped_down(site) else have == src.cols
    if dst.rows < (rows or 0) or not wide:
        at_least = "at least " if grouped_down(site) else ""
        wanted = f"{size(rows)} rows and {at_least}{cols if at_least else src.cols} columns"
        yield (
            "dst",
            f"dst is {dst.rows}x{dst.cols}, src is {src.rows}x{src.cols}; allowed: {wanted}",
        )


@forbid(
    "reordered-exponents",
    "exp_zz with storeMode, groups along columns and quantScaleAlg ocp",
    ("a5",),
    source=DIALECT,
    invalid_if=assign(storeMode=VecStoreMode.NZ),
)
def reordered(site: Site) -> Iterator[Finding]:
    """A destination of reordered exponents, and what says their order."""
    given, mode = "exp_zz" in site.types, site.op.attrs.get("storeMode") is not None
    if given != mode:
        found = "exp_zz without storeMode" if given else "storeMode without exp_zz"
        yield None, f"{found}; allowed: both or none"
    elif given and (grouped_down(site) or algorithm(site.attrs) not in OCP_ALGS):
        yield "exp_zz", "exp_zz with groups along rows, or quantScaleAlg nv; allowed: tmov reorders exponents"


def _with_reordered(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["storeMode"], types["exp_zz"] = VecStoreMode.NZ, TileType(U8, 1, 32)
    return attrs.get("mx_alg") in OCP_ALGS


@forbid(
    "exponents-reordered",
    "no exp_zz: it is read, not executed",
    ("a5",),
    source=f"{HEADERS}; {DIALECT}",
    severity="warning",
    invalid_if=_with_reordered,
    on_lanes=False,
)
def not_executed(site: Site) -> Iterator[Finding]:
    """What no source defines is read only."""
    if "exp_zz" in site.types:
        yield "exp_zz", f"exp_zz {REORDERED}"
