"""Definedness of transfers between global memory and tiles."""

import numpy as np

from ..interpreter import View
from ..ir import AtomicType, Pad
from ..oracle.memory import padded_region, positions_of, view_of
from ..oracle.memory_layouts import image_positions
from ..oracle.numbers import Array
from ..oracle.quantise import has_relu
from .quantise import parameters
from .shadow import as_words, first
from .step import ShadowStep, shadow_rule


@shadow_rule("tload")
def _load(step: ShadowStep) -> None:
    """Lanes that only a pad value reaches are defined where there is one.

    Without one the simulator clears them, which no page promises: they are as defined as they were.
    """
    t, view = step.type(), view_of(step, "src")
    if t.conv is not None:
        step.moved("src")
        return
    region = step.region
    if t.pad != Pad.NULL and step.policy.simulator:
        step.scatter(np.zeros(1, np.int32), np.arange(t.elements))
    elif t.pad != Pad.NULL:
        step.define(padded_region(t, *region))
    shadow, memory = step.buffer_shadow(view), step.memory(view.buffer)
    at = positions_of(step, view, region, memory)
    step.put_bits(shadow.words(at, view.dtype), shadow.origin_ids(at, view.dtype))


@shadow_rule("tstore")
def store(step: ShadowStep) -> None:
    """The valid region goes to global memory, converted and added where the instruction says so."""
    view, region = view_of(step, "dst"), step.valid("src")
    memory, d = step.memory(view.buffer), view.dtype
    conv = step.type("src").conv
    if conv is not None:
        origin_ids = step.stored("src").reshape(-1)
        at, _, _ = image_positions(step, conv, view)
        _sent(step, view, at, as_words(origin_ids, d), origin_ids)
        return
    origin_ids = step.raw("src", region)
    words = step.bits_over("src", region)
    at = positions_of(step, view, region, memory)
    plain = step.dtype("src").storage_bits == d.storage_bits and not has_relu(step)
    if not plain or step.dtype("src") != d or "fp" in step.operands:
        columns = np.arange(region[1])[None, :]
        if step.policy.simulator and step.type("src").blayout.name == "COL_MAJOR":
            columns = np.arange(region[0])[:, None]
        origin_ids = np.broadcast_to(first(origin_ids, parameters(step, columns)), region)
        words = as_words(origin_ids, d)
    if step.attrs.get("atomicType") == AtomicType.ATOMIC_ADD:
        _add(step, view, at, first(origin_ids, step.buffer_shadow(view).origin_ids(at, d)))
        return
    _sent(step, view, at, words, origin_ids)


def _sent(step: ShadowStep, view: View, at: Array, words: Array, origin_ids: Array) -> None:
    step.sink("memory", "src", origin_ids)
    step.buffer_shadow(view).write(at, words, origin_ids, view.dtype)


def _add(step: ShadowStep, view: View, at: Array, origin_ids: Array) -> None:
    """Several lanes may meet in one element; one that is undefined makes it undefined."""
    step.sink("memory", "src", origin_ids)
    order = np.argsort(origin_ids.reshape(-1) != 0, kind="stable")
    flat, new = at.reshape(-1)[order], origin_ids.reshape(-1)[order]
    step.buffer_shadow(view).write(flat, as_words(new, view.dtype), new, view.dtype)
