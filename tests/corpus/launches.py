"""How the public programs that compute something are launched: entry, profile, blocks and arguments.

A program is launched when an entry writes a buffer or prints. Arguments are random; the scalars that a
program needs to do its whole work stand in a table here, and every i1 argument is tried both ways.
"""

import itertools
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pto_jax as pto
from pto_jax import isa
from pto_jax.analysis.entries import Argument, arguments, written_buffers
from pto_jax.analysis.provenance import called
from pto_jax.ir import Function, MemRefType, Op, Program, PtrType, Region, ScalarType, Symbol, TileType, Value
from tests.corpus.test_verify import runs

ROOT = os.environ.get("PTO_CORPUS", "")
FILES = sorted(Path(ROOT).glob("**/*.pto")) if ROOT else []
NO_CORPUS = "PTO_CORPUS does not name a folder with .pto programs (a PTOAS checkout has 226)"

PRINTS = frozenset({"tprint", "print"})
# Elements of a buffer whose size no view tells, and room behind the last view for the offsets of scalars.
UNKNOWN, ROOM = 1 << 18, 1 << 17
# Texts that are only read and written back: they use instructions their profile does not have.
ENCODED_ONLY = frozenset({"recent_ops_v0_roundtrip"})

# Blocks a host program starts, and scalar arguments in order, several sets where branches depend on them.
GRIDS = {"add_static_multicore": 20, "issue428_cube_sync_regression": 3}
SCALARS: dict[str, list[tuple[int, ...]]] = {
    "add_static_multicore": [(32, 32), (32, 17)],
    "issue428_cube_sync_regression": [(4,), (2,)],
    "partition5d_dynamic": [(0, 0, 1, 2, 3, 1, 1, 16, 16, 16), (0, 0, 0, 0, 0, 1, 1, 2, 3, 5)],
    "insert_sync_level3_enable": [(1, 1, 16, 16, 16), (1, 1, 2, 3, 5)],
    "control_flow_dynamic_branch": [(32, 32, 0), (27, 19, 1), (27, 19, 2)],
    "flash_attention_qk_boundary": [(32, 32, 32), (27, 19, 23)],
    "flash_attention_softmax_boundary": [(32, 32), (27, 19)],
    "ffn-pto-new": [(32, 32), (27, 19)],
    "ffn_act": [(32, 32), (27, 19)],
    "ffn_act_dynamic": [(32, 32), (27, 19)],
    "gqa_softmax_dynamic": [(32, 32), (27, 19)],
    "test_if_else_tile_result": [(0,), (1,)],
    # The row offset of a launch of one block.
    "rmsnorm_incore_0": [(0,)],
    "decode_projection_incore_0": [(0,)],
}


@dataclass(frozen=True)
class Launch:
    """One entry of one program."""

    path: Path
    entry: str

    @property
    def name(self) -> str:
        """The program's place in the checkout, with the entry where it is not alone."""
        place = str(self.path.relative_to(ROOT))
        return place if len(_entries(self.program)) == 1 else f"{place}:{self.entry}"

    @property
    def program(self) -> Program:
        return _program(self.path)

    @cached_property
    def function(self) -> Function:
        found = self.program.function(self.entry)
        assert found is not None
        return found

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        return arguments(self.program, self.function)

    @property
    def profile(self) -> str:
        """The profile of the first RUN line, else of the program's header, else a2a3."""
        return runs(self.text, self.program.attrs.get("pto.target_arch"))[0].profile.name

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def grid(self) -> int:
        return GRIDS.get(self.path.stem, 1)

    @property
    def prints(self) -> bool:
        return any(op.name in PRINTS for op in reachable(self.program, self.function))

    @property
    def key(self) -> str:
        """What scripts and host programs call the program: its file, or the folder of a kernel.pto."""
        return self.path.parent.name if self.path.stem == "kernel" else self.path.stem

    def elements(self, argument: Argument) -> int:
        """Elements of a buffer, with room for the offsets that scalars give."""
        if isinstance(argument.type, MemRefType):
            return int(np.prod([d or 64 for d in argument.type.dims]))
        return (argument.min_elements or UNKNOWN) + (ROOM if self._offsets else 0)

    @property
    def _offsets(self) -> bool:
        return any(isinstance(a.type, ScalarType) and a.type.dtype.kind == "index" for a in self.arguments)

    def inputs(self) -> dict[str, Any]:
        """Random buffers and tiles, the same in every run."""
        rng = np.random.default_rng(zlib.crc32(self.entry.encode()))
        return {a.name: self._random(rng, a) for a in self.arguments if not isinstance(a.type, ScalarType)}

    def _random(self, rng: np.random.Generator, argument: Argument) -> NDArray[Any]:
        t = argument.type
        if isinstance(t, TileType):
            return rng.uniform(-1, 1, t.shape).astype(t.dtype.numpy)
        assert isinstance(t, PtrType | MemRefType), t
        n = self.elements(argument)
        values = rng.uniform(-1, 1, n) if t.dtype.is_float else rng.integers(-8, 8, n)
        shape = [d or 64 for d in t.dims] if isinstance(t, MemRefType) else [n]
        return values.astype(t.dtype.numpy).reshape(shape)

    def settings(self, given: Mapping[str, int] | None = None) -> Iterator[dict[str, Any]]:
        """The scalars of each call."""
        scalars = [a for a in self.arguments if isinstance(a.type, ScalarType)]
        bits = [a.name for a in scalars if str(a.type) == "i1"]
        numbers = [a for a in scalars if a.name not in bits]
        table = SCALARS.get(self.path.stem, [(1,) * len(numbers)])
        sets = [dict(zip((a.name for a in numbers), row, strict=True)) for row in table]
        for row in [given] if given is not None else sets:
            for choice in itertools.product((True, False), repeat=len(bits)):
                chosen = dict(zip(bits, choice, strict=True))
                yield {**{a.name: _number(a, row[a.name]) for a in numbers}, **chosen}


def _number(argument: Argument, value: int) -> Any:
    assert isinstance(argument.type, ScalarType)
    return value * 0.5 if argument.type.dtype.is_float else value


@cache
def _program(path: Path) -> Program:
    """The program; one of a cube and a vector function without an entry gets one that calls both."""
    program = pto.load(path, language="2026-04")
    kinds = {f.name: f.attrs.get("pto.kernel_kind") for f in program.functions}
    marked = any(f.is_entry for f in program.functions)
    if marked or None in kinds.values() or len(set(kinds.values())) != 2:
        return program
    args: list[Value] = []
    calls: list[Op] = []
    for f in program.functions:
        own = tuple(replace(a, name=f"{f.name}_{a.name}") for a in f.args)
        args += own
        calls.append(Op("call", ins=own, attributes=(("callee", Symbol(f.name)),)))
    body = Region((*calls, Op("return")))
    entry = Function("launch", tuple(args), body, attributes=(("pto.entry", True),))
    return replace(program, functions=(*program.functions, entry))


def _entries(program: Program) -> list[Function]:
    return [f for f in program.entries or program.functions if f.body.ops]


def reachable(program: Program, function: Function) -> Iterator[Op]:
    for op in function.walk():
        yield op
        callee = called(program, op) if op.name == "call" else None
        if callee is not None:
            yield from reachable(program, callee)


def _is_observable(program: Program, function: Function) -> bool:
    if written_buffers(program, function):
        return True
    return any(op.name in PRINTS for op in reachable(program, function))


def launches() -> list[Launch]:
    """Every launch of the checkout's accepted programs, in order of their files."""
    found = []
    for path in FILES:
        program = _program(path)
        if (
            path.stem in ENCODED_ONLY
            or runs(path.read_text(encoding="utf-8"), program.attrs.get("pto.target_arch"))[0].fails
        ):
            continue
        if any((i := isa.find(op.name)) is not None and not i.executable for op in program.walk()):
            continue
        names = [f.name for f in _entries(program) if _is_observable(program, f)]
        found += [Launch(path, name) for name in names]
    return found
