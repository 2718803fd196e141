"""Writing: what was there stays until the new content is complete, links and permissions are kept."""

import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pto_jax.errors import FileError
from pto_jax.files import folder_replacing, load_arrays, replacing, save_arrays, write_text


@contextmanager
def small_disk(size: int = 1000) -> Iterator[None]:
    """No file can grow beyond some bytes: writing fails as on a full disk, after a part was written.

    The compiled form of a module that is imported meanwhile would be cut off, and read so ever after.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("before", [None, "before"])
def test_a_full_disk_leaves_what_was_there(before: str | None, tmp_path: Path) -> None:
    path = tmp_path / "out"
    if before is not None:
        path.write_text(before)
    for arrays in (False, True):
        with small_disk(), pytest.raises(FileError, match=rf"^{path}: cannot be written: ") as caught:
            if arrays:
                save_arrays(path, {"x": np.zeros(100_000)})
            else:
                write_text(path, "x" * 100_000)
        assert "\n" not in str(caught.value)
        assert names(tmp_path) == ([] if before is None else ["out"])
        assert before is None or path.read_text() == before


def test_a_killed_process_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    code = (
        "import os, signal, sys; from pto_jax.files import replacing\n"
        "with replacing(sys.argv[1]) as file:\n    file.write(b'half'); file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert path.read_text() == "before"


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "before" and names(tmp_path) == ["out"]


def test_permissions_are_kept_and_the_mask_is_respected(tmp_path: Path) -> None:
    def mode(name: str) -> int:
        return stat.S_IMODE((tmp_path / name).stat().st_mode)

    (tmp_path / "old").write_text("")
    (tmp_path / "old").chmod(0o640)
    mask = os.umask(0o027)
    try:
        for name in ("old", "new"):
            write_text(tmp_path / name, "text")
    finally:
        os.umask(mask)
    assert (mode("old"), mode("new")) == (0o640, 0o640)
    (tmp_path / "old").chmod(0o604)
    write_text(tmp_path / "old", "more")
    assert mode("old") == 0o604


def test_read_only_files_are_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").write_text("before")
    # As the system answers for a user; the superuser may write everything.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(FileError, match="read-only"):
        write_text(tmp_path / "out", "after")
    assert (tmp_path / "out").read_text() == "before"


def test_links_stay_links(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "there" / name)
    (tmp_path / "there" / "old").write_text("before")
    for name in ("old", "new"):
        write_text(tmp_path / name, "after")
        assert (tmp_path / name).is_symlink() and (tmp_path / "there" / name).read_text() == "after"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for wrong in ("round", "there", "none/out", "\0"):
        with pytest.raises(FileError, match="cannot be written"):
            write_text(f"{tmp_path}/{wrong}", "after")


def test_pipes_and_devices_are_written_to_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "text")
    reader.join(10)
    assert found == ["text"] and stat.S_ISFIFO(pipe.stat().st_mode)
    write_text("/dev/null", "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(FileError, match=r"^/dev/full: cannot be written: No space left on device$"):
        write_text("/dev/full", "text")


def test_the_standard_output_has_three_names(tmp_path: Path) -> None:
    code = (
        "from pto_jax.files import *\nimport numpy as np\nprint('first')\nwrite_text('-', 'a\\n')\n"
        "write_text('/dev/stdout', 'b\\n')\nwrite_text('out', 'c\\n')\nprint('last')"
    )
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run([sys.executable, "-c", code], stdout=out, cwd=tmp_path, check=False)
    assert done.returncode == 0 and names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_text().split() == ["first", "a", "b", "c", "last"]


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path: Path) -> None:
    write_text(tmp_path / "out", "a\udcffb")
    assert (tmp_path / "out").read_text() == "a\\udcffb"


def test_arrays_are_saved_under_any_name(tmp_path: Path) -> None:
    save_arrays(tmp_path / "out", {"file": np.arange(3), "a/b": np.ones((2, 2), np.float16)})
    assert {k: v.shape for k, v in load_arrays(tmp_path / "out").items()} == {"file": (3,), "a/b": (2, 2)}


def test_folders_are_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "folder"
    for text in ("first", "second"):
        with folder_replacing(path) as made:
            write_text(made / text, text)
        assert names(path) == [text]
    with pytest.raises(FileError), small_disk(), folder_replacing(path) as made:
        write_text(made / "third", "x" * 10_000)
    assert names(path) == ["second"] and names(path.parent) == ["folder"]


def test_folders_of_killed_processes_are_tidied_up(tmp_path: Path) -> None:
    path, part, old = (tmp_path / name for name in ("folder", ".folder", ".folder.old"))
    for left in (part, old):
        left.mkdir()
        (left / left.name).write_text("")
    # Killed between the two renames: what was there before comes back until there is something new.
    with pytest.raises(KeyboardInterrupt), folder_replacing(path):
        raise KeyboardInterrupt
    assert names(tmp_path) == ["folder"] and names(path) == [".folder.old"]
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="got a file; allowed: a folder"), folder_replacing(tmp_path / "file"):
        pass
