"""The form of a declaration: instruction, operands, attributes, constraints and rules on valid regions.

One :class:`Instruction` holds every fact about the legality of an instruction: operands, attributes, element
types per profile, constraints as statements with a check, the valid-region rule, accuracy, the decisions
where sources disagree, and the sources. The reader, the printer, the verifier, the documentation and the
generators derive from it. Rules on valid regions have a form that executors evaluate on run-time sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from ..ir import (
    AttrValue,
    DType,
    GlobalLayout,
    Language,
    Loc,
    Op,
    Pipe,
    Symbol,
    TileType,
    Type,
    Value,
    VectorType,
    dtype,
)
from ..profiles import PROFILE_NAMES, Profile, ProfileName
from .assembly import AS_DECLARED, Assembly
from .changes import Change as Change, Default as Default
from .semantics import EXACT, Accuracy, Apart, Formula, Holds, InPlace, Lanes, Moves, all_apart
from .traits import PLAIN, Access, Effect, Resource, Traits

#: Valid rows and columns per operand: numbers, or values of an engine that has ``!= <= | &`` for them.
Sizes: TypeAlias = "Mapping[str, tuple[Any, Any]]"
#: Whether sizes break a rule, given the tiles' types; one truth value of the kind the sizes are.
RegionTest: TypeAlias = "Callable[[Sizes, Mapping[str, TileType]], Any]"


def _numbers(t: TileType | None) -> int:
    """Numbers in an element of a tile, where its type is known."""
    return 1 if t is None else t.dtype.numbers


@dataclass(frozen=True)
class RegionRule:
    """A rule on run-time valid regions in a form an engine can evaluate on traced sizes.

    ``equal-valid``, ``equal-rows``, ``equal-cols``: all named operands have the same valid region, or
    that part of it; ``non-empty``: each of them has at least one valid lane; ``no-half``: none of them has
    valid rows without columns, or columns without rows. Operands that an operation
    leaves out do not take part. ``custom``: what ``test`` says, where all operands are present.
    """

    kind: Literal["equal-valid", "equal-rows", "equal-cols", "non-empty", "no-half", "custom"]
    operands: tuple[str, ...]
    test: RegionTest | None = None

    def applies(self, present: Container[str]) -> bool:
        """Whether the operation has the operands the rule is about."""
        named = [n in present for n in self.operands]
        return all(named) if self.kind == "custom" else any(named)

    def broken(self, sizes: Sizes, types: Mapping[str, TileType]) -> Any:
        """Whether the valid sizes of an operation's tiles break the rule.

        >>> RegionRule("equal-rows", ("dst", "src")).broken({"dst": (8, 1), "src": (7, 16)}, {})
        True
        """
        result: Any = False
        if not self.applies(sizes):
            return result
        if self.test is not None:
            return self.test(sizes, types)
        present = [(sizes[n][0], sizes[n][1] * _numbers(types.get(n))) for n in self.operands if n in sizes]
        if self.kind in ("non-empty", "no-half"):
            for rows, cols in present:
                no_row, no_col = rows <= 0, cols <= 0
                result = result | (no_row | no_col if self.kind == "non-empty" else no_row ^ no_col)
            return result
        for rows, cols in present[1:]:
            if self.kind != "equal-cols":
                result = result | (rows != present[0][0])
            if self.kind != "equal-rows":
                result = result | (cols != present[0][1])
        return result


Role = Literal["out", "in", "inout", "tmp"]
#: ``vector`` is a vector of four elements outside tile memory (``vector<4xi16>``).
#: ``handle`` is a type without data (``!pto.pipe``), ``entry`` a slot of a pipe: a tile, or a view;
#: ``memory`` global memory as a pointer or a view.
OperandKind = Literal["tile", "scalar", "gm", "ptr", "index", "event", "vector", "handle", "entry", "memory"]


@dataclass(frozen=True)
class Sources:
    """What the size of a new destination follows from.

    Types and valid sizes of the tiles an operation reads, its attributes, and the element type the
    destination is to have. A valid size is an int, an array, or :class:`pto_jax.isa.rules.regions.Open` where
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
    the profiles that use scratch which no tool puts in. An ``inout`` operand ``keeps`` its old elements where
    nothing is written, and no result depends on them. A scalar that ``converts`` may have another type of
    its kind, integer or float. A view that is ``loaded_as`` another operand stands for it: a tile with the
    elements of the view. In examples its elements are ``shown``, where general ones would say little,
    and its last rows and columns are not valid, as many as ``lacking`` counts. ``type`` is that of a
    result, or of a Python number, which nothing else determines; the name of an operand stands for the
    element type of that one.

    >>> from pto_jax.isa import instructions
    >>> scalar = instructions()["tadds"].operand("scalar")
    >>> scalar.role, scalar.kind, scalar.dtype
    ('in', 'scalar', 'T')
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
    keeps: bool = False
    loaded_as: str = ""
    within: str = ""
    shown: tuple[float, ...] = ()
    lacking: tuple[int, int] = (0, 0)
    type: Type | str | None = None

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

    >>> from pto_jax.isa import instructions
    >>> instructions()["tcmp"].attribute("cmp").type.__name__
    'CmpMode'
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

    def takes(self, value: AttrValue) -> bool:
        """Whether a value is one of the attribute's type; None where it is left out by default."""
        if value is None:
            return self.default is None
        if self.type is int:
            return isinstance(value, int) and not isinstance(value, bool | IntEnum)
        return isinstance(value, self.type)

    @property
    def choices(self) -> tuple[IntEnum | bool, ...]:
        """The values of an attribute that is a choice, none for others."""
        if self.type is bool:
            return (False, True)
        return tuple(self.type) if issubclass(self.type, IntEnum) else ()


@dataclass(frozen=True)
class Site:
    """One instruction as the constraints see it.

    ``types`` and ``values`` hold the operands that are present, by declared name; ``attrs`` has every
    attribute with defaults filled in; ``vars`` the element type each type variable was bound to.
    ``valid`` is the (row, column) valid size per tile operand: an int, or None when not known.
    ``constants``, ``shapes`` and ``layouts`` say what is known about values by their name in the program:
    integer constants, extents and layouts of views. ``level`` is that of the build.
    """

    instruction: Instruction
    profile: Profile
    op: Op
    values: Mapping[str, Value]
    types: Mapping[str, Type]
    attrs: Mapping[str, AttrValue]
    vars: Mapping[str, str]
    valid: Mapping[str, tuple[int | None, int | None]]
    constants: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    layouts: Mapping[str, GlobalLayout] = field(default_factory=dict)
    level: int | None = None

    def constant(self, name: str) -> int | None:
        """The value of a scalar operand where it is known."""
        value = self.values.get(name)
        return None if value is None else self.constants.get(value.name)

    def numbers(self, group: str) -> tuple[int | None, ...]:
        """The values of a group of scalar operands, each where it is known."""
        return tuple(self.constants.get(v.name) for v in self.op.group(group))

    def tile(self, name: str) -> TileType | None:
        """The type of a tile operand, None when it is absent or not given."""
        t = self.types.get(name)
        return t if isinstance(t, TileType) else None

    def region(self, name: str) -> tuple[int | None, int | None]:
        """Valid rows and columns of a tile operand, each where it is known."""
        return self.valid.get(name, (None, None))

    def named(self, *names: str) -> Iterator[tuple[str, TileType]]:
        """Those of some operands that are present and tiles, in the order of the names."""
        return ((name, t) for name in names if (t := self.tile(name)) is not None)

    def tiles(self, *roles: Role) -> Iterator[tuple[str, TileType]]:
        """Tile operands that are present and typed, optionally of some roles only."""
        for operand in self.instruction.operands:
            if roles and operand.role not in roles:
                continue
            t = self.tile(operand.name)
            if t is not None:
                yield operand.name, t


#: What a check yields: the operand concerned (or None), what it has, and what is allowed instead. With two
#: parts, the statement of the rule is allowed, or the second part says what is.
Finding = tuple[str | None, str] | tuple[str | None, str, str]
Check = Callable[[Site], Iterator[Finding]]
#: The usual fix of an operand that breaks a rule, None where there is no simple one.
Fix = Callable[[Site, str], str | None]
AttrMap: TypeAlias = "dict[str, AttrValue]"
#: Turns operand types (and attributes) that satisfy a constraint into ones that break it; False when
#: the sample gives no way to do so.
Breaker: TypeAlias = "Callable[[dict[str, Type], AttrMap, Profile], bool]"


@dataclass(frozen=True)
class Constraint:
    """A testable statement.

    ``stage`` "run-time" marks rules on values that may only be known when the program runs (they are checked
    as far as the types show them), ``region`` gives such a rule in evaluable form; ``breaks`` edits a legal
    sample into one that violates exactly this rule, so that tests can be generated; ``fix`` says how programs
    usually come to satisfy it. ``statement`` gives it in words, where nobody has written them when they are
    asked for; an empty one means that the finding says what is allowed itself.
    ``window`` names a tile whose valid region is a window of another tile, that one, and the scalars that say
    where: execution checks what types do not show. ``fits`` names a tile and a window of global memory with
    the shape of its valid region: execution checks windows whose types leave sizes open. ``on_lanes`` is
    false for rules whose violation leaves the lanes that are read as they are. ``since`` names the version of
    the language that the rule came with: in texts of earlier ones its findings are warnings; ``until`` the
    one that dropped it.

    >>> from pto_jax.isa import instructions
    >>> [c.rule for c in instructions()["tadd"].constraints][:3]
    ['types-equal', 'types', 'location']
    """

    rule: str
    statement: str | Callable[[], str]
    check: Check
    profiles: tuple[ProfileName, ...] = PROFILE_NAMES
    stage: Literal["static", "run-time"] = "static"
    severity: Literal["error", "warning"] = "error"
    source: str = ""
    breaks: Breaker | None = None
    region: RegionRule | None = None
    window: tuple[str, str, tuple[str, str]] | None = None
    fits: tuple[str, str] | None = None
    fix: Fix | None = None
    on_lanes: bool = True
    since: Language | None = None
    until: Language | None = None

    @cached_property
    def allowed(self) -> str:
        """The rule in words."""
        return self.statement if isinstance(self.statement, str) else self.statement()


@dataclass(frozen=True)
class Decision:
    """What was decided where sources leave something open or disagree, and on what authority.

    >>> Decision("What is 0 / 0?", "NaN.", "page tdiv").choice
    'NaN.'
    """

    question: str
    choice: str
    source: str


@dataclass(frozen=True)
class Contradiction(Decision):
    """A decision against a public test suite whose expected results say something else.

    ``other`` is what these results want, ``other_source`` where they stand; ``profiles`` are those meant.
    ``key`` names the rule of the reference interpreter that computes what they want, where there is one.
    """

    other: str
    other_source: str
    key: str = ""
    profiles: tuple[ProfileName, ...] = ("a2a3", "a5")


@dataclass(frozen=True)
class Sample:
    """Operand types and attributes of one operation.

    ``form`` lists its source operands; ``constants`` gives index operands by value, several where the
    operand is a list. ``grouped`` operations name the parts of their operand list.
    """

    instruction: Instruction
    types: Mapping[str, Type]
    form: tuple[str, ...]
    attrs: Mapping[str, AttrValue] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    grouped: bool = False


#: Legal operations of an instruction on a profile, for instructions whose operands do not follow from the
#: element types alone (:mod:`pto_jax.isa.samples.operations` builds the others).
Sampler: TypeAlias = "Callable[[Instruction, Profile], Iterator[Sample]]"

#: The pipe an operation runs on by the places of the first tile it reads and of its first destination (None:
#: no tile); None where the declared pipe holds.
PipeRule: TypeAlias = "Callable[[Loc | None, Loc | None], Pipe | None]"


class Phase(NamedTuple):
    """A step of an instruction on one pipe, with the operands that it reads and writes.

    A step begins after the one before it; ``flag`` is the number of the hidden flag that says so.
    """

    pipe: Pipe
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    flag: int | None = None


#: The steps of an operation on a profile, by the types of its operands and its attributes; () where it is one
#: step on its pipe.
PhaseRule: TypeAlias = (
    "Callable[[ProfileName, Mapping[str, Type], Mapping[str, AttrValue]], tuple[Phase, ...]]"
)

#: What an operand's role says an instruction does to its memory.
_ACCESSES: Mapping[Role, tuple[Access, ...]] = {
    "in": ("read",),
    "out": ("write",),
    "inout": ("read", "write"),
    "tmp": ("scratch",),
}
#: Who says that scratch lies apart.
SCRATCH_APART = "PTOAS memory planning (scratch conflicts); pto-isa headers"
#: Who says that results share none.
RESULTS_APART = "the order in which an operation writes its results is not specified"
#: The memory that operands of a kind name; others name none.
_MEMORY: Mapping[OperandKind, Resource] = {
    "tile": "tile",
    "gm": "global",
    "ptr": "global",
    "vector": "vector",
}

Domain = Literal["dst", "src", "src0", "none", "custom"]


@dataclass(frozen=True)
class Cycles:
    """What an instruction costs by the pages' formula.

    Cycles to start, to complete, and per repeat of 256 bytes.

    >>> Cycles(startup=13, completion=26, per_repeat=2).per_repeat
    2
    """

    startup: int
    completion: int
    per_repeat: int


InstructionClass = Literal[
    "sync_config",
    "elementwise",
    "tile_scalar",
    "reduce_expand",
    "memory",
    "matrix",
    "layout",
    "irregular",
    "pipes",
    "communication",
]


@dataclass(frozen=True, eq=False)
class Instruction:
    """The declaration of one instruction.

    ``operands`` are in the order of the C++ intrinsic (destinations first). ``forms`` lists the
    read-operand orders the text accepts, one tuple of operand names per overload; by default there is
    one form, the in, inout-free operands in declared order, with and without trailing optional ones.
    ``type_vars`` names the columns of ``types``: per profile the legal combinations of element types.
    ``domain`` says whose valid region the instruction iterates over. ``hidden_scratch`` says of an
    operation whether it overwrites the profile's ``ub_scratch`` bytes. ``sampler`` makes legal sample
    operations where the generic ones do not fit. ``traits`` say what else the instruction does than compute
    values; effects of tile instructions follow from the roles of their operands, those with a syntax of their
    own list them. ``pipe_rule`` says where places of operands decide on the pipe, ``phases`` which pipes an
    operation runs on one after the other; ``assembly`` how operands
    are spelled where their roles do not say it. The valid region of the first operand of ``sized_by`` that an
    operation has is the amount of work: by default that of the domain. ``row`` has the types of later
    hardware, for the example of an instruction that no profile has.

    What is done to numbers, in the terms of :mod:`.semantics`: ``formulas`` holds one formula per set of
    operands that has one. ``divisor`` are the sources by whose zeros integers are divided: that one of them
    that stands last in an operation; ``shift_count`` is the source that counts bits. ``positive`` are further
    sources whose positive numbers give a defined result. ``in_place`` says where the destination may be one
    of the sources, ``apart`` which operands share no bytes: those listed, and scratch that a profile writes
    with every other tile. ``intrinsic`` is the C++ name where it is not the name in capitals, ``cycles`` the
    cost where the pages' tables have none. ``changes`` say what versions of the language changed.

    >>> from pto_jax.isa import instructions
    >>> tadd = instructions()["tadd"]
    >>> tadd.forms, tadd.types["a2a3"][0], tadd.pipe.name
    ((('src0', 'src1'),), ('f32',), 'V')
    """

    name: str
    cls: InstructionClass
    summary: str
    semantics: str
    operands: tuple[Operand, ...]
    types: Mapping[ProfileName, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    type_vars: tuple[str, ...] = ("T",)
    attributes: tuple[Attribute, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    forms: tuple[tuple[str, ...], ...] = ()
    domain: Domain = "dst"
    pipe: Pipe = Pipe.V
    decisions: tuple[Decision, ...] = ()
    sources: tuple[str, ...] = ()
    syntax: Literal["tile", "custom"] = "tile"
    executable: bool = True
    sampler: Sampler | None = None
    hidden_scratch: Callable[[Site], bool] | None = None
    lanes: Lanes = "other"
    moves: Moves | None = None
    formulas: tuple[Formula, ...] = ()
    accuracy: Accuracy = EXACT
    divisor: tuple[str, ...] = ()
    shift_count: str | None = None
    positive: tuple[str, ...] = ()
    in_place: InPlace = field(default_factory=dict)
    apart: tuple[Apart, ...] = ()
    intrinsic: str = ""
    cycles: Cycles | None = None
    changes: tuple[Change, ...] = ()
    traits: Traits = PLAIN
    pipe_rule: PipeRule | None = None
    phases: PhaseRule | None = None
    assembly: Assembly = AS_DECLARED
    sized_by: tuple[str, ...] = ()
    row: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.sized_by:
            object.__setattr__(self, "sized_by", ("src" if self.domain == "src" else "dst",))
        object.__setattr__(self, "traits", replace(self.traits, effects=self._effects()))
        apart = (*self.apart, *self._scratch_apart(), *self._results_apart())
        object.__setattr__(self, "apart", tuple(dict.fromkeys(apart)))
        if not self.forms:
            reads = [o for o in self.operands if o.role in ("in", "tmp")]
            required = [o.name for o in reads if not o.optional]
            every = [o.name for o in reads]
            forms = (tuple(required),) if required == every else (tuple(required), tuple(every))
            object.__setattr__(self, "forms", forms)

    def _effects(self) -> tuple[Effect, ...]:
        """The listed effects, and those that the roles of operands say that no listed one names."""
        effects = self.traits.effects
        if self.syntax != "tile" or self.traits.alias is not None:
            return effects
        named = {effect.operand for effect in effects}
        derived = (
            Effect(access, _MEMORY[o.kind], o.name)
            for o in self.operands
            if o.name not in named and o.kind in _MEMORY
            for access in _ACCESSES[o.role]
        )
        return (*derived, *effects)

    def _scratch_apart(self) -> Iterator[Apart]:
        """Scratch shares no bytes with other operands where it is written."""
        tiles = tuple(o for o in self.operands if o.kind == "tile")
        for scratch in tiles:
            others = tuple(o.name for o in tiles if o != scratch)
            profiles: tuple[ProfileName, ...] = tuple(p for p in PROFILE_NAMES if scratch.is_scratch_on(p))
            if others and profiles and self.syntax == "tile":
                yield Apart(scratch.name, others, SCRATCH_APART, profiles)

    def _results_apart(self) -> tuple[Apart, ...]:
        """Results of one operation share no bytes: nothing says which is written first."""
        tiles = [o.name for o in self.destinations if o.kind == "tile"]
        pairs = {(a.operand, other) for a in self.apart for other in a.others}
        derived = all_apart(tiles, RESULTS_APART) if self.syntax == "tile" else ()
        return tuple(a for a in derived if any((a.operand, other) not in pairs for other in a.others))

    def apart_on(self, profile: ProfileName) -> tuple[tuple[str, str, Apart], ...]:
        """The pairs of operands that share no bytes on a profile, each with the statement that says so."""
        return self._apart_by_profile[profile]

    @cached_property
    def _apart_by_profile(self) -> Mapping[ProfileName, tuple[tuple[str, str, Apart], ...]]:
        return {
            p: tuple((a.operand, other, a) for a in self.apart if p in a.profiles for other in a.others)
            for p in PROFILE_NAMES
        }

    def operand(self, name: str) -> Operand:
        """The declared operand of a name, which must exist."""
        return self._by_name[name]

    def has_operand(self, name: str) -> bool:
        """Whether an operand of this name is declared."""
        return name in self._by_name

    @cached_property
    def _by_name(self) -> Mapping[str, Operand]:
        return {o.name: o for o in self.operands}

    @cached_property
    def required_sources(self) -> frozenset[str]:
        """The names of the operands besides destinations that every operation has."""
        return frozenset(o.name for o in self.operands if not o.optional and o not in self.destinations)

    @cached_property
    def inserted(self) -> tuple[tuple[Operand, Implied], ...]:
        """The scratch tiles that tools put in whole where an operation leaves them out."""
        return tuple((o, o.implied) for o in self.operands if o.implied is not None and o.implied.whole)

    @cached_property
    def destinations(self) -> tuple[Operand, ...]:
        """The operands that are written, optional ones included."""
        return tuple(o for o in self.operands if o.role in ("out", "inout"))

    def destinations_of(self, form: tuple[str, ...]) -> tuple[Operand, ...]:
        """The destinations that an overload has: the required ones and those beside one of its sources."""
        return tuple(o for o in self.destinations if not o.optional or o.beside in form)

    @cached_property
    def trailing(self) -> int | None:
        """The destinations behind the sources of an operation that binds no result, None where one leads.

        Numbers and handles are results, and what a tile instruction writes to global memory stands last.
        """
        kinds = {o.kind for o in self.destinations}
        if self.assembly.trailing is None and kinds <= {"scalar", "handle"}:
            return 0
        return 1 if self.syntax == "tile" and kinds == {"gm"} else self.assembly.trailing

    def attribute(self, key: str) -> Attribute | None:
        """The attribute written as ``key`` in some spelling."""
        return self._by_key.get(key)

    @cached_property
    def defaults(self) -> Mapping[str, AttrValue]:
        """The values of attributes that an operation does not give."""
        return {a.name: a.default for a in self.attributes}

    @cached_property
    def _by_key(self) -> Mapping[str, Attribute]:
        """The attributes by each of their spellings; the first one has a spelling that several share."""
        return {key: a for a in reversed(self.attributes) for key in (a.name, *a.keys)}

    @property
    def ulp(self) -> Mapping[str, int]:
        """How many ULP results may be apart, per element type that is not exact."""
        return self.accuracy.ulp

    @cached_property
    def lane_wise(self) -> bool:
        """Whether a lane of the destination comes from that lane of the sources, none of them packed."""
        return self.lanes == "same" and all(o.holds != "mask" for o in self.operands)

    @cached_property
    def converts(self) -> bool:
        """Whether the instruction is a conversion of element types."""
        return any(f.operation == "convert" for f in self.formulas)

    def formula(self, form: tuple[str, ...]) -> Formula | None:
        """The formula of an overload: of its operands without scratch, and destinations that are read."""
        read = [n for n in form if self.operand(n).role != "tmp"]
        read += [o.name for o in self.operands if o.role == "inout"]
        return next((f for f in self.formulas if f.fits(read)), None)
