"""Tile instructions as Python functions, made from their declarations."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from itertools import permutations
from typing import Any, NoReturn

from .. import isa
from ..errors import nearest
from ..files import user_code
from ..ir import F32, INDEX, AttrValue, DType, Form, PtrType, ScalarType, Symbol, Type, find_dtype
from ..isa.bind import accepts
from ..isa.irregular import TPRINT
from ..text import formats
from . import argument_types, arith, instead, synchronise
from .body import NO_PROGRAM, WHERE_PROGRAMS, Node, building, current
from .places import Place, fail, here
from .public import MOST_ARGUMENTS
from .values import Handle, Indexed, TileHandle, described


def tile_function(instruction: isa.Instruction) -> Callable[..., Any]:
    """The function that builds a tile instruction."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _Call(instruction, kwargs, here()).build(args)

    forms = " or ".join(f"{python_name(instruction.name)}({', '.join(s)})" for s in _spelled(instruction))
    document(call, instruction, forms)
    return call


def document(function: Any, instruction: isa.Instruction, forms: str) -> None:
    """Name and document a function from the declaration."""
    attributes = "".join(f"\n{a.name}: {a.meaning}" for a in instruction.attributes)
    function.__name__ = function.__qualname__ = python_name(instruction.name)
    page = f"Types, rules and examples: pto-jax isa {instruction.name}; a mistake raises BuildError."
    function.__doc__ = f"{instruction.summary}\n\n{forms}\n\n{instruction.semantics}{attributes}\n\n{page}"


def python_name(name: str) -> str:
    """The Python name of an instruction: dots become underscores.

    >>> python_name("tmatmul.acc")
    'tmatmul_acc'
    """
    return name.replace(".", "_")


def _spelled(instruction: isa.Instruction) -> list[tuple[str, ...]]:
    return [(*dests, *form) for dests, form in signatures(instruction)]


_Signature = tuple[tuple[str, ...], tuple[str, ...]]
#: Destinations, sources, and the objects by operand name.
_Overload = tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]


@cache
def signatures(instruction: isa.Instruction) -> tuple[_Signature, ...]:
    """Destinations and sources of every overload; those with the destinations it asks for come first."""
    signatures = [(d, form) for form in instruction.forms for d in _destinations(instruction)]
    return tuple(
        sorted(signatures, key=lambda s: s[0] != tuple(o.name for o in instruction.destinations_of(s[1])))
    )


def _destinations(instruction: isa.Instruction) -> list[tuple[str, ...]]:
    """The destinations an operation may have: the required ones, and the first optional ones."""
    optional = [o.name for o in instruction.destinations if o.optional]
    return [
        tuple(o.name for o in instruction.destinations if not o.optional or o.name in optional[:count])
        for count in range(len(optional) + 1)
    ]


def declared_type(operand: isa.Operand, types: Mapping[str, Type]) -> Type | None:
    """The type that a declaration gives a number or a result, beside operands of some types."""
    if operand.kind == "index":
        return ScalarType(INDEX)
    element = find_dtype(operand.dtype or "")
    if isinstance(operand.type, str):
        element = getattr(types.get(operand.type), "dtype", None)
    elif operand.type is not None:
        return operand.type
    return ScalarType(element) if isinstance(element, DType) else None


class _Call:
    """One call of an instruction in the spelling of tile instructions."""

    def __init__(self, instruction: isa.Instruction, kwargs: dict[str, Any], place: Place) -> None:
        self.instruction = instruction
        self.name = instruction.name
        self.wait = kwargs.pop("wait", None)
        self.types = _types(kwargs.pop("type", None))
        self.place = renamed(place, kwargs.pop("named", None))
        operands = {o.name for o in instruction.operands}
        self.offsets = kwargs.pop("offsets", None) if instruction.assembly.indexed else None
        self.operands = {k: v for k, v in kwargs.items() if k in operands}
        rest = {k: v for k, v in kwargs.items() if k not in operands}
        self.attributes = _in_place(instruction) | attributes_of(instruction, rest)

    def build(self, args: Sequence[Any]) -> Any:
        destinations, form, bound = self.bind(args)
        body = current()
        groups = self.indices(form, bound) or self.parts(form, bound)
        ins = [v for n in form for v in self.values(n, bound)]
        outs = [self.value(n, bound) for n in destinations] if not self.makes_results else []
        index = [arith.as_scalar(o, INDEX, "offsets", self.name) for o in self.offsets or ()]
        for handle in (*ins, *outs, *index):
            body.use(handle, self.name)
        synchronise.wait(self.wait, self.place)
        node = Node(self.name, (*ins, *index), outs, [], self.attributes, [], groups)
        node.form, node.span = self.form(grouped=bool(groups)), self.place.span
        body.emit(node)
        if not self.makes_results:
            return synchronise.Event(node, body, body.stack[-1], self.place)
        count = len(destinations)
        for i, t in enumerate(self.result_types(destinations)):
            node.results.append(body.define(t, self.place.target(i, count)))
        return node.results[0] if count == 1 else tuple(node.results)

    @property
    def makes_results(self) -> bool:
        """Whether destinations are values the operation makes, rather than tiles it is given."""
        declared = self.instruction.destinations
        result = bool(declared) and all(o.kind in ("scalar", "handle") for o in declared)
        return bool(self.types) or result

    def form(self, *, grouped: bool) -> Form:
        if self.makes_results:
            return "ssa"
        fmt = formats.find_format(self.name) if self.name in formats.TWO_SPELLINGS else None
        return "custom" if fmt is not None and fmt.grouped == grouped else "dps"

    # -- operands ------------------------------------------------------------------------------------

    def bind(self, args: Sequence[Any]) -> _Overload:
        """The overload that fits, and the given objects by operand name."""
        overload, close = self.fitting(args)
        return overload if overload is not None else self.refuse(args, close)

    def fitting(self, args: Sequence[Any]) -> tuple[_Overload | None, tuple[str, Any] | None]:
        """The overload that arguments fit; else an operand of one with as many, and its wrong argument."""
        close: tuple[str, Any] | None = None
        for destinations, form in signatures(self.instruction):
            operands = self.listed(destinations, form)
            rest = [n for n in operands if n not in self.operands]
            counts = not self.types or len(self.types) == len(destinations)
            if not counts or len(rest) != len(args) or not self.operands.keys() <= set(operands):
                continue
            bound = {**self.operands, **dict(zip(rest, args, strict=True))}
            wrong = next((n for n in operands if not self.fits(n, bound[n])), None)
            if wrong is None:
                return (destinations, form, bound), None
            close = close or (wrong, bound[wrong])
        return None, close

    def listed(self, destinations: tuple[str, ...], form: tuple[str, ...]) -> tuple[str, ...]:
        return form if self.makes_results else (*destinations, *form)

    def refuse(self, args: Sequence[Any], close: tuple[str, Any] | None) -> NoReturn:
        if not building():
            sources = len(signatures(self.instruction)[0][1])
            result = user_code.expression()
            texts = (
                [ast.unparse(a) for a in result.tree.args]
                if result and isinstance(result.tree, ast.Call)
                else []
            )
            fix = f"pto.ops.{python_name(self.name)}({', '.join(texts[-sources:])})" if texts else ""
            fail(NO_PROGRAM, allowed=WHERE_PROGRAMS, fix=fix, instruction=self.name)
        if close is not None:
            operand, value = close
            kind = self.instruction.operand(operand).kind
            self.fail(
                f"got {described(value)}; allowed: {KINDS.get(kind, kind)}",
                operand,
                self.proposed(args) or _with_array(value, args, kind) or _viewed(value, args, kind),
            )
        arguments = [*map(described, args), *(f"{k}={described(v)}" for k, v in self.operands.items())]
        expected = dict.fromkeys(self.listed(*s) for s in signatures(self.instruction))
        allowed = " or ".join(f"{python_name(self.name)}({', '.join(w)})" for w in expected)
        self.fail(f"got ({', '.join(arguments)}); allowed: {allowed}", fix=self.proposed(args))

    def proposed(self, args: Sequence[Any]) -> str:
        """The call as written with its arguments in an order that fits, or with the first one as destination.

        "" where none fits.
        """
        written = user_code.expression()
        call = written.tree if written is not None else None
        if not isinstance(call, ast.Call) or len(call.args) != len(args) or len(args) > MOST_ARGUMENTS:
            return ""
        texts = list(map(ast.unparse, call.args))
        if (
            len(args) == 1
            and isinstance(args[0], list | tuple)
            and isinstance(call.args[0], ast.List | ast.Tuple)
        ):
            args, texts = args[0], list(map(ast.unparse, call.args[0].elts))
        pairs = [_of_event(*pair) for pair in zip(args, texts, strict=True)]
        keywords = list(map(ast.unparse, call.keywords))
        counts = {len(self.listed(*s)) for s in signatures(self.instruction)}
        fewer = (pairs[:n] for n in sorted(counts, reverse=True) if n < len(pairs))
        more = ((*pairs, *[pairs[-1]] * (n - len(pairs))) for n in sorted(counts) if n > len(pairs) > 0)
        for tried in (*permutations(pairs), (*pairs[:1], *pairs), *fewer, *more):
            if self.fitting([value for value, _ in tried])[0] is not None:
                texts = [*(text for _, text in tried), *keywords]
                return f"pto.{python_name(self.name)}({', '.join(texts)})"
        return ""

    def fail(self, message: str, operand: str | None = None, fix: str = "") -> NoReturn:
        fail(message, self.place.span, instruction=self.name, operand=operand, fix=fix)

    def fits(self, name: str, value: Any) -> bool:
        operand = self.instruction.operand(name)
        if name in _lists(self.name) and isinstance(value, list | tuple):
            return bool(value) and all(isinstance(g, Handle) and accepts(operand, g.type) for g in value)
        if isinstance(value, Handle):
            return accepts(operand, value.type)
        if isinstance(value, Indexed):
            return operand.kind == "gm" and bool(self.instruction.assembly.indexed)
        return operand.kind in ("scalar", "index") and arith.is_number(value)

    def values(self, name: str, bound: Mapping[str, Any]) -> list[Handle]:
        """The handles of one source: several for a list."""
        if isinstance(bound[name], list | tuple):
            return list(bound[name])
        return [self.value(name, bound)]

    def parts(self, form: tuple[str, ...], bound: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
        """How many values each source has, where one of them is a list by the syntax."""
        if not _lists(self.name) & set(form):
            return ()
        return tuple((n, len(self.values(n, bound))) for n in form)

    def value(self, name: str, bound: Mapping[str, Any]) -> Handle:
        argument = bound[name]
        if isinstance(argument, Handle):
            return argument
        if isinstance(argument, Indexed):
            return argument.view
        return arith.as_scalar(argument, self.number_type(name, bound), name, self.name)

    def number_type(self, name: str, bound: Mapping[str, Any]) -> DType:
        """The element type of an operand that is given as a Python number."""
        operand = self.instruction.operand(name)
        types = {n: argument.type for n, argument in bound.items() if hasattr(argument, "type")}
        types |= dict(zip((o.name for o in self.instruction.destinations), self.types, strict=False))
        t = declared_type(operand, types)
        if isinstance(t, ScalarType):
            return t.dtype
        for other, t in types.items():
            if operand.dtype is not None and self.instruction.operand(other).dtype == operand.dtype:
                d = getattr(t, "dtype", None)
                if isinstance(d, DType):
                    return d
        return F32 if isinstance(bound[name], float) else INDEX

    def indices(self, form: tuple[str, ...], bound: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
        places = [v for v in bound.values() if isinstance(v, Indexed)]
        if places:
            self.offsets = places[0].offsets
        if self.offsets is None:
            return ()
        beside = self.instruction.assembly.indexed
        if form != beside:
            allowed = ", ".join(beside)
            fail(f"got indices beside {', '.join(form)}", allowed=f"beside {allowed}", instruction=self.name)
        return (*((n, 1) for n in form), ("offsets", len(self.offsets)))

    def result_types(self, destinations: tuple[str, ...]) -> tuple[Type, ...]:
        if self.types:
            return self.types
        types = [declared_type(self.instruction.operand(n), {}) for n in destinations]
        return tuple(t for t in types if t is not None)


def _of_event(value: Any, text: str) -> tuple[Any, str]:
    """The tile that an instruction writes for its event, other arguments as they are."""
    outs = value.node.outs if isinstance(value, synchronise.Event) else ()
    return (outs[0], outs[0].label) if outs and outs[0].label.isidentifier() else (value, text)


def _viewed(value: Any, args: Sequence[Any], kind: str) -> str:
    """The call with a view of a pointer, as large as the tile beside it; of a printed number its format."""
    written = user_code.expression()
    call = written.tree if written is not None else None
    if not isinstance(call, ast.Call) or not isinstance(value, Handle) or not value.label.isidentifier():
        return ""
    if isinstance(value.type, ScalarType) and ast.unparse(call.func).rpartition(".")[2] == TPRINT.name:
        return instead.printed(value.label, value.type)
    tile = next((a for a in args if isinstance(a, TileHandle)), None)
    if kind != "gm" or not isinstance(value.type, PtrType) or tile is None:
        return ""
    view = f"pto.GlobalTensor({value.label}, {tile.shape})"
    texts = [view if a is value else ast.unparse(t) for a, t in zip(args, call.args, strict=False)]
    return f"{ast.unparse(call.func)}({', '.join(texts)})"


def _with_array(value: Any, args: Sequence[Any], kind: str) -> str:
    """The call with an array of Python as an argument of the kernel, or as a number; "" for other values."""
    written = user_code.expression()
    call = written.tree if written is not None else None
    shape, dtype = getattr(value, "shape", None), find_dtype(str(getattr(value, "dtype", "")))
    if kind == "scalar" and isinstance(value, str):
        return arith.meant(value, F32)
    if not isinstance(call, ast.Call) or shape is None or dtype is None or len(call.args) != len(args):
        return ""
    place = next(i for i, a in enumerate(args) if a is value)
    text = ast.unparse(call.args[place])

    def called(replaced: str) -> str:
        texts = [*map(ast.unparse, call.args[:place]), replaced, *map(ast.unparse, call.args[place + 1 :])]
        return f"{ast.unparse(call.func)}({', '.join(texts)})"

    if not shape:
        return called(f"float({text})")
    sizes, name = (1, *shape)[-2:], text if text.isidentifier() else "array"
    view = f"pto.GlobalTensor({name}, {sizes})"
    lines = [f'# {name} is an argument of the kernel, of type pto.ptr("{dtype}")']
    if kind == "gm":
        return "\n".join(("", *lines, called(view)))
    if kind != "tile" or len(shape) > 2:
        return ""
    allocation = f'{name}_tile = pto.alloc_tile("{dtype}", {sizes[0]}, {sizes[1]})'
    return "\n".join(("", *lines, allocation, f"pto.tload({name}_tile, {view})", called(f"{name}_tile")))


KINDS = {
    "tile": "a tile",
    "scalar": "a scalar or a Python number",
    "index": "an index or a Python integer",
    "gm": "a view of global memory",
    "ptr": "a pointer",
    "vector": "a vector",
    "handle": "a handle",
}


@cache
def _lists(name: str) -> frozenset[str]:
    """The operands of an instruction that its syntax writes as lists."""
    fmt = formats.find_format(name)
    items = fmt.items if fmt is not None else ()
    return frozenset(i.name for i in items if isinstance(i, formats.OperandItem) and i.many)


def _in_place(instruction: isa.Instruction) -> dict[str, AttrValue]:
    """Defaults of the attributes that the syntax has places for: texts cannot leave them out."""
    fmt = formats.find_format(instruction.name)
    places = [i.name for i in fmt.items if isinstance(i, formats.AttrItem)] if fmt is not None else []
    return {a.name: a.default for a in instruction.attributes if a.name in places}


def _types(types: Any) -> tuple[Type, ...]:
    if types is None:
        return ()
    values = types if isinstance(types, list | tuple) else (types,)
    return tuple(argument_types.as_type(t) for t in values)


def renamed(place: Place, named: Any) -> Place:
    """The place with the names that ``named=`` gives to the results."""
    if named is None:
        return place
    return Place(place.span, (named,) if isinstance(named, str) else tuple(named))


# -- attributes --------------------------------------------------------------------------------------


def attributes_of(instruction: isa.Instruction, keywords: Mapping[str, Any]) -> dict[str, AttrValue]:
    """Attributes by their declared names, in the types that the declaration asks for."""
    values: dict[str, AttrValue] = {}
    for key, value in keywords.items():
        attribute = instruction.attribute(key)
        if attribute is None:
            operands = ", ".join(o.name for o in instruction.operands)
            names = ", ".join(a.name for a in instruction.attributes) or "none"
            fail(
                f"got the keyword {key!r}",
                allowed=f"operands {operands or 'none'}, attributes {names}, and wait, type, named",
                fix=_keyword(instruction, key, value) or _operand(instruction, key),
                instruction=instruction.name,
            )
        if attribute.name in values:
            fail(
                f"got the attribute {attribute.name} twice",
                allowed=f"one of {', '.join(attribute.keys)}",
                instruction=instruction.name,
            )
        if value is not None:
            values[attribute.name] = attribute_value(instruction.name, attribute, value)
    return values


def _operand(instruction: isa.Instruction, key: str) -> str:
    """The call with the value of an unknown keyword as the operand that it leaves out, "" for other calls."""
    written = user_code.expression()
    call = written.tree if written is not None else None
    if not isinstance(call, ast.Call) or any(k.arg is None for k in call.keywords):
        return ""
    value = next(ast.unparse(k.value) for k in call.keywords if k.arg == key)
    rest = [f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords if k.arg != key]
    first = key in ("out", "output", "result", "dest")
    args = list(map(ast.unparse, call.args))
    texts = [value, *args, *rest] if first else [*args, value, *rest]
    counts = {len(d) + len(form) for d, form in signatures(instruction)}
    fits = len(args) + 1 in counts
    return f"pto.{python_name(instruction.name)}({', '.join(texts)})" if fits else ""


def _keyword(instruction: isa.Instruction, key: str, value: Any) -> str:
    """The attribute that was meant by a keyword: one that has the value, or one of a close name."""
    having = [
        a for a in instruction.attributes if issubclass(a.type, IntEnum) and value in a.type.__members__
    ]
    names = (
        [a.name for a in having]
        if len(having) == 1
        else [nearest(key, [a.name for a in instruction.attributes])]
    )
    return f"{names[0]}={json.dumps(value)}" if names[0] and isinstance(value, str | int | bool) else ""


def attribute_value(name: str, attribute: isa.Attribute, choice: Any) -> AttrValue:
    """An attribute's value; enumerations also by the names of their members."""
    what = attribute.name
    expected = attribute.type
    if issubclass(expected, IntEnum):
        return argument_types.member(expected, choice, what)
    if issubclass(expected, Symbol):
        return symbol(choice, what)
    if expected is tuple and isinstance(choice, list | tuple):
        return tuple(choice)
    if expected is int and isinstance(choice, str) and choice.upper().startswith("EVENT_ID"):
        choice = int(choice[8:]) if choice[8:].isdecimal() else choice
    if isinstance(choice, bool) != (expected is bool) or not isinstance(choice, expected):
        handle = choice if expected is str else None
        shown = isinstance(handle, Handle) and handle.label.isidentifier()
        fix = instead.printed(handle.label, handle.type) if isinstance(handle, Handle) and shown else ""
        fail(f"{what}: got {described(choice)}", allowed=expected.__name__, instruction=name, fix=fix)
    value: AttrValue = choice
    return value


def symbol(value: Any, what: str) -> Symbol:
    """The name of a function: text, or the kernel itself."""
    if isinstance(value, Symbol):
        return value
    name = value if isinstance(value, str) else getattr(value, "symbol", None)
    if not isinstance(name, str):
        fail(f"{what}: got {described(value)}", allowed="a function, by name or as a kernel")
    return Symbol(name.removeprefix("@"))
