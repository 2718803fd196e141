"""The verifier: a whole program against a hardware profile.

The rules of instructions are in their declarations. This module walks over the operations and checks what
spans several of them: definitions and uses, constants, functions and calls, handles, memory overlaps, limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import TypeAlias

from .. import isa, profiles
from ..analysis import facts, resolve as resolution
from ..analysis.entries import too_many_calls, too_many_trips
from ..analysis.facts import OperandFacts
from ..analysis.resolve import ResolvedProgram, resolve
from ..analysis.roots import orders_itself
from ..errors import Diagnostic, Span
from ..ir import (
    LANGUAGE_KEY,
    PRESENT,
    Attrs,
    Function,
    Language,
    MultiTileType,
    Op,
    Program,
    Region,
    StructType,
    TileType,
    Type,
    Value,
)
from ..ir.program import ENTRY_MARKS
from ..isa.check import EXPLICIT, Scratch, Valid, check_op, hidden_scratch, unsupported
from ..isa.effects import placed, traits_of
from ..isa.micro import opens_scope
from ..isa.queries import INTTOPTR
from ..isa.rules.constraints import HARDWARE
from ..isa.rules.tile_legality import ALIGNMENT, BOXES, check_type
from ..isa.traits import CAST, GRAPH, structural_traits
from ..profiles import PROFILES, Profile
from . import control_flow, functions, pipes, scalars, unwritten
from .capacity import capacity_findings
from .overlaps import Place, Reserved, in_reserved, overwritten, shared_bytes
from .repairs import proposal

__all__ = ["Build", "Limits", "check_op", "verify_program"]


#: All that the rules for an instruction see, apart from names and places.
_Signature: TypeAlias = tuple[object, ...]


#: What an instruction of a legal signature overwrites without naming it, and what its signature names by
#: identity, which lives as long.
_Legal: TypeAlias = dict[_Signature, tuple[Scratch | None, tuple[object, ...]]]
#: The facts of operands that rules see: numbers, valid regions, extents and layouts.
_JUDGED = 4
#: Legal signatures that are kept at each profile, level and version of the language.
_KEPT = 4096


@lru_cache(maxsize=64)
def _legal(profile: Profile, level: int | None, language: Language) -> _Legal:
    return {}


class InstructionRules:
    """The declared rules on the instructions of one program, at a profile and a level.

    Programs have few different instructions: where nothing was wrong with one, nothing is wrong with another
    one of its signature, in any program.
    """

    def __init__(
        self, resolved: resolution.ResolvedProgram, profile: Profile, level: int | None, fixes: int
    ) -> None:
        self.resolved = resolved
        self.profile = profile
        self.level = level
        self.fixes = fixes
        self._language: Language = resolved.program.language or PRESENT
        self._legal = _legal(profile, level, self._language)

    def check(self, op: Op, operand_facts: facts.OperandFacts) -> tuple[list[Diagnostic], Scratch | None]:
        """What is wrong with an instruction, and the bytes that it overwrites without naming them."""
        instruction = isa.find(op.name)
        signature = _signature(op, instruction, operand_facts)
        legal = self._legal.get(signature)
        if legal is not None:
            return [], legal[0]
        resolved = self.resolved.of(op)
        overwritten = hidden_scratch(op, self.profile, operand_facts.valid, resolved.bound)
        diagnostics = self._findings(resolved, operand_facts)
        if not diagnostics:
            if len(self._legal) >= _KEPT:
                self._legal.clear()
            types = (v.type for v in (*op.ins, *op.outs, *op.results))
            self._legal[signature] = overwritten, (instruction, *types)
        return diagnostics, overwritten

    def _findings(
        self, resolved: resolution.ResolvedOp, operand_facts: facts.OperandFacts
    ) -> list[Diagnostic]:
        """What is wrong by the sizes that the types of an instruction state.

        What only the constants of the text break breaks when it is executed: the assembler accepts it.
        """
        diagnostics = self._objections(resolved, operand_facts, {})
        for finding in (
            self._objections(resolved, operand_facts, operand_facts.valid) if operand_facts.valid else ()
        ):
            if finding not in diagnostics:
                message = f"{finding.message} (by constants; an error where it is executed)"
                diagnostics.append(replace(finding, severity="warning", message=message))
        wrong = [i for i, d in enumerate(diagnostics) if d.severity == "error"]
        if wrong and self.fixes and not any(diagnostics[i].fix for i in wrong):
            self.fixes -= 1
            at = min(wrong, key=lambda i: _column(diagnostics[i]))
            fix = self._fix(resolved.op, operand_facts, diagnostics[at].operand)
            diagnostics[at] = replace(diagnostics[at], fix=fix)
        return diagnostics

    def _fix(self, op: Op, operand_facts: facts.OperandFacts, operand: str | None) -> str:
        """The hardware that has the instruction as it is, else the lines that can stand in its place."""

        def errors(tried: Op, profile: Profile = self.profile) -> list[Diagnostic]:
            before = operand_facts if tried.name == op.name else facts.NOTHING
            objections = check_op(
                tried,
                profile,
                constants=before.numbers,
                shapes=before.extents,
                layouts=before.layouts,
                language=self._language,
                level=self.level,
                first=True,
            )
            return [d for d in objections if d.severity == "error"]

        others = (PROFILES[name] for name in HARDWARE if name != self.profile.name)
        having = next((p.name for p in others if not errors(op, p)), None)
        if having is not None and self.profile.name in HARDWARE:
            return f'profile="{having}"'
        return proposal(op, self.resolved.program, self.profile, errors, operand)

    def _objections(
        self, resolved: resolution.ResolvedOp, operand_facts: facts.OperandFacts, valid: Mapping[str, Valid]
    ) -> list[Diagnostic]:
        """What the declaration of an instruction objects to, with further valid regions."""
        return check_op(
            resolved.op,
            self.profile,
            valid=valid,
            constants=operand_facts.numbers,
            shapes=operand_facts.extents,
            layouts=operand_facts.layouts,
            types=False,
            bound=resolved.bound,
            language=self._language,
            level=self.level,
        )


def _column(diagnostic: Diagnostic) -> tuple[int, int]:
    span = diagnostic.span
    return (span.line, span.col) if span is not None else (0, 0)


def _signature(op: Op, instruction: isa.Instruction | None, operand_facts: facts.OperandFacts) -> _Signature:
    """What tells an instruction from others that the same rules hold for.

    Its declaration and its types count by identity: the reader gives types of one text one object. Attributes
    count by what is written: ``True`` and 1 are equal, but not alike.
    """
    values = (*op.ins, *op.outs, *op.results)
    names = [v.name for v in values]
    return (
        id(instruction),
        repr(op.attributes) if op.attributes else "",
        op.implied,
        op.groups,
        len(op.ins),
        len(op.outs),
        tuple([id(v.type) for v in values]),
        tuple(map(names.index, names)),
        *[tuple(map(known.get, names)) if known else None for known in operand_facts[:_JUDGED]],
    )


def handle_findings(resolved: ResolvedProgram) -> Iterator[Diagnostic]:
    """Multi tiles, structures and pointers made of integers that are used where they must not be."""
    program = resolved.program
    for function in program.functions:
        if not program.fragment:
            yield from _handed_on(function.args, function.span)
            for op in function.walk():
                if op.regions or isa.find(op.name) is None:
                    yield from _operation(op)
        if INTTOPTR in function.names:
            yield from _addresses(resolved, function)


def _operation(op: Op) -> Iterator[Diagnostic]:
    if isa.find(op.name) is None:
        yield from _handed_on((*op.ins, *op.results), op.span, op.name)
    for region in op.regions:
        yield from _handed_on(region.args, op.span)


def _handed_on(values: Iterable[Value], span: Span | None, name: str | None = None) -> Iterator[Diagnostic]:
    """Values that only the operation that declares them may hand to others."""
    for value in values:
        if isinstance(value.type, MultiTileType | StructType):
            message = (
                f"{value} is {value.type}; allowed: multi tiles and structures are used in the function that "
                "declares them, by their own operations only"
            )
            yield Diagnostic("error", message, value.span or span, name, rule="direct")


def _addresses(resolved: ResolvedProgram, function: Function) -> Iterator[Diagnostic]:
    """A pointer made of an integer is only the place of a scalar that is loaded or stored."""
    derived: set[str] = set()
    for op in function.walk():
        for value in op.ins if derived else ():
            accesses = resolved.of(op).accesses()
            if value.name in derived and not any(e.indexed and v == value for e, v in accesses):
                message = f"{value} is a pointer made of an integer; allowed: to load and store scalars"
                yield op.error("integer-pointer", message, value)
        if op.name == INTTOPTR:
            derived.update(v.name for v in op.results)


#: Reads outside a valid region: a warning on one profile, an error for portable programs.
_NOT_PORTABLE = frozenset({"region-covers"})


@dataclass(frozen=True)
class Limits:
    """Upper bounds checked before anything is allocated.

    ``fixes`` bounds the instructions for which legal ones are searched, each for hundredths of a second.
    """

    operations: int = 100_000
    nesting: int = 64
    elements: int = 1 << 28
    fixes: int = 10


#: Where only the verdict counts.
WITHOUT_FIXES = Limits(fixes=0)


@dataclass(frozen=True)
class Build:
    """How a program is meant to be built, and how strictly it is judged.

    The level (None: what its text looks like), whether a tool inserts synchronisation, and whether every
    finding is an error.
    """

    level: int | None = None
    auto_sync: bool = False
    strict: bool = False

    @property
    def as_written(self) -> bool:
        """Whether nothing is inserted, so that the text orders its pipes itself."""
        return self.level == EXPLICIT and not self.auto_sync


def verify_program(
    program: Program,
    profile: Profile,
    *,
    portable: bool = False,
    limits: Limits = Limits(),
    build: Build = Build(),
) -> list[Diagnostic]:
    """All findings about a program on a profile, errors and warnings, in source order.

    ``portable`` accepts only what every profile guarantees: errors of any profile count, and so do reads
    outside a source's valid region.
    """
    if portable:
        by_profile: dict[str, list[Diagnostic]] = {
            p.name: _verify(program, p, limits, build) for p in PROFILES.values()
        }
        findings = _merge(by_profile, profile)
    else:
        findings = _verify(program, profile, limits, build)
    return [replace(d, severity="error") for d in findings] if build.strict else findings


def _merge(by_profile: dict[str, list[Diagnostic]], selected: Profile) -> list[Diagnostic]:
    merged: dict[tuple[object, ...], tuple[Diagnostic, list[str]]] = {}
    for name, diagnostics in by_profile.items():
        for d in diagnostics:
            error = d.severity == "error" or d.rule in _NOT_PORTABLE
            if not error and name != selected.name:
                continue
            key = (d.span, d.instruction, d.operand, d.rule, error)
            merged.setdefault(key, (replace(d, severity="error") if error else d, []))[1].append(name)
    results = []
    for d, names in merged.values():
        everywhere = d.severity != "error" or (len(names) == len(by_profile) and d.rule not in _NOT_PORTABLE)
        results.append(
            d if everywhere else replace(d, message=f"not portable: {', '.join(names)}: {d.message}")
        )
    return _in_source_order(results)


def _verify(program: Program, profile: Profile, limits: Limits, build: Build) -> list[Diagnostic]:
    sink, resolved = _Sink(), resolve(program, profile)
    program = resolved.program
    if _within_limits(program, limits, sink):
        sink.add(too_many_trips(resolved))
        ordered = sorted(program.functions, key=lambda f: not f.external)
        rules = InstructionRules(resolved, profile, build.level, limits.fixes)
        checkers = {f.name: _Checker(rules, f, sink) for f in ordered}
        for checker in checkers.values():
            checker.run()
        if any(checker.reserved for checker in checkers.values()):
            for function in program.functions:
                _check_reserved(function, checkers, sink)
        sink.extend(functions.function_findings(program, build.level, build.auto_sync))
        sink.extend(handle_findings(resolved))
        sink.extend(pipes.pipe_findings(program, profile))
        if build.level != EXPLICIT:
            sink.extend(capacity_findings(resolved, profile))
        sink.extend(target_findings(program, profile))
        sink.extend(unwritten.unwritten_findings(resolved))
        sink.follow(order_findings(resolved, build))
    return _in_source_order(list(sink.found))


def order_findings(resolved: ResolvedProgram, build: Build) -> Iterator[Diagnostic]:
    """Operations that nothing orders, and tokens that stall or leak, in programs that order their pipes."""
    written = build.as_written or orders_itself(resolved.program)
    if written:
        # Most programs leave the order to the assembler and need none of it.
        from ..order import judge

        # Dependent vector instructions need a barrier between them on A2/A3, not on A5.
        vector = build.strict and resolved.profile is not None and resolved.profile.name == "a2a3"
        yield from (f.diagnostic for f in judge(resolved, as_written=build.as_written, vector=vector))


class _Sink:
    """Collects findings once each, in the order they are made."""

    def __init__(self) -> None:
        self.found: dict[Diagnostic, None] = {}

    def add(self, finding: Diagnostic | None) -> None:
        if finding is not None:
            self.found[finding] = None

    def extend(self, findings: Iterable[Diagnostic]) -> None:
        self.found |= dict.fromkeys(findings)

    def follow(self, findings: Iterable[Diagnostic]) -> None:
        """Add what executions show; a program that is wrong in other ways may have none."""
        try:
            self.extend(findings)
        except Exception:
            if not any(d.severity == "error" for d in self.found):
                raise


def _in_source_order(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=_column)


def _within_limits(program: Program, limits: Limits, sink: _Sink) -> bool:
    """Counts operations, depth and elements without recursion; False when a limit is exceeded."""
    count = elements = largest = 0
    place: Span | None = None
    stack = [(f.body, 1, f.span) for f in program.functions]
    while stack:
        region, depth, around = stack.pop()
        count += len(region.ops)
        if depth > limits.nesting:
            span = region.ops[0].span if region.ops else None
            message = f"regions are nested {depth} deep; allowed: {limits.nesting}"
            sink.add(_limit(message, span or around))
            return False
        for op in region.ops:
            if op.regions:
                stack += [(r, depth + 1, op.span) for r in op.regions]
            size = 0
            for value in op.results:
                size += value.type.elements if isinstance(value.type, TileType) else 0
            elements += size
            if place is None or size > largest:
                place, largest = op.span, size
    if count > limits.operations:
        sink.add(_limit(f"the program has {count} operations; allowed: {limits.operations}", place))
        return False
    if elements > limits.elements:
        sink.add(_limit(f"its tiles have {elements} elements in total; allowed: {limits.elements}", place))
        return False
    calls = too_many_calls(program)
    sink.add(calls)
    return calls is None


def _limit(message: str, span: Span | None) -> Diagnostic:
    return Diagnostic("error", message, span, rule="limits")


def _check_reserved(function: Function, checkers: dict[str, _Checker], sink: _Sink) -> None:
    """Tiles of a function and its callees in bytes that an operation of any of them overwrites."""
    names, pending = dict[str, None](), [function.name]
    while pending:
        name = pending.pop()
        if name in checkers and name not in names:
            names[name] = None
            pending += [callee for callee, _ in functions.callees(checkers[name].function)]
    all_checkers = [checkers[n] for n in names]
    reserved = [r for c in all_checkers for r in c.reserved]
    if reserved:
        placed_tiles = [p for c in all_checkers for p in c.places]
        sink.extend(in_reserved(placed_tiles, [p for c in all_checkers for p in c.unplaced], reserved))


class _Checker:
    """One walk over a function, in which every operation is checked with what is known of its operands."""

    def __init__(self, rules: InstructionRules, function: Function, sink: _Sink) -> None:
        self.rules = rules
        self.program = rules.resolved.program
        self.function = function
        self.facts = rules.resolved.facts(function)
        self.sink = sink
        self.types: dict[str, Type] = {}
        #: The names that the region checked last has defined.
        self.left: dict[str, Type] = {}
        self.places: list[Place] = []
        self.unplaced: list[Place] = []
        self.reserved: list[Reserved] = []
        #: Whether the function has micro-operations.
        self.below_tiles = False

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all values of the function."""
        return frozenset(v.name for op in self.function.walk() for v in (*op.ins, *op.outs, *op.results))

    def run(self) -> None:
        function = self.function
        for value in function.args:
            self.define(value, function.span, whole=self.program.fragment)
        self.region(function.body)
        if (
            function.results
            and not function.external
            and not any(op.name == "return" for op in function.walk())
        ):
            self.error(
                f"@{function.name} does not return; allowed: return at its end", function.span, rule="return"
            )
        if len(self.places) > 1:
            self.sink.follow(overwritten(self.rules.resolved, function))

    def error(self, message: str, span: Span | None, instruction: str | None = None, rule: str = "") -> None:
        self.sink.add(Diagnostic("error", message, span, instruction, rule=rule))

    def define(
        self, value: Value, span: Span | None, instruction: str | None = None, *, whole: bool = False
    ) -> None:
        """Bind a name to its type and check the type itself.

        The rules on whole rows and boxes are rules on tiles that are made here (``whole``), not on handles.
        """
        t = value.type
        self.types[value.name] = t
        for finding in check_type(t, self.rules.profile):
            if finding.rule in (ALIGNMENT, BOXES) and not whole:
                continue
            where = value.span or span
            self.sink.add(
                Diagnostic(
                    finding.severity,
                    f"{value}: {finding.written(python=where is not None and where.python)}",
                    where,
                    instruction,
                    rule=finding.rule,
                )
            )

    def region(self, region: Region, parent: Op | None = None) -> None:
        """Check a region; the names it defines end with it."""
        self.sink.add(control_flow.end_finding(region, parent))
        outer = self.types
        self.types = dict(outer)
        for value in region.args:
            self.define(value, value.span)
        for op in region.ops:
            self.op(op)
        self.left, self.types = self.types, outer

    def op(self, op: Op) -> None:
        for value in (*op.ins, *op.outs):
            self.use(value, op)
        operand_facts = self.facts.of(op)
        if isa.find(op.name) is not None:
            self.instruction(op, operand_facts)
        else:
            self.structure(op, operand_facts)
        for region in op.regions:
            self.region(region, op)
            if op.name == GRAPH:
                self.types = self.types | self.left
        placement = traits_of(op).placement
        makes = (placement is not None and placement.allocates) or op.form in functions.BINDING
        for value in op.results:
            self.redefined(value, op)
            self.define(value, op.span, op.name, whole=makes)
        if placement is not None:
            self.place(op, operand_facts)

    def instruction(self, op: Op, operand_facts: OperandFacts) -> None:
        """Check an instruction, and note what it overwrites."""
        diagnostics, overwritten = self.rules.check(op, operand_facts)
        self.sink.extend(diagnostics)
        bound = self.rules.resolved.of(op).bound
        if bound is not None:
            self.sink.extend(shared_bytes(op, bound, self.facts, self.rules.profile))
        if overwritten is not None:
            self.reserved.append(Reserved(*overwritten, op.name, op.span))

    def structure(self, op: Op, operand_facts: OperandFacts) -> None:
        """Check an operation that is no instruction."""
        if op.name.startswith("arith.") or op.name == CAST:
            self.sink.add(scalars.arith_finding(op) or scalars.sign_finding(op, lambda: self.names))
        elif op.name.startswith("scf."):
            self.sink.add(control_flow.control_finding(op, operand_facts.numbers))
            self.sink.add(scalars.sign_finding(op, lambda: self.names))
        elif op.name == GRAPH:
            self.sink.extend(control_flow.block_findings(op))
        elif op.name == "call":
            self.sink.extend(functions.call_findings(self.program, op))
        elif op.name == "return":
            self.sink.extend(functions.return_findings(self.program, self.function, op))
        elif structural_traits(op.name) is None:
            self.below(op, operand_facts)
        if opens_scope(op):
            self.scopes()

    def below(self, op: Op, operand_facts: OperandFacts) -> None:
        """Check a micro-operation; anything else has no declaration."""
        operation = isa.find_micro(op.name)
        if operation is None:
            self.sink.add(unsupported(op))
            return
        from . import micro

        self.scopes()
        self.sink.extend(micro.micro_findings(op, operation, self.rules.profile, operand_facts))

    def scopes(self) -> None:
        """Check the vector scopes of a function, once."""
        from . import micro

        if not self.below_tiles:
            self.below_tiles = True
            self.sink.extend(micro.scope_findings(self.function))

    def place(self, op: Op, operand_facts: OperandFacts) -> None:
        """Note where a tile lies, for what overlaps."""
        value, address = placed(op) or (None, None)
        if value is None or not isinstance(value.type, TileType):
            return
        t, start = value.type, operand_facts.number(address)
        if address is None:
            self.unplaced.append(Place(t.loc, 0, t.bytes, value.name, op.span, op.name))
        elif start is not None:
            self.places.append(Place(t.loc, start, start + t.bytes, value.name, op.span, op.name))

    def use(self, value: Value, op: Op) -> None:
        defined = self.types.get(value.name)
        if defined is value.type:
            return
        where = value.span or op.span
        if defined is None:
            self.error(f"{value} is not defined here", where, op.name, "defined")
        elif not functions.same_use(defined, value.type):
            self.error(f"{value} is used as {value.type} but defined as {defined}", where, op.name, "defined")

    def redefined(self, value: Value, op: Op) -> None:
        if value.name in self.types:
            self.error(
                f"{value} is defined twice; allowed: one definition per name", op.span, op.name, "defined"
            )


_DEVICE, _ARCH = "pto.device-spec", "pto.target_arch"


def target_findings(program: Program, profile: profiles.Profile) -> Iterator[Diagnostic]:
    """A warning for every architecture or device whose name nobody knows: another profile may be meant."""
    seen = [program.attributes, *program.children]
    yield from _misspelt(seen, program)
    for name, text in dict.fromkeys(pair for attributes in seen for pair in attributes):
        if name == _ARCH and not profiles.is_arch(text):
            allowed = ", ".join(sorted(a for p in profiles.PROFILES.values() for a in p.arch))
        elif name == _DEVICE and not profiles.is_device(text):
            allowed = f"names that begin with {', '.join(profiles.DEVICES)}"
        else:
            continue
        shown = f'"{text}"' if isinstance(text, str) else str(text)
        message = f"unknown {name} = {shown}, so that profile {profile.name} is used; allowed: {allowed}"
        yield Diagnostic("warning", message, rule="target")


#: Attributes of modules and functions that are read; others belong to other tools and say nothing here.
_READ = (*ENTRY_MARKS, _DEVICE, _ARCH, LANGUAGE_KEY, "pto.kernel_kind")


def _misspelt(modules: Iterable[Attrs], program: Program) -> Iterator[Diagnostic]:
    """A warning for an attribute whose name is nearly one that is read."""
    places: list[tuple[str, Span | None]] = [(name, None) for pairs in modules for name, _ in pairs]
    places += [(name, f.span) for f in program.functions for name, _ in f.attributes]
    for name, span in dict.fromkeys(places):
        if name not in _READ and (meant := get_close_matches(name, _READ, n=1, cutoff=0.85)):
            message = f"got the attribute {name}, which nothing reads"
            yield Diagnostic(
                "warning", message, span, rule="attribute", allowed=", ".join(_READ), fix=meant[0]
            )
