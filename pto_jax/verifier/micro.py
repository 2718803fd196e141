"""Rules on micro-operations: types, patterns, scopes, and the use of align states."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from ..analysis.facts import OperandFacts
from ..analysis.scopes import is_physical
from ..errors import Diagnostic
from ..ir import (
    AddressSpace,
    AlignType,
    Function,
    MaskType,
    MemRefType,
    Op,
    PtrType,
    Region,
    ScalarType,
    TileType,
    Type,
    Value,
    VRegType,
)
from ..isa import find_micro
from ..isa.effects import aliased, traits_of
from ..isa.micro import MicroOperation, opens_scope
from ..isa.rules.logical import mask_objection
from ..isa.rules.micro_types import fits_lanes, lane_scalar
from ..profiles import Profile

#: On-chip memories as types of pointers name them.
SPACES = {
    "ub": AddressSpace.VEC,
    "l1": AddressSpace.MAT,
    "l0a": AddressSpace.LEFT,
    "l0b": AddressSpace.RIGHT,
    "l0c": AddressSpace.ACC,
    "bt": AddressSpace.BIAS,
    "fb": AddressSpace.SCALING,
}


def micro_findings(
    op: Op, declared: MicroOperation, profile: Profile, facts: OperandFacts
) -> Iterator[Diagnostic]:
    """What is wrong with a micro-operation by itself.

    Its own rules read types and words that are as declared, so they follow where nothing else is wrong.
    """
    if profile.name != "a5":
        message = f"the profile {profile.name} has no micro-operations; allowed: a5"
        yield op.error("profile", message)
        return
    basic = [*_type_findings(op, declared), *_choice_findings(op, declared)]
    yield from basic
    for rule in () if basic else declared.rules:
        yield from (op.error("rule", message) for message in rule(op))
    yield from _number_findings(op, declared, facts)


def _number_findings(op: Op, declared: MicroOperation, facts: OperandFacts) -> Iterator[Diagnostic]:
    """Numbers beyond their limits, and what else is wrong with numbers."""
    values = declared.values(op)
    numbers = {name: facts.number(value) for name, value in values.items()}
    for name, value in values.items():
        number = numbers[name]
        low, high = declared.limits.get(name, (None, None))
        if number is not None and low is not None and high is not None and not low <= number <= high:
            yield op.error("types", f"{name} is {number}; allowed: {low} to {high}", value)
    if declared.number_rules is not None:
        messages = declared.number_rules(declared.call(op), numbers)
        yield from (op.error("rule", f"got {message}") for message in messages)


def _type_findings(op: Op, declared: MicroOperation) -> Iterator[Diagnostic]:
    """Operands and results of other numbers or types than declared."""
    needed = [w for w in declared.words[1] if not w.endswith("?")]
    if not len(needed) <= len(op.results) <= len(declared.words[1]):
        allowed = ", ".join(declared.results) or "none"
        message = f"has {len(op.results)} result(s); allowed: {len(needed)} ({allowed})"
        yield op.error("results", message)
    expected = declared.types.replace("->", " ").split()
    names = [w.strip('"') for w in declared.names]
    values = {**declared.values(op), **dict(zip(declared.results, op.results, strict=False))}
    bound: dict[str, VRegType] = {}
    for name, word in zip(names, expected, strict=True):
        if name not in values:
            continue
        allowed = _objection(values[name].type, word, declared, bound)
        if allowed:
            message = f"{name} is {_shown(values[name].type)}; allowed: {allowed}"
            yield op.error("types", message, values[name])
    if declared.updated(op) and declared.places:
        pointer, moved = values[declared.places[0].pointer], op.results[-1]
        if moved.type != pointer.type:
            yield op.error("types", f"{moved} is {moved.type}; allowed: {pointer.type}, as {pointer}", moved)


def _choice_findings(op: Op, declared: MicroOperation) -> Iterator[Diagnostic]:
    """Attributes with other values than those they may have, and names that look like theirs."""
    names = (*declared.choices, *declared.clauses, *declared.flags)
    for name in op.attrs:
        meant = get_close_matches(name, names, 1)
        if meant and name not in names:
            message = f"got the attribute {name}; allowed: {', '.join(names)}"
            yield op.error("choices", f"{message}; did you mean {meant[0]}?")
    for name in declared.flags:
        if op.attrs.get(name) not in (None, True, False):
            yield op.error("choices", f"got {name} = {op.attrs[name]}; allowed: true, false")
    for name, allowed_words in (*declared.choices.items(), *declared.clauses.items()):
        word = op.attrs.get(name)
        if word is not None and word not in allowed_words:
            message = f'got {name} = "{word}"; allowed: {", ".join(allowed_words)}'
            yield op.error("choices", message)


def _shown(t: Type) -> str:
    """A type as messages have it; pointers with what they point into."""
    return t.with_space if isinstance(t, PtrType) else str(t)


def _objection(t: Type, word: str, declared: MicroOperation, bound: dict[str, VRegType]) -> str:
    """What is allowed in place of a type, "" where it fits the word of a signature."""
    match word[0]:
        case "-":
            return ""
        case "p" | "g":
            return _pointer(t, word, bound)
        case "@":
            fits = isinstance(t, PtrType | MemRefType) and t.space == SPACES[word[1:]]
            return "" if fits else f"a pointer into {word[1:]}"
        case "M" | "m":
            return _mask(t, word, bound, declared.is_logical)
        case "a":
            return "" if isinstance(t, AlignType) else "!pto.align"
        case "x":
            return "" if isinstance(t, ScalarType) and t.dtype.kind == "index" else "an index"
        case "n":
            integer = isinstance(t, ScalarType) and (t.dtype.is_integer or t.dtype.kind == "index")
            return "" if integer else "an integer or an index"
        case "s":
            return _scalar(t, bound.get(word[1:]))
        case letter if letter.isupper():
            return _register(t, word, declared.elements.get(word, ()), bound, declared.is_logical)
        case _:
            return "" if isinstance(t, ScalarType) and t.dtype.name in (word, f"u{word[1:]}") else word


def _register(
    t: Type, letter: str, elements: tuple[str, ...], bound: dict[str, VRegType], logical: bool
) -> str:
    if not isinstance(t, VRegType) or t.logical != logical:
        return "a register, as in " + ("!pto.vmi.vreg<64xf32>" if logical else "!pto.vreg<64xf32>")
    first = bound.setdefault(letter, t)
    if (first.dtype, first.lanes) != (t.dtype, t.lanes):
        return str(first)
    signed = f"s{t.dtype.name}" in elements and not t.signless
    if elements and t.dtype.name not in elements and not signed:
        return f"elements {', '.join(elements)}"
    return ""


def _mask(t: Type, word: str, bound: Mapping[str, VRegType], logical: bool) -> str:
    if not isinstance(t, MaskType) or t.logical != logical:
        return "a mask, as in " + ("!pto.vmi.mask<64xpred>" if logical else "!pto.mask<b32>")
    if word[0] == "m":
        return "" if logical or len(word) == 1 or t.bits == int(word[1:]) else f"!pto.mask<b{word[1:]}>"
    register = bound.get(word[1:]) or next(iter(bound.values()), None)
    if register is None:
        return ""
    if logical:
        return mask_objection(t, register)
    bits = min(32, register.dtype.word_bits)
    return "" if t.bits == bits else f"!pto.mask<b{bits}>, for elements of {register.dtype}"


def _pointer(t: Type, word: str, bound: Mapping[str, VRegType]) -> str:
    local = word[0] == "p"
    space = AddressSpace.VEC if local else AddressSpace.GM
    if isinstance(t, MemRefType):
        return ""
    if not isinstance(t, PtrType) or t.space != space:
        return "a pointer into ub" if local else "a pointer into gm"
    register = bound.get(word[1:])
    if register is not None and register.dtype != t.dtype:
        return f"a pointer to {register.dtype}"
    return ""


def _scalar(t: Type, register: VRegType | None) -> str:
    if not isinstance(t, ScalarType):
        return "a scalar"
    return "" if register is None or fits_lanes(t.dtype, register) else lane_scalar(register)


# -- scopes ------------------------------------------------------------------------------------------------


def scope_findings(function: Function) -> Iterator[Diagnostic]:
    """Registers outside a vector scope, scopes in each other, tile instructions inside, captured values."""
    yield from _scopes(function.body, inside=False)
    for op in function.walk():
        if op.name == "strict_vecscope":
            yield from _captures(op)
            yield from _handed_in(op)
    yield from _align_findings(function)
    yield from _immediate_findings(function)


def _scopes(region: Region, inside: bool) -> Iterator[Diagnostic]:
    for op in region.ops:
        opens = opens_scope(op)
        if opens and inside:
            yield op.error("scope", "a vector scope in another one; allowed: scopes one after the other")
        state = next((v for v in (*op.ins, *op.results) if is_physical(v.type)), None)
        if state is not None and not inside and not opens:
            got = f"{state} is {state.type} outside a vector scope, and no scope can hold all that uses it"
            allowed = "in one pto.vecscope, or without a barrier, transfer or call in between"
            yield op.error("scope", f"{got}; allowed: {allowed}", state)
        tiles = any(isinstance(v.type, TileType) for v in (*op.ins, *op.outs, *op.results))
        if inside and tiles and aliased(op) is None:
            yield op.error("scope", "a tile operation in a vector scope; allowed: before or behind it")
        operation = find_micro(op.name)
        outside = operation is not None and operation.between_scopes
        if inside and (outside or _synchronises(op)):
            yield op.error("scope", "stands in a vector scope; allowed: before or behind it")
        for inner in op.regions:
            yield from _scopes(inner, inside or opens)


def _synchronises(op: Op) -> bool:
    """Whether an operation orders pipes, cores or caches; the assembler has those between scopes only."""
    order = traits_of(op).order
    return order is not None and (order.through != "operation" or find_micro(op.name) is None)


def _handed_in(scope: Op) -> Iterator[Diagnostic]:
    """The arguments of a strict scope have the types of what it captures."""
    for argument, value in zip(scope.regions[0].args, scope.ins, strict=False):
        if argument.type != value.type:
            message = f"{argument} is {_shown(argument.type)}; allowed: {_shown(value.type)}, as {value}"
            yield scope.error("scope", message, argument)


def _captures(scope: Op) -> Iterator[Diagnostic]:
    """A strict scope sees nothing from around it."""
    region = scope.regions[0]
    defined = {v.name for v in region.args}
    for op in region.ops:
        for inner in op.walk():
            defined.update(v.name for v in inner.results)
            defined.update(v.name for r in inner.regions for v in r.args)
    for inner in (inner for op in region.ops for inner in op.walk()):
        for value in inner.ins:
            if value.name not in defined:
                message = (
                    f"{value} is used in a strict scope that does not capture it; allowed: captured values"
                )
                yield inner.error("scope", message, value)


def _immediate_findings(function: Function) -> Iterator[Diagnostic]:
    """Operands that have to be numbers of the text."""
    constants = {op.results[0].name for op in function.walk() if op.name == "arith.constant"}
    for op in function.walk():
        operation = find_micro(op.name)
        value = operation.values(op).get(operation.immediate) if operation is not None else None
        if operation is not None and value is not None and value.name not in constants:
            message = f"{operation.immediate} is {value}; allowed: an arith.constant"
            yield op.error("types", message, value)


# -- streams -----------------------------------------------------------------------------------------------

#: What the state of a stream is called by the word of a signature, and what begins one.
_STREAMS = {"al": ("loads", "pto.vldas"), "as": ("stores", "pto.init_align")}


def _align_findings(function: Function) -> Iterator[Diagnostic]:
    """An align state is handed on: nothing uses it twice, loops carry it, and streams are not mixed."""
    yield from _Streams().walk(function.body)


@dataclass
class _Streams:
    """The states of a function by name: of which stream each is, where it is used, and in which loop made."""

    kinds: dict[str, str] = field(default_factory=dict)
    used: dict[str, tuple[Op, tuple[Region, ...]]] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    path: tuple[Region, ...] = ()
    loops: int = 0

    def walk(self, region: Region) -> Iterator[Diagnostic]:
        """The operations of a region and of those inside it."""
        outside, self.path = self.path, (*self.path, region)
        for op in region.ops:
            yield from self._uses(op)
            loop = op.name == "scf.for"
            inits = [v for n, v in _groups(op) if n == "inits"]
            self.loops += loop
            for inner in op.regions:
                self._note(inner.args[1:] if loop else (), inits)
                yield from self.walk(inner)
            self.loops -= loop
            self._note(op.results, inits if loop else _yielded(op))
            operation = find_micro(op.name)
            if operation is not None:
                words = dict(zip(operation.results, operation.types.partition("->")[2].split(), strict=False))
                for name, value in zip(operation.results, op.results, strict=False):
                    self._add(value, words[name])
        self.path = outside

    def _note(self, values: Sequence[Value], of: Sequence[Value]) -> None:
        """Values that go on with the streams of others."""
        for value, before in zip(values, of, strict=False):
            self._add(value, self.kinds.get(before.name, ""))

    def _add(self, value: Value, kind: str) -> None:
        if isinstance(value.type, AlignType):
            self.kinds[value.name], self.made[value.name] = kind, self.loops

    def _uses(self, op: Op) -> Iterator[Diagnostic]:
        operation = find_micro(op.name)
        words = dict(zip(operation.operands, operation.types.split(), strict=False)) if operation else {}
        names = {v.name: n for n, v in operation.values(op).items()} if operation else {}
        for value in op.ins:
            if not isinstance(value.type, AlignType):
                continue
            first, path = self.used.setdefault(value.name, (op, self.path))
            if first is not op and not _apart(path, self.path):
                line = first.span.line if first.span else 0
                message = f"{value} is used a second time (first on line {line}); allowed: the state after it"
                yield op.error("align", message, value)
            elif self.made.get(value.name, self.loops) < self.loops:
                message = f"{value} comes from outside the loop; allowed: a state that the loop carries"
                yield op.error("align", f"{message} (iter_args)", value)
            expected = words.get(names.get(value.name, ""), "")
            kind = self.kinds.get(value.name, "")
            if kind and expected in _STREAMS and kind != expected:
                (is_of, _), (needs, begin) = _STREAMS[kind], _STREAMS[expected]
                message = f"{value} is the state of {is_of}; allowed: that of {needs}, which {begin} begins"
                yield op.error("align", message, value)


def _groups(op: Op) -> Iterator[tuple[str, Value]]:
    """The operands of an operation with the names of their groups."""
    for name, size in op.groups:
        yield from ((name, v) for v in op.group(name)[:size])


def _yielded(op: Op) -> tuple[Value, ...]:
    """What the first region of an operation hands on."""
    ops = op.regions[0].ops if op.regions else ()
    return ops[-1].ins if ops and ops[-1].name == "scf.yield" else ()


def _apart(first: Sequence[Region], second: Sequence[Region]) -> bool:
    """Whether two places are in different arms of a branch: at most one of them is executed."""
    depth = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a is not b), None)
    if not depth:
        return False
    branch = next((op for op in first[depth - 1].ops if any(r is first[depth] for r in op.regions)), None)
    return branch is not None and branch.name == "scf.if" and any(r is second[depth] for r in branch.regions)
