"""Blocks of launches that store and copy what they like: compiled as in order, whatever the proof says.

A seed makes the text of a launch: statements of every kind that reads or writes global memory, at places that
depend on the block, an argument or a number in memory, in every construct that a program has around them.

Arithmetic on the scalars of many blocks is that of the interpreter, lane by lane.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import pytest

import pto_jax as pto
from pto_jax import oracle
from pto_jax.grids import numbers
from pto_jax.grids.numbers import NOWHERE, Lanes, address, compute, spread
from pto_jax.interpreter.abstract import Unknown
from pto_jax.ir import I1, I8, I32, I64, INDEX, U8, DType
from pto_jax.lowering import disjoint_parts
from pto_jax.oracle import scalars
from tests.mutation.mutants import Mutant, applied

#: Elements of every buffer.
SIZE = 512
TYPES = {"i32": np.int32, "f32": np.float32, "i16": np.int16, "ui8": np.uint8}
#: Half of the launches have only places that the block decides, so that many are proved.
UNKNOWN = ("%n", "%read")
BUFFERS = ("%x", "%y")
INNER = ("store", "store", "store", "tile", "tile")
#: Statements outside of any construct, in one, and in two.
KINDS = (
    (*INNER * 3, "cast", "address", "loop", "loop", "branch", "branch", "section"),
    (*INNER, "loop", "branch"),
    INNER,
)


@dataclass
class Writer:
    """Writes the text of one launch, decided by a random number generator."""

    rng: random.Random
    dtype: str
    known: bool
    parts: dict[str, tuple[int, int]]
    lines: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def bind(self, right: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {right}")
        return name

    def number(self, n: int) -> str:
        return self.bind(f"arith.constant {n} : index")

    def place(self, name: str, room: int = 1) -> str:
        """An index with some room behind it: most often in the part of a buffer that is the block's own."""
        rng, (scale, base) = self.rng, self.parts[name]
        if rng.random() < 0.04:
            scale, base = rng.choice((0, 1, 16)), rng.choice((0, 3, 64))
        reach = max(1, scale - room + 1)
        at = self.bind(f"arith.muli %b, {self.number(scale)} : index")
        more = self.number(rng.randrange(reach))
        moving = self.counters if self.known else [*self.counters, *UNKNOWN]
        if moving and rng.random() < 0.4:
            more = self.bind(f"arith.remui {rng.choice(moving)}, {self.number(reach)} : index")
        joined = self.bind(
            f"arith.{rng.choice(('addi', 'addi', 'ori', 'xori', 'maxui'))} {at}, {more} : index"
        )
        return self.bind(f"arith.addi {joined}, {self.number(base)} : index")

    def pointer(self, name: str, at: str) -> tuple[str, str]:
        """A pointer and an index that together are at a place."""
        p = f"!pto.ptr<{self.dtype}>"
        if self.rng.random() < 0.3:
            return self.bind(f"pto.addptr {name}, {at} : {p} -> {p}"), self.number(0)
        return name, at

    def value(self) -> str:
        """A scalar: constant, an argument, or what is in memory."""
        kind = self.rng.randrange(3)
        if kind < 2:
            return ("%value", "%constant")[kind]
        name = self.rng.choice(BUFFERS)
        pointer, at = self.pointer(name, self.place(name))
        return self.bind(f"pto.load_scalar {pointer}[{at}] : !pto.ptr<{self.dtype}> -> {self.dtype}")

    def store(self, name: str) -> None:
        """An element becomes a scalar."""
        value = self.value()
        pointer, at = self.pointer(name, self.place(name))
        self.lines.append(f"pto.store_scalar {value}, {pointer}[{at}] : !pto.ptr<{self.dtype}>, {self.dtype}")

    def cast(self, name: str) -> None:
        """A byte of an element of another size."""
        p = self.bind(f"pto.castptr {name} : !pto.ptr<{self.dtype}> -> !pto.ptr<i8>")
        byte = self.bind("arith.constant 77 : i8")
        self.lines.append(f"pto.store_scalar {byte}, {p}[{self.place(name)}] : !pto.ptr<i8>, i8")

    def address(self, name: str) -> None:
        """The low bits of an element's address, as a place."""
        moved = self.bind(
            f"pto.addptr {name}, {self.place(name)} : {(p := f'!pto.ptr<{self.dtype}>')} -> {p}"
        )
        number = self.bind(f"pto.ptrtoint {moved} : {p} -> i64")
        low = self.bind(f"arith.andi {number}, %mask : i64")
        at = self.bind(f"arith.index_cast {low} : i64 to index")
        self.lines.append(f"pto.store_scalar %value, {name}[{at}] : {p}, {self.dtype}")

    def tile(self, source: str, target: str) -> None:
        """A window of one row is loaded and stored, sometimes added to what is there."""
        room = min(16, self.parts[source][0], self.parts[target][0])
        cols = self.rng.choice((1, room, room, room, 3))
        view, part = f"!pto.tensor_view<?x{self.dtype}>", f"!pto.partition_tensor_view<{cols}x{self.dtype}>"
        t = f"!pto.tile_buf<vec, 1x32x{self.dtype}, valid=1x{cols}>"
        n, size, one = self.number(cols), self.number(SIZE), self.number(1)
        windows = []
        for name in (source, target):
            at = self.place(name, cols)
            whole = self.bind(f"pto.make_tensor_view {name}, shape = [{size}], strides = [{one}] : {view}")
            windows.append(
                self.bind(f"pto.partition_view {whole}, offsets = [{at}], sizes = [{n}] : {view} -> {part}")
            )
        tile = self.bind(f"pto.alloc_tile : {t}")
        adds = self.dtype in ("i32", "f32") and self.rng.random() < 0.3
        atomic = " {atomicType = #pto<atomic_type atomic_add>}" if adds else ""
        self.lines += [
            f"pto.tload ins({windows[0]} : {part}) outs({tile} : {t})",
            f"pto.tstore ins({tile} : {t}) outs({windows[1]} : {part}){atomic}",
        ]

    def statement(self, depth: int = 0) -> None:
        kind, target = self.rng.choice(KINDS[depth]), self.rng.choice(BUFFERS)
        if kind == "store":
            self.store(target)
        elif kind == "tile":
            self.tile(self.rng.choice(BUFFERS), target)
        elif kind == "cast":
            self.cast(target)
        elif kind == "address":
            self.address(target)
        else:
            self.region(kind, depth)

    def region(self, kind: str, depth: int) -> None:
        """A statement in a section, a branch or a loop whose trips move with the block."""
        counter = self.name()
        heads = {"section": "pto.section.vector {", "loop": f"scf.for {counter} = %c0 to %trips step %c1 {{"}
        if kind == "branch":
            by = "%b" if self.known or self.rng.random() < 0.7 else "%n"
            hit = self.bind(f"arith.cmpi ult, {by}, {self.number(self.rng.randrange(8))} : index")
            heads["branch"] = f"scf.if {hit} {{"
        self.lines.append(heads[kind])
        self.counters += [counter] * (kind == "loop")
        for _ in range(self.rng.randint(1, 2)):
            self.statement(depth + 1)
        if kind == "loop":
            self.counters.pop()
        self.lines.append("}")


@dataclass(frozen=True)
class Launch:
    """A program of two buffers and two scalars, its grid, and the arrays it is launched on."""

    text: str
    entry: str
    grid: int
    arguments: tuple[Any, ...]


def _constant(dtype: str) -> str:
    """A number of a type; those of ``arith`` have no sign."""
    if dtype == "ui8":
        cast = "builtin.unrealized_conversion_cast %signless : i8 to ui8"
        return f"%signless = arith.constant 5 : i8\n%constant = {cast}"
    return f"%constant = arith.constant {'5.0' if dtype == 'f32' else '5'} : {dtype}"


def launch(seed: int, entry: str = "k") -> Launch:
    """The launch of a seed: an entry, and a function that it calls with the block's number."""
    rng = random.Random(seed)
    dtype, known = rng.choice(list(TYPES)), rng.random() < 0.7
    parts = {name: (rng.choice((1, 2, 3, 4, 8, 16)), rng.choice((0, 0, 5, 128))) for name in BUFFERS}
    writer, bodies = Writer(rng, dtype, known, parts), []
    for most in (3, 2):
        writer.lines = []
        for _ in range(rng.randint(3 - most, most)):
            writer.statement()
        bodies.append("\n".join(writer.lines))
    p = f"!pto.ptr<{dtype}>"
    common = f"%x: {p}, %y: {p}, %n: index, %value: {dtype}"
    prologue = f"""%c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %mask = arith.constant 255 : i64
      {_constant(dtype)}
      %trips = arith.constant {rng.randint(0, 3)} : index"""
    wider = {"f32": "arith.fptosi %at0 : f32", "ui8": "arith.extui %bits : i8"}
    cast = "%bits = builtin.unrealized_conversion_cast %at0 : ui8 to i8" if dtype == "ui8" else ""
    if not known:
        prologue += f"""
      %at0 = pto.load_scalar %x[%n] : {p} -> {dtype}
      {cast}
      %read64 = {wider.get(dtype, f"arith.extsi %at0 : {dtype}")} to i64
      %read = arith.index_cast %read64 : i64 to index"""
    text = f"""module attributes {{pto.target_arch = "a3"}} {{
    func.func @{entry}({common}) attributes {{pto.entry}} {{
      %b64 = pto.get_block_idx
      %b = arith.index_cast %b64 : i64 to index
      {prologue}
      {bodies[0]}
      func.call @more(%x, %y, %n, %value, %b) : ({p}, {p}, index, {dtype}, index) -> ()
      return
    }}
    func.func private @more({common}, %b: index) {{
      {prologue}
      {bodies[1]}
      return
    }}
    }}"""
    data = np.random.default_rng(seed)
    x, y = (data.integers(0, 100, SIZE).astype(TYPES[dtype]) for _ in "xy")
    return Launch(text, entry, rng.choice((2, 3, 5, 8, 13)), (x, y, rng.randrange(40), TYPES[dtype](9)))


def assert_equal(one: Launch, batch: int = 0) -> None:
    """Compare a compiled launch, or a batch of it, with the interpreter's blocks in order."""
    program = pto.parse(one.text)
    kernel = pto.compile(program, grid=one.grid, partial_launch=True)

    def expected(*arguments: Any) -> dict[str, np.ndarray]:
        return oracle.run(program, arguments, grid=one.grid, partial_launch=True)

    if batch:
        x, y, n, value = one.arguments
        rows = [(np.roll(x, i), np.roll(y, 3 * i), n + i, value + type(value)(i)) for i in range(batch)]
        found = jax.vmap(kernel)(*(np.stack(column) for column in zip(*rows, strict=True)))
        wanted = [expected(*row) for row in rows]
        for name, array in found.items():
            assert np.asarray(array).tobytes() == b"".join(w[name].tobytes() for w in wanted), one.text
    else:
        found = jax.jit(lambda *a: kernel(*a))(*one.arguments)
        for name, array in expected(*one.arguments).items():
            assert np.asarray(found[name]).tobytes() == array.tobytes(), one.text


def is_proved(one: Launch) -> bool:
    """Whether the blocks of a launch are proved not to meet."""
    buffers = (("x", SIZE), ("y", SIZE))
    return disjoint_parts(pto.parse(one.text), one.entry, one.grid, buffers) is not None


SEEDS = range(200)


@pytest.mark.variants(1)
@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_that_store_what_they_like_are_those_in_order(seed: int) -> None:
    assert_equal(launch(seed))


@pytest.mark.variants(2)
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_a_batch_of_launches_has_numbers_of_its_own_in_every_element(seed: int) -> None:
    assert_equal(launch(seed), batch=3)


def test_the_generator_makes_blocks_that_meet_and_blocks_that_do_not() -> None:
    proved = [is_proved(launch(seed)) for seed in SEEDS[:60]]
    assert 15 < sum(proved) < 45


#: What is wrong: the function, the code that becomes another one, and a seed whose launch shows it.
PLANTED = {
    "stores are no part of a block": (
        "_Footprints.store",
        "self._touch(pointer.buffer, _element(pointer), writes=True)",
        "self.writes.setdefault(pointer.buffer, []).append(_element(pointer))",
        2,
    ),
    "stores change nothing": (
        "_Footprints.store",
        "self._touch(pointer.buffer, _element(pointer), writes=True)",
        "self._touch(pointer.buffer, _element(pointer))",
        2,
    ),
    "loads are not seen": ("_Footprints.load", "self._touch(pointer.buffer, _element(pointer))", "None", 4),
    "blocks meet": ("_part", "is_written and not np.isin(owner[touched], (-1, number)).all()", "False", 59),
    "pointers are cast": ("_element", "pointer.cast", "False", 3),
    "addresses are numbers": ("_Footprints.begin", "_is_address(op)", "False", 18),
    "the extent of a part": (
        "_part",
        "max(e - s for s, e in zip(starts, ends, strict=True))",
        "min(e - s for s, e in zip(starts, ends, strict=True))",
        13,
    ),
    "elements between parts are lost": (
        "Part.put",
        "jnp.where(free, words, parts.reshape(-1)[np.where(free, 0, places)])",
        "jnp.where(free, 0 * words, parts.reshape(-1)[np.where(free, 0, places)])",
        2,
    ),
    "parts meet": (
        "Part.step",
        "step if step >= self.size and (steps == step).all() else None",
        "step if step >= 0 and (steps == step).all() else None",
        13,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_proof_is_noticed(name: str) -> None:
    function, *texts, seed = PLANTED[name]
    entry = f"k{list(PLANTED).index(name)}"  # a program of its own: compiled kernels are remembered
    with applied(Mutant(name, function, *texts)), pytest.raises(AssertionError):
        assert_equal(launch(seed, entry))


def equal_in_order(text: str, grid: int, *arguments: np.ndarray) -> None:
    program = pto.parse(text)
    kernel = pto.compile(program, "cpu_sim", grid=grid, partial_launch=True)
    expected = oracle.run(program, arguments, profile="cpu_sim", grid=grid, partial_launch=True)
    for name, array in expected.items():
        assert np.asarray(kernel(*arguments)[name]).tobytes() == array.tobytes(), name
        assert array.any(), name


def test_every_block_stores_its_number() -> None:
    text = """
    func.func @k(%o: !pto.ptr<i32>) attributes {pto.entry} {
      %v = arith.constant 12345 : i32
      %b = pto.get_block_idx
      %i = arith.index_cast %b : i64 to index
      pto.store_scalar %v, %o[%i] : !pto.ptr<i32>, i32
      return
    }"""
    equal_in_order(text, 16, np.zeros(65536, np.int32))


def test_a_layout_with_a_dimension_that_is_not_written_is_seen_whole() -> None:
    """An NDC1HWC0 view of 3 rows has 24 elements of 32 bits: those of two blocks meet."""
    view, tile = "!pto.tensor_view<?x?x?x?x?xf32>", "!pto.conv_tile<mat, 1x1x1x1x2x8xf32, layout=ndc1hwc0>"
    windows = "\n".join(
        f"""%v{p} = pto.make_tensor_view %{p}, shape = [%c1, %c1, %c1, %c1, %c3],
        strides = [%c24, %c24, %c24, %c24, %c8] {{layout = #pto.layout<ndc1hwc0>}} : {view}
        %w{p} = pto.partition_view %v{p}, offsets = [%c0, %c0, %c0, %c0, %i],
        sizes = [%c1, %c1, %c1, %c1, %c2] : {view} -> !pto.partition_tensor_view<1x1x1x1x2xf32>"""
        for p in "xy"
    )
    part = "!pto.partition_tensor_view<1x1x1x1x2xf32>"
    numbers = "\n".join(f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 8, 24))
    text = f"""
    func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {{pto.entry}} {{
      {numbers}
      %b = pto.get_block_idx
      %i = arith.index_cast %b : i64 to index
      {windows}
      %t = pto.alloc_tile : {tile}
      pto.tload ins(%wx : {part}) outs(%t : {tile})
      pto.tstore ins(%t : {tile}) outs(%wy : {part})
      return
    }}"""
    equal_in_order(text, 2, np.arange(1, 49, dtype=np.float32), np.zeros(48, np.float32))


EDGES = np.array([0, 1, 2, 3, 7, -1, -2, -7, 63, 64, 127, -128, 1 << 31, -(1 << 31), (1 << 62) + 5])
CASTS = ("index_cast", "index_castui", "trunci", "extui", "extsi")


def operands(source: DType) -> tuple[np.ndarray, np.ndarray]:
    first, second = (n.reshape(-1) for n in np.meshgrid(EDGES, EDGES))
    wrapped = np.array([scalars.wrap(int(n), source) for n in EDGES], np.int64)
    table = dict(zip(EDGES.tolist(), wrapped, strict=True))
    return tuple(np.array([table[n] for n in side.tolist()]) for side in (first, second))  # type: ignore[return-value]


@pytest.mark.parametrize("source", [I8, U8, I32, I64, INDEX, I1], ids=str)
def test_lanes_compute_as_the_interpreter_does(source: DType) -> None:
    first, second = operands(source)
    for operation in sorted(numbers._FORMULAS):
        casts = operation in CASTS
        arguments = [first] if casts else [first, second]
        result = I1 if operation.startswith("cmpi") else I32 if casts else source
        name = f"arith.{operation}"
        found = compute(name, [Lanes(a) for a in arguments], source, result)
        expected = [int(scalars.compute(name, lane, source, result)) for lane in zip(*arguments, strict=True)]
        np.testing.assert_array_equal(np.broadcast_to(spread(found, 1), len(expected)), expected, operation)


def test_what_agrees_is_a_number_again_and_what_is_unknown_stays_so() -> None:
    lanes = Lanes(np.arange(4))
    assert compute("arith.muli", (lanes, 0), INDEX, INDEX) == 0
    assert compute("arith.cmpi.slt", (lanes, 9), INDEX, I1) is True
    chosen = compute("arith.select", (Lanes(np.array([1, 0, 1, 0])), lanes, 7), INDEX, INDEX)
    assert chosen.values.tolist() == [0, 7, 2, 7]
    for a in (Unknown(), 1.5):
        assert isinstance(compute("arith.addi", (lanes, a), INDEX, INDEX), Unknown)
    assert isinstance(compute("arith.addf", (1.5, 2.0), INDEX, INDEX), Unknown)


def test_lanes_of_a_loop_meet_those_around_it() -> None:
    blocks, trips = Lanes(np.arange(3)), Lanes(np.arange(2).reshape(1, 2))
    found = compute("arith.addi", (compute("arith.muli", (blocks, 10), INDEX, INDEX), trips), INDEX, INDEX)
    assert found.values.tolist() == [[0, 1], [10, 11], [20, 21]]


def test_addresses_do_not_wrap() -> None:
    found = address(5, Lanes(np.array([1, 1 << 58, -(1 << 58)])), 64)
    assert found.values.tolist() == [69, NOWHERE, NOWHERE]
    assert address(NOWHERE, Lanes(np.array([0, 1])), 1) == NOWHERE
