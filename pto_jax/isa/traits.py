"""Traits: the effects of an operation on its operands, on memory and on other operations.

The declaration of an instruction holds its :class:`Traits`. Calls, structured control flow, sections and
scalar arithmetic have theirs in a table here. :mod:`.effects` gives the values of an operation that the
operands in a trait stand for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ..ir import INDEX, DType, KernelKind

#: How something is used. ``scratch``: written with contents that mean nothing.
Access = Literal["read", "write", "scratch"]
#: What outlives an operation. ``tile``: the bytes of a tile; ``global``: global memory; ``vector``: a vector
#: outside tile memory; ``mode``: what configuration instructions set; ``events``: an array of event numbers;
#: ``remote``: memory of other cores or processors that no operand names; ``host``: what is printed, and an
#: execution that stops; ``unknown``: nothing is known about the operation.
Resource = Literal["tile", "global", "vector", "mode", "events", "remote", "host", "unknown"]

#: The means by which operations order others.
Through = Literal["flag", "event", "token", "pipe", "operation", "core", "cores", "signal", "transfer"]


@dataclass(frozen=True)
class Effect:
    """One use of something that outlives the operation.

    ``operand`` is the declared operand whose memory it is, None where no operand names it. ``indexed`` uses
    are at positions that other operands give, others are of all that the operand's valid region or window
    names.
    """

    access: Access
    resource: Resource
    operand: str | None = None
    indexed: bool = False


@dataclass(frozen=True)
class Alias:
    """``result`` is another handle, view or pointer over the memory that ``source`` names; nothing moves.

    ``memory`` says which memory. ``part``: all of it from its first byte on (``same``), a window of it, or
    what begins elsewhere in the same buffer (``moved``).
    """

    result: str
    source: str
    memory: Literal["tile", "global"] = "tile"
    part: Literal["same", "window", "moved"] = "same"


@dataclass(frozen=True)
class Placement:
    """The bytes of ``handle`` are from here on those at ``address``, or own ones where none is given.

    ``allocates``: the handle is new; else it is bound anew, under its name or that of a result.
    """

    handle: str
    address: str | None = None
    allocates: bool = True


@dataclass(frozen=True)
class Order:
    """What an operation does for the order of others: it lets some of them go on, or holds them back.

    ``through`` says by which means: flags of pipes (``flag``), events of operation classes (``event``),
    tokens of buffers (``token``), whole pipes (``pipe``) and single operations (``operation``) order the
    pipes of one core; flags between cores (``core``), all cores (``cores``), flags of processors
    (``signal``) and asynchronous copies (``transfer``) order cores. What ``publishes`` makes earlier writes
    of global memory visible to other cores and processors. Numbers of flags that are ``apart`` may say which
    vector core they are of.
    """

    role: Literal["signal", "wait", "barrier"]
    through: Through
    publishes: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Regions:
    """How an operation executes its regions, and the terminators that end them.

    ``runs``: the one region in its place (``once``), the first one and then those that branches lead to
    (``graph``: each ends with any of the terminators), one of the regions (``if``: none where it has no
    second one; ``switch``), or a loop (``for``: so many times as the bounds say; ``while``: as the first
    region says). A region beyond the last one that ``ends`` names ends as that one; ``()``: without a
    terminator. ``isolated``: they see no value from outside.
    """

    runs: Literal["once", "graph", "if", "switch", "for", "while"]
    ends: tuple[str, ...] = ("scf.yield",)
    isolated: bool = False

    @property
    def repeats(self) -> bool:
        """Whether the regions are those of a loop."""
        return self.runs in ("for", "while")

    def end(self, at: int) -> str:
        """The terminator of a region by its position, "" for none."""
        return self.ends[min(at, len(self.ends) - 1)] if self.ends else ""


#: What is done with a FIFO between a cube core and its vector cores.
Fifo = Literal["reserve", "import", "initialise", "allocate", "push", "pop", "free"]
#: Numbers of a launch: of the block and of the vector core that executes, and how many there are.
LaunchNumber = Literal["block", "blocks", "subblock", "subblocks"]


@dataclass(frozen=True)
class Traits:
    """What is known of an operation besides its values.

    ``effects`` of tile instructions need not be listed: those that the roles of their operands say are added
    where no listed effect names the operand. ``resizes`` names the tile whose valid region changes.
    ``transfer`` names a tile and a view: every lane of the tile's valid region is an element of the view's
    window. ``core`` is the only kind of core that executes the operation. ``launch`` is the number that the
    result is. ``calls``: it executes another function; ``regions``: its own regions. A ``terminator`` ends a
    region and hands its operands on, all but the first one where that decides on another trip (``decides``).
    """

    effects: tuple[Effect, ...] = ()
    alias: Alias | None = None
    placement: Placement | None = None
    resizes: str | None = None
    transfer: tuple[str, str] | None = None
    order: Order | None = None
    fifo: Fifo | None = None
    core: KernelKind | None = None
    launch: LaunchNumber | None = None
    regions: Regions | None = None
    calls: bool = False
    terminator: bool = False
    decides: bool = False

    def has(self, access: Access, *resources: Resource) -> bool:
        """Whether an effect is of this kind, on one of these resources where any are named."""
        return any(e.access == access and (not resources or e.resource in resources) for e in self.effects)

    @cached_property
    def by_operand(self) -> Mapping[str, tuple[Effect, ...]]:
        """The effects on what operands name, by the operand."""
        names = dict.fromkeys(e.operand for e in self.effects if e.operand is not None)
        return {name: tuple(e for e in self.effects if e.operand == name) for name in names}

    @property
    def meets_blocks(self) -> bool:
        """Whether an operation signals to the cores of all blocks, or waits for them."""
        return self.order is not None and self.order.through == "cores" and not self.order.publishes

    @property
    def pure(self) -> bool:
        """Whether an operation that binds results does nothing else: without a use of them it may go.

        What is read, and an allocation, are no obstacles.
        """
        changes = any(e.access != "read" for e in self.effects) or self.resizes is not None
        steers = self.order is not None or self.fifo is not None or self.terminator
        return not (changes or steers or self.calls or self.regions is not None)


#: Nothing besides values.
PLAIN = Traits()


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
    "vecscope": Traits(regions=Regions("once", ())),
    "strict_vecscope": Traits(regions=Regions("once", (), isolated=True)),
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
    traits = STRUCTURE.get(name)
    if traits is not None:
        return traits
    dialect, dot, _ = name.partition(".")
    return _DIALECTS.get(dialect) if dot else None


def cast_name(source: DType, target: DType) -> str:
    """The operation that makes a number of one type one of another; none is between index and floats."""
    unsigned = source.kind == "uint"
    if INDEX in (source, target):
        name = "index_castui" if unsigned or target.kind == "uint" else "index_cast"
    elif source.is_float and target.is_float:
        name = "extf" if source.bits < target.bits else "truncf" if source.bits > target.bits else "bitcast"
    elif source.is_float:
        name = "fptoui" if target.kind == "uint" else "fptosi"
    elif target.is_float:
        name = "uitofp" if unsigned else "sitofp"
    elif source.bits == target.bits:
        name = "bitcast"
    else:
        name = "trunci" if source.bits > target.bits else "extui" if unsigned else "extsi"
    return f"arith.{name}"
