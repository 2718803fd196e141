"""What a core knows about itself, and what a program tells its user."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.dtypes import F32, I64
from ..ir.types import ScalarType
from .declare import Attribute, Decision, Finding, Instruction, Operand, Site
from .rules.constraints import element_type
from .rules.forbid import forbid, retype
from .rules.handles import Shown
from .sync_config import required
from .sync_handles import config
from .traits import Effect, LaunchNumber, Traits

_PAGE = "PTOAS dialect definition"
_I64 = ScalarType(I64)
_ORDER = Decision(
    "Cores run side by side; which of them is it here?",
    "One after another: every block, and in a block every vector subblock, each with its own numbers.",
    "deterministic execution of this engine",
)
#: Names that those who build operations use.
GET_BLOCK_IDX = "get_block_idx"
GET_BLOCK_NUM = "get_block_num"


@forbid("result-type", "result is i64 or index", source=_PAGE, invalid_if=retype("result", "f32"))
def _number(site: Site) -> Iterator[Finding]:
    d = element_type(site.types.get("result"))
    if d is not None and d.name not in ("i64", "index"):
        yield "result", f"result has type {d}; allowed: i64, index"


def _query(name: str, summary: str, semantics: str, number: LaunchNumber) -> Instruction:
    return config(
        name,
        summary,
        semantics,
        (Operand("result", "out", "scalar", dtype=None),),
        ((),),
        (Shown({"result": _I64}),),
        constraints=(_number,),
        decisions=(_ORDER,),
        traits=Traits(launch=number),
    )


INSTRUCTIONS: tuple[Instruction, ...] = (
    _query(GET_BLOCK_IDX, "Number of the block.", "0 to get_block_num - 1.", "block"),
    _query(GET_BLOCK_NUM, "Number of blocks of the launch.", "The grid size.", "blocks"),
    _query(
        "get_subblock_idx",
        "Number of the vector core of the block.",
        "0 or 1; 0 on the cube core.",
        "subblock",
    ),
    _query(
        "get_subblock_num",
        "Number of vector cores of a block.",
        "2 for kernels on two vector cores, else 1.",
        "subblocks",
    ),
    config(
        "print",
        "Print a scalar.",
        "Writes the scalar in the format; nothing in memory changes.",
        (Operand("scalar", "in", "scalar", dtype=None),),
        (("scalar",),),
        (Shown({"scalar": ScalarType(F32)}, attrs={"format": "%f"}),),
        (Attribute("format", str, None, "text with one conversion"),),
        (required("format"),),
        traits=Traits(effects=(Effect("write", "host"),)),
    ),
    config(
        "trap",
        "Stop the core.",
        "Execution ends with an error.",
        (),
        ((),),
        (Shown({}),),
        traits=Traits(effects=(Effect("write", "host"),)),
    ),
)
