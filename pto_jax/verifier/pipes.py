"""Rules on pipes that span operations and functions: where they may stand, and that both sides agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import Diagnostic
from ..ir.program import Function, Op, Program, Symbol
from ..ir.types import KernelKind

_CUBE = frozenset(("aic_initialize_pipe", "tpush_to_aiv", "tpop_from_aiv", "tfree_from_aiv"))
_VECTOR = frozenset(("aiv_initialize_pipe", "tpush_to_aic", "tpop_from_aic", "tfree_from_aic"))
_BY_HANDLE = frozenset(("tpush", "tpop", "tfree"))
_SPLIT = (_CUBE | _VECTOR | _BY_HANDLE) - {"aic_initialize_pipe", "aiv_initialize_pipe"}
_FRONTEND = frozenset(("aic_initialize_pipe", "aiv_initialize_pipe"))
_RINGS = frozenset(("initialize_l2l_pipe", "initialize_l2g2l_pipe"))
_BUFFERS = frozenset(("reserve_buffer", "import_reserved_buffer"))
_PIPES = _CUBE | _VECTOR | _BY_HANDLE | _RINGS | _BUFFERS


@dataclass
class _Side:
    """What one function does with pipes."""

    function: Function
    ops: list[tuple[Op, KernelKind | None]] = field(default_factory=list)
    #: Buffers as (owner, name), by the name of the value that is their address.
    buffers: dict[str, tuple[str, str]] = field(default_factory=dict)

    def named(self, names: frozenset[str]) -> list[Op]:
        return [op for op, _ in self.ops if op.name in names]


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
    sections = {"section.cube": KernelKind.CUBE, "section.vector": KernelKind.VECTOR}
    for op in ops:
        if op.name in _PIPES:
            side.ops.append((op, kind))
            name, peer = op.attrs.get("name"), op.attrs.get("peer_func")
            owner = peer.name if isinstance(peer, Symbol) else side.function.name
            for result in op.results if op.name in _BUFFERS else ():
                side.buffers[result.name] = (owner, str(name))
        for region in op.regions:
            _collect(region.ops, sections.get(op.name, kind), side)


def _places(side: _Side) -> Iterator[Diagnostic]:
    """Each core's operations stand in its functions."""
    for op, kind in side.ops:
        wanted = KernelKind.CUBE if op.name in _CUBE else KernelKind.VECTOR if op.name in _VECTOR else None
        if wanted is not None and kind != wanted:
            where = "no kernel" if kind is None else f"a {kind.name.lower()} kernel"
            yield _error("pipe-kernel", op, f"in {where}; allowed: in a {wanted.name.lower()} kernel")
        if op.name in _BY_HANDLE and kind is None:
            yield _error("pipe-kernel", op, "in no kernel; allowed: in a cube or vector kernel or section")


def _counts(side: _Side) -> Iterator[Diagnostic]:
    for names in (*({n} for n in sorted(_FRONTEND)), {"reserve_buffer"}, {"import_reserved_buffer"}):
        for op in side.named(frozenset(names))[1:]:
            yield _error("pipe-once", op, f"a second time in @{side.function.name}; allowed: once")


def _imports(side: _Side, sides: Mapping[str, _Side]) -> Iterator[Diagnostic]:
    for op in side.named(frozenset(("import_reserved_buffer",))):
        peer, name = op.attrs.get("peer_func"), op.attrs.get("name")
        if not isinstance(peer, Symbol):
            continue
        other = sides.get(peer.name)
        reserved = [o.attrs.get("name") for o in other.named(frozenset(("reserve_buffer",)))] if other else []
        if name not in reserved:
            listed = ", ".join(f'"{r}"' for r in reserved) or "nothing"
            yield _error(
                "pipe-peer", op, f'"{name}" of @{peer.name}, which reserves {listed}; allowed: its buffers'
            )


def _addresses(side: _Side) -> Iterator[Diagnostic]:
    """Flags are assigned by buffer; without one they have to be given."""
    for op in side.named(_RINGS):
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
    used = [(op, b, s.function.name) for s in group for op in s.named(_RINGS) for b in _buffer_of(op, s)]
    for op, buffer, function in used:
        if not any(b == buffer and f != function for _, b, f in used):
            yield _error(
                "pipe-pair",
                op,
                f'only @{function} initialises the pipe of "{buffer[1]}"; allowed: both sides',
            )


def _splits(group: list[_Side]) -> Iterator[Diagnostic]:
    """One pipe is used whole by all its operations, or in halves by all of them."""
    uses = [op for s in group for op in s.named(_SPLIT)]
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
        for op in side.named(_FRONTEND | _RINGS):
            nosplit = op.attrs.get("nosplit")
            clash = whole if nosplit is False else halves if nosplit is True else []
            if clash:
                used, written = clash[0].attrs.get("split", 0), str(nosplit).lower()
                found = f"nosplit = {written} and split {used} at {clash[0].name}"
                yield _error(
                    "pipe-split", op, f"{found}; allowed: nosplit = {str(not nosplit).lower()} or none"
                )
