"""What a core knows about itself, and what a program tells its user."""

from collections.abc import Iterator

from ..ir import F32, I64, ScalarType
from . import declare, sync_config, sync_handles, traits
from .rules import constraints, handles
from .rules.forbid import forbid, retype

_PAGE = "PTOAS dialect definition"
_I64 = ScalarType(I64)
_ORDER = declare.Decision(
    "Cores run side by side; which of them is it here?",
    "One after another: every block, and in a block every vector subblock, each with its own numbers.",
    "deterministic execution of this engine",
)
#: Names that those who build operations use.
GET_BLOCK_IDX = "get_block_idx"
GET_BLOCK_NUM = "get_block_num"


@forbid("result-type", "result is i64 or index", source=_PAGE, invalid_if=retype("result", "f32"))
def _number(site: declare.Site) -> Iterator[declare.Finding]:
    d = constraints.element_type(site.types.get("result"))
    if d is not None and d.name not in ("i64", "index"):
        yield "result", f"result has type {d}; allowed: i64, index"


def _query(name: str, summary: str, semantics: str, number: traits.LaunchNumber) -> declare.Instruction:
    return sync_handles.config(
        name,
        summary,
        semantics,
        (declare.Operand("result", "out", "scalar"),),
        (handles.Shown({"result": _I64}),),
        constraints=(_number,),
        decisions=(_ORDER,),
        traits=traits.Traits(launch=number),
    )


INSTRUCTIONS: tuple[declare.Instruction, ...] = (
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
    sync_handles.config(
        "print",
        "Print a scalar.",
        "Writes the scalar in the format; nothing in memory changes.",
        (declare.Operand("scalar", "in", "scalar"),),
        (handles.Shown({"scalar": ScalarType(F32)}, attrs={"format": "%f"}),),
        (declare.Attribute("format", str, None, "text with one conversion"),),
        (sync_config.required("format"),),
        traits=traits.Traits(effects=(traits.Effect("write", "host"),)),
    ),
    sync_handles.config(
        "trap",
        "Stop the core.",
        "Execution ends with an error.",
        (),
        (handles.Shown({}),),
        traits=traits.Traits(effects=(traits.Effect("write", "host"),)),
    ),
)
