"""Arrays in ``.npz`` files, judged by their headers before any memory is taken.

A header is read as the three entries that NumPy writes, never evaluated. Arrays of numbers, truth values,
texts and raw words are read; Python objects and structured types are refused, other byte orders converted.
"""

import contextlib
import lzma
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import FileError
from . import read, write

#: Bytes that a file, its arrays together, and its arrays unpacked may have.
MAX_ARRAYS = 1 << 30
#: Bytes of an archive's list of members; those of 10,000 arrays have one.
_MAX_LIST = 1 << 24
#: Bytes of a header: NumPy's own limit.
_MAX_HEADER = 10_000
_MAX_RANK = 32
#: Bytes that one packed byte stands for at most, and those of a packed member that stand for none.
_DENSITY = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
_SLACK = 1024
#: The size of the list of members in the end record of an archive, and in that of a large one.
_END, _END64, _LOCATOR = struct.Struct("<12xI6x"), struct.Struct("<4s36xQ8x"), 20
_CHUNK = 1 << 20
_ENCRYPTED = 1
_SUFFIX = ".npy"
_MAGIC = b"\x93NUMPY"
_DICT = re.compile(r"\s*\{(?P<entries>.*)\}\s*", re.DOTALL)
_ENTRY = re.compile(
    r"\s*(?P<quote>['\"])(?P<key>\w+)(?P=quote)\s*:\s*"
    r"(?:(?P<mark>['\"])(?P<text>[^'\"\\]*)(?P=mark)|(?P<truth>True|False)|\((?P<sizes>[0-9L,\s]*)\))\s*(?:,|$)"
)
_SIZES = re.compile(r"\s*(?:\d{1,18}L?\s*,\s*)*(?:\d{1,18}L?\s*)?")
_DTYPE = re.compile(r"[<>|=]?(?:\?|[biufcSUV]\d{0,9})")
#: What reading a damaged archive raises; NotImplementedError is for a compression that zipfile lacks.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    OverflowError,
    ValueError,
    OSError,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class _Header:
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    length: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def load_arrays(path: str | Path) -> dict[str, Array]:
    """Every array of an ``.npz`` file by name, in the byte order of this machine.

    Raises FileError when the file is missing, unreadable, no ``.npz``, damaged, larger than the limit, or
    holds anything but plain arrays; no memory is taken for what is only promised.
    """
    try:
        with read.opened(path, regular=True) as file:
            allowed = read.limit(MAX_ARRAYS)
            size = _check_size(file, allowed)
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check_members(members, size, allowed)
                return {m.filename.removesuffix(_SUFFIX): _array(archive, m) for m in members}
    except _Refused as error:
        raise FileError(f"{path}: {error}") from None
    except MemoryError:
        raise FileError(f"{path}: got arrays larger than the memory", allowed="smaller arrays") from None
    except zipfile.BadZipFile as error:
        inside = f" ({error})" if " for file " in str(error) else ""
        alone = f'np.savez("arrays.npz", x=np.load("{path}"))' if str(path).endswith(_SUFFIX) else ""
        raise FileError(f"{path}: not an .npz file (or a damaged one){inside}", fix=alone) from None
    except _BROKEN as error:
        raise read.unusable(path, "read", error) from None


def save_arrays(path: str | Path, arrays: Mapping[str, Array]) -> None:
    """Write an ``.npz`` file under exactly this name, as :func:`~.write.replacing` does.

    FileError when that cannot be done.
    """
    with write.replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)


class _Refused(Exception):
    """A file with anything but plain arrays of bounded size."""


def _check_size(file: IO[bytes], allowed: int) -> int:
    """The size of an archive; refuses one that is too large, or whose list of members is."""
    size = os.fstat(file.fileno()).st_size
    if size > allowed:
        raise _Refused(f"has {size} bytes; at most {allowed} are allowed; {read.VARIABLE} sets another limit")
    if (length := _list_size(file, size)) > _MAX_LIST:
        raise _Refused(f"its list of members has {length} bytes; at most {_MAX_LIST} are read")
    return size


def _list_size(file: IO[bytes], size: int) -> int:
    """Bytes of the list of members, as the records at the end of an archive say; the larger of two."""
    tail_size = min(size, _END.size + (1 << 16))
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + _END.size:
        raise zipfile.BadZipFile("no end record")
    (length,) = _END.unpack_from(tail, at)
    # The record of large archives stands before its locator, which stands before the end record.
    before = size - tail_size + at - _LOCATOR - _END64.size
    if before >= 0:
        file.seek(before)
        mark, listed64 = _END64.unpack(file.read(_END64.size))
        length = max(length, listed64 if mark == b"PK\6\6" else 0)
    return int(length)


def _check_members(members: list[zipfile.ZipInfo], size: int, allowed: int) -> None:
    """Refuse archives whose list shows that they hold anything else than arrays, or too many bytes."""
    names: set[str] = set()
    for member in members:
        name = member.filename
        if name in names:
            raise _Refused(f"it holds {name} twice")
        names.add(name)
        if not name.endswith(_SUFFIX) or member.is_dir():
            raise _Refused(f"it holds {name}, which is no {_SUFFIX} array")
        if member.flag_bits & _ENCRYPTED:
            raise _Refused(f"{name} is encrypted")
        density = _DENSITY.get(member.compress_type, math.inf)
        if member.compress_size > size or member.file_size > member.compress_size * density + _SLACK:
            raise _Refused(
                f"{name} promises {member.file_size} bytes, the file has {member.compress_size} for it"
            )
    total = sum(m.file_size for m in members)
    if total > allowed:
        more = f"at most {allowed} are allowed; {read.VARIABLE} sets another limit"
        raise _Refused(f"unpacks to {total} bytes; {more}")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    name = member.filename
    with cast(zipfile.ZipExtFile, archive.open(member)) as file:
        try:
            header = _header(file)
        except _Refused as error:
            raise _Refused(f"{name}: {error}") from None
        if header.length + header.bytes != member.file_size:
            raise _Refused(
                f"{name} promises {header.bytes} bytes of elements, "
                f"{max(0, member.file_size - header.length)} are there"
            )
        words = np.empty(header.bytes, np.uint8)
        done, view = 0, words.data
        while done < header.bytes and (count := file.readinto(view[done : done + _CHUNK])):
            done += count
        # The end of a member is where its checksum is compared.
        if done < header.bytes or file.read(1):
            raise _Refused(f"{name} ends after {done} of {header.bytes} bytes of elements")
    dtype = header.dtype
    array = words.view(dtype)
    if not dtype.isnative:
        array = array.byteswap().view(dtype.newbyteorder("="))
    return array.reshape(header.shape[::-1]).T if header.fortran else array.reshape(header.shape)


def _header(file: zipfile.ZipExtFile) -> _Header:
    """The header of an array."""
    start = _exactly(file, len(_MAGIC) + 2)
    if not start.startswith(_MAGIC):
        raise _Refused("no array in NumPy's format")
    version = start[len(_MAGIC)]
    if version not in (1, 2, 3):
        raise _Refused(f"an array in version {version} of NumPy's format; 1, 2 and 3 are read")
    width = 2 if version == 1 else 4
    length = int.from_bytes(_exactly(file, width), "little")
    if length > _MAX_HEADER:
        raise _Refused(f"a header of {length} bytes; at most {_MAX_HEADER} are read")
    text = _exactly(file, length).decode("utf-8" if version == 3 else "latin-1")
    dtype, shape, fortran = _parsed(text)
    return _Header(dtype, shape, fortran, len(start) + width + length)


def _exactly(file: zipfile.ZipExtFile, count: int) -> bytes:
    result = file.read(count)
    if len(result) < count:
        raise _Refused("ends within its header")
    return result


def _parsed(text: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Element type, shape and order of a header's text: three entries in any order."""
    shown = repr(text if len(text) <= 60 else text[:60] + "...")
    outer = _DICT.fullmatch(text)
    entries: dict[str, re.Match[str]] = {}
    rest = outer["entries"].strip() if outer else ""
    while rest and (entry := _ENTRY.match(rest)):
        entries[entry["key"]] = entry
        rest = rest[entry.end() :].lstrip()
    if re.search(r"['\"]descr['\"]\s*:\s*[\[(]", rest):
        raise _Refused("elements of a structured type; numbers, truth values and raw words are read")
    if rest or entries.keys() != {"descr", "fortran_order", "shape"}:
        raise _Refused(f"the header {shown} is not that of an array")
    descr, order, sizes = (
        entries[k][part] for k, part in (("descr", "text"), ("fortran_order", "truth"), ("shape", "sizes"))
    )
    if descr is None or order is None or sizes is None or not _SIZES.fullmatch(sizes):
        raise _Refused(f"the header {shown} is not that of an array")
    return _dtype(descr), _shape(sizes), order == "True"


def _dtype(descr: str) -> np.dtype[Any]:
    if re.fullmatch(r"[<>|=]?O\d*", descr):
        raise _Refused("it holds Python objects")
    with contextlib.suppress(TypeError):
        if _DTYPE.fullmatch(descr) and np.dtype(descr).itemsize:
            return np.dtype(descr)
    raise _Refused(f"elements of type {descr!r}; numbers, truth values, texts and raw words are read")


def _shape(sizes: str) -> tuple[int, ...]:
    shape = tuple(int(n) for n in re.findall(r"\d+", sizes))
    if len(shape) > _MAX_RANK:
        raise _Refused(f"{len(shape)} dimensions; at most {_MAX_RANK} are read")
    # NumPy counts the elements of empty arrays without their empty dimensions.
    if math.prod(n for n in shape if n) > read.limit(MAX_ARRAYS):
        raise _Refused(f"shape {shape}; at most {read.limit(MAX_ARRAYS)} elements are allowed")
    return shape
