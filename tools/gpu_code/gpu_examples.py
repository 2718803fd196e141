"""What the shipped examples launch on a GPU and what memory they need there, by generated code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax

from pto_jax.api import load
from pto_jax.errors import brief
from pto_jax.examples import EXAMPLES, Example
from pto_jax.lowering.numerics import Numerics
from pto_jax.runtime.kernel import compile
from tools.gpu_code import gpu_limits, gpu_program
from tools.gpu_code.gpu_target import Code, Compiler

#: Elements of the batch that an example is compiled for.
BATCH = 1024
#: Launches of an example of one block in exact numerics, and their number over that of fast numerics.
LAUNCHES, OVER_FAST = 20, 2


@dataclass(frozen=True)
class ExampleCode:
    """An example on a target: launches per call by numerics, bytes of scratch memory and of the arguments.

    Memory is that of exact numerics.
    """

    name: str
    target: str
    blocks: int
    launches: Mapping[Numerics, int] = field(default_factory=dict)
    scratch: int = 0
    arguments: int = 1
    error: str = ""

    @property
    def problems(self) -> list[str]:
        """What is above the promise for all or for programs of one block, or above the committed table."""
        if self.error:
            return [self.error]
        exact, fast = self.launches["exact"], self.launches["fast"]
        limit = gpu_limits.example(self.name)
        result = []
        if self.blocks == 1 and exact > min(LAUNCHES, OVER_FAST * fast):
            result.append(
                f"launches: {exact} in exact numerics, {fast} in fast; allowed {LAUNCHES} and twice fast's"
            )
        for numerics, count in self.launches.items():
            if count > limit[numerics]:
                result.append(f"launches: {count} in {numerics} numerics, allowed {limit[numerics]}")
        if self.scratch > limit["scratch"] * self.arguments:
            allowed = f"{limit['scratch']} bytes per byte"
            result.append(
                f"scratch: {self.scratch} bytes for {self.arguments} of arguments, allowed {allowed}"
            )
        elif self.scratch > self.arguments and gpu_limits.above_arguments(self.name) is None:
            result.append(
                f"scratch: {self.scratch} bytes for {self.arguments} of arguments, more without a reason"
            )
        return result

    def __str__(self) -> str:
        if self.error:
            return f"{self.name} [{self.target}]: {self.error}"
        counts = ", ".join(f"{count} {numerics}" for numerics, count in self.launches.items())
        share = f"{self.scratch / self.arguments:.2f} bytes per byte of arguments"
        return f"{self.name} [{self.target}]: launches {counts}; scratch {share}"


def examine(target: str, compiler: Compiler, name: str) -> ExampleCode:
    """Compile an example in both numerics for a target. An exception is a problem, not an end."""
    example = EXAMPLES[name]
    try:
        codes: dict[Numerics, Code] = {n: compiler.compile(*_batched(example, n)) for n in _NUMERICS}
    except Exception as error:
        return ExampleCode(name, target, example.grid, error=brief(error))
    exact = codes["exact"]
    launches: dict[Numerics, int] = {n: gpu_program.read(code.hlo).launches() for n, code in codes.items()}
    return ExampleCode(name, target, example.grid, launches, exact.scratch, exact.arguments)


_NUMERICS: tuple[Numerics, ...] = ("exact", "fast")


def _batched(example: Example, numerics: Numerics) -> tuple[Callable[..., Any], list[Any]]:
    """An example over a batch, and the shapes of its arguments; scalars are common to the batch."""
    kernel = compile(load(example.path), numerics=numerics, grid=example.grid, warn=False)
    values = example.arguments()
    arguments = [values[a.name] for a in kernel.arguments]
    shape: Any = jax.ShapeDtypeStruct
    shapes = [shape((BATCH, *v.shape) if v.ndim else (), v.dtype) for v in arguments]
    return jax.vmap(kernel, in_axes=[0 if v.ndim else None for v in arguments]), shapes
