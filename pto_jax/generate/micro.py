"""Kernels of micro-operations: transfers into the unified buffer, vector scopes, transfers back.

Every byte of the unified buffer that a kernel uses is loaded from an argument before, and stored to it
behind; registers that a scope has made are stored too, by element type, so that what they hold is seen. Flags
order the pipes. The profile is a5, which alone has micro-operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import ir
from ..analysis.scopes import ends_scope
from ..ir import I1, I64, AddressSpace, DType, KernelKind, Op, Pipe, PtrType, ScalarType, Value, attrs
from ..isa import micro_operations
from ..isa.micro import SCOPE_LOOP, SCOPES
from ..isa.views import ADDPTR
from .control import barrier
from .micro_logical import LogicalWriter
from .micro_samples import MicroSample, element, register, select_micro
from .micro_scope import AREA, RESULTS, Area, ScopeWriter, storable
from .options import CASTPTR, TRANSFERS
from .state import State

#: Element types of the arguments whose bytes are loaded.
_LOADED = "f32 f16 bf16 i32 u32 i16 u16 i8 u8".split()
#: Where the areas, and the results of each element type, are in the unified buffer.
_STEP, _RESULTS_AT = 4096, 32768
_REGISTER = 256
#: Registers made in a scope that are stored at its end at most.
_SHOWN = 6
#: Element types that atomic stores have, and what they are called there.
_ATOMIC = {"f32": "f32", "f16": "f16", "bf16": "bf16", "i32": "s32", "i16": "s16", "i8": "s8"}


@dataclass
class Shown:
    """Registers in global memory: their buffer, its place in the unified buffer, and how many there are."""

    gm: Value
    ub: Value
    count: int = 0


class KernelWriter:
    """Writes a kernel; ``turn`` is the number of the first operation that takes turns."""

    def __init__(self, state: State, turn: int) -> None:
        self.state, self.rng, self.turn = state, state.rng, turn
        self.selection = select_micro(state.options)
        self.shown: dict[str, Shown] = {}
        self.address = _RESULTS_AT
        #: Names of operations between scopes that the kernel has to have.
        self.moves: list[str] = []
        self.areas: list[tuple[Value, Area]] = []

    def write(self) -> None:
        """The whole kernel."""
        samples = self.drawn()
        inside = [s for s in samples if s.name not in TRANSFERS]
        self.moves = [s.name for s in samples if s.name in TRANSFERS]
        self.areas = [self.area(number) for number in range(self.rng.randint(2, 3))]
        for gm, area in self.areas:
            self.load(gm, area)
        self.before()
        self.sync(Pipe.MTE2, Pipe.V)
        # A scope has logical registers or physical ones.
        parts = [[s for s in inside if s.operation.is_logical == logical] for logical in (False, True)]
        for part in [p for p in parts if p] or [[]]:
            scopes = self.rng.randint(1, 2) if len(part) > 3 else 1
            size = -(-len(part) // scopes)
            for number in range(scopes):
                self.scope(part[number * size : (number + 1) * size])
                self.between()
        self.sync(Pipe.V, Pipe.MTE3)
        self.store()

    def drawn(self) -> list[MicroSample]:
        """The operations of the kernel: those whose turn it is, and others by their weights."""
        options, selection = self.state.options, self.selection
        bound = max(1, options.statements)
        chosen = min(bound, options.turns) if selection.pairs else 0
        pairs = selection.pairs
        choices = [pairs[(self.turn + k) % len(pairs)] for k in range(chosen)]
        for _ in range(self.rng.randint(0 if chosen else 1, bound - chosen) if selection.names else 0):
            (name,) = self.rng.choices(selection.names, cum_weights=selection.cumulative)
            choices.append(self.rng.choice(selection.samples[name]))
        self.rng.shuffle(choices)
        return choices

    # -- memory ---------------------------------------------------------------------------------------

    def area(self, number: int) -> tuple[Value, Area]:
        """An argument, and the bytes of the unified buffer that it is loaded to."""
        d = element(self.rng.choice(_LOADED))
        words = self.state.recipe(d, (AREA // (d.storage_bits // 8),))
        gm = self.state.argument("g", PtrType(d), words)
        return gm, Area(self.pointer(number * _STEP, d), d)

    def pointer(self, address: int, d: DType) -> Value:
        """A pointer to an address of the unified buffer."""
        at = self.state.constant(address, I64)
        value = Value(self.state.name("p"), PtrType(d, AddressSpace.VEC))
        self.state.emit(Op(CASTPTR, (at,), results=(value,)))
        return value

    def number(self, number: int) -> Value:
        """A number of bytes or bursts: a constant, or an argument."""
        if self.state.chance(0.85):
            return self.state.constant(number, I64)
        return self.state.argument("n", ScalarType(I64), np.array(number, np.int64).view(np.uint64))

    def transfer(self, name: str, first: Value, second: Value, **numbers: Value) -> None:
        """A grouped transfer; ``numbers`` by the names of the operands, in their order."""
        operation = micro_operations()[name]
        ends = operation.operands[:2]
        values = dict(zip(ends, (first, second), strict=True)) | numbers
        if name == "mte_gm_ub":
            values["l2"] = self.state.constant(0, I64)
        order = [n for n in operation.operands if n in values]
        groups = tuple((n, 1) for n in order) if "(?" in operation.syntax else ()
        self.state.emit(Op(name, tuple(values[n] for n in order), groups=groups))

    def whole(self, name: str, first: Value, second: Value, size: int) -> None:
        """All bytes of an area, in one burst or in several, maybe in loops around them."""
        bursts = self.rng.choice((1, 1, 2, 4, 8))
        inner = size // bursts
        numbers = {"len": inner, "n": bursts, "s": inner, "d": inner}
        if bursts > 1 and self.state.chance(0.4):
            numbers |= {"n": 1, "c1": bursts, "s1": inner, "d1": inner}
        self.transfer(name, first, second, **{n: self.number(v) for n, v in numbers.items()})

    def load(self, gm: Value, area: Area) -> None:
        """The bytes of an argument, as a whole; some of them again at other places."""
        self.whole("mte_gm_ub", gm, area.pointer, AREA)
        if self.state.chance(0.3):
            self.moves.append("mte_gm_ub")

    def before(self) -> None:
        """Further transfers into the areas, in rows with gaps, with pads, or by registers of loops."""
        raw = any("outtoub" in n or n in ("copy_gm_to_ubuf", "set_mov_pad_val") for n in self.moves)
        if "mte_gm_ub" in self.moves:
            self.rows(*self.rng.choice(self.areas))
        if raw or self.state.chance(0.1):
            self.raw(*self.rng.choice(self.areas), load=True)

    def rows(self, gm: Value, area: Area) -> None:
        """Rows of an argument at other places, with pads behind or around them."""
        length, rows = 32 * self.rng.randint(1, 4) - self.rng.choice((0, 0, 4, 16)), self.rng.randint(1, 3)
        numbers = {"len": length, "n": rows, "s": self.rng.choice((length, 256)), "d": 256}
        if self.state.chance(0.4):
            numbers |= {"c1": 2, "s1": 1024, "d1": 1024}
        values = {n: self.number(v) for n, v in numbers.items()}
        if length % 32 or self.state.chance(0.4):
            values["pad"] = self.state.scalar(area.dtype)
            if self.state.chance(0.4):
                sides = {n: self.state.constant(self.rng.randint(0, 2), I64) for n in ("left", "right")}
                values |= sides
        self.transfer("mte_gm_ub", gm, area.pointer, **values)

    def raw(self, gm: Value, area: Area, *, load: bool) -> None:
        """A copy inside the loops that registers give."""
        way = "outtoub" if load else "ubtoout"
        inner, outer = self.rng.randint(1, 3), self.rng.randint(1, 2)
        for name, numbers in (
            (f"set_loop_size_{way}", (outer, inner)),
            (f"set_loop1_stride_{way}", (256, 256)),
            (f"set_loop2_stride_{way}", (1024, 1024)),
        ):
            self.state.emit(Op(name, tuple(self.state.constant(n, I64) for n in numbers)))
        c = {n: self.state.constant(n, I64) for n in (0, 1, 32, 64, 96, 128)}
        length = c[self.rng.choice((32, 64))]
        if load:
            pads = self.state.chance(0.3)
            if pads or "set_mov_pad_val" in self.moves:
                self.state.emit(Op("set_mov_pad_val", (self.state.constant(self.rng.randint(0, 99), I64),)))
            select = self.state.constant(pads, I1)
            ins = (gm, area.pointer, c[0], c[1], length, c[0], c[0], select, c[0], c[128], c[128])
            self.state.emit(Op("copy_gm_to_ubuf", ins))
        else:
            self.state.emit(
                Op("copy_ubuf_to_gm", (area.pointer, gm, c[0], c[1], length, c[0], c[128], c[128]))
            )

    def between(self) -> None:
        """Moves inside the unified buffer, sorts and merges behind a scope."""
        if "mte_ub_ub" in self.moves or self.state.chance(0.1):
            self.moved()
        if "vbitsort" in self.moves:
            self.sorted()
        if {"vmrgsort4", "get_vms4_sr"} & set(self.moves):
            self.merged()

    def moved(self) -> None:
        """Blocks of 32 bytes from one area to another one, with gaps."""
        (_, a), (_, b) = self.rng.sample(self.areas, 2)
        numbers = {n: self.rng.randint(*limits) for n, limits in _BLOCKS.items()}
        self.state.emit(barrier(Pipe.ALL))
        self.transfer("mte_ub_ub", a.pointer, b.pointer, **{n: self.number(v) for n, v in numbers.items()})
        self.state.emit(barrier(Pipe.ALL))

    def cast(self, area: Area, d: DType) -> Value:
        """The pointer to an area for another element type."""
        value = Value(self.state.name("p"), PtrType(d, AddressSpace.VEC))
        self.state.emit(Op(CASTPTR, (area.pointer,), results=(value,)))
        return value

    def sorted(self) -> None:
        """Groups of scores with their indices, sorted into records."""
        (_, scores), (_, target) = self.rng.sample(self.areas, 2)
        score = element(self.rng.choice(("f32", "f16")))
        repeats = self.state.constant(self.rng.randint(1, 4))
        ins = (self.cast(target, score), self.cast(scores, score), self.cast(scores, ir.U32), repeats)
        self.state.emit(barrier(Pipe.ALL))
        self.state.emit(Op("vbitsort", ins))
        self.state.emit(barrier(Pipe.ALL))

    def merged(self) -> None:
        """Lists of records merged into one, and how many of each were taken."""
        (_, source), (_, target) = self.rng.sample(self.areas, 2)
        score, lengths = ir.F32, [self.rng.randint(1, 32) for _ in range(4)]
        lists = [self.cast(source, score)]
        for number in range(1, 4):
            list_value = Value(self.state.name("p"), lists[0].type)
            at = self.state.constant(number * 64 * 2)
            self.state.emit(Op(ADDPTR, (lists[0], at), results=(list_value,)))
            lists.append(list_value)
        word = sum(n << 16 * k for k, n in enumerate(lengths))
        control = 1 | self.rng.choice((0b11, 0b111, 0b1111)) << 8 | self.rng.getrandbits(1) << 12
        numbers = (self.state.constant(word, I64), self.state.constant(control, I64))
        self.state.emit(barrier(Pipe.ALL))
        self.state.emit(Op("vmrgsort4", (self.cast(target, score), *lists, *numbers)))
        self.state.emit(barrier(Pipe.ALL))
        if "get_vms4_sr" in self.moves:
            counts = tuple(Value(self.state.name("s"), ScalarType(ir.I16)) for _ in range(4))
            self.state.emit(Op("get_vms4_sr", results=counts))
            self.state.level.scalars += counts

    def store(self) -> None:
        """The areas and the results of the scopes, into global memory."""
        for number, (gm, area) in enumerate(self.areas):
            self.whole("mte_ub_gm", area.pointer, gm, AREA)
            atomic = number == 0 and any("atomic" in n for n in self.moves)
            if (atomic or self.state.chance(0.1)) and area.dtype.name in _ATOMIC:
                self.combined(gm, area)
        if any("ubtoout" in n or n == "copy_ubuf_to_gm" for n in self.moves) or self.state.chance(0.1):
            self.raw(*self.rng.choice(self.areas), load=False)
        for shown in self.shown.values():
            self.whole("mte_ub_gm", shown.ub, shown.gm, shown.count * _REGISTER)
        if {"ld_dev", "st_dev"} & set(self.moves):
            self.state.emit(barrier(Pipe.ALL))
            self.scalars()

    def combined(self, gm: Value, area: Area) -> None:
        """A part of an area that is added to global memory, or is its extreme."""
        named = [n for n in self.moves if n in ("set_atomic_add", "set_atomic_max", "set_atomic_min")]
        how = named[0] if named else self.rng.choice(("set_atomic_add", "set_atomic_max", "set_atomic_min"))
        self.state.emit(Op(how))
        self.state.emit(Op(f"set_atomic_{_ATOMIC[area.dtype.name]}"))
        numbers = {"len": 64, "n": 2, "s": 128, "d": 256}
        self.transfer("mte_ub_gm", area.pointer, gm, **{n: self.number(v) for n, v in numbers.items()})
        self.state.emit(Op("set_atomic_none"))

    def scalars(self) -> None:
        """An element of global memory to another place."""
        gm, area = self.rng.choice(self.areas)
        last = AREA // (area.dtype.storage_bits // 8) - 1
        value = Value(self.state.name("s"), ScalarType(area.dtype))
        self.state.emit(Op("ld_dev", (gm, self.state.number(self.rng.randint(0, last))), results=(value,)))
        self.state.emit(Op("st_dev", (value, gm, self.state.number(self.rng.randint(0, last)))))

    def sync(self, source: Pipe, target: Pipe) -> None:
        """What a pipe has done is over before another one goes on: a flag, or a barrier."""
        if self.state.chance(0.2):
            self.state.emit(barrier(Pipe.ALL))
            return
        event = self.rng.randrange(8)
        for way in ("set", "wait"):
            self.state.emit(Op(f"{way}_flag", attributes=attrs(src=source, dst=target, event=event)))

    # -- scopes ---------------------------------------------------------------------------------------

    def scope(self, samples: Sequence[MicroSample]) -> None:
        """A vector scope, some left to the assembler: loads, operations, and their registers in memory."""
        logical = bool(samples) and samples[0].operation.is_logical
        kind = LogicalWriter if logical else ScopeWriter
        writer = kind(self.state, [a for _, a in self.areas], self.keep)
        form = self.rng.random()
        loop, left_out = form < 0.15, form > 0.9
        with writer.region(loop) as level:
            for _ in range(self.rng.randint(2, 3)):
                d = element(self.rng.choice(_LOADED))
                t = writer.of(d, writer.lanes()) if isinstance(writer, LogicalWriter) else register(d)
                writer.load(t)
            first = len(writer.pool.registers)
            self.statements(writer, list(samples))
            self.show(writer, writer.pool.registers[first:])
            if loop:
                writer.barrier()
        if left_out and not any(map(ends_scope, level.ops)):
            for op in level.ops:
                self.state.emit(op)
            return
        if not loop:
            self.state.emit(Op(SCOPES[0], regions=(ir.Region(tuple(level.ops)),)))
            return
        # The older form of a scope is a loop: all of its trips are in one scope.
        bounds = tuple(map(self.state.constant, (0, self.rng.randint(1, 2), 1)))
        body = ir.Region(tuple(level.ops), (Value(self.state.name("k"), ScalarType(ir.INDEX)),))
        groups, marked = (("lb", 1), ("ub", 1), ("step", 1), ("inits", 0)), attrs({SCOPE_LOOP: True})
        self.state.emit(Op("scf.for", bounds, groups=groups, regions=(body,), attributes=marked))

    def statements(self, writer: ScopeWriter, samples: list[MicroSample], depth: int = 0) -> None:
        """Operations one after the other, some in loops and branches."""
        while samples:
            inside = [samples.pop() for _ in range(min(len(samples), self.rng.randint(1, 3)))]
            if depth < self.state.options.depth and self.state.chance(self.state.options.control):
                make = writer.loop if self.state.chance(0.6) else writer.branch
                make(partial(self._inside, writer, inside, depth + 1))
            else:
                for sample in inside:
                    self.one(writer, sample)

    def _inside(self, writer: ScopeWriter, samples: Sequence[MicroSample], depth: int) -> None:
        """The operations of a region, once for each that has them."""
        self.statements(writer, [*samples], depth)

    def one(self, writer: ScopeWriter, sample: MicroSample) -> None:
        """One operation; in loops and branches what it makes is shown right behind it."""
        before = len(writer.pool.registers)
        writer.operation(sample)
        if len(self.state.levels) > 2 and self.state.chance(0.5):
            self.show(writer, writer.pool.registers[before:])

    def show(self, writer: ScopeWriter, registers: Sequence[Value]) -> None:
        """Some registers, with a few masks as bytes, in global memory."""
        kept = list(registers)
        self.rng.shuffle(kept)
        for value in kept[:_SHOWN]:
            self.keep(writer, value, 0)

    def keep(self, writer: ScopeWriter, value: Value, ulp: int) -> None:
        """A register in a buffer for its element type; in one of its own where it is not exact."""
        assert isinstance(value.type, ir.VRegType)
        t = value.type
        d = storable(t.dtype)
        key = f"{d.name}{len(self.shown) if ulp else ''}{'~' if ulp else ''}"
        shown = self.shown.get(key) or self.room(key, d, ulp)
        lanes = _REGISTER // (d.storage_bits // 8)
        size = -(-t.lanes // lanes) if t.logical else 1
        if shown.count + size > RESULTS:
            return
        at = self.state.constant(shown.count * lanes)
        shown.count += size
        if isinstance(writer, LogicalWriter):
            writer.made("vmi.vstore", {"value": value, "dest": shown.ub, "offset": at}, ())
        else:
            writer.emit("vsts", (value, shown.ub, at, writer.whole(t)))
        # The next trip of a loop stores to the same place.
        writer.written.add(id(shown))

    def room(self, key: str, d: DType, ulp: int) -> Shown:
        """A buffer for registers of an element type."""
        count = RESULTS * _REGISTER // (d.storage_bits // 8)
        gm = self.state.argument("r", PtrType(d), np.zeros(count, d.word))
        if ulp:
            self.state.loose[gm.name] = ulp
        # Pointers of results are made before everything else, so that all regions see them.
        at = Value(self.state.name("c"), ScalarType(I64))
        ub = Value(self.state.name("p"), PtrType(d, AddressSpace.VEC))
        self.state.levels[0].ops[:0] = [
            Op("arith.constant", results=(at,), attributes=attrs(value=self.address)),
            Op(CASTPTR, (at,), results=(ub,)),
        ]
        self.address += RESULTS * _REGISTER
        buffers = self.shown[key] = Shown(gm, ub)
        return buffers


_BLOCKS = {"len": (1, 3), "n": (1, 4), "s": (0, 2), "d": (0, 2)}


def kernel(state: State, turn: int) -> ir.Program:
    """A kernel of micro-operations."""
    KernelWriter(state, turn).write()
    body = ir.Region((*state.level.ops, Op("return")))
    main = ir.Function("main", tuple(state.arguments), body, (), (("pto.kernel", True),))
    return ir.Program((main,), attributes=_MODULE)


_MODULE = attrs({"pto.kernel_kind": KernelKind.VECTOR, "pto.target_arch": "a5"})
