"""Kernels of a GPU as functions of this machine, executed thread by thread.

Between this and a GPU remain the selection of instructions, whose result the PTX shows, and ptxas.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.gpu_code import gpu_threads, gpu_translation


class Host:
    """The kernels of LLVM modules, compiled for this machine."""

    def __init__(self, modules: Sequence[str], grids: Mapping[str, int]) -> None:
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.kernels: dict[str, gpu_translation.Kernel] = {}
        self._engines: dict[str, Any] = {}
        self._coarse: list[ctypes.c_int64] = []
        for text in modules:
            self._add(llvm, text, gpu_translation.kernels(text, grids))

    def _add(self, llvm: Any, text: str, found: Sequence[gpu_translation.Kernel]) -> None:
        module = llvm.parse_assembly(gpu_translation.translated(text, found))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
        )
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        for kernel in found:
            self.kernels[kernel.name] = kernel
            self._engines[kernel.name] = engine
        if "rcp.approx.ftz.d" in text:
            address = engine.get_global_value_address("coarse")
            self._coarse.append(ctypes.c_int64.from_address(address))

    @property
    def is_coarse(self) -> bool:
        """Whether a kernel has reciprocals of which the device promises 20 places only."""
        return bool(self._coarse)

    def perturb(self, places: int) -> None:
        """Let coarse reciprocals be off by units in the last of their places."""
        for value in self._coarse:
            value.value = places << 32

    def run(self, name: str, buffers: Sequence[NDArray[np.uint8]]) -> None:
        """Execute every thread of a kernel on its buffers."""
        kernel, engine = self.kernels[name], self._engines[name]
        pointers = [b.ctypes.data for b in buffers]
        if not kernel.cooperative:
            types = [*[ctypes.c_void_p] * len(buffers), ctypes.c_int32]
            call = ctypes.CFUNCTYPE(None, *types)(engine.get_function_address(f"run_{kernel.symbol}"))
            call(*pointers, 0)
            return
        if not gpu_threads.run(engine, kernel.symbol, kernel.threads, pointers):
            raise gpu_translation.Refused("a barrier that not every thread reaches")
