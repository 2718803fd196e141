"""Reference interpreter: programs executed instruction by instruction in plain NumPy.

It shares the declarations and the program walker with the JAX lowering and nothing else, so that each
can be checked against the other.

>>> import numpy as np
>>> import pto_jax as pto
>>> from pto_jax import oracle
>>> t = pto.types.TileType(pto.dtype("f32"), 1, 8)
>>> program = pto.parse("%dst = tadds %src, %s : !pto.tile<1x8xf32>, f32")
>>> tile = oracle.OracleTile(t, np.arange(8, dtype=np.float32).reshape(1, 8))
>>> oracle.run(program, {"src": tile, "s": 0.5})["dst"].data[0, :3]
array([0.5, 1.5, 2.5], dtype=float32)

:func:`sanitize` executes in the same way and follows undefined data; its report is what
``pto-jax run --sanitize`` prints:

>>> part = oracle.OracleTile(t, np.zeros((1, 8), np.float32), 1, 6)
>>> report = oracle.sanitize(program, {"src": part, "s": 0.5})
>>> print(str(report).partition(";")[0])
error: undefined data is a result of the program: %dst, 2 of 8 lanes, row 0, columns 6 to 7
"""

from __future__ import annotations

from .interpret import OracleTile as OracleTile, run as run
from .sanitize import Sanitized as Sanitized, sanitize as sanitize
