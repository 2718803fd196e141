"""A call of each function of :mod:`pto_jax.ops`, as Python source that can be executed."""

from collections.abc import Iterator
from enum import IntEnum

from .. import errors, isa
from ..ir import INDEX, ScalarType, TileType, Type, attrs
from ..isa.samples.operations import Sample, legal_samples
from ..profiles import PROFILES, Profile
from .op_messages import python_name, spelled
from .op_request import ArrayType, DestinationType, NumberType, Request, SourceType
from .op_types import resolve

#: Legal operations of a profile that are tried.
_TRIED = 6


def example(instruction: isa.Instruction) -> str | None:
    """A legal call on arrays with what it needs to be told, on the first profile that has one.

    None where tiles are none that :func:`pto_jax.tile` makes.

    >>> example(isa.instructions()["tadd"])
    'pto.ops.tadd(np.ones((32, 64), "float32"), np.ones((32, 64), "float32"))'
    """
    for profile in (PROFILES["a2a3"], PROFILES["a5"], PROFILES["cpu_sim"]):
        # The shortest form first: one without scratch.
        for sample in sorted(legal_samples(instruction, profile), key=lambda s: len(s.form))[:_TRIED]:
            text = _call(sample, profile)
            if text is not None:
                return text
    return None


def _call(sample: Sample, profile: Profile) -> str | None:
    """A sample as a call with the least that its destinations need; None where it is no call."""
    instruction = sample.instruction
    given = [sample.types[n] for n in sample.form]
    if not all(isinstance(t, ScalarType) or (isinstance(t, TileType) and t.conv is None) for t in given):
        return None
    named = [o.name for o in instruction.destinations_of(sample.form) if o.name in sample.types]
    for destinations, text in _destinations([sample.types[n] for n in named]):
        request = Request(
            instruction.name,
            sample.form,
            tuple(_source(t) for t in given),
            tuple(zip(named, destinations, strict=True)),
            attrs(sample.attrs),
            profile,
        )
        try:
            legal = not resolve(request).errors
        except (errors.ArgumentError, errors.VerifyError):
            continue
        if legal:
            options = [f"dst={text}"] if text else []
            options += [f"{k}={_word(v)}" for k, v in sample.attrs.items() if _is_said(instruction, k, v)]
            options += [f'profile="{profile.name}"'] if profile.name != "a2a3" else []
            return f"pto.ops.{python_name(instruction)}({', '.join([*map(_value, given), *options])})"
    return None


def _is_array(t: TileType) -> bool:
    """Whether an array of NumPy stands for a tile of this type."""
    return t.is_full and not (t.dtype.is_float and t.dtype.numpy == t.dtype.word)


def _source(t: Type) -> SourceType:
    if not isinstance(t, TileType):
        return NumberType(None)
    return ArrayType(t.dtype, t.rows, t.cols) if _is_array(t) else t


def _value(t: Type) -> str:
    """An expression for a source of a type."""
    if isinstance(t, ScalarType):
        return "0" if t.dtype == INDEX else "2" if t.dtype.is_integer else "1.5"
    assert isinstance(t, TileType)
    if _is_array(t):
        return f'np.ones(({t.rows}, {t.cols}), "{t.dtype.numpy.name}")'
    return f'pto.tile(np.zeros(({t.rows}, {t.cols}), "{t.dtype.word.name}"), type={spelled(t)})'


def _destinations(types: list[Type]) -> Iterator[tuple[list[DestinationType], str]]:
    """What a call may give for its destinations, the shortest first, with its expression."""
    tiles = [t for t in types if isinstance(t, TileType)]
    yield [None] * len(types), ""
    if tiles and len(tiles) == len(types):
        yield [t.dtype for t in tiles], _several([f'"{t.dtype.name}"' for t in tiles])
        yield [*tiles], _several([spelled(t) for t in tiles])
        yield [ArrayType(t.dtype, t.rows, t.cols) for t in tiles], _several([_value(t) for t in tiles])


def _several(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def _is_said(instruction: isa.Instruction, key: str, value: object) -> bool:
    attribute = instruction.attribute(key)
    return attribute is not None and value is not None and value != attribute.default


def _word(value: object) -> str:
    return f'"{value.name}"' if isinstance(value, IntEnum) else repr(value)
