"""Compilation of programs to kernels: pure functions of arrays, with checked options and portable artefacts.

A call with concrete arrays uses one compiled function, without work per call in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import jax.export
import numpy as np
from jax.core import Tracer

from .. import api, grids, profiles
from ..analysis import entries
from ..analysis.entries import Argument, GlobalTypes
from ..analysis.resolve import fill, resolve, with_entry
from ..errors import ArgumentError, Diagnostic, PtoError, VerifyError, is_number, nearest, one_of, short_list
from ..interpreter.operands import BLOCK_NUMBERS
from ..ir import DType, Function, Program, ScalarType, TileType, Type, UnknownType
from ..lowering import MAX_STEPS, Accesses, Semantics, accesses, platforms, primitives
from ..lowering.bits import x64
from ..lowering.canary import cached_code
from ..lowering.machine.program import Observer
from ..profiles import Profile, profile as find_profile
from . import arguments, conversion, derivatives, execution, judged_calls, streaming
from .arguments import check_accesses, elements, prepare, type_of, with_scalars
from .state import PackedReport, Report, State
from .tiles import Tile

if TYPE_CHECKING:
    from .debug.inspection import StopAt, Trace
    from .explain import Explanation
    from .ranks import RankKernel

#: Bytes of arguments from which on a single execution repays XLA's optimisations.
_LARGE = 1 << 22


def is_concrete(x: Any) -> bool:
    """Whether a value is an array of JAX or NumPy, in native byte order, or a Tile of such; no tracer."""
    kind = type(x)
    if kind is Tile:
        types = (conversion.device_array(), np.ndarray)
        sizes = x.v_row, x.v_col
        return type(x.words) in types and all(s is None or type(s) in types for s in sizes)
    if kind is np.ndarray:
        return x.dtype.isnative and x.dtype.names is None and x.dtype.kind not in "OSUMm"
    return kind is conversion.device_array()


def choices(profile: str | Profile, numerics: str, out_of_region: str | None, subnormals: str) -> Semantics:
    """Checked execution options; ``out_of_region`` defaults to the profile's fill."""
    try:
        return _checked(profile, numerics, out_of_region, subnormals)
    except TypeError:  # One of them has no hash, which its check says better.
        return _checked.__wrapped__(profile, numerics, out_of_region, subnormals)


def _inside_a_trace() -> bool:
    """Whether a function is being traced, in which nothing has options of the compiler."""
    return not is_concrete(jax.device_put(np.int32(0)))


@lru_cache(maxsize=64)
def _checked(profile: str | Profile, numerics: str, out_of_region: str | None, subnormals: str) -> Semantics:
    target = find_profile(profile)
    fill = out_of_region or target.out_of_region
    _choice("numerics", numerics, ("exact", "fast"))
    _choice("subnormals", subnormals, ("keep", "flush"))
    if fill == "poison":
        message = (
            "out_of_region: got 'poison'; allowed: ones, backing; undefined lanes are followed by the "
            "sanitizer: pto-jax run --sanitize, pto_jax.sanitize"
        )
        raise ArgumentError(message)
    _choice("out_of_region", fill, ("ones", "backing"))
    return Semantics(target, numerics, fill, subnormals)  # type: ignore[arg-type]


def _choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        close = nearest(value, allowed)
        fix = f'{name}="{close}"' if close else ""
        got = repr(value) if isinstance(value, str | int | float) else one_of(value)
        raise ArgumentError(f"{name}: got {got}", allowed=", ".join(allowed), fix=fix)


def _shapes(
    entry: str, arguments: Sequence[Argument], shapes: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The shapes of a call's arguments; where none are given, those that the program declares."""
    if shapes or named:
        return tuple(shapes), dict(named)
    return tuple(_declared(entry, a) for a in arguments), {}


def _shaped(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _declared(entry: str, argument: Argument) -> Any:
    t = argument.type
    if isinstance(t, TileType):
        return _shaped(t.shape, t.dtype.numpy)
    if isinstance(t, ScalarType):
        # JAX narrows 64-bit types outside of its 64-bit mode; an index takes both.
        d = np.dtype(np.int32) if t.dtype.kind == "index" else t.dtype.numpy
        return _shaped((), d)
    if isinstance(t, GlobalTypes) and argument.min_elements is not None:
        size = argument.min_elements // (2 if t.dtype.packed else 1)
        return _shaped((size,), t.dtype.numpy)
    raise ArgumentError(
        f"{entry}: the program does not say the shape of argument {argument.name!r} ({t})",
        allowed="a shape for each argument, as in jax.ShapeDtypeStruct((64, 64), jnp.float32)",
    )


@dataclass(frozen=True)
class Kernel:
    """A program as a pure function; made by :func:`compile`, memoised and hashable.

    Call it with one argument per program argument, by position or name. Buffers are arrays of any shape
    (4-bit types: bytes, two elements each) that hold what the program accesses: views may be larger;
    scalars are numbers or 0-d arrays (traced, so they batch); tiles of a fragment are :class:`Tile` or
    [rows, cols] arrays. The result maps each written buffer's name to its new contents in the shape and
    type it came in, or each result of a fragment to a Tile. Composes with jit, vmap, shard_map and lax
    control flow.

    A call with arrays that are there raises ExecutionError where the program accesses what is not there;
    under a transformation such reads give 0 and such stores are dropped, as everywhere with
    ``checks=False``. With ``checks=True`` the result is ``(outputs, report)``, of all run-time rules.

    ``places`` tells apart equal programs from different texts, whose diagnostics name different lines;
    with ``partial_launch`` any number of blocks is executed.
    Raises ArgumentError for arguments that do not fit, VerifyError when types filled in from the
    arguments are illegal.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xf32>"))
    >>> kernel
    <Kernel fragment(a: vec 1x8xf32) -> (d), profile='a2a3', numerics='exact'>
    >>> jax.vmap(kernel)(np.ones((3, 1, 8), np.float32))["d"].array[:, 0, 0]
    Array([-1., -1., -1.], dtype=float32)
    """

    program: Program
    entry: str
    semantics: Semantics
    checks: bool | None = None
    places: str = ""
    max_steps: int = MAX_STEPS
    grid: int = 1
    partial_launch: bool = False
    #: Whether a fragment whose types follow from its arguments shows the verifier's warnings when called.
    warn: bool = field(default=False, compare=False)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the verifier warns of; of a fragment with open types, nothing before it has arguments."""
        return () if self._open else _verified(self.program, self.profile, self.places)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Copies are the memoised kernel itself, with what it has compiled."""
        return _kernel, tuple(getattr(self, f.name) for f in fields(self))

    def __repr__(self) -> str:
        s = self.semantics
        options = [f"profile={s.profile.name!r}", f"numerics={s.numerics!r}"]
        if s.out_of_region != s.profile.out_of_region:
            options.append(f"out_of_region={s.out_of_region!r}")
        options += [f"subnormals={s.subnormals!r}"] if s.subnormals != "keep" else []
        options += [] if self.checks is None else [f"checks={self.checks}"]
        options += [f"grid={self.grid}"] if self.grid != 1 else []
        arguments = short_list([f"{a.name}: {a.type}" for a in self.arguments])
        outputs = short_list(self.outputs)
        return f"<Kernel {self.entry}({arguments}) -> ({outputs}), {', '.join(options)}>"

    @cached_property
    def function(self) -> Function:
        """The function that is executed."""
        function = self.program.function(self.entry)
        assert function is not None
        return function

    @property
    def profile(self) -> profiles.Profile:
        """The target profile that the program was verified for."""
        return self.semantics.profile

    @cached_property
    def arguments(self) -> tuple[entries.Argument, ...]:
        """Name, type and required size of every argument, in order."""
        return entries.arguments(self.program, self.function)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.arguments)

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in order (jit sorts the keys of dictionaries it returns)."""
        if self.program.fragment:
            return entries.fragment_outputs(self.program)
        return entries.written_buffers(self.program, self.function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Execute the program on one value for each argument, by position or name.

        The new contents of the buffers it writes, or a fragment's tiles, by name; with ``checks=True`` the
        pair of them and a :class:`Report`. Raises ArgumentError for arguments that do not fit, VerifyError
        where the types they give are illegal, and ExecutionError where ``max_steps`` stops a loop and, with
        arrays that are there, for an access outside of a buffer, view or tile.
        """
        if self.checks:
            return self._run(args, kwargs, jit=True, check="all")[:2]
        return self.checked(*args, **kwargs)

    def checked(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The outputs of a call; ExecutionError where it breaks a run-time rule that the kernel follows.

        >>> import numpy as np, pto_jax as pto
        >>> kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xf32>"), checks=True)
        >>> kernel.checked(np.ones((1, 8), np.float32))["d"].array[0, 0].item()
        -1.0
        """
        return self._checked(args, kwargs, self._calls)

    def once(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The outputs of :meth:`checked`, for one call: on CPUs XLA does not optimise its code.

        Fast code, and code for more than 4 MiB of arguments, is worth its optimisation.
        """
        large = sum(getattr(x, "nbytes", 0) for x in jax.tree.leaves((args, kwargs))) > _LARGE
        if large or self.semantics.numerics != "exact" or platforms.expected() != "cpu" or _inside_a_trace():
            return self.checked(*args, **kwargs)
        with platforms.soonest():
            return self._checked(args, kwargs, self._calls_of({"compiler_options": platforms.unoptimised()}))

    def _checked(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], calls: judged_calls.Calls
    ) -> dict[str, Any]:
        packed = self._compiled(args, kwargs, calls)
        # Only the long way has the numbers that decide about blocks, for its message.
        if packed is not None and not (self.checks and packed[1].kept is False):
            packed[1].raise_if_broken()
            return packed[0]
        traced = any(isinstance(x, Tracer) for x in jax.tree.leaves((args, kwargs)))
        check: execution.Check = "nothing" if traced else self._check
        outputs, report, _ = self._run(args, kwargs, jit=True, check=check)
        report.raise_if_broken()
        return outputs

    @property
    def _check(self) -> execution.Check:
        """The run-time rules that calls with arrays that are there follow."""
        return "accesses" if self.checks is None else "all" if self.checks else "nothing"

    def _compiled(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], calls: judged_calls.Calls
    ) -> tuple[dict[str, Any], PackedReport] | None:
        """The call as a compiled function, arrays prepared in it; None where other things are given."""
        if kwargs:
            if args or len(kwargs) != len(self._names) or not all(n in kwargs for n in self._names):
                return None
            args = [kwargs[n] for n in self._names]
        if len(args) > len(self._names):
            return None
        try:
            if not all(map(is_concrete, args)):
                args = list(map(self._number, self.arguments, args))
                if not all(map(is_concrete, args)):
                    return None
            with x64(), cached_code():
                results, report = calls(args)
        except PtoError:  # The long way raises it without the frames of a trace.
            return None
        return {name: results[name] for name in self.outputs if name in results}, report

    def _number(self, argument: entries.Argument, value: Any) -> Any:
        """A number for a scalar as an array, anything else as it is."""
        if isinstance(argument.type, ScalarType) and isinstance(value, int | float | np.generic):
            return np.asarray(prepare(self.entry, argument, value))
        return value

    @cached_property
    def _calls(self) -> judged_calls.Calls:
        return self._calls_of({})

    def _calls_of(self, options: Mapping[str, Any]) -> judged_calls.Calls:
        @partial(jax.jit, **options)
        def pto(*args: Any) -> tuple[dict[str, Any], PackedReport]:
            results, report, _ = self._run(args, {}, jit=True, check=self._check, outermost=True)
            return results, PackedReport.of(report)

        return judged_calls.Calls(pto, options)

    def eager(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute instruction by instruction, each from the compile cache.

        Raises ExecutionError where a run-time rule is broken.

        >>> import numpy as np, pto_jax as pto
        >>> kernel = pto.compile(pto.parse("%z = tadd %x, %y : !pto.tile<f32, 2, 8>"))
        >>> x = np.ones((2, 8), np.float32)
        >>> kernel.eager(x, x)["z"].array[0, :3].tolist()
        [2.0, 2.0, 2.0]
        """
        outputs, report, _ = self._run(args, kwargs, jit=False)
        report.raise_if_broken()
        return outputs

    def eager_unchecked(self, /, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Execute like :meth:`eager`, computing the formula where a run-time rule is broken."""
        return self._run(args, kwargs, jit=False, check="nothing")[0]

    def with_state(self, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """The outputs, and every tile and memory space as the program left it.

        Raises ExecutionError where a run-time rule is broken.
        """
        outputs, report, state = self._run(args, kwargs, jit=True, keep_state=True)
        report.raise_if_broken()
        return outputs, state

    def observed(self, observer: Observer, /, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], State]:
        """Like :meth:`with_state`, eagerly; every step notifies an observer (``runtime/debug/tracer.py``)."""
        outputs, report, state = self._run(args, kwargs, jit=False, keep_state=True, observer=observer)
        report.raise_if_broken()
        return outputs, state

    def trace(self, /, *args: Any, start: int = 1, limit: int = 1000, **kwargs: Any) -> Trace:
        """Execute instruction by instruction; the steps, with tiles before and after each of them.

        Arguments are those of a call; arguments named ``start`` or ``limit`` go by position. Of all steps
        ``limit`` are kept, from number ``start`` on. ``print(trace)`` writes what ``pto-jax run --trace``
        writes. A broken run-time rule is ``trace.error``. ArgumentError for arguments that do not fit, and
        under jit, vmap and other transformations, where no values are there.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> kernel = pto.compile(pto.parse("%c = tadd %a, %b : !pto.tile<1x8xf32>", file="add.pto"))
        >>> step = kernel.trace(np.ones((1, 8), np.float32), np.ones((1, 8), np.float32))[0]
        >>> step.line, step.instruction, list(step.operands), step.written["c"].array[0, 0].item()
        (1, 'tadd', ['a', 'b'], 2.0)
        """
        from .debug import inspection

        return inspection.trace(self, args, kwargs, start, limit)  # pyright: ignore[reportArgumentType]

    def stop_at(self, line: int | str, n: int = 1) -> StopAt:
        r"""The execution that stops before a line, the ``n``-th time; call it with the kernel's arguments.

        It gives a :class:`State`: tiles by name (of other functions and cores behind their names), scalars,
        buffers in the shape they were passed in. Lines are those of the text, or of the Python file of a
        kernel; ``"FILE:LINE"`` where a program comes from several files. Executions count over all blocks
        and cores. ArgumentError where no operation begins on the line or it is executed fewer times.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> text = "%b = tneg %a : !pto.tile<1x8xf32>\n%c = texp %b : !pto.tile<1x8xf32>"
        >>> state = pto.compile(pto.parse(text)).stop_at(2)(np.ones((1, 8), np.float32))
        >>> state
        <State: 2 tiles, 0 scalars, 0 buffers>
        >>> state.tiles["b"].array[0, 0].item()
        -1.0
        """
        from .debug import inspection

        return inspection.StopAt(self, line, n)  # pyright: ignore[reportArgumentType]

    def explain(self) -> Explanation:
        """Arguments, tiles, memory, instructions, cost and warnings of the kernel on one page.

        Nothing is executed. ``print`` writes the page, notebooks show it; its fields have the parts.

        >>> import pto_jax as pto
        >>> print(pto.compile(pto.parse("%d = tneg %a : !pto.tile<16x64xf32>")).explain())
        kernel @fragment, profile a2a3 (Ascend A2/A3), 1 block
        arguments:
          a  vec 16x64xf32
        results: d
        instructions: tneg
        tiles:
          %d  vec 16x64xf32  4096 bytes  line 1
        cost of one block in cycles (model doc_formula):
          pipe V: 2448
          busiest pipe: 2448, one after another: 2448
        """
        from . import explain

        return explain.explain(self)  # pyright: ignore[reportArgumentType]

    def map(
        self,
        batch: Any,
        *more: Any,
        shared: Mapping[str, Any] | None = None,
        chunk: int | None = None,
        progress: bool | Callable[[int, int | None], object] = False,
        out: Any = None,
    ) -> dict[str, Any]:
        """The results of every entry of a batch, computed chunk by chunk with bounded memory.

        ``batch`` holds arrays with a leading axis: a dictionary by argument name, a tuple by position, or
        the one array. They are read slice by slice: memory maps larger than memory, Tiles, datasets of h5py
        and zarr; ``NAME.valid`` [N, 2] gives a tile its valid rows and columns. An iterator gives the
        arguments of one call after another, in the same forms. ``shared`` are arguments that all calls have
        in common. A buffer that the kernel writes may be left out: it starts as zeros.

        ``chunk`` calls at a time are executed on each local device (default: as many as stay in the caches
        of a CPU, or fill another device). ``progress`` shows a line on standard error, or is called with
        the calls done and their number (None for an iterator). ``out`` takes the results: an array, or
        arrays by name, with the leading axis of the batch, memory maps too.

        The result maps names to NumPy arrays (``out``'s where that is given), or to Tiles, with the batch
        as leading axis. Raises ArgumentError for arrays that do not fit, and ExecutionError with indices
        for accesses as a call does, with ``checks=True`` for every run-time rule that is broken; ``out``
        then has the chunks before.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> kernel = pto.compile(pto.parse("%d = tneg %a : !pto.tile<1x8xf32>"))
        >>> kernel.map(np.ones((1000, 1, 8), np.float32))["d"].shape
        (1000, 1, 8)
        """
        if more:
            names = ", ".join(a.name for a in self.arguments)
            got = f"map: got {1 + len(more)} batches"
            raise ArgumentError(got, allowed="one, with all arguments", fix=f"kernel.map(({names}))")
        return streaming.stream(self, batch, shared or {}, chunk, progress, out)  # pyright: ignore[reportArgumentType]

    def specialise(self, /, **scalars: Any) -> Kernel:
        """The kernel for fixed values of scalar arguments, which calls no longer take.

        Windows, valid regions, strides and iterations that depend on them become constants, so that the
        compiled code needs no masks for them. ArgumentError for names that are no scalar arguments and
        values that their types do not hold.

        >>> import numpy as np
        >>> import pto_jax as pto
        >>> text = "%d = pto.tadds %a, %s : (!pto.tile<1x8xf32>, f32) -> !pto.tile<1x8xf32>"
        >>> kernel = pto.compile(pto.parse(text))
        >>> kernel.specialise(s=2.0)(np.ones((1, 8), np.float32))["d"].array[0, 0].item()
        3.0
        """
        s = self.semantics
        return compile(
            self.program,
            s.profile,
            self.entry,
            numerics=s.numerics,
            out_of_region=s.out_of_region,
            subnormals=s.subnormals,
            checks=self.checks,
            max_steps=self.max_steps,
            grid=self.grid,
            partial_launch=self.partial_launch,
            warn=self.warn,
            scalars=scalars,
        )

    def lower(self, /, *shapes: Any, **named: Any) -> jax.stages.Lowered:
        """The kernel lowered ahead of time for shapes of its arguments; ``.compile()`` makes it callable.

        Shapes are as for :func:`jax.jit`: ``jax.ShapeDtypeStruct`` or arrays, by position or name; without
        any, buffers have the elements that the program accesses at least. With arguments of 64 bits, calls
        of what it compiles are made inside ``with jax.enable_x64(True)``.

        >>> import jax, pto_jax as pto
        >>> kernel = pto.compile(pto.parse("%z = tadd %x, %y : !pto.tile<f32, 2, 8>"))
        >>> x = jax.ShapeDtypeStruct((2, 8), "float32")
        >>> callable(kernel.lower(x, x).compile())
        True
        """
        args, kwargs = _shapes(self.entry, self.arguments, shapes, named)
        with self._width():
            return jax.jit(self).lower(*args, **kwargs)

    def export(
        self, /, *shapes: Any, platforms: Sequence[str] | None = None, **named: Any
    ) -> jax.export.Exported:
        """The kernel as a portable artefact (:mod:`jax.export`), for shapes as :meth:`lower` takes them.

        ``exported.serialize()`` gives bytes that ``jax.export.deserialize(...).call`` executes, without this
        package where no argument or result is a Tile. ``platforms`` such as ("cpu", "cuda"); by default the
        present one. Code for "cuda" holds Triton kernels for merges and float products, which JAX promises
        to execute only in the version that exported them.

        >>> import pto_jax as pto
        >>> from pto_jax.examples import EXAMPLES
        >>> kernel = pto.compile(pto.load(EXAMPLES["vector_add"].path), grid=4)
        >>> [str(a.dtype) for a in kernel.export().in_avals]
        ['float32', 'float32', 'float32']
        """
        if platforms is not None and not (
            isinstance(platforms, list | tuple) and platforms and all(isinstance(p, str) for p in platforms)
        ):
            got = f"platforms: got {platforms!r}"
            raise ArgumentError(got, allowed="names of platforms", fix='platforms=("cpu", "cuda")')
        args, kwargs = _shapes(self.entry, self.arguments, shapes, named)
        own = [jax.export.DisabledSafetyCheck.custom_call(primitives.TRITON)]
        export = jax.export.export(jax.jit(self), platforms=platforms, disabled_checks=own)
        with self._width():
            return export(*args, **kwargs)

    def _width(self) -> AbstractContextManager[None]:
        """The 64-bit mode of JAX where an argument has 64 bits, which JAX would narrow."""
        types = [getattr(a.type, "dtype", None) for a in self.arguments]
        wide = any(d is not None and d.kind != "index" and d.bits == 64 for d in types)
        return x64() if wide else nullcontext()

    def reported(self, values: Mapping[str, Any]) -> tuple[dict[str, Any], Report]:
        """The results of one call by argument names, and the run-time rules it broke of those it follows."""
        outputs, report, _ = self._run((), values, jit=True, check=self._check)
        return outputs, report

    def _run(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        jit: bool,
        check: execution.Check = "all",
        keep_state: bool = False,
        observer: Observer | None = None,
        outermost: bool = False,
    ) -> tuple[dict[str, Any], Report, State]:
        kernel, prepared = self._prepared(args, kwargs)
        if check != "nothing" or jit:
            kernel._check_accesses(prepared)
        traced = any(isinstance(x, Tracer) for x in jax.tree.leaves(prepared))
        mode = execution.Mode(check, keep_state, whole=jit, nested=traced and not outermost)
        eager = partial(execution.execute, kernel, mode, observer=observer)  # pyright: ignore[reportArgumentType]
        soonest = jit and platforms.compiled_soonest() and not _inside_a_trace()
        run = _jitted(kernel, mode, soonest) if jit else eager
        # The guard is for data: constants of instructions may go to the device one by one.
        guard = nullcontext() if jit else jax.transfer_guard("allow")
        with x64(), guard, cached_code():
            rule = execution.launched(kernel, prepared, check == "all")  # pyright: ignore[reportArgumentType]
            results, report, state = kernel._without_derivative(run, prepared, keep_state)
        report = report.joined(rule)
        ordered = {name: results[name] for name in kernel.outputs if name in results}
        return ordered, report, state

    def _prepared(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Kernel, dict[str, Any]]:
        """The kernel with all types, and its arguments checked against them."""
        values = arguments.bound(self.entry, self._names, self._optional, args, kwargs)
        values = {n: v for n, v in values.items() if v is not None or n not in BLOCK_NUMBERS}
        kernel = self._typed(values)
        bound = [a for a in kernel.arguments if a.name in values]
        numbers = [n for n in values if n in BLOCK_NUMBERS]
        if numbers and kernel.grid > 1:
            raise arguments.of_every_block(kernel.entry, numbers[0], f" for {kernel.grid} blocks")
        return kernel, {
            a.name: prepare(kernel.entry, a, values[a.name], self._names.index(a.name)) for a in bound
        }

    def prepared(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, checked; ArgumentError where one does not fit."""
        return self._prepared(args, kwargs)[1]

    def check_accesses(self, values: Mapping[str, Any]) -> None:
        """Raise an error where an access that every execution makes is outside its buffer."""
        self._check_accesses(
            {a.name: prepare(self.entry, a, values[a.name]) for a in self.arguments if a.name in values}
        )

    def _check_accesses(self, prepared: Mapping[str, Any]) -> None:
        for name, (dtype, access) in self._accesses.items():
            check_accesses(name, elements(prepared[name], dtype), access)

    @cached_property
    def _accesses(self) -> dict[str, tuple[DType, Accesses]]:
        """What every execution accesses of each buffer, where that is constant."""
        if self._open:
            return {}
        by_name = accesses(self.program, self.entry, self.grid)
        types = {a.name: a.type.dtype for a in self.arguments if isinstance(a.type, entries.GlobalTypes)}
        return {name: (types[name], by_name[name]) for name in types if name in by_name}

    def _without_derivative(self, run: Any, prepared: Mapping[str, Any], keep_state: bool) -> Any:
        """Execute so that a gradient which is stopped outside is no error, one that is used is.

        Words have no tangents: a tile or integer result could not say that its derivative is used, so
        that differentiated arguments are an error there at once (:func:`arrays.to_words`).
        """
        floats = {n: x for n, x in prepared.items() if conversion.is_traced_float(x)}
        results_are_floats = not self.program.fragment and all(
            conversion.is_float(prepared[n]) for n in self.outputs
        )
        if not floats or keep_state or not results_are_floats:
            return conversion.over_batches(run, prepared)
        stopped = {n: jax.lax.stop_gradient(x) for n, x in floats.items()}
        results, report, state = conversion.over_batches(run, {**prepared, **stopped})
        return derivatives.without_derivative(self.entry, results, floats), report, state

    def _typed(self, values: Mapping[str, Any]) -> Kernel:
        """The kernel with the types a fragment leaves open taken from the arguments, verified."""
        if not self._open:
            return self
        names = [a.name for a in self.arguments if isinstance(a.type, UnknownType) and a.name in values]
        types = [(n, t) for n in names if (t := type_of(n, values[n])) is not None]
        return _filled(self, tuple(types), self.warn)

    @cached_property
    def _open(self) -> bool:
        return resolve(self.program).is_open

    @cached_property
    def launch_is_open(self) -> bool:
        """Whether only arguments tell if the launch has the blocks that the program needs."""
        judgement = grids.judge(self.program, self.entry, self.grid)
        return judgement.open and not self.partial_launch

    @cached_property
    def _optional(self) -> frozenset[str]:
        tiles = arguments.optional(self.program, self.function, self.outputs)
        return tiles | {n for n in self._names if n in BLOCK_NUMBERS}


@lru_cache(maxsize=1024)
def _filled(kernel: Kernel, types: tuple[tuple[str, Type], ...], warn: bool) -> Kernel:
    program = fill(kernel.program, dict(types))
    findings = _verified(program, kernel.profile, kernel.places)
    if warn:
        execution.warn_of(findings, (program, kernel.places, kernel.profile))
    return replace(kernel, program=program)


@lru_cache(maxsize=1024)
def _jitted(kernel: Kernel, mode: execution.Mode, soonest: bool) -> Any:
    options: Any = {"compiler_options": platforms.unoptimised()} if soonest else {}
    return jax.jit(partial(execution.execute, kernel, mode), **options)  # pyright: ignore[reportArgumentType]


@overload
def compile(
    program: Program,
    profile: profiles.ProfileName | profiles.Profile | None = ...,
    entry: str | None = ...,
    numerics: Literal["exact", "fast"] = ...,
    out_of_region: profiles.OutOfRegion | None = ...,
    subnormals: profiles.Subnormals = ...,
    checks: bool | None = ...,
    max_steps: int = ...,
    grid: int = ...,
    partial_launch: bool = ...,
    warn: bool = ...,
    scalars: Mapping[str, Any] | None = ...,
) -> Kernel: ...


@overload
def compile(
    program: Program,
    profile: profiles.ProfileName | profiles.Profile | None = ...,
    entry: str | None = ...,
    numerics: Literal["exact", "fast"] = ...,
    out_of_region: profiles.OutOfRegion | None = ...,
    subnormals: profiles.Subnormals = ...,
    checks: bool | None = ...,
    max_steps: int = ...,
    grid: int = ...,
    partial_launch: bool = ...,
    warn: bool = ...,
    scalars: Mapping[str, Any] | None = ...,
    *,
    ranks: int | None,
    shared: Sequence[str] = ...,
    context: Mapping[str, str] | None = ...,
    peers: Mapping[str, tuple[str, int | Sequence[int]]] | None = ...,
    engine: Literal["compiled", "interpreter"] = ...,
    schedule: int | None = ...,
    moves: Literal["issue", "wait"] = ...,
) -> RankKernel: ...


def compile(  # noqa: PLR0913 - keywords
    program: Program,
    profile: profiles.ProfileName | profiles.Profile | None = None,
    entry: str | None = None,
    numerics: Literal["exact", "fast"] = "exact",
    out_of_region: profiles.OutOfRegion | None = None,
    subnormals: profiles.Subnormals = "keep",
    checks: bool | None = None,
    max_steps: int = MAX_STEPS,
    grid: int = 1,
    partial_launch: bool = False,
    warn: bool = True,
    scalars: Mapping[str, Any] | None = None,
    ranks: int | None = None,
    shared: Sequence[str] = (),
    context: Mapping[str, str] | None = None,
    peers: Mapping[str, tuple[str, int | Sequence[int]]] | None = None,
    engine: Literal["compiled", "interpreter"] = "compiled",
    schedule: int | None = None,
    moves: Literal["issue", "wait"] = "issue",
) -> Kernel | RankKernel:
    """A program as a pure function of arrays.

    ``profile`` is cpu_sim, a2a3 or a5 (default: the text's target, else a2a3). ``numerics`` is "exact"
    (every instruction as if executed alone, the same bits in every execution mode) or "fast".
    ``out_of_region`` overrides what source lanes outside a valid region read: "ones" or "backing" (the
    sanitizer, ``pto-jax run --sanitize``, says where they are read).
    ``subnormals="flush"`` models hardware in flush mode. Calls with arrays that are there check what the
    program accesses; ``checks=False`` leaves that out, ``checks=True`` makes calls return
    ``(outputs, report)`` with all run-time rules that were broken, under transformations too. A while loop
    is stopped after ``max_steps`` trips (ExecutionError). ``grid`` blocks are executed, one after another;
    with ``partial_launch`` any number of them, whatever the program is written for.

    ``scalars`` fixes scalar arguments by name, as ``{"rows": 200}`` (on ranks also one each); calls then
    take the others. Sizes, strides and iterations that depend on them are constants of the compiled code.

    With ``ranks`` the program runs on so many processors, and the result is a
    :class:`pto_jax.RankKernel`: every buffer is an array with a leading axis of ranks. ``shared`` names
    the windows that ranks reach in each other, arguments or not; ``context`` maps an argument that is a
    context record to its window, ``peers`` one that is a part of another rank to ``("x", rank)`` or
    ``("x", [rank, ...])``. The ``engine`` is "compiled", or "interpreter" for programs whose order depends on
    data, which are NotExecutableError otherwise; that one executes cores in the order of the seed
    ``schedule``, and asynchronous copies where they are issued or where they are waited for (``moves``).

    What :func:`pto_jax.verify` warns of is shown once per program and profile as
    :class:`pto_jax.PtoWarning`, except with ``warn=False``; ``Kernel.warnings`` has it in any case.
    Raises VerifyError when the profile does not allow the program, or when the text shows that more blocks
    would write further elements of its views, or that blocks leave them. Where that depends on arguments,
    eager execution and ``checks=True`` report it.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> k = pto.compile(pto.parse("%d = pto.tadd %a, %b : !pto.tile<f32, 1, 8>"))
    >>> k(np.ones((1, 8), np.float32), np.ones((1, 8), np.float32))["d"].array[0, 0].item()
    2.0
    """
    semantics = choices(api.resolve_profile(program, profile), numerics, out_of_region, subnormals)
    resolved = resolve(with_entry(program))
    program = resolved.program
    function = entries.select_entry(program, entry)
    if checks is not None and not isinstance(checks, bool | np.bool_):
        raise ArgumentError(f"checks: got {checks!r}", allowed="None, False, True")
    _require_names(scalars)
    if scalars and ranks is None:
        resolved = resolve(with_scalars(program, function, scalars))
        program = resolved.program
    if not resolved.is_open:
        findings = _verified(program, semantics.profile, program.places)
        if warn:
            execution.warn_of(findings, (program, program.places, semantics.profile))
    if not is_number(max_steps, 1):
        raise ArgumentError(f"max_steps: got {max_steps!r}", allowed="a positive number")
    grids.require_blocks(grid)
    judgement = grids.judge(program, function.name, grid)
    if judgement.problem is not None and not partial_launch:
        raise VerifyError(judgement.problem)
    if ranks is not None:
        from ..interpreter.rank_calls import bind
        from .ranks import RankKernel, with_numbers

        call = bind(program, function, ranks, grid, shared, context, peers)
        call = with_numbers(call, "scalars", scalars or {})
        kernel = RankKernel((call,), semantics, engine, checks, max_steps, schedule, moves, warn)
        kernel.require_static()
        return kernel
    if shared or context or peers or engine != "compiled" or schedule is not None:
        raise ArgumentError(
            "shared, context, peers, engine, schedule: got no ranks", allowed="with ranks=N", fix="ranks=2"
        )
    return _kernel(
        program, function.name, semantics, checks, program.places, max_steps, grid, partial_launch, warn
    )


def _require_names(scalars: object) -> None:
    if scalars is not None and not isinstance(scalars, Mapping):
        got = f"scalars: got {one_of(scalars)}"
        raise ArgumentError(got, allowed="numbers by the names of arguments", fix='scalars={"rows": 200}')


@lru_cache(maxsize=4096)
def _kernel(*fields: Any) -> Kernel:
    return Kernel(*fields)


@lru_cache(maxsize=4096)
def _verified(program: Program, target: profiles.Profile, places: str) -> tuple[Diagnostic, ...]:
    """The warnings about a program; VerifyError where there are errors."""
    # Equal programs may stand in different places, which the diagnostics name.
    from ..verifier.programs import verify_program

    findings = verify_program(program, target)
    errors = [d for d in findings if d.severity == "error"]
    if errors:
        raise VerifyError(errors)
    return tuple(findings)
