"""Whether operations are legal, remembered: a generator asks the same questions again and again."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal, TypeAlias

from ..errors import VerifyError
from ..ir import Attrs, AttrValue, GlobalLayout, Op, TileType, Type, Value, attrs
from ..isa import find
from ..isa.check import check_op
from ..isa.rules.tile_legality import check_type
from ..isa.samples.operations import Sample
from ..profiles import Profile, ProfileName, profile as find_profile

#: ``doubtful``: legal, with a warning that may concern which lanes are read or written.
Verdict: TypeAlias = Literal["illegal", "doubtful", "clean"]
Sizes: TypeAlias = tuple[int, int]


def legal(profile: Profile, op: Op, constants: Mapping[str, int] | None = None) -> bool:
    """Whether an operation on the values of a program is legal, as far as types and constants show."""
    return judged(profile, op, constants) != "illegal"


def judged(
    profile: Profile,
    op: Op,
    constants: Mapping[str, int] | None = None,
    sizes: Mapping[str, Sizes] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    layouts: Mapping[str, GlobalLayout] | None = None,
) -> Verdict:
    """The verdict on an operation, by the types of its values: their names do not matter.

    What is known besides the types is given by name: integer values, valid sizes at execution, extents and
    layouts of views.
    """
    names: dict[str, str] = {}

    def plain(values: tuple[Value, ...]) -> tuple[tuple[str, Type], ...]:
        return tuple((names.setdefault(v.name, f"v{len(names)}"), v.type) for v in values)

    ins, outs, results = plain(op.ins), plain(op.outs), plain(op.results)
    numbers = tuple((names[n], k) for n, k in (constants or {}).items() if n in names)
    regions = tuple((names[n], s) for n, s in (sizes or {}).items() if n in names)
    views = tuple((names[n], s, (layouts or {}).get(n)) for n, s in (shapes or {}).items() if n in names)
    rest = (op.attributes, op.groups, numbers)
    verdict = _verdict(op.name, ins, outs, results, *rest, (), views, profile.name)
    if verdict == "illegal" or _told((*ins, *outs, *results), dict(regions)):
        return verdict
    return _worse(verdict, _verdict(op.name, ins, outs, results, *rest, regions, views, profile.name))


def suits(
    sample: Sample,
    types: Mapping[str, Type],
    attributes: Mapping[str, AttrValue],
    sizes: Mapping[str, Sizes],
    profile: Profile,
) -> Verdict:
    """The verdict on a sample with other types and attributes, and with valid sizes at execution."""
    instruction = sample.instruction
    ins = tuple((name, types[name]) for name in sample.form)
    outs = tuple((o.name, types[o.name]) for o in instruction.destinations if o.name in types)
    values = tuple((n, numbers[0]) for n, numbers in sample.constants.items() if numbers)
    name, rest = instruction.name, (attrs(attributes), (), values)
    verdict = _verdict(name, ins, outs, (), *rest, (), (), profile.name)
    if verdict == "illegal" or _told((*ins, *outs), sizes):
        return verdict
    return _worse(verdict, _verdict(name, ins, outs, (), *rest, tuple(sizes.items()), (), profile.name))


_Values: TypeAlias = tuple[tuple[str, Type], ...]


@lru_cache(maxsize=1 << 16)
def _verdict(  # noqa: PLR0913 - what the cache is keyed by
    name: str,
    ins: _Values,
    outs: _Values,
    results: _Values,
    attributes: Attrs,
    groups: tuple[tuple[str, int], ...],
    constants: tuple[tuple[str, int], ...],
    sizes: tuple[tuple[str, Sizes], ...],
    views: tuple[tuple[str, tuple[int, ...], GlobalLayout | None], ...],
    profile: ProfileName,
) -> Verdict:
    read, written, bound = (tuple(Value(n, t) for n, t in part) for part in (ins, outs, results))
    op = Op(name, read, written, bound, attributes, groups=groups)
    where, values = find_profile(profile), dict(constants)
    try:
        shapes: dict[str, tuple[int | None, ...]] = {n: dims for n, dims, _ in views}
        layouts = {n: layout for n, _, layout in views if layout is not None}
        findings = check_op(
            op, where, constants=values, shapes=shapes, layouts=layouts, valid=dict(sizes), types=False
        )
    except VerifyError:
        return "illegal"
    if any(d.severity == "error" for d in findings) or not all(
        _exists(v.type, profile) for v in (*read, *written, *bound)
    ):
        return "illegal"
    return "doubtful" if any(d.rule in _rules_on_lanes(name) for d in findings) else "clean"


@cache
def _rules_on_lanes(name: str) -> frozenset[str]:
    """The rules of an instruction that concern which lanes it reads."""
    instruction = find(name)
    constraints = instruction.constraints if instruction is not None else ()
    return frozenset(c.rule for c in constraints if c.on_lanes)


@lru_cache(maxsize=1 << 14)
def _exists(t: Type, profile: ProfileName) -> bool:
    """Whether a profile has a type."""
    return all(finding.severity != "error" for finding in check_type(t, find_profile(profile)))


def _told(types: Iterable[tuple[str, Type]], sizes: Mapping[str, Sizes]) -> bool:
    """Whether types say the valid sizes themselves."""
    return all(not isinstance(t, TileType) or sizes.get(n, t.valid) == t.valid for n, t in types)


def _worse(a: Verdict, b: Verdict) -> Verdict:
    return "illegal" if "illegal" in (a, b) else "doubtful" if "doubtful" in (a, b) else "clean"
