"""Kernels of a model step executed in order: a folder of programs and a description of their launches.

The folder holds what a front end emitted, PTO text or C++, and ``launches.json`` says in which order which
kernel gets which buffers. Buffers are arrays by name; a kernel that writes one is seen by those after it.

>>> import json, pathlib, tempfile
>>> import numpy as np
>>> from pto_jax.examples import EXAMPLES
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "add.pto").write_text(EXAMPLES["vector_add"].path.read_text())
>>> launch = {"kernel": "add.pto", "arguments": ["a", "b", "c"]}
>>> _ = (folder / "launches.json").write_text(json.dumps({"launches": [launch]}))
>>> a, b, c = np.ones(4096, np.float32), np.ones(4096, np.float32), np.zeros(4096, np.float32)
>>> run(folder, {"a": a, "b": b, "c": c})["c"][:2]
array([2., 2.], dtype=float32)
"""

from .description import Launch as Launch, Part as Part, Step as Step, read_step as read_step
from .execution import run as run

__all__ = ["Launch", "Part", "Step", "read_step", "run"]
