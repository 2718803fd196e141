"""The micro-operations of generated kernels: which there are, and the element types that each may have.

Declarations give operands, types and attributes; relations between element types that rules of execution
demand stand here. What moves data between memories, or needs operands of a special kind, is built by
:mod:`.micro` and :mod:`.micro_memory`.

>>> {str(t) for sample in catalogue()["vabs"] for t in sample.types} >= {"vreg<64xf32>", "vreg<128xsi16>"}
True
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, product

from .. import ir, isa
from ..ir import DType, VRegType
from ..isa import registers_convert
from ..isa.micro import MicroOperation
from ..isa.rules import logical
from . import options
from .options import Options

#: Element types of registers that no declaration restricts.
_ANY = "i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f8e4m3 f8e5m2 hif8 f4e2m1_pair f4e1m2_pair".split()
#: Those of logical registers: one element is one lane.
_LOGICAL = [name for name in _ANY if not name.endswith(("_pair", "64"))]
#: Widths that distributions name, and the one for bytes that does not.
_NAMED_WIDTH, _FOURFOLD, _BYTE, _WORD = re.compile(r"_B(\d+)$"), "UNPK4", 8, 32
#: Lanes of logical registers, by which their rules are asked about element types.
_LANES = 128
_PAIRS = {d.name: d for d in (ir.F4E2M1_PAIR, ir.F4E1M2_PAIR)}


@dataclass(frozen=True)
class MicroSample:
    """An operation with a register type for each letter of its signature, by the letters in their order."""

    operation: MicroOperation
    letters: tuple[str, ...]
    types: tuple[VRegType, ...]

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation.name

    @property
    def elements(self) -> tuple[str, ...]:
        """The names of the element types."""
        return tuple(t.dtype.name for t in self.types)

    @property
    def shown(self) -> str:
        """The element type under which coverage counts it: that of the first result that has one."""
        words = self.operation.types.partition("->")[2].split() if self.types else []
        letter = next((w for w in words if w in self.letters), None)
        if self.types and letter is None:
            letter = self.letters[0]
        return "-" if letter is None else self.register(letter).dtype.name

    def register(self, letter: str) -> VRegType:
        """The type that a letter stands for."""
        return self.types[self.letters.index(letter)]

    @property
    def choices(self) -> dict[str, tuple[str, ...]]:
        """The values of each attribute that fit the element types and have a meaning."""
        declared, refused = self.operation.choices, self.operation.refused
        return {
            name: tuple(c for c in words if c not in refused and _suits(c, self))
            for name, words in declared.items()
        }

    @property
    def pair(self) -> registers_convert.Pair | None:
        """What a conversion between the two element types has; None for other operations."""
        if not options.converts(self.operation):
            return None
        if self.operation.is_logical:
            direction = logical.direction_of(self.register("T"), self.register("D"))
            return None if isinstance(direction, str) else registers_convert.Pair(*direction)
        source, target = self.elements
        return registers_convert.PAIRS.get((source, target))


def element(name: str) -> DType:
    """The element type of a name that declarations use."""
    return _PAIRS.get(name) or ir.dtype(name)


def register(d: DType, *, signless: bool = False, logical: bool = False) -> VRegType:
    """The register of an element type; a logical one stands for any number of lanes."""
    return VRegType(2048 // d.word_bits, d, signless=signless, logical=logical)


def _suits(choice: str, sample: MicroSample) -> bool:
    """Whether a distribution is one for the elements of a register."""
    width = _width(sample.types[0]) if sample.types else 0
    named = _NAMED_WIDTH.search(choice)
    if choice == _FOURFOLD:
        return width == _BYTE
    if named is None or not width:
        return True
    pairs = choice.startswith("PK") and int(named[1]) == 2 * _WORD
    return width == int(named[1]) or (pairs and width == _WORD)


def _width(t: VRegType) -> int:
    return t.dtype.word_bits


def _same(a: VRegType, b: VRegType) -> bool:
    return _width(a) == _width(b)


def _narrowed(a: VRegType, b: VRegType) -> bool:
    return _width(a) == 2 * _width(b)


def _widened(a: VRegType, b: VRegType) -> bool:
    return 2 * _width(a) == _width(b) and a.dtype.kind == b.dtype.kind


def _gathered(value: VRegType, offsets: VRegType) -> bool:
    """Offsets of elements are numbers without a sign as wide as these."""
    return offsets.dtype.name[0] == "u" and _width(offsets) == _width(value) and _width(value) in (16, 32)


def _scattered(value: VRegType, offsets: VRegType) -> bool:
    """Those of bytes are numbers of 16 bits."""
    return offsets.dtype.is_integer and _width(offsets) == max(16, _width(value)) <= _WORD


def _wide_offsets(value: VRegType, offsets: VRegType) -> bool:
    return offsets.dtype.is_integer and _width(offsets) == 32 and _width(value) == 32


def _indices(value: VRegType, positions: VRegType) -> bool:
    return positions.dtype.name[0] == "u" and _same(value, positions)


def _positions(value: VRegType, offsets: VRegType) -> bool:
    """Offsets of 16 or 32 bits reach every byte of an area; those of 16 bits are for numbers like them."""
    return offsets.dtype.name == "u32" or offsets.dtype.name == value.dtype.name == "u16"


_RELATIONS: Mapping[str, Callable[[VRegType, VRegType], bool]] = {
    "narrowed": _narrowed,
    "widened": _widened,
    "gathered": _gathered,
    "scattered": _scattered,
    "wide offsets": _wide_offsets,
    "any": lambda a, b: a != b,
    "indices": _indices,
    "positions": _positions,
    "none": lambda a, b: True,
}


@cache
def catalogue() -> Mapping[str, tuple[MicroSample, ...]]:
    """The operations that generated kernels have, each with every choice of element types."""
    table = {o.name: tuple(_samples(o)) for o in isa.micro_operations().values() if is_generated(o)}
    return {name: samples for name, samples in table.items() if samples}


def is_generated(operation: MicroOperation) -> bool:
    """Whether generated kernels have an operation."""
    return options.micro_reason(operation.name) is None


def letters_of(operation: MicroOperation) -> tuple[str, ...]:
    """The letters for element types in a signature, that of the data first."""
    words = [w.lstrip("s") if w[0] == "s" else w for w in operation.types.replace("->", " ").split()]
    return tuple(sorted({w for w in words if w[0].isupper() and w[0] != "M"}, key=lambda w: (w != "T", w)))


def _samples(operation: MicroOperation) -> Iterator[MicroSample]:
    letters = letters_of(operation)
    every = _LOGICAL if operation.is_logical else _ANY
    names = [operation.elements.get(letter) or every for letter in letters]
    relation = _RELATIONS[options.RELATIONS.get(operation.name, "none")]
    for chosen in product(*([n for n in words if n in every] for words in names)):
        types = tuple(register(element(name), logical=operation.is_logical) for name in chosen)
        sample = MicroSample(operation, letters, types)
        if options.converts(operation) and sample.pair is None:
            continue
        if len(types) == 2 and not relation(*types):
            continue
        chosen_from = sample.choices.values() if sample.pair is None else ()
        if all(chosen_from) and rules_hold(sample):
            yield sample


#: Attributes with one of which an operation is allowed to have its element types.
_ATTEMPTS: tuple[dict[str, ir.AttrValue], ...] = (
    {},
    {"group": _LANES, "reassoc": True},
    {"saturate": "NOSAT"},
    {"dist_mode": "dintlv"},
)


def rules_hold(sample: MicroSample) -> bool:
    """Whether the rules of a declaration allow the element types, with some attributes at least.

    Conversions of registers have rules on attributes only.
    """
    if sample.pair is not None and not sample.operation.is_logical:
        return True
    alike = sample.operation.is_logical and options.RELATIONS.get(sample.name) != "any"
    ends = [
        tuple(
            ir.Value(f"{end}{k}", replace(t, lanes=_LANES) if alike else t)
            for k, word in enumerate(words.split())
            if word in sample.letters
            for t in [sample.register(word)]
        )
        for end, words in zip("io", sample.operation.types.partition("->")[::2], strict=True)
    ]
    return any(
        not any(message for rule in sample.operation.rules for message in rule(op))
        for attributes in _ATTEMPTS
        for op in [ir.Op(sample.name, ends[0], results=ends[1], attributes=ir.attrs(attributes))]
    )


@dataclass(frozen=True)
class MicroSelection:
    """The operations of some options with their weights added up, and the pairs that take turns."""

    samples: Mapping[str, tuple[MicroSample, ...]]
    names: tuple[str, ...]
    cumulative: tuple[float, ...]
    pairs: tuple[MicroSample, ...]


@lru_cache(maxsize=64)
def select_micro(options: Options) -> MicroSelection:
    """What kernels of some options have."""
    by_name = {
        name: kept
        for name, samples in catalogue().items()
        if (not options.only or name in options.only)
        and (kept := tuple(s for s in samples if _fits(s, options)))
    }
    factors = dict(options.factors)
    weights = {name: factors.get(name, 1.0) for name in by_name}
    names = tuple(n for n in by_name if weights[n] > 0)
    pairs = [s for name in sorted(names) for s in by_name[name]]
    random.Random(0).shuffle(pairs)
    return MicroSelection(by_name, names, tuple(accumulate(weights[n] for n in names)), tuple(pairs))


def _fits(sample: MicroSample, options: Options) -> bool:
    if options.layouts or options.regions:
        return False
    elements = set(sample.elements)
    words = {*elements, *(f"{a}->{b}" for a in elements for b in elements)}
    return not options.dtypes or bool(options.dtypes & words)
