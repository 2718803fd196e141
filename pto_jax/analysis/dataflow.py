"""The solvers of forward dataflow problems: one for states, one for values.

A *dense* problem (:class:`Forward`) asks what holds at every place of a program: a state, which operations
change on the way. The program says in which order regions execute, so that no graph is built: a state enters
a region and comes out of it changed, branches fork it and join what comes out of each, and a loop repeats its
body until the state in front of it no longer changes. A *sparse* problem (:func:`raise_values`) asks for one
element for each value, wherever it is used; operations raise the elements of what they write by those of what
they read, until none changes.

A problem gives the lattice and the transfer function of an operation; neither is repeated anywhere else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, Self, TypeVar

from ..ir import Op, Region, Value
from ..isa.effects import handed_on, traits_of


class State(Protocol):
    """What holds at a place: an element of a lattice, changed in place by those who own it."""

    def fork(self, defined: Sequence[Value] = ()) -> Self:
        """A state of its own for one path that begins here, and the names that the path begins with."""

    def adopt(self, path: Self) -> None:
        """Become what a path that began here is at its end; names defined on the path end with it."""

    def weaken(self, other: Self) -> bool:
        """Become what holds here and in the other one as well; whether less holds than before."""

    def kept(self) -> Self:
        """What is remembered of a state in front of a loop until the loop is reached again."""


S = TypeVar("S", bound=State)
_Op = TypeVar("_Op")


class Forward(ABC, Generic[S]):
    """A dense forward problem over one function; an instance solves it once.

    The state that :meth:`transfer` saw last at an operation is the one that holds there, as the last pass
    over a loop is one that changed nothing.
    """

    def __init__(self) -> None:
        #: The states in front of loops. A loop inside of another one goes on from where it was, so that the
        #: passes over a body grow with the depth of the nest and not exponentially.
        self._heads: dict[int, S] = {}
        #: How many loops are around the operation in hand.
        self.loops = 0

    @abstractmethod
    def transfer(self, op: Op, state: S) -> None:
        """Change the state in front of an operation to the one behind it, apart from its regions."""

    def hand_on(
        self, targets: Sequence[Value], sources: Sequence[Value], here: S, there: S, *, carried: bool = False
    ) -> None:
        """Let names ``there`` stand for what others stand for ``here``, all at once.

        ``carried``: from one trip of a loop to the next one, or into or out of the loop.
        """

    def meeting(self, op: Op, paths: Sequence[S]) -> Callable[[S], None]:
        """What adds to the state behind a branch what its paths say together."""
        return lambda _: None

    def at_least_once(self, op: Op, state: S) -> bool:
        """Whether a loop with bounds certainly executes its body."""
        return False

    def block(self, region: Region, state: S) -> None:
        """Take a state through a region."""
        for op in region.ops:
            self.transfer(op, state)
            if op.regions:
                self._nested(op, state)

    def _nested(self, op: Op, state: S) -> None:
        regions = traits_of(op).regions
        match regions.runs if regions is not None else "once":
            case "for":
                self._for(op, state)
            case "while" if len(op.regions) == 2:
                self._while(op, state)
            case "graph":
                self._graph(op, state)
            case "if" | "switch" as runs:
                # Without a second region a condition may lead past the first one.
                self._branch(op, state, skips=runs == "if" and len(op.regions) == 1)
            case _:
                for region in op.regions:
                    state.adopt(self._path(op, region, state))

    def _graph(self, op: Op, state: S) -> None:
        """Behind the first block each of the others may come, in any order and any number of times."""
        first, *others = op.regions
        # Its names are seen in all others.
        self.block(first, state)

        def trip(path: S) -> None:
            for region in others:
                path.weaken(self._path(op, region, path))

        head = state.fork()
        self._repeated(op, head, trip)
        state.adopt(head)

    def _path(self, op: Op, region: Region, state: S) -> S:
        path = state.fork(region.args)
        self.block(region, path)
        self.hand_on(op.results, handed_on(region), path, path)
        return path

    def _branch(self, op: Op, state: S, skips: bool) -> None:
        paths = [self._path(op, region, state) for region in op.regions]
        add = self.meeting(op, paths)
        first, *others = paths
        for other in [*others, state.fork()] if skips else others:
            first.weaken(other)
        add(first)
        state.adopt(first)

    def _for(self, op: Op, state: S) -> None:
        body = op.regions[0]
        carried = body.args[1:]

        def trip(path: S) -> None:
            self.block(body, path)
            self.hand_on(carried, handed_on(body), path, path, carried=True)

        head = state.fork(body.args)
        self.hand_on(carried, op.group("inits"), state, head, carried=True)
        last = self._repeated(op, head, trip)
        end = last if self.at_least_once(op, state) else head
        self.hand_on(op.results, carried, end, end, carried=True)
        state.adopt(end)

    def _while(self, op: Op, state: S) -> None:
        before, after = op.regions

        def trip(path: S) -> None:
            self.block(before, path)
            self.hand_on(after.args, handed_on(before), path, path, carried=True)
            self.block(after, path)
            self.hand_on(before.args, handed_on(after), path, path, carried=True)

        head = state.fork((*before.args, *after.args))
        self.hand_on(before.args, op.ins, state, head, carried=True)
        self._repeated(op, head, trip)
        end = head.fork()
        self.block(before, end)
        self.hand_on(op.results, handed_on(before), end, end, carried=True)
        state.adopt(end)

    def _repeated(self, op: Op, head: S, trip: Callable[[S], None]) -> S:
        """Weaken the state in front of a loop to one that holds before every trip; the one behind a trip."""
        earlier = self._heads.get(id(op))
        if earlier is not None:
            head.weaken(earlier)
        self.loops += 1
        while True:
            path = head.fork()
            trip(path)
            if not head.weaken(path):
                break
        self.loops -= 1
        self._heads[id(op)] = head.kept()
        return path


def raise_values(ops: Iterable[_Op], transfer: Callable[[_Op], bool]) -> None:
    """Solve a sparse problem: apply a transfer function to all operations until it changes no element.

    ``transfer`` raises the elements of what an operation writes and tells whether one changed. Elements only
    rise, so that it ends.
    """
    remaining, changed = list(ops), True
    while changed:
        changed = False
        for op in remaining:
            changed |= transfer(op)
