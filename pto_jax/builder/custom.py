"""Operations with a syntax of their own as Python functions, made from their syntax entries."""

import ast
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from .. import ir, isa
from ..errors import BuildError
from ..files import user_code
from ..isa.bind import accepts
from ..text.formats import (
    IMPLIED_TYPES,
    OPERAND_TYPES,
    PREDICATES,
    AnyOrderItem,
    AttrItem,
    Format,
    ImpliedItem,
    Item,
    OperandItem,
    OptionalItem,
    TypeItem,
)
from . import argument_types, arith, instead, places, synchronise
from .body import Node, current
from .calls import KINDS, attributes_of, declared_type, document, python_name, renamed
from .public import COMMON, completed
from .values import Handle, described


def custom_function(fmt: Format, instruction: isa.Instruction | None) -> Callable[..., Any]:
    """The function that builds the operation of a syntax entry."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return Call(fmt, instruction, places.here(), kwargs).build(args)

    if instruction is not None:
        document(call, instruction, f"{python_name(fmt.name)}({', '.join(_slots(fmt))})")
    else:
        call.__name__ = call.__qualname__ = python_name(fmt.name)
        call.__doc__ = f"Build {fmt.name}({', '.join(_slots(fmt))})."
    return call


def _slots(fmt: Format) -> dict[str, tuple[OperandItem | AttrItem, bool]]:
    """Operands and attributes in their places, and whether each may be left out."""
    slots: dict[str, tuple[OperandItem | AttrItem, bool]] = {}

    def collect(items: Sequence[Item], optional: bool) -> None:
        for item in items:
            if isinstance(item, OptionalItem):
                collect(item.items, True)
            elif isinstance(item, AnyOrderItem):
                for part in item.parts:
                    collect(part, True)
            elif isinstance(item, OperandItem | AttrItem):
                slots.setdefault(item.name, (item, optional))

    collect(fmt.items, False)
    return slots


class Call:
    """One call of an operation with its own syntax."""

    def __init__(
        self, fmt: Format, instruction: isa.Instruction | None, place: places.Place, kwargs: dict[str, Any]
    ) -> None:
        self.fmt = fmt
        self.instruction = instruction
        self.name = fmt.name
        self.slots = _slots(fmt)
        self.wait = kwargs.pop("wait", None)
        self.type = kwargs.pop("type", None)
        self.place = renamed(place, kwargs.pop("named", None))
        self.kwargs = kwargs
        self.args: tuple[Any, ...] = ()
        #: Whether the call is tried for a fix: its own errors need none.
        self.tried = False

    def build(self, args: Sequence[Any]) -> Any:
        """Add the operation; its result, or an event where it runs on a pipe of its own."""
        body = current()
        self.args = tuple(args)
        operands, attributes = self.assigned(args)
        ins: list[Handle] = []
        groups: list[tuple[str, int]] = []
        for name, value in operands.items():
            values = self.operand(name, value, operands)
            ins += values
            groups.append((name, len(values)))
        t = self.result(operands, attributes)
        for handle in ins:
            body.use(handle, self.name)
        synchronise.wait(self.wait, self.place)
        node = Node(self.name, ins, (), [], attributes, [], tuple(groups) if self.fmt.grouped else ())
        node.span = self.place.span
        body.emit(node)
        if self.fmt.results > 1:
            node.results += [body.define(ir.ScalarType(ir.INDEX), None) for _ in range(self.fmt.results)]
            return tuple(node.results)
        if t is not None:
            node.results.append(body.define(t, self.place.target()))
            return node.results[0]
        on_a_pipe = self.instruction is not None and self.instruction.pipe != ir.Pipe.S
        return synchronise.Event(node, body, body.stack[-1], self.place) if on_a_pipe else None

    # -- what was given ------------------------------------------------------------------------------

    def assigned(self, args: Sequence[Any]) -> tuple[dict[str, Any], dict[str, ir.AttrValue]]:
        """Operands by the names of the syntax, and attributes."""
        aliases = self.aliases()
        arguments = {aliases.get(k, k): v for k, v in self.kwargs.items()}
        free = [n for n in self.slots if n not in arguments]
        if len(args) > len(free):
            self.wrong(f"got {len(args)} arguments by position")
        arguments.update(self.placed(free, args))
        numbered = self.numbered(aliases)
        operands: dict[str, Any] = {}
        attributes: dict[str, ir.AttrValue] = {}
        for name, (item, optional) in self.slots.items():
            value = arguments.pop(name, None)
            if value is None:
                if not optional:
                    self.wrong(f"got no {name}")
            elif isinstance(item, OperandItem) or (
                item.operand and (isinstance(value, Handle) or name in numbered)
            ):
                operands[name if isinstance(item, OperandItem) else item.operand] = value
            else:
                attributes[name] = self.attribute(item, value)
        attributes.update(self.others(arguments))
        return operands, attributes

    def placed(self, free: Sequence[str], args: Sequence[Any]) -> dict[str, Any]:
        """Arguments by position with their names; where parts have no order, the next one that takes each."""
        if not any(isinstance(i, AnyOrderItem) for i in self.fmt.items):
            return dict(zip(free, args, strict=False))
        named: dict[str, Any] = {}
        for value in args:
            at = next((i for i, n in enumerate(free) if self.takes(n, value)), None)
            if at is None:
                self.wrong(f"got {described(value)} by position")
            named[free[at]] = value
            free = free[at + 1 :]
        return named

    def takes(self, name: str, value: Any) -> bool:
        """Whether an operand may be this value; None stands for one that is left out."""
        declared = self.declared(name)
        if value is None or declared is None:
            return True
        if isinstance(value, Handle):
            return accepts(declared, value.type)
        return declared.kind in ("scalar", "index") and arith.is_number(value)

    def numbered(self, aliases: Mapping[str, str]) -> set[str]:
        """Places of an attribute or an operand that the call names as the operand: numbers are constants."""
        if self.instruction is None:
            return set()
        operands = {o.name for o in self.instruction.operands}
        return {aliases[k] for k in self.kwargs if k in operands and k in aliases}

    def aliases(self) -> dict[str, str]:
        """Declared names of operands and attributes that the syntax calls otherwise."""
        if self.instruction is None:
            return {}
        names = {k: a.name for a in self.instruction.attributes for k in a.keys if a.name in self.slots}
        declared = max(self.instruction.forms, key=len)
        written = [n for n, (i, _) in self.slots.items() if isinstance(i, OperandItem) or i.operand]
        if len(declared) == len(written):
            names |= {d: w for d, w in zip(declared, written, strict=True) if d not in self.slots}
        return names

    def others(self, values: dict[str, Any]) -> dict[str, ir.AttrValue]:
        """Attributes that the syntax has no place for; BuildError for a name that nothing declares."""
        if self.instruction is not None:
            unknown = next((k for k in values if self.instruction.attribute(k) is None), None)
            if unknown is not None:
                self.wrong(f"got the keyword {unknown!r}")
            return attributes_of(self.instruction, values)
        return {k: v for k, v in values.items() if v is not None}

    def wrong(self, actual: str) -> NoReturn:
        """Raise BuildError with what the call has and what the operation takes."""
        attributes = [a.name for a in self.instruction.attributes] if self.instruction is not None else []
        names = [*self.slots, *(f"{a}=" for a in attributes if a not in self.slots)]
        places.fail(
            f"{actual}",
            self.place.span,
            allowed=f"{python_name(self.name)}({', '.join(names)}), and wait, type, named",
            instruction=self.name,
            fix=self.proposed(),
        )

    def proposed(self) -> str:
        """The call as written with its arguments in another order or by other names, or completed."""
        written = user_code.expression()
        call = written.tree if written is not None and not self.tried else None
        if not isinstance(call, ast.Call) or len(call.args) != len(self.args) or written is None:
            return ""
        objects = dict(_objects(zip(call.args, self.args, strict=True)))
        objects |= _objects((k.value, self.kwargs[k.arg]) for k in call.keywords if k.arg in self.kwargs)

        def named(args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> dict[str, Any]:
            own = {k.arg: k.value for k in keywords if k.arg and k.arg not in COMMON}
            own |= dict(zip((n for n in self.slots if n not in own), args, strict=False))
            return {n: objects[v] if v in objects else ast.literal_eval(v) for n, v in own.items()}

        def fits(args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> bool:
            return len(args) <= len(self.slots) and self.fits(named(args, keywords))

        required = {n for n, (_, optional) in self.slots.items() if not optional}
        examples = lambda *arguments: self.examples(named(*arguments))  # noqa: E731
        result = completed(call, list(self.slots), required, examples, fits)
        return result or instead.formatted(call, [v.type for v in written.objects() if isinstance(v, Handle)])

    def examples(self, values: Mapping[str, Any]) -> dict[str, str]:
        """Values of the arguments that a call leaves out, as Python, as far as the others tell them."""
        shape = next((v for n, v in values.items() if n == "shape" and isinstance(v, list | tuple)), ())
        view = getattr(values.get("view"), "shape", ())
        numbers = all(isinstance(n, int) for n in (*shape, *view))
        defaults = {"event": 0, "pipe": "PIPE_ALL", "offset": 0}
        if numbers and shape:
            defaults["strides"] = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        if numbers and view:
            defaults |= {"offsets": [0] * len(view), "sizes": list(view)}
        return {n: repr(v) for n, v in defaults.items()}

    def fits(self, arguments: dict[str, Any]) -> bool:
        """Whether the operation can be built with these arguments by name."""
        call = Call(self.fmt, self.instruction, self.place, dict(arguments))
        call.tried = True
        try:
            operands, attributes = call.assigned(())
            for name, value in operands.items():
                call.operand(name, value, operands)
            call.result(operands, attributes)
        except BuildError:
            return False
        return True

    def attribute(self, item: AttrItem, value: Any) -> ir.AttrValue:
        """An attribute of the syntax as programs hold it: pipes, events and predicates by name or member.

        BuildError for a value that is not one of its own.
        """
        what = f"{self.name}: {item.name}"
        match item.kind:
            case "pipe":
                if argument_types.choice(ir.Pipe, value) is None and self.proposed():
                    self.wrong(f"{item.name}: got {described(value)}")
                return argument_types.member(ir.Pipe, value, what)
            case "sync_op":
                return argument_types.member(ir.PipeEventType, value, what)
            case "token":
                return argument_types.either(ir.PipeEventType, ir.Pipe, given=value, what=what)
            case "word":
                allowed = PREDICATES[self.name]
                if value not in allowed:
                    places.fail(f"{what}: got {value!r}", self.place.span, allowed=", ".join(allowed))
                return str(value)
        declared = self.instruction.attribute(item.name) if self.instruction is not None else None
        if declared is not None and self.instruction is not None:
            return attributes_of(self.instruction, {item.name: value})[declared.name]
        attribute: ir.AttrValue = tuple(value) if isinstance(value, list) else value
        return attribute

    # -- operands and results ------------------------------------------------------------------------

    def operand(self, name: str, value: Any, values: Mapping[str, Any]) -> list[Handle]:
        """The handles of one operand: several for a list, constants for Python numbers.

        BuildError for what its declaration does not accept.
        """
        item = self.slots[name][0] if name in self.slots else None
        many = isinstance(item, OperandItem) and item.many
        entries = list(value) if many and isinstance(value, list | tuple) else [value]
        declared = self.declared(name)
        handles = []
        for entry in entries:
            handle = entry
            if not isinstance(entry, Handle):
                if declared is not None and declared.kind not in ("scalar", "index"):
                    self.refuse(name, entry, declared.kind)
                handle = arith.as_scalar(entry, self.number_type(name, entry, values), name, self.name)
            if declared is not None and not accepts(declared, handle.type):
                self.refuse(name, handle, declared.kind)
            handles.append(handle)
        return handles

    def refuse(self, name: str, value: object, kind: str) -> NoReturn:
        """Raise BuildError for a value that an operand does not take; ``kind`` is that of its declaration."""
        places.fail(
            f"got {described(value)}",
            self.place.span,
            allowed=f"{KINDS.get(kind, kind)}",
            instruction=self.name,
            operand=name,
            fix=self.proposed(),
        )

    def declared(self, name: str) -> isa.Operand | None:
        """The declaration of an operand, by its name in the syntax."""
        if self.instruction is None:
            return None
        names = {o.name: o for o in self.instruction.operands}
        back = {w: d for d, w in self.aliases().items() if d in names}
        return names.get(back.get(name, name))

    def types_of(self, values: Mapping[str, Any]) -> dict[str, ir.Type]:
        """The types of operands by their names in the declaration."""
        pairs = ((self.declared(name), v) for name, v in values.items() if isinstance(v, Handle))
        return {operand.name: v.type for operand, v in pairs if operand is not None}

    def number_type(self, name: str, value: Any, values: Mapping[str, Any]) -> ir.DType:
        """The element type of an operand that is given as a Python number."""
        for other, same in ((i.targets, name in i.targets) for i in self.fmt.flat if isinstance(i, TypeItem)):
            partner = next((values[n] for n in other if isinstance(values.get(n), Handle)), None)
            if same and partner is not None and isinstance(partner.type, ir.ScalarType):
                return partner.type.dtype
            if same and "^" in other and self.type is not None:
                t = argument_types.as_type(self.type)
                return t.dtype if isinstance(t, ir.ScalarType) else ir.INDEX
        if OPERAND_TYPES.get(name) == ir.ScalarType(ir.INDEX):
            return ir.INDEX
        operand = self.declared(name)
        declared = declared_type(operand, self.types_of(values)) if operand is not None else None
        if isinstance(declared, ir.ScalarType):
            return declared.dtype
        return ir.I1 if isinstance(value, bool) else ir.F32 if isinstance(value, float) else ir.INDEX

    def result(self, values: Mapping[str, Any], attributes: Mapping[str, ir.AttrValue]) -> ir.Type | None:
        """The type of the result; None where the operation has none, or an optional one is not asked for."""
        if self.fmt.results != 1:
            if self.type is not None and self.fmt.results == 0:
                self.wrong("got type=, and the operation has no result")
            return None
        if self.type is not None:
            return argument_types.as_type(self.type)
        optional = self.instruction is not None and any(
            o.optional for o in self.instruction.destinations if o.name == "result"
        )
        if optional:
            return None
        handles = {k: v for k, v in values.items() if isinstance(v, Handle)}
        for item in self.fmt.flat:
            if isinstance(item, ImpliedItem) and item.rule in IMPLIED_TYPES:
                return IMPLIED_TYPES[item.rule]
            if isinstance(item, TypeItem) and "^" in item.targets:
                same = next((n for n in item.targets if n != "^"), None)
                if same is not None:
                    return self.operand(same, values[same], values)[0].type
        type_ = _derived(self.name, handles, values, attributes)
        if type_ is None and self.instruction is not None:
            types = self.types_of(handles)
            type_ = next((declared_type(o, types) for o in self.instruction.destinations), None)
        if type_ is None:
            self.wrong("got no type for the result, which does not follow from the operands (type=)")
        return type_


def _objects(pairs: Iterable[tuple[ast.expr, Any]]) -> Iterator[tuple[ast.expr, Any]]:
    """Parts of a call with the objects that they are: those of lists, too."""
    for tree, value in pairs:
        yield tree, value
        if isinstance(tree, ast.List | ast.Tuple) and isinstance(value, list | tuple):
            yield from zip(tree.elts, value, strict=False)


def _extents(numbers: Any, view: ir.Type | None = None) -> tuple[int | None, ...]:
    if not isinstance(numbers, list | tuple):
        rank = len(view.dims) if isinstance(view, ir.TensorViewType | ir.PartitionViewType) else 1
        fix = str([*[1] * (rank - 1), numbers]) if isinstance(numbers, int) else ""
        places.fail(f"got {described(numbers)}", allowed="a number for each dimension in a list", fix=fix)
    return tuple(None if isinstance(n, Handle) else int(n) for n in numbers)


# Instructions by name: the types of results follow the operations' own syntax, as in the table of formats.
def _derived(
    name: str,
    handles: Mapping[str, Handle],
    values: Mapping[str, Any],
    attributes: Mapping[str, ir.AttrValue],
) -> ir.Type | None:
    """The type that a result has by the operands."""
    first = next(iter(handles.values())).type if handles else None
    d = getattr(first, "dtype", None)
    match name:
        case "make_tensor_view" if isinstance(d, ir.DType):
            return ir.TensorViewType(_extents(values["shape"]), d)
        case "partition_view" if isinstance(d, ir.DType):
            return ir.PartitionViewType(_extents(values["sizes"], first), d)
        case "global_subview" if isinstance(d, ir.DType):
            return ir.PartitionViewType(_extents(attributes["sizes"]), d)
        case "subset" | "subview" if isinstance(first, ir.TileType):
            rows, cols = _extents(attributes["sizes"])
            assert rows is not None and cols is not None
            sizes = (values.get("valid_row", rows), values.get("valid_col", cols))
            v_row, v_col = _extents(sizes)
            return replace(first, rows=rows, cols=cols, v_row=v_row, v_col=v_col)
        case "addptr" | "bind_tile":
            return first
        case "tensor_view_addr" if isinstance(d, ir.DType):
            return ir.PtrType(d)
        case "tile_buf_addr" if isinstance(first, ir.TileType):
            return ir.PtrType(first.dtype, ir.AddressSpace[first.loc.name])
    return None
