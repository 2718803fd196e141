"""Operations that are no instruction: calls, structured control flow, sections, scalar arithmetic."""

from collections.abc import Mapping

from ..ir import KernelKind
from .traits import PLAIN, Effect, Regions, Traits

#: The terminator of a function.
FUNCTION_END = "return"
#: An integer seen as one of another sign: the same bits.
CAST = "builtin.unrealized_conversion_cast"
#: Blocks that branches lead to, in the one operation that a body of several blocks is, and the branches.
GRAPH, BRANCH, BRANCH_IF = "cf.graph", "cf.br", "cf.cond_br"
#: A group of operations that a compiler may fuse, executed in its place, and what ends it.
FUSION, FUSION_END = "fusion_region", "yield"
_YIELD = ("scf.yield",)
_END = Traits(terminator=True)

#: Traits by name; operations of the dialects in :data:`_DIALECTS` that are not listed have the dialect's.
STRUCTURE: Mapping[str, Traits] = {
    "call": Traits(calls=True),
    CAST: PLAIN,
    FUSION: Traits(regions=Regions("once", (FUSION_END,))),
    FUSION_END: _END,
    GRAPH: Traits(regions=Regions("graph", (BRANCH, BRANCH_IF, FUNCTION_END))),
    BRANCH: _END,
    BRANCH_IF: _END,
    FUNCTION_END: _END,
    "scf.for": Traits(regions=Regions("for")),
    "scf.while": Traits(regions=Regions("while", ("scf.condition", "scf.yield"))),
    "scf.if": Traits(regions=Regions("if")),
    "scf.index_switch": Traits(regions=Regions("switch")),
    "scf.execute_region": Traits(regions=Regions("once")),
    "scf.yield": _END,
    "scf.condition": Traits(terminator=True, decides=True),
    "section.cube": Traits(regions=Regions("once", ()), core=KernelKind.CUBE),
    "section.vector": Traits(regions=Regions("once", ()), core=KernelKind.VECTOR),
}
#: An operation of which nothing is known may do anything.
UNKNOWN = Traits(effects=(Effect("write", "unknown"),))
_DIALECTS: Mapping[str, Traits] = {
    "arith": PLAIN,
    "scf": Traits(effects=UNKNOWN.effects, regions=Regions("once", _YIELD)),
}


def structural_traits(name: str) -> Traits | None:
    """The traits of an operation that is no instruction, None where the name is of none.

    >>> structural_traits("arith.addi").pure, structural_traits("scf.yield").terminator
    (True, True)
    """
    known = STRUCTURE.get(name)
    if known is not None:
        return known
    dialect, dot, _ = name.partition(".")
    return _DIALECTS.get(dialect) if dot else None
