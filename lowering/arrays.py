"""Names for the arrays that most files have in their signatures: the type of the elements, and the axes.

Annotations of arrays say both: ``UInt32[Array, "lines lanes"]``. Equal names in one signature are equal
sizes; ``*shape`` stands for any axes, ``*#shape`` for axes that broadcast with the others of that name, ``_``
for one axis and ``...`` for all axes that nothing is said about; ``{count}`` is the value of a parameter.
Modules import the names for type checking only, so that executing needs no jaxtyping;
tests/numerics/test_shapes.py holds the rules against them.
"""

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from jax import Array
    from jaxtyping import Bool, Float, Float64, Int32, Integer, Shaped, UInt

    #: Raw words of a tile, or of the lanes that an instruction computes.
    Words: TypeAlias = UInt[Array, "rows cols"]
    #: The raw word of a scalar.
    Word: TypeAlias = UInt[Array, ""]
    #: Raw words of a buffer of global memory or of a tile's storage, one after the other.
    Flat: TypeAlias = UInt[Array, " elements"]
    #: Such words, or the numbers that they stand for.
    Elements: TypeAlias = Shaped[Array, " elements"]
    #: The same of a tile.
    Lanes: TypeAlias = Shaped[Array, "rows cols"]
    #: Which of those lanes are meant.
    Mask: TypeAlias = Bool[Array, "rows cols"]
    #: The values of the words of a tile.
    Values: TypeAlias = Float64[Array, "rows cols"]
    #: A valid size, or another small number, that only execution knows.
    Size: TypeAlias = Int32[Array, ""]
    #: An array that control flow carries, of any type and shape.
    Leaf: TypeAlias = Shaped[Array, "..."]
    #: Integers of an element type, no raw words; they broadcast with the arrays of ``*#shape``.
    Integers: TypeAlias = Integer[Array, "*#shape"]
    #: Values of floats, float64 or under fast numerics float32; they broadcast likewise.
    Floats: TypeAlias = Float[Array, "*#shape"]
