"""Kernels of a model step executed in order: a folder of programs and a description of their launches.

The folder holds what a front end emitted, PTO text or C++, and ``launches.json`` says in which order which
kernel gets which buffers. Buffers are arrays by name; a kernel that writes one is seen by those after it.

>>> import tempfile, pathlib, json
>>> import numpy as np
>>> from pto_jax.examples import EXAMPLES
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "add.pto").write_text(EXAMPLES["vector_add"].path.read_text())
>>> names = [a.name for a in load(folder / "add.pto").functions[0].args]
>>> len(names)
3
>>> launch = {"kernel": "add.pto", "arguments": ["a", "a", "b"]}
>>> _ = (folder / "launches.json").write_text(json.dumps({"launches": [launch]}))
>>> out = run(folder, {"a": np.ones(4096, np.float32), "b": np.zeros(4096, np.float32)})
>>> out["b"][:2]
array([2., 2.], dtype=float32)
"""

from ..api import load
from .description import Launch as Launch, Step as Step, read_step as read_step
from .execution import run as run

__all__ = ["Launch", "Step", "load", "read_step", "run"]
