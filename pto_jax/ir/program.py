"""Programs as immutable, hashable data, versions of the text language, and the hook for printing.

Values are identified by name inside lexical scopes, as in the text. Two programs are equal when their
operations are equal, independent of syntax, spans and the order of attributes. The reader and printer of text
registers itself here, so that programs can print themselves.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from functools import cached_property
from os import PathLike
from typing import Any, Literal, TypeAlias, get_args

from ..errors import ArgumentError, Diagnostic, Span, one_of, short_list
from .types import Type

_PRINTER: list[Callable[[Any], str]] = []


def register(printer: Callable[[Any], str]) -> None:
    """Print programs with ``printer`` from now on."""
    _PRINTER[:] = [printer]


def text_of(program: Any) -> str:
    """The text of a program."""
    if not _PRINTER:
        # Where programs come out of a pickle nothing has loaded the printer; the builder of programs does.
        getattr(sys.modules[__name__.partition(".")[0]], "builder")  # noqa: B009
    return _PRINTER[0](program)


Language: TypeAlias = Literal["2026-04", "2026-08"]
#: What a text may be in: a version of the language, or C++ as the assembler emits it.
TextLanguage: TypeAlias = Language | Literal["c++"]
#: Every version, oldest first.
LANGUAGES: tuple[Language, ...] = get_args(Language)
#: Everything that a text may be in.
TEXT_LANGUAGES: tuple[TextLanguage, ...] = (*LANGUAGES, "c++")
#: The version of a text that does not say which it is in.
PRESENT: Language = LANGUAGES[-1]
#: The attribute of a module that says which version its text is in.
LANGUAGE_KEY = "pto.language"


def language(name: object) -> Language | None:
    """The version of a name, None where there is none.

    >>> language("2026-04"), language("2025-01")
    ('2026-04', None)
    """
    return next((version for version in LANGUAGES if version == name), None)


#: Spelling an instruction was written in. ``as``: ``%d = tadd %a, %b : T``; ``as_dst``:
#: ``tadd %d, %a, %b : T``; ``ssa``: ``%d = pto.tadd %a, %b : (T, T) -> T``; ``dps``:
#: ``pto.tadd ins(..) outs(..)``; ``generic``: ``"pto.tadd"(..)``; ``custom``: own syntax; ``select``: a
#: branch that hands on one of two handles, ``arith.select %c, %a, %b : T``.
Form = Literal["as", "as_dst", "ssa", "dps", "generic", "custom", "select"]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A reference to a function, ``@name``."""

    name: str


#: Names of a tile type: that of the assembler, and that of the documentation pages.
TileSpelling: TypeAlias = Literal["tile_buf", "tile"]
#: Attribute values. Enumerations of :mod:`pto_jax.ir.types` are stored as members; an enumeration the
#: reader does not know stays text.
AttrValue: TypeAlias = bool | int | float | str | IntEnum | Symbol | Type | tuple["AttrValue", ...] | None
Attrs: TypeAlias = tuple[tuple[str, AttrValue], ...]


def attrs(mapping: Mapping[str, AttrValue] | None = None, **more: AttrValue) -> Attrs:
    """Attributes in canonical (sorted) order."""
    return tuple(sorted({**(mapping or {}), **more}.items()))


@dataclass(frozen=True, slots=True)
class Value:
    """A named SSA value; ``span`` is the place of this mention."""

    name: str
    type: Type
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, slots=True)
class Region:
    """A list of operations with block arguments (loop variables, branch arguments)."""

    ops: tuple[Op, ...]
    args: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Op:
    """One operation.

    ``name`` is canonical: tile and view operations without the ``pto.`` prefix (``tadd``,
    ``alloc_tile``), others with their dialect (``arith.addi``, ``scf.for``, ``return``).
    ``ins`` are the read operands in text order, ``outs`` the destination handles of the
    destination-passing forms, ``results`` the values it binds. Operations with operand lists of
    variable length name the parts of ``ins`` in ``groups``: ``(("view", 1), ("offsets", 2))``. ``implied``
    names the attributes that the text left out and says all the same, by its version of the language.
    """

    name: str
    ins: tuple[Value, ...] = ()
    outs: tuple[Value, ...] = ()
    results: tuple[Value, ...] = ()
    attributes: Attrs = ()
    regions: tuple[Region, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    form: Form = field(default="custom", compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)
    implied: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @cached_property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes by name."""
        return dict(self.attributes)

    def group(self, name: str) -> tuple[Value, ...]:
        """The operands of one group, empty when the operation has no such group."""
        start = 0
        for group, size in self.groups:
            if group == name:
                return self.ins[start : start + size]
            start += size
        return ()

    @property
    def destinations(self) -> tuple[Value, ...]:
        """What the operation writes: ``outs`` where given, else the bound results."""
        return self.outs or self.results

    def error(self, rule: str, message: str, value: Value | None = None) -> Diagnostic:
        """It breaks a rule: at one of its values where that is what is wrong, else at all of it."""
        span = value.span if value is not None and value.span is not None else self.span
        return Diagnostic("error", message, span, self.name, rule=rule)

    def walk(self) -> Iterator[Op]:
        """The operation, then those in its regions, in text order."""
        yield self
        for region in self.regions:
            for op in region.ops:
                yield from op.walk()


#: Attributes that make a function an entry.
ENTRY_MARKS = ("pto.entry", "hacc.entry", "pto.kernel", "pto.aicore")


@dataclass(frozen=True)
class Function:
    """A function; ``results`` are the types it returns (``return`` operations give the values).

    An ``external`` one is declared only: its body, which is empty here, stands elsewhere. ``child`` is the
    number of the child module that it stands in, None where the program has no child modules.
    """

    name: str
    args: tuple[Value, ...]
    body: Region
    results: tuple[Type, ...] = ()
    attributes: Attrs = ()
    private: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    external: bool = field(default=False, repr=False)
    child: int | None = field(default=None, repr=False)

    @cached_property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes by name."""
        return dict(self.attributes)

    @property
    def is_entry(self) -> bool:
        """Whether the function is marked as an entry."""
        return any(mark in self.attrs for mark in ENTRY_MARKS)

    def walk(self) -> Iterator[Op]:
        """All operations of the function, nested ones included, in text order."""
        return iter(self._ops)

    @cached_property
    def _ops(self) -> tuple[Op, ...]:
        return tuple(inner for op in self.body.ops for inner in op.walk())

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its operations, nested ones included."""
        return frozenset([op.name for op in self._ops])


#: Name of the function that holds a fragment's instructions.
FRAGMENT = "fragment"


def fragment_results(ops: Sequence[Op], parameters: Container[str]) -> tuple[str, ...]:
    """Names a fragment yields: bound results, and destinations that are visible outside regions."""
    bound = {v.name for op in ops for v in op.results}
    names: dict[str, None] = {}
    for op in ops:
        for inner in op.walk():
            names.update((v.name, None) for v in inner.outs if v.name in bound or v.name in parameters)
        names.update((v.name, None) for v in op.results)
    return tuple(names)


@dataclass(frozen=True)
class Program:
    """A module of functions.

    A *fragment* is a text without ``func``, as documentation pages print instructions: it has one
    function whose arguments are the unbound names in order of first use, and ``fragment_results``
    names the values it yields (bound results and destination handles, in order). A module of modules has the
    functions of all its ``children``, of which these are the attributes. ``language`` is the version that the
    program's text is in; None for programs that were no text. What a version says without writing it stands
    in the operations, so that equal programs do the same whatever their version. ``emitted``: an assembler
    has written the text, so that no tool inserts anything into it any more.

    >>> import pto_jax as pto
    >>> program = pto.parse("%z = tadd %x, %y : !pto.tile<f32, 4, 16>")
    >>> program.fragment, program.fragment_results, [str(a) for a in program.functions[0].args]
    (True, ('z',), ['%x', '%y'])
    """

    functions: tuple[Function, ...]
    attributes: Attrs = ()
    fragment: bool = False
    fragment_results: tuple[str, ...] = ()
    has_module: bool = field(default=True, compare=False, repr=False)
    language: Language | None = field(default=None, compare=False, repr=False)
    source: str = field(default="<text>", compare=False, repr=False)
    emitted: bool = field(default=False, compare=False, repr=False)
    #: How the program's text spells its tile types, where it has any and spells all of them alike.
    tiles: TileSpelling | None = field(default=None, compare=False, repr=False)
    children: tuple[Attrs, ...] = ()

    @cached_property
    def attrs(self) -> dict[str, AttrValue]:
        """The attributes by name."""
        return dict(self.attributes)

    def function(self, name: str) -> Function | None:
        """The function of a name, one with a body where there is one; None where there is none."""
        named = [f for f in self.functions if f.name == name]
        return next((f for f in named if not f.external), named[0] if named else None)

    def setting(self, name: str) -> AttrValue:
        """An attribute of the module, or the one that all its children have; None for none."""
        if name in self.attrs or not self.children:
            return self.attrs.get(name)
        values = {dict(child).get(name) for child in self.children}
        return values.pop() if len(values) == 1 else None

    @property
    def entries(self) -> tuple[Function, ...]:
        """Functions marked as entries; else the only one with a body, or the only one that is not private."""
        bodies = tuple(f for f in self.functions if not f.external)
        if len(bodies) == 1:
            return bodies
        marked = tuple(f for f in bodies if f.is_entry)
        public = tuple(f for f in bodies if not f.private)
        return public if not marked and len(public) == 1 else marked

    @cached_property
    def digest(self) -> str:
        """A stable identifier of what the program says."""
        said = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in fields(self)
            if f.compare and (f.name != "children" or self.children)
        ]
        said += [f"{f.name}:{f.external}:{f.child}" for f in self.functions if f.external or self.children]
        return hashlib.sha256(f"Program({', '.join(said)})".encode()).hexdigest()

    @cached_property
    def places(self) -> str:
        """A stable identifier of where its operations stand: equal programs may differ in it."""
        spans = "\n".join(f"{op.span} {[str(v.span) for v in (*op.ins, *op.outs)]}" for op in self.walk())
        return hashlib.sha256(spans.encode(errors="surrogatepass")).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def walk(self) -> Iterator[Op]:
        """All operations of the program, nested ones included, in text order."""
        for f in self.functions:
            yield from f.walk()

    def __repr__(self) -> str:
        heads = [
            f"{'' if self.fragment else '@'}{f.name}({short_list([f'{a}: {a.type}' for a in f.args])})"
            for f in self.functions
        ]
        count = sum(1 for _ in self.walk())
        operations = f"{count} operation{'' if count == 1 else 's'}"
        return f"<Program {self.source}: {short_list(heads, 4) or 'no function'}, {operations}>"

    def __str__(self) -> str:
        return text_of(self)


def require_program(given: object) -> None:
    """Raise ArgumentError where something is no program.

    >>> require_program("%z = tneg %x")
    Traceback (most recent call last):
    pto_jax.errors.ArgumentError: program: got text; allowed: a program; try: pto.parse(text)
    """
    if isinstance(given, Program):
        return
    got, fix = one_of(given), ""
    if isinstance(given, str):
        got, fix = "text", "pto.parse(text)"
    elif isinstance(given, PathLike):
        got, fix = f"the name of a file, {str(given)!r}", f'pto.load("{given}")'
    elif isinstance(getattr(given, "program", None), Program):
        got, fix = "a kernel", "kernel.program"
    raise ArgumentError(f"program: got {got}", allowed="a program", fix=fix)
