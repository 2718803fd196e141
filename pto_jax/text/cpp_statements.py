"""Statements of a C++ kernel: a table of the forms that the assembler writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from .. import ir
from .cpp_body import Groups, Thing
from .cpp_calls import Calls
from .cpp_names import members
from .cpp_tokens import MAX_DEPTH, Words
from .cpp_types import Types, extents, pipe_settings, tile_type
from .cpp_values import (
    ELEMENTS,
    INT64,
    SCALARS,
    CType,
    Named,
    Number,
    Pipe,
    Pointer,
    Sizes,
    Unplaced,
    View,
)

# Instructions by name: what statements of C++ that call no intrinsic are.
_EVENTS = {f"EVENT_ID{n}": n for n in range(8)}
#: Words behind which a statement begins.
_FIRST = frozenset({"{", "}", ";", ")", "else"})


class Statements(Calls):
    """Reads statements; each becomes the operations that it stands for."""

    kind: ir.KernelKind | None = None
    #: Whether all pipes are known to be done: a barrier of all stands before, with cache operations since.
    drained = False

    def __init__(self, words: Words) -> None:
        super().__init__(words)
        #: The functions that are read before this one.
        self.functions: Mapping[str, ir.Function] = {}
        #: Tile types of the function, the types of its scalars that change, source names of its tiles.
        self.types: Types = {}
        self._declared: dict[str, CType] = {}
        self._source: dict[str, str | None] = {}

    def statements(self) -> None:
        """Statements up to the brace that closes them, which is passed over."""
        words = self.words
        while words.text != "}":
            if not words.text:
                words.unexpected("'}'")
            self.statement()
        words.take()

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
            self.directive()
        elif text in self.functions:
            self._call()
        elif words.peek() == "(" or words.peek() == "<":
            self.call()
        elif text in self.known and words.peek() in ("=", "[", "."):
            self._changed()
        elif (kind := text.removeprefix("pto::").removeprefix("comm::")) in _enumerations():
            self._enumeration(kind)
        else:
            self.unread(words.index)

    def unread(self, at: int) -> None:
        """Report a statement of a form that is not read."""
        words = self.words
        end = at
        while words.texts[end] not in (";", "{", "}", ""):
            end += 1
        shown = " ".join(words.texts[at : min(end, at + 12)])
        words.fail(f"found the statement '{shown}', a form that is not read; {FORMS_READ}", at)

    def directive(self) -> None:
        """A line of the preprocessor: those of a section only."""
        words = self.words
        words.fail(f"found '{words.text[:60]}' inside a section; allowed: none but its '#endif'")

    def _end(self) -> None:
        self.words.expect(";")

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
            self.unread(at - 1)
            return
        element = ELEMENTS.get(words.take())
        place = words.index
        name = self.stem = words.name()
        if words.accept("["):
            self._array(name, element or kind.dtype, place, at)
            return
        if not is_constant:
            self._declared[name] = kind
        if words.accept(";"):
            self.known[name] = None
            return
        words.expect("=")
        before = len(self.ops)
        number = self.converted(self.number(self.expression(), at), kind, at)
        self._end()
        if number.value is not None:
            number = Number(kind, self.renamed(number.value, before, words.source_name(at), name))
        elif is_constant:
            self.declared_at.setdefault((repr(number.number), kind.dtype.name), (name, place))
        self.known[name] = number

    def _array(self, name: str, d: ir.DType, place: int, at: int) -> None:
        words = self.words
        size = self.number(self.expression(), place).number
        words.expect("]")
        self._end()
        if not isinstance(size, int) or size < 1:
            words.fail(f"found the array '{name}' without a constant size", place)
        t = ir.LocalArrayType((size,), d)
        names = (words.source_name(at, shared=True), name)
        self.known[name] = Named(self.result("declare_local_array", (), t, at=place, names=names))

    def _enumeration(self, kind: str) -> None:
        """``RoundMode v = RoundMode::CAST_RINT;``, and the list of counts that a merge writes."""
        words = self.words
        words.take()
        at = words.index
        name = words.name()
        words.expect("=")
        if kind != "MrgSortExecutedNumList":
            choice = members().get(words.take().removeprefix("pto::").removeprefix("comm::"))
            if choice is None:
                words.fail(f"found an unknown member of {kind}", words.index - 1)
            self.known[name] = choice
        else:
            words.take()
            words.expect("{")
            numbers = [self.number(n, at).number for n in words.listed(self.expression, "}")]
            t = ir.VectorType((4,), ir.I16)
            attributes: Mapping[str, ir.AttrValue] = {"value": tuple(int(n or 0) for n in numbers)}
            value = self.result("arith.constant", (), t, at=at, attributes=attributes, names=(name,))
            self.known[name] = Named(value)
        self._end()

    def _alias(self) -> None:
        """``using T = float;``: it has no meaning here."""
        words = self.words
        words.take()
        name = words.name()
        words.expect("=")
        words.name()
        self._end()
        del name

    def _tile(self) -> None:
        """``Tile<...> v = Tile<...>(rows, cols);``, ``Tile<...> v(rows, cols);``, ``Tile<...> v;``."""
        words = self.words
        start = words.index
        t = tile_type(words, self.types)
        at = words.index
        name = words.name()
        valid: tuple[Number, ...] = ()
        if words.accept("="):
            if words.text in self.known:
                source = self.known[words.text]
                if not isinstance(source, Unplaced):
                    words.fail("found a copy of a tile that has an address; allowed: one without", at)
                words.take()
                valid = source.valid
            else:
                if tile_type(words, self.types) != t:
                    words.fail(f"found '{name}' of one type with a value of another", at)
                words.expect("(")
                valid = tuple(words.listed(self.scalar, ")"))
        elif words.accept("("):
            valid = tuple(words.listed(self.scalar, ")"))
        self._end()
        if len(valid) != t.valid.count(None):
            words.fail(f"found {len(valid)} valid sizes for {t}; allowed: {t.valid.count(None)}", at)
        self._source[name] = words.source_name(start, shared=True)
        self.known[name] = Unplaced(t, valid, at, name)

    def _place(self) -> None:
        """``TASSIGN(v, address);``."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        name = words.name()
        tile = self.find(name, at + 2)
        words.expect(",")
        place = words.index
        self.stem = words.text if words.is_name() else name
        address = self._address(self.number(self.expression(), place), place)
        words.expect(")")
        self._end()
        if isinstance(tile, Unplaced):
            self.known[name] = Named(self._allocated(tile, address))
        elif isinstance(tile, Named) and isinstance(tile.value.type, ir.TileType):
            self.emit("tassign", (self.mention(tile.value, at + 2), address), at=at)
        else:
            words.fail(f"found TASSIGN of '{name}', which is no tile", at)

    def _address(self, number: Number, at: int) -> ir.Value:
        if number.value is None:
            assert number.number is not None
            return self.constant(int(number.number), ir.I64, at=at)
        if number.type.dtype == ir.I64:
            return number.value
        number = self.converted(number, INT64, at)
        value = self.value(number, at)
        return self.result("arith.index_cast", (value,), ir.ScalarType(ir.I64), at=at)

    def _allocated(self, tile: Unplaced, address: ir.Value | None) -> ir.Value:
        """A tile at an address, or one that something else places."""
        sizes = list(tile.valid)
        given: dict[str, ir.Value] = {} if address is None else {"addr": address}
        for key, size in zip(("valid_row", "valid_col"), tile.type.valid, strict=True):
            if size is None:
                given[key] = self.index(sizes.pop(0), tile.word)
        names = (self._source.get(tile.name), tile.name)
        groups: Groups = tuple((key, 1) for key in given)
        return self.result("alloc_tile", given.values(), tile.type, at=tile.word, groups=groups, names=names)

    def _sizes(self) -> None:
        """``pto::Shape<...> v = pto::Shape<...>(...);`` and strides."""
        words = self.words
        kind = words.text
        static = extents(words)
        at = words.index
        name = words.name()
        given: list[Number] = []
        if words.accept("=") and (words.text != kind or extents(words) != static):
            words.fail(f"found '{name}' of one type with a value of another", at)
        if words.accept("("):
            given = words.listed(self.scalar, ")")
        self._end()
        if given and len(given) == static.count(-1) < 5:
            numbers = iter(given)
            given = [Number(INT64, number=n) if n >= 0 else next(numbers) for n in static]
        if -1 in static and len(given) != 5:
            words.fail(f"found {len(given)} numbers for '{name}'; allowed: 5, or one for each -1", at)
        self.known[name] = Sizes(static, tuple(given))

    def _view(self) -> None:
        """``GlobalTensor<T, shape, stride, layout> v = GlobalTensor<...>(pointer, shape, stride);``."""
        words = self.words
        start = words.index
        words.take()
        if words.text != "<":
            words.unexpected("'<'")
        opened = words.index
        close = words.closing(opened)
        element = ELEMENTS.get(words.texts[opened + 1])
        layout = members().get(words.texts[close - 1].removeprefix("pto::"), ir.GlobalLayout.ND)
        words.go(close + 1)
        at = words.index
        name = self.stem = words.name()
        if words.accept("="):
            if words.texts[start:at] != words.texts[words.index : words.index + at - start]:
                words.fail(f"found '{name}' of one type with a value of another", at)
            words.go(words.index + at - start)
        words.expect("(")
        pointer = self.expression()
        words.expect(",")
        shape = self.expression()
        words.expect(",")
        strides = self.expression()
        words.expect(")")
        self._end()
        if element is None:
            words.fail(f"found the unknown element type '{words.texts[opened + 1]}'", opened + 1)
        if not isinstance(pointer, Pointer) or not isinstance(shape, Sizes) or not isinstance(strides, Sizes):
            words.fail(f"found '{name}', whose arguments are no pointer, shape and stride", at)
        t = pointer.value.type
        if not isinstance(t, ir.PtrType) or t.dtype != element:
            words.fail(f"found '{name}' of {element.name} at a pointer {t}", at)
        value = self._viewed(pointer, shape, strides, layout, at, (words.source_name(start), name))
        self.known[name] = View(value, pointer)

    def _viewed(
        self,
        pointer: Pointer,
        shape: Sizes,
        strides: Sizes,
        layout: Any,
        at: int,
        names: tuple[str | None, str],
    ) -> ir.Value:
        # Extents of 1 in front say nothing; programs write views with two dimensions.
        first = next((i for i, n in enumerate(shape.static[:3]) if n != 1), 3)
        kept = range(first, 5)
        sizes = [self.index(shape.number(i), at) for i in kept]
        steps = [self.index(strides.number(i), at) for i in kept]
        t = pointer.value.type
        assert isinstance(t, ir.PtrType)
        dims = tuple(None if (n := shape.static[i]) < 0 else n for i in kept)
        return self.result(
            "make_tensor_view",
            (pointer.value, *sizes, *steps),
            ir.TensorViewType(dims, t.dtype),
            at=at,
            attributes={"layout": layout},
            groups=(("ptr", 1), ("shape", len(sizes)), ("strides", len(steps))),
            names=names,
        )

    def _pointer(self) -> None:
        """``__gm__ T *v = pointer;``."""
        words = self.words
        words.take()
        start = words.index
        element = ELEMENTS.get(words.name())
        words.expect("*")
        name = self.stem = words.name()
        words.expect("=")
        before = len(self.ops)
        pointer = self.expression()
        self._end()
        if not isinstance(pointer, Pointer) or element != getattr(pointer.value.type, "dtype", None):
            words.fail(f"found '{name}', which is not given a pointer of its type", start)
        self.known[name] = Pointer(self.renamed(pointer.value, before, words.source_name(start - 1), name))

    def _pipe(self) -> None:
        """``auto v = TPipe<...>(slots, c2v, v2c);``."""
        words = self.words
        words.take()
        at = words.index
        name = words.name()
        words.expect("=")
        if words.text not in ("TPipe", "pto::TPipe"):
            words.unexpected("'TPipe'")
        attributes = pipe_settings(words)
        words.expect("(")
        start = words.index
        given = words.listed(self.expression, ")")
        self._end()
        if len(given) != 3 or not isinstance(given[0], Pointer):
            words.fail("found a pipe without pointer and two buffers; allowed: TPipe<...>(pointer, n, n)", at)
        buffers = [self._as_element(self.number(b, start), ir.I32, start) for b in given[1:]]
        groups = (("gm_slot_buffer", 1), ("c2v_consumer_buf", 1), ("v2c_consumer_buf", 1))
        self.emit(
            f"{self._core(at)}_initialize_pipe",
            (given[0].value, *buffers),
            at=at,
            attributes=attributes,
            groups=groups,
        )
        number = attributes["id"]
        self.known[name] = Pipe(number if isinstance(number, int) else 0)

    def _core(self, at: int) -> str:
        if self.kind is None:
            self.words.fail("found a pipe outside a section; allowed: inside '#if defined(__DAV_CUBE__)'", at)
        return "aic" if self.kind is ir.KernelKind.CUBE else "aiv"

    def _call(self) -> None:
        """``name(v, p);``: a call of an inline function."""
        words = self.words
        at = words.index
        name = words.take()
        words.expect("(")
        given = words.listed(self.expression, ")")
        self._end()
        parameters = self.functions[name].args
        if len(given) != len(parameters):
            words.fail(f"found {len(given)} arguments of '{name}'; allowed: {len(parameters)}", at)
        ins = []
        for thing, parameter in zip(given, parameters, strict=True):
            t = parameter.type
            is_pointer = isinstance(thing, Pointer)
            value = thing.value if is_pointer else self._as_element(self.number(thing, at), t.dtype, at)
            if value.type != t:
                words.fail(f"found {value.type} for {parameter} of '{name}'; allowed: {t}", at)
            ins.append(value)
        self.emit("call", ins, at=at, attributes={"callee": ir.Symbol(name)})

    # -- pipes ---------------------------------------------------------------------------------------

    def _push(self) -> None:
        at, (pipe, tile), attributes = self._transfer(2)
        if not isinstance(tile, Named):
            self.words.fail("found TPUSH of something that is no tile with an address", at)
        other = "aiv" if self._core(at) == "aic" else "aic"
        self.emit(f"tpush_to_{other}", (self.mention(tile.value, at),), at=at, attributes=attributes)
        del pipe

    def _pop(self) -> None:
        at, (_, tile), attributes = self._transfer(2)
        if not isinstance(tile, Unplaced):
            self.words.fail("found TPOP into something that is no tile without an address", at)
        other = "aiv" if self._core(at) == "aic" else "aic"
        sizes = [self.index(n, at) for n in tile.valid]
        groups: Groups = (("valid_row", 1), ("valid_col", 1)) if len(sizes) == 2 else ()
        names = (self._source.get(tile.name), tile.name)
        value = self.result(
            f"tpop_from_{other}", sizes, tile.type, at=at, attributes=attributes, groups=groups, names=names
        )
        self.known[tile.name] = Named(value)

    def _release(self) -> None:
        at, _, attributes = self._transfer(1)
        other = "aiv" if self._core(at) == "aic" else "aic"
        self.emit(f"tfree_from_{other}", at=at, attributes=attributes)

    def _transfer(self, count: int) -> tuple[int, list[Thing], dict[str, ir.AttrValue]]:
        """A call about a pipe: its place, pipe and tile, and its attributes."""
        words = self.words
        at = words.index
        words.take()
        if words.text != "<":
            words.unexpected("'<'")
        close = words.closing(words.index)
        split = words.texts[close - 1]
        axes = ("TILE_NO_SPLIT", "TILE_UP_DOWN", "TILE_LEFT_RIGHT")
        axis = split.rpartition("::")[2]
        if axis not in axes:
            words.fail(f"found '{split}'; allowed: TileSplitAxis:: with {', '.join(axes)}", close - 1)
        words.go(close + 1)
        words.expect("(")
        given = words.listed(self.expression, ")")
        self._end()
        if len(given) != count or not isinstance(given[0], Pipe):
            words.fail(f"found {len(given)} arguments; allowed: the pipe{' and a tile' * (count - 1)}", at)
        attributes: dict[str, ir.AttrValue] = {"split": axes.index(axis)}
        if given[0].id:
            attributes["id"] = given[0].id
        return at, given, attributes

    # -- changes -------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """``v = x;``, ``a[i] = x;``, ``t.SetValue(i, x);``, ``t.SetValidShape(r, c);``."""
        words = self.words
        at = words.index
        name = words.name()
        thing = self.known[name]
        if words.accept("="):
            self._assigned(name, at)
        elif words.accept("["):
            self._element(thing, at)
        else:
            words.expect(".")
            self._method(thing, at)

    def _assigned(self, name: str, at: int) -> None:
        kind = self._declared.get(name)
        if kind is None:
            self.words.fail(f"found an assignment to '{name}', which has a value already", at)
        self.stem = name
        number = self.converted(self.number(self.expression(), at), kind, at)
        self._end()
        self.known[name] = number

    def _element(self, thing: Thing, at: int) -> None:
        words = self.words
        self.stem = words.texts[at]
        offset = self.index(self.expression(), at)
        words.expect("]")
        words.expect("=")
        number = self.scalar()
        self._end()
        if not isinstance(thing, Named) or not isinstance(thing.value.type, ir.LocalArrayType):
            words.fail(f"found an element of '{words.texts[at]}', which is no array", at)
        value = self._as_element(number, thing.value.type.dtype, at)
        groups: Groups = (("array", 1), ("indices", 1), ("value", 1))
        self.emit("local_array_set", (thing.value, offset, value), at=at, groups=groups)

    def _method(self, thing: Thing, at: int) -> None:
        words = self.words
        method = words.index
        name = words.name()
        words.expect("(")
        self.stem = words.texts[at]
        given = words.listed(self.scalar, ")")
        self._end()
        if isinstance(thing, Unplaced) and name == "SetValidShape" and len(given) == 2:
            sizes = zip(given, thing.type.valid, strict=True)
            self.known[thing.name] = replace(thing, valid=tuple(n for n, known in sizes if known is None))
            return
        if not isinstance(thing, Named) or not isinstance(t := thing.value.type, ir.TileType):
            words.fail(f"found {name} of '{words.texts[at]}', which is no tile with an address", at)
        tile = self.mention(thing.value, at)
        if name == "SetValidShape" and len(given) == 2:
            sizes = [self.index(n, method) for n in given]
            self.emit("set_validshape", (tile, *sizes), at=method)
        elif name == "SetValue" and len(given) == 2:
            ins = (self.index(given[0], method), self._as_element(given[1], t.dtype, method))
            self.emit("tsetval", ins, outs=(tile,), at=method)
        else:
            words.fail(
                f"found {name} with {len(given)} arguments; allowed: SetValidShape, SetValue with 2", method
            )

    def _stored(self) -> None:
        """``(p)[i] = x;``: a store of a scalar to global memory."""
        words = self.words
        at = words.index
        words.take()
        self.stem = words.text
        pointer = self.expression()
        words.expect(")")
        if not isinstance(pointer, Pointer) or words.text != "[":
            self.unread(at)
            return
        words.take()
        offset = self.index(self.expression(), at)
        words.expect("]")
        words.expect("=")
        number = self.scalar()
        self._end()
        t = pointer.value.type
        assert isinstance(t, ir.PtrType)
        value = self._to_memory(number, t.dtype, at)
        self.emit("store_scalar", (value, pointer.value, offset), at=at)

    def _to_memory(self, number: Number, d: ir.DType, at: int) -> ir.Value:
        if d == ir.I64 and number.value is not None:
            value = self.value(self.converted(number, INT64, at), at)
            return self.result("arith.index_cast", (value,), ir.ScalarType(d), at=at)
        return self._as_element(number, d, at)

    # -- synchronisation -----------------------------------------------------------------------------

    def _flag(self) -> None:
        """``set_flag(PIPE_A, PIPE_B, EVENT_ID0);`` and ``wait_flag``."""
        words = self.words
        at = words.index
        name = words.take()
        words.expect("(")
        pipes = []
        for _ in range(2):
            pipes.append(self._pipe_name())
            words.expect(",")
        event: ir.AttrValue
        text = words.text
        if text in _EVENTS:
            event = _EVENTS[words.take()]
            ins: tuple[ir.Value, ...] = ()
        else:
            place = words.index
            number = self.number(self.expression(), place)
            event = int(number.number) if number.number is not None else None
            ins = () if event is not None else (self.index(number, place),)
        words.expect(")")
        self._end()
        attributes: dict[str, ir.AttrValue] = {"src": pipes[0], "dst": pipes[1]}
        if not ins:
            attributes["event"] = event
        self.emit(name if not ins else f"{name}_dyn", ins, at=at, attributes=attributes)

    def _pipe_name(self) -> ir.Pipe:
        words = self.words
        found = members().get(words.text)
        if not isinstance(found, ir.Pipe):
            words.unexpected("a pipe, as PIPE_V")
        words.take()
        return found

    def _barrier(self) -> None:
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        pipe = self._pipe_name()
        words.expect(")")
        self._end()
        self.drained = pipe is ir.Pipe.ALL
        self.emit("barrier", at=at, attributes={"pipe": pipe})

    def tail(self) -> None:
        """``ptoas_auto_sync_tail(...);``: the barrier of all pipes at the end."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        mode = "" if words.text == ")" else words.take().rpartition("::")[2]
        words.expect(")")
        self._end()
        if mode in ("", "kBarrierAll"):
            self.emit("barrier", at=at, attributes={"pipe": ir.Pipe.ALL})
            self.drained = True
        elif mode == "kSetWaitMte3ToSEvent0":
            flag: Mapping[str, ir.AttrValue] = {"src": ir.Pipe.MTE3, "dst": ir.Pipe.S, "event": 0}
            self.emit("set_flag", at=at, attributes=flag)
            self.emit("wait_flag", at=at, attributes=flag)
        else:
            words.fail(f"found the mode '{mode}'; allowed: kBarrierAll, kSetWaitMte3ToSEvent0", at)

    def _cache(self) -> None:
        """``dcci((__gm__ void *)0, cache_line_t::ENTIRE_DATA_CACHE);``: all lines."""
        words = self.words
        at = words.index
        close = words.closing(at + 1)
        text = "".join(words.texts[at + 2 : close])
        if text != "(__gm__void*)0,cache_line_t::ENTIRE_DATA_CACHE":
            self.unread(at)
        words.go(close + 1)
        self._end()
        self.emit("cmo.cacheinvalid", at=at, attributes={"space": ir.AddressSpace.GM})

    def _line(self) -> None:
        """``PTOAS__DCCI_SINGLE_CACHE_LINE(p);``."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        pointer = self.expression()
        words.expect(")")
        self._end()
        if not isinstance(pointer, Pointer):
            words.fail("found a cache line of something that is no pointer", at)
        self.emit("cmo.cacheinvalid", (self.mention(pointer.value, at + 2),), at=at)

    def _fence(self) -> None:
        """``dsb(DSB_DDR);`` behind a barrier of all pipes."""
        words = self.words
        at = words.index
        close = words.closing(at + 1)
        text = "".join(words.texts[at + 2 : close])
        if text not in ("DSB_DDR", "(mem_dsb_t)0"):
            self.unread(at)
        if not self.drained:
            words.fail(
                "found a dsb without pipe_barrier(PIPE_ALL) before it, which no operation of programs is", at
            )
        words.go(close + 1)
        self._end()
        self.emit("fence.barrier_all", at=at, attributes={"scope": ir.FenceScope.GM})

    def _mask(self) -> None:
        """``set_mask_norm();``, ``set_vector_mask(-1, -1);``: all lanes, as tile instructions have it."""
        words = self.words
        at = words.index
        close = words.closing(at + 1)
        if "".join(words.texts[at : close + 1]) not in ("set_mask_norm()", "set_vector_mask(-1,-1)"):
            self.unread(at)
        words.go(close + 1)
        self._end()

    # -- control flow --------------------------------------------------------------------------------

    def _deeper(self) -> None:
        self.words.depth += 1
        if self.words.depth > MAX_DEPTH:
            self.words.fail(f"found a region nested more than {MAX_DEPTH} levels deep, the limit")

    def _braced(self) -> None:
        """Statements in braces, or one."""
        self._deeper()
        if self.words.accept("{"):
            self.statements()
        else:
            self.statement()
        self.words.depth -= 1

    def changed_in(self, start: int) -> list[str]:
        """The scalars that the statement at a word changes and that are defined before it."""
        words = self.words
        end = words.closing(start) if words.texts[start] == "{" else words.texts.index(";", start)
        found: dict[str, None] = {}
        for i in range(start, end):
            name, first = words.texts[i], words.texts[i - 1] in _FIRST
            if first and name in self._declared and words.texts[i + 1] == "=" and name in self.known:
                found[name] = None
        return list(found)

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
        body = words.index
        changed = self.changed_in(body)
        moved = [n for n in changed if n in words.texts[header:body]]
        if moved:
            words.fail(f"found a loop whose bounds use '{moved[0]}', which its body changes", header)
        inits = [self.value(self.number(self.find(n, at), at), at) for n in changed]
        arguments = [ir.Value(self.fresh(name), ir.ScalarType(ir.INDEX), words.place(place))]
        outer, before = dict(self.known), self.ops
        self.ops = []
        self.known[name] = self.converted(Number(INT64, arguments[0]), kind, place)
        for n, init in zip(changed, inits, strict=True):
            arguments.append(ir.Value(self.fresh(n), init.type, words.place(at)))
            self.known[n] = Number(self._declared[n], arguments[-1])
        self._braced()
        given = [self.value(self.number(self.find(n, at), at), at) for n in changed]
        region = self.region(tuple(arguments), before, given)
        self.known = outer
        results = self._results(changed, at)
        groups: Groups = (("lb", 1), ("ub", 1), ("step", 1), ("inits", len(inits)))
        self.emit("scf.for", (*bounds, *inits), at=at, results=results, groups=groups, regions=(region,))

    def _results(self, changed: list[str], at: int) -> tuple[ir.Value, ...]:
        """The values that names have behind a region that changes them."""
        found = []
        for n in changed:
            kind = self._declared[n]
            value = ir.Value(self.fresh(n), ir.ScalarType(kind.dtype), self.words.place(at))
            self.known[n] = Number(kind, value)
            found.append(value)
        return tuple(found)

    def _if(self) -> None:
        """``if (c) { ... } else { ... }``."""
        words = self.words
        at = words.index
        words.take()
        words.expect("(")
        self.stem = f"c{words.text}" if words.is_name() else "c"
        test = self.condition(self.expression(), at)
        words.expect(")")
        changed = self.changed_in(words.index)
        then, first = self._branch()
        other, second = None, dict(self.known)
        if words.text == "else":
            words.take()
            changed = list(dict.fromkeys([*changed, *self.changed_in(words.index)]))
            other, second = self._branch()
        handed = [n for n in changed if first.get(n) is not None and second.get(n) is not None]
        regions = [self._closed(then, first, handed)]
        if other is not None or handed:
            regions.append(self._closed(other or [], second, handed))
        for n in changed:
            self.known[n] = None
        results = self._results(handed, at)
        self.emit("scf.if", (test,), at=at, results=results, regions=tuple(regions))

    def _branch(self) -> tuple[list[ir.Op], dict[str, Thing]]:
        """The operations of a branch, and what names stand for at its end."""
        outer, before = dict(self.known), self.ops
        self.ops = []
        self._braced()
        read, self.ops = self.ops, before
        known, self.known = self.known, outer
        return read, known

    def _closed(self, ops: list[ir.Op], known: Mapping[str, Any], handed: list[str]) -> ir.Region:
        before, self.ops = self.ops, ops
        at = self.words.index - 1
        given = [self.value(self.number(known[n], at), at) for n in handed]
        return self.region((), before, given)

    def _block(self) -> None:
        outer = dict(self.known)
        self._braced()
        inner, self.known = self.known, outer
        self.known.update({n: inner[n] for n in outer if n in self._declared})


@cache
def _enumerations() -> frozenset[str]:
    """The names of enumerations, and of the list of counts that a merge writes."""
    kinds = {name.partition("::")[0] for name in members() if "::" in name}
    return frozenset({"MrgSortExecutedNumList", *kinds})


#: What the assembler writes; the rest of a message about something else.
FORMS_READ = "allowed: what the assembler writes (pto-jax isa c++ lists the forms)"
_CACHE = frozenset({"dcci", "dsb", "PTOAS__DCCI_SINGLE_CACHE_LINE"})
_FORMS: Mapping[str, Callable[[Statements], None]] = {
    "const": Statements._constant,
    "constexpr": Statements._constant,
    **dict.fromkeys(SCALARS, Statements._scalar),
    "using": Statements._alias,
    "Tile": Statements._tile,
    "pto::Tile": Statements._tile,
    **dict.fromkeys(("pto::Shape", "pto::Stride", "Shape", "Stride"), Statements._sizes),
    "GlobalTensor": Statements._view,
    "pto::GlobalTensor": Statements._view,
    "__gm__": Statements._pointer,
    "auto": Statements._pipe,
    "TASSIGN": Statements._place,
    "TPUSH": Statements._push,
    "TPOP": Statements._pop,
    "TFREE": Statements._release,
    "(": Statements._stored,
    "set_flag": Statements._flag,
    "wait_flag": Statements._flag,
    "pipe_barrier": Statements._barrier,
    "ptoas_auto_sync_tail": Statements.tail,
    "dcci": Statements._cache,
    "PTOAS__DCCI_SINGLE_CACHE_LINE": Statements._line,
    "dsb": Statements._fence,
    "set_mask_norm": Statements._mask,
    "set_vector_mask": Statements._mask,
    "for": Statements._for,
    "if": Statements._if,
    "{": Statements._block,
    ";": Statements._end,
}
