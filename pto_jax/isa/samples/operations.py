"""Legal operations made from declarations, for tests, generators and documentation."""

from collections.abc import Iterator
from enum import IntEnum

from ... import ir, profiles
from ..declare import Attribute, Instruction, Operand, Sample
from ..rules.constraints import element_type
from ..rules.typesets import Row

__all__ = ["Sample", "legal_samples", "to_program"]

ROWS, COLS = 32, 64
_MASK_BYTES = 32


def legal_samples(instruction: Instruction, profile: profiles.Profile) -> Iterator[Sample]:
    """One legal operation per row of the type table, optional operands given; then one without them.

    Instructions without a type table have one sample.

    >>> from pto_jax.isa import instructions
    >>> from pto_jax.profiles import profile
    >>> len(list(legal_samples(instructions()["trelu"], profile("a5"))))
    3
    """
    if instruction.sampler is not None:
        yield from instruction.sampler(instruction, profile)
        return
    if not instruction.type_vars:
        yield Sample(instruction, {}, instruction.forms[0], _sync_attributes(instruction.attributes))
        return
    table = instruction.types.get(profile.name, ())
    longest, shortest = _forms(instruction)
    floats_only = profile.name != "cpu_sim" and any(c.rule == "tmp-integers" for c in instruction.constraints)
    for row in table:
        whole = not (floats_only and ir.dtype(row[0]).is_integer)
        yield _sample(instruction, row, longest if whole else shortest)
    if shortest != longest and table:
        yield _sample(instruction, table[0], shortest)


def _forms(instruction: Instruction) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The overloads with and without optional tiles; quantising operands are left out."""
    plain = [f for f in instruction.forms if all(instruction.operand(n).holds != "parameters" for n in f)]
    return max(plain, key=len), min(plain, key=len)


def _sample(instruction: Instruction, row: Row, form: tuple[str, ...]) -> Sample:
    bound = {v: ir.dtype(name) for v, name in zip(instruction.type_vars, row, strict=True)}
    names = (*form, *(o.name for o in instruction.destinations))
    types = {name: _type(instruction, instruction.operand(name), bound) for name in names}
    if any(d.pair_of for d in bound.values()) and len(bound) > 1:
        types = {name: _in_pairs(t) for name, t in types.items()}
    attrs: dict[str, ir.AttrValue] = {}
    if row[0] == "bf16" and any(c.rule == "precision-types" for c in instruction.constraints):
        attrs["precision"] = ir.Precision.HIGH_PRECISION
    return Sample(instruction, types, form, attrs)


def _type(instruction: Instruction, operand: Operand, bound: dict[str, ir.DType]) -> ir.Type:
    d = bound.get(operand.dtype or "") or (ir.find_dtype(operand.dtype) if operand.dtype else None)
    if operand.kind in ("scalar", "index"):
        return ir.ScalarType(d or ir.I64)
    if operand.kind == "gm":
        return ir.PartitionViewType((ROWS, COLS), d or next(iter(bound.values())))
    if operand.name == "mask":
        return _mask(ir.U8)
    if operand.role == "tmp":
        (element,) = map(ir.dtype, operand.default) if operand.default else (next(iter(bound.values())),)
        return ir.TileType(element, 2 * ROWS, 2 * COLS, v_row=ROWS, v_col=COLS)
    if instruction.domain == "src0" and operand.role == "out" and d is not None:
        return _mask(d)
    return ir.TileType(d or next(iter(bound.values())), ROWS, COLS)


def _in_pairs(t: ir.Type) -> ir.Type:
    """A tile with as many numbers as those beside it."""
    return ir.TileType(t.dtype, ROWS, COLS // t.dtype.numbers) if isinstance(t, ir.TileType) else t


def _mask(d: ir.DType) -> ir.TileType:
    return ir.TileType(d, ROWS, _MASK_BYTES * 8 // d.bits, v_col=COLS // d.bits)


def _sync_attributes(attributes: tuple[Attribute, ...]) -> dict[str, ir.AttrValue]:
    """Every attribute without a default, neighbouring enumerations with different members."""
    given: dict[str, ir.AttrValue] = {}
    for i, attribute in enumerate(a for a in attributes if a.default is None):
        if issubclass(attribute.type, IntEnum):
            given[attribute.name] = list(attribute.type)[i]
        elif attribute.type is int:
            given[attribute.name] = 0
    return given


#: Types of samples that do not follow from a type table.
TILE = ir.TileType(ir.F32, ROWS, COLS)
VIEW = ir.TensorViewType((ROWS, COLS), ir.F32)
WINDOW = ir.PartitionViewType((ROWS, COLS), ir.F32)
NUMBER = ir.ScalarType(ir.INDEX)


def to_program(sample: Sample) -> ir.Program:
    """A fragment with the one operation of a sample, its operands as arguments or constants.

    >>> from pto_jax.isa import instructions
    >>> from pto_jax.profiles import profile
    >>> sample = next(legal_samples(instructions()["tadds"], profile("a2a3")))
    >>> [str(v) for v in to_program(sample).functions[0].args]
    ['%src', '%scalar', '%dst']
    """
    instruction = sample.instruction
    arguments: list[ir.Value] = []
    ops: list[ir.Op] = []
    ins: list[ir.Value] = []
    groups: list[tuple[str, int]] = []
    for name in sample.form:
        values = [
            ir.Value(f"{name}{i}", sample.types[name]) for i, _ in enumerate(sample.constants.get(name, ()))
        ]
        for value, number in zip(values, sample.constants.get(name, ()), strict=True):
            d = element_type(value.type)
            given = float(number) if d is not None and d.is_float else number
            ops.append(ir.Op("arith.constant", results=(value,), attributes=ir.attrs(value=given)))
        if name not in sample.constants:
            values = [ir.Value(name, sample.types[name])]
            arguments += values
        ins += values
        groups.append((name, len(values)))
    results = tuple(
        ir.Value(o.name, sample.types[o.name]) for o in instruction.destinations if o.name in sample.types
    )
    as_outs = instruction.syntax == "tile" and instruction.traits.alias is None
    as_outs = as_outs or (instruction.cls == "communication" and sample.grouped)
    ops.append(
        ir.Op(
            instruction.name,
            tuple(ins),
            results if as_outs else (),
            () if as_outs else results,
            ir.attrs(sample.attrs),
            groups=tuple(groups) if sample.grouped else (),
        )
    )
    arguments += results if as_outs else ()
    body = ir.Region(tuple(ops))
    return ir.Program(
        (ir.Function(ir.FRAGMENT, tuple(arguments), body),),
        fragment=True,
        fragment_results=tuple(v.name for v in results),
        has_module=False,
    )
