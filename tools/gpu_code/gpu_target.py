"""Compiling for GPUs that are not there: the CUDA plugin of JAX generates code for a described device.

What it writes down on the way is the evidence: the program after all optimisations, whose instructions are
the kernels that a call launches, the LLVM code of every kernel and the PTX that ptxas gets. XLA reads its
flags and JAX its platforms when they are loaded, so :func:`prepare` comes before the first import of JAX.
"""

import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pto_jax.errors import FileError

#: Everything that is needed, from the folder of the project; the plugin is of the version of JAX.
INSTALL = "python3 -m venv gpu-env && gpu-env/bin/pip install '.[gpu-check]'"


@dataclass(frozen=True)
class Target:
    """A device as the compiler needs it described."""

    title: str
    capability: tuple[int, int]
    cores: int
    lanes: int
    shared: int
    cache: int
    bandwidth: int
    clock: float

    @property
    def description(self) -> str:
        """The description as a text protocol buffer."""
        major, minor = self.capability
        return f"""gpu_device_info {{
  threads_per_block_limit: 1024  threads_per_warp: 32  threads_per_core_limit: 2048
  shared_memory_per_block: 49152  shared_memory_per_core: {self.shared}
  shared_memory_per_block_optin: {self.shared - 1024}
  core_count: {self.cores}  fpus_per_core: {self.lanes}
  block_dim_limit_x: 2147483647  block_dim_limit_y: 65535  block_dim_limit_z: 65535
  memory_bandwidth: {self.bandwidth}  l2_cache_size: {self.cache}  clock_rate_ghz: {self.clock}
  device_memory_size: 84929347584  registers_per_core_limit: 65536  registers_per_block_limit: 65536
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 9 }}
device_description_str: "{self.title}"
"""


#: Sizes from NVIDIA's architecture papers; they decide tilings, not roundings.
TARGETS = {
    "h100": Target("NVIDIA H100 80GB HBM3", (9, 0), 132, 128, 233472, 52428800, 3_352_320_000_000, 1.98),
    "a100": Target("NVIDIA A100-SXM4-80GB", (8, 0), 108, 64, 167936, 41943040, 2_039_000_000_000, 1.41),
}


@dataclass(frozen=True)
class Code:
    """What was generated for one program.

    ``hlo`` is the scheduled program, ``llvm`` and ``ptx`` are the texts of its kernels; ``scratch`` counts
    bytes of temporary memory, ``arguments`` those of the arguments.
    """

    hlo: str
    llvm: tuple[str, ...]
    ptx: str
    scratch: int
    arguments: int


def missing() -> str | None:
    """What this environment lacks for compiling, and how to get it; None where nothing is missing."""
    needed = {
        "jax_cuda12_plugin": "jax-cuda12-plugin",
        "jax_plugins.xla_cuda12": "jax-cuda12-pjrt",
        "nvidia.cuda_nvcc": "nvidia-cuda-nvcc-cu12",
        "llvmlite": "llvmlite",
    }
    absent = [package for module, package in needed.items() if not _is_installed(module)]
    if not absent:
        return None
    return f"this environment lacks {', '.join(absent)}; in an environment of its own: {INSTALL}"


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def prepare() -> Path:
    """Set what XLA and JAX read when they are loaded; returns the folder that code is written to."""
    folder = tempfile.mkdtemp(prefix="pto-gpu-code-")
    (nvcc,) = importlib.util.find_spec("nvidia.cuda_nvcc").submodule_search_locations  # type: ignore[union-attr, misc]
    flags = [
        os.environ.get("XLA_FLAGS", ""),
        f"--xla_gpu_cuda_data_dir={nvcc}",
        "--xla_gpu_autotune_level=0",
        "--xla_gpu_enable_triton_gemm=false",
        f"--xla_dump_to={folder}",
        "--xla_dump_hlo_module_re=.*pto_case.*",
        # Without it JAX 0.12 writes no code of kernels.
        "--xla_dump_emitter_re=.*",
        "--xla_dump_hlo_as_text",
        "--xla_dump_large_constants=true",
    ]
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ["PATH"] = f"{nvcc}/bin:{os.environ['PATH']}"
    # Without a CUDA runtime the plugin refuses to start, unless other platforms were asked for.
    os.environ["JAX_PLATFORMS"] = "cpu"
    return Path(folder)


class Compiler:
    """Compiles for a target; code is dumped to ``folder``, of :func:`prepare`."""

    def __init__(self, target: Target, folder: Path) -> None:
        self.target, self._folder = target, folder
        self._known: dict[str, Code] = {}

    def compile(self, function: Callable[..., Any], arguments: Sequence[Any]) -> Code:
        """The code of a function of arrays; every one of them stays an argument."""
        import jax

        from pto_jax.lowering.bits import x64
        from pto_jax.lowering.platforms import expecting

        def pto_case(*leaves: Any) -> Any:
            return function(*leaves)

        place, shape = _sharding(self.target), cast("Any", jax.ShapeDtypeStruct)
        with x64(), expecting("gpu"):
            shapes = [shape(a.shape, a.dtype, sharding=place) for a in arguments]
            traced = jax.jit(pto_case, keep_unused=True).trace(*shapes)
            lowered = traced.lower(lowering_platforms=("cuda",))
        # Profiles often mean the same.
        text = str(lowered.as_text())
        if text not in self._known:
            self._known[text] = self._compiled(lowered)
        return self._known[text]

    def forget(self) -> None:
        """Drop known code: its memory, for programs that are not to be expected again."""
        self._known.clear()

    def _compiled(self, lowered: Any) -> Code:
        compiled = lowered.compile()
        memory = compiled.memory_analysis()
        hlo, llvm, ptx = self._dumped()
        return Code(hlo, llvm, ptx, memory.temp_size_in_bytes, memory.argument_size_in_bytes)

    def _dumped(self) -> tuple[str, tuple[str, ...], str]:
        """The program, LLVM modules with kernels, and every kernel's PTX once: linked forms repeat it."""
        (hlo,) = (p.read_text() for p in self._folder.glob("*gpu_after_optimizations.txt"))
        kernels: dict[str, str] = {}
        for path in sorted(self._folder.glob("*.ptx")):
            for part in re.split(r"(?=\.visible \.entry )", path.read_text())[1:]:
                kernels[part.split("(", 1)[0]] = part
        texts = (p.read_text() for p in sorted(self._folder.glob("*ir-with-opt.ll")))
        modules = tuple(t for t in texts if "define ptx_kernel" in t)
        if "fusion(" in hlo and not modules:
            raise FileError(f"{self._folder}: this version of XLA writes no code of kernels there")
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return hlo, modules, "".join(kernels.values())


@cache
def _sharding(target: Target) -> Any:
    """One described device as a place for arrays."""
    import jax
    from jax.experimental import topologies

    described = topologies.get_topology_desc(
        platform="cuda", topology_name=target.title, topology="1x1x1", target_config=target.description
    )
    mesh = topologies.make_mesh(described, (1,), ("device",))
    everywhere = cast("Any", jax.sharding.PartitionSpec)()
    return jax.sharding.NamedSharding(mesh, everywhere)
