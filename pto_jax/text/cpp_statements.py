"""Statements of a C++ kernel: a table of the forms that the assembler writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn

from .. import ir
from .cpp_calls import Calls
from .cpp_expressions import Groups, Thing
from .cpp_names import members, plain
from .cpp_tokens import MAX_DEPTH, Words
from .cpp_values import (
    ELEMENTS,
    INT,
    INT64,
    SCALARS,
    CType,
    Named,
    Number,
    Pipe,
    Pointer,
    Sizes,
    Types,
    Unplaced,
    View,
    extents,
    pipe_settings,
    tile_type,
    view_type,
)

#: Words behind which a statement begins.
_FIRST = frozenset({"{", "}", ";", ")", "else"})
_AXES = ("TILE_NO_SPLIT", "TILE_UP_DOWN", "TILE_LEFT_RIGHT")
# Instructions by name: what statements of C++ that call no intrinsic are.
_ALL: Mapping[str, ir.AttrValue] = {"pipe": ir.Pipe.ALL}
_FENCE: Mapping[str, ir.AttrValue] = {"scope": ir.FenceScope.GM}
_TAIL: Mapping[str, ir.AttrValue] = {"src": ir.Pipe.MTE3, "dst": ir.Pipe.S, "event": 0}
#: Words of statements that look like calls.
_STATEMENTS = frozenset(("while", "switch"))
#: Statements that are always the same, without blanks, and the operations that they are.
_FIXED: Mapping[str, tuple[tuple[str, Mapping[str, ir.AttrValue]], ...]] = {
    "set_mask_norm()": (),
    "set_vector_mask(-1,-1)": (),
    "dcci((__gm__void*)0,cache_line_t::ENTIRE_DATA_CACHE)": (
        ("cmo.cacheinvalid", {"space": ir.AddressSpace.GM}),
    ),
    "dsb(DSB_DDR)": (("fence.barrier_all", _FENCE),),
    "dsb((mem_dsb_t)0)": (("fence.barrier_all", _FENCE),),
    "pipe_barrier(PIPE_ALL)": (("barrier", _ALL),),
    "ptoas_auto_sync_tail()": (("barrier", _ALL),),
    "ptoas_auto_sync_tail(PTOAutoSyncTailMode::kBarrierAll)": (("barrier", _ALL),),
    "ptoas_auto_sync_tail(PTOAutoSyncTailMode::kSetWaitMte3ToSEvent0)": (
        ("set_flag", _TAIL),
        ("wait_flag", _TAIL),
    ),
}


@dataclass(frozen=True)
class _Declared:
    """A variable of a class type: the type, its name, its word, its source value, its arguments."""

    type: Any
    name: str
    at: int
    source: str | None
    given: list[Thing]


class Statements(Calls):
    """Reads statements; each becomes the operations that it stands for."""

    kind: ir.KernelKind | None = None
    #: Whether all pipes are done: a barrier of all stands before, with cache operations since.
    drained = False

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        self.known |= {f"EVENT_ID{n}": Number(INT, number=n) for n in range(8)}
        #: The functions that are read before this one.
        self.functions: Mapping[str, ir.Function] = {}
        #: Tile types of the function, the types of its scalars that change, source names of its tiles.
        self.types: Types = {}
        self._declared: dict[str, CType] = {}
        self._source: dict[str, str | None] = {}

    def statement(self) -> None:
        """One statement."""
        words = self.words
        text = words.text
        drained, self.drained = self.drained, False
        read = _FORMS.get(text)
        if read is not None:
            self.drained = drained and text in _CACHE
            read(self)
        elif text[:1] == "#":
            words.fail(f"got '{text[:60]}' inside a section; allowed: none but its '#endif'")
        elif text in self.functions:
            self._call()
        elif words.peek() in ("(", "<") and text not in _STATEMENTS:
            self.call()
        elif text in self.known and words.peek() in ("=", "[", "."):
            self._changed()
        elif plain(text) in _enumerations():
            self._enumeration()
        else:
            self._unread(words.index)

    def _unread(self, at: int) -> NoReturn:
        """Report a statement of a form that is not read."""
        words = self.words
        end = at
        while words.texts[end] not in (";", "{", "}", ""):
            end += 1
        text = " ".join(words.texts[at : min(end, at + 12)])
        allowed = "what the assembler writes (docs/how-to/read_emitted_cpp.md)"
        words.fail(f"got the statement '{text}', a form that is not read; allowed: {allowed}", at)

    def _end(self) -> None:
        self.words.expect(";")

    def _arguments(self, count: int) -> tuple[int, list[Thing]]:
        """The word of a call and its arguments; template arguments are passed over."""
        words = self.words
        at = words.index
        words.take()
        if words.text == "<":
            words.go(words.closing(words.index) + 1)
        words.expect("(")
        operands = words.listed(self.expression, ")")
        self._end()
        if len(operands) != count:
            words.fail(f"got {len(operands)} arguments of {words.texts[at]}; allowed: {count}", at)
        return at, operands

    # -- declarations --------------------------------------------------------------------------------

    def _constant(self) -> None:
        self.words.take()
        self._scalar(is_constant=True)

    def _scalar(self, *, is_constant: bool = False) -> None:
        """``T v = ...;``, ``T v;``, ``T v[n];``."""
        words = self.words
        at = words.index
        kind = SCALARS.get(words.text)
        if kind is None:
            self._unread(at - 1)
        element = ELEMENTS.get(words.take(), kind.dtype)
        place = words.index
        name = self.stem = words.name()
        if words.accept("["):
            self._array(name, element, place, at)
            return
        if not is_constant:
            self._declared[name] = kind
        if words.accept(";"):
            self.known[name] = None
            return
        words.expect("=")
        before = len(self.ops)
        number = self.converted(self.scalar(), kind, at)
        self._end()
        if number.value is not None:
            number = Number(kind, self.renamed(number.value, before, words.source_name(at), name))
        elif is_constant:
            self.declared_at.setdefault((repr(number.number), kind.dtype.name), (name, place))
        self.known[name] = number

    def _array(self, name: str, d: ir.DType, place: int, at: int) -> None:
        words = self.words
        size = self.scalar().number
        words.expect("]")
        self._end()
        if not isinstance(size, int) or size < 1:
            words.fail(f"got the array '{name}' without a constant size", place)
        t = ir.LocalArrayType((size,), d)
        names = (words.source_name(at, shared=True), name)
        self.known[name] = Named(self.result("declare_local_array", (), t, at=place, names=names))

    def _enumeration(self) -> None:
        """``RoundMode v = RoundMode::CAST_RINT;``, and the list of counts that a merge writes."""
        words = self.words
        kind = words.take()
        at = words.index
        name = words.name()
        words.expect("=")
        place = words.index
        member: Thing = members().get(plain(words.take()))
        if words.accept("{"):
            numbers = tuple(int(self.number(n, at).number or 0) for n in words.listed(self.expression, "}"))
            t, attributes = ir.VectorType((4,), ir.I16), {"value": numbers}
            member = Named(self.result("arith.constant", (), t, at=at, attributes=attributes, names=(name,)))
        self._end()
        if member is None:
            words.fail(f"got an unknown member of {kind}", place)
        self.known[name] = member

    def _alias(self) -> None:
        """``using T = float;``: it has no meaning here."""
        words = self.words
        if words.peek(2) != "=" or words.peek(4) != ";":
            self._unread(words.index)
        words.go(words.index + 5)

    def _variable(self, read: Callable[[Words], Any]) -> _Declared:
        """``T v = T(...);``, ``T v(...);``, ``T v;``, ``T v = other;``."""
        words = self.words
        start = words.index
        t = read(words)
        at = words.index
        name = self.stem = words.name()
        initial: list[Thing] = []
        if words.accept("="):
            if words.text in self.known:
                initial = [self.known[words.take()]]
            elif read(words) != t:
                words.fail(f"got '{name}' of one type with a value of another", at)
        if words.accept("("):
            initial = words.listed(self.expression, ")")
        self._end()
        self._source[name] = words.source_name(start, shared=True)
        return _Declared(t, name, at, words.source_name(start), initial)

    def _tile(self) -> None:
        """A tile, which has no address yet, or a copy of one."""
        variable = self._variable(lambda words: tile_type(words, self.types))
        t, arguments = variable.type, variable.given
        if len(arguments) == 1 and isinstance(arguments[0], Unplaced) and arguments[0].type == t:
            arguments = list(arguments[0].valid)
        if len(arguments) != t.valid.count(None):
            message = f"got {len(arguments)} valid sizes for {t}; allowed: {t.valid.count(None)}"
            self.words.fail(message, variable.at)
        valid = tuple(self.number(n, variable.at) for n in arguments)
        self.known[variable.name] = Unplaced(t, valid, variable.at, variable.name, self.words.depth)

    def _place(self) -> None:
        """``TASSIGN(v, address);``."""
        words = self.words
        self.stem = next((w for w in (words.peek(4), words.peek(2)) if w.isidentifier()), "t")
        at, (tile, place) = self._arguments(2)
        address = self._to_memory(self.number(place, at), ir.I64, at)
        if isinstance(tile, Unplaced):
            sizes = iter(tile.valid)
            operands: dict[str, ir.Value] = {"addr": address}
            for key, size in zip(("valid_row", "valid_col"), tile.type.valid, strict=True):
                if size is None:
                    operands[key] = self.index(next(sizes), tile.word)
            self._made(tile, "alloc_tile", operands)
        elif isinstance(tile, Named) and isinstance(tile.value.type, ir.TileType):
            self.emit("tassign", (self.mention(tile.value, at + 2), address), at=at)
        else:
            words.fail(f"got TASSIGN of '{words.texts[at + 2]}', which is no tile", at)

    def _made(
        self, tile: Unplaced, name: str, values: Mapping[str, ir.Value], attributes: Any = None
    ) -> None:
        """Make a tile with the operation that places it."""
        names, groups = (self._source.get(tile.name), tile.name), tuple((key, 1) for key in values)
        ins, t, at = values.values(), tile.type, tile.word
        value = self.result(name, ins, t, at=at, attributes=attributes, groups=groups, names=names)
        self.known[tile.name] = Named(value)

    def _reshape(self) -> None:
        """``TRESHAPE(v, source);``: another tile at the bytes of one."""
        at, (tile, source) = self._arguments(2)
        if not isinstance(tile, Unplaced) or not isinstance(source, Named):
            self.words.fail("got TRESHAPE; allowed: a tile without an address, and one that has one", at)
        names = (self._source.get(tile.name), tile.name)
        value = self.result("treshape", (self.mention(source.value, at + 4),), tile.type, at=at, names=names)
        self.known[tile.name] = Named(value)

    def _sizes(self) -> None:
        """Extents or strides, with five numbers or with one for each that the type leaves open."""
        variable = self._variable(extents)
        lengths = [self.number(n, variable.at) for n in variable.given]
        opened = variable.type.count(-1)
        if len(lengths) not in (opened, 5):
            message = f"got {len(lengths)} numbers for '{variable.name}'; allowed: 5, or one for each -1"
            self.words.fail(message, variable.at)
        if len(lengths) == 5:
            lengths = [n for n, static in zip(lengths, variable.type, strict=True) if static < 0]
        numbers = iter(lengths)
        sizes = (Number(INT64, number=n) if n >= 0 else next(numbers) for n in variable.type)
        self.known[variable.name] = Sizes(tuple(sizes))

    def _view(self) -> None:
        """``GlobalTensor<T, shape, stride, layout> v = GlobalTensor<...>(pointer, shape, stride);``."""
        variable = self._variable(view_type)
        element, layout = variable.type[:2]
        match variable.given:
            case [
                Pointer(ir.Value(type=ir.PtrType() as t) as first) as pointer,
                Sizes(shape),
                Sizes(strides),
            ]:
                if t.dtype != element:
                    self.words.fail(f"got '{variable.name}' of {element.name} at a pointer {t}", variable.at)
            case _:
                message = f"got '{variable.name}', whose arguments are no pointer, shape and stride"
                self.words.fail(message, variable.at)
        # Extents of 1 in front say nothing; programs write views with two dimensions.
        axes = range(next((i for i, n in enumerate(shape[:3]) if n.number != 1), 3), 5)
        ins = [first, *(self.index(s[i], variable.at) for s in (shape, strides) for i in axes)]
        dims = tuple(None if n.number is None else int(n.number) for n in shape[axes.start :])
        value = self.result(
            "make_tensor_view",
            ins,
            ir.TensorViewType(dims, element),
            at=variable.at,
            attributes={"layout": layout},
            groups=(("ptr", 1), ("shape", len(axes)), ("strides", len(axes))),
            names=(variable.source, variable.name),
        )
        self.known[variable.name] = View(value, pointer)

    def _pointer(self) -> None:
        """``__gm__ T *v = pointer;``."""
        words = self.words
        start = words.index
        words.take()
        element = ELEMENTS.get(words.name())
        words.expect("*")
        name = self.stem = words.name()
        words.expect("=")
        before = len(self.ops)
        pointer = self.expression()
        self._end()
        if not isinstance(pointer, Pointer) or element != getattr(pointer.value.type, "dtype", None):
            words.fail(f"got '{name}', which is not given a pointer of its type", start)
        self.known[name] = Pointer(self.renamed(pointer.value, before, words.source_name(start), name))

    def _call(self) -> None:
        """``name(v, p);``: a call of an inline function."""
        words = self.words
        name = words.text
        parameters = self.functions[name].args
        at, arguments = self._arguments(len(parameters))
        ins = []
        for thing, parameter in zip(arguments, parameters, strict=True):
            t = parameter.type
            if isinstance(t, ir.ScalarType):
                ins.append(self._as_element(self.number(thing, at), t.dtype, at))
            elif isinstance(thing, Pointer) and thing.value.type == t:
                ins.append(thing.value)
            else:
                words.fail(f"got another argument for {parameter} of '{name}'; allowed: {t}", at)
        self.emit("call", ins, at=at, attributes={"callee": ir.Symbol(name)})

    # -- pipes ---------------------------------------------------------------------------------------

    def _pipe(self) -> None:
        """``auto v = TPipe<...>(slots, c2v, v2c);``."""
        words = self.words
        words.take()
        at = words.index
        name = words.name()
        words.expect("=")
        attributes = pipe_settings(words)
        words.expect("(")
        arguments = words.listed(self.expression, ")")
        self._end()
        if len(arguments) != 3 or not isinstance(arguments[0], Pointer):
            words.fail("got a pipe without pointer and two buffers; allowed: TPipe<...>(pointer, n, n)", at)
        ins = [arguments[0].value, *(self._as_element(self.number(b, at), ir.I32, at) for b in arguments[1:])]
        groups: Groups = (("gm_slot_buffer", 1), ("c2v_consumer_buf", 1), ("v2c_consumer_buf", 1))
        core = self._cores(at)[0]
        self.emit(f"{core}_initialize_pipe", ins, at=at, attributes=attributes, groups=groups)
        number = attributes["id"]
        self.known[name] = Pipe(number if isinstance(number, int) else 0)

    def _cores(self, at: int) -> tuple[str, str]:
        """The core of the section, and the other one."""
        if self.kind is None:
            self.words.fail("got a pipe outside a section; allowed: inside '#if defined(__DAV_CUBE__)'", at)
        return ("aic", "aiv") if self.kind is ir.KernelKind.CUBE else ("aiv", "aic")

    def _push(self) -> None:
        at, tile, attributes = self._transfer(2)
        if not isinstance(tile, Named):
            self.words.fail("got TPUSH of something that is no tile with an address", at)
        ins = (self.mention(tile.value, at),)
        self.emit(f"tpush_to_{self._cores(at)[1]}", ins, at=at, attributes=attributes)

    def _pop(self) -> None:
        at, tile, attributes = self._transfer(2)
        if not isinstance(tile, Unplaced):
            self.words.fail("got TPOP into something that is no tile without an address", at)
        sizes = [self.index(n, at) for n in tile.valid]
        operands: dict[str, ir.Value] = {}
        if len(sizes) == 2:
            operands = {"valid_row": sizes[0], "valid_col": sizes[1]}
        self._made(replace(tile, word=at), f"tpop_from_{self._cores(at)[1]}", operands, attributes)

    def _release(self) -> None:
        at, _, attributes = self._transfer(1)
        self.emit(f"tfree_from_{self._cores(at)[1]}", at=at, attributes=attributes)

    def _transfer(self, count: int) -> tuple[int, Thing, dict[str, ir.AttrValue]]:
        """A call about a pipe: its place, the last argument, and its attributes."""
        words = self.words
        axis = words.texts[words.closing(words.index + 1) - 1] if words.peek() == "<" else ""
        at, arguments = self._arguments(count)
        if not isinstance(arguments[0], Pipe) or axis.rpartition("::")[2] not in _AXES:
            words.fail(f"got no pipe, or no split; allowed: {words.texts[at]}<..., SPLIT>(pipe, ...)", at)
        attributes: dict[str, ir.AttrValue] = {"split": _AXES.index(axis.rpartition("::")[2])}
        if arguments[0].id:
            attributes["id"] = arguments[0].id
        return at, arguments[-1], attributes

    # -- changes -------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """``v = x;``, ``a[i] = x;``, ``t.SetValue(i, x);``, ``t.SetValidShape(r, c);``."""
        words = self.words
        at = words.index
        name = self.stem = words.name()
        thing = self.known[name]
        if words.accept("."):
            self._method(thing, at)
        elif words.accept("="):
            kind = self._declared.get(name)
            if kind is None:
                words.fail(f"got an assignment to '{name}', which has a value already", at)
            self.known[name] = self.converted(self.scalar(), kind, at)
            self._end()
        else:
            offset, number = self._element()
            if not isinstance(thing, Named) or not isinstance(t := thing.value.type, ir.LocalArrayType):
                words.fail(f"got an element of '{name}', which is no array", at)
            groups: Groups = (("array", 1), ("indices", 1), ("value", 1))
            ins = (thing.value, offset, self._as_element(number, t.dtype, at))
            self.emit("local_array_set", ins, at=at, groups=groups)

    def _element(self) -> tuple[ir.Value, Number]:
        """``[i] = x;``."""
        words = self.words
        words.expect("[")
        offset = self.index(self.expression(), words.index)
        words.expect("]")
        words.expect("=")
        number = self.scalar()
        self._end()
        return offset, number

    def _method(self, thing: Thing, at: int) -> None:
        words = self.words
        name = words.text
        method, arguments = self._arguments(2)
        first, second = (self.number(n, method) for n in arguments)
        if isinstance(thing, Unplaced) and name == "SetValidShape":
            if thing.depth != words.depth:
                words.fail("got SetValidShape of a tile without an address in another region", method)
            sizes = zip((first, second), thing.type.valid, strict=True)
            self.known[thing.name] = replace(thing, valid=tuple(n for n, known in sizes if known is None))
            return
        if not isinstance(thing, Named) or not isinstance(t := thing.value.type, ir.TileType):
            words.fail(f"got {name} of '{words.texts[at]}', which is no tile with an address", at)
        tile, index = self.mention(thing.value, at), self.index(first, method)
        if name == "SetValidShape":
            self.emit("set_validshape", (tile, index, self.index(second, method)), at=method)
        elif name == "SetValue":
            ins = (index, self._as_element(second, t.dtype, method))
            self.emit("tsetval", ins, outs=(tile,), at=method)
        else:
            words.fail(f"got {name}; allowed: SetValidShape, SetValue", method)

    def _stored(self) -> None:
        """``(p)[i] = x;``: a store of a scalar to global memory."""
        words = self.words
        at = words.index
        words.take()
        self.stem = words.text
        pointer = self.expression()
        words.expect(")")
        if not isinstance(pointer, Pointer) or words.text != "[":
            self._unread(at)
        offset, number = self._element()
        t = pointer.value.type
        assert isinstance(t, ir.PtrType)
        self.emit("store_scalar", (self._to_memory(number, t.dtype, at), pointer.value, offset), at=at)

    def _to_memory(self, number: Number, d: ir.DType, at: int) -> ir.Value:
        """A scalar as an element of memory, where 64-bit integers are no indices, or as an address."""
        if d != ir.I64 or number.value is None:
            return self._as_element(number, d, at)
        value = self.value(self.converted(number, INT64, at), at)
        return self.result("arith.index_cast", (value,), ir.ScalarType(d), at=at)

    # -- synchronisation -----------------------------------------------------------------------------

    def _flag(self) -> None:
        """``set_flag(PIPE_A, PIPE_B, EVENT_ID0);`` and ``wait_flag``."""
        at, (src, dst, event) = self._arguments(3)
        name, number = self.words.texts[at], self.number(event, at)
        attributes: dict[str, ir.AttrValue] = {"src": self._of_pipe(src, at), "dst": self._of_pipe(dst, at)}
        if number.value is not None:
            self.emit(f"{name}_dyn", (self.index(number, at),), at=at, attributes=attributes)
        else:
            self.emit(name, at=at, attributes={**attributes, "event": number.number})

    def _of_pipe(self, thing: Thing, at: int) -> ir.Pipe:
        if not isinstance(thing, ir.Pipe):
            self.words.fail("got no pipe; allowed: a pipe, as PIPE_V", at)
        return thing

    def _bracket(self) -> None:
        """``get_buf(PIPE_A, 0, 0);`` and ``rls_buf``: a pipe, a buffer token and its mode."""
        at, (pipe, buffer, mode) = self._arguments(3)
        name, number = self.words.texts[at], self.number(buffer, at)
        attributes: dict[str, ir.AttrValue] = {
            "op_type": self._of_pipe(pipe, at),
            "mode": self.number(mode, at).number,
        }
        if number.value is not None:
            self.emit(f"{name}_dyn", (self.index(number, at),), at=at, attributes=attributes)
        else:
            self.emit(name, at=at, attributes={**attributes, "buf": number.number})

    def _barrier(self) -> None:
        if self.words.peek(2) == "PIPE_ALL":
            self._fixed()
            return
        at, (pipe,) = self._arguments(1)
        self.emit("barrier", at=at, attributes={"pipe": self._of_pipe(pipe, at)})

    def _fixed(self) -> None:
        """A statement that is always the same."""
        words = self.words
        at = words.index
        end = words.closing(at + 1) + 1
        matches = _FIXED.get("".join(words.texts[at:end]))
        if matches is None:
            self._unread(at)
        if words.text == "dsb" and not self.drained:
            words.fail("got a dsb without pipe_barrier(PIPE_ALL) before it; no operation is that alone", at)
        words.go(end)
        self._end()
        for name, attributes in matches:
            self.emit(name, at=at, attributes=attributes)
            self.drained = self.drained or attributes == _ALL

    def _line(self) -> None:
        """``PTOAS__DCCI_SINGLE_CACHE_LINE(p);``."""
        at, (pointer,) = self._arguments(1)
        if not isinstance(pointer, Pointer):
            self.words.fail("got a cache line of something that is no pointer", at)
        self.emit("cmo.cacheinvalid", (self.mention(pointer.value, at + 2),), at=at)

    # -- control flow --------------------------------------------------------------------------------

    def _braced(self) -> None:
        """Statements in braces, or one."""
        words = self.words
        words.depth += 1
        if words.depth > MAX_DEPTH:
            words.fail(f"got a region nested more than {MAX_DEPTH} levels deep, the limit")
        if words.accept("{"):
            while not words.accept("}"):
                if not words.text:
                    words.unexpected("'}'")
                self.statement()
        else:
            self.statement()
        words.depth -= 1

    def _changes(self, start: int) -> list[str]:
        """The scalars that the statement at a word changes and that are defined before it."""
        words = self.words
        if words.texts[start] == "{":
            end = words.closing(start)
        else:
            end = next((i for i in range(start, len(words.texts)) if words.texts[i] == ";"), -1)
            if end < 0:
                words.fail("got a statement without an end; allowed: ';' behind it", start)
        names: dict[str, None] = {}
        for i in range(start, end):
            name, first = words.texts[i], words.texts[i - 1] in _FIRST
            if first and name in self._declared and words.texts[i + 1] == "=" and name in self.known:
                names[name] = None
        return list(names)

    def _for(self) -> None:
        """``for (T i = a; i < b; i += c) { ... }``."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        kind = SCALARS.get(words.text)
        if kind is None:
            words.unexpected("the type of a loop's variable")
        words.take()
        place = words.index
        name = self.stem = words.name()
        words.expect("=")
        header = words.index
        bounds = [self.index(self.expression(), header)]
        for sign in ("<", "+="):
            words.expect(";")
            if words.name() != name or words.text != sign:
                words.unexpected(f"'{name} {sign}'")
            words.take()
            bounds.append(self.index(self.expression(), words.index - 1))
        words.expect(")")
        changed = self._changes(words.index)
        moved = next((n for n in changed if n in words.texts[header : words.index]), None)
        if moved is not None:
            words.fail(f"got a loop whose bounds use '{moved}', which its body changes", header)
        inits = [self.value(self.number(self.find(n, at), at), at) for n in changed]
        arguments = [ir.Value(self.fresh(name), ir.ScalarType(ir.INDEX), words.place(place))]
        arguments += [
            ir.Value(self.fresh(n), i.type, words.place(at)) for n, i in zip(changed, inits, strict=True)
        ]
        outer, before, self.ops = dict(self.known), self.ops, []
        self.known |= {n: Number(self._declared[n], v) for n, v in zip(changed, arguments[1:], strict=True)}
        self.known[name] = self.converted(Number(INT64, arguments[0]), kind, place)
        self._braced()
        region = self._closed(changed, self.known, tuple(arguments))
        self.ops, self.known = before, outer
        groups: Groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(inits)))
        results = self._results(changed, at)
        self.emit("scf.for", (*bounds, *inits), at=at, results=results, groups=groups, regions=(region,))

    def _closed(
        self, handed: list[str], things: Mapping[str, Thing], arguments: tuple[ir.Value, ...] = ()
    ) -> ir.Region:
        """The operations that were read as a region that hands on what some names stand for."""
        at = self.words.index - 1
        numbers = [self.value(self.number(things.get(n), at), at) for n in handed]
        if numbers:
            self.emit("scf.yield", numbers, at=at)
        return ir.Region(tuple(self.ops), arguments)

    def _results(self, changed: list[str], at: int) -> tuple[ir.Value, ...]:
        """The values that names have behind a region that changes them."""
        kinds = [self._declared[n] for n in changed]
        place = self.words.place(at)
        values = [
            ir.Value(self.fresh(n), ir.ScalarType(k.dtype), place)
            for n, k in zip(changed, kinds, strict=True)
        ]
        self.known |= {n: Number(k, v) for n, k, v in zip(changed, kinds, values, strict=True)}
        return tuple(values)

    def _if(self) -> None:
        """``if (c) { ... } else { ... }``."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        self.stem = f"c{words.text}" if words.is_name() else "c"
        test = self.condition(self.expression(), at)
        words.expect(")")
        changed = self._changes(words.index)
        branches = [self._branch()]
        has_else = words.accept("else")
        if has_else:
            changed = list(dict.fromkeys([*changed, *self._changes(words.index)]))
            branches.append(self._branch())
        else:
            branches.append(([], dict(self.known)))
        handed = [n for n in changed if all(known.get(n) is not None for _, known in branches)]
        before, regions = self.ops, []
        for ops, known in branches[: 1 + (has_else or bool(handed))]:
            self.ops = ops
            regions.append(self._closed(handed, known))
        self.ops = before
        self.known |= dict.fromkeys(changed)
        self.emit("scf.if", (test,), at=at, results=self._results(handed, at), regions=tuple(regions))

    def _branch(self) -> tuple[list[ir.Op], dict[str, Thing]]:
        """The operations of a branch, and what names stand for at its end."""
        outer, before, self.ops = dict(self.known), self.ops, []
        self._braced()
        read, known = (self.ops, self.known)
        self.ops, self.known = before, outer
        return read, known

    def _block(self) -> None:
        outer = dict(self.known)
        self._braced()
        self.known = outer | {n: self.known[n] for n in outer if n in self._declared}


@cache
def _enumerations() -> frozenset[str]:
    """The names of enumerations, and of the list of counts that a merge writes."""
    kinds = {name.partition("::")[0] for name in members() if "::" in name}
    return frozenset({"MrgSortExecutedNumList", *kinds})


_CACHE = frozenset({"dcci", "dsb", "PTOAS__DCCI_SINGLE_CACHE_LINE"})
_FORMS: Mapping[str, Callable[[Statements], None]] = {
    **dict.fromkeys(("const", "constexpr"), Statements._constant),
    **dict.fromkeys(SCALARS, Statements._scalar),
    **dict.fromkeys(("Tile", "pto::Tile"), Statements._tile),
    **dict.fromkeys(("pto::Shape", "pto::Stride", "Shape", "Stride"), Statements._sizes),
    **dict.fromkeys(("GlobalTensor", "pto::GlobalTensor"), Statements._view),
    **dict.fromkeys(("set_flag", "wait_flag"), Statements._flag),
    **dict.fromkeys(("get_buf", "rls_buf"), Statements._bracket),
    **dict.fromkeys((text.partition("(")[0] for text in _FIXED), Statements._fixed),
    "pipe_barrier": Statements._barrier,
    "using": Statements._alias,
    "__gm__": Statements._pointer,
    "auto": Statements._pipe,
    "TASSIGN": Statements._place,
    "TRESHAPE": Statements._reshape,
    "TPUSH": Statements._push,
    "TPOP": Statements._pop,
    "TFREE": Statements._release,
    "(": Statements._stored,
    "PTOAS__DCCI_SINGLE_CACHE_LINE": Statements._line,
    "for": Statements._for,
    "if": Statements._if,
    "{": Statements._block,
    ";": Statements._end,
}
