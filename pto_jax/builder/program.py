"""Programs of several functions, built in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Protocol

from ..errors import Diagnostic, Span
from ..files import user_code
from ..ir import (
    Attrs,
    AttrValue,
    Function,
    KernelKind,
    Loc,
    MemRefType,
    PartitionViewType,
    Program,
    PtrType,
    ScalarType,
    Symbol,
    TensorViewType,
    TileType,
    Type,
    attrs,
)
from ..isa.memory_scalar import LOAD, STORE
from ..isa.views import ADDPTR
from ..profiles import Profile, profile_of_arch
from . import arith, instructions
from .argument_types import as_type, member
from .arith import as_scalar, dtype_of
from .body import Body, Node, activate, current, flattened
from .places import fail, here
from .public import public
from .values import Handle, NoAttributeError, Owner, Scope, TileHandle, View, described, refuse_error

# -- handles by the type of the value ----------------------------------------------------------------


class Pointer(Handle):
    """A pointer into memory; ``pointer + n`` moves it by elements."""

    type: PtrType
    __slots__ = ()

    def __add__(self, offset: Any) -> Any:
        return instructions.find(ADDPTR)(self, offset)

    def __getitem__(self, place: Any) -> NoReturn:
        fix = f"pto.{LOAD}({self.name}, {_offset(place)})" if _offset(place) else ""
        fail(f"{self.name}[...]: got the pointer {self.name}", allowed="loads of tiles and scalars", fix=fix)

    def __setitem__(self, place: Any, value: Any) -> NoReturn:
        text = value.label if isinstance(value, arith.Scalar) else repr(value)
        stored = _offset(place) and (isinstance(value, arith.Scalar) or arith.is_number(value))
        fix = f"pto.{STORE}({text}, {self.name}, {_offset(place)})" if stored else ""
        fail(
            f"{self.name}[...] = ...: got the pointer {self.name}",
            allowed="stores of tiles and scalars",
            fix=fix,
        )

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """Refuse a function or an operator of arrays: what is pointed to is seen through a view."""
        mine = self.spelled(written)
        message = f"{written.text if written is not None else mine}: got the pointer {mine}"
        fix = f"pto.tload(tile, pto.GlobalTensor({mine}, (16, 64)))" if mine.isidentifier() else ""
        return message, "loads of tiles and scalars", fix

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = Handle.refuse
    __hash__ = object.__hash__

    def __len__(self) -> NoReturn:
        fail(f"len({self.name}): got a pointer, which has no length", allowed="arguments of type index")

    def __iter__(self) -> NoReturn:
        fail(f"got the pointer {self.name} to iterate over", allowed="loads of tiles and scalars")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        message = f"got the attribute {name!r} of the pointer {self.name}, which has no shape"
        fix = f"pto.GlobalTensor({self.name}, (16, 64))"
        allowed = "type, name, and views of what it points to"
        raise NoAttributeError(Diagnostic("error", message, here().span, allowed=allowed, fix=fix))


def _offset(place: Any) -> str:
    """An offset as Python spells it, "" for other places."""
    if isinstance(place, arith.Scalar):
        return place.label if place.label.isidentifier() else ""
    return str(place) if isinstance(place, int) else ""


def is_local(t: Type) -> bool:
    """Whether a type is that of bytes in an on-chip buffer."""
    if isinstance(t, MemRefType):
        return t.space is not None and t.space.name in Loc.__members__
    return isinstance(t, TileType)


def wrap(owner: Owner, block: Scope, t: Type, name: str | None) -> Handle:
    """A handle of the class that the type asks for."""
    kind: type[Handle] = Handle
    if isinstance(t, ScalarType):
        kind = arith.Scalar
    elif is_local(t):
        kind = TileHandle
    elif isinstance(t, PtrType):
        kind = Pointer
    elif isinstance(t, TensorViewType | PartitionViewType | MemRefType):
        kind = View
    return kind(owner, block, t, name)


# -- functions ---------------------------------------------------------------------------------------


def function_attributes(
    entry: bool, kind: str | KernelKind | None, more: Mapping[str, AttrValue] | None
) -> Attrs:
    """Attributes of a function as the text writes them."""
    attributes: dict[str, AttrValue] = dict(more or {})
    if entry:
        attributes["pto.entry"] = True
    if kind is not None:
        attributes["pto.kernel_kind"] = member(KernelKind, kind, "kind")
    return attrs(attributes)


class Callee(Protocol):
    """A kernel, as a program that calls it needs it."""

    symbol: str

    def build(self, program: ProgramBuilder, *, entry: bool) -> Function:
        """Add the kernel's function to a program; the function."""


class ProgramBuilder:
    """A program under construction. ``arch`` is the target the program names ("a3", "a5")."""

    def __init__(self, *, arch: str | None = None, attributes: Mapping[str, AttrValue] | None = None) -> None:
        self._attributes: dict[str, AttrValue] = dict(attributes or {})
        if arch is not None:
            self._attributes["pto.target_arch"] = arch
        self._functions: dict[str, Function] = {}
        self._origins: dict[str, object] = {}
        self._open: list[str] = []

    @property
    def program(self) -> Program:
        """What has been built so far."""
        source = next((f.span.file for f in self._functions.values() if f.span), "<builder>")
        return Program(tuple(self._functions.values()), attrs(self._attributes), source=source)

    @property
    def profile(self) -> Profile:
        """The profile of the target, by default a2a3's."""
        return profile_of_arch(self._attributes.get("pto.target_arch"))

    def __str__(self) -> str:
        return str(self.program)

    def function(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        entry: bool = True,
        kind: str | KernelKind | None = None,
        private: bool = False,
        attributes: Mapping[str, AttrValue] | None = None,
    ) -> Building:
        """A function of the program, for use with ``with``; ``args`` gives the types of its arguments."""
        typed = [(n, as_type(t, n)) for n, t in (args or {}).items()]
        return Building(self, name, typed, function_attributes(entry, kind, attributes), private, here().span)

    def add(self, function: Function, origin: object = None) -> None:
        """Add a finished function; a second one of its name is an error."""
        if function.name in self._functions:
            fail(f"got a second function @{function.name}", function.span, allowed="one of each name")
        self._functions[function.name] = function
        self._origins[function.name] = origin

    def function_named(self, name: str) -> Function | None:
        """A finished function, None where there is none of the name."""
        return self._functions.get(name)

    def include(self, kernel: Callee) -> Function:
        """The function of a kernel that another one calls, built once."""
        name = kernel.symbol
        if self._origins.get(name) is not kernel or name not in self._functions:
            if name in self._open:
                fail(f"the call of @{name} is recursive", allowed="calls without cycles")
            kernel.build(self, entry=False)
        return self._functions[name]

    def opened(self, name: str) -> None:
        """Note that the function ``name`` is being built; BuildError where there is one of the name."""
        if name in self._functions or name in self._open:
            fail(f"got a second function @{name}", allowed="one of each name")
        self._open.append(name)

    def closed(self, name: str) -> None:
        """Note that the function ``name`` is no longer being built."""
        self._open.remove(name)


class Building:
    """A function that is open for calls; ``args`` are its arguments."""

    def __init__(
        self,
        program: ProgramBuilder,
        name: str,
        args: Sequence[tuple[str, Type]],
        attributes: Attrs,
        private: bool,
        span: Span,
        origin: object = None,
    ) -> None:
        self.program = program
        self.body = Body(program, name, args, span, wrap)
        self.function: Function | None = None
        self._attributes = attributes
        self._private = private
        self._origin = origin
        self._before: Body | None = None

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the function, in order."""
        return self.body.args

    def __enter__(self) -> Building:
        self.program.opened(self.body.name)
        self._before = activate(self.body)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                refuse_error(error, self.body.span.file)
            else:
                self.function = self.body.finish(self._attributes, private=self._private)
        finally:
            activate(self._before)
            self.program.closed(self.body.name)
        if self.function is not None:
            self.program.add(self.function, self._origin)


def return_(*values: Any) -> None:
    """The values that a function built with :meth:`ProgramBuilder.function` returns, at its end.

    BuildError inside a region, and for a second return.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("twice", {"n": "index"}) as f:
    ...     b.return_(f.args[0] + f.args[0])
    >>> [t.dtype.name for t in program.program.functions[0].results]
    ['index']
    """
    body = current()
    if body.returned is not None or body.stack[-1] is not body.root:
        fail(f"return_ in @{body.name}", allowed="once, as the last operation of a function")
    body.returned = returned(body, values)


def returned(body: Body, values: Any, place: Span | None = None) -> tuple[Handle, ...]:
    """What a function returns, as handles."""
    handles, body.end = [], place or here().span
    for value in flattened(values):
        if not isinstance(value, Handle) and not arith.is_number(value):
            fail(f"return: got {described(value)}", body.end, allowed="scalars and tiles", fix="return")
        handle = value if isinstance(value, Handle) else as_scalar(value, dtype_of(value), "return")
        handles.append(body.use(handle))
    return tuple(handles)


@public
def call(function: Any, *args: Any, results: Any = ()) -> Any:
    """Call a kernel, or a function of the program by its name; the results, a tuple where there are several.

    ``results`` are the types it returns, for a function that is built later. BuildError for arguments of
    other types or number, and for recursion.

    >>> from pto_jax import builder as b
    >>> program = b.Builder()
    >>> with program.function("twice", {"n": "index"}, entry=False) as f:
    ...     b.return_(f.args[0] + f.args[0])
    >>> with program.function("main", {"n": "index"}) as f:
    ...     b.return_(b.call("twice", f.args[0]))
    >>> [op.name for op in program.program.walk()]
    ['arith.addi', 'return', 'call', 'return']
    """
    body, place = current(), here()
    by_name = isinstance(function, str)
    name = function if by_name else function.symbol
    callee = body.program.function_named(name) if by_name else body.program.include(function)
    types = [a.type for a in callee.args] if callee is not None else [None] * len(args)
    if len(types) != len(args):
        expected = ", ".join(a.name for a in callee.args) if callee is not None else ""
        fail(f"got {len(args)} argument(s) of @{name}", place.span, allowed=f"{len(types)}: {expected}",
             instruction="call")  # fmt: skip
    ins = [_argument(name, i, value, t) for i, (value, t) in enumerate(zip(args, types, strict=True))]
    outputs = results if isinstance(results, list | tuple) else (results,)
    result_types = callee.results if callee is not None else tuple(as_type(t) for t in outputs)
    node = Node("call", ins, attributes={"callee": Symbol(name)}, span=place.span)
    body.emit(node)
    for i, t in enumerate(result_types):
        node.results.append(body.define(t, place.target(i, len(result_types))))
    return None if not result_types else node.results[0] if len(result_types) == 1 else tuple(node.results)


def _argument(name: str, index: int, value: Any, expected: Type | None) -> Handle:
    what = f"argument {index} of @{name}"
    d = expected.dtype if isinstance(expected, ScalarType) else None
    if not isinstance(value, Handle):
        if expected is not None and not isinstance(expected, ScalarType):
            fail(f"{what}: got {described(value)}", allowed=f"{expected}, as an argument of this kernel",
                 instruction="call")  # fmt: skip
        return as_scalar(value, d or dtype_of(value), what, "call")
    from ..verifier.functions import same_use

    if expected is not None and not same_use(expected, value.type):
        fail(f"{what}: got {described(value)}", allowed=f"{expected}", instruction="call")
    return value
