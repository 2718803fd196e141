"""Programs of several ranks that are right by construction, and mutants that lack one thing they need.

A program is a few rounds, each a protocol on windows and signals of its own: copies to other ranks, and what
announces them, waits for them, and keeps windows until all have read them. Whatever orders a round is needed:
a mutant lacks one fence, wait or reply, waits for less, or has one half of a window for two turns.

>>> import random
>>> case = draw(random.Random(5))
>>> case.count in (2, 3, 4), case.lacks
(True, '')
>>> draw(random.Random(5), mutant=True).lacks != ""
True
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from .rank_texts import FENCE, Shape, Text

#: Element types of data that are copied, and those that are added to.
_DATA = ("f32", "i32", "f16", "i16", "i8")
_ADDED = ("f32", "i32", "f16")
#: The argument that is the number of the block.
_BLOCK = "__pypto_spmd_block_idx"
#: Most rounds of a program, and words of its window of signals that a round has.
_ROUNDS, _CELLS = 3, 16
#: Spellings of a fence: with a barrier of all pipes before it, or alone, which orders them, too.
_FENCES = [FENCE, FENCE.splitlines()[1]]


@dataclass(frozen=True)
class Drawn:
    """A program, how many ranks it is for, the elements of its buffers, and what a mutant lacks."""

    text: str
    count: int
    elements: dict[str, int]
    types: dict[str, str]
    protocols: tuple[str, ...]
    lacks: str = ""
    grid: int = 1


def draw(rng: random.Random, *, mutant: bool = False) -> Drawn:
    """A program by chance: the same with and without ``mutant``, but for what the mutant lacks."""
    choices = rng.getrandbits(64)
    whole = _program(random.Random(choices))
    if not mutant:
        return whole.drawn()
    lost = random.Random(choices + 1).randrange(len(whole.needed))
    return _program(random.Random(choices), lost).drawn()


def _program(rng: random.Random, lost: int | None = None) -> _Program:
    count, t = rng.choice((2, 2, 3, 4)), rng.choice(_DATA)
    pointers = {"x": t, "y": t, "s": "i32", "z": t, "ws": "i8", "ctx": "i64"}
    grid = rng.choice((1, 1, 1, 2))
    k = Text(pointers, {"rank": "i32", **({_BLOCK: "i32"} if grid > 1 else {})}, arch="", name="ranks")
    rows = rng.choice((1, 1, 2, 4))
    # Rows of tiles are whole blocks of 32 bytes.
    cols = rng.choice((1, 2, 3)) * {"f32": 8, "i32": 8, "f16": 16, "i16": 16, "i8": 32}[t]
    program = _Program(rng, k, count, t, (rows, cols), lost, grid)
    program.own = k.index("%rank")
    program.block = k.index(f"%{_BLOCK}") if grid > 1 else ""
    for _ in range(rng.randint(1, _ROUNDS)):
        names = [n for n in PROTOCOLS if n not in _OF_ADDED or t in _ADDED]
        name = rng.choice(names)
        program.protocols.append(name)
        PROTOCOLS[name](program)
        program.begin()
    return program


@dataclass
class _Program:
    """A program in the making; ``lost`` is the number of what it lacks of what it needs."""

    rng: random.Random
    k: Text
    n: int
    t: str
    shape: tuple[int, int]
    lost: int | None
    grid: int
    own: str = ""
    block: str = ""
    needed: list[str] = field(default_factory=list)
    protocols: list[str] = field(default_factory=list)
    lacks: str = ""
    #: Where the next round begins in the window, in the signals and in the results.
    at: int = 0
    cell: int = 0
    out: int = 0
    _slots: int = 0

    @property
    def size(self) -> int:
        """The elements of a piece of data."""
        return self.shape[0] * self.shape[1]

    def begin(self) -> None:
        """Begin a round behind what the last one uses."""
        self.at, self._slots = self.at + self._slots * self.size, 0
        self.cell += _CELLS

    def drawn(self) -> Drawn:
        """The program as it is."""
        elements = {name: size * self.grid for name, size in self.spans.items()}
        types = {name: self.k.pointers[name] for name in elements}
        return Drawn(str(self.k), self.n, elements, types, tuple(self.protocols), self.lacks, self.grid)

    @property
    def spans(self) -> dict[str, int]:
        """The elements of each buffer that a block has."""
        return {
            "x": 8 * self.size,
            "y": 32 * self.size,
            "s": _ROUNDS * _CELLS,
            "z": 32 * self.size,
            "ws": 1024,
        }

    def placed(self, pointer: str, at: int | str) -> int | str:
        """A place in the part of a buffer that the block has."""
        if not self.block:
            return at
        return self.k.of("addi", self.k.of("muli", self.block, self.spans[pointer]), at)

    # -- what a program needs --------------------------------------------------------------------------

    def need(self, what: str) -> bool:
        """Note what the program needs; whether it is there."""
        self.needed.append(what)
        if self.lost == len(self.needed) - 1:
            self.lacks = f"{what} ({self.protocols[-1]})"
            return False
        return True

    def fence(self) -> None:
        """Publish the writes before a signal."""
        fence = self.rng.choice(_FENCES)
        if self.need("a fence"):
            self.k.add(fence)

    def wait(self, cell: int | str, value: int, how: str = "") -> None:
        """Wait for a signal; a mutant does not wait, or for less."""
        how = how or self.rng.choice(("ge", "ge", "gt"))
        weak = self.rng.random() < 0.5
        if self.need("a wait"):
            self.k.wait("%s", self.placed("s", cell), value - (how == "gt"), how)
        elif weak and how != "eq":
            self.k.wait("%s", self.placed("s", cell), value - 1 - (how == "gt"), how)

    def notify(self, rank: int | str, cell: int | str, value: int = 1, how: str = "atomic_add") -> None:
        """Change a signal of a rank."""
        self.k.notify(self.k.peer("%s", self.k.number(rank)), self.placed("s", cell), value, how)

    # -- data -------------------------------------------------------------------------------------------

    def slot(self, number: int = 0) -> int:
        """Where a piece of this round's window begins."""
        self._slots = max(self._slots, number + 1)
        return self.at + number * self.size

    def moved(self, base: int, rank: str, step: int = 1) -> str:
        """A place that depends on a rank."""
        return self.k.of("addi", self.k.of("muli", rank, step * self.size), base)

    def view(self, pointer: str, at: int | str, shape: Shape = ()) -> str:
        """A piece of data, of the common shape or another one."""
        return self.k.view(f"%{pointer}", self.t, shape or self.shape, self.placed(pointer, at))

    def of_rank(self, rank: int | str, at: int | str, shape: Shape = ()) -> str:
        """A piece of the window of a rank."""
        part = self.k.peer("%y", self.k.number(rank))
        return self.k.view(part, self.t, shape or self.shape, self.placed("y", at))

    def put(self, dst: str, src: str, more: str = "") -> None:
        """A copy, whole or in pieces."""
        rows, cols = self.shape
        size = (self.rng.choice([r for r in (1, 2, 4) if rows % r == 0]), cols)
        pong = self.rng.random() < 0.3
        self.k.put(dst, src, self.shape, self.t, size=size, more=more, pong=pong)

    def read(self, at: int | str) -> None:
        """Load a piece of the own window and store it where nothing else is."""
        tile = self.k.tile(*self.shape, self.t)
        self.k.load(self.view("y", at), self.shape, self.t, tile)
        self.result(tile)

    def result(self, tile: str) -> None:
        """Store a tile where nothing else is."""
        self.k.store(tile, self.view("z", self.out), self.shape, self.t)
        self.out += self.size

    @contextmanager
    def on(self, rank: int) -> Iterator[None]:
        """Lines for one rank."""
        self.k.if_(self.k.equal(self.own, rank))
        yield
        self.k.end()

    def following(self, step: int) -> str:
        """The rank so many further."""
        return self.k.of("remui", self.k.of("addi", self.own, step), self.n)

    def everyone(self, cell: int, value: int) -> None:
        """Every rank tells every rank, and waits for all."""
        self.fence()
        for rank in range(self.n):
            self.notify(rank, cell)
        self.wait(cell, value)

    def pair(self) -> tuple[int, int]:
        """Two ranks."""
        one, two = self.rng.sample(range(self.n), 2)
        return one, two


def _ring(p: _Program) -> None:
    """Every rank puts its data into another one's window and tells it."""
    peer = p.following(p.rng.randrange(1, p.n))
    p.put(p.of_rank(peer, p.slot()), p.view("x", 0))
    p.fence()
    how = p.rng.choice(("atomic_add", "set"))
    p.notify(peer, p.cell, 1, how)
    p.wait(p.cell, 1, "eq" if how == "set" else "")
    p.read(p.slot())


def _mesh(p: _Program) -> None:
    """Every rank puts its data into every one's window, and waits for all."""
    at = p.moved(p.slot(), p.own)
    for rank in range(p.n):
        p.put(p.of_rank(rank, at), p.view("x", 0))
        p.slot(rank)
    p.everyone(p.cell, p.n)
    for rank in range(p.n):
        p.read(p.slot(rank))


def _twice(p: _Program) -> None:
    """A counter that is used again: twice the number, and another half of the window."""
    for turn in range(2):
        half = turn
        if turn and not p.need("a half of the window for each turn"):
            half = 0
        base = p.slot(half * p.n)
        p.slot(half * p.n + p.n - 1)
        at = p.moved(base, p.own)
        for rank in range(p.n):
            p.put(p.of_rank(rank, at), p.view("x", turn * p.size))
        p.everyone(p.cell, p.n * (turn + 1))
        for rank in range(p.n):
            p.read(p.slot(half * p.n + rank))


def _mailbox(p: _Program) -> None:
    """One rank sends, the other replies, on one mailbox each; the sender waits for the reply."""
    sender, receiver = p.pair()
    turns = p.rng.choice((2, 3))
    for turn in range(1, turns + 1):
        with p.on(sender):
            p.put(p.of_rank(receiver, p.slot()), p.view("x", (turn % 3) * p.size))
            p.fence()
            p.notify(receiver, p.cell, turn, "set")
            if turn < turns:
                p.wait(p.cell + 1, turn, "eq")
        with p.on(receiver):
            p.wait(p.cell, turn, "eq")
            p.read(p.slot())
            if turn < turns:
                p.fence()
                p.notify(sender, p.cell + 1, turn, "set")


def _credits(p: _Program) -> None:
    """A sender that is at most two slots ahead: every slot that was read is a credit."""
    sender, receiver = p.pair()
    turns, slots = p.rng.choice((3, 4)), 2
    for turn in range(turns):
        at = p.slot(turn % slots)
        with p.on(sender):
            if turn >= slots:
                p.wait(p.cell + 1, turn - slots + 1)
            p.put(p.of_rank(receiver, at), p.view("x", turn * p.size))
            p.fence()
            p.notify(receiver, p.cell)
        with p.on(receiver):
            p.wait(p.cell, turn + 1)
            p.read(at)
            if turn + slots < turns:
                p.fence()
                p.notify(sender, p.cell + 1)


def _epochs(p: _Program) -> None:
    """A ring again and again: a signal and a part of the window for each epoch."""
    peer = p.following(1)
    for epoch in range(p.rng.choice((2, 3))):
        at = p.slot(epoch)
        p.put(p.of_rank(peer, at), p.view("x", epoch * p.size))
        p.fence()
        p.notify(peer, p.cell + epoch)
        p.wait(p.cell + epoch, 1)
        p.read(at)


def _collective(
    p: _Program, form: str, first: str, types: tuple[Shape, Shape], more: str, acc: str = ""
) -> None:
    rows, cols = p.shape
    tile = f"!pto.tile_buf<vec, {rows}x{cols}x{p.t}>"
    members = [p.of_rank(r, p.slot(), types[1]) for r in range(p.n)]
    scratch = f"{acc}recv({p.k.tile(rows, cols, p.t)})"
    whole, member = (p.k.type(t, p.t) for t in types)
    arguments = ", ".join([whole, *([tile] if acc else []), tile, *[member] * p.n])
    operands = f"{first}, {scratch}, group({', '.join(members)}) : {arguments}"
    p.k.add(f"{form.format(operands)} {{{more}}}")


def _broadcast(p: _Program) -> None:
    """The root copies to all and tells all."""
    _of_root(p, "pto.comm.tbroadcast({})", p.shape)


def _scatter(p: _Program) -> None:
    """The root gives every rank a part and tells it."""
    rows, cols = p.shape
    _of_root(p, "pto.comm.tscatter({})", (rows * p.n, cols))


def _of_root(p: _Program, form: str, shape: Shape) -> None:
    """A root writes into all windows from a view of its own and tells all ranks."""
    root = p.rng.randrange(p.n)
    with p.on(root):
        _collective(p, form, p.view("x", 0, shape), (shape, p.shape), f"root = {root} : i32")
        p.fence()
        for rank in range(p.n):
            p.notify(rank, p.cell)
    p.wait(p.cell, 1)
    p.read(p.slot())


def _gather(p: _Program) -> None:
    """All show their data, the root reads all of them, and only then windows are written again."""
    root = p.rng.randrange(p.n)
    rows, cols = p.shape
    whole = (rows * p.n, cols)
    p.put(p.view("y", p.slot()), p.view("x", 0))
    p.everyone(p.cell, p.n)
    with p.on(root):
        dst = p.view("z", p.out, whole)
        _collective(p, "pto.comm.tgather({})", dst, (whole, p.shape), f"root = {root} : i32")
    p.out += p.n * p.size
    _again(p, root)


def _reduce(p: _Program) -> None:
    """All show their data, the root folds them, and only then windows are written again."""
    root, op = p.rng.randrange(p.n), p.rng.choice(("sum", "max", "min"))
    p.put(p.view("y", p.slot()), p.view("x", 0))
    p.everyone(p.cell, p.n)
    with p.on(root):
        acc = f"{p.k.tile(*p.shape, p.t)}, "
        more = f"reduceOp = #pto<reduce_op {op}>, root = {root} : i32"
        _collective(p, "pto.comm.treduce({})", p.view("z", p.out), (p.shape, p.shape), more, acc)
    p.out += p.size
    _again(p, root)


def _again(p: _Program, root: int) -> None:
    """The root tells all that it has read, and all write their windows again."""
    with p.on(root):
        p.fence()
        for rank in range(p.n):
            p.notify(rank, p.cell + 1)
    p.wait(p.cell + 1, 1)
    p.put(p.view("y", p.slot()), p.view("x", p.size))


def _gets(p: _Program) -> None:
    """Every rank reads the data of every one, and all wait before they write again."""
    p.put(p.view("y", p.slot()), p.view("x", 0))
    p.everyone(p.cell, p.n)
    for rank in range(p.n):
        tile = p.k.tile(*p.shape, p.t)
        p.k.get(p.view("z", p.out), p.of_rank(rank, p.slot()), p.shape, p.t, tile, p.shape)
        p.out += p.size
    p.everyone(p.cell + 1, p.n)
    p.put(p.view("y", p.slot()), p.view("x", p.size))


def _sums(p: _Program) -> None:
    """Every rank adds up the data of all in its own order, read from their windows."""
    for rank in range(p.n):
        p.put(p.view("y", p.slot(rank)), p.view("x", rank * p.size))
    p.everyone(p.cell, p.n)
    at = p.moved(p.slot(), p.own)
    total, other = p.k.tile(*p.shape, p.t), p.k.tile(*p.shape, p.t)
    p.k.load(p.of_rank(0, at), p.shape, p.t, total)
    for rank in range(1, p.n):
        p.k.load(p.of_rank(rank, at), p.shape, p.t, other)
        p.k.sum(total, other, p.shape, p.t)
    p.result(total)


def _additions(p: _Program) -> None:
    """All add to one place; integers, which give one sum in every order."""
    if p.t != "i32":
        _ring(p)
        return
    root = p.rng.randrange(p.n)
    p.put(p.of_rank(root, p.slot()), p.view("x", 0), "{atomicType = #pto<atomic_type atomic_add>}")
    p.fence()
    p.notify(root, p.cell)
    with p.on(root):
        p.wait(p.cell, p.n)
        p.read(p.slot())


def _asynchronous(p: _Program) -> None:
    """A ring of copies that go on beside the core, which waits for the last one before it tells of them.

    Copies that are complete are in memory: only stores of earlier rounds need the fence behind the wait.
    """
    k, peer, flat = p.k, p.following(1), (p.size,)
    t, session, scratch = k.type(flat, p.t), k.new(), k.new()
    tile = "!pto.tile_buf<vec, 1x256xi8>"
    k.add(
        f"{scratch} = pto.alloc_tile : {tile}",
        f"{session} = pto.comm.build_async_session({scratch}, %ws : {tile}, !pto.ptr<i8>) "
        "{sync_id = 0 : i32} -> !pto.async_session",
    )
    event = ""
    for piece in range(p.rng.choice((1, 2))):
        event, dst, src = k.new(), p.of_rank(peer, p.slot(piece), flat), p.view("x", piece * p.size, flat)
        k.add(
            f"{event} = pto.comm.tput_async({dst}, {src}, {session} : {t}, {t}, !pto.async_session) "
            "-> !pto.async_event"
        )
    operands = f"({event}, {session} : !pto.async_event, !pto.async_session)"
    wait = f"{k.new()} = pto.comm.wait_async_event{operands} -> i1"
    there = p.need("a wait for a copy")
    k.add(*[wait] * there)
    first = len(p.protocols) == 1
    k.add(p.rng.choice(_FENCES + FENCE.splitlines()[:1] * first))
    p.notify(peer, p.cell)
    k.add(*[wait] * (not there))
    p.wait(p.cell, 1)
    p.read(p.slot())


#: The protocols by what they are called, and those that compute.
PROTOCOLS: dict[str, Callable[[_Program], None]] = {
    "ring": _ring,
    "mesh": _mesh,
    "counter used twice": _twice,
    "mailbox with reply": _mailbox,
    "credits": _credits,
    "epochs": _epochs,
    "broadcast and counter": _broadcast,
    "scatter": _scatter,
    "gather": _gather,
    "reduction": _reduce,
    "gets": _gets,
    "reduce-scatter": _sums,
    "additions": _additions,
    "asynchronous copies": _asynchronous,
}
_OF_ADDED = ("reduction", "reduce-scatter")
