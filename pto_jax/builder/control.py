"""Loops, branches and sections."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from ..errors import is_number
from ..files import user_code
from ..ir import I1, INDEX, KernelKind, ScalarType
from ..isa.signless import signless_type
from . import argument_types, body
from .arith import Scalar, as_scalar, dtype_of, meant
from .kernels import OpenRegion, Structure
from .places import fail, here
from .public import Opener
from .values import Handle, described


class Loop(Structure):
    """A counted loop, run with ``for``; :func:`range` makes it."""

    name = "scf.for"
    usage = "for i in pto.range(...):"

    def missing(self) -> str:
        """A loop over the range where there is none."""
        return "" if self.node.regions else f"for i in {self._written}:"

    def __init__(self, lower: Any, upper: Any, step: Any, carried: Sequence[Any]) -> None:
        bounds = (lower, upper, step)
        d = next((dtype_of(b, "range") for b in bounds if isinstance(b, Handle)), INDEX)
        super().__init__()
        inits = [b if isinstance(b, Handle) else as_scalar(b, dtype_of(b), "carried") for b in carried]
        self.node.ins = [*(as_scalar(b, d, "range") for b in bounds), *inits]
        self.node.groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(inits)))
        self.types = [h.type for h in inits]
        self._counter = ScalarType(d)
        if signless_type(self._counter) != self._counter:
            bound = next(h for h in bounds if isinstance(h, Scalar))
            fix = f'pto.cast({bound.label}, "index")' if bound.label.isidentifier() else ""
            fail(f"range: got {described(bound)}", allowed="index, or an integer with a sign", fix=fix)
        for handle, what in zip(self.node.ins, ("lower bound", "upper bound", "step"), strict=False):
            if handle.type != self._counter:
                text = handle.label if handle.label.isidentifier() else ""
                fix = f'pto.cast({text}, "{d}")' if text and isinstance(handle.type, ScalarType) else ""
                fail(f"{what}: got {described(handle)}", allowed=f"{d}, as the other bounds", fix=fix)

    def _in_python(self, *_: Any) -> NoReturn:
        """Refuse a function of Python that counts passes: the body is built once, for all of them."""
        written = user_code.expression()
        subject = written.text if written is not None else "got a loop of the program"
        fail(f"{subject}: the body of a loop is built once, for all its passes", allowed=self.usage,
             fix=_plain_loop(here().span.text) or self.missing())  # fmt: skip

    __len__ = __reversed__ = __getitem__ = __contains__ = _in_python

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        written = user_code.expression()
        if written is not None and isinstance(written.tree, ast.Call):
            function = written.tree.func
            if isinstance(function, ast.Name) and function.id in _BUILTINS:
                self._in_python()
        if self.node.regions:
            fail(f"the loop ({self.node.span}) was run before", allowed="once")
        return self._pass(here().variables)

    def _pass(self, variables: tuple[str, ...]) -> Iterator[Any]:
        names = (*variables, *[None] * (1 + len(self.types or ())))
        types = [self._counter, *(self.types or ())]
        self.body.emit(self.node)
        block = self.region("the loop", list(zip(types, names, strict=False)))
        yield block.args[0] if len(block.args) == 1 else tuple(block.args)
        if len(self.types or ()) and self._yielded is None:
            fail(
                f"the loop ({self.node.span}) carries values", block.span, allowed="loop.give(...) at its end"
            )
        self.close(block)
        self.complete()


#: Functions of Python that take the passes of a loop one by one.
_BUILTINS = frozenset(("enumerate", "zip", "list", "tuple", "set", "sorted", "map", "filter", "sum", "max",
                       "min", "any", "all", "iter", "dict"))  # fmt: skip
_COUNTED = re.compile(r"\s*for (\w+), (\w+) in enumerate\((.*)\):.*")
_LISTED = re.compile(r"\s*for (\w+) in \w+\((.*)\):.*")


def _plain_loop(line: str) -> str:
    """A ``for`` over a function of Python around a range, without the function; "" for other lines."""
    counted, sequence = _COUNTED.fullmatch(line), _LISTED.fullmatch(line)
    if counted is not None:
        return f"\nfor {counted[2]} in {counted[3]}:\n    {counted[1]} = {counted[2]}"
    return f"for {sequence[1]} in {sequence[2]}:" if sequence is not None else ""


@Opener
def range(lower: Any, upper: Any = None, step: Any = 1, *, carried: Any = ()) -> Loop:
    """A loop of the program, for use with ``for``; bounds are numbers or scalars of the program.

    Values that change from pass to pass are ``carried``: the loop yields the counter and their values at
    the start of a pass, ``loop.give(...)`` at its end gives those of the next one, and ``loop.results``
    are the last ones.

    >>> from pto_jax import builder as b
    >>> @b.kernel(types={"n": "index", "p": b.ptr("i64")})
    ... def total(n, p):
    ...     loop = b.range(0, n, carried=[0])
    ...     for i, sum in loop:
    ...         loop.give(sum + i)
    ...     b.store_scalar(b.cast(loop.result, "i64"), p, 0)
    >>> [op.name for op in total.program.walk() if op.name.startswith("scf")]
    ['scf.for', 'scf.yield']
    """
    if upper is None:
        lower, upper = 0, lower
    return Loop(lower, upper, step, carried if isinstance(carried, list | tuple) else [carried])


class Branch(Structure):
    """A branch with ``with``; :func:`if_` makes it, and :func:`else_` its other side."""

    name, conditional = "scf.if", True
    usage = "with pto.if_(condition):, and with pto.else_(): directly below it where the branch gives values"

    def missing(self) -> str:
        """The branch, or its other side where the first one gives values."""
        unanswered = self.types and len(self.node.regions) == 1
        return "with pto.else_():" if unanswered else super().missing()

    def __init__(self, condition: Any) -> None:
        chosen = as_scalar(condition, I1, "if_")
        if dtype_of(chosen) != I1:
            fix = f"pto.if_({chosen.label} != 0)" if chosen.label.isidentifier() else ""
            fail(f"if_: got {described(chosen)}", allowed="i1, as comparisons give", fix=fix)
        super().__init__([chosen])
        self._then = OpenRegion(self, "the branch", last=False)

    def __enter__(self) -> Branch:
        self._then.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._then.__exit__(*error)

    def else_(self) -> OpenRegion:
        """Operations for the other case, written directly after the branch."""
        nodes = self.body.stack[-1].nodes
        if not nodes or nodes[-1] is not self.node or len(self.node.regions) != 1:
            fail(f"else_ of the branch ({self.node.span})", allowed="once, directly after the branch")
        return OpenRegion(self, "the other branch", last=True)


@Opener
def if_(condition: Any) -> Branch:
    """Operations that are executed where a condition holds; :func:`else_` gives those for the other case.

    A branch with results gives them at the end of both sides. BuildError for a condition of another type
    than i1.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("smaller", {"n": "index"}) as f:
    ...     with b.if_(f.args[0] < 8) as branch:
    ...         branch.give(f.args[0])
    ...     with b.else_():
    ...         branch.give(8)
    ...     b.return_(branch.result)
    >>> program.program.functions[0].results[0].dtype.name
    'index'
    """
    return Branch(condition)


@Opener
def else_() -> OpenRegion:
    """Open the region for the case that the condition of the branch directly before does not hold.

    BuildError where no branch is directly before.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("limited", {"n": "index"}) as f:
    ...     with b.if_(f.args[0] < 8) as branch:
    ...         branch.give(f.args[0])
    ...     with b.else_():
    ...         branch.give(8)
    ...     b.return_(branch.result)
    >>> [op.name for op in program.program.walk() if op.name.startswith("scf")]
    ['scf.if', 'scf.yield', 'scf.yield']
    """
    nodes = body.current().stack[-1].nodes
    branch = nodes[-1].structure if nodes else None
    if not isinstance(branch, Branch):
        fail("else_() without a branch before it", allowed="directly after 'with if_(...)'")
    return branch.else_()


def _letters(count: int) -> list[str]:
    """Names for some values."""
    return list("xyzuvw"[:count]) if count <= 6 else [f"x{i}" for i in builtins.range(count)]


class While(Structure):
    """A loop that runs while a condition holds; :func:`while_` makes it."""

    name, conditional = "scf.while", True
    usage = "loop = pto.while_(x), with loop.test() as (x,): ... loop.condition(...), with loop.do() as (x,):"

    def missing(self) -> str:
        """The next of its two regions."""
        loop = self.place.target() or "loop"
        assignment = "" if self.place.target() else f"\n{loop} = {self._written}\n"
        names = ", ".join(_letters(len(self._inits)))
        opened = f" as ({names},):" if names else ":"
        regions = ("test", "do")[len(self.node.regions) :]
        return f"{assignment}with {loop}.{regions[0]}(){opened}" if regions else ""

    def __init__(self, carried: Sequence[Any]) -> None:
        handles = [v if isinstance(v, Handle) else as_scalar(v, dtype_of(v), "while_") for v in carried]
        super().__init__(handles)
        self._inits = [h.type for h in handles]
        self._condition: Handle | None = None

    def test(self) -> OpenRegion:
        """The region that decides, with the carried values; it ends with :meth:`condition`."""
        return OpenRegion(self, "the test of the loop", last=False, args=self._inits)

    def condition(self, holds: Any, *values: Any) -> None:
        """Whether the loop goes on, and the values for its body or, at the end, its results."""
        self._condition = as_scalar(holds, I1, "condition")
        self.give(*values)

    def do(self) -> OpenRegion:
        """Open the body, which ends with ``give`` of the carried values."""
        if len(self.node.regions) != 1:
            fail(f"do() of the loop ({self.node.span})", allowed="once, after 'with loop.test()'")
        return OpenRegion(self, "the loop", last=True, args=self.types or ())

    def close(self, block: body.Block, terminator: str = "scf.yield", first: Sequence[Handle] = ()) -> None:
        """Close the test, with ``scf.condition`` at its end, or the body, with ``scf.yield``.

        BuildError where the test has no condition.
        """
        if block is not self.node.regions[0]:
            results, self.types = self.types, None
            super().close(block)
            self.types = results
        elif self._condition is None:
            fail(f"the test of the loop ({self.node.span}) has no condition", allowed="loop.condition(...)")
        else:
            super().close(block, "scf.condition", [self._condition])

    def _typed(self, values: Sequence[Any]) -> tuple[Handle, ...]:
        if len(self.node.regions) == 1:
            return super()._typed(values)
        results, self.types = self.types, list(self._inits)
        handles = super()._typed(values)
        self.types = results
        return handles


@Opener
def while_(*carried: Any) -> While:
    """A loop whose number of passes its values decide.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("halved", {"n": "index"}) as f:
    ...     loop = b.while_(f.args[0])
    ...     with loop.test() as (x,):
    ...         loop.condition(x > 1, x)
    ...     with loop.do() as (x,):
    ...         loop.give(x // 2)
    ...     b.return_(loop.result)
    >>> [op.name for op in program.program.walk() if op.name.startswith("scf")]
    ['scf.while', 'scf.condition', 'scf.yield']
    """
    return While(carried)


class Switch(Structure):
    """A choice between numbered regions; :func:`switch` makes it."""

    name, conditional = "scf.index_switch", True
    usage = "choice = pto.switch(n), with choice.case(0): and at last with choice.default():"

    def missing(self) -> str:
        """The region of the numbers without a case."""
        choice = self.place.target()
        assignment = "" if choice else f"\nchoice = {self._written}\n"
        return "" if self._complete else f"{assignment}with {choice or 'choice'}.default():"

    def __init__(self, index: Any) -> None:
        super().__init__([as_scalar(index, INDEX, "switch")])
        self._cases: list[int] = []
        self.node.attributes = {"cases": ()}

    def case(self, number: Any) -> OpenRegion:
        """What is executed for a number, a Python integer."""
        if not is_number(number, -(1 << 63)):
            fail(f"case: got {described(number)}", allowed="an integer", fix=meant(number, INDEX))
        number = int(number)
        if number in self._cases:
            fail(f"got a second case {number}", allowed="one of each number")
        self._cases.append(number)
        self.node.attributes = {"cases": tuple(self._cases)}
        return OpenRegion(self, f"case {number}", last=False)

    def default(self) -> OpenRegion:
        """What is executed for every other number; it comes last."""
        return OpenRegion(self, "the default", last=True)


@Opener
def switch(index: Any) -> Switch:
    """A choice by a number, an index of the program or of Python.

    ``with s.case(2):`` holds what is executed for 2, ``with s.default():``, the last, what is executed for
    every number without a case. Each may give results with ``s.give(...)``; then all of them must.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("sizes", {"n": "index"}) as f:
    ...     choice = b.switch(f.args[0])
    ...     with choice.case(2):
    ...         choice.give(32)
    ...     with choice.default():
    ...         choice.give(16)
    ...     b.return_(choice.result)
    >>> [op.name for op in program.program.walk() if op.name.startswith("scf")]
    ['scf.index_switch', 'scf.yield', 'scf.yield']
    """
    return Switch(index)


class Execute(Structure):
    """A region that is executed once, where it stands; :func:`region` makes it."""

    name = "scf.execute_region"


@Opener
def region() -> OpenRegion:
    """A region of its own, which gives results to what follows it.

    ``with region() as r: ... r.give(x)``, then ``r.result``.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("next", {"n": "index"}) as f:
    ...     with b.region() as r:
    ...         r.give(f.args[0] + 1)
    ...     b.return_(r.result)
    >>> [op.name for op in program.program.walk() if op.name.startswith("scf")]
    ['scf.execute_region', 'scf.yield']
    """
    return OpenRegion(Execute(), "the region", last=True)


class Section(Structure):
    """The part of a function that one kind of core executes."""

    def __init__(self, kind: KernelKind) -> None:
        self.name = f"section.{kind.name.lower()}"
        super().__init__()


@Opener
def section(kind: str | KernelKind) -> OpenRegion:
    """The part of a function that one kind of core executes: ``"cube"`` or ``"vector"``.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("kernel") as f, b.section("vector"):
    ...     tile = b.alloc_tile("f32", 16, 16)
    >>> [op.name for op in program.program.walk()]
    ['section.vector', 'alloc_tile', 'return']
    """
    core = argument_types.member(KernelKind, kind, "section")
    return OpenRegion(Section(core), f"the {core.name.lower()} section", last=True)
