"""Sequences of kernels on several ranks, on windows that live from the first to the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from ..errors import ArgumentError, nearest, one_of
from ..interpreter.rank_calls import (
    Binding,
    Number,
    Part,
    RankCall,
    Record,
    bind,
    check_names,
    check_ranks,
    check_windows,
    not_a_buffer,
)
from ..ir import Program
from .kernel import Kernel, compile as compile_program
from .ranks import Engine, Moves, RankKernel, with_numbers


class HostBarrier:
    """Where all ranks meet at the host between two kernels; :data:`host_barrier` is the one there is."""

    def __repr__(self) -> str:
        return "host_barrier"


#: All ranks meet at the host before the next kernel.
host_barrier: Final = HostBarrier()
#: A kernel with what its arguments are: the name of a buffer or scalar, or a number, or one per rank.
Launched: TypeAlias = "tuple[RankKernel | Kernel | Program, Mapping[str, Any]]"


def launches(
    sequence: Sequence[Launched | RankKernel | Kernel | Program | HostBarrier],
    ranks: int,
    *,
    shared: Sequence[str] = (),
    context: Mapping[str, str] | None = None,
    engine: Engine = "interpreter",
    schedule: int | None = None,
    moves: Moves = "issue",
) -> RankKernel:
    """Kernels that every rank executes one after the other, as one function of buffers by name.

    ``sequence`` has kernels (compiled with ``ranks`` or without, or programs), each alone or with a
    dictionary: an argument to the name of its buffer, a scalar to a name, a number or one number per rank;
    what is left out has the argument's name. Ranks wait for each other at :data:`host_barrier` only, and at
    signals. The end of a kernel publishes what it has written. ``shared`` and ``context`` are those of
    kernels compiled without ranks, in names of buffers and arguments. Other keywords as for
    :func:`pto_jax.compile`; by default the interpreter executes, because kernels that follow each other
    mostly read from data how many rows they move.

    ArgumentError for kernels of other numbers of ranks or profiles, and for names that do not fit.

    >>> import numpy as np
    >>> import pto_jax as pto
    >>> from pto_jax.examples import EXAMPLES
    >>> add = pto.load(EXAMPLES["vector_add"].path)
    >>> twice = pto.launches([(add, {"z": "sum"}), pto.host_barrier, (add, {"x": "sum"})], ranks=2)
    >>> one, zero = np.ones((2, 4096), np.float32), np.zeros((2, 4096), np.float32)
    >>> twice(x=one, y=one, z=zero, sum=zero)["z"][1, :2]
    array([3., 3.], dtype=float32)
    """
    check_ranks(ranks)
    check_names(shared, context, {})
    _require_list(sequence, ranks)
    calls: list[RankCall | None] = []
    kernels: list[RankKernel | Kernel] = []
    for number, entry in enumerate(sequence):
        if isinstance(entry, HostBarrier):
            calls.append(None)
            continue
        place = f"launches[{number}]"
        kernel, names = _kernel_and_names(entry, place)
        if isinstance(kernel, Program):
            kernel = compile_program(kernel, partial_launch=True)
        kernels.append(kernel)
        if isinstance(kernel, RankKernel):
            launch = list(kernel.calls)
            if kernel.ranks != ranks:
                raise ArgumentError(f"{place}: got a kernel of {kernel.ranks} ranks; allowed: {ranks}")
        else:
            own = {
                n: names.get(w, w) if isinstance(names.get(w, w), str) else w
                for n, w in (context or {}).items()
            }
            launch = [_bound(kernel, ranks, own)]
        calls += [None if call is None else _renamed(place, call, names) for call in launch]
    if not kernels:
        raise ArgumentError("launches: got no kernel; allowed: one or more")
    semantics = kernels[0].semantics
    other = next((k for k in kernels if k.semantics != semantics), None)
    if other is not None:
        raise ArgumentError(
            f"launches: got kernels of {semantics.profile.name} and {other.profile.name}; "
            "allowed: one profile and numerics"
        )
    windows = tuple(shared)
    _require_reached([c for c in calls if c is not None], windows, context or {})
    calls = [c and replace(c, shared=tuple(dict.fromkeys((*c.shared, *windows)))) for c in calls]
    made = RankKernel(tuple(calls), semantics, engine, None, 1_000_000, schedule, moves)
    made.require_static()
    return made


def _require_list(sequence: object, ranks: int) -> None:
    if isinstance(sequence, str) or not isinstance(sequence, Sequence):
        got, fix = f"launches: got {one_of(sequence)}", f"pto.launches([kernel], ranks={ranks})"
        raise ArgumentError(got, allowed="a list of kernels", fix=fix)


def _require_reached(calls: Sequence[RankCall], shared: Sequence[str], context: Mapping[str, str]) -> None:
    """ArgumentError for windows and context records that no kernel has."""
    buffers = {name for call in calls for name in call.buffers}
    records = {name for call in calls for name in call.records}
    check_windows(shared, buffers | set(context.values()))
    for name, window in context.items():
        if name not in records:
            allowed = f"context records of the kernels: {', '.join(sorted(records)) or 'none'}"
            raise ArgumentError(f"context: got {name!r}", allowed=allowed, fix=nearest(name, records))
        if window not in buffers | set(shared):
            raise not_a_buffer(name, window, buffers | set(shared))


def _kernel_and_names(entry: object, place: str) -> tuple[RankKernel | Kernel | Program, Mapping[str, Any]]:
    """A kernel of a sequence with what its arguments are; ArgumentError for what is neither."""
    kernel, names = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, {})
    if isinstance(kernel, RankKernel | Kernel | Program) and isinstance(names, Mapping):
        return kernel, names
    allowed = "a kernel, a program, one of them with a dictionary, or host_barrier"
    raise ArgumentError(f"{place}: got {entry!r}", allowed=allowed)


def _bound(kernel: Kernel, ranks: int, context: Mapping[str, str]) -> RankCall:
    """A kernel that was compiled for one rank."""
    own = {n: w for n, w in context.items() if any(a.name == n for a in kernel.arguments)}
    call = bind(kernel.program, kernel.function, ranks, kernel.grid, (), None, None)
    bindings = {n: Record() if n in own else b for n, b in call.bindings.items()}
    return replace(call, bindings=bindings, shared=tuple(own.values()))


def _renamed(place: str, call: RankCall, names: Mapping[str, Any]) -> RankCall:
    """A kernel with its arguments bound to the names of a sequence."""
    buffers = {a.name for a in call.function.args} | set(call.shared)
    unknown = [n for n in names if n not in buffers]
    if unknown:
        got, allowed = f"{place}: {call.entry} has no argument {unknown[0]!r}", ", ".join(sorted(buffers))
        raise ArgumentError(got, allowed=allowed, fix=nearest(unknown[0], buffers))

    def buffer(name: str) -> str:
        own = names.get(name, name)
        if not isinstance(own, str):
            raise ArgumentError(f"{place}: argument {name!r}: got {own!r}; allowed: the name of a buffer")
        return own

    bindings: dict[str, Binding] = {}
    for name, binding in call.bindings.items():
        if isinstance(binding, Part):
            bindings[name] = Part(buffer(binding.buffer), binding.ranks)
        elif isinstance(binding, Number) and isinstance(names.get(name), str):
            bindings[name] = Number(names[name])
        else:
            bindings[name] = binding
    renamed = replace(call, bindings=bindings, shared=tuple(map(buffer, call.shared)))
    scalars = {
        n: v for n, v in names.items() if isinstance(bindings.get(n), Number) and not isinstance(v, str)
    }
    return with_numbers(renamed, place, scalars)
