"""Products that XLA for GPUs leaves to a library: of integers, whose results no order of sums changes."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.gpu_code.gpu_program import Step, layout, shapes
from tools.gpu_code.gpu_translation import Refused

#: The library's products.
_TARGETS = ("__cublas$lt$matmul", "__cublas$gemm")
_SIDES = ("lhs", "rhs")


def product(
    step: Step, types: Sequence[str], operands: Sequence[NDArray[np.uint8]]
) -> tuple[NDArray[np.uint8], ...]:
    """The bytes of the results of a library call: a product of 8-bit integers modulo 2^32, and no workspace.

    ``types`` are those of the operands. Whatever else a library computes is refused.
    """
    target = re.search(r'custom_call_target="([^"]+)"', step.attributes)
    settings = re.search(r"\bbackend_config=(\{.*\})", step.attributes)
    (name, dims, _), *_ = shapes(step.type)
    if target is None or target[1] not in _TARGETS or settings is None or name != "s32" or len(types) != 2:
        raise Refused("custom-call")
    config = json.loads(settings[1])["gemm_backend_config"]
    if (config["alpha_real"], config["beta"], config["epilogue"]) != (1, 0, "DEFAULT"):
        raise Refused("a product with more than sums")
    numbers = config["dot_dimension_numbers"]
    batches, contracted = (
        [[int(i) for i in numbers.get(f"{side}_{kind}_dimensions", ())] for side in _SIDES]
        for kind in ("batch", "contracting")
    )
    x, y = (
        _ordered(_logical(t, o), b, c)
        for t, o, b, c in zip(types, operands, batches, contracted, strict=True)
    )
    total = np.matmul(x, y.swapaxes(-1, -2)).astype(np.uint32).reshape(dims)
    stored = total.transpose(layout(_first(step.type)))
    rest = [np.zeros(int(np.prod(d)), np.uint8) for _, d, _ in shapes(step.type)[1:]]
    return np.frombuffer(np.ascontiguousarray(stored).tobytes(), np.uint8).copy(), *rest


def _first(type_: str) -> str:
    """The type of the first array."""
    match = re.search(r"\w+\[[\d,]*\](\{[^}]*\})?", type_)
    assert match is not None
    return match[0]


def _logical(type_: str, operand: NDArray[np.uint8]) -> NDArray[np.int64]:
    """An operand's numbers in the order of its dimensions, as 64-bit integers."""
    ((name, dims, width),) = shapes(type_)
    if name not in ("s8", "u8"):
        raise Refused(f"a product of {name}")
    order = layout(type_)
    stored = operand.view(f"{'i' if name[0] == 's' else 'u'}{width}").reshape([dims[i] for i in order])
    return stored.transpose(np.argsort(order)).astype(np.int64)


def _ordered(x: NDArray[np.int64], batch: Sequence[int], contracted: Sequence[int]) -> NDArray[Any]:
    """[batch, free, contracted]; free dimensions become one, and so do the others."""
    free = [i for i in range(x.ndim) if i not in (*batch, *contracted)]
    sizes = [int(np.prod([x.shape[i] for i in group])) for group in (batch, free, contracted)]
    return x.transpose([*batch, *free, *contracted]).reshape(sizes)
