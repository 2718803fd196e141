"""Values of a program under construction, as Python objects."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol

from .. import isa
from ..errors import BuildError, Diagnostic, PtoError, with_article
from ..files import user_code
from ..ir import MemRefType, PartitionViewType, TensorViewType, TileType, Type, Value
from ..isa.memory_scalar import TGETVAL, TSETVAL
from ..isa.views import PARTITION_VIEW
from . import instead
from .places import fail, here


class Owner(Protocol):
    """The function that values belong to, which gives each its name."""

    name: str

    def fresh(self, hint: str | None) -> str:
        """A name that no other value of the function has."""

    def constant_of(self, handle: Handle, name: str) -> str:
        """The lines that make a number known when the program is built, "" where there are none."""


class Scope(Protocol):
    """The region that values are defined in; once it is closed they can no longer be used."""

    open: bool


class Handle:
    """A value of the program: the result of an operation, or an argument.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     str(f.args[0]), str(f.args[0].type)
    ('%n', 'index')
    """

    def __init__(self, owner: Owner, block: Scope, type_: Type, name: str | None = None) -> None:
        self.owner = owner
        self.block = block
        self.type = type_
        self._name = name

    __slots__ = ("_name", "block", "owner", "type")

    @property
    def name(self) -> str:
        """Its name in the program, without ``%``."""
        if self._name is None:
            self._name = self.owner.fresh(None)
        return self._name

    def named(self, hint: str | None) -> None:
        """Give a name to a value that has none yet."""
        if self._name is None and hint is not None:
            self._name = self.owner.fresh(hint)

    @property
    def value(self) -> Value:
        """The value as programs hold it: its name and type."""
        return Value(self.name, self.type)

    @property
    def label(self) -> str:
        """Its name in the Python code; of a value without one its type."""
        own = self._name or ""
        return with_article(self.type) if not own or own.isdecimal() else own

    def spelled(self, written: user_code.Expression | None) -> str:
        """The user's name of the value: a variable of the expression, else its name in the program."""
        nodes = list(ast.walk(written.tree)) if written is not None else []
        called = {id(n) for call in nodes if isinstance(call, ast.Call) for n in ast.walk(call.func)}
        parts = {id(n) for a in nodes if isinstance(a, ast.Attribute) for n in ast.walk(a.value)}
        names = {ast.unparse(n): id(n) in parts for n in nodes
                 if isinstance(n, ast.Name | ast.Attribute) and id(n) not in called}  # fmt: skip
        own = self._name or ""
        hint = own.rpartition("_")[0] if own[-1:].isdigit() else own
        whole = [n for n, part in names.items() if not part]
        lone = whole[0] if len(whole) == 1 else self.label
        return next((n for n in names if n.rpartition(".")[2] in (own, hint)), lone)

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """What an expression got that takes the value for one of Python, what is allowed, and a fix."""
        text = written.text if written is not None else "an expression"
        return f"{text}: got {self.spelled(written)}, {with_article(self.type)}", "instructions", ""

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse a use as a value of Python: the contents are there when the program runs."""
        written = user_code.expression()
        message, allowed, fix = self.objection(written)
        fail(message, written.span if written is not None else None, allowed=allowed, fix=fix)

    # JAX asks whether there is such an attribute before it looks at anything else.
    __array__ = __array_ufunc__ = __array_function__ = refuse
    __jax_array__ = property(refuse)

    def __str__(self) -> str:
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}: {self.type}>"


def described(value: Any) -> str:
    """Any Python object as messages show it: values by name and type, arrays by shape, others cut short.

    >>> import numpy as np
    >>> described(np.ones((2, 3), np.float32)), described("f32")
    ('an array of float32 of shape (2, 3)', "'f32'")
    """
    if isinstance(value, Handle):
        return value.label if value.label.startswith(("a ", "an ")) else f"{value.label}: {value.type}"
    if hasattr(value, "node"):
        return f"the event of {value}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, Type):
        shape = getattr(value, "shape", ())
        return f"an array of {value.dtype} of shape {tuple(shape)}" if shape else f"{value!r:.60}"
    return f"the type {value}" if isinstance(value, Type) else f"{value!r:.60}"


def _refused(symbol: str, *, reflected: bool = False) -> Callable[..., NoReturn]:
    """The method of an operator that tiles of a program have none of."""

    def refuse(self: TileHandle, *others: Any) -> NoReturn:
        result = user_code.expression()
        tree = result.tree if result is not None else None
        texts, second = user_code.sides(tree), reflected
        if isinstance(tree, ast.Compare) and isinstance(tree.ops[0], ast.In | ast.NotIn):
            texts = []
        if isinstance(tree, ast.Compare) and result is not None:
            # Python asks the right operand of 0 < t with the symbol turned round.
            second = symbol not in result.text
        mine, other = self.name, str(others[0].name if isinstance(others[0], Handle) else others[0])
        if texts:
            mine, other = reversed(texts) if second else texts
        text = f"{other} {symbol} {mine}" if reflected else f"{mine} {symbol} {other}"
        text = result.text if texts and result is not None else text
        type_ = getattr(others[0], "type", None)
        fix = instead.operation(symbol, mine, self.type, other, type_, reflected=reflected)
        fix = "" if others[0] is None or isinstance(others[0], str | list | tuple | dict) else fix
        message = f"{text}: got the tile {mine}, which has no Python operators in a kernel"
        fail(message, allowed="instructions", fix=fix)

    return refuse


class NoAttributeError(BuildError, AttributeError):
    """An attribute that tiles of a program do not have: ``hasattr`` and JAX ask for some."""


#: Instructions by the operators of one operand.
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.Invert: "not", ast.UAdd: "mov"}


class TileHandle(Handle):
    """A tile, or a local memref. It has no elements in Python: instructions compute on it.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index"}) as f:
    ...     tile = b.alloc_tile("f32", 16, 32, valid=(f.args[0], 32))
    >>> tile.shape, tile.valid
    ((16, 32), (None, 32))
    """

    __slots__ = ()

    __add__, __radd__ = _refused("+"), _refused("+", reflected=True)
    __sub__, __rsub__ = _refused("-"), _refused("-", reflected=True)
    __mul__, __rmul__ = _refused("*"), _refused("*", reflected=True)
    __truediv__, __rtruediv__ = _refused("/"), _refused("/", reflected=True)
    __floordiv__, __rfloordiv__ = _refused("//"), _refused("//", reflected=True)
    __mod__, __rmod__ = _refused("%"), _refused("%", reflected=True)
    __pow__, __rpow__ = _refused("**"), _refused("**", reflected=True)
    __matmul__, __rmatmul__ = _refused("@"), _refused("@", reflected=True)
    __and__, __rand__ = _refused("&"), _refused("&", reflected=True)
    __or__, __ror__ = _refused("|"), _refused("|", reflected=True)
    __xor__, __rxor__ = _refused("^"), _refused("^", reflected=True)
    __lshift__, __rlshift__ = _refused("<<"), _refused("<<", reflected=True)
    __rshift__, __rrshift__ = _refused(">>"), _refused(">>", reflected=True)
    __lt__, __le__, __gt__, __ge__ = map(_refused, ("<", "<=", ">", ">="))
    __eq__, __ne__ = map(_refused, ("==", "!="))
    __hash__ = object.__hash__

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """Refuse a function or an operator of arrays; the fix is the instruction of its name."""
        tree, mine = written.tree if written is not None else None, self.spelled(written)
        text, allowed, fix = written.text if written is not None else "an expression", "instructions", ""
        match tree:
            case ast.Call(function, args):
                text, allowed = ast.unparse(function), "arrays"
                last = text.rpartition(".")[2].removeprefix("t").removesuffix("imum")
                operands = ", ".join(map(ast.unparse, args))
                if len(args) == 1 and not isinstance(args[0], ast.List | ast.Tuple):
                    mine = ast.unparse(args[0])
                    fix = instead.attribute(last, mine, self.type)
                    if last in ("array", "asarray") and mine.isidentifier():
                        fix = instead.printed(mine, self.type)
                elif args and isinstance(args[-1], ast.Constant) and isa.find(f"t{last}s") is not None:
                    number = instead.number(ast.unparse(args[-1]), self.type)
                    fix = f"pto.t{last}s({mine}, {mine}, {number})"
                elif isa.find(f"t{last}") is not None:
                    fix = f"pto.t{last}({mine}, {operands})"
            case ast.UnaryOp(operator, _):
                fix = instead.attribute(_UNARY.get(type(operator), "neg"), mine, self.type)
        return f"{text}: got the kernel tile {mine}", allowed, fix

    def __bool__(self) -> NoReturn:
        allowed = "scalars of the program, as in pto.if_(n > 0)"
        result = user_code.expression()
        named = result is not None and result.statement == "if" and self.name.isidentifier()
        fix = f"with pto.if_(pto.{TGETVAL}({self.name}, 0) > 0):" if named else ""
        fail(f"got the tile {self.name} as a truth value", allowed=allowed, fix=fix)

    def __iter__(self) -> Iterator[Any]:
        fail(
            f"got the tile {self.name} to iterate over",
            allowed="views of its parts",
            fix=f"pto.subview({self.name}, [0, 0], [1, {self._columns()}])"
            if self.name.isidentifier()
            else "",
        )

    def _columns(self) -> int:
        return (self.shape[-1:] or (1,))[0] or 1

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        written = user_code.expression()
        tree = written.tree if written is not None else None
        mine = ast.unparse(tree.value) if isinstance(tree, ast.Attribute) else self.name
        fix = instead.attribute(name, mine, self.type)
        message = f"got the attribute {name!r} of the tile {self.name}"
        allowed = "type, shape, valid, name, and instructions on the tile"
        raise NoAttributeError(Diagnostic("error", message, here().span, allowed=allowed, fix=fix))

    def __getitem__(self, place: Any) -> NoReturn:
        self._no_element(place, f"pto.{TGETVAL}({self.name}, OFFSET)")

    def __setitem__(self, place: Any, value: Any) -> NoReturn:
        text = value.label if isinstance(value, Handle) else repr(value)
        self._no_element(place, f"pto.{TSETVAL}({self.name}, OFFSET, {text})")

    __delitem__ = Handle.refuse

    def _no_element(self, place: Any, fix: str) -> NoReturn:
        """Refuse an element of the tile; the fix addresses it where its place in the storage is known."""
        t = self.type
        offset = ""
        match place:
            case (int(row), int(col)) if isinstance(t, TileType) and t.layout == "ND":
                offset = str(row * t.cols + col)
        fail(
            f"got an element of the tile {self.name}",
            allowed="instructions on whole tiles, and elements by their number in the tile's storage",
            fix=fix.replace("OFFSET", offset) if offset else "",
        )

    def __len__(self) -> NoReturn:
        fix = f"{self.name}.shape[0]" if self.name.isidentifier() else ""
        fail(f"len({self.name}): got a tile", allowed="its sizes", fix=fix)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Rows and columns of a tile; of a memref its sizes, None for those known at run time."""
        return self.type.shape if isinstance(self.type, TileType) else _dims(self.type)

    @property
    def valid(self) -> tuple[int | None, int | None]:
        """The valid sizes that the type gives, None for those known at run time."""
        return self.type.valid if isinstance(self.type, TileType) else (None, None)


class View(Handle):
    """A tensor in global memory, or a window of one.

    ``view[r, c]`` is the place that ``tload`` and ``tstore`` begin at, with one number for every
    dimension.

    >>> from pto_jax import builder as b
    >>> with b.Builder().function("f", {"n": "index", "p": b.ptr("f32")}) as f:
    ...     view = b.global_tensor(f.args[1], [f.args[0], 64])
    >>> view.shape
    (None, 64)
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The sizes that the type gives, outermost first, None for those known at run time."""
        return _dims(self.type)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        message = f"got the attribute {name!r} of {self.label}"
        allowed = "shape, type, name, and loads and stores of tiles"
        fix = {"rows": "shape[-2]", "cols": "shape[-1]", "dtype": "type.dtype"}.get(name, "shape")
        if name in ("load", "store") and self.name.isidentifier():
            fix = f"pto.tload(tile, {self.name})" if name == "load" else f"pto.tstore({self.name}, tile)"
        raise NoAttributeError(Diagnostic("error", message, here().span, allowed=allowed, fix=fix))

    def objection(self, written: user_code.Expression | None) -> tuple[str, str, str]:
        """Refuse a function or an operator of arrays: tiles are loaded first."""
        mine = self.spelled(written)
        message = f"{written.text if written is not None else mine}: got the view {mine} of global memory"
        return message, "loads of tiles", f"pto.tload(tile, {mine})" if mine.isidentifier() else ""

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = Handle.refuse
    __hash__ = object.__hash__

    def __len__(self) -> NoReturn:
        fail(f"len({self.label}): got a view", allowed="its sizes", fix=f"{self.name}.shape[0]")

    def __getitem__(self, offsets: Any) -> Indexed:
        indices = offsets if isinstance(offsets, tuple) else (offsets,)
        if any(isinstance(o, slice) for o in indices):
            fail(f"got a slice of {self.label}", allowed="numbers, or a window", fix=self._window())
        rank = len(self.shape)
        if len(indices) != rank:
            places = [o.label if isinstance(o, Handle) else str(o) for o in indices]
            numbers = ", ".join((*places, *["0"] * rank)[:rank])
            fix = f"{self.name}[{numbers}]" if self.name.isidentifier() else ""
            fail(
                f"{self.label}[...]: got {len(indices)} numbers",
                allowed=f"{rank}, one for each dimension",
                fix=fix,
            )
        return Indexed(self, indices)

    def __setitem__(self, offsets: Any, value: Any) -> NoReturn:
        text = value.label if isinstance(value, Handle) and value.label.isidentifier() else "tile"
        offsets = offsets if isinstance(offsets, tuple) else (offsets,)
        place = ", ".join(o.label if isinstance(o, Handle) else str(o) for o in offsets)
        whole = any(isinstance(o, slice) for o in offsets)
        target = self.name if whole else f"{self.name}[{place}]"
        fix = f"pto.tstore({target}, {text})" if self.name.isidentifier() else ""
        fail(f"got an assignment to {self.label}", allowed="stores of tiles", fix=fix)

    def _window(self) -> str:
        """The window that a slice of the user's code means, as a call; "" for other slices."""
        result = user_code.expression()
        tree = result.tree if result is not None else None
        if not isinstance(tree, ast.Subscript):
            return ""
        places = list(tree.slice.elts) if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        places += [ast.Slice()] * (len(self.shape) - len(places))
        bounds = [_bounds(place, extent) for place, extent in zip(places, self.shape, strict=False)]
        offsets, sizes = (", ".join(part) for part in zip(*bounds, strict=True))
        window = f"pto.{PARTITION_VIEW}({ast.unparse(tree.value)}, [{offsets}], [{sizes}])"
        return "" if "?" in window else window

    def __iter__(self) -> Iterator[Any]:
        fail(f"{self.label} has no elements in Python", allowed="instructions that load and store it")


def _bounds(place: ast.expr, extent: int | None) -> tuple[str, str]:
    """Offset and size of one dimension of a slice, as Python; "?" for one that the text does not have."""
    if not isinstance(place, ast.Slice):
        return ast.unparse(place), "1"
    first = ast.unparse(place.lower) if place.lower is not None else "0"
    if place.step is not None or (place.upper is None and extent is None):
        return first, "?"
    last = ast.unparse(place.upper) if place.upper is not None else str(extent)
    if first.isdecimal() and last.isdecimal():
        return first, str(int(last) - int(first))
    # A window from i to i + 16 has 16 elements.
    return first, last.removeprefix(f"{first} + ") if last.startswith(f"{first} + ") else f"{last} - {first}"


class Indexed:
    """A place in a view."""

    def __init__(self, view: View, offsets: tuple[Any, ...]) -> None:
        self.view = view
        self.offsets = offsets


def _dims(t: Type) -> tuple[int | None, ...]:
    return t.dims if isinstance(t, TensorViewType | PartitionViewType | MemRefType) else ()


#: Classes of the builder whose objects mostly have no name.
_UNNAMED = frozenset(("Indexed", "Loop", "Branch", "While", "Switch", "OpenRegion", "Event", "Scalar"))


def refuse_error(error: BaseException, file: str) -> None:
    """Raise BuildError for an error of Python or a library whose text names a class of values of programs.

    All other errors are the author's. ``file`` is that of the function that is being built.
    """
    failure = user_code.failing_expression(error, file) if not isinstance(error, PtoError) else None
    if failure is None:
        return
    (written, in_library), tree = failure, failure[0].tree
    classes = re.findall(r"\w+", str(error))
    # Events are no handles, and answer in the same way.
    answering = (v for v in written.objects() if hasattr(type(v), "objection"))
    value: Any = next((v for v in answering if type(v).__name__ in classes), None)
    if value is None:
        if _UNNAMED.intersection(classes) and any(isinstance(v, Handle) for v in written.objects()):
            reason = str(error).partition("\n")[0]
            fail(f"{written.text}: got a part of a program ({reason})", written.span, allowed="numbers of it")
        return
    message, allowed, fix = value.objection(written)
    shown = isinstance(tree, ast.BinOp | ast.UnaryOp | ast.Compare) or bool(getattr(tree, "args", ()))
    if not (in_library or isinstance(error, LookupError) or shown):
        # What was asked of the value is in the error's own words only.
        name, mine = type(value).__name__, value.spelled(written)
        reason = re.sub(rf"'?\b{name}\b'?( object)?", mine, str(error).partition("\n")[0])
        message = f"{message} ({reason})"
    fail(message, written.span, allowed=allowed, fix=fix)
