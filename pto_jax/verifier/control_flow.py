"""Structured control flow: regions, the types they are entered and left with, and where regions end."""

from collections.abc import Iterator, Mapping, Sequence

from ..errors import Diagnostic
from ..ir import I1, INDEX, Op, Region, ScalarType, TileType, Type, UnknownType, Value
from ..isa import effects, traits
from . import functions

_I1, _INDEX = ScalarType(I1), ScalarType(INDEX)


def control_finding(op: Op, constants: Mapping[str, int]) -> Diagnostic | None:
    """What is wrong with an operation of the scf dialect; its regions are the operation's own."""
    finding = next(_findings(op, constants), None)
    if finding is None:
        return None
    rule, message, at = finding
    return Diagnostic("error", message, (at.span if at is not None else None) or op.span, op.name, rule=rule)


def end_finding(region: Region, parent: Op | None) -> Diagnostic | None:
    """A terminator where no region ends, or another one than the parent needs."""
    regions = effects.traits_of(parent).regions if parent is not None else None
    if regions is not None and regions.runs == "graph":
        return _block_end(region, regions.ends, parent)
    allowed = _terminator(region, parent)
    for i, op in enumerate(region.ops):
        if not effects.traits_of(op).terminator:
            continue
        where = parent.name if parent is not None else "a function"
        if op.name != allowed:
            message = f"in {where}; allowed there: {allowed or 'no terminator'}"
        elif i + 1 < len(region.ops):
            message = f"before the end of {where}; allowed: as the last operation"
        else:
            continue
        return op.error("terminator", message)
    return None


def _block_end(region: Region, allowed: Sequence[str], parent: Op | None) -> Diagnostic | None:
    """A block ends with a branch or a return, and has no other one."""
    last = region.ops[-1] if region.ops else None
    wrong = next((op for op in region.ops[:-1] if effects.traits_of(op).terminator), None)
    if wrong is None and last is not None and last.name in allowed:
        return None
    place = wrong or last or parent
    message = f"a block that does not end with {' or '.join(allowed)}"
    name = place.name if place is not None else None
    return Diagnostic("error", message, place.span if place is not None else None, name, rule="terminator")


def block_findings(graph: Op) -> Iterator[Diagnostic]:
    """Branches hand the blocks that they lead to what these take."""
    labels = graph.attrs.get("labels")
    blocks = dict(zip(labels if isinstance(labels, tuple) else (), graph.regions, strict=False))
    for op in (op for region in graph.regions for op in region.ops[-1:]):
        targets = op.attrs.get("targets")
        for i, label in enumerate(targets if isinstance(targets, tuple) else ()):
            block = blocks.get(label)
            types = [v.type for v in op.group(f"to{i}")]
            expected = [a.type for a in block.args] if block is not None else []
            if block is None or len(types) != len(expected) or not all(map(fits, types, expected)):
                message = f"^{label} is given {_listed(types)}; allowed: {_listed(expected)}"
                yield op.error("branch", message)


def _terminator(region: Region, parent: Op | None) -> str:
    if parent is None:
        return traits.FUNCTION_END
    regions = effects.traits_of(parent).regions
    at = next((i for i, own in enumerate(parent.regions) if own is region), 0)
    return regions.end(at) if regions is not None else ""


_Found = tuple[str, str, Op | Value | None]


def _findings(op: Op, constants: Mapping[str, int]) -> Iterator[_Found]:
    match op.name:
        case "scf.for":
            yield from _for(op, constants)
        case "scf.if":
            yield from _if(op)
        case "scf.while":
            yield from _while(op)
        case "scf.execute_region":
            yield from _regions(op, 1)
            yield from _yielded(op, op.regions[:1], [v.type for v in op.results], "results")
        case "scf.index_switch":
            yield from _switch(op)
        case "scf.yield":
            return
        case "scf.condition":
            if not op.ins or not fits(op.ins[0].type, _I1):
                got = f"{op.ins[0]} is {op.ins[0].type}" if op.ins else "no condition"
                yield "condition", f"{got}; allowed: i1 first", op
        case _:
            yield (
                "supported",
                "is not supported by this version; of scf it has for, if, while, execute_region, "
                "index_switch",
                None,
            )


def fits(actual: Type, expected: Type) -> bool:
    """Whether a value may be handed over as one of the wanted type."""
    if isinstance(actual, UnknownType) or isinstance(expected, UnknownType):
        return True
    if isinstance(actual, TileType) and isinstance(expected, TileType):
        return functions.same_use(expected, actual) and actual.valid == expected.valid
    return actual == expected


def _regions(op: Op, count: int) -> Iterator[_Found]:
    if len(op.regions) != count:
        yield "regions", f"{len(op.regions)} region(s); allowed: {count}", None


def _listed(types: Sequence[Type]) -> str:
    return "(" + ", ".join(str(t) for t in types) + ")"


def _agree(actual: Sequence[Type], expected: Sequence[Type], what: str, at: Op | None) -> Iterator[_Found]:
    if len(actual) != len(expected) or not all(map(fits, actual, expected)):
        yield "carried-types", f"{what}: got {_listed(actual)}; allowed: {_listed(expected)}", at


def _yielded(
    op: Op, regions: Sequence[Region], expected: Sequence[Type], what: str, name: str = "scf.yield"
) -> Iterator[_Found]:
    """Every region ends with a terminator that hands over the wanted types."""
    for region in regions:
        end = region.ops[-1] if region.ops and region.ops[-1].name == name else None
        if end is None:
            if expected or name != "scf.yield":
                yield (
                    "terminator",
                    f"a region does not end with {name}; allowed: {name} of {_listed(expected)}",
                    None,
                )
            continue
        types = [v.type for v in (end.ins if name == "scf.yield" else end.ins[1:])]
        yield from _agree(types, expected, f"{name} for the {what}", end)


def _for(op: Op, constants: Mapping[str, int]) -> Iterator[_Found]:
    yield from _regions(op, 1)
    bounds = [v for group in ("lb", "ub", "step") for v in op.group(group)]
    if len(bounds) != 3:
        yield "bounds", f"{len(bounds)} bounds; allowed: lower bound, upper bound and step", None
        return
    for v in bounds:
        t = v.type
        whole = isinstance(t, ScalarType) and (t.dtype.is_integer or t.dtype == INDEX)
        if not whole and not isinstance(t, UnknownType):
            yield "bounds", f"{v} is {t}; allowed: index or an integer", v
        elif not fits(t, bounds[0].type):
            yield "bounds", f"{v} is {t}, {bounds[0]} is {bounds[0].type}; allowed: one type", v
    step = constants.get(bounds[2].name)
    if step is not None and step <= 0:
        yield "step", f"step {step}; allowed: 1 or more", bounds[2]
    inits, args = op.group("inits"), op.regions[0].args
    types = [v.type for v in inits]
    yield from _agree([a.type for a in args], [bounds[0].type, *types], "counter and carried values", None)
    yield from _agree([v.type for v in op.results], types, "results", None)
    yield from _yielded(op, op.regions, types, "carried values")


def _condition(op: Op, expected: Type, nothing: str) -> Iterator[_Found]:
    """The only operand decides which region is executed."""
    if len(op.ins) != 1 or not fits(op.ins[0].type, expected):
        got = f"{op.ins[0]} is {op.ins[0].type}" if op.ins else nothing
        yield "condition", f"{got}; allowed: {expected}", op.ins[0] if op.ins else None


def _if(op: Op) -> Iterator[_Found]:
    yield from _condition(op, _I1, "no condition")
    least = 2 if op.results else 1
    if not least <= len(op.regions) <= 2:
        needs = "both branches, as there are results" if op.results else "one or two branches"
        yield "regions", f"{len(op.regions)} region(s); allowed: {needs}", None
        return
    yield from _yielded(op, op.regions, [v.type for v in op.results], "results")


def _while(op: Op) -> Iterator[_Found]:
    yield from _regions(op, 2)
    if len(op.regions) != 2:
        return
    before, after = op.regions
    inits, results = [v.type for v in op.ins], [v.type for v in op.results]
    yield from _agree([a.type for a in before.args], inits, "arguments of the first region", None)
    yield from _yielded(op, (before,), results, "results", "scf.condition")
    yield from _agree([a.type for a in after.args], results, "arguments of the second region", None)
    yield from _yielded(op, (after,), inits, "carried values")


def _switch(op: Op) -> Iterator[_Found]:
    yield from _condition(op, _INDEX, "no operand")
    cases = op.attrs.get("cases")
    numbers = cases if isinstance(cases, tuple) else ()
    if len(set(numbers)) != len(numbers):
        yield "cases", f"cases {', '.join(map(str, numbers))}; allowed: every number once", None
    if len(op.regions) != len(numbers) + 1:
        got = f"{len(op.regions)} region(s) for {len(numbers)} case(s)"
        yield "regions", f"{got}; allowed: one for each case, and the default", None
    yield from _yielded(op, op.regions, [v.type for v in op.results], "results")
