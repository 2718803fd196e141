"""Kernels of micro-operations around a few lines, and their execution on every executor."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

import pto_jax as pto
from pto_jax import oracle

#: Bytes of each buffer's place in the unified buffer.
PLACE = 4096


def kernel(body: str, buffers: Mapping[str, str], lines: str = "", size: int = PLACE) -> str:
    """A kernel whose buffers, by name and element type, stand in the unified buffer while ``body`` runs.

    Inside a scope, ``%c0`` to ``%c1024`` are indices and ``%NAME_ub`` the buffers; ``lines`` stand before it.
    """
    args = ", ".join(f"%{name}: !pto.ptr<{t}, gm>" for name, t in buffers.items())
    numbers = [0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    text = [f"    %c{n} = arith.constant {n} : index" for n in numbers]
    text += ["    %zero = arith.constant 0 : i64", "    %one = arith.constant 1 : i64"]
    text += [f"    %size = arith.constant {size} : i64"]
    for at, (name, t) in enumerate(buffers.items()):
        text += [
            f"    %{name}_at = arith.constant {at * size} : i64",
            f"    %{name}_ub = pto.castptr %{name}_at : i64 -> !pto.ptr<{t}, ub>",
            f"    pto.mte_gm_ub %{name}, %{name}_ub, %zero, %size nburst(%one, %size, %size) : "
            f"!pto.ptr<{t}, gm>, !pto.ptr<{t}, ub>, i64, i64, i64, i64, i64",
        ]
    text += [lines, "    pto.vecscope {", body, "    }"]
    text += [
        f"    pto.mte_ub_gm %{name}_ub, %{name}, %size nburst(%one, %size, %size) : "
        f"!pto.ptr<{t}, ub>, !pto.ptr<{t}, gm>, i64, i64, i64, i64"
        for name, t in buffers.items()
    ]
    head = 'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
    lines = "\n".join(text)
    return f"{head}  func.func @k({args}) attributes {{pto.kernel}} {{\n{lines}\n    return\n  }}\n}}\n"


def executed(text: str, arrays: Mapping[str, Any], *, everywhere: bool = False) -> Mapping[str, np.ndarray]:
    """The buffers after a kernel, of equal bits interpreted and vmapped; ``everywhere`` also eager."""
    program = pto.parse(text)
    pto.verify(program, raise_on_error=True)
    expected = oracle.run(program, dict(arrays))
    compiled = pto.compile(program)
    batch = [np.stack([a, a[::-1], a]) for a in arrays.values()]
    vmapped = jax.vmap(compiled)(*batch)
    found: list[Mapping[str, Any]] = [{name: np.asarray(v)[2] for name, v in vmapped.items()}]
    if everywhere:
        found += [compiled.eager(**arrays), jax.jit(compiled)(*arrays.values())]
    for result in found:
        for name, value in expected.items():
            have = np.asarray(result[name])
            assert have.view(np.uint8).tobytes() == np.asarray(value).view(np.uint8).tobytes(), name
    return {name: np.asarray(value) for name, value in expected.items()}
