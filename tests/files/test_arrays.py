"""Reading ``.npz`` files: what NumPy writes comes back, everything else is one line and takes no memory."""

import os
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pto_jax.errors import ArgumentError, FileError
from pto_jax.files import load_arrays, save_arrays
from tests.files.archives import HOSTILE, archive, entries, header, written

#: Bytes that judging a file may take; the arrays that are promised have up to a gigabyte.
MOST = 16 << 20


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_array_is_one_line_and_takes_no_memory(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    tracemalloc.start()
    try:
        with pytest.raises(FileError) as caught:
            load_arrays(path)
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and HOSTILE[name][1] in text and "\n" not in text


@pytest.mark.parametrize("compressed", [False, True])
def test_every_kind_of_array_comes_back(compressed: bool, tmp_path: Path) -> None:
    arrays = {
        "order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "cube": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        "text": np.array("text"),
        "empty": np.zeros((0, 3), np.int16),
        "scalar": np.asarray(2.5, np.float16),
        "truth": np.array([True, False]),
        "a/b.c": np.array([1 + 2j]),
    }
    save = np.savez_compressed if compressed else np.savez
    save(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    found = load_arrays(tmp_path / "a.npz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        np.testing.assert_array_equal(found[name], array)


def test_other_byte_orders_keep_their_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(4, dtype=">i4"), y=np.array([0.5], ">f8"))
    found = load_arrays(tmp_path / "a.npz")
    assert found["x"].dtype == np.int32 and found["x"].tolist() == [0, 1, 2, 3]
    assert found["y"].dtype == np.float64 and found["y"].tolist() == [0.5]


def test_types_that_numpy_cannot_name_are_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([1.5, -2], ml_dtypes.bfloat16))
    assert load_arrays(tmp_path / "a.npz")["x"].view(ml_dtypes.bfloat16).tolist() == [1.5, -2]


def test_headers_of_other_writers_are_read(tmp_path: Path) -> None:
    text = '{"shape":(2L,2L,),"fortran_order":True , "descr" : "<i2"}'
    (tmp_path / "a.npz").write_bytes(
        archive(("x.npy", header(text, 3) + np.arange(4, dtype="<i2").tobytes()))
    )
    assert load_arrays(tmp_path / "a.npz")["x"].tolist() == [[0, 2], [1, 3]]


def test_the_limit_is_named_and_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_arrays(tmp_path / "a.npz", {"x": np.zeros(1000)})
    monkeypatch.setenv("PTO_JAX_MAX_FILE_BYTES", "1000")
    with pytest.raises(FileError, match=r"at most 1000 are allowed; PTO_JAX_MAX_FILE_BYTES sets another"):
        load_arrays(tmp_path / "a.npz")
    monkeypatch.setenv("PTO_JAX_MAX_FILE_BYTES", "9000")
    assert load_arrays(tmp_path / "a.npz")["x"].shape == (1000,)
    for wrong in ("", "-1", "1e9", "9" * 40):
        monkeypatch.setenv("PTO_JAX_MAX_FILE_BYTES", wrong)
        with pytest.raises(ArgumentError, match="allowed: a number of bytes"):
            load_arrays(tmp_path / "a.npz")


def test_pipes_devices_and_folders_are_no_archives(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "pipe", "got a pipe or a device"),
        (Path("/dev/zero"), "got a pipe or a device"),
        (tmp_path, "got a folder"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(FileError, match=message):
            load_arrays(path)


def test_entries_may_not_be_evaluated(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = entries(shape=f"(__import__('os').mkdir('{marker}'),)")
    (tmp_path / "a.npz").write_bytes(archive(("x.npy", header(text) + bytes(16))))
    with pytest.raises(FileError):
        load_arrays(tmp_path / "a.npz")
    assert not marker.exists()
