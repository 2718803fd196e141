"""Cases and their results as bytes, for a device that answers one case after another on its input.

What is written and what is expected back says :mod:`.contract`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...analysis.entries import fragment_outputs, select_entry, written_buffers
from ...generate.programs import Case
from ...ir import ScalarType, TileType
from ...runtime.array_files import REGION
from ..results import Run
from .exchange import Array, input_arrays, outputs_of, program_text, result_types, stored_form


@dataclass(frozen=True)
class Slot:
    """The array of a result: its name, element type and shape."""

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]

    @cached_property
    def size(self) -> int:
        """The bytes of its elements."""
        return self.dtype.itemsize * math.prod(self.shape)

    @cached_property
    def head(self) -> bytes:
        """The line that stands before its elements."""
        sizes = "".join(f" {n}" for n in self.shape)
        return f"{self.name} {self.dtype.name} {self.size}{sizes}\n".encode()


@dataclass(frozen=True)
class Request:
    """What a device is sent for a case, and the arrays that its answer has, in order."""

    case: Case
    message: bytes
    results: tuple[Slot, ...]

    @cached_property
    def size(self) -> int:
        """The bytes of an answer's arrays."""
        return sum(slot.size for slot in self.results)

    def run(self, answer: bytes) -> Run:
        """The results in the arrays of an answer; DeviceError for those that cannot be."""
        arrays: dict[str, Array] = {}
        at = 0
        for slot in self.results:
            count = math.prod(slot.shape)
            found: NDArray[np.generic] = np.frombuffer(answer, slot.dtype, count, at)
            arrays[slot.name] = found.reshape(slot.shape)
            at += slot.size
        return outputs_of(self.case, arrays)


def request(case: Case, text: str | None = None, written: Sequence[str] | None = None) -> Request:
    """A case as it is sent to a device; ``text`` is its program, ``written`` what that writes, where known.

    >>> import pto_jax as pto
    >>> from pto_jax.generate.state import Input
    >>> t = pto.TileType("i32", 1, 8)
    >>> a = Input(t, np.arange(8, dtype=np.uint32).reshape(1, 8))
    >>> program = pto.parse("tneg %d, %a : !pto.tile<1x8xi32>")
    >>> made = request(Case("id", 0, 0, pto.profile("a5"), program, {"a": a, "d": a}, {}))
    >>> made.message.split()[:4], [slot.name for slot in made.results], made.size
    ([b'case', b'id', b'a5', b'1'], ['d', 'd.valid'], 40)
    """
    inputs = _with_regions(case)
    results = tuple(_results(case, inputs, _written(case) if written is None else written))
    program = (program_text(case) if text is None else text).encode()
    numbers = f"{case.grid} {len(program)} {len(inputs)} {len(results)}"
    parts = [f"case {case.id} {case.profile.name} {numbers}\n".encode(), program]
    for name, array in inputs.items():
        parts += (_slot(name, array.dtype, array.shape).head, array.tobytes())
    return Request(case, b"".join([*parts, *(slot.head for slot in results)]), results)


def _with_regions(case: Case) -> dict[str, Array]:
    """The inputs as arrays, the valid sizes of every tile among them."""
    arrays: dict[str, Array] = {}
    for name, array in input_arrays(case.inputs).items():
        arrays[name] = array
        i = case.inputs.get(name)
        if i is not None and isinstance(i.type, TileType):
            valid = i.valid or (i.type.valid if i.type.is_static else i.type.shape)
            arrays[name + REGION] = np.array(valid, np.int32)
    return arrays


def _written(case: Case) -> Sequence[str]:
    program = case.program
    if program.fragment:
        return fragment_outputs(program)
    return written_buffers(program, select_entry(program, case.entry))


def _results(case: Case, inputs: Mapping[str, Array], written: Sequence[str]) -> Iterator[Slot]:
    """The arrays of everything that a program writes."""
    types = {} if all(name in inputs for name in written) else result_types(case.program)
    for name in written:
        t: Any = case.inputs[name].type if name in inputs else types[name]
        if isinstance(t, ScalarType):
            continue
        form = inputs.get(name)
        if form is None:
            form = stored_form(t)
        yield _slot(name, form.dtype, form.shape)
        if isinstance(t, TileType):
            yield _slot(name + REGION, np.dtype(np.int32), (2,))


_SLOTS: dict[tuple[str, np.dtype[np.generic], tuple[int, ...]], Slot] = {}


def _slot(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Slot:
    """The one slot of a name, type and shape: campaigns have few of them."""
    key = (name, dtype, shape)
    found = _SLOTS.get(key)
    if found is None:
        if len(_SLOTS) > 1 << 14:
            _SLOTS.clear()
        found = _SLOTS[key] = Slot(*key)
    return found
