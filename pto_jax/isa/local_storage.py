"""Arrays and structures of scalars that a core keeps beside its tiles."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ..ir import F32, I8, INDEX, LocalArrayType, ScalarType, StructType, Type
from ..profiles import Profile
from .declare import Attribute, AttrMap, Constraint, Decision, Finding, Instruction, Operand, Site
from .rules.forbid import Types, forbid, give
from .rules.handles import Shown, custom, of_class
from .traits import Effect, Traits

_DIALECT = "PTOAS dialect definition and verifier (August 2026)"
_INDEX = ScalarType(INDEX)
_ARRAY = LocalArrayType((4, 8), F32)
_STRUCT = StructType((F32, StructType((I8, F32))))


def _holds(name: str, value: str) -> Constraint:
    """The scalar that is moved has the type that is kept."""

    def breaks(types: Types, attrs: AttrMap, profile: Profile) -> bool:
        types[value] = ScalarType(I8 if types[value] != ScalarType(I8) else F32)
        return True

    @forbid("types-equal", f"{value} has the type kept there", source=_DIALECT, invalid_if=breaks)
    def rule(site: Site) -> Iterator[Finding]:
        t, scalar = site.types.get(name), site.types.get(value)
        if isinstance(t, LocalArrayType):
            expected = t.dtype
        elif isinstance(t, StructType):
            leaf = t.leaf(_path(site))
            if leaf is None:
                paths = ", ".join(str(list(path)) for path, _ in t.leaves())
                yield name, f"the path {list(_path(site))} in {t}; allowed, as it ends at a scalar: {paths}"
                return
            expected = leaf
        else:
            yield name, f"{name} is {t}; allowed: an array or a structure of local storage"
            return
        if isinstance(scalar, ScalarType) and scalar.dtype != expected:
            yield value, f"{value} has type {scalar}; allowed: {expected}"

    return rule


def _path(site: Site) -> tuple[int, ...]:
    path = site.attrs.get("path")
    return tuple(n for n in path if isinstance(n, int)) if isinstance(path, tuple) else ()


@forbid("indices", "one index for each dimension, inside it", source=_DIALECT)
def _indices(site: Site) -> Iterator[Finding]:
    t, numbers = site.types.get("array"), site.numbers("indices")
    if not isinstance(t, LocalArrayType):
        return
    if len(numbers) != len(t.dims):
        got = f"{len(numbers)} indices of an array of rank {len(t.dims)}"
        yield "indices", f"{got}; allowed: {len(t.dims)}"
        return
    for n, extent in zip(numbers, t.dims, strict=True):
        if n is not None and not 0 <= n < extent:
            yield "indices", f"index {n} of {extent} elements; allowed: 0 to {extent - 1}"


@forbid(
    "array-elements",
    "elements that are integers or floats",
    source=_DIALECT,
    invalid_if=give("result", LocalArrayType((8,), INDEX)),
)
def _elements(site: Site) -> Iterator[Finding]:
    t = site.types.get("result")
    if isinstance(t, LocalArrayType) and not (t.dtype.is_integer or t.dtype.is_float):
        yield "result", f"an array of {t.dtype}; allowed: integers and floats"


_declared = partial(custom, sources=(_DIALECT,))


_READS, _WRITES = (Traits(effects=(Effect(a, "vector", None),)) for a in ("read", "write"))
_FRESH = Decision(
    "What does a fresh one hold?",
    "Nothing that is defined: the bytes of a fresh tile, undefined under poison.",
    _DIALECT,
)
_PATH = Attribute("path", tuple, None, "numbers of the fields that lead to the scalar")
_SCALAR = Operand("value", "in", "scalar", type="array")
_RESULT = Operand("result", "out", "scalar", type="array")


def _of_class(cls: type[Type], words: str, other: Type) -> Constraint:
    return of_class("result-kind", words, "result", cls, words, other, _DIALECT)


INSTRUCTIONS: tuple[Instruction, ...] = (
    _declared(
        "declare_local_array",
        "Declare an array of scalars.",
        "A handle to the elements. Contents are undefined until written, and stay from one trip of a loop to "
        "the next.",
        (Operand("result", "out", "handle"),),
        (Shown({"result": _ARRAY}),),
        constraints=(_of_class(LocalArrayType, "!pto.local_array<...>", _STRUCT), _elements),
        decisions=(_FRESH,),
    ),
    _declared(
        "local_array_get",
        "Element of an array.",
        "result = array[indices], the value it has here.",
        (
            Operand("array", "in", "handle"),
            Operand("indices", "in", "scalar", note="one for each dimension"),
            _RESULT,
        ),
        (
            Shown(
                {"array": _ARRAY, "indices": _INDEX, "result": ScalarType(F32)},
                constants={"indices": (1, 2)},
                grouped=True,
            ),
        ),
        constraints=(_holds("array", "result"), _indices),
        traits=_READS,
    ),
    _declared(
        "local_array_set",
        "Write an element of an array.",
        "array[indices] = value.",
        (
            Operand("array", "in", "handle"),
            Operand("indices", "in", "scalar", note="one for each dimension"),
            _SCALAR,
        ),
        (
            Shown(
                {"array": _ARRAY, "indices": _INDEX, "value": ScalarType(F32)},
                constants={"indices": (1, 2)},
                grouped=True,
            ),
        ),
        constraints=(_holds("array", "value"), _indices),
        traits=_WRITES,
    ),
    _declared(
        "declare_struct",
        "Declare a structure of scalars.",
        "A handle to the fields. Contents are undefined until written, and stay from one trip of a loop to "
        "the next.",
        (Operand("result", "out", "handle"),),
        (Shown({"result": _STRUCT}),),
        constraints=(_of_class(StructType, "!pto.struct<...>", _ARRAY),),
        decisions=(_FRESH,),
    ),
    _declared(
        "struct_get",
        "Scalar of a structure.",
        "result = the scalar that path leads to, the value it has here.",
        (Operand("struct", "in", "handle"), replace(_RESULT, type=None)),
        (Shown({"struct": _STRUCT, "result": ScalarType(F32)}, attrs={"path": (1, 1)}),),
        (_PATH,),
        (_holds("struct", "result"),),
        traits=_READS,
    ),
    _declared(
        "struct_set",
        "Write a scalar of a structure.",
        "The scalar that path leads to = value.",
        (Operand("struct", "in", "handle"), replace(_SCALAR, type=None)),
        (Shown({"struct": _STRUCT, "value": ScalarType(I8)}, attrs={"path": (1, 0)}),),
        (_PATH,),
        (_holds("struct", "value"),),
        traits=_WRITES,
    ),
)
