"""Sync and config: barriers over cores, convolution and quantisation state, event arrays, scale addresses."""

from collections.abc import Iterator
from functools import partial

from .. import ir
from ..profiles import PROFILE_NAMES, Profile
from .changes import DIALECT, form
from .declare import Attribute, AttrMap, Decision, Finding, Instruction, Operand, Site
from .rules.constraints import fixed_type, place
from .rules.forbid import Types, forbid, give
from .rules.handles import Shown, barrier_memory, custom, handle, no_memref, only_on
from .rules.pipes import PIPE_NUMBER, no_store_attributes, out_type, payload, result_known
from .rules.require import require
from .rules.typesets import SIMULATED, STANDARD, table
from .samples.operations import Sample
from .sync_config import NO_VALUE_EFFECT
from .traits import Effect, Order, Traits

_SOURCES = ("PTO ISA page of the instruction", "pto-isa headers; PTOAS dialect definition")
_SETS_MODE = Traits(effects=(Effect("write", "mode"),))
_PAGE, _HEADERS = _SOURCES
_CONFIG = ir.OpaqueType("fmatrix_config")
_SCALED_TYPES = table(SIMULATED, (), (*STANDARD, "f8e4m3", "f8e5m2", "hif8", "f4e2m1x2", "f4e1m2x2"))
_IMAGE = ir.conv_tile(
    ir.F16, ir.Conv(ir.GlobalLayout.NC1HWC0, (1, 1, 4, 4, 16), ir.Geometry(padding=(1, 1, 1, 1)))
)
_READ = Decision(
    "Which instruction reads the state?",
    "timg2col in the manual modes, on a2a3 and a5; on cpu_sim it takes the geometry of its source.",
    "pto-isa headers of the backends; public CPU simulator",
)
_CONFIGURED = Decision(
    "Pages bind a tile to a slot of the matrix unit or name an opaque configuration, the headers take the "
    "geometry of a convolution tile. Which holds?",
    "The headers; !pto.fmatrix_config<...> holds the same parameters, and without any it loads nothing.",
    "pto-isa headers (SetFmatrix.hpp, SetImg2colPadding.hpp)",
)
_REPEAT = Decision(
    "Which instruction reads the state?",
    "None that is executed: no page states where the further repetitions of timg2col write.",
    "page set_img2col_rpt",
)
SET_QUANT_SCALAR, SET_QUANT_VECTOR = "set_quant_scalar", "set_quant_vector"
_QUANT_STATE = Decision(
    "Which instruction reads the state?",
    "The quantising push into the pipe of the same id; where the type of its results is not given, it "
    "follows from the tiles that are popped.",
    f"pages SET_QUANT_SCALAR, SET_QUANT_VECTOR; {DIALECT}",
)
_QUANT_FORM = form("the scale alone, with out_type", "(%scale : type) {id = N}, the number of a pipe")


#: Declares an instruction of the class sync_config, which has a syntax of its own.
config = partial(custom, sources=_SOURCES, decisions=(NO_VALUE_EFFECT,))


@forbid(
    "config",
    "parameters of a geometry",
    source=_HEADERS,
    invalid_if=give("config", ir.OpaqueType("fmatrix_config", "filter=0.5")),
)
def _config_text(site: Site) -> Iterator[Finding]:
    t = site.types.get("config")
    message = ir.read_config(t.params) if isinstance(t, ir.OpaqueType) else ""
    if isinstance(message, str) and message:
        yield "config", message


@forbid(
    "geometry",
    "a convolution tile",
    severity="warning",
    source=_HEADERS,
    invalid_if=give("tile", ir.TileType(ir.F16, 16, 16, loc=ir.Loc.MAT)),
)
def _geometry_given(site: Site) -> Iterator[Finding]:
    t = site.tile("tile")
    if t is not None and t.conv is None:
        yield "tile", f"tile is {t}, which carries no geometry; the registers keep what they hold"


def _convolution(name: str, summary: str, semantics: str, decisions: tuple[Decision, ...]) -> Instruction:
    return config(
        name,
        summary,
        semantics,
        (
            Operand("config", "in", "handle", dtype=None, optional=True, note="convolution geometry"),
            Operand(
                "tile",
                "in",
                "tile",
                dtype=None,
                optional=True,
                note="convolution tile with the geometry",
                conv=True,
            ),
        ),
        (
            Shown({"config": _CONFIG}, ("config",), {"mode": ir.FmatrixMode.FMATRIX_A_MANUAL}),
            Shown({"tile": _IMAGE}, ("tile",)),
        ),
        (
            Attribute(
                "mode",
                ir.FmatrixMode,
                ir.FmatrixMode.FMATRIX_A_MANUAL,
                "register; automatic modes leave it",
                ("mode", "fmatrixMode"),
            ),
        ),
        (handle("config", "fmatrix_config", _PAGE), _config_text, _geometry_given),
        forms=(("config",), ("tile",)),
        decisions=decisions,
        traits=_SETS_MODE,
    )


def _other_mode(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["mode"] = ir.SyncMode.HARD if "workspace" in types else ir.SyncMode.SOFT
    attrs["core"] = ir.CoreType.AIV_ONLY
    return True


@forbid("barrier-workspace", "a workspace exactly in mode SOFT", source=_HEADERS, invalid_if=_other_mode)
def _soft_barrier(site: Site) -> Iterator[Finding]:
    soft = site.attrs.get("mode") == ir.SyncMode.SOFT
    if soft and "workspace" not in site.values:
        yield None, "mode is SOFT and workspace is missing; allowed: a workspace of i32 counters"
    if not soft and "workspace" in site.values:
        yield "workspace", "workspace is given; allowed: only with mode SOFT"


_CORES = {
    ir.SyncMode.HARD: (ir.CoreType.AIV_ONLY, ir.CoreType.AIC_ONLY),
    ir.SyncMode.SOFT: (ir.CoreType.AIV_ONLY, ir.CoreType.MIX),
}


def _other_core(types: Types, attrs: AttrMap, profile: Profile) -> bool:
    attrs["core"] = ir.CoreType.AIC_ONLY if attrs.get("mode") == ir.SyncMode.SOFT else ir.CoreType.MIX
    return True


def _cores_of_mode(site: Site) -> tuple[str, ...] | None:
    mode = site.attrs.get("mode")
    return tuple(c.name for c in _CORES[mode]) if isinstance(mode, ir.SyncMode) else None


_barrier_cores = require(
    "barrier-cores",
    "core in cores",
    ("a5",),
    let={"cores": _cores_of_mode},
    statement="hard: AIV_ONLY, AIC_ONLY; soft: AIV_ONLY, MIX",
    severity="warning",
    source=f"{_HEADERS}; the assembler takes every combination",
    invalid_if=_other_core,
    on_lanes=False,
)


_SCALE_LOCATIONS = (
    require(
        "location",
        "dst.loc in (scaling, scaleleft, scaleright)",
        source=_HEADERS,
    ),
    require("src-location", "src.loc in (left, right)", source=_HEADERS),
)


def _scale_samples(instruction: Instruction, profile: Profile) -> Iterator[Sample]:
    for (name,) in instruction.types[profile.name]:
        yield Sample(instruction, {"dst": _SCALES, "src": _LEFT.with_dtype(ir.dtype(name))}, ("src",))


_LEFT = ir.TileType(
    ir.dtype("f8e4m3"), 16, 64, loc=ir.Loc.LEFT, blayout=ir.BLayout.COL_MAJOR, slayout=ir.SLayout.ROW_MAJOR
)
_SCALES = ir.TileType(
    ir.dtype("f8e8m0"), 16, 2, loc=ir.Loc.SCALELEFT, slayout=ir.SLayout.ROW_MAJOR, fractal=32
)
_SCALE_DST = Operand("dst", "out", "tile", dtype=None, note="scale tile")
_COUNTERS = ir.MemRefType((16,), ir.I32, ir.AddressSpace.GM)

INSTRUCTIONS: tuple[Instruction, ...] = (
    config(
        "syncall",
        "Barrier over all cores of a kind.",
        "No core passes before all have arrived; it says nothing about the visibility of data.",
        (
            Operand(
                "workspace", "in", "memory", dtype=None, optional=True, note="zeroed i32 counters, mode SOFT"
            ),
            Operand(
                "cores",
                "in",
                "scalar",
                dtype=None,
                optional=True,
                note="number of cores; 0: all",
                type=ir.ScalarType(ir.I32),
            ),
        ),
        (
            Shown({}, (), {"mode": ir.SyncMode.HARD, "core": ir.CoreType.AIV_ONLY}),
            Shown(
                {"workspace": ir.PtrType(ir.I32)},
                ("workspace",),
                {"mode": ir.SyncMode.SOFT, "core": ir.CoreType.AIV_ONLY},
            ),
            Shown(
                {"workspace": ir.PtrType(ir.I32), "cores": ir.ScalarType(ir.I32)},
                ("workspace", "cores"),
                {"mode": ir.SyncMode.SOFT, "core": ir.CoreType.MIX},
            ),
        ),
        (
            Attribute(
                "core",
                ir.CoreType,
                ir.CoreType.AIV_ONLY,
                "cores that take part",
                ("core", "coreType", "core_type"),
            ),
            Attribute("mode", ir.SyncMode, ir.SyncMode.HARD, "hardware flags or polling"),
        ),
        (
            _soft_barrier,
            no_memref("workspace", "a pointer or a view of global memory", _COUNTERS),
            fixed_type("workspace", ("i32",), PROFILE_NAMES, _HEADERS),
            barrier_memory,
            _barrier_cores,
        ),
        forms=((), ("workspace",), ("workspace", "cores")),
        traits=Traits(order=Order("barrier", "cores")),
        changes=(
            form(
                "a view as workspace",
                "(%workspace, %cores : types) mode = ..., core_type = ..., the workspace a pointer to i32",
            ),
        ),
    ),
    _convolution(
        "setfmatrix",
        "Load the feature-map register of timg2col.",
        "Width, height and the four padding amounts of the geometry go to the register A or B of the mode; "
        "automatic modes do nothing.",
        (_READ, _CONFIGURED),
    ),
    _convolution(
        "set_img2col_rpt",
        "Load the repeat register of timg2col.",
        "Repeat stride, count and mode of the geometry go to the register; automatic modes do nothing.",
        (_REPEAT,),
    ),
    _convolution(
        "set_img2col_padding",
        "Load the padding value of timg2col.",
        "The value of taps outside the image goes to the one register that both feature-map registers share; "
        "automatic modes do nothing.",
        (
            _READ,
            Decision(
                "The page sets the amounts of padding, the header their value. Which holds?",
                "The value; the amounts go with setfmatrix.",
                "SetImg2colPadding.hpp",
            ),
        ),
    ),
    config(
        SET_QUANT_SCALAR,
        "Set the scale of quantising pushes.",
        "The scale and the signedness of 8-bit results are kept for later pushes.",
        (Operand("scale", "in", "scalar", dtype=None, type=ir.ScalarType(ir.F32)),),
        (
            Shown({"scale": ir.ScalarType(ir.F32)}, ("scale",), {"out_type": "i8"}),
            Shown({"scale": ir.ScalarType(ir.F32)}, ("scale",), {"id": 1}),
        ),
        (
            Attribute("out_type", str, None, "element type of the results", ("out_type", "outType")),
            PIPE_NUMBER,
        ),
        (result_known, out_type, fixed_type("scale", ("f32",), PROFILE_NAMES, _PAGE), no_store_attributes),
        decisions=(_QUANT_STATE,),
        traits=_SETS_MODE,
        changes=(_QUANT_FORM,),
    ),
    config(
        SET_QUANT_VECTOR,
        "Set the scales of quantising pushes.",
        "The place of the scaling tile is kept for later pushes.",
        (Operand("fp", "in", "tile", dtype=None, note="scaling tile"),),
        (Shown({"fp": ir.TileType(ir.dtype("u64"), 1, 16, loc=ir.Loc.SCALING)}, ("fp",)),),
        (PIPE_NUMBER,),
        (
            place((Operand("fp", "in", "tile", dtype=None),), (ir.Loc.SCALING,), PROFILE_NAMES),
            payload,
            no_store_attributes,
        ),
        decisions=(_QUANT_STATE,),
        traits=_SETS_MODE,
        changes=(_QUANT_FORM,),
    ),
    Instruction(
        "tget_scale_addr",
        "sync_config",
        "Bind a scale tile to the scales of a left or right tile.",
        "dst denotes the scale buffer that belongs to the address of src; nothing moves.",
        (_SCALE_DST, Operand("src", "in", note="left or right tile")),
        _SCALED_TYPES,
        ("T",),
        (),
        (only_on(("cpu_sim", "a5"), _PAGE), *_SCALE_LOCATIONS),
        (("src",),),
        "none",
        ir.Pipe.S,
        decisions=(
            Decision(
                "Sources disagree on the shift from data to scale address (2 or 4), and the simulator gives "
                "dst the bytes of the data tile. Where are the scales?",
                "In separate storage, which loads of dst fill.",
                "pto_tile.hpp (separate scale buffer); the simulator's alias would overwrite the data",
            ),
        ),
        sources=_SOURCES,
        syntax="custom",
        sampler=_scale_samples,
        lanes="open",
    ),
)
