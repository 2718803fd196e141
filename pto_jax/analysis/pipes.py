"""Pipes between cores: where they are set up, and which ends belong together."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..ir import Function, KernelKind, Op, Program, Symbol, TileType, Value
from ..isa.effects import traits_in, traits_of
from ..isa.rules.pipes import BUFFERS
from ..isa.traits import Fifo

#: A reserved buffer: the function that owns it, and its name.
Buffer = tuple[str, str]
#: What a pipe is known by in every function that has an end of it.
Key = tuple[str, ...]
#: Operands that say where slots in global memory lie.
_MEMORY = ("gm_slot_tensor", "gm_addr")
#: The local buffers of a handle: those of both directions, in the order in which they are given.
_LOCAL = ("local_addr", "peer_local_addr")


@dataclass(frozen=True)
class End:
    """One initialisation of a pipe in a function.

    ``core`` is None for handles, which both kinds of cores make. ``buffers`` are the reserved buffers of its
    directions (bits of ``dir_mask``), as far as it names some.
    """

    function: str
    op: Op
    core: KernelKind | None
    number: int
    buffers: dict[int, Buffer] = field(default_factory=dict)

    @property
    def mask(self) -> int:
        """The directions of data."""
        mask = self.op.attrs.get("dir_mask")
        return mask if isinstance(mask, int) else 0

    @property
    def memory(self) -> Value | None:
        """The view or pointer of its slots in global memory, None where no operand names views."""
        return next((v for name in _MEMORY for v in self.op.group(name)), None)

    def key(self, direction: int) -> Key:
        """What the pipe is known by in one of its directions: its buffer, else its number."""
        base = self.op.attrs.get("flag_base")
        if isinstance(base, int):
            return ("flag", str(base))
        return self.buffers.get(direction) or ("id", str(self.number))


def uses(function: Function, *kinds: Fifo) -> Iterator[Op]:
    """The operations of a function that use pipes or their buffers in one of these ways."""
    if not any(traits.fifo in kinds for traits in traits_in(function)):
        return iter(())
    return (op for op in function.walk() if traits_of(op).fifo in kinds)


def number_of(op: Op) -> int:
    """The pipe that an operation without a handle names."""
    number = op.attrs.get("id", 0)
    return number if isinstance(number, int) else 0


def buffers_of(function: Function) -> dict[str, Buffer]:
    """Reserved buffers by the name of the value that is their address."""
    buffers: dict[str, Buffer] = {}
    for op in uses(function, "reserve", "import"):
        peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
        owner = peer.name if isinstance(peer, Symbol) else function.name
        buffers |= {result.name: (owner, str(name)) for result in op.results}
    return buffers


def ends(function: Function) -> list[End]:
    """The initialisations of a function, in the order of the text."""
    buffers = buffers_of(function)
    result = []
    for op in uses(function, "initialise"):
        core = traits_of(op).core
        named = dict(BUFFERS)
        if core is None:
            mask = op.attrs.get("dir_mask")
            named = {bit: name for bit, name in zip((1, 2), _LOCAL, strict=True) if mask == 3}
            named = named or {mask if isinstance(mask, int) else 1: _LOCAL[0]}
        operands = {bit: v.name for bit, name in named.items() for v in _operand(op, name)}
        own = {bit: buffers[name] for bit, name in operands.items() if name in buffers}
        result.append(End(function.name, op, core, number_of(op), own))
    return result


def _operand(op: Op, name: str) -> tuple[Value, ...]:
    """An operand by its name, in operations with and without named groups."""
    if op.groups or name not in _LOCAL:
        return op.group(name)
    at = _LOCAL.index(name)
    return op.ins[at : at + 1]


def end_of(function: Function, op: Op) -> End | None:
    """The end that an operation without a handle goes through, None where there is none."""
    core = traits_of(op).core
    return next((e for e in ends(function) if e.core == core and e.number == number_of(op)), None)


def popped(program: Program, key: Key) -> list[tuple[Op, TileType]]:
    """The pops of vector cores from a pipe that give tiles, with these."""
    tiles = []
    for function in program.functions:
        numbers = {
            e.number for e in ends(function) if e.core is KernelKind.VECTOR and e.mask & 1 and e.key(1) == key
        }
        for op in uses(function, "pop"):
            if traits_of(op).core is KernelKind.VECTOR and number_of(op) in numbers and op.results:
                t = op.results[0].type
                tiles += [(op, t)] if isinstance(t, TileType) else []
    return tiles


def slot_views(function: Function) -> Iterator[tuple[Value, Value]]:
    """Pairs of a view that is a slot in global memory, and the view or pointer of all slots."""
    handles = {v.name: e.memory for e in ends(function) for v in e.op.results}
    for op in uses(function, "allocate", "pop"):
        named = [handles[v.name] for v in op.ins if v.name in handles]
        end = end_of(function, op) if not named else None
        memory = end.memory if end is not None else next(iter(named), None)
        if memory is not None:
            slots = [v for v in (*op.results, *op.ins[:1]) if not isinstance(v.type, TileType)]
            yield from ((v, memory) for v in slots if v.name not in handles)
