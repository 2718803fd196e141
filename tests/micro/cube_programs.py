"""Kernels of the cube unit line by line: numbers and pointers are declared where they are used."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

import pto_jax as pto
from pto_jax import oracle
from pto_jax.cases.code import executed
from pto_jax.ir import Program, dtype
from pto_jax.lowering.bits import x64
from pto_jax.oracle.numbers import decode

#: Addresses in L1: of the left factor, the right one, scales of both, a bias or parameters, and results.
LEFT, RIGHT, LEFT_SCALES, RIGHT_SCALES, ROW, RESULTS = 0, 131072, 262144, 278528, 294912, 327680
#: Bits of the elements that have no ordinary name.
BITS = {"!pto.hif8": 8, "f8E4M3FN": 8, "f8E5M2": 8, "bf16": 16, "i8": 8, "ui8": 8, "f16": 16}

RNG = np.random.default_rng(11)
ARRAYS: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "!pto.hif8": np.uint8,
    "i8": np.int8,
    "ui8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
}


class Typed(NamedTuple):
    """A value of a text and its type."""

    name: str
    type: str


def size_of(element: str) -> int:
    """Bytes of an element type of the text."""
    return BITS.get(element, 64 if "64" in element else 16 if "16" in element else 32) // 8


def up(size: int, unit: int) -> int:
    """A size in whole units."""
    return -(-size // unit) * unit


def matrix(element: str, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, so that every order of a sum gives the same."""
    if element == "!pto.hif8":
        small = [c for c in range(256) if decode(np.array([c]), dtype("hif8"))[0] in (-4, -3, -1, 0, 1, 2, 4)]
        return RNG.choice(np.array(small, np.uint8), shape)
    low = 0 if element == "ui8" else -7
    return RNG.integers(low, 8, shape).astype(ARRAYS[element])


def values(array: np.ndarray, element: str) -> np.ndarray:
    """The numbers of a matrix."""
    if element == "!pto.hif8":
        return decode(array, dtype("hif8"))
    return array.astype(np.float64)


def empty(element: str, *shape: int) -> np.ndarray:
    """An array of zeros."""
    return np.zeros(shape, ARRAYS[element])


@dataclass
class Kernel:
    """A kernel that grows line by line; ``buffers`` are the element types of its arguments by name.

    ``numbers`` are further arguments, of 64 bits.
    """

    buffers: Mapping[str, str]
    numbers: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    head: dict[str, str] = field(default_factory=dict)

    def gm(self, name: str) -> Typed:
        """An argument."""
        return Typed(f"%{name}", f"!pto.ptr<{self.buffers[name]}, gm>")

    def numbers_of(self, *names: str) -> tuple[Typed, ...]:
        """Arguments that are numbers."""
        return tuple(Typed(f"%{name}", "i64") for name in names)

    def number(self, value: Any, type: str = "i64") -> Typed:
        """A constant."""
        text = f"{value:.9g}" if isinstance(value, float) else str(value)
        shown = text if type[0] not in "fb" or "." in text or "e" in text else text + ".0"
        name = f"%n{len(self.head)}"
        found = self.head.setdefault(f"arith.constant {shown} : {type}", name)
        return Typed(found, type)

    def at(self, space: str, address: int, element: str) -> Typed:
        """A pointer to an address."""
        t = f"!pto.ptr<{element}, {space}>"
        number = self.number(address).name
        return Typed(self.head.setdefault(f"pto.castptr {number} : i64 -> {t}", f"%n{len(self.head)}"), t)

    def op(self, name: str, form: str, *operands: Any, end: str = "", attributes: str = "") -> None:
        """An operation whose operands stand at ``{}`` of a form; types in their order."""
        typed = [o if isinstance(o, Typed) else self.number(o) for o in operands]
        shown = form.format(*(o.name for o in typed)) if form else ", ".join(o.name for o in typed)
        types = ", ".join(o.type for o in typed)
        self.lines.append(f"pto.{name} {shown} {end} {attributes} : {types}")

    # -- staging and loads --------------------------------------------------------------------------------

    def copy(self, gm: Typed, target: Typed, size: int) -> None:
        """Bytes of global memory in L1 as they are."""
        self.op("mte_gm_l1", "{}, {}, {} nburst({}, {}, {})", gm, target, size, 1, 0, 0)

    def fractals(
        self,
        gm: Typed,
        target: Typed,
        shape: tuple[int, int],
        source: tuple[int, ...],
        group: tuple[int, int, int, int],
        mode: str = "nd2nz",
        small: str = "false",
    ) -> None:
        """A matrix as fractals."""
        flag = self.number(small, "i1")
        n, d, *more = (self.number(v).name for v in (*shape, *source, *group, 0))
        strides, rest = ", ".join(more[: len(source)]), more[len(source) :]
        typed = ", ".join("i64" for _ in source)
        self.lines.append(
            f"pto.mte_gm_l1_frac {gm.name}, {target.name}, {mode}, shape({n}, {d}), src_layout({strides}), "
            f"dst_group({', '.join(rest[:4])}), ctrl({rest[4]}, {flag.name}) : {gm.type}, {target.type}, "
            f"{mode}, shape i64, i64, src_layout({typed}), dst_group i64, i64, i64, i64, ctrl i64, i1"
        )

    def matrix(self, name: str, address: int, shape: tuple[int, int]) -> Typed:
        """A dense matrix of an argument as fractals in L1, whose pitch is whole squares of 32 rows."""
        t, (rows, cols) = self.buffers[name], shape
        target = self.at("l1", address, t)
        self.fractals(self.gm(name), target, shape, (cols * size_of(t),), (1, 1, up(rows, 32), 0))
        return target

    def factors(self, a: str, b: str, sizes: tuple[int, int, int]) -> tuple[Typed, Typed]:
        """Factors [m, k] and [n, k] of two arguments in the memories of factors."""
        (m, n, k), (s, t) = sizes, (self.buffers[a], self.buffers[b])
        left, right = self.at("l0a", 0, s), self.at("l0b", 0, t)
        fields = [(up(v, 16) // 16, up(k * size_of(s), 32) // 32, up(v, 32) // 16) for v in (m, n)]
        staged = self.matrix(a, LEFT, (m, k)), self.matrix(b, RIGHT, (n, k))
        for name, source, target, (rows, cols, pitch) in zip(
            ("mte_l1_l0a", "mte_l1_l0b"), staged, (left, right), fields, strict=True
        ):
            self.op(name, "", source, target, 0, 0, rows, cols, pitch, rows)
        return left, right

    def product(
        self, name: str, left: Typed, right: Typed, sizes: tuple[Any, Any, Any], *more: Typed, end: str = ""
    ) -> Typed:
        """A product at the beginning of the memory of sums."""
        integers = "i8" in left.type
        sums = self.at("l0c", 0, "i32" if integers else "f32")
        self.op(name, "", left, right, sums, *more, *sizes, end=end)
        return sums

    def store(
        self,
        sums: Typed,
        target: Typed,
        shape: tuple[int, int],
        *clauses: tuple[str, tuple[Any, ...]] | str,
        strides: tuple[Any, Any] | None = None,
        core: int | str | None = None,
    ) -> None:
        """A store; clauses are texts, with the operands that stand at ``{}`` in them."""
        space = target.type.rpartition(" ")[2][:-1]
        source, pitch = strides or (up(shape[0], 16), shape[1])
        operands: list[Any] = [sums, target, *shape, source, pitch, *([0, 0] if space == "gm" else [])]
        form = ", ".join("{}" for _ in operands)
        if space == "ub":
            form += f", dst_mode({core if isinstance(core, str) else '{}'})"
            operands += [] if isinstance(core, str) else [core or 0]
        for clause in clauses:
            text, values = clause if isinstance(clause, tuple) else (clause, ())
            form += f", {text}"
            operands += values
        self.op(f"mte_l0c_{space}", form, *operands)

    def dump(self, name: str, address: int, size: int) -> None:
        """Bytes of L1 in global memory, through the unified buffer."""
        source, middle = self.at("l1", address, "ui8"), self.at("ub", 0, "ui8")
        self.op("mte_l1_ub", "{}, {}, {} nburst({}, {}, {})", source, middle, size // 32, 1, 0, 0)
        self.op("mte_ub_gm", "{}, {}, {} nburst({}, {}, {})", middle, self.gm(name), size, 1, 0, 0)

    # -- execution ----------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The module."""
        given = [f"%{n}: !pto.ptr<{t}, gm>" for n, t in self.buffers.items()]
        arguments = ", ".join((*given, *(f"%{name}: i64" for name in self.numbers)))
        head = [f"{name} = {made}" for made, name in self.head.items()]
        body = "\n".join(f"    {line}" for line in (*head, *self.lines))
        return (
            'module attributes {pto.target_arch = "a5"} {\n'
            f"  func.func @k({arguments}) attributes {{pto.kernel}} {{\n{body}\n    return\n  }}\n}}\n"
        )

    def program(self) -> Program:
        """The program, which is without errors."""
        program = pto.parse(self.text)
        pto.verify(program, raise_on_error=True)
        return program

    def run(self, **arrays: Any) -> Mapping[str, np.ndarray]:
        """The buffers after the kernel, of equal bits interpreted and traced."""
        program = self.program()
        expected = {name: np.asarray(value) for name, value in oracle.run(program, dict(arrays)).items()}
        kernel = pto.compile(program, warn=False)
        with x64():
            traced = executed("numpy", lambda given: kernel(**given), arrays)
        for name, value in expected.items():
            assert np.asarray(traced[name]).tobytes() == value.tobytes(), f"{name} differs between executors"
        return expected
