"""Kernels of the cube unit: matrices in L1, fractals of both factors, products, stores of accumulators.

A kernel has one product of two matrices of any size, stored in several ways; barriers order the pipes. With
two kinds of cores accumulators go to the unified buffer of the vector cores, and from there to global memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import ir
from ..ir import (
    I1,
    I64,
    AddressSpace,
    AttrValue,
    DType,
    KernelKind,
    Op,
    Pipe,
    PtrType,
    ScalarType,
    Value,
    attrs,
)
from ..isa import micro_operations
from ..isa.cube import GROUP, KEEPS_NAN, KEEPS_OVERFLOW, ROW, SIDE
from ..isa.cube_stores import QUANTISATIONS, is_vector
from .control import barrier
from .options import CASTPTR
from .state import State

#: Element types of two factors and of their sums.
_TYPES = (
    ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("hif8", "hif8"), ("f8e4m3", "f8e4m3"),
    ("f8e4m3", "f8e5m2"), ("f8e5m2", "f8e4m3"), ("i8", "i8"), ("u8", "u8"),
)  # fmt: skip
_SCALED = (("f8e4m3", "f8e4m3"), ("f8e5m2", "f8e4m3"), ("f8e4m3", "f8e5m2"))
#: Addresses in L1: of the left factor, the right one, a bias, parameters, scales, and results.
_LEFT, _RIGHT, _BIAS, _PARAMETERS, _SCALES, _RESULTS = 0, 98304, 196608, 204800, 212992, 229376
#: Slopes lie a segment behind the parameters of quantisation.
_SLOPES = 65536
_ATOMICS = {"f32": "f32", "f16": "f16", "bf16": "bf16", "i32": "s32", "i16": "s16", "i8": "s8"}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a product."""

    m: int
    n: int
    k: int


class CubeWriter:
    """Writes a kernel."""

    def __init__(self, state: State) -> None:
        self.state, self.rng = state, state.rng
        scaled = state.chance(0.25)
        left, right = self.rng.choice(_SCALED if scaled else _TYPES)
        self.left, self.right, self.scaled = ir.dtype(left), ir.dtype(right), scaled
        self.sums = ir.F32 if self.left.is_float else ir.I32
        k = self.rng.choice((64, 128)) if scaled else self.rng.choice((1, 8, 16, 31, 33, 50, 64))
        self.size = Sizes(self.rng.choice((1, 1, 5, 16, 17, 40)), self.rng.choice((1, 8, 16, 20, 33, 48)), k)

    # -- parts --------------------------------------------------------------------------------------------

    def number(self, value: int) -> Value:
        """A constant."""
        return self.state.constant(value, I64)

    def pointer(self, address: int, d: DType, space: AddressSpace) -> Value:
        """A pointer into on-chip memory."""
        pointer_value = Value(self.state.name("p"), PtrType(d, space))
        self.state.emit(Op(CASTPTR, (self.number(address),), results=(pointer_value,)))
        return pointer_value

    def op(self, name: str, operands: dict[str, Value], **attributes: AttrValue) -> None:
        """An operation with its operands by name; those of a syntax with optional parts are grouped."""
        operation = micro_operations()[name]
        order = [n for n in operation.operands if n in operands]
        optional = any(word.endswith("?") for word in operation.words[0])
        groups = tuple((n, 1) for n in order) if optional else ()
        ins = tuple(operands[n] for n in order)
        self.state.emit(Op(name, ins, groups=groups, attributes=attrs(attributes)))

    def numbers(self, **values: int) -> dict[str, Value]:
        """Constants by name."""
        return {name: self.number(value) for name, value in values.items()}

    def sync(self) -> None:
        """What came before is over."""
        self.state.emit(barrier(Pipe.ALL))

    # -- staging ------------------------------------------------------------------------------------------

    def matrix(self, rows: int, cols: int, d: DType, address: int) -> tuple[Value, int]:
        """A matrix in fractals of L1, of an argument in rows or in columns; rows of fractals per column."""
        size = d.storage_bits // 8
        by_column = self.state.chance(0.3)
        outer, inner = (cols, rows) if by_column else (rows, cols)
        pitch = inner + self.rng.choice((0, 0, 3))
        gm = self.state.argument("g", PtrType(d), self.state.recipe(d, (outer * pitch,)))
        l1 = self.pointer(address, d, AddressSpace.MAT)
        high = -(-rows // SIDE) + self.rng.choice((0, 0, 1))
        values = self.numbers(n=rows, d=cols, s=pitch * size, g=1, d2=1, d3=high * SIDE, d4=0, l2=0)
        if self.state.chance(0.2):
            values |= self.numbers(s2=0)
        values |= {"gm": gm, "l1": l1, "small": self.state.constant(False, I1)}
        self.op("mte_gm_l1_frac", values, mode="dn2nz" if by_column else "nd2nz")
        return l1, high

    def bytes(self, size: int, d: DType, address: int, words: np.ndarray | None = None) -> Value:
        """Bytes of an argument in L1 as they are."""
        count = size // (d.storage_bits // 8)
        contents = self.state.recipe(d, (count,)) if words is None else words
        gm, l1 = self.state.argument("g", PtrType(d), contents), self.pointer(address, d, AddressSpace.MAT)
        bursts = self.rng.choice((1, 2)) if size % 64 == 0 else 1
        if self.state.chance(0.2):
            self.op("copy_gm_to_cbuf", {"gm": gm, "l1": l1} | self.numbers(len=size // ROW, n=1, s=0, d=0))
            return l1
        values = self.numbers(len=size // bursts, n=bursts, s=size // bursts, d=size // bursts)
        self.op("mte_gm_l1", {"gm": gm, "l1": l1} | values)
        return l1

    def fractals(
        self, name: str, source: Value, high: int, extents: tuple[int, int], transpose: bool
    ) -> Value:
        """A load of fractals; ``extents`` are rows and columns of the source, ``high`` rows of fractals."""
        assert isinstance(source.type, PtrType)
        d = source.type.dtype
        size = d.storage_bits // 8
        space = AddressSpace.LEFT if name == "mte_l1_l0a" else AddressSpace.RIGHT
        target = self.pointer(0, d, space)
        rows, cols = extents
        square = max(SIDE, ROW // size) if transpose else 1
        tall = -(-rows // max(square, SIDE)) * max(square, SIDE) // SIDE
        wide = -(-cols // square) * square
        plain = high == tall and self.state.chance(0.7)
        if plain:
            sizes = (rows, cols) if (name == "mte_l1_l0a") != transpose else (cols, rows)
            values = self.numbers(n0=sizes[0], n1=sizes[1], n2=0, n3=0)
        else:
            pitch = wide // SIDE if transpose else tall
            fields = (0, 0, tall, -(-wide * size // ROW), high, max(1, pitch))
            values = self.numbers(**{f"n{i}": v for i, v in enumerate(fields)})
            if self.state.chance(0.3):
                name = "load_cbuf_to_ca" if name == "mte_l1_l0a" else "load_cbuf_to_cb"
        more = {"transpose": True} if transpose else {}
        self.op(name, {"src": source, "dst": target} | values, **more)
        return target

    def factors(self) -> tuple[Value, Value]:
        """Both factors in their memories."""
        m, n, k = self.size.m, self.size.n, self.size.k
        turned = self._turns(self.left) and self.state.chance(0.3)
        a, high = self.matrix(*((k, m) if turned else (m, k)), self.left, _LEFT)
        across = self._turns(self.right) and self.state.chance(0.6)
        b, deep = self.matrix(*((k, n) if across else (n, k)), self.right, _RIGHT)
        self.sync()
        left = self.fractals("mte_l1_l0a", a, high, (k, m) if turned else (m, k), turned)
        right = self.fractals("mte_l1_l0b", b, deep, (k, n) if across else (n, k), across)
        return left, right

    def _turns(self, d: DType) -> bool:
        """Whether fractals of an element type are transposed: rows fill its squares."""
        return d.storage_bits != 8 or -(-self.size.k // SIDE) % 2 == 0

    def scales(self, name: str, factor: Value, rows: int) -> None:
        """Block scales of a factor."""
        d = ir.dtype("f8e8m0")
        size = -(-rows // SIDE) * -(-self.size.k // (2 * GROUP)) * 32
        words = self.state.rng.choices(range(120, 135), k=size)
        address = _SCALES + (4096 if name == "mte_l1_l0b_mx" else 0)
        source = self.bytes(size, d, address, np.array(words, np.uint8))
        sizes = (rows, self.size.k) if name == "mte_l1_l0a_mx" else (self.size.k, rows)
        self.sync()
        self.op(name, {"src": source, "dst": factor} | self.numbers(n0=sizes[0], n1=sizes[1], n2=0, n3=0))

    def bias(self) -> Value:
        """A bias in its memory."""
        d = self.sums if self.sums != ir.F32 else ir.dtype(self.rng.choice(("f32", "f16", "bf16")))
        units = -(-self.size.n * d.storage_bits // 8 // ROW) or 1
        source = self.bytes(units * ROW, d, _BIAS)
        target = self.pointer(0, self.sums, AddressSpace.BIAS)
        self.sync()
        self.op("mte_l1_bt", {"src": source, "dst": target} | self.numbers(len=units, n=1, s=0, d=0))
        return target

    # -- products -----------------------------------------------------------------------------------------

    def write(self) -> None:
        """The whole kernel."""
        if self.state.chance(0.2):
            self.control()
        left, right = self.factors()
        if self.scaled:
            self.scales("mte_l1_l0a_mx", left, self.size.m)
            self.scales("mte_l1_l0b_mx", right, self.size.n)
        result = self.pointer(0, self.sums, AddressSpace.ACC)
        operands = {"lhs": left, "rhs": right, "dst": result}
        operands |= self.numbers(m=self.size.m, n=self.size.n, k=self.size.k)
        kind = "mad_mx" if self.scaled else "mad"
        biased = self.state.chance(0.3)
        first = operands | ({"bias": self.bias()} if biased else {})
        self.sync()
        self.op(kind + ("_bias" if biased else ""), first, **self.clauses())
        if self.state.chance(0.4):
            self.sync()
            self.op(f"{kind}_acc", operands, **self.clauses())
        for _ in range(self.rng.randint(1, 3)):
            self.sync()
            self.stored(result)
        self.sync()

    def control(self) -> None:
        """Another bit in the control register."""
        values = [Value(self.state.name("v"), ScalarType(I64)) for _ in range(2)]
        self.state.emit(Op("get_ctrl", results=(values[0],)))
        bit = self.number(self.rng.choice((KEEPS_OVERFLOW, KEEPS_OVERFLOW, KEEPS_NAN)))
        name = self.rng.choice(("sbitset0", "sbitset1"))
        self.state.emit(Op(name, (values[0], bit), results=(values[1],)))
        self.state.emit(Op("set_ctrl", (values[1],)))

    def clauses(self) -> dict[str, AttrValue]:
        """What a product is told beside its factors."""
        chosen: dict[str, AttrValue] = {}
        if self.size.m == 1:
            # Factors are staged in fractals here.
            chosen["disable_gemv"] = "disable_gemv"
        if self.sums == ir.F32 and self.state.chance(0.4):
            chosen["saturate"] = self.rng.choice(("sat", "nosat"))
        if self.left == ir.F32 and self.state.chance(0.4):
            chosen["tf32"] = self.rng.choice(("round_even", "round_away"))
        return chosen

    # -- stores -------------------------------------------------------------------------------------------

    def stored(self, source: Value) -> None:
        """A store of the sums, quantised or not, into a buffer of its own."""
        names = [n for n, q in QUANTISATIONS.items() if q.source == self.sums.name and q.kind]
        names = [n for n in names if n != "deqs16_scalar"]
        mode = self.rng.choice(names) if self.state.chance(0.7) else ""
        target = ir.dtype(self.rng.choice(QUANTISATIONS[mode].targets)) if mode else self.sums
        operands: dict[str, Value] = {"src": source}
        attributes: dict[str, AttrValue] = {}
        if mode:
            attributes["quant_mode"] = mode
            operands["quant"] = self.parameters() if is_vector(mode) else self.state.scalar(ir.F32)
        self.activation(target, operands, attributes)
        layout = self.rng.choice(("", "nz2nd", "nz2nd", "nz2dn", *(("nz2nz",) if target == ir.F32 else ())))
        if layout:
            attributes["layout"] = layout
        if layout in ("nz2dn", "nz2nz"):
            operands["layout_value"] = self.number(1)
        if self.state.chance(0.4):
            attributes["saturate"] = self.rng.choice(("sat", "nosat"))
            if attributes["saturate"] == "sat" and self.state.chance(0.3):
                attributes["nan"] = "preserve_nan"
        self.output(target, layout, operands, attributes)

    def activation(self, target: DType, operands: dict[str, Value], attributes: dict[str, AttrValue]) -> None:
        """A ReLU and a limit, where there are some."""
        if not self.state.chance(0.5):
            return
        modes = ["no_relu", "normal_relu"] + (["scalar_relu", "vector_relu"] if target.is_float else [])
        mode = attributes["relu_mode"] = self.rng.choice(modes)
        if mode == "scalar_relu":
            operands["relu"] = self.state.scalar(ir.F32)
        elif mode == "vector_relu":
            operands["relu"] = self.slopes()
        if target.name in ("f16", "i8", "i16") and self.state.chance(0.5):
            operands["clip"] = self.state.scalar(target)

    def parameters(self) -> Value:
        """Words of quantisation per column."""
        count = -(-self.size.n // 8) * 8
        single = np.array([self.rng.choice((0.5, 1.0, 1.7, -2.0, 0.01)) for _ in range(count)], np.float32)
        words = single.view(np.uint32).astype(np.uint64)
        more = [self.rng.getrandbits(10) << 37 | self.rng.getrandbits(4) << 32 for _ in range(count)]
        source = self.bytes(count * 8, ir.U64, _PARAMETERS, words | np.array(more, np.uint64))
        return self.to_parameters(source, 0, count * 8)

    def slopes(self) -> Value:
        """Slopes per column."""
        count = -(-self.size.n // SIDE) * SIDE
        source = self.bytes(count * 4, ir.F32, _PARAMETERS + 4096)
        return self.to_parameters(source, _SLOPES, count * 4)

    def to_parameters(self, source: Value, address: int, size: int) -> Value:
        """Bytes of L1 in the memory of parameters."""
        target = self.pointer(address, ir.F32, AddressSpace.SCALING)
        self.sync()
        self.op("mte_l1_fb", {"src": source, "dst": target} | self.numbers(len=size // 64, n=1, s=0, d=0))
        self.sync()
        return target

    def output(
        self, target: DType, layout: str, operands: dict[str, Value], attributes: dict[str, AttrValue]
    ) -> None:
        """The store itself: into global memory, or by way of L1 and the unified buffer."""
        m, n = self.size.m, self.size.n
        lines, length = (n, m) if layout == "nz2dn" else (m, n)
        if layout == "nz2nz":
            lines, length = -(-n // 8), m * 8
        stride = length + self.rng.choice((0, 0, 4))
        count = -(-lines * stride // 64) * 64
        buffer = self.state.argument("r", PtrType(target), self.state.recipe(target, (count,)))
        operands |= self.numbers(m=m, n=n, src_stride=-(-m // SIDE) * SIDE, dst_stride=stride)
        if self.state.chance(0.2):
            operands |= self.numbers(loop_count=1, loop_source=0, loop_target=0) if layout != "nz2nz" else {}
        if self.state.chance(0.7):
            if target.name in _ATOMICS and self.state.chance(0.2):
                attributes |= {
                    "atomic": self.rng.choice(("add", "max", "min")),
                    "atomic_type": _ATOMICS[target.name],
                }
            self.op("mte_l0c_gm", operands | {"dst": buffer} | self.numbers(sid=0, l2=0), **attributes)
            return
        size = count * target.storage_bits // 8
        ub = self.pointer(0, target, AddressSpace.VEC)
        # The unified buffer begins with what the result buffer has.
        whole = self.numbers(l2=0, len=size, n=1, s=size, d=size)
        self.op("mte_gm_ub", {"gm": buffer, "ub": ub} | whole)
        self.sync()
        if self.state.chance(0.5):
            self.op("mte_l0c_ub", operands | {"dst": ub, "core": self.number(0)}, **attributes)
        else:
            self.through_l1(target, size // ROW, ub, operands, attributes)
        self.sync()
        self.op("mte_ub_gm", {"ub": ub, "gm": buffer} | self.numbers(len=size, n=1, s=size, d=size))

    def through_l1(
        self,
        target: DType,
        blocks: int,
        ub: Value,
        operands: dict[str, Value],
        attributes: dict[str, AttrValue],
    ) -> None:
        """A store into L1, over what the unified buffer has or a word repeated, and back."""
        l1 = self.pointer(_RESULTS, target, AddressSpace.MAT)
        ends, raw = {"ub": ub, "l1": l1}, self.state.chance(0.4)
        whole = self.numbers(len=blocks, n=1, s=0, d=0) | (self.numbers(sid=0) if raw else {})
        if self.state.chance(0.3):
            values = self.numbers(offset=0, repeats=1, length=blocks, gap=0)
            values["value"] = self.state.constant(self.rng.getrandbits(31), ir.I32)
            self.op("raw_fill_l1", {"dst": l1} | values, fill_word_bits=self.rng.choice((16, 32)))
        else:
            self.op("copy_ubuf_to_cbuf" if raw else "mte_ub_l1", ends | whole)
        self.sync()
        self.op("mte_l0c_l1", operands | {"dst": l1}, **attributes)
        self.sync()
        self.op("copy_cbuf_to_ubuf" if raw else "mte_l1_ub", ends | whole)


def kernel(state: State) -> ir.Program:
    """A kernel of the cube unit."""
    CubeWriter(state).write()
    body = ir.Region((*state.level.ops, Op("return")))
    main = ir.Function("main", tuple(state.arguments), body, (), (("pto.kernel", True),))
    return ir.Program(
        (main,), attributes=attrs({"pto.kernel_kind": KernelKind.CUBE, "pto.target_arch": "a5"})
    )
