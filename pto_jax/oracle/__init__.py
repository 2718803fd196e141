"""Reference interpreter: programs executed instruction by instruction in plain NumPy.

It shares the declarations and the interpreter of programs with the JAX lowering and nothing else, so that
each can be checked against the other.

>>> import numpy as np
>>> import pto_jax as pto
>>> from pto_jax import oracle
>>> t = pto.TileType(pto.dtype("f32"), 1, 8)
>>> program = pto.parse("%dst = tadds %src, %s : !pto.tile<1x8xf32>, f32")
>>> tile = oracle.OracleTile(t, np.arange(8, dtype=np.float32).reshape(1, 8))
>>> oracle.run(program, {"src": tile, "s": 0.5})["dst"].data[0, :3]
array([0.5, 1.5, 2.5], dtype=float32)
"""

from .interpret import OracleTile as OracleTile, run as run
