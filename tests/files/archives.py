"""Archives that are no ``.npz`` files, or would take more than they give."""

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

MEMBER = "x.npy"
DATA = bytes(16)


def header(text: str, version: int = 1) -> bytes:
    """The head of an array with any text in place of its three entries."""
    raw = text.encode("latin-1") + b"\n"
    length = len(raw).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + raw


def entries(descr: str = "'<f4'", shape: str = "(4,)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def archive(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as made:
        for name, content in members:
            made.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def one(head: bytes, data: bytes = DATA) -> bytes:
    return archive((MEMBER, head + data))


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def patched(content: bytes, signature: bytes, offset: int, form: str, value: int) -> bytes:
    """An archive with one field of the last record of a kind replaced."""
    at = content.rindex(signature) + offset
    return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]


def _twice() -> bytes:
    head = header(entries()) + DATA
    # A name that the list of members has once; both records get it by patching.
    content = archive((MEMBER, head), ("y.npy", head))
    return content.replace(b"y.npy", MEMBER.encode())


def _swollen() -> bytes:
    """A list that promises a gigabyte where a few bytes are packed."""
    content = archive((MEMBER, header(entries(shape="(4096,)")) + bytes(16384)), method=zipfile.ZIP_DEFLATED)
    return patched(content, b"PK\1\2", 24, "<I", (1 << 30) - 1)


def _bomb() -> bytes:
    dense = np.random.default_rng(0).bytes(1_100_000)
    content = archive((MEMBER, dense), method=zipfile.ZIP_DEFLATED)
    return patched(content, b"PK\1\2", 24, "<I", (1 << 30) + 1)


def _large_list() -> bytes:
    content = archive((MEMBER, header(entries()) + DATA))
    return patched(content, b"PK\5\6", 12, "<I", 1 << 25)


#: Archives by what is wrong with them, and a part of what is said.
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "promises more than there is": (
        lambda: one(header(entries(shape="(268435456,)"))),
        "promises 1073741824 bytes of elements, 16 are there",
    ),
    "promises less than there is": (lambda: one(header(entries(shape="(1,)"))), "promises 4 bytes"),
    "truth in the shape": (lambda: one(header(entries(shape="(True, 4096)"))), "is not that of an array"),
    "nine thousand signs": (
        lambda: one(header(entries(shape=f"({'-' * 9000}4,)"))),
        "is not that of an array",
    ),
    "negative": (lambda: one(header(entries(shape="(-4,)"))), "is not that of an array"),
    "huge": (lambda: one(header(entries(shape="(4294967296, 4294967296)"))), "elements are allowed"),
    "huge and empty": (lambda: one(header(entries(shape="(0, 4294967296)")), b""), "elements are allowed"),
    "beyond 64 bits": (lambda: one(header(entries(shape=f"({'9' * 30},)"))), "is not that of an array"),
    "too many digits": (lambda: one(header(entries(shape=f"({'9' * 5000},)"))), "is not that of an array"),
    "many dimensions": (lambda: one(header(entries(shape=f"({'1, ' * 40})"))), "40 dimensions"),
    "a call": (lambda: one(header(entries(shape="(print(1),)"))), "is not that of an array"),
    "deep": (lambda: one(header("(" * 5000)), "is not that of an array"),
    "an entry twice": (
        lambda: one(header("{'descr': '<f4', 'descr': '<f8', 'shape': (4,), }")),
        "is not that of an array",
    ),
    "an entry more": (lambda: one(header(entries()[:-1] + "'x': True, }")), "is not that of an array"),
    "long header": (lambda: one(header(" " * 20000 + entries(), 2)), "a header of 20058 bytes"),
    "no magic": (lambda: archive((MEMBER, b"text" * 10)), "no array in NumPy's format"),
    "another version": (lambda: one(header(entries(), 9)), "version 9"),
    "half a header": (lambda: archive((MEMBER, header(entries())[:20])), "ends within its header"),
    "empty member": (lambda: archive((MEMBER, b"")), "ends within its header"),
    "objects": (lambda: one(header(entries("'|O'"))), "it holds Python objects"),
    "pickled objects": (lambda: saved(x=np.array([{}], object)), "it holds Python objects"),
    "structured": (lambda: saved(x=np.zeros(4, "i2,i2")), "structured type"),
    "nested arrays": (lambda: one(header(entries("('<f4', (4,))"))), "structured type"),
    "dates": (lambda: saved(x=np.zeros(4, "M8[s]")), "elements of type '<M8[s]'"),
    "no width": (lambda: one(header(entries("'|V0'"))), "elements of type '|V0'"),
    "unknown type": (lambda: one(header(entries("'<f3'"))), "elements of type '<f3'"),
    "no array": (lambda: archive(("x.txt", b"text")), "x.txt, which is no .npy array"),
    "name without ending": (lambda: archive(("x", header(entries()) + DATA)), "x, which is no .npy array"),
    "a folder": (lambda: archive(("x.npy/", b"")), "x.npy/, which is no .npy array"),
    "twice": (_twice, "it holds x.npy twice"),
    "encrypted": (
        lambda: patched(saved(x=np.zeros(4)), b"PK\1\2", 8, "<H", 1),
        "x.npy is encrypted",
    ),
    "unknown packing": (
        lambda: patched(saved(x=np.zeros(4)), b"PK\1\2", 10, "<H", 99),
        "compression",
    ),
    "swollen": (_swollen, "promises 1073741823 bytes, the file has"),
    "bomb": (_bomb, "unpacks to 1073741825 bytes; at most 1073741824 are allowed"),
    "large list": (_large_list, "its list of members has 33554432 bytes"),
    "wrong sum": (lambda: saved(x=np.arange(4.0)).replace(b"\0\0\xf0?", b"\0\0\xf1?", 1), "Bad CRC-32"),
    "cut": (lambda: saved(x=np.arange(4096.0))[:-200], "not an .npz file"),
    "cut at the end": (lambda: saved(x=np.arange(4096.0))[:-10], "not an .npz file"),
    "no archive": (lambda: b"text" * 100, "not an .npz file"),
    "nothing": (lambda: b"", "not an .npz file"),
}


def written(folder: Path, name: str) -> Path:
    path = folder / "in.npz"
    path.write_bytes(HOSTILE[name][0]())
    return path
