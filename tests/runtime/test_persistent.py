"""Kernels in JAX's persistent cache: a later process executes them without a trace, with the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import isa, profiles
from pto_jax.examples import EXAMPLES
from pto_jax.extension import register, unregister
from pto_jax.lowering import RULES
from pto_jax.oracle import step
from pto_jax.runtime import execution, kernel as kernels, persistent, streaming

FOLDER = persistent.folder
SOURCE = """
func.func @scaled(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c8 = arith.constant 8 : index
  %v = pto.make_tensor_view %x, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %w = pto.make_tensor_view %y, shape = [%c4, %c8], strides = [%c8, %c1] : !pto.tensor_view<?x?xf32>
  %pv = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c4, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x8xf32>
  %pw = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%c4, %c8]
    : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<4x8xf32>
  %a = pto.alloc_tile : !pto.tile_buf<vec, 4x8xf32>
  pto.tload ins(%pv : !pto.partition_tensor_view<4x8xf32>) outs(%a : !pto.tile_buf<vec, 4x8xf32>)
  %e = pto.tgetval ins(%a, %n : !pto.tile_buf<vec, 4x8xf32>, index) outs : f32
  pto.tmuls ins(%a, %e : !pto.tile_buf<vec, 4x8xf32>, f32) outs(%a : !pto.tile_buf<vec, 4x8xf32>)
  pto.tstore ins(%a : !pto.tile_buf<vec, 4x8xf32>) outs(%pw : !pto.partition_tensor_view<4x8xf32>)
  return
}
"""
X = np.random.default_rng(0).standard_normal(32).astype(np.float32)
Y = np.zeros(32, np.float32)
#: A position of the tile, as an array: Python numbers go the long way.
N = np.asarray(3, np.int32)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of JAX's cache, in which kernels are kept."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))  # type: ignore[no-untyped-call]
    monkeypatch.setattr(persistent, "folder", FOLDER)
    forget()
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)  # type: ignore[no-untyped-call]
    forget()


def forget() -> None:
    """What a new process does not have: compiled functions."""
    for made in (kernels._kernel, kernels._jitted, kernels._kept, streaming._mapped):
        made.cache_clear()
    jax.clear_caches()  # type: ignore[no-untyped-call]


@pytest.fixture
def untraced(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, no program may be traced."""

    def never(*_: Any) -> None:
        raise AssertionError("traced")

    return lambda: monkeypatch.setattr(execution, "execute", never)


def files(cache: Path) -> list[Path]:
    return sorted(cache.glob("pto_jax-*"))


def scaled(**options: Any) -> Any:
    return pto.compile(pto.parse(SOURCE), **options)


def bits(results: Any) -> dict[str, bytes]:
    return {name: np.asarray(x).tobytes() for name, x in results.items()}


@pytest.mark.parametrize("n", [N, 3, np.int64(3)])
def test_a_later_process_does_not_trace(cache: Path, untraced: Callable[[], None], n: Any) -> None:
    wanted = bits(scaled()(X, Y, n))
    assert np.frombuffer(wanted["y"], np.float32).tobytes() == (X * X[3]).tobytes()
    assert len(files(cache)) == 1
    forget()
    untraced()
    assert bits(scaled()(X, Y, n)) == wanted
    assert len(files(cache)) == 1


@pytest.mark.variants(3)
@pytest.mark.parametrize("numerics", ["fast", "exact"])
@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_shipped_examples(
    cache: Path, untraced: Callable[[], None], monkeypatch: pytest.MonkeyPatch, name: str, numerics: Any
) -> None:
    example = EXAMPLES[name]
    values = example.inputs(np.random.default_rng(1))

    def run() -> Any:
        kernel = pto.compile(pto.load(example.path), numerics=numerics, grid=example.grid, warn=False)
        return bits(kernel(*(values[a.name] for a in kernel.arguments)))

    with monkeypatch.context() as without:
        without.setattr(persistent, "folder", lambda: None)
        wanted = run()
    forget()
    assert run() == wanted
    assert len(files(cache)) == 1
    forget()
    untraced()
    assert run() == wanted


def test_batches_of_map(cache: Path, untraced: Callable[[], None]) -> None:
    batch = np.stack([X, -X, X[::-1]])
    shared = {"n": 5}
    wanted = bits(scaled().map({"x": batch}, shared=shared, chunk=2))
    forget()
    untraced()
    assert bits(scaled().map({"x": batch}, shared=shared, chunk=2)) == wanted


def test_reports_name_the_same_places(cache: Path, untraced: Callable[[], None]) -> None:
    def broken() -> list[str]:
        _, report = scaled(checks=True)(X, Y, 99)
        return [str(d) for d in report.problems()]

    wanted = broken()
    assert len(wanted) == 1 and wanted[0].startswith("<text>:15:3: ") and "offset 99" in wanted[0]
    forget()
    untraced()
    assert broken() == wanted


def test_another_process_reads_what_one_wrote(tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np, pto_jax as pto\n"
        "from pto_jax.runtime import execution\n"
        "kernel = pto.compile(pto.parse(open(sys.argv[1]).read()))\n"
        "if len(sys.argv) > 2: execution.execute = exit\n"
        "x = np.arange(32, dtype=np.float32)\n"
        "print(np.asarray(kernel(x, 0 * x, 3)['y']).tobytes().hex())\n"
    )
    (tmp_path / "scaled.pto").write_text(SOURCE)
    environment = {
        **{n: v for n, v in os.environ.items() if not n.startswith("JAX_")},
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    found = []
    for more in ([], ["later"]):
        command = [sys.executable, "-c", script, str(tmp_path / "scaled.pto"), *more]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1] and len(files(tmp_path / "cache")) == 1


# -- what tells modules apart ------------------------------------------------------------------------------


CHOICES: Mapping[str, Mapping[str, Any]] = {
    "profile": {"profile": "a5"},
    "numerics": {"numerics": "fast"},
    "fill": {"out_of_region": "backing"},
    "subnormals": {"subnormals": "flush"},
    "checks": {"checks": True},
    "grid": {"grid": 2, "partial_launch": True},
    "steps": {"max_steps": 7},
}


@pytest.mark.parametrize("options", CHOICES.values(), ids=CHOICES)
def test_every_choice_has_a_module_of_its_own(cache: Path, options: Mapping[str, Any]) -> None:
    scaled()(X, Y, N)
    scaled(**options)(X, Y, N)
    assert len(files(cache)) == 2


@pytest.mark.parametrize(
    "args", [(X, np.zeros(40, np.float32), N), (X.reshape(4, 8), Y, N), (X, Y, np.int64(3))]
)
def test_so_have_shapes_and_types(cache: Path, args: Any) -> None:
    scaled()(X, Y, N)
    scaled()(*args)
    assert len(files(cache)) == 2


def test_so_have_texts_and_places(cache: Path) -> None:
    for source, name in (
        (SOURCE, "a.pto"),
        (SOURCE, "b.pto"),
        (SOURCE.replace("tmuls", "tadds"), "a.pto"),
        (SOURCE.replace("  return", "\n  return"), "a.pto"),
    ):
        pto.compile(pto.parse(source, name))(X, Y, N)
    assert len(files(cache)) == 4


def test_so_has_jaxs_configuration(cache: Path) -> None:
    scaled()(X, Y, N)
    forget()
    with jax.default_matmul_precision("highest"):
        scaled()(X, Y, N)
    assert len(files(cache)) == 2


def test_so_has_the_text_of_the_package(
    cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edited before this process began; after it, nobody knows what is executed, as in an archive."""
    package = tmp_path_factory.mktemp("package")
    edited = package / "rules.py"
    monkeypatch.setattr(persistent, "_PACKAGE", package)
    persistent._versions.cache_clear()
    scaled()(X, Y, N)
    assert not files(cache)
    for text, time, kept in (
        ("one", 0, 1),
        ("two", 0, 2),
        ("one", 0, 2),
        ("three", persistent._IMPORTED + 9, 2),
    ):
        edited.write_text(text)
        os.utime(edited, (time, time))
        persistent._versions.cache_clear()
        forget()
        scaled()(X, Y, N)
        assert len(files(cache)) == kept
    persistent._versions.cache_clear()


# -- what is not kept --------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [lambda b: b"", lambda b: b[:-9], lambda b: b[:999] + b"#" + b[1000:]])
def test_a_damaged_file_is_written_again(cache: Path, damage: Callable[[bytes], bytes]) -> None:
    wanted = bits(scaled()(X, Y, N))
    (file,) = files(cache)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    forget()
    assert bits(scaled()(X, Y, N)) == wanted
    assert file.read_bytes() == whole


def test_rules_of_this_process_alone(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = bits(scaled()(X, Y, N))
    rule = RULES["tmuls"]
    monkeypatch.setitem(RULES, "tmuls", lambda context, inputs: {**rule(context, inputs)})
    forget()
    for file in files(cache):
        file.unlink()
    assert bits(scaled()(X, Y, N)) == wanted
    assert not files(cache)


def test_instructions_that_were_added(cache: Path) -> None:
    declared = replace(isa.instructions()["tneg"], name="tminus", intrinsic="TMINUS")
    register(declared, RULES["tneg"], step.RULES["tneg"])
    try:
        scaled()(X, Y, N)
    finally:
        unregister("tminus")
    assert not files(cache)


def test_profiles_without_a_name(cache: Path) -> None:
    scaled(profile=replace(profiles.profile("a5")))(X, Y, N)
    assert not files(cache)


def test_fragments_and_callbacks(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fragment = pto.compile(pto.parse("%d = tneg %a : !pto.tile<4x8xf32>"))
    assert isinstance(fragment(X.reshape(4, 8))["d"], pto.Tile)
    printing = SOURCE.replace("  return", "  pto.tprint ins(%a : !pto.tile_buf<vec, 4x8xf32>)\n  return")
    for _ in range(2):
        jax.block_until_ready(pto.compile(pto.parse(printing))(X, Y, N))  # type: ignore[no-untyped-call]
        jax.effects_barrier()  # type: ignore[no-untyped-call]
        assert "4x8" in capsys.readouterr().out
    assert not files(cache)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("jax_persistent_cache_min_compile_time_secs", 60.0),
        ("jax_compilation_cache_max_size", 1 << 30),
        ("jax_enable_compilation_cache", False),
        ("jax_compilation_cache_dir", None),
    ],
)
def test_settings_of_jaxs_cache(cache: Path, setting: str, value: Any) -> None:
    before = jax.config.values[setting]
    jax.config.update(setting, value)  # type: ignore[no-untyped-call]
    try:
        scaled()(X, Y, N)
    finally:
        jax.config.update(setting, before)  # type: ignore[no-untyped-call]
    assert not files(cache)


def test_a_folder_that_cannot_be_written(cache: Path) -> None:
    (cache / "file").write_text("")
    jax.config.update("jax_compilation_cache_dir", str(cache / "file" / "below"))  # type: ignore[no-untyped-call]
    assert bits(scaled()(X, Y, N))["y"] == (X * X[3]).tobytes()


# -- other contexts ----------------------------------------------------------------------------------------


def test_transformations_trace(cache: Path) -> None:
    kernel = scaled()
    batch = np.stack([X, -X])
    found = jax.vmap(kernel, (0, None, None))(batch, Y, N)["y"]
    assert np.asarray(found).tobytes() == (batch * batch[:, 3:4]).tobytes()
    jax.jit(kernel)(X, Y, N)
    assert not files(cache)


def test_a_kernel_of_constants_is_exported_for_all_platforms(cache: Path) -> None:
    """The module that is kept is for one platform; code for another is lowered anew."""
    kernel = scaled()
    wanted = bits(kernel(X, Y, N))
    exported = jax.export.export(jax.jit(lambda: kernel(X, Y, N)["y"] + 0), platforms=("cpu", "cuda"))()
    found = exported.call()  # type: ignore[no-untyped-call]
    assert np.asarray(found).tobytes() == wanted["y"]
    assert "pto_tmuls" in exported.mlir_module()


def test_errors_are_those_of_a_trace(cache: Path) -> None:
    with pytest.raises(pto.ArgumentError, match="elements"):
        scaled()(X[:8], Y, N)
    assert not files(cache)
