"""Code of a changed cache folder is compiled anew or one clear error, never another result."""

import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import pto_jax as pto
from pto_jax.lowering import canary

SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
TILE = "!pto.tile_buf<vec, 16x16xf32>"
VIEW = "!pto.partition_tensor_view<16x16xf32>"
NEGATION = f"""
func.func @negation(%p: {VIEW}) {{
  %t = pto.alloc_tile : {TILE}
  pto.tload ins(%p : {VIEW}) outs(%t : {TILE})
  pto.tneg ins(%t : {TILE}) outs(%t : {TILE})
  pto.tstore ins(%t : {TILE}) outs(%p : {VIEW})
  return
}}
"""
PICKLE = b"cos\nsystem\n(S'touch executed'\ntR."


def bits(seed: int) -> Callable[[bytes], bytes]:
    def change(code: bytes) -> bytes:
        changed, draw = bytearray(code), random.Random(seed)
        for _ in range(5):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        return bytes(changed)

    return change


CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda code: b"",
    "one byte": lambda code: code[:1],
    "a header": lambda code: code[:10],
    "half": lambda code: code[: len(code) // 2],
    "without its last byte": lambda code: code[:-1],
    "appended": lambda code: code + b"x" * 1000,
    "twice": lambda code: code * 2,
    "text": lambda code: b"hello",
    "zeros": lambda code: bytes(4096),
    "a pickle": lambda code: PICKLE,
    "compressed nothing": lambda code: zlib.compress(b""),
    "compressed text": lambda code: zlib.compress(b"hello"),
    "compressed zeros": lambda code: zlib.compress(bytes(100_000)),
    "a compressed pickle": lambda code: zlib.compress(PICKLE),
    **{f"five other bits, seed {seed}": bits(seed) for seed in range(8)},
}


def link(target: Callable[[Path], Path]) -> Callable[[Path], object]:
    def change(entry: Path) -> None:
        entry.unlink()
        entry.symlink_to(target(entry))

    return change


def directory(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


PLACES: dict[str, Callable[[Path], object]] = {
    "a directory": directory,
    "a link to itself": link(lambda entry: entry),
    "a link to nothing": link(lambda entry: entry.with_suffix(".none")),
    "a link to an empty device": link(lambda _: Path("/dev/null")),
    "unreadable": lambda entry: entry.chmod(0),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the cache; what JAX had set before stands again at the end."""
    monkeypatch.chdir(tmp_path)
    before = {name: jax.config.values[name] for name in (*SETTINGS, "jax_compilation_cache_dir")}
    path = tmp_path / "cache"
    for name, value in {**SETTINGS, "jax_compilation_cache_dir": str(path)}.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    yield path
    for name, value in before.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    forget()


def forget() -> None:
    """As in a new process: nothing compiled, nothing judged."""
    compilation_cache.reset_cache()
    jax.clear_caches()  # type: ignore[no-untyped-call]
    for value in vars(canary).values():
        getattr(value, "cache_clear", lambda: None)()


def call() -> float:
    """-1 from the compiled negation of 1, as a new process would compile it."""
    forget()
    kernel = pto.compile(pto.parse(NEGATION))
    (result,) = map(np.asarray, kernel(np.ones((16, 16), np.float32)).values())
    np.testing.assert_array_equal(result, result[0, 0])
    return float(result[0, 0])


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*-cache"))


@pytest.mark.nightly
@pytest.mark.slow
def test_damaged_entries_of_the_compilation_cache_are_compiled_anew(folder: Path, tmp_path: Path) -> None:
    assert call() == -1
    assert len(entries(folder)) > 1
    shutil.copytree(folder, tmp_path / "right")
    wrong = []
    for kind in (*CONTENTS, *PLACES):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "right", folder)
        for entry in entries(folder):
            if kind in CONTENTS:
                entry.write_bytes(CONTENTS[kind](entry.read_bytes()))
            else:
                PLACES[kind](entry)
        if call() != -1:
            wrong.append(kind)
    assert not wrong
    assert not (tmp_path / "executed").exists()


@pytest.mark.slow
def test_a_file_in_the_place_of_the_folder_of_compiled_code(folder: Path) -> None:
    folder.write_text("no folder")
    assert call() == -1


@pytest.mark.slow
def test_swapped_entries_of_the_compilation_cache_are_one_error(folder: Path) -> None:
    assert call() == -1
    code = [entry.read_bytes() for entry in entries(folder)]
    for entry, other in zip(entries(folder), [*code[1:], code[0]], strict=True):
        entry.write_bytes(other)
    with pytest.raises(
        pto.PtoError, match="an entry of JAX's compilation cache is not the code of its program"
    ) as error:
        call()
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
