"""The form of a declaration of a micro-operation, and the table of them.

Micro-operations are the level below tile instructions: they work on vector registers and on addresses of the
unified buffer. One :class:`MicroOperation` holds every fact about an operation; reader, printer, verifier,
interpreter and reference pages derive from it. The families are imported when a text has the first one.

A signature is two lines of words, one for the text and one for the types:

>>> op = micro("vxyz", "An example.", 'lhs rhs "mode" mask? -> result', "T T - M -> T", T="f16 f32")
>>> op.syntax
'$lhs , $rhs , @mode:string (? , $mask ?) {} : !lhs , !rhs (?t , !mask ?) -> ^*'

==============  ==========================================  =====================================
text            meaning                                     types
==============  ==========================================  =====================================
``lhs``         an operand                                  ``T``: a register, its element bound to T
``base[off]``   a pointer and an offset without a type      ``pT``, ``p*``: a pointer into the UB
``base[off:]``  the same, the offset's type is written      ``gT``, ``g*``: a pointer into global memory
``"mode"``      a string, kept as an attribute              ``@l1``, ``@l0a`` ...: a pointer into that memory
..              ..                                          ``-``: anything
``mask?``       an operand (or result) that may be absent   ``M``, ``MD``: a mask for lanes of T, of D
``-> result``   results                                     ``m``, ``m16``: a mask of any, of one width
..              ..                                          ``sT``: a scalar for lanes of T; ``n``: an integer
..              ..                                          ``x``: an index; ``i32``: that scalar
..              ..                                          ``al``, ``as``: the state of loads, of stores
==============  ==========================================  =====================================
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from ..ir import I1, DType, Loc, MaskType, MemRefType, Op, Pipe, PtrType, ScalarType, Type, Value, VRegType
from .declare import Decision
from .traits import PLAIN, Effect, Traits

#: ``register``: a function of registers and scalars; ``memory``: it accesses memory, or a special register;
#: ``order``: it orders others and computes nothing; ``scalar``: a query or setting of the scalar unit.
Kind = Literal["register", "memory", "order", "scalar"]
#: An access of the unified buffer inside a vector scope: by which unit, and whether it writes.
Access: TypeAlias = tuple[Literal["vector", "scalar"], Literal["read", "write"]]
#: What opens a vector scope, and the attribute of a loop that is one.
SCOPES = ("vecscope", "strict_vecscope")
SCOPE_LOOP = "llvm.loop.aivector_scope"


def opens_scope(op: Op) -> bool:
    """Whether the regions of an operation are a vector scope."""
    return op.name in SCOPES or (bool(op.regions) and SCOPE_LOOP in op.attrs)


@dataclass(frozen=True)
class Lanes:
    """The type of a register or a scalar: its element type, and whether the program gives it no sign.

    Integers without a sign are compared as signed ones and shifted to the right as unsigned ones. ``lanes``
    is 1 for scalars.
    """

    dtype: DType
    signless: bool = False
    lanes: int = 1


@dataclass(frozen=True)
class MicroCall:
    """One operation apart from the values of its operands: what a rule sees of it.

    ``types`` and ``results`` have, for a mask, the bits per lane, for a logical mask, a register, a scalar or
    a pointer the element type, None for anything else.
    """

    name: str
    types: tuple[Lanes | int | None, ...]
    results: tuple[Lanes | int | None, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


#: The integers among the operands of a call by name; None for one that is not known.
Numbers = Mapping[str, int | None]
#: The bytes that an operation may access from the address on, by the call and the numbers of its operands;
#: None: any.
Span = Callable[[MicroCall, Numbers], int | None]


def all_known(numbers: Numbers, names: Iterable[str]) -> tuple[int, ...] | None:
    """The numbers of these names; None where one of them is not known.

    >>> all_known({"m": 16, "n": None}, "m"), all_known({"m": 16, "n": None}, ("m", "n"))
    ((16,), None)
    """
    values = [numbers.get(name) for name in names]
    constants = tuple(n for n in values if n is not None)
    return constants if len(constants) == len(values) else None


class Rows(NamedTuple):
    """Bytes in rows: those of each, and how many there are at which pitch, from the inner loop outwards.

    The first row begins ``start`` bytes behind the address.
    """

    width: int
    steps: tuple[tuple[int, int], ...] = ()
    start: int = 0


#: The rows of bytes that an operation accesses from the address on; None where they are not known.
RowsOf = Callable[[MicroCall, Numbers], Rows | None]


class Beside(NamedTuple):
    """Memory that belongs to another one: its address is that of the other divided by ``unit``."""

    loc: Loc
    unit: int


@dataclass(frozen=True)
class Place:
    """Where an operation accesses memory: at a pointer, moved by an offset in units of bytes.

    ``unit`` None is an element; without an operand for the offset the pointer moves by one unit. Where the
    operation returns the moved pointer, it accesses the pointer itself. ``steady``: without such a result
    the offset moves nothing. Bytes are one run of ``span``, or those of ``rows``; of a ``masked`` store those
    of active lanes.
    """

    pointer: str
    access: Literal["read", "write"]
    offset: str = ""
    unit: Callable[[MicroCall], int] | int | None = None
    steady: bool = False
    span: Span = lambda call, numbers: None
    rows: RowsOf | None = None
    masked: Callable[[MicroCall], bool] = lambda call: False
    #: Operands that are sizes and strides in bytes there.
    in_bytes: str = ""
    #: Bytes of which the address has to be a multiple.
    aligned: Callable[[MicroCall], int] = lambda call: 1
    #: What rules call the place, where it is not the only one of its pointer.
    name: str = ""
    #: The memory that belongs to the one of the pointer, such as block scales of a factor.
    beside: Beside | None = None
    #: Which vector core of the block has the memory, where it is not the core that executes.
    subblock: Span | None = None
    #: Whether an operation accesses it.
    applies: Callable[[MicroCall], bool] = lambda call: True

    @property
    def key(self) -> str:
        """The name under which rules get the pointer."""
        return self.name or self.pointer


@dataclass(frozen=True)
class MicroOperation:
    """A micro-operation; see the module for the words of ``text`` and ``types``.

    ``elements`` are the element types that a letter of ``types`` stands for, ``choices`` the values of
    attributes and strings (the first one is the default where the attribute may be absent).
    """

    name: str
    summary: str
    text: str
    types: str
    elements: Mapping[str, tuple[str, ...]]
    kind: Kind = "register"
    semantics: str = ""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Words that may be absent and then stand for nothing, by attribute.
    clauses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Attributes that are true or false.
    flags: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    source: str = ""
    decisions: tuple[Decision, ...] = ()
    traits: Traits = PLAIN
    written: str = ""
    pipe: Pipe = Pipe.V
    #: Values of attributes that are read and verified, and not executed: no source says what they do.
    refused: tuple[str, ...] = ()
    #: The operand of which the last result is what remains after the lanes of the mask, at least 0.
    counts_down: str = ""
    #: Further rules: what is wrong with an operation, one sentence each.
    rules: tuple[Callable[[Op], Iterator[str]], ...] = ()
    #: How far results may be from the exact ones, in units of their last place.
    ulp: int = 0
    #: What numbers say of results: the value of a scalar, of a mask how many lanes are set from the first on.
    known: Mapping[str, Span] = field(default_factory=dict)
    #: The accesses that a barrier orders by the value of its string: those before, and those behind it.
    orders: Mapping[str, tuple[frozenset[Access], frozenset[Access]]] = field(default_factory=dict)
    #: The mask whose active lanes the special register SQZN counts, in bytes of them.
    squeezes: str = ""
    #: The operand that has to be a constant, and the least and greatest numbers of constants by operand.
    immediate: str = ""
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: Whether it stands in no vector scope.
    between_scopes: bool = False
    #: What is wrong with an operation with some numbers, of which those that no constant gives are None, and
    #: what is not executed of it: one sentence each.
    number_rules: Callable[[MicroCall, Numbers], Iterator[str]] | None = None
    unexecuted: Callable[[MicroCall, Numbers], Iterator[str]] | None = None

    @cached_property
    def words(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The words of the operands and of the results."""
        operands, _, results = self.text.partition("->")
        return tuple(operands.split()), tuple(results.split())

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the operands in the order of the text, strings left out."""
        parts = (w.removesuffix("?") for w in self.words[0] if not w.startswith('"'))
        return tuple(n for w in parts for n in w.replace(":", "").replace("]", "").split("["))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of everything that the types stand for: operands, strings, results."""
        return _names(self.text)

    @cached_property
    def results(self) -> tuple[str, ...]:
        """The names of the results; those that may be absent come last."""
        return tuple(w.removesuffix("?") for w in self.words[1])

    @property
    def is_logical(self) -> bool:
        """Whether its registers and masks have logical lanes: any number of them."""
        return self.name.startswith("vmi.")

    @property
    def syntax(self) -> str:
        """The entry of the reader and the printer (:mod:`pto_jax.text.formats`)."""
        return self.written or _syntax(*self.words)

    def values(self, op: Op) -> dict[str, Value]:
        """The operands of an operation by name."""
        if op.groups:
            return {n: op.group(n)[0] for n, size in op.groups if size}
        return dict(zip(self.operands, op.ins, strict=False))

    def updated(self, op: Op) -> bool:
        """Whether the last result of an operation is a moved pointer."""
        return bool(op.results) and isinstance(op.results[-1].type, PtrType)

    def call(self, op: Op) -> MicroCall:
        """What a rule sees of an operation."""
        results = op.results[:-1] if self.updated(op) else op.results
        return MicroCall(
            self.name,
            tuple(_kind(v.type) for v in op.ins),
            tuple(_kind(v.type) for v in results),
            {**{n: c[0] for n, c in self.choices.items()}, **op.attrs},
        )


def micro(
    name: str,
    summary: str,
    text: str,
    types: str,
    *,
    kind: Kind = "register",
    choices: Mapping[str, str] | None = None,
    clauses: Mapping[str, str] | None = None,
    flags: str = "",
    places: Sequence[Place] = (),
    decisions: Sequence[Decision] = (),
    traits: Traits | None = None,
    semantics: str = "",
    source: str = "",
    written: str = "",
    refused: str = "",
    counts_down: str = "",
    pipe: Pipe = Pipe.V,
    rules: Sequence[Callable[[Op], Iterator[str]]] = (),
    ulp: int = 0,
    known: Mapping[str, Span] | None = None,
    orders: Mapping[str, tuple[frozenset[Access], frozenset[Access]]] | None = None,
    squeezes: str = "",
    immediate: str = "",
    limits: Mapping[str, tuple[int, int]] | None = None,
    between_scopes: bool = False,
    number_rules: Callable[[MicroCall, Numbers], Iterator[str]] | None = None,
    unexecuted: Callable[[MicroCall, Numbers], Iterator[str]] | None = None,
    **elements: str,
) -> MicroOperation:
    """A declaration; ``elements`` by letter and ``choices`` by attribute are words with blanks between."""
    reached = dict(zip(_names(text), types.replace("->", " ").split(), strict=True))
    uses = tuple(
        Effect(p.access, "global" if reached[p.pointer].startswith("g") else "tile", p.pointer)
        for p in places
    )
    return MicroOperation(
        name,
        summary,
        text,
        types,
        {letter: tuple(names.split()) for letter, names in elements.items()},
        kind,
        semantics,
        {n: tuple(words.split()) for n, words in (choices or {}).items()},
        {n: tuple(words.split()) for n, words in (clauses or {}).items()},
        tuple(flags.split()),
        tuple(places),
        source,
        tuple(decisions),
        replace(traits or Traits(), effects=(*(traits.effects if traits else ()), *uses)),
        written,
        pipe,
        tuple(refused.split()),
        counts_down,
        tuple(rules),
        ulp,
        known or {},
        orders or {},
        squeezes,
        immediate,
        limits or {},
        between_scopes,
        number_rules,
        unexecuted,
    )


def _names(text: str) -> tuple[str, ...]:
    """The names among the words of a signature."""
    parts = (w.removesuffix("?") for w in text.replace("->", " ").split())
    return tuple(n for w in parts for n in w.replace(":", "").replace("]", "").split("["))


def _syntax(operands: Sequence[str], results: Sequence[str]) -> str:
    shown: list[str] = []
    types: list[str] = []
    for word in operands:
        comma = ", " if shown else ""
        if word.startswith('"'):
            shown.append(f"{comma}@{word.strip(chr(34))}:string")
            continue
        optional, (base, *rest) = word.endswith("?"), word.removesuffix("?").removesuffix("]").split("[")
        offset = rest[0].removesuffix(":") if rest else ""
        item = f"{comma}${base}" + (f" [ ${offset} ]" if offset else "")
        shown.append(f"(? {item} ?)" if optional else item)
        typed = [base, *([offset] if rest and rest[0].endswith(":") else [])]
        for name in typed:
            separator = ", " if types else ""
            types.append(f"(?t {separator}!{name} ?)" if optional else f"{separator}!{name}")
    arrow = ""
    if results:
        needed = not all(w.endswith("?") for w in results)
        arrow = ("-> ^*" if types else ": ^*") if needed else "(?r -> ^* ?)"
    colon = ": " if types else ""
    return " ".join(" ".join([*shown, "{}", colon + " ".join(types), arrow]).split())


def _kind(t: Type) -> Lanes | int | None:
    match t:
        case VRegType():
            return Lanes(t.dtype, t.signless, t.lanes)
        case MaskType():
            return Lanes(I1, lanes=t.lanes) if t.logical else t.bits
        case ScalarType() | PtrType() | MemRefType():
            return Lanes(t.dtype)
        case _:
            return None
