"""Two instructions of one's own, as a user writes them: ``pto-jax fuzz --extension own_instructions.py``."""

import jax.numpy as jnp
import numpy as np

import pto_jax as pto

pto.extension.instruction(
    "tcosh",
    "Hyperbolic cosine of a tile.",
    "dst[i,j] = cosh(src[i,j])",
    types=("f32", "f16"),
    jax=lambda x: (jnp.exp(x) + jnp.exp(-x)) / 2,
    numpy=np.cosh,
    ulp=1,
    measured=pto.extension.Range(-3, 3),
)

pto.extension.instruction(
    "tclampadd",
    "Sum of two tiles, at most a limit.",
    "dst[i,j] = limit < src0[i,j] + src1[i,j] ? limit : src0[i,j] + src1[i,j]; integer sums wrap",
    sources=("src0", "src1", "limit"),
    scalars=("limit",),
    types={"cpu_sim": ("f32", "f16", "i32", "i8"), "a2a3": ("f32", "f16", "i32"), "a5": ("f32", "i32", "i8")},
    jax=lambda a, b, limit: jnp.where(limit < a + b, limit, a + b),
    numpy=lambda a, b, limit: np.where(limit < a + b, limit, a + b),
    cycles=pto.extension.Cycles(startup=14, completion=19, per_repeat=2),
)
