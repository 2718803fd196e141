"""Tiles for users: pytrees that compose with jit, vmap and shard_map, shown as pictures in notebooks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from ..errors import ArgumentError
from ..files import user_code
from ..interpreter import TileRef
from ..ir import F32, INDEX, TILE_DTYPES, DType, TileType, dims_text, dtype as find_dtype, from_numpy
from ..lowering.bits import x64
from ..lowering.slicing import as_array
from ..text import lexer, type_text, types
from . import conversion, interchange

#: The functions of NumPy that operators of arrays call.
_OPERATORS = frozenset((
    np.add, np.subtract, np.multiply, np.true_divide, np.floor_divide, np.remainder, np.power, np.matmul,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift,
    np.less, np.less_equal, np.greater, np.greater_equal,
))  # fmt: skip


def _refusing(symbol: str, *, reflected: bool = False) -> Callable[..., Any]:
    """The method of an operator, which a tile has none of: what it computes depends on the instruction."""

    def refuse(self: Tile, *others: Any) -> Any:
        other = others[0] if others else None
        text, fix = f"tile {symbol} ..." if others else f"{symbol} of a tile", f"t.array {symbol} ..."
        if isinstance(other, int | float):
            text = f"tile {symbol} {other}"
        expression = user_code.expression()
        if expression is not None:
            text, fix = expression.text, _on_arrays(expression.tree, other, reflected=reflected)
        allowed = "instructions on tiles (pto.ops.names() lists them), or JAX on arrays of all lanes"
        raise ArgumentError(f"{text}: a Tile ({self.type}) is not an array", allowed=allowed, fix=fix)

    return refuse


def _on_arrays(tree: ast.expr, other: Any, *, reflected: bool) -> str:
    """An expression with the arrays of its tiles, of which one is an operand."""

    def array(part: ast.expr) -> ast.expr:
        atom = isinstance(part, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
        return ast.Attribute(part, "array") if atom else part

    match tree:
        case ast.UnaryOp(op, operand):
            return ast.unparse(ast.UnaryOp(op, array(operand)))
        case ast.Call(ast.Name("float" | "int" | "complex" | "round" | "bool"), [operand, *_]):
            first = ast.Subscript(array(operand), ast.Tuple([ast.Constant(0), ast.Constant(0)]))
            return ast.unparse(ast.Call(tree.func, [first, *tree.args[1:]], []))
        case ast.Call(function, [operand, *rest]):
            return ast.unparse(ast.Call(function, [array(operand), *rest], []))
        case ast.BinOp(left, op, right):
            both = isinstance(other, Tile)
            left, right = (
                array(left) if both or not reflected else left,
                array(right) if both or reflected else right,
            )
            return ast.unparse(ast.BinOp(left, op, right))
        case ast.Compare(left, [op], [right]):
            right = array(right) if isinstance(other, Tile) else right
            return ast.unparse(ast.Compare(array(left), [op], [right]))
    return ""


class _NoAttributeError(ArgumentError, AttributeError):
    """An attribute of arrays that tiles do not have: JAX and NumPy ask for some."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Tile:
    """A tile: raw words [..., rows, cols] of its element type, and its valid region.

    ``v_row`` and ``v_col`` are int32 arrays of the batch shape, or None where the type gives the size.
    ``np.asarray(t)`` is the logical array in the element type (raw words for types NumPy lacks), of which
    ``shape`` and ``ndim`` are those, batch included; ``dtype`` is the PTO element type (its array type is
    ``dtype.numpy``). Tiles are equal where type, valid region and every word are.

    >>> t = tile(np.ones((2, 8), np.float32), valid=(1, 8))
    >>> int(t.valid_rows), t.type.dtype.name, np.asarray(t).shape
    (1, 'f32', (2, 8))
    """

    words: Array
    v_row: Array | None
    v_col: Array | None
    type: TileType = field(metadata={"static": True})

    def __post_init__(self) -> None:
        # Transformations rebuild pytrees with placeholder leaves; only real arrays are checked.
        shape: Any = getattr(self.words, "shape", ())
        t = self.type
        if len(shape) >= 2 and (shape[-2] != t.rows or shape[-1] != t.cols):
            raise ArgumentError(
                f"tile: got words of shape {tuple(shape)}", allowed=f"{self.type.shape}, the shape of type"
            )
        if len(shape) >= 2 and t.dtype.bits == 64 and (given := np.dtype(self.words.dtype)) == np.uint32:
            raise ArgumentError(
                f"tile: got words of {given.name}",
                allowed=f"{t.dtype.word.name} ({t}){conversion.narrowing(self.words, t.dtype)}",
            )

    def __reduce_ex__(self, protocol: Any) -> Any:
        """As a dataclass; words of 64 bits as an array of NumPy, for JAX narrows those that it reads."""
        words: Any = self.words
        if self.type.dtype.bits < 64 or isinstance(words, Tracer) or not isinstance(words, Array):
            return super().__reduce_ex__(protocol)
        return _of_arrays, (np.asarray(words), self.v_row, self.v_col, self.type)

    @classmethod
    def of(cls, words: Array, ref: TileRef) -> Tile:
        """The tile a handle stands for; sizes known as numbers stay in the type."""
        rows, cols = ref.v_row, ref.v_col
        if isinstance(rows, int) and isinstance(cols, int):
            return cls(words, None, None, ref.type.with_valid(rows, cols))
        rows, cols = jnp.asarray(rows, np.int32), jnp.asarray(cols, np.int32)
        return cls(words, rows, cols, ref.type.with_valid(None, None))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tile):
            return NotImplemented
        if self is other:
            return True
        pairs = [(a, b) for a, b in zip(_leaves(self), _leaves(other), strict=True) if a is not b]
        if any(isinstance(x, Tracer) for pair in pairs for x in pair):
            got = f"== of traced tiles ({self.type}), whose values a trace does not have"
            raise ArgumentError(got, allowed="tiles with values", fix="(a.array == b.array).all()")
        return self.type == other.type and all(np.array_equal(a, b) for a, b in pairs)

    def __repr__(self) -> str:
        t, batch = self.type.with_valid(*self.type.shape), getattr(self.words, "shape", (0, 0))[:-2]
        head = f"Tile({'x'.join(map(str, batch))}{' of ' if batch else ''}{t}"
        if not _has_values(self):
            valid = "" if self.type.is_full else f", valid {dims_text(self.type.valid)}"
            arrays = all(x is None or _is_array(x) for x in _leaves(self))
            return f"{head}{valid}, {'no values' if arrays else 'traced'})"
        rows, cols = (np.asarray(n) for n in (self.valid_rows, self.valid_cols))
        if rows.ndim or cols.ndim:
            return f"{head}, valid {_span(rows)}x{_span(cols)}, {_values(self)})"
        valid = "" if (int(rows), int(cols)) == self.type.shape else f", valid {rows}x{cols}"
        shown = _values(self, int(rows), int(cols)) if rows > 0 and cols > 0 else "empty"
        return f"{head}{valid}, {shown})"

    def __str__(self) -> str:
        """The type, and the valid elements: at most 8 rows of 88 characters.

        >>> print(tile(np.float32([[1, -2.5]] * 2), valid=(2, 1)))
        vec 2x2xf32, valid 2x1
        1
        1
        """
        if not _has_values(self) or np.ndim(self.words) > 2:
            return repr(self)
        rows, cols = int(self.valid_rows), int(self.valid_cols)
        t = self.type.with_valid(*self.type.shape)
        head = str(t) if (rows, cols) == t.shape else f"{t}, valid {rows}x{cols}"
        return "\n".join([head, *_lines(_numbers(self)[: max(rows, 0), : max(cols, 0)])])

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show, of a batch the first tile; None where there are no values."""
        if not _has_values(self) or 0 in self.shape[:-2]:
            return None
        from ..pictures import tile as picture

        return picture(self).svg

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Functions of NumPy on the logical array; operators of NumPy arrays on tiles are refused."""
        if ufunc in _OPERATORS and not isinstance(inputs[0], Tile) and method == "__call__":
            mine = next(x for x in inputs if isinstance(x, Tile))
            return mine._refused_by_array(*(x for x in inputs if x is not mine))
        plain = [np.asarray(x) if isinstance(x, Tile) else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __jax_array__(self) -> Array:
        """What functions of JAX compute with: the logical array, all lanes, as ``np.asarray`` has it."""
        return self.array

    def __getitem__(self, index: Any) -> Array:
        """Elements of the logical array, as its indices say."""
        return self.array[index]

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.array)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(Array, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        result = user_code.expression()
        tree = result.tree if result is not None else None
        tree = tree.func if isinstance(tree, ast.Call) else tree
        mine = ast.unparse(tree.value) if isinstance(tree, ast.Attribute) else "tile"
        got = f"{mine}.{name}: got an attribute of arrays on a Tile ({self.type})"
        raise _NoAttributeError(got, allowed="its array", fix=f"{mine}.array.{name}")

    def astype(self, dtype: Any) -> Array:
        """The logical array in another array type, as JAX converts it; instructions convert with ``tcvt``.

        >>> tile(np.ones((1, 16), np.float32)).astype(np.float16).dtype.name
        'float16'
        """
        return self.array.astype(dtype)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the logical array: batch axes, rows, columns."""
        return tuple(self.words.shape)

    @property
    def ndim(self) -> int:
        """The number of axes: those of the batch, rows and columns."""
        return len(self.shape)

    @property
    def valid_rows(self) -> Array | int:
        """Valid rows: an int32 array of the batch shape, or an int when static."""
        return self.v_row if self.v_row is not None else _known(self.type.v_row)

    @property
    def valid_cols(self) -> Array | int:
        """Valid columns: an int32 array of the batch shape, or an int when static."""
        return self.v_col if self.v_col is not None else _known(self.type.v_col)

    @property
    def array(self) -> Array:
        """The logical array [..., rows, cols] in the element type."""
        with x64():
            return as_array(self.words, np.dtype(self.dtype.numpy))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        logical = np.asarray(self.words).view(self.dtype.numpy)
        if dtype is None:
            return logical
        # Converting a signalling NaN to a wider float raises the invalid flag, and is no news to anybody.
        with np.errstate(invalid="ignore" if np.dtype(dtype).kind == "f" else "warn"):
            return logical.astype(dtype)

    __add__, __radd__ = _refusing("+"), _refusing("+", reflected=True)
    __sub__, __rsub__ = _refusing("-"), _refusing("-", reflected=True)
    __mul__, __rmul__ = _refusing("*"), _refusing("*", reflected=True)
    __truediv__, __rtruediv__ = _refusing("/"), _refusing("/", reflected=True)
    __floordiv__, __rfloordiv__ = _refusing("//"), _refusing("//", reflected=True)
    __mod__, __rmod__ = _refusing("%"), _refusing("%", reflected=True)
    __pow__, __rpow__ = _refusing("**"), _refusing("**", reflected=True)
    __matmul__ = _refusing("@")
    __rmatmul__ = _refused_by_array = _refusing("@", reflected=True)
    __and__, __rand__ = _refusing("&"), _refusing("&", reflected=True)
    __or__, __ror__ = _refusing("|"), _refusing("|", reflected=True)
    __xor__, __rxor__ = _refusing("^"), _refusing("^", reflected=True)
    __lshift__, __rlshift__ = _refusing("<<"), _refusing("<<", reflected=True)
    __rshift__, __rrshift__ = _refusing(">>"), _refusing(">>", reflected=True)
    __lt__, __le__, __gt__, __ge__ = map(_refusing, ("<", "<=", ">", ">="))
    __neg__, __invert__, __abs__, __float__, __int__ = map(_refusing, ("-", "~", "abs", "float", "int"))
    __bool__, __round__, __complex__ = map(_refusing, ("bool", "round", "complex"))

    def __format__(self, spec: str) -> str:
        return str(self) if not spec else str(_refusing("format")(self))

    def single(self, what: str) -> Tile:
        """The tile itself; ArgumentError when it is a batch, which instructions take under vmap."""
        for array, rank in ((self.words, 2), (self.v_row, 0), (self.v_col, 0)):
            batch = () if array is None else array.shape[: array.ndim - rank]
            if batch:
                raise ArgumentError(
                    f"{what}: got a batch of tiles of shape {batch}", allowed="one tile; use jax.vmap"
                )
        return self

    def dynamic(self) -> Tile:
        """The same tile with its valid sizes as arrays, so that they can differ within a batch.

        >>> tile(np.ones((2, 16), np.float32)).dynamic().type.valid
        (None, None)
        """
        batch = self.words.shape[:-2]
        rows = jnp.broadcast_to(jnp.asarray(self.valid_rows, np.int32), batch)
        cols = jnp.broadcast_to(jnp.asarray(self.valid_cols, np.int32), batch)
        return replace(self, v_row=rows, v_col=cols, type=self.type.with_valid(None, None))


def _type_text(static: Any) -> bytes:
    """The static part of a tile as text, for :mod:`jax.export`."""
    (t,) = static
    return type_text.print_type(t).encode()


def _type_of_text(text: bytes | bytearray) -> tuple[TileType]:
    t = types.TypeReader(lexer.Cursor(bytes(text).decode(), "<tile>")).read()
    assert isinstance(t, TileType)
    return (t,)


jax.export.register_pytree_node_serialization(
    Tile,
    serialized_name="pto_jax.Tile",
    serialize_auxdata=_type_text,
    deserialize_auxdata=_type_of_text,
)


def _leaves(t: Tile) -> tuple[Any, Any, Any]:
    return t.words, t.v_row, t.v_col


def _has_values(t: Tile) -> bool:
    """Whether the leaves are arrays with the words and sizes of a tile.

    JAX and its users put other leaves into the same tree: axes, specifications, tangents of type float0.
    """
    sizes = [n for n in (t.v_row, t.v_col) if n is not None]
    kinds = [(t.words, t.dtype.word.kind), *((n, "i") for n in sizes)]
    are_arrays = all(_is_array(x) for x, _ in kinds)
    return are_arrays and np.ndim(t.words) >= 2 and all(np.dtype(x.dtype).kind == k for x, k in kinds)


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "__array__") and not isinstance(leaf, Tracer)


def _of_arrays(words: np.ndarray[Any, Any], v_row: Any, v_col: Any, type: TileType) -> Tile:
    with x64():
        return Tile(jax.device_put(words), v_row, v_col, type)


def _span(sizes: np.ndarray[Any, Any]) -> str:
    """The sizes of a batch: one number, or the smallest and the largest."""
    if not sizes.size:
        return "?"
    low, high = int(sizes.min()), int(sizes.max())
    return str(low) if low == high else f"{low}..{high}"


def _values(t: Tile, rows: int | None = None, cols: int | None = None) -> str:
    """A few elements of a tile, as numbers on one line."""
    numbers = _numbers(t)[..., :rows, :cols]
    edge = 2 if numbers.ndim == 2 else 1
    text = np.array2string(
        numbers,
        threshold=0,
        edgeitems=edge,
        formatter={"float_kind": lambda x: f"{x:.5g}"},
        max_line_width=1 << 30,
    )
    return " ".join(text.split())


def _lines(numbers: np.ndarray[Any, Any]) -> Iterator[str]:
    """The rows of a matrix with aligned columns, as far as they are shown."""
    rows, cols = numbers.shape
    cells = [
        [f"{n:.6g}" if isinstance(n, float) else f"{n}" for n in row[:32]] for row in numbers[:8].tolist()
    ]
    width = max((len(cell) for row in cells for cell in row), default=0)
    most = 84 // (width + 1)
    for row in cells:
        yield " ".join(cell.rjust(width) for cell in row[:most]) + (" ..." if cols > min(most, 32) else "")
    if rows > 8:
        yield "..."


def _numbers(t: Tile) -> np.ndarray[Any, Any]:
    """The elements as numbers that NumPy computes with."""
    from ..oracle.numbers import plain

    return plain(np.asarray(t.words), t.dtype)


def _known(size: int | None) -> int:
    if size is None:
        raise ArgumentError("the tile's type leaves the valid size open and no array gives it")
    return size


def tile(
    x: Any,
    valid: tuple[Any, Any] | None = None,
    dtype: str | DType | None = None,
    type: TileType | None = None,
) -> Tile:
    """A tile from a [rows, cols] array.

    ``valid`` gives the valid rows and columns (ints or int32 scalars, kept as data so that they batch);
    without it the whole tile is valid. ``dtype`` names the element type when the array holds raw words;
    ``type`` gives the full tile type (location, layout, static valid region). For a batch, vmap it:
    ``jax.vmap(pto.tile)(X)``. A Tile in place of the array gives its contents, ``valid`` then a new valid
    region. ArgumentError for a shape, elements or a valid region that the type does not have.

    >>> tile(np.zeros((16, 64), np.float16)).type.is_full
    True
    """
    named = find_dtype(dtype) if dtype is not None else None
    if isinstance(x, Tile):
        x, type = x.single("tile").words, type or x.type.with_valid(*x.type.shape)
    else:
        x = interchange.received(x, "tile")
    if type is None:
        type = _type_of(x, named)
    elif not isinstance(type, TileType):
        raise ArgumentError(
            f"tile: type: got {type!r}", allowed="a TileType", fix="pto.tile_type(dtype, rows, cols)"
        )
    if named not in (None, type.dtype):
        got = f"tile: dtype: got {named} for a tile of {type.dtype}"
        raise ArgumentError(got, allowed="none", fix=f'pto.ops.tcvt(..., dst="{named}")')
    x = conversion.as_array(x, type.dtype, "tile")
    if tuple(x.shape) != type.shape:
        raise ArgumentError(f"tile: got shape {tuple(x.shape)}", allowed=f"{type.shape}, the shape of type")
    with x64():
        words = conversion.to_words(x, type.dtype, elements=True)
    if valid is None:
        if not type.is_static:
            raise ArgumentError(f"tile: got no valid sizes for the type {type}", fix="valid=(rows, cols)")
        return Tile(words, None, None, type)
    if not isinstance(valid, tuple | list) or len(valid) != 2:
        raise ArgumentError(f"tile: valid: got {valid!r}", allowed="(rows, cols)")
    rows, cols = (_size(v, n, axis) for v, n, axis in zip(valid, type.shape, ("rows", "cols"), strict=True))
    return Tile(words, rows, cols, type.with_valid(None, None))


def _type_of(x: Any, named: DType | None) -> TileType:
    """The type of a fully valid tile that holds an array; plain Python numbers count as f32."""
    shape = np.shape(x) if hasattr(x, "dtype") else np.shape(conversion.as_array(x, named or F32, "tile"))
    element = named or (from_numpy(x.dtype) if hasattr(x, "dtype") else F32)
    if element not in TILE_DTYPES:
        raise ArgumentError(
            f"got elements of type {element.name}", allowed=", ".join(sorted(d.name for d in TILE_DTYPES))
        )
    if len(shape) != 2:
        batch = "; try: jax.vmap(pto.tile)(x)" if len(shape) > 2 else ""
        raise ArgumentError(f"tile: got shape {tuple(shape)}", allowed=f"a [rows, cols] array{batch}")
    return TileType(element, *shape)


def _size(size: Any, extent: int, axis: str) -> Array:
    array = conversion.as_scalar(size, INDEX, f"tile: valid {axis}")
    if isinstance(array, Tracer):
        # A size that an int32 cannot hold stays outside every tile instead of wrapping into it.
        with x64():
            return jnp.clip(array.astype(np.int64), -1, np.iinfo(np.int32).max).astype(np.int32)
    if not 0 <= int(array) <= extent:
        raise ArgumentError(f"tile: got {int(array)} valid {axis}", allowed=f"0 to {extent}")
    return jnp.asarray(np.int32(array))
