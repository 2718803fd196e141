"""One instruction of the reference interpreter: operands as arrays over a region, results, packed masks.

Bit j of a mask row is bit ``j % W`` of its word ``j // W``, low bits first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np

from .. import errors, profiles
from ..interpreter import Operand, TileRef, View
from ..ir import AttrValue, BLayout, CmpMode, DType, Op, TileType
from . import storage
from .numbers import Array, decode, encode, flush
from .storage import Place


@dataclass(frozen=True)
class Policy:
    """What a run leaves to the profile and its options."""

    profile: profiles.Profile
    out_of_region: str
    flush_subnormals: bool

    @property
    def simulator(self) -> bool:
        """Whether the profile is that of the CPU simulator."""
        return self.profile.name == "cpu_sim"


@dataclass(frozen=True)
class Step:
    """The operands of one instruction.

    ``made`` receives the words of destinations outside tile memory.
    ``words`` and ``values`` give an operand over the destination's valid region, where source lanes
    outside the source's own valid region follow the policy; scalars come as a 1x1 array.
    """

    policy: Policy
    op: Op
    operands: Mapping[str, Operand]
    attrs: Mapping[str, AttrValue]
    form: tuple[str, ...]
    memory: Callable[[str], Array]
    made: dict[str, Array] = field(default_factory=dict)

    def tile(self, name: str = "dst") -> TileRef:
        """The tile handle ``name``."""
        ref = self.operands[name]
        assert isinstance(ref, TileRef), name
        return ref

    def view(self, name: str) -> View:
        """The view ``name``."""
        view = self.operands[name]
        assert isinstance(view, View), name
        return view

    def is_tile(self, name: str) -> bool:
        """Whether there is an operand ``name`` and it is a tile."""
        return isinstance(self.operands.get(name), TileRef)

    def type(self, name: str = "dst") -> TileType:
        """The type of the tile ``name``."""
        return self.tile(name).type

    def dtype(self, name: str = "dst") -> DType:
        """Element type of a tile, and for a scalar that of the instruction's data source."""
        if self.is_tile(name):
            return self.type(name).dtype
        source = next((n for n in ("src", "src0", "base") if self.is_tile(n)), "dst")
        return self.type(source).dtype

    @property
    def region(self) -> tuple[int, int]:
        """Valid rows and columns of the destination."""
        return self.valid("dst")

    def valid(self, name: str) -> tuple[int, int]:
        """Valid rows and columns of the tile ``name``."""
        ref = self.tile(name)
        return int(ref.v_row), int(ref.v_col)

    def raw(self, name: str, region: tuple[int, int] | None = None) -> Array:
        """Words as stored, over ``region`` (the destination's by default)."""
        if not self.is_tile(name):
            return self.scalar(name, self.dtype(name))
        return self.gather(name, *np.ogrid[tuple(map(slice, region or self.region))])

    def gather(self, name: str, rows: Array, cols: Array) -> Array:
        """Words of single elements; ``rows`` and ``cols`` broadcast."""
        ref = self.tile(name)
        t, (v_row, v_col) = ref.type, self.valid(name)
        stored = (rows < t.rows) & (cols < t.cols)
        inside = (rows < v_row) & (cols < v_col) if self.policy.out_of_region == "ones" else stored
        positions = storage.map_of(t)[np.minimum(rows, t.rows - 1), np.minimum(cols, t.cols - 1)]
        words = storage.read_words(*self.cells(name, positions))
        ones = t.dtype.word.type((1 << t.dtype.word_bits) - 1)
        return words if inside.all() else np.where(inside & stored, words, ones)

    def stored(self, name: str) -> Array:
        """Words of the whole physical tile, whatever its valid region."""
        return storage.read_words(*self.cells(name, storage.map_of(self.type(name))))

    def cells(self, name: str, positions: Array) -> tuple[Array, Array, DType, int]:
        """Where elements of a source are read: bytes, positions, element type and first byte."""
        place = place_of(self.tile(name))
        return place.buffer.bytes, positions, self.type(name).dtype, place.address

    def words(self, name: str, region: tuple[int, int] | None = None) -> Array:
        """Words over ``region`` (the destination's by default), flushed where the run says so."""
        return self.flushed(self.raw(name, region), name)

    def flushed(self, words: Array, name: str) -> Array:
        """Words of an operand's element type with subnormals flushed where the run says so."""
        return flush(words, self.dtype(name)) if self.policy.flush_subnormals else words

    def values(self, name: str, region: tuple[int, int] | None = None) -> Array:
        """:meth:`words` decoded: NumPy values of the operand's element type."""
        return decode(self.words(name, region), self.dtype(name))

    def scalar(self, name: str, d: DType) -> Array:
        """A scalar operand as one word of an element type."""
        return scalar_word(self.operands[name], d)

    def store(self, words: Array, region: tuple[int, int] | None = None) -> None:
        """Write the result of arithmetic to the destination's valid region, or the region given."""
        self.put(flush(words, self.dtype()) if self.policy.flush_subnormals else words, region)

    def put(self, words: Array, region: tuple[int, int] | None = None) -> None:
        """Write words as they are to the destination's valid region, or the region given."""
        rows, cols = region or self.region
        positions = storage.map_of(self.type())[:rows, :cols]
        self.scatter(np.broadcast_to(words, positions.shape), positions)

    def scatter(self, words: Array, positions: Array, name: str = "dst") -> None:
        """Write words at storage positions of a destination."""
        ref = self.tile(name)
        place = place_of(ref)
        storage.write_words(place.buffer.bytes, positions, words, ref.type.dtype, place.address)


def place_of(ref: TileRef) -> Place:
    """The bytes that a handle's tile is in; it must not be a window."""
    assert isinstance(ref.storage, Place)
    return ref.storage


def scalar_word(value: Any, d: DType) -> Array:
    """A number as a 1x1 array of one element's word; arrays of raw words keep their bits."""
    array = np.asarray(value)
    if d.numpy == d.word and d.is_float and array.dtype == d.word and not isinstance(value, int):
        return array.reshape(1, 1)
    if d.is_integer:
        low = int(value) & ((1 << d.word_bits) - 1)
        return np.full((1, 1), low if d.bits >= 8 else low & 15, d.word)
    if array.dtype == d.numpy:
        return array.reshape(1, 1).view(d.word)
    return encode(np.full((1, 1), float(value)), d)


Rule: TypeAlias = Callable[[Step], None]
#: What computes each instruction, by name.
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as what computes the named instructions."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise RuntimeError(f"instruction {name} has two rules")
            RULES[name] = function
        return function

    return register


#: What other public sources compute where a decision is against them, by the key of the contradiction and the
#: instruction. No program is executed so: it shows that a contradiction explains a difference.
OTHER_RULES: dict[tuple[str, str], Rule] = {}


def other_rule(key: str, *names: str) -> Callable[[Rule], Rule]:
    """Register a function as what the other source of a contradiction computes."""

    def register(function: Rule) -> Rule:
        OTHER_RULES.update({(key, name): function for name in names})
        return function

    return register


#: Computes a lane: the element type and words of the operands give words of the result.
Lane: TypeAlias = Callable[..., Array]


def lanewise(module: str) -> Callable[[str, Sequence[str], Lane], None]:
    """What registers lane-wise instructions of a class file, given its ``__name__``.

    It takes a name, the sources, and the function of a lane, which depends on that lane of the sources only.
    """

    def register(name: str, sources: Sequence[str], lane: Lane) -> None:
        def execute(step: Step) -> None:
            step.store(lane(step.dtype(), *(step.words(s) for s in sources)))

        execute.__module__ = module
        rule(name)(execute)

    return register


def not_executable(op: Op, what: str) -> errors.NotExecutableError:
    """The error for a form that is declared but computed by no rule."""
    return errors.NotExecutableError(op.error("executable", what))


def require_plain(step: Step, **off: IntEnum) -> None:
    """Refuse quantising operands, and attributes with another value than the one given."""
    extra = [n for n in ("preQuantScalar", "fp") if n in step.operands]
    extra += [n for n, value in off.items() if step.attrs.get(n, value) != value]
    if extra:
        raise not_executable(step.op, f"is not executed with {', '.join(extra)}; the plain form is")


def compare(mode: CmpMode, a: Array, b: Array) -> Array:
    """An exact comparison; NaN is only unequal."""
    match mode:
        case CmpMode.EQ:
            return np.asarray(a == b)
        case CmpMode.NE:
            return np.asarray(a != b)
        case CmpMode.LT:
            return np.asarray(a < b)
        case CmpMode.LE:
            return np.asarray(a <= b)
        case CmpMode.GT:
            return np.asarray(a > b)
        case CmpMode.GE:
            return np.asarray(a >= b)


def compare_within(mode: CmpMode, a: Array, b: Array) -> Array:
    """The simulator's scalar comparison: equality within 1e-9 in float64, the others exact."""
    if mode not in (CmpMode.EQ, CmpMode.NE):
        return compare(mode, a, b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    distance = np.abs(x - y)
    if mode == CmpMode.EQ:
        return np.asarray(distance < 1e-9)
    return np.asarray(np.isnan(x) | np.isnan(y) | (distance > 1e-9))


def _packed(bits: Array, width: int) -> Array:
    """Rows of booleans as rows of ``width``-bit words."""
    rows, cols = bits.shape
    words = -(-cols // width)
    padded = np.zeros((rows, words * width), np.uint8)
    padded[:, :cols] = bits
    octets = np.packbits(padded, axis=1, bitorder="little")
    return octets.reshape(rows, words, width // 8).view(f"<u{width // 8}")[..., 0]


def write_rows(step: Step, bits: Array, *, clear: bool) -> None:
    """Mask row i holds comparison row i; words past the mask's valid columns are dropped.

    On a5 a row ends with a whole predicate: 32 bytes where bytes are compared, 16 where wider elements are.
    """
    t = step.type()
    if step.policy.profile.name == "a5":
        predicate = 8 * (32 if step.type("src0").dtype.bits == 8 else 16)
        bits = np.pad(bits, ((0, 0), (0, -bits.shape[1] % predicate)))
    words = _packed(bits, t.dtype.word_bits)
    if clear:
        column = t.blayout == BLayout.COL_MAJOR and not t.boxed
        cleared = np.arange(t.rows if column else t.elements)
        step.scatter(np.zeros(cleared.shape, t.dtype.word), cleared)
    region = (min(len(words), t.rows), min(words.shape[1], step.region[1]))
    step.put(words[: region[0], : region[1]], region=region)


def write_stream(step: Step, bits: Array, cols: int) -> None:
    """The simulator's scalar form: bytes of all physical source rows run on through the mask rows."""
    t, (rows, width) = step.type(), step.region
    image = np.zeros((bits.shape[0], cols // 8 * 8), np.uint8)
    image[:, : bits.shape[1]] = bits[:, : image.shape[1]]
    stream = np.packbits(image, axis=1, bitorder="little").reshape(-1)
    everything = np.arange(t.elements)
    step.scatter(np.zeros(everything.shape, t.dtype.word), everything)
    count = min(len(stream), rows * width)
    at = np.arange(count)
    positions = storage.map_of(t)[at // max(width, 1), at % max(width, 1)]
    step.scatter(stream[:count].astype(t.dtype.word), positions)


def places_in_rows(step: Step) -> tuple[Array, Array, Array]:
    """Row, column and bit in the mask of each lane of the region, every row starting at a mask row."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    width = step.dtype("mask").word_bits
    return rows, cols // width, cols % width


def places_in_stream(step: Step) -> tuple[Array, Array, Array]:
    """The simulator's tile form: one run of bits over the region, eight per mask element."""
    rows, cols = np.ogrid[tuple(map(slice, step.region))]
    index = rows * step.region[1] + cols
    octet, width = index // 8, max(step.valid("mask")[1], 1)
    return octet // width, octet % width, index % 8


def selected(step: Step, places: tuple[Array, Array, Array]) -> Array:
    """Selection bits over the destination's region."""
    rows, cols, bit = places
    words = step.gather("mask", rows, cols)
    return np.asarray((words >> bit.astype(words.dtype)) & 1 == 1)
