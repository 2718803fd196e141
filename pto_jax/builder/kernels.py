"""Python functions as kernels, and operations with regions that are open while their body runs."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, update_wrapper
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, overload

from ..errors import ArgumentError, Diagnostic, UnknownNameError, nearest, short_list
from ..files import user_code
from ..ir import AttrValue, Function, KernelKind, Program, ScalarType, Type
from ..profiles import OPTIONS, PROFILES, Profile, ProfileName, is_arch
from . import argument_types, jumps, places
from .arith import as_scalar, dtype_of
from .body import Block, Body, Node, activate, building, current
from .places import fail, here
from .program import Building, ProgramBuilder, call, function_attributes, returned
from .public import public
from .values import Handle, described

if TYPE_CHECKING:
    from ..runtime import kernel as engine


#: Keywords of :func:`kernel`.
_KEYWORDS = ("types", "name", "entry", "kind", "arch", "private", "attributes")
_ARGUMENT = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Kernel:
    """A program written as a Python function; :func:`kernel` makes it.

    Called with arrays and numbers it compiles and runs (options of :func:`pto_jax.compile` by keyword);
    called while another function is built it becomes a call in that program. ``program`` is the program,
    ``str(kernel)`` its text. Keyword-only parameters of the Python function are known when the program is
    built: :meth:`specialise` sets them.

    >>> from pto_jax import builder as b
    >>> @b.kernel(types={"p": b.ptr("i32")})
    ... def count(p, *, to=4):
    ...     for i in b.range(to):
    ...         b.store_scalar(b.cast(i, "i32"), p, i)
    >>> count.specialise(to=3)
    <kernel @count(p: ptr<i32>), to=3>
    """

    def __init__(
        self,
        function: Callable[..., Any],
        types: Mapping[str, Any] | Sequence[Any] | None,
        options: Mapping[str, Any],
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.function = function
        self.constants = dict(constants or {})
        self._general: Kernel | None = None
        self._given = types
        self._options = dict(options)
        self._span = places.definition(function.__code__)
        self._failure: AttributeError | None = None
        self.symbol: str = options.get("name") or function.__name__
        self.arguments = self._arguments()

    def _arguments(self) -> tuple[tuple[str, Type], ...]:
        parameters = list(inspect.signature(self.function).parameters.values())
        names = [p.name for p in parameters if p.kind in _ARGUMENT]
        constants = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        unknown = next(iter(sorted(set(self.constants) - set(constants))), None)
        if unknown is not None:
            close = nearest(unknown, constants)
            self._fail(f"got no keyword-only parameter {unknown!r}", allowed=", ".join(constants) or "none",
                       fix=f"{close}={self.constants[unknown]!r}" if close else "")  # fmt: skip
        for p in parameters:
            self._check(p, names)
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name not in self.constants:
                self.constants.setdefault(p.name, p.empty)
        types = self._given
        text = (
            f"types={{{', '.join(f'{chr(34)}{n}{chr(34)}: pto.ptr({chr(34)}f32{chr(34)})' for n in names)}}}"
        )
        if types is not None and not isinstance(types, Mapping):
            if len(types) != len(names) or isinstance(types, str):
                got = f"the types {types!r}" if isinstance(types, str) else f"{len(types)} types"
                self._fail(f"got {got} for {len(names)} argument(s)", allowed="one for each", fix=text)
            types = dict(zip(names, types, strict=True))
        extra = next((n for n in types or () if n not in names), None)
        if extra is not None:
            close = nearest(extra, [n for n in names if n not in (types or {})])
            self._fail(f"got a type of {extra!r}, which is no argument", allowed=", ".join(names), fix=close)
        return tuple((n, self._type(n, types or {}, text)) for n in names)

    def _check(self, p: inspect.Parameter, names: Sequence[str]) -> None:
        """Refuse a parameter that arguments of programs cannot be."""
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            self._fail(f"got the parameter *{p.name}", allowed="arguments by name")
        if p.name in OPTIONS and p.name in names:
            self._fail(f"got the argument {p.name!r}, an option of calls", allowed="another name")
        if p.name in names and p.default is not p.empty:
            line = self._span.text.strip()
            text = f"{p.name}={p.default!r}"
            fix = line.replace(text, p.name) if text in line else p.name
            self._fail(f"got the default {p.default!r} of {p.name}, which programs have none of",
                       allowed="defaults of keyword-only parameters, which are no arguments of the program",
                       fix=fix)  # fmt: skip

    def _type(self, name: str, values: Mapping[str, Any], shown: str) -> Type:
        type_ = values.get(name)
        if type_ is None:
            type_ = inspect.get_annotations(self.function).get(name)
            if isinstance(type_, str):
                type_ = self._evaluated(type_)
        if type_ is None:
            allowed = "types={'x': pto.ptr('f32'), 'n': 'index'}, or an annotation"
            self._fail(f"got no type of the argument {name!r}", allowed=allowed, fix=shown)
        return argument_types.as_type(type_, name)

    def _evaluated(self, annotation: str) -> Any:
        """An annotation that Python kept as text: an expression, or the text of a type."""
        names = {**self.function.__globals__, **inspect.getclosurevars(self.function).nonlocals}
        try:
            return eval(annotation, names)
        except (NameError, SyntaxError, AttributeError, TypeError):
            return annotation

    def _fail(self, message: str, allowed: str = "", fix: str = "") -> Any:
        places.fail(f"@{self.symbol}: {message}", self._span, allowed=allowed, fix=fix)

    # -- building ------------------------------------------------------------------------------------

    @public
    def specialise(self, **constants: Any) -> Kernel:
        """The kernel with other values of its keyword-only parameters."""
        result = Kernel(self.function, self._given, self._options, {**self.constants, **constants})
        result._general = self._general or self
        return result

    def build(self, program: ProgramBuilder, *, entry: bool) -> Function:
        """Add the function to a program; the function."""
        missing = [n for n, v in self.constants.items() if v is inspect.Parameter.empty]
        if missing:
            self._fail(f"got no value of {missing[0]!r}; allowed: kernel.specialise({missing[0]}=...)")
        o = self._options
        attributes = function_attributes(entry, o.get("kind"), o.get("attributes"))
        building = Building(
            program, self.symbol, self.arguments, attributes, bool(o.get("private")), self._span, self
        )
        with building:
            body = building.body
            values = self.function(*body.args, **self.constants)
            if body.returned is None:
                body.expect(body.root)
                body.returned = returned(body, values, jumps.last_return(self._span))
        assert building.function is not None
        return building.function

    @cached_property
    def program(self) -> Program:
        """The program: this function, and before it those it calls."""
        builder = ProgramBuilder(arch=self._options.get("arch"))
        before = activate(None)
        try:
            self.build(builder, entry=bool(self._options.get("entry", True)))
        except AttributeError as error:
            # Python asks __getattr__ next, which would hide this error.
            self._failure = error
            raise
        finally:
            activate(before)
        return builder.program

    def __reduce__(self) -> str | tuple[Any, tuple[Any, ...]]:
        """Kernels of a module are stored by its name and theirs, as functions are."""
        if self._general is not None:
            return _specialised, (self._general, self.constants)
        target: Any = sys.modules.get(self.function.__module__)
        for part in self.function.__qualname__.split("."):
            target = getattr(target, part, None)
        if target is not self:
            self._fail(
                "pickle: got a kernel without a global name in its module; allowed: kernels of a module, "
                "kernel.program, kernel.compile()"
            )
        return self.function.__qualname__

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Kernel:
        return self

    def __str__(self) -> str:
        return str(self.program)

    def __repr__(self) -> str:
        types = short_list([f"{n}: {t}" for n, t in self.arguments])
        constants = [f"{n}={v!r}" for n, v in self.constants.items() if v is not inspect.Parameter.empty]
        return f"<kernel @{self.symbol}({types}){''.join(f', {c}' for c in constants)}>"

    # -- checking and running ------------------------------------------------------------------------

    def verify(self, profile: ProfileName | Profile | None = None, **options: Any) -> list[Diagnostic]:
        """What :func:`pto_jax.verify` finds; places are lines of the Python file."""
        from ..api import verify

        return verify(self.program, profile, **options)

    def compile(self, **options: Any) -> engine.Kernel:
        """The compiled kernel, as :func:`pto_jax.compile` gives it for the text."""
        from ..runtime.kernel import compile

        if "entry" in options:
            entry = options["entry"]
            raise ArgumentError(f"{self.symbol}.compile: got entry={entry!r}", allowed=", ".join(OPTIONS),
                                fix=f"pto.compile({self.symbol}.program, entry={entry!r})")  # fmt: skip
        kernel: engine.Kernel = compile(self.program, entry=self.symbol, **options)
        return kernel

    def __getattr__(self, name: str) -> Any:
        """What :class:`pto_jax.Kernel` has besides: ``map``, ``lower``, ``export``, ``outputs`` ..."""
        from ..runtime.kernel import Kernel as Compiled

        failure = self.__dict__.get("_failure")
        if failure is not None and name == "program":
            raise failure
        if name.startswith("_") or name not in dir(Compiled):
            names = [n for n in dir(self) if not n.startswith("_")]
            raise UnknownNameError(self.symbol, name, lambda: names, what="attribute", of="kernel")
        return getattr(self.compile(), name)

    def __getitem__(self, grid: Any) -> NoReturn:
        """Refuse the launch of other languages: the number of blocks is an option of the call."""
        numbers = grid if isinstance(grid, tuple | list) else (grid,)
        blocks = math.prod(numbers) if all(isinstance(n, int) for n in numbers) else 1
        raise ArgumentError(
            f"{self.symbol}[...]: got the grid {grid!r:.40} in brackets",
            allowed="the number of blocks as an option of the call",
            fix=f"{self.symbol}({', '.join(n for n, _ in self.arguments)}, grid={blocks})",
        )

    def __dir__(self) -> list[str]:
        from ..runtime.kernel import Kernel as Compiled

        return sorted({*super().__dir__(), *(n for n in dir(Compiled) if not n.startswith("_"))})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inside another kernel a call of this one, its results; elsewhere compile it and execute it.

        Outside, the keywords of :func:`pto_jax.compile` are options, the others are arguments of the program;
        the result is that of :class:`pto_jax.Kernel`.
        """
        if building():
            if kwargs:
                self._by_position(args, kwargs)
            return call(self, *args)
        options = {k: kwargs.pop(k) for k in OPTIONS if k in kwargs}
        names = [n for n, _ in self.arguments]
        unknown = next((k for k in kwargs if k not in names), None)
        if unknown is not None:
            close = nearest(unknown, [n for n in (*names, *OPTIONS) if n not in kwargs])
            fix = f"{close}={user_code.argument(unknown, otherwise='...')}" if close else ""
            if unknown in inspect.getfullargspec(self.function).kwonlyargs:
                fix = f"{self.symbol}.specialise({unknown}={kwargs[unknown]!r})({', '.join(names)})"
            raise ArgumentError(
                f"{self.symbol}: got the argument {unknown!r}",
                allowed=f"{', '.join(names)}, and the options {', '.join(OPTIONS)}",
                fix=fix,
            )
        return self.compile(**options)(*args, **kwargs)

    def _by_position(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> NoReturn:
        """Refuse keywords in a call inside a kernel."""
        values = {**dict(zip((n for n, _ in self.arguments), args, strict=False)), **kwargs}
        labels = [v.label if isinstance(v, Handle) else repr(v) for v in values.values()]
        fits = set(values) == {n for n, _ in self.arguments}
        places.fail(
            f"got the keyword {next(iter(kwargs))!r} in a call of @{self.symbol}",
            allowed="arguments by position",
            fix=f"{self.symbol}({', '.join(labels)})" if fits else "",
        )


def _specialised(general: Kernel, constants: Mapping[str, Any]) -> Kernel:
    return general.specialise(**constants)


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...


@overload
def kernel(
    *,
    types: Mapping[str, Any] | Sequence[Any] | None = None,
    name: str | None = None,
    entry: bool = True,
    kind: str | KernelKind | None = None,
    arch: str | None = None,
    private: bool = False,
    attributes: Mapping[str, AttrValue] | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Callable[..., Any] | None = None,
    /,
    *,
    types: Mapping[str, Any] | Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """Make a Python function a kernel.

    Its parameters become arguments of the program; their types are annotations or ``types`` (by name or
    in order): ``pto.ptr("f32")``, ``"index"``, ``int`` (index), ``float`` (f32), any type of the text.
    ``entry=False`` makes a helper for other kernels, ``kind`` ("cube", "vector") a kernel of one kind of
    core, ``arch`` names the target ("a3", "a5"), ``name`` the function where it differs from Python's.

    The Python function runs once and builds the program: calls, operators on scalars, ``for`` over
    :func:`pto_jax.builder.range` and ``with`` over :func:`pto_jax.builder.if_` become its operations,
    named after the Python variables they are assigned to.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> @pto.kernel(types=(pto.ptr("f32"), pto.ptr("f32")))
    ... def negate(x, y):
    ...     t = pto.alloc_tile("f32", 8, 8)
    ...     pto.tload(t, pto.GlobalTensor(x, (8, 8)))
    ...     pto.tneg(t, t)
    ...     pto.tstore(pto.GlobalTensor(y, (8, 8)), t)
    >>> negate(np.ones(64, np.float32), np.zeros(64, np.float32))["y"][0].item()
    -1.0
    """
    unknown = next((k for k in options if k not in _KEYWORDS), None)
    if unknown is not None:
        _refuse_option(unknown, options[unknown])
    if types is not None and not isinstance(types, Mapping | Sequence):
        fail(
            f"kernel: types: got {described(types)}",
            allowed="types by name, or in the order of the arguments",
        )
    name = options.get("name")
    if name is not None and not isinstance(name, str):
        fail(f"kernel: name: got {described(name)}", allowed="text", fix=f'name="kernel_{name}"')
    arch = options.get("arch")
    if arch is not None and not is_arch(arch):
        close = next((p.arch[0] for p in PROFILES.values() if p.arch and p.name == arch), "")
        fix = f'arch="{close or ("a5" if "95" in str(arch) else "a3")}"'
        fail(f"kernel: arch: got {described(arch)}", allowed="a3, a5", fix=fix)
    if function is not None:
        _check_function(function)
        return Kernel(function, types, options)

    def decorated(made: Callable[..., Any]) -> Kernel:
        _check_function(made)
        return Kernel(made, types, options)

    return decorated


def _check_function(function: Any) -> None:
    """Refuse what is no function of Python that runs once, to its end."""
    if isinstance(function, Mapping | Sequence):
        fail(f"kernel: got {described(function)}", allowed="a Python function", fix="types=...")
    if not inspect.isfunction(function):
        fail(f"kernel: got {described(function)}", allowed="a Python function")
    kinds = {"async": inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function),
             "generator": inspect.isgeneratorfunction(function)}  # fmt: skip
    kind = next((k for k, holds in kinds.items() if holds), None)
    if kind is not None:
        span = places.definition(function.__code__)
        fix = span.text.strip().removeprefix("async ") if kind == "async" else ""
        allowed = "a function that builds the program when it runs, without await and yield"
        fail(f"@{function.__name__}: got an {kind} function".replace("an generator", "a generator"), span,
             allowed=allowed, fix=fix)  # fmt: skip


def _refuse_option(key: str, value: Any) -> NoReturn:
    """Refuse a keyword of :func:`kernel`: options of calls belong to the call."""
    close = nearest(key, _KEYWORDS)
    fix = f"{close}={user_code.argument(key, otherwise='...')}" if close else ""
    if key in OPTIONS:
        fix = f"{key}={value!r} in the call of the kernel"
        arch = {"a2a3": "a3", "a5": "a5"}.get(str(value))
        fix = f'arch="{arch}"' if key == "profile" and arch is not None else fix
    fail(f"kernel: got the keyword {key!r}", allowed=", ".join(_KEYWORDS), fix=fix)


class Structure:
    """An operation with regions; ``result`` and ``results`` are there once all regions are closed."""

    name = ""
    #: How the operation is written, for messages.
    usage = "with ...: and the operations of the block below it"
    #: Whether the program decides that a region is executed.
    conditional = False

    def __init__(self, ins: Sequence[Handle] = (), attributes: dict[str, Any] | None = None) -> None:
        self.body: Body = current()
        self.place = here()
        self.node = Node(self.name, list(ins), attributes=attributes or {}, span=self.place.span)
        self.node.structure = self
        self.types: list[Type] | None = None
        self._yielded: tuple[Handle, ...] | None = None
        self._complete = False
        written = user_code.expression()
        self._written = written.text if written is not None else self.name
        self.body.structures.append(self)

    @property
    def results(self) -> tuple[Any, ...]:
        """The values that the regions hand out."""
        self._completed()
        place, count = here(), len(self.node.results)
        for i, handle in enumerate(self.node.results):
            handle.named(place.target(i, count))
        return tuple(self.node.results)

    @property
    def result(self) -> Any:
        """The only value that the regions hand out."""
        self._completed()
        if len(self.node.results) != 1:
            count = len(self.node.results)
            fail(
                f"{self._written} ({self.node.span}) has {count} results",
                allowed=".results" if count else "results of regions that give(...) values",
            )
        return self.results[0]

    def _completed(self) -> None:
        if not self._complete:
            fail(f"{self._written} ({self.node.span}) is not complete",
                 allowed="results after its last region", fix=self.missing())  # fmt: skip

    def missing(self) -> str:
        """The regions that an operation still asks for, as Python; "" where it has them all."""
        return f"with {self._written}:" if not self.node.regions else ""

    def check(self) -> None:
        """Refuse an operation whose regions were not built.

        BuildError where its call stands alone, or only some of its regions follow.
        """
        fix = self.missing()
        if fix:
            got = "only a part of its regions" if self.node.regions else "no block"
            fail(f"{self._written}: got {got}", self.node.span, allowed=self.usage, fix=fix)

    def __enter__(self) -> Any:
        fail(f"with {self._written}: got one block", allowed=self.usage, fix=self.missing())

    def __exit__(self, *error: Any) -> None:
        """Do nothing: the entrance is refused."""

    def give(self, *values: Any) -> None:
        """The values that this region hands out, given once at its end."""
        block = self.body.stack[-1]
        if all(block is not b for b in self.node.regions) or self._yielded is not None:
            fail(f"values of {self.node.name} ({self.node.span})", allowed="once, at the end of its regions")
        self._yielded = self._typed(values)

    def _typed(self, values: Sequence[Any]) -> tuple[Handle, ...]:
        """The values as handles of the types that the other regions gave."""
        types = self.types
        if types is not None and len(types) != len(values):
            fail(
                f"got {len(values)} value(s) of {self.node.name} ({self.node.span})", allowed=f"{len(types)}"
            )
        handles = []
        for i, value in enumerate(values):
            type_ = types[i] if types is not None else None
            d = type_.dtype if isinstance(type_, ScalarType) else None
            handle = value if isinstance(value, Handle) else as_scalar(value, d or dtype_of(value), "value")
            if type_ is not None and handle.type != type_:
                fail(
                    f"got {described(handle)}, for {self.node.name} ({self.node.span})",
                    allowed=f"{type_}",
                )
            handles.append(self.body.use(handle, self.node.name))
        self.types = [h.type for h in handles]
        return tuple(handles)

    def region(self, title: str, args: Sequence[tuple[Type, str | None]] = ()) -> Block:
        """Open a region."""
        block = Block(title, here().span)
        self.node.regions.append(block)
        self.body.enter(block)
        block.args = [self.body.define(t, hint) for t, hint in args]
        return block

    def close(self, block: Block, terminator: str = "scf.yield", first: Sequence[Handle] = ()) -> None:
        """Close a region, with the values it hands out at its end."""
        values = (*first, *(self._yielded or ()))
        self._yielded = None
        self.body.leave(block, terminator if values else None, values)

    def complete(self) -> None:
        """Define the results."""
        self._complete = True
        self.node.results = [self.body.define(t) for t in self.types or ()]


class RegionValues(tuple[Any, ...]):
    """The values of a region: a name for each of them, not one for all."""

    __slots__ = ()

    def _one_name(self, *_: Any) -> NoReturn:
        names = ", ".join(f"x{i}" for i, _ in enumerate(self))
        fail(
            f"got the {len(self)} value(s) of a region under one name",
            allowed="a name for each",
            fix=f"as ({names},):",
        )

    __lt__ = __le__ = __gt__ = __ge__ = __sub__ = __rsub__ = __floordiv__ = __truediv__ = __mod__ = _one_name
    __radd__ = __rmul__ = __and__ = __or__ = __bool__ = _one_name
    __add__ = __mul__ = _one_name


class OpenRegion:
    """A region opened with ``with``."""

    def __init__(self, of: Structure, title: str, *, last: bool, args: Sequence[Type] = ()) -> None:
        self._of = of
        self._title = title
        self._last = last
        self._args = args
        self._block: Block | None = None

    def __enter__(self) -> Any:
        of = self._of
        if not of.node.regions:
            of.body.emit(of.node)
        names = (*here().variables, *[None] * len(self._args))
        self._block = of.region(self._title, list(zip(self._args, names, strict=False)))
        return RegionValues(self._block.args) if self._args else of

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None
        if kind is not None:
            self._of.body.abandon(self._block)
            return
        if self._of.conditional:
            jumps.check(self._block.span)
        self._of.close(self._block)
        if self._last:
            self._of.complete()
