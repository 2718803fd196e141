"""A folder of compiled code that others have changed is one clear error."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys, jax, numpy as np
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
import pto_jax as pto
P = "!pto.partition_tensor_view<16x16xf32>"
T = "!pto.tile_buf<vec, 16x16xf32>"
kernel = pto.compile(pto.parse(f'''func.func @f(%p: {P}) {{
%t = pto.alloc_tile : {T}
pto.tload ins(%p : {P}) outs(%t : {T})
pto.tneg ins(%t : {T}) outs(%t : {T})
pto.tstore ins(%t : {T}) outs(%p : {P})
return
}}'''))
try:
    print(np.asarray(kernel(np.ones((16, 16), np.float32))["p"])[0, 0])
except pto.PtoError as error:
    print(type(error).__name__, error)
"""


def run(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_changed_entries_of_the_compilation_cache(tmp_path: Path) -> None:
    assert run(tmp_path) == "-1.0\n"
    entries = sorted(tmp_path.glob("*-cache"))
    code = [entry.read_bytes() for entry in entries]
    assert len(entries) > 1
    for entry, other in zip(entries, [*code[1:], code[0]], strict=True):
        entry.write_bytes(other)
    swapped = run(tmp_path)
    assert swapped.startswith(f"FileError {tmp_path}: an entry of JAX's compilation cache")
    assert swapped.count("\n") == 1
    for entry in entries:
        entry.unlink()
        entry.symlink_to(entry)
    assert run(tmp_path) == "-1.0\n"
