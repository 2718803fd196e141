"""Traits: what declarations say of effects, handles and order holds for their operands, and in execution."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pto_jax import ir
from pto_jax.analysis.entries import fragment_outputs
from pto_jax.cases.targets import UNBOUNDED, Oracle
from pto_jax.cases.ulp import result_bounds
from pto_jax.cost.program import cost
from pto_jax.generate.options import CORES
from pto_jax.generate.programs import Case, generate
from pto_jax.generate.state import Input
from pto_jax.interpreter import Operand, Scope, TileRef, fifo, sync_config
from pto_jax.interpreter.interpreter import HANDLERS, Waiting
from pto_jax.isa import Instruction, instructions, micro_operations
from pto_jax.isa.effects import accesses, aliased, flows, pipe_of, placed, traits_of, written
from pto_jax.isa.rules.tile_legality import tile_of_memref
from pto_jax.isa.samples.operations import Sample, legal_samples, to_program
from pto_jax.isa.traits import STRUCTURE, UNKNOWN, Alias, Effect, Placement, Traits
from pto_jax.oracle.machine import ReferenceMachine
from pto_jax.oracle.storage import Place, Window
from pto_jax.profiles import PROFILE_NAMES, ProfileName, profile
from pto_jax.text import parse
from tests.tables import every

TABLE = instructions()
MEMORY = {
    "tile": "tile",
    "entry": "tile",
    "gm": "global",
    "ptr": "global",
    "vector": "vector",
    "handle": "events",
}
#: Types of values that programs declare: no argument has one.
DECLARED = (ir.OpaqueType, ir.MultiTileType, ir.LocalArrayType, ir.StructType)
#: What the slots of a handle to several tiles are.
TILES_OF = {"multi_tile_get": "tile"}
#: Handles that are neither over other memory nor placed: their storage is their own.
OWN_STORAGE = {"declare_tile", "tget_scale_addr"}
#: Views that get their memory where a slot is bound to them.
BOUND_LATER = {"declare_global"}


# -- declarations ----------------------------------------------------------------------------------------


def problems(instruction: Instruction) -> Iterator[str]:
    """What is wrong with the traits of an instruction."""
    operands, traits = {o.name: o for o in instruction.operands}, instruction.traits
    for effect in traits.effects:
        if effect.operand is not None:
            operand = operands.get(effect.operand)
            if operand is None or MEMORY.get(operand.kind) != effect.resource:
                yield f"{effect} is of no operand"
    if traits.alias is not None:
        yield from alias_problems(instruction, traits.alias)
    if traits.placement is not None:
        yield from placement_problems(instruction, traits.placement)
    if traits.resizes is not None and operands[traits.resizes].kind != "tile":
        yield f"{traits.resizes} has no valid region"
    if traits.transfer is not None:
        tile, view = (operands[name] for name in traits.transfer)
        if (tile.kind, view.kind) != ("tile", "gm") or {tile.role, view.role} != {"in", "out"}:
            yield "a transfer is between a tile and a view"
    if instruction.syntax == "tile" and traits.alias is None:
        yield from role_problems(instruction)


def alias_problems(instruction: Instruction, alias: Alias) -> Iterator[str]:
    if [o.name for o in instruction.destinations] != [alias.result]:
        yield f"{alias.result} is not the only destination"
    source = instruction.operand(alias.source)
    if source.is_read and alias.memory not in (MEMORY.get(source.kind), TILES_OF.get(instruction.name)):
        yield f"{alias.source} names no {alias.memory} memory"
    if instruction.traits.effects:
        yield "a handle moves nothing"
    yield from position_problems(instruction, alias.source)


def placement_problems(instruction: Instruction, placement: Placement) -> Iterator[str]:
    handle = instruction.operand(placement.handle)
    if handle.kind not in ("tile", "handle") or (handle in instruction.destinations) != placement.allocates:
        yield f"{placement.handle} is not placed"
    if placement.address is not None:
        if instruction.operand(placement.address).kind != "scalar":
            yield f"{placement.address} is no address"
        yield from position_problems(instruction, placement.address)


def position_problems(instruction: Instruction, name: str) -> Iterator[str]:
    """Forms of as many operands have a source in one position, unless operands are named in the text."""
    positions: dict[int, set[int]] = {}
    for form in instruction.forms:
        if name in form:
            positions.setdefault(len(form), set()).add(form.index(name))
    if any(len(found) > 1 for found in positions.values()) and instruction.name != "alloc_tile":
        yield f"{name} has several positions"


def role_problems(instruction: Instruction) -> Iterator[str]:
    """Effects of tile instructions say what the roles of operands say."""
    allowed = {"in": {"read"}, "out": {"write"}, "inout": {"read", "write"}, "tmp": {"scratch"}}
    for operand in instruction.operands:
        found = {e.access for e in instruction.traits.effects if e.operand == operand.name}
        if found != (allowed[operand.role] if MEMORY.get(operand.kind) else set()):
            yield f"{operand.name} is {operand.role} and has effects {sorted(found)}"


@every("name", TABLE)
def test_traits_fit_the_operands_of_the_instruction(name: str) -> None:
    assert list(problems(TABLE[name])) == []


def test_traits_that_do_not_fit_are_found() -> None:
    def broken(name: str, traits: Traits) -> list[str]:
        instruction = replace(TABLE[name])
        object.__setattr__(instruction, "traits", traits)
        return list(problems(instruction))

    assert broken("tadd", Traits()) and broken("tadd", Traits((Effect("read", "tile", "nobody"),)))
    assert broken("bitcast", Traits(alias=Alias("tile", "result")))
    assert broken("treshape", Traits(alias=Alias("result", "tile", "global")))
    assert broken("alloc_tile", Traits(placement=Placement("result", "result")))
    assert broken("tassign", Traits(placement=Placement("tile", "addr")))
    assert broken("tload", replace(TABLE["tload"].traits, transfer=("src", "dst")))


def test_every_handle_view_and_pointer_comes_from_somewhere() -> None:
    for instruction in TABLE.values():
        traits = instruction.traits
        for operand in instruction.destinations if instruction.syntax == "custom" else ():
            if operand.kind not in ("tile", "gm", "ptr") or instruction.name in OWN_STORAGE | BOUND_LATER:
                continue
            made = traits.alias or traits.placement or traits.fifo in ("pop", "allocate")
            changed = any(e.operand == operand.name and e.access == "write" for e in traits.effects)
            # An integer address is no memory of the program.
            number = instruction.name in ("castptr", "inttoptr")
            assert made or changed or number, (instruction.name, operand.name)


def test_what_orders_or_waits_touches_no_tile() -> None:
    for instruction in TABLE.values():
        if instruction.traits.order is not None:
            assert not any(e.resource == "tile" for e in instruction.traits.effects), instruction.name
            assert not instruction.traits.pure


# -- operations that are no instruction ------------------------------------------------------------------


def test_every_operation_that_is_executed_has_traits() -> None:
    for name in HANDLERS.keys() - micro_operations().keys() - {"micro-operation"}:
        assert name in TABLE or name in STRUCTURE or name.partition(".")[0] == "arith", name
    assert not STRUCTURE.keys() & TABLE.keys()
    assert traits_of(ir.Op("nobody.knows")) == UNKNOWN and not UNKNOWN.pure
    assert traits_of(ir.Op("arith.anything")).pure


def test_terminators_end_the_regions_that_name_them() -> None:
    ends = {end for t in STRUCTURE.values() if t.regions is not None for end in t.regions.ends}
    terminators = {name for name, traits in STRUCTURE.items() if traits.terminator}
    assert terminators == ends | {"return"}
    loop, branch = STRUCTURE["scf.while"].regions, STRUCTURE["scf.if"].regions
    assert loop is not None and branch is not None
    assert [loop.end(i) for i in range(2)] == ["scf.condition", "scf.yield"]
    assert [branch.end(i) for i in range(2)] == ["scf.yield"] * 2


def test_values_flow_through_regions_as_their_terminators_say() -> None:
    a, b, c, d, go = (ir.Value(n, ir.ScalarType(ir.INDEX)) for n in ("a", "b", "c", "d", "go"))
    before = ir.Region((ir.Op("scf.condition", (go, b)),), (b,))
    after = ir.Region((ir.Op("scf.yield", (c,)),), (c,))
    loop = ir.Op("scf.while", (a,), results=(d,), regions=(before, after))
    assert {(str(t), str(s)) for t, s in flows(loop)} == {
        ("%b", "%a"), ("%b", "%c"), ("%c", "%b"), ("%d", "%b")
    }  # fmt: skip
    arms = (ir.Region((ir.Op("scf.yield", (a,)),)), ir.Region((ir.Op("scf.yield", (b,)),)))
    branch = ir.Op("scf.if", (go,), results=(d,), regions=arms)
    assert [(str(t), str(s)) for t, s in flows(branch)] == [("%d", "%a"), ("%d", "%b")]


# -- execution -------------------------------------------------------------------------------------------


class Watch(ReferenceMachine):
    """Keeps the last operation of a program, what it found, and the memory before it."""

    def begin(self, op: ir.Op, scope: Scope) -> None:
        self.op, self.scope = op, scope
        self.found = {v.name: scope[v] for v in (*op.ins, *op.outs)}
        self.before = {name: self._bytes(operand) for name, operand in self.found.items()}

    def _bytes(self, operand: Operand) -> Any:
        if isinstance(operand, TileRef):
            return np.array(self.contents(operand))
        buffer = getattr(operand, "buffer", None)
        return np.array(self.buffers[buffer]) if isinstance(buffer, str) else np.zeros(0)

    def changed(self) -> set[str]:
        """Names of the operands whose memory is another one after the operation."""
        return {n for n, old in self.before.items() if (self._bytes(self.found[n]) != old).any()}

    def memory(self, value: ir.Value) -> object:
        """The memory that a value names: a buffer of tile memory, or the name of one of global memory."""
        operand = self.scope[value]
        if not isinstance(operand, TileRef):
            return getattr(operand, "buffer", None)
        place = operand.storage
        while isinstance(place, Window):
            place = place.tile.storage
        assert isinstance(place, Place)
        return place.buffer


def argument(t: ir.Type, rng: np.random.Generator) -> Input:
    """Small numbers as the contents of an argument."""
    t = (tile_of_memref(t) or t) if isinstance(t, ir.MemRefType) else t
    if isinstance(t, ir.PtrType):
        shape: tuple[int, ...] = (4096,)
    elif isinstance(t, ir.TileType):
        shape = t.shape
    else:
        shape = tuple(n or 1 for n in getattr(t, "dims", ()))
    d = t.dtype  # type: ignore[union-attr]
    valid = t.shape if isinstance(t, ir.TileType) and not t.is_static else None
    numbers = rng.integers(1, 4, shape)
    words = numbers.astype(d.word) if d.packed else numbers.astype(d.numpy).view(d.word)
    return Input(t, words, valid)  # type: ignore[arg-type]


def executed(sample: Sample, on: ProfileName) -> Watch:
    """The reference machine after the operation of a sample."""
    program, rng = to_program(sample), np.random.default_rng(5)
    machines: list[Watch] = []

    def machine(*given: Any) -> Watch:
        machines.append(Watch(*given))
        # An operation alone has no signal before it.
        machines[0].in_order = False
        return machines[0]

    given = {a.name: argument(a.type, rng) for a in program.functions[0].args}
    Oracle(machine=machine).run(Case("", 0, 0, profile(on), program, given, {}))
    return machines[0]


#: Types whose values only operations of the program make: no arguments.
DECLARED = (ir.OpaqueType, ir.MultiTileType, ir.LocalArrayType, ir.StructType)


def samples(instruction: Instruction) -> Iterator[tuple[Sample, ProfileName]]:
    """A sample of every form of an instruction."""
    seen = set[tuple[str, ...]]()
    for name in PROFILE_NAMES:
        for sample in legal_samples(instruction, profile(name)):
            number = any(t == ir.ScalarType(ir.I64) for t in sample.types.values())
            if number and instruction.name in ("castptr", "inttoptr"):
                continue  # an address is that of a buffer, of which the sample has none
            if sample.form not in seen and not any(isinstance(t, DECLARED) for t in sample.types.values()):
                seen.add(sample.form)
                yield sample, name


def takes_slots(traits: Traits) -> bool:
    """Whether a core may wait for a slot of a FIFO."""
    return traits.fifo in ("allocate", "push", "pop")


def waits(traits: Traits) -> bool:
    """Whether a core may wait for another one."""
    order = traits.order
    through = ("core", "cores", "signal", "transfer")
    return takes_slots(traits) or (order is not None and order.role != "signal" and order.through in through)


def alone(instruction: Instruction) -> bool:
    """Whether an instruction is executed, to its end and without another core."""
    order = instruction.traits.order
    blocks = order is not None and (order.role, order.through) == ("wait", "signal")
    return (
        instruction.executable
        and instruction.name != "trap"
        and not takes_slots(instruction.traits)
        and not blocks
    )


@every("name", [n for n, i in TABLE.items() if alone(i)])
def test_execution_writes_what_the_effects_say_and_nothing_else(name: str) -> None:
    for sample, on in samples(TABLE[name]):
        machine = executed(sample, on)
        assert machine.changed() == {v.name for v in written(machine.op, "tile", "global")}, sample.form


ALIASES = [n for n, i in TABLE.items() if i.executable and i.traits.alias and n not in TILES_OF]


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_names_the_memory_of_its_source(name: str) -> None:
    found = list(samples(TABLE[name]))
    assert found or name == "multi_tile_get"
    for sample, on in found:
        machine = executed(sample, on)
        pair = aliased(machine.op)
        assert pair is not None and machine.memory(pair[0]) == machine.memory(pair[1])


@pytest.mark.parametrize("name", ["memref.alloc", *sorted(OWN_STORAGE)])
def test_other_handles_have_storage_of_their_own(name: str) -> None:
    for sample, on in samples(TABLE[name]):
        machine = executed(sample, on)
        (made,) = machine.op.results
        assert machine.memory(made) not in [machine.memory(v) for v in machine.op.ins]


def test_an_address_is_where_a_placed_handle_lies() -> None:
    for name in ("alloc_tile", "tassign"):
        for sample, on in samples(TABLE[name]):
            machine = executed(sample, on)
            handle, address = placed(machine.op) or (None, None)
            assert handle is not None
            place = machine.scope[handle].storage
            assert address is None or place.address == machine.scope[address]


def test_cores_wait_where_the_traits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = set[str]()

    def note(op: ir.Op, what: str) -> Waiting:
        waiting.add(op.name)
        return Waiting(op, what)

    monkeypatch.setattr(fifo, "Waiting", note)
    monkeypatch.setattr(sync_config, "Waiting", note)
    for index in range(12):
        case = generate(3, index, CORES)
        Oracle().run(case)
    assert waiting and all(waits(traits_of(ir.Op(name))) for name in waiting), waiting


# -- consumers -------------------------------------------------------------------------------------------


def test_a_bound_tile_is_an_alias_for_everyone() -> None:
    """Bounds of results follow from what is written through another handle."""
    memref, tile = "memref<16x16xf32, #pto.address_space<vec>>", "!pto.tile<16x16xf32>"
    program = parse(
        f"%m = memref.alloc() : {memref}\n%b = pto.bind_tile %m : {memref} -> {memref}\n"
        f"pto.texp ins(%x : {tile}) outs(%b : {memref})\npto.tneg ins(%m : {memref}) outs(%y : {tile})"
    )
    assert result_bounds(program, program.functions[0]) == {"b": 1, "y": UNBOUNDED}
    assert fragment_outputs(parse("\n".join(str(program).splitlines()[:2]))) == ("b",)


def test_a_second_handle_reads_and_writes_nothing() -> None:
    t = ir.TileType(ir.F32, 16, 16)
    a, b = ir.Value("a", t), ir.Value("b", t)
    for name, traits in ((n, i.traits) for n, i in TABLE.items() if i.traits.alias):
        assert traits.pure, name
    assert list(accesses(ir.Op("talias", (a,), results=(b,)))) == []
    assert [str(v) for v in aliased(ir.Op("talias", (a,), (b,))) or ()] == ["%b", "%a"]


def test_cost_and_hazards_know_one_pipe() -> None:
    for name in ("tmov", "tload", "tstore", "tstore_fp", "textract", "tinsert", "tmov.fp", "tmatmul", "tadd"):
        for on in PROFILE_NAMES:
            for sample in legal_samples(TABLE[name], profile(on)):
                program = to_program(sample)
                *_, op = program.walk()
                (line,) = cost(program, on).lines
                assert line.pipe == pipe_of(op)


def test_operations_that_do_not_fit_their_declaration_have_no_values() -> None:
    a = ir.Value("a", ir.TileType(ir.F32, 16, 16))
    assert list(written(ir.Op("tadd", (a,), (a, a)))) == []
    assert aliased(ir.Op("bitcast")) is None and placed(ir.Op("tassign")) is None
