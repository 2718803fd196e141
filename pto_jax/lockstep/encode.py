"""Cases as lockstep programs: straight-line fragments of instructions on tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import errors, isa
from ..analysis.resolve import ResolvedProgram, resolve
from ..generate.programs import Case
from ..ir import DType, Op, ScalarType, TileType, Value
from ..isa.views import ALLOC_TILE
from ..lowering import RULES, Semantics
from ..lowering.lockstep import SCALARS, SLOTS, Branch, words_needed
from ..lowering.rules import Context

#: uint32 words of the largest register a case may need.
LARGEST = 4096


@dataclass(frozen=True)
class Instruction:
    """One encoded instruction: its branch, registers (destination first) and scalar words."""

    branch: Branch
    slots: tuple[int, ...]
    scalars: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Encoded:
    """A case as the lockstep engine takes it.

    ``types`` and ``sizes`` (valid rows and columns) of the registers; ``contents`` their element words at
    the start; ``results`` the register of each result of the case.
    """

    instructions: tuple[Instruction, ...]
    types: tuple[TileType, ...]
    sizes: tuple[tuple[int, int], ...]
    contents: tuple[NDArray[Any], ...]
    results: Mapping[str, int]


def encode(case: Case) -> Encoded:
    """The lockstep form of a case.

    Raises NotExecutableError for programs that are more than instructions on tiles and scalars.

    >>> import pto_jax as pto
    >>> from pto_jax.generate.state import Input
    >>> program = pto.parse("%d = tadd %a, %b : !pto.tile<16x16xf32>")
    >>> zeros = Input(pto.TileType("f32", 16, 16), np.zeros((16, 16), np.uint32), (16, 16))
    >>> case = Case("example", 0, 0, pto.profile("a5"), program, {"a": zeros, "b": zeros}, {})
    >>> found = encode(case)
    >>> found.instructions[0].slots, found.results
    ((0, 1, 2), {'d': 0})
    """
    program, resolved = case.program, resolve(case.program)
    is_open = resolved.is_open or resolved.program is not program
    if not program.fragment or len(program.functions) != 1 or is_open:
        raise _refused(None, "more than a fragment with given types")
    maker = _Maker(case, resolved)
    instructions = tuple(i for op in program.functions[0].body.ops for i in maker.instruction(op))
    results = {n: maker.registers[n] for n in program.fragment_results if n in maker.registers}
    if not instructions:
        raise _refused(None, "no instruction")
    return Encoded(
        instructions,
        tuple(maker.types),
        tuple(maker.sizes),
        tuple(maker.contents),
        results,
    )


def _refused(op: Op | None, what: str) -> errors.NotExecutableError:
    message = f"got {what}; allowed in lockstep: instructions on whole tiles, one destination each"
    return errors.NotExecutableError(
        errors.Diagnostic("error", message, None if op is None else op.span, None if op is None else op.name)
    )


class _Maker:
    """Registers and scalars of a case as they come up."""

    def __init__(self, case: Case, resolved: ResolvedProgram) -> None:
        self.case = case
        self.resolved = resolved
        self.semantics = Semantics(case.profile, out_of_region=case.profile.out_of_region)
        self.registers: dict[str, int] = {}
        self.types: list[TileType] = []
        self.sizes: list[tuple[int, int]] = []
        self.contents: list[NDArray[Any]] = []
        self.scalars: dict[str, int] = {}

    def instruction(self, op: Op) -> Sequence[Instruction]:
        if op.name == "arith.constant" and isinstance(op.attrs.get("value"), bool | int | float):
            self._constant(op)
            return ()
        if op.name == ALLOC_TILE and not op.group("addr"):
            self._allocate(op)
            return ()
        resolved = self.resolved.of(op)
        declared, bound = resolved.instruction, resolved.bound
        if declared is None or op.name not in RULES or op.regions or op.groups:
            raise _refused(op, op.name)
        if bound is None:
            raise _refused(op, "\n".join(map(str, resolved.problems)))
        values = {n: v for n, v in bound.values.items() if declared.operand(n).role != "tmp"}
        written = [o.name for o in declared.destinations if o.name in values]
        tiles = (*written, *(n for n in values if n not in written and self._is_tile(op, values[n])))
        scalars = tuple(n for n in values if n not in tiles)
        if len(written) != 1 or len(tiles) > SLOTS or len(scalars) > SCALARS:
            raise _refused(op, f"{len(written)} destinations, {len(tiles)} tiles, {len(scalars)} scalars")
        slots = tuple(self._register(op, values[n]) for n in tiles)
        self._check(op, declared, dict(zip(tiles, slots, strict=True)))
        branch = Branch(self._context(op, bound), tiles, scalars)
        return (Instruction(branch, slots, tuple(self._scalar(op, values[n]) for n in scalars)),)

    def _is_tile(self, op: Op, value: Value) -> bool:
        if not isinstance(value.type, TileType | ScalarType) or value.type.dtype.bits > 32:
            raise _refused(op, f"{value} of type {value.type}")
        return isinstance(value.type, TileType)

    def _context(self, op: Op, bound: isa.Bound) -> Context:
        types: list[tuple[str, TileType | ScalarType]] = []
        for name, value in bound.values.items():
            t = value.type
            assert isinstance(t, TileType | ScalarType)
            types.append((name, t.with_valid(None, None) if isinstance(t, TileType) else t))
        attributes = tuple(sorted(bound.attrs.items(), key=lambda kv: kv[0]))
        return Context(op.name, tuple(types), attributes, bound.form, self.semantics)

    def _register(self, op: Op, value: Value) -> int:
        register = self.registers.get(value.name)
        if register is not None:
            return register
        t, argument = value.type, self.case.inputs.get(value.name)
        if not self._is_tile(op, value) or not isinstance(t, TileType) or t.dtype.packed:
            raise _refused(op, f"{value} of type {t}")
        if words_needed(t) > LARGEST or t.conv is not None:
            raise _refused(op, f"{value} of type {t}")
        if argument is not None:
            return self._add(op, value, t, argument.words, argument.valid or t.valid)
        return self._add(op, value, t, self._fresh(t), t.valid)

    def _allocate(self, op: Op) -> None:
        """A new tile whose valid sizes are constants or arguments, where its type leaves them open."""
        (value,) = op.results
        t = value.type
        if not isinstance(t, TileType) or t.dtype.bits not in (8, 16, 32) or words_needed(t) > LARGEST:
            raise _refused(op, f"{value} of type {t}")
        operands = [op.group(g) for g in ("valid_row", "valid_col")]
        sizes = zip(t.valid, operands, strict=True)
        rows, cols = (n if n is not None or not g else self._scalar(op, g[0]) for n, g in sizes)
        self._add(op, value, t, self._fresh(t), (rows, cols))

    def _fresh(self, t: TileType) -> NDArray[Any]:
        ones = self.case.profile.fresh_tile == "ones"
        return np.full(t.shape, (1 << t.dtype.word_bits) - 1 if ones else 0, t.dtype.word)

    def _add(
        self, op: Op, value: Value, t: TileType, words: NDArray[Any], valid: tuple[int | None, int | None]
    ) -> int:
        rows, cols = valid
        if rows is None or cols is None:
            raise _refused(op, f"{value} without valid sizes")
        self.registers[value.name] = len(self.types)
        self.types.append(t)
        self.sizes.append((rows, cols))
        self.contents.append(words)
        return self.registers[value.name]

    def _constant(self, op: Op) -> None:
        (value,), number = op.results, op.attrs["value"]
        assert isinstance(value.type, ScalarType) and isinstance(number, bool | int | float)
        self.scalars[value.name] = _word(value.type.dtype, number)

    def _scalar(self, op: Op, value: Value) -> int:
        argument = self.case.inputs.get(value.name)
        if argument is not None:
            return int(argument.words)
        if value.name not in self.scalars:
            raise _refused(op, f"{value}, which is computed")
        return self.scalars[value.name]

    def _check(self, op: Op, declared: isa.Instruction, slots: Mapping[str, int]) -> None:
        sizes = {n: self.sizes[s] for n, s in slots.items()}
        types = {n: self.types[s] for n, s in slots.items()}
        for c in declared.constraints:
            here = c.severity == "error" and self.case.profile.name in c.profiles
            if here and c.region is not None and c.region.applies(sizes) and c.region.broken(sizes, types):
                raise _refused(op, f"a broken rule ({c.rule})")


def _word(d: DType, number: bool | int | float) -> int:
    """The word of a constant."""
    if not d.is_float:
        return int(number) & ((1 << min(d.bits, 32)) - 1)
    with np.errstate(over="ignore"):
        return int(np.array(number, np.float64).astype(d.numpy).view(d.word))
