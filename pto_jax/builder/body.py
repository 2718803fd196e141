"""A function while it is being built: its operations, regions, names and constants."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import Span
from ..files import user_code
from ..ir import Attrs, AttrValue, Form, Function, Op, Region, ScalarType, Type, attrs
from ..isa.signless import signless_type
from ..isa.traits import CAST
from ..profiles import Profile
from . import jumps
from .places import fail, here
from .values import Handle, Owner, Scope

_ACTIVE: ContextVar[Body | None] = ContextVar("pto_jax_builder", default=None)
Groups = tuple[tuple[str, int], ...]
#: Makes the handle of a value: its function, its region, its type and its name.
MakeHandle = Callable[[Owner, Scope, Type, str | None], Handle]


#: An operation outside of a function that is built.
NO_PROGRAM = "no program is being built here"
WHERE_PROGRAMS = "inside a function with @pto.kernel, or inside 'with builder.function(...)'"

#: A loop of one variable, and an assignment to a name, as Python spells them.
_LOOP = re.compile(r"for (\w+) in (?:\w+\.)?range\((.*)\):.*")
_ASSIGNED = re.compile(r"(\w+) (\S*)= ([^=].*)")


@dataclass(eq=False)
class Node:
    """An operation that may still get results."""

    name: str
    ins: Sequence[Handle] = ()
    outs: Sequence[Handle] = ()
    results: list[Handle] = field(default_factory=list)
    attributes: Mapping[str, AttrValue] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    groups: Groups = ()
    form: Form = "custom"
    span: Span | None = None
    #: The builder's object for an operation with regions.
    structure: Checked | None = None

    def frozen(self) -> Op:
        """The finished operation, with those of its regions."""
        results = tuple(h.value for h in self.results)
        return Op(
            self.name,
            tuple(h.value for h in self.ins),
            tuple(h.value for h in self.outs),
            results,
            attrs(self.attributes),
            tuple(b.frozen() for b in self.regions),
            self.groups,
            self.form,
            self.span,
        )


@dataclass(eq=False)
class Block:
    """A region: ``title`` says in messages what it is; values of a closed one can no longer be used."""

    title: str
    span: Span | None = None
    nodes: list[Node] = field(default_factory=list)
    args: list[Handle] = field(default_factory=list)
    open: bool = True

    def frozen(self) -> Region:
        """The finished region, with its arguments."""
        args = tuple(h.value for h in self.args)
        return Region(tuple(n.frozen() for n in self.nodes), args)

    def __str__(self) -> str:
        return f"{self.title} ({self.span})" if self.span else self.title

    def carried(self, handle: Handle) -> str:
        """The loop that carries a variable to which it assigns a value, "" where that is not so simple."""
        node = next((n for n in self.nodes if any(handle is r for r in n.results)), None)
        line = node.span.text.strip() if node is not None and node.span is not None else ""
        loop = _LOOP.fullmatch(self.span.text.strip()) if self.span is not None else None
        assignment = _ASSIGNED.fullmatch(line)
        if loop is None or assignment is None:
            return ""
        name, step = assignment.group(1), assignment.group(3)
        value = f"{name} {assignment.group(2)} ({step})" if assignment.group(2) else step
        variable, bounds = loop.groups()
        return (
            f"\n    loop = pto.range({bounds}, carried=[{name}])\n    for {variable}, {name} in loop:\n"
            f"        loop.give({value})\n    {name} = loop.result"
        )


class Functions(Protocol):
    """The program that a function is built in: its target, and the functions it may call."""

    @property
    def profile(self) -> Profile:
        """The profile of the target."""

    def function_named(self, name: str) -> Function | None:
        """A function that has been built, None where there is none of the name."""

    def include(self, kernel: Any) -> Function:
        """The function of a kernel, built once."""


class Checked(Protocol):
    """An operation with regions; a ``conditional`` one has some that the program may pass over."""

    conditional: bool

    def check(self) -> None:
        """Raise BuildError where regions are missing."""


class Body:
    """One function under construction."""

    def __init__(
        self,
        program: Functions,
        name: str,
        args: Iterable[tuple[str, Type]],
        span: Span,
        make_handle: MakeHandle,
    ) -> None:
        self.program = program
        self._make_handle = make_handle
        self.name = name
        self.span = span
        self.root = Block(f"@{name}", span)
        self.stack = [self.root]
        self.returned: tuple[Handle, ...] | None = None
        #: Where it returns.
        self.end = span
        self._names: set[str] = set()
        self._number = 0
        self._constants: dict[tuple[Type, str], Handle] = {}
        self._constant_nodes: dict[Handle, Node] = {}
        self._used: dict[Handle, None] = {}
        #: Unsigned integers by the signless ones of the same bits.
        self.signless: dict[Handle, Handle] = {}
        #: The operations with regions, which are checked to have them at the end.
        self.structures: list[Checked] = []
        self.args = tuple(self.define(t, n) for n, t in args)

    # -- names and values ----------------------------------------------------------------------------

    def fresh(self, hint: str | None) -> str:
        """A name that no other value of the function has."""
        while hint is None:
            name = str(self._number)
            self._number += 1
            hint = None if name in self._names else name
        name, count = hint, 0
        while name in self._names:
            count += 1
            name = f"{hint}_{count}"
        self._names.add(name)
        return name

    def define(self, t: Type, hint: str | None = None) -> Handle:
        """A new value of the current region; without a hint it is numbered when it is first named."""
        return self._make_handle(self, self.stack[-1], t, None if hint is None else self.fresh(hint))

    def use(self, handle: Handle, instruction: str | None = None) -> Handle:
        """A value about to be used, checked to be visible."""
        if handle.owner is not self:
            fail(
                f"{handle.label} is a value of @{handle.owner.name}",
                allowed=f"values of @{self.name}",
                instruction=instruction,
            )
        if not handle.block.open:
            fix = handle.block.carried(handle) if isinstance(handle.block, Block) else ""
            allowed = (
                "values defined outside, or results of the region; a loop carries what it changes: "
                "loop = pto.range(n, carried=[start]), then for i, v in loop: ... loop.give(next), and "
                "loop.result behind it"
            )
            if fix:
                name, loop = fix.rsplit("\n", 1)[1].split(" =")[0].strip(), handle.block
                fail(f"{name} is assigned in {loop} and used after it", fix=fix)
            message = f"{handle.label} is defined in {handle.block} and ends with it"
            fail(message, instruction=instruction, allowed=allowed)
        return handle

    def constant(self, value: AttrValue, t: Type) -> Handle:
        """A constant at the head of the function, one for each value and type."""
        key = (t, repr(value))
        if key not in self._constants:
            same_bits = signless_type(t)
            ins = () if same_bits == t else (self.constant(value, same_bits),)
            handle = self._make_handle(self, self.root, t, self.fresh(_constant_name(value, t)))
            self._constants[key] = handle
            node = Node("arith.constant", results=[handle], attributes={"value": value}, span=here().span)
            if ins:
                node.name, node.ins, node.attributes = CAST, ins, {}
                self.signless[handle] = ins[0]
            self._constant_nodes[handle] = node
        return self._constants[key]

    def constant_of(self, handle: Handle, name: str) -> str:
        """The definition of the function with an argument that is a keyword, or the loop as one of Python."""
        block, tree = handle.block, user_code.definition(self.span)
        if isinstance(block, Block) and handle in block.args and block.span is not None:
            loop = user_code.definition(block.span)
            numbers = isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call) and loop.iter.args
            if numbers and all(isinstance(n, ast.Constant) for n in numbers):
                return f"for {name} in range({', '.join(map(ast.unparse, numbers))}):"
        if not isinstance(tree, ast.FunctionDef) or all(a.arg != name for a in tree.args.args):
            return ""
        return user_code.with_keyword(tree, name)

    # -- operations and regions ----------------------------------------------------------------------

    def emit(self, node: Node) -> Node:
        """Add an operation to the current region."""
        if self.returned is not None and self.stack[-1] is self.root:
            fail(f"an operation after the return of @{self.name}", allowed="return as the last one")
        for handle in (*node.ins, *node.outs):
            self.use(handle, node.name)
        self._keep((*node.ins, *node.outs))
        if node.span is None:
            node.span = here().span
        self.stack[-1].nodes.append(node)
        return node

    def _keep(self, handles: Iterable[Handle]) -> None:
        for handle in handles:
            node = self._constant_nodes.get(handle)
            if node is not None:
                self._keep(node.ins)
                self._used[handle] = None

    def enter(self, block: Block) -> None:
        """Make a region the current one, which operations are added to."""
        self.stack.append(block)

    def leave(self, block: Block, terminator: str | None = None, values: Sequence[Handle] = ()) -> None:
        """Close the current region, which is ``block`` unless a loop was left in its middle."""
        self.expect(block)
        self._run_to_its_end(block)
        if terminator is not None:
            self.emit(Node(terminator, tuple(values), span=block.span))
        self.stack.pop()
        block.open = False

    def expect(self, block: Block) -> None:
        """Check that ``block`` is the current region; BuildError where one inside it is still open."""
        if self.stack[-1] is not block:
            inner = self.stack[-1]
            fail(
                f"{inner.title} is still open",
                inner.span,
                allowed=(
                    "regions that run to their end (without break, return or a loop object that is not "
                    "run to its end)"
                ),
                fix=jumps.without_break(user_code.definition(inner.span) if inner.span is not None else None),
            )

    def _run_to_its_end(self, block: Block) -> None:
        """Refuse a jump out of the last region of a block, where more of the block follows it."""
        last = block.nodes[-1] if block.nodes else None
        if last is not None and last.structure is not None and last.structure.conditional:
            jumps.check_taken(block.span, last.span)

    def abandon(self, block: Block) -> None:
        """Close a region after an error inside it."""
        while block in self.stack:
            self.stack.pop().open = False

    def finish(self, attributes: Attrs, *, private: bool = False) -> Function:
        """The function, with ``return`` at its end."""
        self.expect(self.root)
        self._run_to_its_end(self.root)
        for structure in self.structures:
            structure.check()
        values = self.returned or ()
        self.returned = None
        self.emit(Node("return", values, span=self.end))
        args = tuple(h.value for h in self.args)
        constants = tuple(self._constant_nodes[h].frozen() for h in self._used)
        ops = (*constants, *(n.frozen() for n in self.root.nodes))
        results = tuple(h.type for h in values)
        self.root.open = False
        return Function(self.name, args, Region(ops), results, attributes, private, self.span)


def _constant_name(value: AttrValue, t: Type) -> str:
    """The name MLIR prints for a constant: ``c16``, ``c1_i32``, ``true``, ``cst``."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int):
        return "cst"
    suffix = "" if isinstance(t, ScalarType) and t.dtype.name == "index" else f"_{t}"
    return f"c{value}{suffix}"


def current() -> Body:
    """The function that is being built."""
    body = _ACTIVE.get()
    if body is None:
        fail(NO_PROGRAM, allowed=WHERE_PROGRAMS)
    return body


def building() -> bool:
    """Whether a function is being built."""
    return _ACTIVE.get() is not None


def activate(body: Body | None) -> Body | None:
    """Make a function the one that calls build into; returns the one before."""
    before = _ACTIVE.get()
    _ACTIVE.set(body)
    return before


def canonical_float(value: float) -> float:
    """NaN as the one object that the reader uses too, so that programs compare equal."""
    return math.nan if math.isnan(value) else value


def flattened(value: object) -> Iterator[object]:
    """The items of nested lists and tuples; None has none."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from flattened(item)
    elif value is not None:
        yield value
