"""Events: what instructions return, and waiting for them."""

import ast
from typing import Any, NoReturn

from ..files import user_code
from ..ir import OpaqueType
from ..isa.sync_config import TSYNC
from . import instead
from .body import Block, Body, Node, current, flattened
from .places import Place, fail, here
from .values import Handle, TileHandle, described

EVENT = OpaqueType("event")
#: The most events that one ``tsync`` names.
_MOST = 8


class Event:
    """What a tile instruction returns: later instructions wait for it with ``wait=`` or :func:`tsync`.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("f", {"p": b.ptr("f32")}) as f:
    ...     tile = b.alloc_tile("f32", 16, 16)
    ...     loaded = b.tload(tile, b.global_tensor(f.args[0], [16, 16])[0, 0])
    ...     added = b.tadds(tile, tile, 1.0, wait=loaded)
    >>> [op.name for op in program.program.walk() if not op.name.startswith("arith")]
    ['alloc_tile', 'make_tensor_view', 'tload', 'tsync', 'tadds', 'return']
    """

    def __init__(self, node: Node, owner: Body, block: Block, place: Place) -> None:
        self.node = node
        self._owner = owner
        self._block = block
        self._place = place
        self._handle: Handle | None = None

    def handle(self) -> Handle:
        """The value to wait for: an event that the operation gives, else the tile it works on."""
        if self._handle is None:
            if self.node.outs:
                name = self._place.target()
                self._handle = Handle(self._owner, self._block, EVENT, self._owner.fresh(name or "event"))
                self.node.results.append(self._handle)
            else:
                tiles = [h for h in self.node.ins if isinstance(h, TileHandle)]
                if not tiles:
                    fail(
                        f"{self} has no event", allowed="tsync() without operands, which waits for everything"
                    )
                self._handle = tiles[0]
        return self._handle

    def spelled(self, written: user_code.Expression | None) -> str:
        """The name of the event in messages."""
        return f"the event of {self.node.name}"

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """Refuse an event as a value of Python; the fix computes on the tile that the instruction writes."""
        tile = self.node.outs[0] if self.node.outs else None
        text, fix = written.text if written is not None else "an expression", ""
        if written is not None and isinstance(written.tree, ast.BinOp) and tile is not None:
            left, right = user_code.sides(written.tree)
            symbol = ast.unparse(ast.BinOp(ast.Name("a"), written.tree.op, ast.Name("b")))[2:-2]
            reflected = isinstance(written.tree.left, ast.Constant)
            fix = instead.operation(
                symbol, tile.label, tile.type, left if reflected else right, None, reflected=reflected
            )
            fix = f"{left}; {fix}" if isinstance(written.tree.left, ast.Call) else fix
        allowed = f"the tile that it writes, {tile.label}" if tile is not None else "waiting for it"
        return f"{text}: got the event of {self.node.name}", allowed, fix

    def _refuse(self, *_: object) -> NoReturn:
        written = user_code.expression()
        message, allowed, fix = self.objection(written)
        fail(message, written.span if written is not None else None, allowed=allowed, fix=fix)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __array__ = __array_ufunc__ = __getitem__ = __bool__ = _refuse
    __jax_array__ = property(_refuse)

    def __str__(self) -> str:
        return f"{self.node.name} ({self.node.span})"


def tsync(*events: Any, op: str | None = None) -> None:
    """Wait for events (or for the instructions that use some tiles); without operands for everything.

    ``op`` names an instruction whose pipe is drained, as in ``pto.tsync<TADD>``. BuildError for other
    operands, and for an event of an instruction without tiles.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("f") as f:
    ...     tile = b.alloc_tile("f32", 16, 16)
    ...     event = b.tadds(tile, tile, 1.0)
    ...     b.tsync(event)
    ...     b.tsync()
    >>> [len(op.ins) for op in program.program.walk() if op.name == "tsync"]
    [1, 0]
    """
    wait(events, here(), op=op, always=True)


def wait(events: Any, place: Place, *, op: str | None = None, always: bool = False) -> None:
    """Build the wait for one or several events."""
    handles: list[Handle] = []
    for event in flattened(events):
        if isinstance(event, Event):
            handle = event.handle()
        elif isinstance(event, Handle):
            handle = event
        else:
            fail(
                f"got {described(event)} to wait for",
                place.span,
                allowed="events, which tile instructions return, and tiles",
                instruction=TSYNC,
            )
        if all(h is not handle for h in handles):
            handles.append(handle)
    attributes = {} if op is None else {"op": op}
    parts = [handles[i : i + _MOST] for i in range(0, len(handles), _MOST)]
    for part in parts or ([[]] if always else []):
        current().emit(Node(TSYNC, part, attributes=attributes, form="dps", span=place.span))
