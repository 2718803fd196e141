"""The parts of the ``run`` command that watch an execution: ``--trace`` and ``--break``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.provenance import GlobalTypes
from ..debug.tracer import Breakpoint, Observers, Stopped, Tracer
from ..errors import ArgumentError
from .options import Watch

if TYPE_CHECKING:
    from ..runtime.kernel import Kernel
    from ..runtime.state import State


def watched(
    kernel: Kernel, values: Sequence[Any], watch: Watch, dump_state: str | None
) -> tuple[Mapping[str, Any], State] | None:
    """Execute a kernel under observation; None where a breakpoint ended it and saved what there was."""
    stop = Breakpoint.at(kernel.program, watch.stop) if watch.stop is not None else None
    tracer = Tracer(print, watch.trace, watch.limit, watch.lanes) if watch.trace is not None else None
    observers = Observers(tuple(o for o in (stop, tracer) if o is not None))
    try:
        outputs, state = _observed(kernel, observers, values, tracer)
    except Stopped as stopped:
        assert stop is not None and stop.op.span is not None
        source = Path(kernel.program.source)
        path = dump_state or f"{source.stem}-line{stop.op.span.line}.npz"
        memory = replace(stopped.state, buffers=_typed(kernel, values, stopped.state.buffers))
        memory.save(path)
        held = f"{len(memory.tiles)} tiles, {len(memory.scalars)} scalars, {len(memory.buffers)} buffers"
        print(f"{stopped}; {held} are in {path}")
        return None
    if stop is not None:
        times = f"{stop.reached} times" if stop.reached else "never"
        raise ArgumentError(f"--break {watch.stop}: the program ended; it reached that line {times}")
    return outputs, state


def _observed(
    kernel: Kernel, observers: Observers, values: Sequence[Any], tracer: Tracer | None
) -> tuple[Mapping[str, Any], State]:
    try:
        return kernel.observed(observers, *values)
    finally:
        if tracer is not None:
            tracer.finish()


def _typed(kernel: Kernel, values: Sequence[Any], buffers: Mapping[str, Any]) -> dict[str, Any]:
    """Buffers as arrays of their element type where .npz files have it, in the shape they came in."""
    arrays = {}
    for argument, value in zip(kernel.arguments, values, strict=True):
        if isinstance(argument.type, GlobalTypes) and argument.name in buffers:
            d, words = argument.type.dtype, np.asarray(buffers[argument.name])
            plain = d.numpy.kind in "fiub"
            array = words.view(d.numpy) if plain else words
            arrays[argument.name] = array if d.packed else array.reshape(np.shape(value))
    return arrays
