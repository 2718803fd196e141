"""What calls of :mod:`pto_jax.ops` that do not fit an instruction are told."""

from collections.abc import Sequence
from dataclasses import replace

from .. import errors, isa
from ..errors import nearest, objection
from ..ir import F32, Op, TileType, element_order
from ..isa.samples.operations import legal_samples
from .op_request import ArrayType, Request

_CAPACITY = "tile-capacity"
_SHAPES = frozenset({"tile-alignment", "tile-boxes"})


def python_name(instruction: isa.Instruction) -> str:
    """``tmatmul_acc`` for tmatmul.acc."""
    return instruction.name.replace(".", "_")


def spelled(t: TileType) -> str:
    """A tile type as a Python expression.

    >>> import pto_jax as pto
    >>> spelled(TileType("f16", 16, 64)), spelled(pto.tile_type("f16", 16, 64, loc="left"))
    ("pto.tile_type('f16', 16, 64)", "pto.tile_type('f16', 16, 64, loc='left')")
    """
    parts: dict[str, object] = {}
    if t.loc.value:
        parts["loc"] = t.loc.name.lower()
    blayout, slayout, fractal = element_order(t.loc)
    if (t.blayout, t.slayout) != (blayout, slayout):
        parts |= {"blayout": t.blayout.name.lower(), "slayout": t.slayout.name.lower()}
    if t.fractal != fractal:
        parts["fractal"] = t.fractal
    if not t.is_full:
        parts["valid"] = t.valid
    if t.pad.value:
        parts["pad"] = t.pad.name.lower()
    words = "".join(f", {k}={v!r}" for k, v in parts.items())
    return f"pto.tile_type({t.dtype.name!r}, {t.rows}, {t.cols}{words})"


def forms_text(instruction: isa.Instruction, forms: Sequence[tuple[str, ...]]) -> str:
    """The calls an instruction takes; sources that are numbers say so."""

    def source(name: str) -> str:
        return name if instruction.operand(name).kind == "tile" else f"{name}: number"

    name = python_name(instruction)
    return " or ".join(f"{name}({', '.join(map(source, f))})" for f in forms)


# -- sources -------------------------------------------------------------------------------------------


def miscounted(instruction: isa.Instruction, forms: Sequence[tuple[str, ...]], count: int) -> str:
    """The message for a call with ``count`` sources, which none of the ``forms`` takes."""
    sources = "1 source operand" if count == 1 else f"{count} source operands"
    return f"{instruction.name}: got {sources}; allowed: {forms_text(instruction, forms)}"


def mismatched(
    instruction: isa.Instruction,
    forms: Sequence[tuple[str, ...]],
    kinds: Sequence[str],
    described: Sequence[str],
) -> str:
    """Why sources fit none of the forms that take as many; ``kinds`` are "tile" or "scalar"."""
    if len(forms) > 1:
        operands = ", ".join(described)
        return f"{instruction.name}: got ({operands}); allowed: {forms_text(instruction, forms)}"
    index = next(i for i, n in enumerate(forms[0]) if _kind(instruction, n) != kinds[i])
    name = forms[0][index]
    wanted = "a tile or a [rows, cols] array" if kinds[index] == "scalar" else "a number or a 0-d array"
    message = f"{instruction.name}: source {index} ({name}): got {described[index]}; allowed: {wanted}"
    other = _sibling(instruction, kinds)
    return objection(message, fix=f"pto.ops.{other}" if other else "")


def _kind(instruction: isa.Instruction, name: str) -> str:
    return "tile" if instruction.operand(name).kind == "tile" else "scalar"


def _sibling(instruction: isa.Instruction, kinds: Sequence[str]) -> str | None:
    """The instruction of nearly the same name that takes such sources: tadds for tadd."""
    for name in (f"{instruction.name}s", instruction.name.removesuffix("s")):
        other = isa.instructions().get(name)
        forms = other.forms if other not in (None, instruction) and other.syntax == "tile" else ()
        if other is not None and any([_kind(other, n) for n in f] == list(kinds) for f in forms):
            return python_name(other)
    return None


def unknown_keyword(instruction: isa.Instruction, key: str, options: Sequence[str]) -> str:
    """The message for a keyword that is no attribute; ``options`` are those of every instruction."""
    attributes = [a.name for a in instruction.attributes]
    if any(key == o.name for o in instruction.operands):
        problem = f"got the keyword {key!r}, which is an operand"
        return f"{instruction.name}: {problem}; allowed: sources by position, destinations as dst="
    near = nearest(key, (*attributes, *options))
    allowed = f"attributes {', '.join(attributes) or 'none'}, and {', '.join(options)}"
    return objection(f"{instruction.name}: got the keyword {key!r}", allowed, f"{near}=..." if near else "")


# -- destinations --------------------------------------------------------------------------------------


def required(request: Request, name: str, reason: str) -> str:
    """Why the destination ``name`` must be given: the instruction "reads" it, or nothing says its "size"."""
    if reason == "reads":
        return (
            f"{request.name}: dst= is required, the instruction reads {name} before it writes it; allowed: "
            "the tile or [rows, cols] array to start from"
        )
    return (
        f"{request.name}: dst= is required, no source says how many rows and columns {name} has; "
        f"allowed: a tile type, for example {_example(request)}"
    )


def _example(request: Request) -> str:
    """``dst=`` with the destination types of a legal sample."""
    samples = legal_samples(request.instruction, request.profile)
    names = [n for n, _ in request.destinations if not request.is_vector(n)]
    elements = [getattr(t, "dtype", None) for t in request.sources]
    others = None
    for sample in samples:
        types = [t for n in names if isinstance(t := sample.types.get(n), TileType) and t.conv is None]
        if len(types) < len(names) or len(sample.form) != len(request.form):
            continue
        having = [getattr(sample.types.get(n), "dtype", None) for n in request.form]
        if all(e in (None, h) for e, h in zip(elements, having, strict=True)):
            return _keyword(types)
        others = others or types
    return _keyword(others or [TileType(F32, 16, 64)] * len(names))


def _keyword(types: Sequence[TileType]) -> str:
    listed = ", ".join(map(spelled, types))
    return f"dst={listed}" if len(types) == 1 else f"dst=({listed})"


def ambiguous(request: Request, ops: Sequence[Op]) -> str:
    """Which destination types several legal calls have."""
    for i, (name, _) in enumerate(request.destinations):
        types = list(dict.fromkeys(t for op in ops if isinstance(t := op.outs[i].type, TileType)))
        elements = list(dict.fromkeys(t.dtype.name for t in types))
        if len(types) < 2:
            continue
        several = len([n for n, _ in request.destinations if not request.is_vector(n)]) > 1
        if len(elements) > 1:
            example = repr(elements[0])
            what, listed = "element type", ", ".join(elements)
        else:
            example = spelled(types[0])
            what, listed = "type", ", ".join(map(str, types))
        entry = f"the entry of {name} in dst=(...)" if several else f"dst={example}"
        return (
            f"{request.name}: dst= is required, the {what} of {name} does not follow from the sources; "
            f"allowed on {request.profile.name}: {listed}; for example {entry}"
        )
    return f"{request.name}: dst= is required"


def noted(d: errors.Diagnostic, request: Request, op: Op) -> errors.Diagnostic:
    """A finding about an operand whose type was left open, with how to give it."""
    arguments = {**dict(zip(request.form, request.sources, strict=True)), **dict(request.destinations)}
    types = {v.name: v.type for v in (*op.ins, *op.outs)}
    if d.operand is None or d.operand not in arguments:
        return d
    left, t = arguments[d.operand], types[d.operand]
    if not isinstance(t, TileType):
        return d
    if d.rule == _CAPACITY:
        note = "; cut the arrays into such tiles and jax.vmap over them (pto.nn.linear does it for products)"
    elif d.rule == "layout" and isinstance(left, TileType) and left.cols == 1:
        note = "; in Python: the row tile.array.reshape(1, -1), whose result reshapes back"
    elif isinstance(left, ArrayType) and d.rule in _SHAPES:
        note = f"; pad the array, its valid part is pto.tile(padded, valid=({left.rows}, {left.cols}))"
    elif isinstance(left, ArrayType):
        note = f"; the array counts as {spelled(t)}, pto.tile(x, type=...) gives it another type"
    elif left is None and d.rule != "types":
        note = f"; without dst= {d.operand} is {spelled(t)}"
    else:
        return d
    return replace(d, message=d.message + note)
