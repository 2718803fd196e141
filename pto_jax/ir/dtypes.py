"""Element types of tiles and scalars.

The canonical names are the ones of the golden vectors (``f8e4m3``, ``f4e2m1x2`` ...); every other
spelling found in programs and documentation is an alias (:func:`dtype` resolves it).
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..errors import ArgumentError, nearest, short_list

Kind = Literal["float", "int", "uint", "index"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: ``bits`` wide, stored in words of ``word_bits``.

    ``packed`` types hold two elements per byte, the even element in the low nibble. An element of a type
    with ``pair_of`` is such a byte: two numbers of the type of that name, the first one in the low nibble.
    Float formats give exponent and mantissa widths; ``hif8`` is tapered and has neither.

    >>> import pto_jax as pto
    >>> d = pto.dtype("f8e4m3")
    >>> d.bits, d.exponent, d.mantissa, d.numpy.name
    (8, 4, 3, 'float8_e4m3fn')
    """

    name: str
    kind: Kind
    bits: int
    exponent: int = 0
    mantissa: int = 0
    bias: int = 0
    packed: bool = False
    cpp: str = ""
    pair_of: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether the type is a float format."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether the type is a signed or an unsigned integer."""
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        """Whether the type is a signed integer."""
        return self.kind == "int"

    @property
    def word_bits(self) -> int:
        """Width of one stored word; sub-byte elements are held one per 8-bit word in arrays."""
        return max(8, self.bits)

    @property
    def storage_bits(self) -> int:
        """Bits one element takes in memory (4 for packed types, else the word width)."""
        return self.bits if self.packed else self.word_bits

    def storage_bytes(self, elements: int) -> int:
        """Bytes that a number of elements takes in memory, rounded up."""
        return -(-elements * self.storage_bits // 8)

    @property
    def word(self) -> np.dtype[np.unsignedinteger[Any]]:
        """NumPy unsigned type of the raw words."""
        return np.dtype(f"u{self.word_bits // 8}")

    @property
    def numbers(self) -> int:
        """Numbers in an element: 2 in a pair, else 1."""
        return 2 if self.pair_of else 1

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """NumPy (or ml_dtypes) type with the same bits; raw words where none exists."""
        return np.dtype(_NUMPY.get(self.name, self.word))

    @property
    def min_int(self) -> int:
        """The smallest number of an integer type."""
        return -(1 << (self.bits - 1)) if self.is_signed else 0

    @property
    def max_int(self) -> int:
        """The largest number of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.is_signed else (1 << self.bits) - 1

    @property
    def canonical_nan(self) -> int:
        """Bits of the quiet NaN that arithmetic produces; the format must have one."""
        return _NAN[self.name]


#: What names an element type: itself, its name, or an array type.
ElementType: TypeAlias = "DType | str | np.dtype[Any] | type[Any]"

_NUMPY: dict[str, np.dtype[np.generic]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "f8e8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
    **{f"i{b}": np.dtype(f"i{b // 8}") for b in (8, 16, 32, 64)},
    **{f"u{b}": np.dtype(f"u{b // 8}") for b in (8, 16, 32, 64)},
    "i1": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
}
_NAN = {
    "f32": 0x7FC00000,
    "f16": 0x7E00,
    "bf16": 0x7FC0,
    "f8e4m3": 0x7F,
    "f8e5m2": 0x7E,
    "f8e8m0": 0xFF,
    "hif8": 0x80,
}

F32 = DType("f32", "float", 32, 8, 23, 127, cpp="float")
F16 = DType("f16", "float", 16, 5, 10, 15, cpp="half")
BF16 = DType("bf16", "float", 16, 8, 7, 127, cpp="bfloat16_t")
F8E4M3 = DType("f8e4m3", "float", 8, 4, 3, 7, cpp="float8_e4m3_t")
F8E5M2 = DType("f8e5m2", "float", 8, 5, 2, 15, cpp="float8_e5m2_t")
HIF8 = DType("hif8", "float", 8, cpp="hifloat8_t")
F8E8M0 = DType("f8e8m0", "float", 8, 8, 0, 127, cpp="float8_e8m0_t")
F4E2M1 = DType("f4e2m1x2", "float", 4, 2, 1, 1, packed=True, cpp="float4_e2m1x2_t")
F4E1M2 = DType("f4e1m2x2", "float", 4, 1, 2, 1, packed=True, cpp="float4_e1m2x2_t")
F4E2M1_PAIR = DType("f4e2m1_pair", "uint", 8, cpp="float4_e2m1x2_t", pair_of="f4e2m1x2")
F4E1M2_PAIR = DType("f4e1m2_pair", "uint", 8, cpp="float4_e1m2x2_t", pair_of="f4e1m2x2")
I4 = DType("i4", "int", 4, cpp="int4b_t")
I8, I16, I32, I64 = (DType(f"i{b}", "int", b, cpp=f"int{b}_t") for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{b}", "uint", b, cpp=f"uint{b}_t") for b in (8, 16, 32, 64))
#: Scalar-only types of the text: booleans of comparisons and the loop/index type.
I1 = DType("i1", "uint", 1, cpp="bool")
INDEX = DType("index", "index", 64, cpp="int64_t")

#: Element types that tiles may have, in the order documentation tables use.
TILE_DTYPES: tuple[DType, ...] = (
    F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64,
    F8E4M3, F8E5M2, HIF8, F8E8M0, F4E2M1, F4E1M2, I4, F4E2M1_PAIR, F4E1M2_PAIR,
)  # fmt: skip
ALL_DTYPES: tuple[DType, ...] = (*TILE_DTYPES, I1, INDEX)

_ALIASES: dict[str, str] = {
    "float": "f32", "fp32": "f32", "float32": "f32", "float32_t": "f32",
    "half": "f16", "fp16": "f16", "float16": "f16", "float16_t": "f16",
    "bfloat16": "bf16", "bfloat16_t": "bf16",
    "f8e4m3fn": "f8e4m3", "e4m3": "f8e4m3", "float8_e4m3fn": "f8e4m3", "float8_e4m3": "f8e4m3",
    "e5m2": "f8e5m2", "float8_e5m2": "f8e5m2",
    "hifloat8": "hif8", "hifloat8_t": "hif8",
    "e8m0": "f8e8m0", "float8_e8m0": "f8e8m0", "float8_e8m0fnu": "f8e8m0", "f8e8m0fnu": "f8e8m0",
    "e2m1": "f4e2m1x2", "f4e2m1": "f4e2m1x2", "f4e2m1fn": "f4e2m1x2",
    "float4_e2m1fn": "f4e2m1x2", "float4_e2m1x2_t": "f4e2m1x2",
    "e1m2": "f4e1m2x2", "f4e1m2": "f4e1m2x2", "float4_e1m2x2_t": "f4e1m2x2",
    "s4": "i4", "int4": "i4", "int4b_t": "i4", "si4": "i4",
    "bool": "i1",
    **{f"{p}{b}{s}": f"i{b}" for p in ("si", "s", "int") for b in (8, 16, 32, 64) for s in ("",)},
    **{f"int{b}_t": f"i{b}" for b in (8, 16, 32, 64)},
    **{f"{p}{b}": f"u{b}" for p in ("ui", "uint") for b in (8, 16, 32, 64)},
    **{f"uint{b}_t": f"u{b}" for b in (8, 16, 32, 64)},
}  # fmt: skip
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL_DTYPES}
_BY_NUMPY: dict[np.dtype[np.generic], DType] = {
    t: _BY_NAME[n] for n, t in _NUMPY.items() if n not in ("index",)
}


#: Every name of an element type, in lower case; programs write them in any.
DTYPE_NAMES: tuple[str, ...] = (*_BY_NAME, *_ALIASES)

_PAIRS: dict[str, DType] = {d.pair_of: d for d in TILE_DTYPES if d.pair_of}


def paired(d: DType) -> DType:
    """The type of pairs of an element type, where there is one; else the type itself.

    >>> paired(F4E2M1).name, paired(F32).name
    ('f4e2m1_pair', 'f32')
    """
    return _PAIRS.get(d.name, d)


def unpaired(d: DType) -> DType:
    """The type of the numbers in an element: that of each of a pair, else the type itself.

    >>> unpaired(F4E2M1_PAIR).name, unpaired(F32).name
    ('f4e2m1x2', 'f32')
    """
    return _BY_NAME[d.pair_of] if d.pair_of else d


def find_dtype(name: str) -> DType | None:
    """The element type called ``name`` (canonical or alias, any case), or None."""
    key = name.strip()
    entry = _BY_NAME.get(key)
    if entry is None:
        low = key.lower()
        entry = _BY_NAME.get(_ALIASES.get(low, low))
    return entry


def dtype(name: object) -> DType:
    """The element type called ``name``, or that of a NumPy, ml_dtypes or JAX array type.

    ArgumentError where there is none.

    >>> dtype("half").name, dtype("f8E4M3FN").name, dtype("ui8").bits, dtype(np.int16).name
    ('f16', 'f8e4m3', 8, 'i16')
    """
    if isinstance(name, DType):
        return name
    result = find_dtype(name) if isinstance(name, str) else _of_array_type(name)
    if result is None:
        names = [d.name for d in ALL_DTYPES]
        close = _meant(name, names)
        fix = f'"{close}"' if close else ""
        allowed = short_list(names, where="pto-jax isa types")
        raise ArgumentError(f"unknown element type {name!r}", allowed=allowed, fix=fix)
    return result


def _meant(name: object, names: list[str]) -> str:
    """The element type that a wrong word stands for, "" where none is close."""
    if isinstance(name, type) and name.__name__ in ("float", "int", "bool"):
        return {"float": "f32", "int": "i32", "bool": "i1"}[name.__name__]
    word = str(name).rpartition(".")[2] if isinstance(name, str) or hasattr(name, "itemsize") else ""
    meant = find_dtype(word)
    return meant.name if meant is not None else nearest(word, [*names, *_ALIASES]) if word else ""


def _of_array_type(t: Any) -> DType | None:
    """The element type of an array type; None for what is no array type at all.

    ``np.dtype`` itself takes None for float64.
    """
    if isinstance(t, np.dtype | type) or hasattr(t, "dtype"):
        try:
            return _BY_NUMPY.get(np.dtype(t))
        except TypeError:
            return None
    return None


def from_numpy(t: object) -> DType:
    """The element type of a NumPy or ml_dtypes dtype (bfloat16, float8_e4m3fn ... included).

    ArgumentError for an array type that no element type has.
    """
    key = np.dtype(t)  # type: ignore[call-overload]
    result = _BY_NUMPY.get(key)
    if result is None:
        raise ArgumentError(f"no PTO element type has the array type {key}")
    return result


def pack_pairs(words: NDArray[Any]) -> NDArray[Any]:
    """4-bit words [..., 2 n] as bytes [..., n] of two words, the first one in the low half.

    >>> pack_pairs(np.array([1, 2, 15, 0], np.uint8)).tolist()
    [33, 15]
    """
    packed: NDArray[Any] = words[..., 0::2] | words[..., 1::2] << np.uint8(4)
    return packed


def unpack_pairs(packed: NDArray[Any]) -> NDArray[Any]:
    """Bytes [..., n] as the 4-bit words [..., 2 n] in them: :func:`pack_pairs` undone."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)
