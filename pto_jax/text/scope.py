"""Names in scope: definitions, uses and their types."""

from dataclasses import dataclass, fields
from typing import NamedTuple

from ..errors import Span
from ..ir import AttrValue, PartitionViewType, TensorViewType, TileType, Type, UnknownType, Value
from . import names, type_text
from .lexer import Cursor

#: How many of the latest definitions are compared with an undefined name.
_SUGGESTED_FROM = 1000


class Mention(NamedTuple):
    """A value's name and where it stands in the text."""

    name: str
    start: int
    end: int


@dataclass(slots=True)
class _Binding:
    type: Type
    start: int
    end: int
    constant: int | None = None


class Scopes:
    """Values visible at a place of the text.

    As in MLIR a name may be defined once among the names visible together; sibling regions may reuse
    it. With ``open_names`` (fragments) a name without a definition becomes a parameter.
    """

    def __init__(self, cursor: Cursor, *, open_names: bool) -> None:
        self._cursor = cursor
        self._bindings: dict[str, _Binding] = {}
        self._levels: list[list[str]] = [[]]
        self._open_names = open_names
        self._parameters: list[str] = []
        #: Whether the number of a constant was asked for since this was last set.
        self.numbers_asked = False

    def push(self) -> None:
        """Enter a region."""
        self._levels.append([])

    def pop(self) -> None:
        """Leave a region: its names are forgotten."""
        for name in self._levels.pop():
            del self._bindings[name]

    def span(self, mention: Mention) -> Span:
        """The place of a mention in the text."""
        return self._cursor.span(mention.start, mention.end)

    def define(self, mention: Mention, type_: Type) -> Value:
        """Bind a name to a new value; ParseError where the name is visible already."""
        first = self._bindings.get(mention.name)
        if first is not None:
            place = self._cursor.span(first.start, first.end)
            known = "used as a parameter" if mention.name in self._parameters else "defined"
            self._cursor.fail(
                f"found a second definition of %{mention.name}, which was {known} on line {place.line}, "
                f"column {place.col}; a value is defined once",
                start=mention.start,
                end=mention.end,
            )
        self._bindings[mention.name] = _Binding(type_, mention.start, mention.end)
        self._levels[-1].append(mention.name)
        return Value(mention.name, type_, self.span(mention))

    def set_constant(self, value: Value, constant: AttrValue) -> None:
        """Remember that a value is an integer constant, for types that follow from it."""
        if isinstance(constant, int) and not isinstance(constant, bool):
            self._bindings[value.name].constant = constant

    def constant(self, mention: Mention) -> int | None:
        """The number of an integer constant, None for other values."""
        self.numbers_asked = True
        binding = self._bindings.get(mention.name)
        return None if binding is None else binding.constant

    def known_type(self, mention: Mention) -> Type | None:
        """The type of a value as far as the text so far gives it."""
        binding = self._find(mention.name)
        if binding is None or isinstance(binding.type, UnknownType):
            return None
        return binding.type

    def use(self, mention: Mention, written: Type | None = None, default: Type | None = None) -> Value:
        """A use of a value; ``written`` is the type spelled with it, ``default`` the one it must have.

        ParseError for a value that is not defined, or is of another type than the written one.
        """
        binding = self._find(mention.name) or self._open(mention)
        if written == UnknownType():
            written = None
        found = binding.type
        if isinstance(found, UnknownType):
            found = written or default or found
            binding.type = found
        elif written is not None and written != found and not isinstance(written, UnknownType):
            self._agree(mention, written, binding)
        name = mention.name if mention.name in self._bindings else f"{mention.name}#0"
        return Value(name, found, self.span(mention))

    def use_again(self, mention: Mention, type_: Type) -> Value | None:
        """A use of a value that is defined under this very name with this type; None for others."""
        binding = self._bindings.get(mention.name)
        if binding is None or (binding.type is not type_ and binding.type != type_):
            return None
        return Value(mention.name, binding.type, self._cursor.span(mention.start, mention.end))

    def _find(self, name: str) -> _Binding | None:
        found = self._bindings.get(name)
        return self._bindings.get(f"{name}#0") if found is None else found

    def _open(self, mention: Mention) -> _Binding:
        if not self._open_names:
            nearby = list(self._bindings)[-_SUGGESTED_FROM:]
            close = names.suggestion(mention.name, nearby, "%")
            self._cursor.fail(
                f"found the undefined value %{mention.name}{close}; a value is an argument or the result "
                "of an operation before",
                start=mention.start,
                end=mention.end,
            )
        self._parameters.append(mention.name)
        binding = _Binding(UnknownType(), mention.start, mention.end)
        self._bindings[mention.name] = binding
        self._levels[0].append(mention.name)
        return binding

    def _agree(self, mention: Mention, written: Type, binding: _Binding) -> None:
        """Accept the old spelling of a view's rank (``<2xf32>``), refuse any other difference."""
        defined = binding.type
        if (
            isinstance(written, TensorViewType | PartitionViewType)
            and type(written) is type(defined)
            and isinstance(defined, TensorViewType | PartitionViewType)
            and written.dtype == defined.dtype
            and written.dims == (len(defined.dims),)
        ):
            return
        place = self._cursor.span(binding.start, binding.end)
        self._cursor.fail(
            f"found %{mention.name} used {_difference(written, defined)} (line {place.line}, "
            f"column {place.col})",
            start=mention.start,
            end=mention.end,
        )

    def parameters(self) -> tuple[Value, ...]:
        """The names that were used without a definition, in order of first use."""
        out = []
        for name in self._parameters:
            binding = self._bindings[name]
            out.append(Value(name, binding.type, self._cursor.span(binding.start, binding.end)))
        return tuple(out)


def _difference(written: Type, defined: Type) -> str:
    """``as A but defined as B``, for tiles only the parameters that differ."""
    if isinstance(written, TileType) and isinstance(defined, TileType):
        parts = []
        for f in fields(TileType):
            here, there = getattr(written, f.name), getattr(defined, f.name)
            if here != there:
                parts.append(f"{f.name}={_word(here)} but defined with {f.name}={_word(there)}")
        return "with " + ", ".join(parts)
    return f"as {type_text.print_type(written)} but defined as {type_text.print_type(defined)}"


def _word(value: object) -> str:
    name = getattr(value, "name", value)
    return "?" if name is None else str(name).lower()
