"""Reading test vectors: recorded inputs and outputs of single instructions.

A vector file is an ``.npz`` per instruction. ``manifest`` is a JSON list of cases; the arrays
``<id>/<operand>/before`` and ``<id>/<operand>/after`` are the raw bytes of a whole operand, in physical
order, and ``<id>/<operand>/undef`` is a bit mask of elements whose recorded value means nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .. import errors, ir
from ..files import MAX_ARRAYS, load_arrays, parse_json
from ..ir import DType, GlobalLayout, TileType

Bytes: TypeAlias = NDArray[np.uint8]
Role = Literal["out", "in", "inout", "tmp"]


@dataclass(frozen=True, eq=False)
class TileOperand:
    """A tile: its type, and the bytes of the whole physical tile before and after.

    ``after`` is None for tiles the instruction only reads. ``undef`` marks physical elements whose
    recorded value is not a requirement. ``pad_bits`` is a pad value that is written out.
    """

    name: str
    role: Role
    type: TileType
    before: Bytes
    after: Bytes | None
    undef: NDArray[np.bool_] | None
    pad_bits: int | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class GmOperand:
    """A view of global memory whose element 0 is the first element of the recorded buffer.

    ``elements`` is the length of that buffer (in bytes for 4-bit types).
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: GlobalLayout
    elements: int
    before: Bytes
    after: Bytes | None


@dataclass(frozen=True)
class ScalarOperand:
    """A scalar operand by its exact bits."""

    name: str
    dtype: DType
    bits: int

    @property
    def value(self) -> int | float:
        """The scalar as a Python number (NaN payloads are lost)."""
        word = np.array(self.bits, dtype=self.dtype.word).view(self.dtype.numpy)[()]
        return int(word) if self.dtype.is_integer else float(word)


@dataclass(frozen=True, eq=False)
class VectorOperand:
    """A small vector outside tile memory, such as the counts of a merge."""

    name: str
    role: Role
    dtype: DType
    before: Bytes
    after: Bytes | None


@dataclass(frozen=True, eq=False)
class OtherOperand:
    """An operand that is neither a plain tile, a view, a vector nor a scalar (``kind``: "conv" ...)."""

    name: str
    role: str
    kind: str
    before: Bytes | None
    after: Bytes | None


Operand: TypeAlias = TileOperand | GmOperand | ScalarOperand | VectorOperand | OtherOperand


AttrMap: TypeAlias = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True)
class Rule:
    """How recorded and computed elements are compared.

    ``ulp`` 0 is bit-exact; with ``any_nan`` one NaN equals any other.
    """

    ulp: int = 0
    any_nan: bool = True


@dataclass(frozen=True, eq=False)
class Case:
    """One recorded execution of one instruction; ``operands`` are in the order of the C++ intrinsic."""

    id: str
    instruction: str
    label: str
    attrs: AttrMap
    operands: tuple[Operand, ...]
    tags: frozenset[str]
    rule: Rule
    file: str

    def __str__(self) -> str:
        return f"{self.id} ({self.label})" if self.label else self.id

    def operand(self, name: str) -> Operand:
        """The operand called ``name`` in the vector file."""
        operand = next((o for o in self.operands if o.name == name), None)
        if operand is None:
            names = ", ".join(o.name for o in self.operands)
            raise errors.FileError(f"{self.file}: case {self.id}: no operand {name!r}; the case has {names}")
        return operand

    @property
    def outputs(self) -> tuple[TileOperand | GmOperand | VectorOperand | OtherOperand, ...]:
        """The operands with a recorded result."""
        return tuple(o for o in self.operands if not isinstance(o, ScalarOperand) and o.after is not None)


def vector_files(paths: Iterable[str | Path]) -> list[Path]:
    """The ``.npz`` files that ``paths`` name, each once, folders replaced by the files in them."""
    files: dict[Path, Path] = {}
    for path in map(Path, paths):
        inside = sorted(path.glob("*.npz")) if path.is_dir() else [path]
        if not inside:
            raise errors.FileError(f"{path}: no .npz vector files in this folder")
        if not path.exists():
            raise errors.FileError(f"{path}: no such file or folder")
        for file in inside:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def load_file(path: str | Path) -> list[Case]:
    """The cases of one vector file."""
    arrays = load_arrays(path)
    reader = _Reader(str(path), arrays)
    cases = [reader.case(i, entry) for i, entry in enumerate(reader.manifest())]
    twice = [name for name, n in Counter(case.id for case in cases).items() if n > 1]
    if twice:
        # Their arrays have the same names, so that the file holds those of one of them.
        raise errors.FileError(f"{path}: several cases have the id {twice[0]!r}", allowed="one each")
    return cases


E_ = TypeVar("E_")
_LAYOUTS = {layout.name.lower(): layout for layout in ir.GlobalLayout}
_TILE_KEYS = frozenset(
    "name role loc dtype rows cols v_row v_col blayout slayout fractal pad undef "
    "kind layout shape buffer_bytes filter stride dilation pad_lrtb pad_value_bits".split()
)
_GM_KEYS = frozenset("name role gm_role loc dtype shape strides layout elements".split())
#: What stands before the bits of a pad value.
_CUSTOM = "custom:"
_ROLES = ("out", "in", "inout", "tmp")
_SCALAR_KEYS = frozenset("name role dtype value bits".split())
_CASE_KEYS = frozenset("id instruction label attrs operands tags compare source".split())
_RULE_KEYS = frozenset("mode ulp nan order reason".split())


class _Reader:
    """Turns one file's arrays into cases; every complaint names file, case and operand."""

    def __init__(self, file: str, arrays: dict[str, NDArray[Any]]) -> None:
        self.file = file
        self.arrays = arrays
        self.place = file

    def fail(self, message: str, allowed: str = "") -> errors.FileError:
        return errors.FileError(f"{self.place}: {message}", allowed=allowed)

    def manifest(self) -> list[dict[str, Any]]:
        if "manifest" not in self.arrays:
            held = ", ".join(sorted(self.arrays)[:4]) or "nothing"
            raise self.fail(f"no array called 'manifest', so this is no vector file (it holds {held})")
        array = self.arrays["manifest"]
        if array.shape != () or array.dtype.kind != "U":
            raise self.fail(f"'manifest': got {array.dtype} of shape {array.shape}", "one text")
        try:
            text = str(array[()])
        except ValueError as error:
            raise self.fail(f"'manifest' is no text: {error}") from None
        entries = parse_json(text, f"{self.file}: 'manifest'")
        if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
            raise self.fail("'manifest': got other JSON", "a list of objects, one per case")
        return cast(list[dict[str, Any]], entries)

    def keys(self, what: str, entry: Mapping[str, Any], allowed: frozenset[str]) -> None:
        """FileError for a key that nothing reads: it may be a misspelt one."""
        unknown = sorted(entry.keys() - allowed)
        if unknown:
            raise self.fail(f"{what} has the key {unknown[0]!r}", ", ".join(sorted(allowed)))

    def get(self, entry: Mapping[str, Any], key: str, kind: type[E_], default: E_ | None = None) -> E_:
        value = entry.get(key, default)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            got = "nothing" if key not in entry else f"{value!r}"
            raise self.fail(f"entry {key!r}: got {got}", kind.__name__)
        return value

    def choice(
        self, entry: Mapping[str, Any], key: str, members: Mapping[str, E_], default: str | None
    ) -> E_:
        value = entry.get(key, default)
        member = members.get(value.lower()) if isinstance(value, str) else None
        if member is None:
            raise self.fail(f"entry {key!r}: got {value!r}", ", ".join(members))
        return member

    def case(self, index: int, entry: dict[str, Any]) -> Case:
        self.place = f"{self.file}: case {index}"
        name = self.get(entry, "id", str)
        self.place = f"{self.file}: case {name}"
        self.keys("an entry", entry, _CASE_KEYS)
        attrs = self.get(entry, "attrs", dict, {})
        tags = self.get(entry, "tags", list, [])
        operands = self.get(entry, "operands", list)
        if not operands or not all(isinstance(o, dict) for o in operands):
            raise self.fail(f"entry 'operands': got {operands!r:.60}", "a list of objects")
        read = tuple(self.operand(name, o) for o in operands)
        if len({o.name for o in read}) != len(read):
            raise self.fail("two operands have the same name")
        if not any(not isinstance(o, ScalarOperand) and o.after is not None for o in read):
            raise self.fail("no operand has an 'after' array, so there is nothing to compare")
        return Case(
            name,
            self.get(entry, "instruction", str).lower(),
            str(entry.get("label") or attrs.get("form") or ""),
            MappingProxyType(attrs),
            read,
            frozenset(map(str, tags)),
            self.rule(entry.get("compare")),
            self.file,
        )

    def rule(self, compare: object) -> Rule:
        if compare is None:
            return Rule()
        if not isinstance(compare, dict) or compare.get("mode") not in ("bit-exact", "ulp"):
            raise self.fail(f"entry 'compare': got {compare!r}", "the modes bit-exact and ulp")
        self.keys("'compare'", compare, _RULE_KEYS)
        ulp = self.get(compare, "ulp", int, 0) if compare["mode"] == "ulp" else 0
        if ulp < 0:
            raise self.fail(f"entry 'compare': got {ulp} ULP", "0 or more")
        return Rule(ulp, compare.get("nan") == "any-nan-equal")

    def operand(self, case: str, entry: dict[str, Any]) -> Operand:
        name = self.get(entry, "name", str)
        self.place = f"{self.file}: case {case}: operand {name}"
        role = self.get(entry, "role", str)
        key = f"{case}/{name}"
        if role == "scalar":
            return self.scalar(name, entry)
        if role == "gm":
            return self.gm(name, key, entry)
        if role in _ROLES and entry.get("loc") == "host":
            return self.vector(name, key, cast(Role, role), entry)
        if role in _ROLES and entry.get("kind") == "conv":
            return self.tile(name, key, cast(Role, role), entry)
        if role not in _ROLES or "rows" not in entry:
            kind = str(entry.get("kind", role))
            return OtherOperand(name, role, kind, self.raw(key, "before"), self.raw(key, "after"))
        return self.tile(name, key, cast(Role, role), entry)

    def dtype(self, entry: Mapping[str, Any]) -> ir.DType:
        element = ir.find_dtype(self.get(entry, "dtype", str))
        if element is None:
            raise self.fail(f"entry 'dtype': got {entry['dtype']!r}", "an element type")
        return element

    def hexadecimal(self, entry: Mapping[str, Any], key: str, default: str | None = None) -> int:
        text = self.get(entry, key, str, default)
        try:
            return int(text, 16)
        except ValueError:
            raise self.fail(f"entry {key!r}: got {text!r}", "a hexadecimal number") from None

    def scalar(self, name: str, entry: Mapping[str, Any]) -> ScalarOperand:
        self.keys("the scalar", entry, _SCALAR_KEYS)
        d = self.dtype(entry)
        bits = self.hexadecimal(entry, "bits")
        if not 0 <= bits < 1 << d.word_bits:
            raise self.fail(f"entry 'bits': got {entry['bits']}", f"{d.word_bits} bits of {d}")
        return ScalarOperand(name, d, bits)

    def vector(self, name: str, key: str, role: Role, entry: Mapping[str, Any]) -> VectorOperand:
        d = self.dtype(entry)
        before = self.raw(key, "before")
        if before is None or before.size % d.word.itemsize:
            raise self.fail(f"array '{key}/before' is missing or holds no whole number of {d}")
        return VectorOperand(name, role, d, before, self.sized(key, "after", before.size))

    def tile(self, name: str, key: str, role: Role, entry: Mapping[str, Any]) -> TileOperand:
        self.keys("the tile", entry, _TILE_KEYS)
        t = self.tile_type(entry)
        before, after = self.recorded(key, role, t.bytes)
        mask = self.sized(key, "undef", -(-t.elements // 8))
        undef = None if mask is None else np.unpackbits(mask, bitorder="little")[: t.elements].astype(bool)
        bits = None
        if str(entry.get("pad")).startswith(_CUSTOM):
            bits = self.hexadecimal({"pad": entry["pad"].removeprefix(_CUSTOM)}, "pad")
        return TileOperand(name, role, t, before, after, undef, bits)

    def conv_type(self, entry: Mapping[str, Any]) -> ir.TileType:
        shape = tuple(self.get(entry, "shape", list))
        if not shape or not all(type(n) is int and 0 < n <= MAX_ARRAYS for n in shape):
            raise self.fail(f"entry 'shape': got {list(shape)}", "positive sizes")
        fields: dict[str, Any] = {}
        for field, key, count in (
            ("filter", "filter", 2),
            ("stride", "stride", 2),
            ("dilation", "dilation", 2),
            ("padding", "pad_lrtb", 4),
        ):
            sizes = tuple(self.get(entry, key, list, []))
            if sizes and (len(sizes) != count or not all(type(n) is int and 0 <= n < 1 << 16 for n in sizes)):
                raise self.fail(f"entry {key!r}: got {list(sizes)}", f"{count} sizes")
            fields |= {field: sizes} if sizes else {}
        fields["pad_value"] = self.hexadecimal(entry, "pad_value_bits", "0x0")
        conv = ir.Conv(self.choice(entry, "layout", _LAYOUTS, None), shape, ir.Geometry(**fields))
        if conv.elements > MAX_ARRAYS:
            raise self.fail(f"got a tile of {conv.elements} elements", f"at most {MAX_ARRAYS}")
        return ir.conv_tile(self.dtype(entry), conv, self.choice(entry, "loc", _enum(ir.Loc), "mat"))

    def tile_type(self, entry: Mapping[str, Any]) -> ir.TileType:
        if entry.get("kind") == "conv":
            return self.conv_type(entry)
        rows, cols = self.get(entry, "rows", int), self.get(entry, "cols", int)
        v_row, v_col = self.get(entry, "v_row", int, rows), self.get(entry, "v_col", int, cols)
        if rows < 1 or cols < 1 or rows * cols > MAX_ARRAYS:
            raise self.fail(f"got a tile of {rows}x{cols}", f"1 to {MAX_ARRAYS} elements")
        if not (0 <= v_row <= rows and 0 <= v_col <= cols):
            raise self.fail(f"got a valid region of {v_row}x{v_col}", f"0x0 to {rows}x{cols}")
        custom = str(entry.get("pad")).startswith(_CUSTOM)
        pad = ir.Pad.NULL if custom else self.choice(entry, "pad", _enum(ir.Pad), "null")
        return ir.TileType(
            self.dtype(entry),
            rows,
            cols,
            v_row,
            v_col,
            self.choice(entry, "loc", _enum(ir.Loc), "vec"),
            self.choice(entry, "blayout", _enum(ir.BLayout), "row_major"),
            self.choice(entry, "slayout", _enum(ir.SLayout), "none_box"),
            self.get(entry, "fractal", int, 512),
            pad,
        )

    def gm(self, name: str, key: str, entry: Mapping[str, Any]) -> GmOperand:
        self.keys("the buffer", entry, _GM_KEYS)
        d = self.dtype(entry)
        role = self.get(entry, "gm_role", str)
        if role not in _ROLES:
            raise self.fail(f"entry 'gm_role': got {role!r}", ", ".join(_ROLES))
        shape, strides = (self.get(entry, k, list) for k in ("shape", "strides"))
        if not all(type(n) is int and n >= 0 for n in (*shape, *strides)) or len(shape) != len(strides):
            raise self.fail(f"got shape {shape} and strides {strides}", "equally many sizes")
        elements = self.get(entry, "elements", int)
        before, after = self.recorded(key, role, elements * d.word_bits // 8)
        layout = self.choice(entry, "layout", _LAYOUTS, "nd")
        return GmOperand(
            name, cast(Role, role), d, tuple(shape), tuple(strides), layout, elements, before, after
        )

    def recorded(self, key: str, role: str, size: int) -> tuple[Bytes, Bytes | None]:
        """The bytes of an operand before and after; those that are written have both."""
        before, after = (self.sized(key, part, size) for part in ("before", "after"))
        if before is None:
            raise self.fail(f"array '{key}/before' is missing")
        if after is None and role in ("out", "inout"):
            raise self.fail(f"array '{key}/after' is missing")
        return before, after

    def raw(self, key: str, part: str) -> Bytes | None:
        array = self.arrays.get(f"{key}/{part}")
        if array is None:
            return None
        if array.dtype != np.uint8 or array.ndim != 1:
            got = f"array '{key}/{part}': got {array.dtype} of shape {array.shape}"
            raise self.fail(got, "raw bytes (uint8)")
        array.flags.writeable = False
        return array

    def sized(self, key: str, part: str, size: int) -> Bytes | None:
        array = self.raw(key, part)
        if array is not None and array.size != size:
            raise self.fail(f"array '{key}/{part}': got {array.size} bytes", f"{size}, as its type has")
        return array


def _enum(kind: Callable[..., Any]) -> dict[str, Any]:
    return {member.name.lower(): member for member in cast(Any, kind)}
