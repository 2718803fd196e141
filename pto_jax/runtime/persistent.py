"""Lowered kernels in the folder of JAX's persistent cache, so that a later process need not trace them.

JAX keeps what XLA made of a module, and has to trace and lower a function to know which module that is: this
takes longer than reading the code. Where its cache has a local folder of unlimited size, a kernel's module is
kept there too, in a file named by everything that it depends on: the program and where it stands, the
options, the arguments' shapes and types, JAX's configuration and the text of this package. A file that is not
whole is as one that is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

import jax
import jax.export
import jaxlib
import ml_dtypes
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ..errors import FileError, PtoError, Span
from ..files import write_bytes
from ..isa import registry
from ..lowering import MEMORY_RULES, RULES
from ..lowering.platforms import expected
from ..lowering.words import x64
from ..profiles import PROFILES
from .state import Report, RuleLocation

#: Gives results by name and the run-time rules that were followed.
Reported: TypeAlias = "Callable[..., tuple[dict[str, Any], Report]]"
_PACKAGE = Path(__file__).parents[1]
_IMPORTED = time.time()
#: Settings of JAX that no traced function depends on.
_UNRELATED = ("jax_compilation_cache", "jax_enable_compilation_cache", "jax_persistent_cache", "jax_log")


def jit(function: Reported, kernel: Any, use: str) -> Reported:
    """``jax.jit(function)`` for arguments that are no tracers, which a later process need not trace.

    ``function`` is one ``use`` of a :class:`pto_jax.Kernel`: one function per kernel and use.
    """

    def call(*trees: Any) -> tuple[dict[str, Any], Report]:
        leaves, structure = jax.tree.flatten(trees)
        path = _path(kernel, use, leaves, structure)
        if path is None:
            return function(*trees)

        def flat(*leaves: Any) -> tuple[dict[str, Any], Report]:
            return function(*jax.tree.unflatten(structure, leaves))

        module = _read(path) or _write(path, flat, leaves)
        if module is None:
            return function(*trees)
        results = _stored.bind(*leaves, module=module, function=flat)
        outputs, report = jax.tree.unflatten(module.structure, results)
        return outputs, report

    call.__name__ = "pto"
    return jax.jit(call)


# -- modules -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Module:
    """A lowered function: serialised StableHLO for one platform, and what it takes and gives."""

    platform: str
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    results: tuple[jax.ShapeDtypeStruct, ...]
    structure: Any
    code: bytes
    #: Which arguments the code takes: JAX leaves out those that are not used.
    used: tuple[int, ...]

    @cached_property
    def exported(self) -> jax.export.Exported:
        """The module as JAX calls it, behind the signature of a function without content."""

        def empty(*_: Any) -> tuple[Any, ...]:
            return tuple(jax.lax.full(r.shape, 0, r.dtype) for r in self.results)

        with x64():
            stub = jax.export.export(jax.jit(empty), platforms=[self.platform])(*self.inputs)
        # Without a platform's name JAX does not prepare calls of LAPACK, for which it would import SciPy.
        return replace(
            stub,
            fun_name="pto",
            mlir_module_serialized=self.code,
            module_kept_var_idx=self.used,
            platforms=("",),
            disabled_safety_checks=(jax.export.DisabledSafetyCheck.platform(),),
        )


_stored: Any = Primitive("pto_stored")
_stored.multiple_results = True


def _types(*_: Any, module: Module, function: Reported) -> Sequence[Any]:
    return module.exported.out_avals


def _lower(context: Any, *leaves: Any, module: Module, function: Reported) -> Any:
    def code(*leaves: Any) -> Sequence[Any]:
        with x64():
            if tuple(context.module_context.platforms) == (module.platform,):
                return module.exported.call(*leaves)  # type: ignore[no-any-return, no-untyped-call]
            return jax.tree.leaves(function(*leaves))

    return mlir.lower_fun(code, multiple_results=True)(context, *leaves)


_stored.def_abstract_eval(_types)
mlir.register_lowering(_stored, _lower)


# -- files ---------------------------------------------------------------------------------------------


def _path(kernel: Any, use: str, leaves: Sequence[Any], structure: Any) -> Path | None:
    """The file of a function for some arguments; None where modules are not kept."""
    types = [jax.typeof(x) for x in leaves]
    meshes = (jax.sharding.get_abstract_mesh(), *(t.sharding.mesh for t in types))
    place = folder()
    if place is None or _changed() or not all(m.empty for m in meshes):
        return None
    name, versions = _name(kernel), _versions()
    if name is None or versions is None:
        return None
    platform = jax.export.default_export_platform()
    arguments = [_described(t) for t in types]
    key = repr((name, use, str(structure), arguments, platform, expected(), _settings(), versions))
    return place / f"pto_jax-{hashlib.sha256(key.encode(errors='surrogatepass')).hexdigest()}.module"


def _name(kernel: Any) -> tuple[Any, ...] | None:
    """What tells a kernel from others in any process; None for fragments and profiles without a name."""
    program, s, profile = kernel.program, kernel.semantics, kernel.profile.name
    if program.fragment or PROFILES.get(profile) is not kernel.profile:
        return None
    options = (profile, s.numerics, s.out_of_region, s.subnormals, kernel.checks, kernel.max_steps)
    return program.digest, kernel.places, kernel.entry, options, kernel.grid, kernel.partial_launch


def folder() -> Path | None:
    """The local folder of JAX's persistent cache, where it is in use and may grow."""
    settings = jax.config.values
    place = settings["jax_compilation_cache_dir"]
    if not place or "://" in place or not settings["jax_enable_compilation_cache"]:
        return None
    if settings["jax_compilation_cache_max_size"] != -1 or settings["jax_disable_jit"]:
        return None
    return Path(place)


def _changed() -> bool:
    """Whether this process computes with other rules than the package has."""
    rules = (*RULES.values(), *MEMORY_RULES.values())
    return bool(registry.added()) or not all(r.__module__.startswith("pto_jax.lowering") for r in rules)


def _settings() -> list[tuple[str, str]]:
    return [(n, str(v)) for n, v in sorted(jax.config.values.items()) if not n.startswith(_UNRELATED)]


@cache
def _versions() -> tuple[str, ...] | None:
    """The versions of what makes a module: this package's is the text of all its files.

    None where there are no files, as in an archive, and where one was edited after its import: nobody knows
    then what text this process executes.
    """
    text, count = hashlib.sha256(), 0
    for at, _, names in sorted(os.walk(_PACKAGE, followlinks=True)):
        for name in sorted(n for n in names if n.endswith(".py")):
            text.update(f"{name}\n".encode())
            with Path(at, name).open("rb", buffering=0) as file:
                if os.fstat(file.fileno()).st_mtime > _IMPORTED:
                    return None
                text.update(file.read())
            count += 1
    others = (m.__version__ for m in (jax, jaxlib, np, ml_dtypes))
    return (text.hexdigest(), *others) if count else None


def _read(path: Path) -> Module | None:
    """The module in a file; None where there is no whole one."""
    try:
        return _module(path.read_bytes())
    except (OSError, ValueError):
        return None


def _module(content: bytes) -> Module:
    """The module in the content of a file; ValueError where that is not whole."""
    digest, said, code = content.split(b"\n", 2)
    if digest != _digest(said, code):
        raise ValueError("cut off")
    header = json.loads(said)
    inputs, results = (tuple(_shaped(*t) for t in header[n]) for n in ("inputs", "results"))
    sites = tuple(RuleLocation(**{**s, "span": s["span"] and Span(**s["span"])}) for s in header["sites"])
    report = Report((0,) * len(sites), sites, tuple((0,) * n for n in header["values"]))  # type: ignore[arg-type]
    structure = jax.tree.structure((dict.fromkeys(header["outputs"], 0), report))
    return Module(header["platform"], inputs, results, structure, code, tuple(header["used"]))


def _write(path: Path, function: Reported, leaves: Sequence[Any]) -> Module | None:
    """The module of a function, which is kept in a file; None for one that has no module of its own."""
    platform = jax.export.default_export_platform()
    start = time.perf_counter()
    try:
        made = jax.export.export(jax.jit(function), platforms=[platform])(*map(jax.typeof, leaves))
    except PtoError:
        raise
    except Exception:  # What JAX cannot export, such as callbacks, it may well execute.
        return None
    seconds = time.perf_counter() - start
    outputs, report = jax.tree.unflatten(made.out_tree, made.out_avals)
    skeleton: Any = jax.tree.structure((dict.fromkeys(outputs, 0), report))
    if skeleton != made.out_tree or any(x.weak_type for x in made.out_avals):
        return None
    header = {
        "platform": platform,
        "inputs": [_described(x) for x in made.in_avals],
        "results": [_described(x) for x in made.out_avals],
        "outputs": list(outputs),
        "sites": [asdict(s) for s in report.sites],
        "values": [len(v) for v in report.values],
        "used": made.module_kept_var_idx,
    }
    said, code = json.dumps(header).encode(), bytes(made.mlir_module_serialized)
    content = b"\n".join((_digest(said, code), said, code))
    if seconds >= jax.config.values["jax_persistent_cache_min_compile_time_secs"]:
        with suppress(OSError, FileError):  # JAX writes there too and warns.
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, content)
    return _module(content)


def _digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"\n".join(parts)).hexdigest().encode()


def _described(x: Any) -> tuple[tuple[int, ...], str, bool]:
    return x.shape, str(x.dtype), x.weak_type


def _shaped(shape: Sequence[int], dtype: str, weak: bool) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(tuple(shape), np.dtype(dtype), weak_type=weak)  # type: ignore[no-untyped-call]
