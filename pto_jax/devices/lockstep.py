"""The lockstep engine as a machine that executes cases."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import jax
import numpy as np
from jax import lax
from numpy.typing import NDArray

from ..cases.targets import BatchTarget, Output, Run
from ..errors import NotExecutableError
from ..generate.programs import Case
from ..lockstep.encode import Encoded, encode
from ..lowering.bits import x64
from ..lowering.lockstep import SCALARS, SLOTS, Branch, Programs, run_grouped, run_switched, words_needed
from .lockstep_cases import register_words, tile_words


@dataclass(frozen=True)
class Lockstep(BatchTarget):
    """All cases of a batch at once, by one interpreter compiled for the opcodes they use.

    Executes straight-line fragments of instructions on tiles; the others are refused.

    >>> from pto_jax.generate.programs import generate
    >>> found = Lockstep().run_all([generate(1, 2)])
    """

    grouped: bool = False
    follows: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the machine, with its mode where programs are grouped."""
        return "lockstep:grouped" if self.grouped else "lockstep"

    def run_all(self, cases: Sequence[Case]) -> list[Run | Exception]:
        """The outputs of each case, in order, NotExecutableError for those that lockstep does not execute."""
        results: list[Run | Exception] = []
        encoded: list[Encoded] = []
        places: list[int] = []
        for place, case in enumerate(cases):
            try:
                encoded.append(encode(case))
                places.append(place)
                results.append(Run({}))
            except NotExecutableError as error:
                results.append(error)
        if encoded:
            for place, program, registers in zip(places, encoded, self._execute(encoded), strict=True):
                results[place] = Run(_outputs(program, registers))
        return results

    def _execute(self, encoded: Sequence[Encoded]) -> NDArray[np.uint32]:
        """Final registers [n, registers, words]."""
        used = sorted({i.branch for e in encoded for i in e.instructions}, key=repr)
        branches: tuple[Branch | None, ...] = (None, *used)
        programs, registers = _arrays(encoded, {b: i for i, b in enumerate(branches)})
        with x64():
            return np.asarray(_runner(branches, self.grouped)(programs, registers))[: len(encoded)]


@lru_cache(maxsize=64)
def _runner(branches: tuple[Branch | None, ...], grouped: bool) -> Callable[..., Any]:
    if grouped:
        return jax.jit(lambda programs, registers: run_grouped(branches, programs, registers, 4))

    def one(both: tuple[Programs, Any]) -> Any:
        return run_switched(branches, *both)

    return jax.jit(lambda programs, registers: lax.map(one, (programs, registers)))


def _arrays(
    encoded: Sequence[Encoded], numbers: dict[Branch | None, int]
) -> tuple[Programs, NDArray[np.uint32]]:
    """The programs, made equally long with instructions that do nothing, and their registers.

    Sizes are powers of two, so that few of them are compiled.
    """
    n = _rounded(len(encoded))
    steps = _rounded(max(len(e.instructions) for e in encoded))
    held = _rounded(max(len(e.types) for e in encoded))
    words = _rounded(max(words_needed(t) for e in encoded for t in e.types))
    opcodes, scalars = np.zeros((n, steps), np.int32), np.zeros((n, steps, SCALARS), np.uint32)
    slots, sizes = np.zeros((n, steps, SLOTS), np.int32), np.zeros((n, held, 2), np.int32)
    registers = np.zeros((n, held, words), np.uint32)
    for i, e in enumerate(encoded):
        for j, instruction in enumerate(e.instructions):
            opcodes[i, j] = numbers[instruction.branch]
            slots[i, j, : len(instruction.slots)] = instruction.slots
            scalars[i, j, : len(instruction.scalars)] = instruction.scalars
        sizes[i, : len(e.sizes)] = e.sizes
        for j, (t, tile) in enumerate(zip(e.types, e.contents, strict=True)):
            registers[i, j, : words_needed(t)] = register_words(tile, t)
    return Programs(*map(jax.device_put, (opcodes, slots, scalars, sizes))), registers


def _rounded(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _outputs(program: Encoded, registers: NDArray[np.uint32]) -> dict[str, Output]:
    outputs = {}
    for name, number in program.results.items():
        t = program.types[number]
        outputs[name] = Output(t.dtype, tile_words(registers[number], t), program.sizes[number])
    return outputs
