"""Operands and attributes of an instruction, as its declaration lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from typing import Any, Literal, TypeAlias

from ..ir import AttrValue, DType, Symbol, TileType, VectorType, dtype
from ..profiles import PROFILE_NAMES, ProfileName
from .changes import Default
from .semantics import Holds

Role = Literal["out", "in", "inout", "tmp"]
#: ``vector`` is a vector of four elements outside tile memory (``vector<4xi16>``).
#: ``handle`` is a type without data (``!pto.pipe``), ``entry`` a slot of a pipe: a tile, or a view;
#: ``memory`` global memory as a pointer or a view.
OperandKind = Literal["tile", "scalar", "gm", "ptr", "index", "event", "vector", "handle", "entry", "memory"]


@dataclass(frozen=True)
class Sources:
    """What the size of a new destination follows from.

    Types and valid sizes of the tiles an operation reads, its attributes, and the element type the
    destination is to have. A valid size is an int, an array, or :class:`pto_jax.isa.rules.extents.Open` where
    it is not known.
    """

    types: Mapping[str, TileType]
    sizes: Mapping[str, tuple[Any, Any]]
    attrs: Mapping[str, AttrValue]
    dtype: DType


#: Physical rows and columns, and valid rows and columns.
Size: TypeAlias = "tuple[tuple[int, int], tuple[Any, Any]]"


@dataclass(frozen=True)
class Extent:
    """How large a destination is that a call leaves to the instruction.

    ``rule`` gives None where the sources do not say; ``text`` completes "dst has ...".
    """

    text: str
    rule: Callable[[Sources], Size | None]


@dataclass(frozen=True)
class Implied:
    """A scratch tile that tools put in where an operation leaves it out.

    They place no tiles in a program that places its own. ``of`` is the operand by whose valid sizes they make
    it, which its type then states, and whose physical size it has where it is ``whole``; ``profiles`` are
    those whose hardware needs it (the others take any tile), and ``needed`` says of an operation, as the
    constraints see it, whether it does.
    """

    of: str
    profiles: tuple[ProfileName, ...] = ("a2a3",)
    needed: Callable[[Any], bool] = lambda site: True
    whole: bool = False


@dataclass(frozen=True)
class Operand:
    """An operand.

    ``dtype`` is a type variable of the declaration ("T", "S", "D" ...), the name of an element type, or None
    when the operand's element type is free. An optional destination may name the source operand ``beside``
    which it is written. ``conv`` operands may be convolution tiles. A destination that a call leaves out has
    the size ``extent`` (None: that of the first source with its element type) and, where the sources allow
    several element types, the first legal one of ``default``: names of element types, of type variables, or
    of sources that have it; scratch of any type usually has that one. ``holds`` says what its numbers stand
    for, ``within`` the operand that positions are in, ``implied`` what tools put in its place, ``used_on``
    the profiles that use scratch which no tool puts in. A scalar that ``converts`` may have another type of
    its kind, integer or float. A view that is ``loaded_as`` another operand stands for it: a tile with the
    elements of the view.
    """

    name: str
    role: Role
    kind: OperandKind = "tile"
    _: KW_ONLY
    dtype: str | None = "T"
    optional: bool = False
    note: str = ""
    beside: str | None = None
    conv: bool = False
    extent: Extent | None = None
    default: tuple[str, ...] = ()
    holds: Holds = "numbers"
    converts: bool = False
    implied: Implied | None = None
    used_on: tuple[ProfileName, ...] = PROFILE_NAMES
    loaded_as: str = ""
    within: str = ""

    @property
    def vector(self) -> VectorType:
        """The type of a ``vector`` operand."""
        return VectorType((4,), dtype(self.dtype or "i16"))

    def is_scratch_on(self, profile: ProfileName) -> bool:
        """Whether the hardware of a profile writes the operand as scratch; others take any tile for it."""
        return self.role == "tmp" and profile in (self.implied.profiles if self.implied else self.used_on)

    @property
    def is_read(self) -> bool:
        """Whether the instruction reads the operand as data."""
        return self.role in ("in", "inout")


@dataclass(frozen=True)
class Attribute:
    """An attribute.

    ``type`` is an enumeration, bool, int, str, a list of integers or the name of a function; ``spellings``
    are the keys it is written under in programs (the first is printed). ``of_layout`` marks those that
    describe a layout and change no value. ``mnemonic`` is what the assembler calls the enumeration where
    instructions have one each. ``default`` holds for programs that leave it out, ``unwritten`` for texts of
    some versions of the language.
    """

    name: str
    type: type[IntEnum] | type[bool] | type[int] | type[str] | type[Symbol] | type[tuple[int, ...]]
    default: AttrValue
    meaning: str = ""
    spellings: tuple[str, ...] = ()
    of_layout: bool = False
    mnemonic: str = ""
    unwritten: tuple[Default, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys it is written under in programs, the printed one first."""
        return self.spellings or (self.name,)

    @property
    def choices(self) -> tuple[IntEnum | bool, ...]:
        """The values of an attribute that is a choice, none for others."""
        if self.type is bool:
            return (False, True)
        return tuple(self.type) if issubclass(self.type, IntEnum) else ()
