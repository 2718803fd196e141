"""Rules on pipes that span operations and functions: where they may stand, and that both sides agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import Diagnostic
from ..ir.program import Function, Op, Program, Symbol
from ..ir.types import KernelKind
from ..isa.effects import traits_of
from ..isa.traits import Fifo

#: What a program does with a pipe that it has initialised.
_USES: tuple[Fifo, ...] = ("push", "pop", "free")
_BUFFERS: tuple[Fifo, ...] = ("reserve", "import")


@dataclass
class _Side:
    """What one function does with pipes."""

    function: Function
    ops: list[tuple[Op, KernelKind | None]] = field(default_factory=list)
    #: Buffers as (owner, name), by the name of the value that is their address.
    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)

    def having(self, *uses: Fifo) -> list[Op]:
        """The operations that use pipes or their buffers in one of these ways."""
        return [op for op, _ in self.ops if traits_of(op).fifo in uses]

    def rings(self) -> list[Op]:
        """The operations that make handles of pipes, which both kinds of cores may execute."""
        return [op for op in self.having("initialise") if traits_of(op).core is None]


def pipe_findings(program: Program) -> Iterator[Diagnostic]:
    """What is wrong with the pipes of a program; nothing for a fragment, which is no whole function."""
    if program.fragment:
        return
    sides = {f.name: _side(f) for f in program.functions}
    sides = {name: s for name, s in sides.items() if s.ops}
    for side in sides.values():
        yield from _places(side)
        yield from _counts(side)
        yield from _imports(side, sides)
        yield from _addresses(side)
    for group in _groups(sides):
        yield from _pairs(group)
        yield from _splits(group)


def _error(rule: str, op: Op, message: str) -> Diagnostic:
    return Diagnostic("error", message, op.span, op.name, rule=rule)


def _side(function: Function) -> _Side:
    side = _Side(function)
    kind = function.attrs.get("pto.kernel_kind")
    _collect(function.body.ops, kind if isinstance(kind, KernelKind) else None, side)
    return side


def _collect(ops: tuple[Op, ...], kind: KernelKind | None, side: _Side) -> None:
    for op in ops:
        traits = traits_of(op)
        if traits.fifo in ("initialise", *_USES, *_BUFFERS):
            side.ops.append((op, kind))
            name, peer = op.attrs.get("name"), op.attrs.get("peer_func")
            owner = peer.name if isinstance(peer, Symbol) else side.function.name
            for result in op.results if traits.fifo in _BUFFERS else ():
                side.buffers[result.name] = (owner, str(name))
        for region in op.regions:
            _collect(region.ops, kind if traits.core is None else traits.core, side)


def _places(side: _Side) -> Iterator[Diagnostic]:
    """Each core's operations stand in its functions."""
    for op, kind in side.ops:
        traits = traits_of(op)
        wanted = traits.core
        if wanted is not None and kind != wanted:
            where = "no kernel" if kind is None else f"a {kind.name.lower()} kernel"
            yield _error("pipe-kernel", op, f"in {where}; allowed: in a {wanted.name.lower()} kernel")
        if wanted is None and traits.fifo in _USES and kind is None:
            yield _error("pipe-kernel", op, "in no kernel; allowed: in a cube or vector kernel or section")


def _counts(side: _Side) -> Iterator[Diagnostic]:
    initialising = [op for op in side.having("initialise") if traits_of(op).core is not None]
    of_kinds = ([op for op in initialising if traits_of(op).core == kind] for kind in KernelKind)
    for ops in (*of_kinds, side.having("reserve"), side.having("import")):
        for op in ops[1:]:
            yield _error("pipe-once", op, f"a second time in @{side.function.name}; allowed: once")


def _imports(side: _Side, sides: Mapping[str, _Side]) -> Iterator[Diagnostic]:
    for op in side.having("import"):
        peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
        if not isinstance(peer, Symbol):
            continue
        other = sides.get(peer.name)
        reserved = [o.attrs.get("name") for o in other.having("reserve")] if other else []
        if name not in reserved:
            listed = ", ".join(f'"{r}"' for r in reserved) or "nothing"
            yield _error(
                "pipe-peer", op, f'"{name}" of @{peer.name}, which reserves {listed}; allowed: its buffers'
            )


def _addresses(side: _Side) -> Iterator[Diagnostic]:
    """Flags are assigned by buffer; without one they have to be given."""
    for op in side.rings():
        if op.attrs.get("flag_base") is None and not _buffer_of(op, side):
            yield _error(
                "pipe-buffer",
                op,
                "local_addr is no reserved buffer and flag_base is missing; allowed: an address from "
                "reserve_buffer or import_reserved_buffer, or flag_base = N",
            )


def _buffer_of(op: Op, side: _Side) -> list[tuple[str, str]]:
    return [side.buffers[v.name] for v in op.ins if v.name in side.buffers]


def _groups(sides: Mapping[str, _Side]) -> Iterator[list[_Side]]:
    """Functions that are connected by a buffer."""
    left = dict(sides)
    while left:
        name = next(iter(left))
        group, names = [left.pop(name)], {name}
        grown = True
        while grown:
            owners = {owner for s in group for owner, _ in s.buffers.values()} | names
            joined = [
                n for n, s in left.items() if n in owners or owners & {o for o, _ in s.buffers.values()}
            ]
            group += [left.pop(n) for n in joined]
            names.update(joined)
            grown = bool(joined)
        yield group


def _pairs(group: list[_Side]) -> Iterator[Diagnostic]:
    """A pipe over a reserved buffer is initialised on both of its sides."""
    used = [(op, b, s.function.name) for s in group for op in s.rings() for b in _buffer_of(op, s)]
    for op, buffer, function in used:
        if not any(b == buffer and f != function for _, b, f in used):
            yield _error(
                "pipe-pair",
                op,
                f'only @{function} initialises the pipe of "{buffer[1]}"; allowed: both sides',
            )


def _splits(group: list[_Side]) -> Iterator[Diagnostic]:
    """One pipe is used whole by all its operations, or in halves by all of them."""
    uses = [op for s in group for op in s.having(*_USES)]
    whole = [op for op in uses if op.attrs.get("split", 0) == 0]
    halves = [op for op in uses if op.attrs.get("split", 0) != 0]
    if whole and halves:
        yield _error(
            "pipe-split",
            halves[0],
            f"split {halves[0].attrs['split']} here, split 0 at {whole[0].name} of the same pipe; allowed: "
            "split 0 everywhere or nowhere",
        )
    for side in group:
        for op in side.having("initialise"):
            nosplit = op.attrs.get("nosplit")
            clash = whole if nosplit is False else halves if nosplit is True else []
            if clash:
                used, written = clash[0].attrs.get("split", 0), str(nosplit).lower()
                found = f"nosplit = {written} and split {used} at {clash[0].name}"
                yield _error(
                    "pipe-split", op, f"{found}; allowed: nosplit = {str(not nosplit).lower()} or none"
                )
