"""Operations of a program as C++ statements."""

from collections.abc import Callable, Iterable

from ... import ir, isa
from ...analysis.addresses import scalar_dtype
from ...isa.effects import pipe_of
from ...text.cpp_names import member
from .intrinsics import needs_scratch, text
from .writer import CONTROL, Call, Writer, expression, identifier, refuse, valid_sizes

Handler = Callable[[Writer, ir.Op], None]


def write(writer: Writer, op: ir.Op) -> None:
    """Write one operation."""
    handler = CONTROL.get(op.name) or _HANDLERS.get(op.name)
    if handler is not None:
        handler(writer, op)
    elif op.name.startswith("arith."):
        value = expression(op, [writer.of(v) for v in op.ins])
        d = scalar_dtype(op.results[0].type)
        writer.line(f"{d.cpp} {writer.bind(op.results[0])} = {value};")
    else:
        _instruction(writer, op)


def _instruction(writer: Writer, op: ir.Op) -> None:
    resolved = writer.unit.resolved.of(op)
    instruction = resolved.instruction
    if instruction is None or instruction.syntax == "custom" or not instruction.executable:
        raise refuse(op, "is not written in C++")
    if op.groups:
        raise refuse(op, "names a window of a view; allowed: partition_view before it")
    bound = resolved.fitting()
    if not op.outs:
        _results(writer, op, bound)
    names = {n: _argument(writer, n, v) for n, v in bound.values.items()}
    types = {n: writer.type(v.type, _layout(writer, v), op) for n, v in _typed(bound.values.items())}
    asked = bound.attrs.get("layout")
    for name, value in bound.values.items():
        if isinstance(value.type, ir.PartitionViewType | ir.TensorViewType):
            names[name] = _seen(writer, value, asked)
            layout = asked if isinstance(asked, ir.GlobalLayout) else _layout(writer, value)
            types[name] = writer.type(value.type, layout, op)
    call = Call(op, bound, names, types, writer.unit.mode)
    if needs_scratch(call):
        names["tmp"], types["tmp"] = _scratch(writer, op, call)
    statement = text(call)
    writer.order(member(pipe_of(op)))
    writer.line(f"{statement};" if not statement.endswith("}") else statement)


def _argument(writer: Writer, operand: str, value: ir.Value) -> str:
    """An argument; those that overloads differ by are converted, as variables could also be events."""
    kind = _CONVERTED.get(operand)
    name = writer.of(value)
    return f"static_cast<{kind}>({name})" if kind is not None else name


def _typed(values: Iterable[tuple[str, ir.Value]]) -> list[tuple[str, ir.Value]]:
    return [(n, v) for n, v in values if not isinstance(v.type, ir.VectorType)]


def _layout(writer: Writer, value: ir.Value) -> ir.GlobalLayout:
    return writer.scope.layouts.get(value.name, ir.GlobalLayout.ND)


def _seen(writer: Writer, value: ir.Value, asked: object) -> str:
    """A view in the layout that an instruction asks for."""
    name = writer.of(value)
    if not isinstance(asked, ir.GlobalLayout) or asked == _layout(writer, value):
        return name
    other = writer.fresh_name(name)
    view = f"View<{_element(value)}, Layout::{asked.name}>"
    writer.line(f"{view} {other}({name}.data(), shape({name}), stride({name}));")
    return other


def _element(value: ir.Value) -> str:
    assert isinstance(value.type, ir.PartitionViewType | ir.TensorViewType)
    return value.type.dtype.cpp


def _results(writer: Writer, op: ir.Op, bound: isa.Bound) -> None:
    """Tiles that an instruction makes: full size, where their type leaves it open that of its sources."""
    sources = [v for n, v in bound.values.items() if v not in op.results and isinstance(v.type, ir.TileType)]
    above, beside = (bound.values.get(n, sources[0] if sources else None) for n in ("a", "b"))
    for result in op.results:
        t = result.type
        if not isinstance(t, ir.TileType):
            raise refuse(op, f"has a result of type {t}, which is not written in C++")
        rows = f"{writer.of(above)}.GetValidRow()" if above is not None else str(t.rows)
        cols = f"{writer.of(beside)}.GetValidCol()" if beside is not None else str(t.cols)
        sizes = (rows if t.v_row is None else str(t.v_row), cols if t.v_col is None else str(t.v_col))
        writer.declare_tile(op, result, sizes, None, clear=True)


def _scratch(writer: Writer, op: ir.Op, call: Call) -> tuple[str, str]:
    t = next(v.type for n, v in call.bound.values.items() if n in ("dst", "dstVal"))
    assert isinstance(t, ir.TileType)
    whole = t.with_valid(t.rows, t.cols)
    value = ir.Value(writer.fresh_name("scratch"), whole)
    writer.declare_tile(op, value, ("", ""), None)
    return writer.of(value), writer.type(whole)


# -- handles ---------------------------------------------------------------------------------------------


def _allocate(writer: Writer, op: ir.Op) -> None:
    t = op.results[0].type
    assert isinstance(t, ir.TileType)
    operands = {name: writer.of(op.group(name)[0]) for name, size in op.groups if size}
    if "addr" in operands and writer.unit.mode == "auto":
        raise refuse(op, "gives a tile an address; allowed in auto mode: none (use manual)")
    rows = operands.get("valid_row", str(t.rows)) if t.v_row is None else str(t.v_row)
    cols = operands.get("valid_col", str(t.cols)) if t.v_col is None else str(t.v_col)
    address = operands.get("addr")
    writer.declare_tile(op, op.results[0], (rows, cols), address, clear=True)


def _resize(writer: Writer, op: ir.Op) -> None:
    t = op.ins[0].type
    assert isinstance(t, ir.TileType)
    if valid_sizes(t) != (None, None):
        raise refuse(op, f"resizes {t}; allowed: a tile whose valid sizes are both open")
    tile, rows, cols = (writer.of(v) for v in op.ins)
    writer.order("PIPE_S")
    writer.line(f"{tile}.SetValidShape(static_cast<unsigned>({rows}), static_cast<unsigned>({cols}));")


def _assign(writer: Writer, op: ir.Op) -> None:
    if writer.unit.mode == "auto":
        raise refuse(op, "gives a tile an address; allowed in auto mode: none (use manual)")
    if op.results:
        raise refuse(op, "binds a moved tile; allowed: moving a tile in place")
    writer.order("PIPE_S")
    writer.line(f"TASSIGN({writer.of(op.ins[0])}, {writer.of(op.ins[1])});")


def _alias(writer: Writer, op: ir.Op) -> None:
    """Another handle over the same bytes."""
    source, value = op.ins[0], op.destinations[0]
    t, new = source.type, value.type
    assert isinstance(t, ir.TileType)
    assert isinstance(new, ir.TileType)
    if op.outs:
        raise refuse(op, "points a tile anew; allowed: binding a result")
    if t.bytes != new.bytes:
        raise refuse(op, f"sees {t} as {new}, which has another number of bytes")
    name = writer.of(source)
    same = t.shape == new.shape and op.name != "treshape"
    sizes = (f"{name}.GetValidRow()", f"{name}.GetValidCol()") if same else (str(new.rows), str(new.cols))
    whole = all(d.is_integer and d.bits == d.word_bits for d in (t.dtype, new.dtype))
    alike = t.dtype == new.dtype or whole
    _declare_alias(writer, op, value, sizes)
    if alike:
        writer.line(f"TRESHAPE({writer.of(value)}, {name});")
    else:
        _point(writer, op, value, f"{name}.data()")
    writer.scope.depths[value.name] = writer.scope.depths.get(source.name, 0)


def _declare_alias(writer: Writer, op: ir.Op, value: ir.Value, sizes: tuple[str, str]) -> None:
    writer.settle()
    writer.tile_variable(value, sizes, op)


def _point(writer: Writer, op: ir.Op, value: ir.Value, address: str) -> None:
    if writer.unit.mode == "auto":
        raise refuse(op, "sees bytes in a way that auto mode has no intrinsic for (use manual)")
    writer.line(f"TASSIGN({writer.of(value)}, reinterpret_cast<uint64_t>({address}));")


def _window(writer: Writer, op: ir.Op) -> None:
    """A part of a tile; in C++ a tile has the row pitch of its own type."""
    source, value = op.ins[0], op.destinations[0]
    t, result = source.type, value.type
    assert isinstance(t, ir.TileType)
    assert isinstance(result, ir.TileType)
    row_major = t.blayout == ir.BLayout.ROW_MAJOR
    pitch, own = (t.cols, result.cols) if row_major else (t.rows, result.rows)
    if t.boxed or t.dtype.packed or pitch != own or not t.is_full:
        raise refuse(op, f"takes {result} from {t}; allowed: whole rows of a tile that is valid as a whole")
    name, row, col = (writer.of(v) for v in op.ins)
    offset = f"{row} * {t.cols} + {col}" if row_major else f"{col} * {t.rows} + {row}"
    _declare_alias(writer, op, value, (str(result.rows), str(result.cols)))
    _point(writer, op, value, f"{name}.data() + ({offset})")
    writer.scope.depths[value.name] = writer.scope.depths.get(source.name, 0)


# -- memory ----------------------------------------------------------------------------------------------


def _make_view(writer: Writer, op: ir.Op) -> None:
    layout = op.attrs.get("layout")
    order = layout if isinstance(layout, ir.GlobalLayout) else ir.GlobalLayout.ND
    parts = [
        _five([writer.of(v) for v in op.group(g)], lead) for g, lead in (("shape", "1"), ("strides", "0"))
    ]
    pointer, result = writer.of(op.group("ptr")[0]), op.results[0]
    _view(writer, result, order, pointer, *parts)


def _part(writer: Writer, op: ir.Op) -> None:
    view, result = op.group("view")[0], op.results[0]
    offsets = [writer.of(v) for v in op.group("offsets")]
    sizes = [writer.of(v) for v in op.group("sizes")]
    static = op.attrs.get("sizes")
    if isinstance(static, tuple):
        sizes = [str(n) for n in static]
    t = view.type
    assert isinstance(t, ir.PartitionViewType | ir.TensorViewType)
    if t.dtype.packed:
        raise refuse(op, "takes a part of a tensor of 4-bit elements, which is not written in C++")
    name, first = writer.of(view), 5 - len(offsets)
    moved = " + ".join(f"{o} * {name}.GetStride({first + i})" for i, o in enumerate(offsets))
    strides = ", ".join(f"{name}.GetStride({i})" for i in range(5))
    _view(writer, result, _layout(writer, view), f"{name}.data() + {moved}", _five(sizes, "1"), strides)


def _five(numbers: list[str], lead: str) -> str:
    return ", ".join([lead] * (5 - len(numbers)) + numbers)


def _view(
    writer: Writer, result: ir.Value, layout: ir.GlobalLayout, data: str, shape: str, strides: str
) -> None:
    writer.scope.layouts[result.name] = layout
    name = writer.bind(result)
    writer.line(
        f"{writer.type(result.type, layout)} {name}({data}, AnyShape({shape}), AnyStride({strides}));"
    )


def _add_pointer(writer: Writer, op: ir.Op) -> None:
    pointer, offset = (writer.of(v) for v in op.ins)
    writer.line(f"{writer.type(op.results[0].type)} {writer.bind(op.results[0])} = {pointer} + {offset};")


def _element_of_tile(writer: Writer, op: ir.Op) -> None:
    tile, offset = op.ins
    t, d = tile.type, scalar_dtype(op.results[0].type)
    assert isinstance(t, ir.TileType)
    if t.loc != ir.Loc.VEC or t.dtype.packed:
        raise refuse(op, f"reads an element of {t}; allowed: a vector tile")
    value = f"{writer.of(tile)}.GetValue({writer.of(offset)})"
    if t.dtype != d:
        value = f"__builtin_bit_cast({d.cpp}, {value})"
    writer.order("PIPE_S")
    writer.line(f"{d.cpp} {writer.bind(op.results[0])} = {value};")


def _block(function: str) -> Handler:
    def handle(writer: Writer, op: ir.Op) -> None:
        writer.line(f"int64_t {writer.bind(op.results[0])} = {function}();")

    return handle


def _barrier(writer: Writer, op: ir.Op) -> None:
    writer.settle()


def _call(writer: Writer, op: ir.Op) -> None:
    callee = op.attrs["callee"]
    function = writer.unit.program.function(callee.name) if isinstance(callee, ir.Symbol) else None
    if function is None or function.name in writer.active:
        raise refuse(op, "calls a function that is recursive or not there")
    for value, parameter in zip(op.ins, function.args, strict=True):
        if value.type != parameter.type:
            raise refuse(op, f"gives {value} of type {value.type} for {parameter.type}")
        if _layout(writer, value) != ir.GlobalLayout.ND:
            raise refuse(op, f"gives {value}, a view in layout {_layout(writer, value).name}; allowed: ND")
    if any(isinstance(v.type, ir.TileType) for v in op.results) and writer.unit.mode == "auto":
        raise refuse(op, "returns a tile; allowed in auto mode: scalars and views (use manual)")
    name = writer.unit.name(identifier(function.name))
    inner = Writer(writer.unit, function, writer.active)
    inner.loops = writer.loops
    writer.unit.functions.append(inner.write(name))
    writer.settle()
    call = f"{name}({', '.join(writer.of(v) for v in op.ins)})"
    bound = [writer.bind(r) for r in op.results]
    if len(bound) > 1:
        writer.line(f"auto [{', '.join(bound)}] = {call};")
    else:
        writer.line(f"{f'{writer.type(op.results[0].type)} {bound[0]} = ' if bound else ''}{call};")
    for result in op.results:
        writer.scope.depths[result.name] = writer.loops


_CONVERTED = {"preQuantScalar": "uint64_t"} | dict.fromkeys(
    ("indexRow", "indexCol", "posM", "posK"), "uint16_t"
)
# Instructions by name: each is a statement of its own in C++, not a call of an intrinsic.
_HANDLERS: dict[str, Handler] = {
    "alloc_tile": _allocate,
    "set_validshape": _resize,
    "tassign": _assign,
    **dict.fromkeys(("treshape", "bitcast", "talias"), _alias),
    **dict.fromkeys(("subset", "tsubview"), _window),
    "make_tensor_view": _make_view,
    **dict.fromkeys(("partition_view", "global_subview"), _part),
    "addptr": _add_pointer,
    "tgetval": _element_of_tile,
    **{n: _block(n) for n in ("get_block_idx", "get_block_num")},
    **dict.fromkeys(("barrier", "barrier_sync", "tsync", "set_flag", "wait_flag"), _barrier),
    **dict.fromkeys(("record_event", "wait_event"), _barrier),
    "call": _call,
}
