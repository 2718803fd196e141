"""Hardware profiles: what a target allows and what it leaves in lanes nobody wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal

from .errors import ArgumentError, nearest
from .ir import BLayout, DType, Loc, MaskType, Program, VRegType

ProfileName = Literal["cpu_sim", "a2a3", "a5"]
#: What a source lane outside its tile's valid region reads as: all-one bytes, the stored bytes,
#: or a lane the sanitizer tracks as undefined.
OutOfRegion = Literal["ones", "backing", "poison"]
Subnormals = Literal["keep", "flush"]
#: Keywords of ``pto.compile`` that a call of a kernel written in Python takes, too.
OPTIONS = (
    "profile",
    "numerics",
    "out_of_region",
    "subnormals",
    "checks",
    "max_steps",
    "grid",
    "partial_launch",
)

KIB = 1024
#: Addresses between the beginnings of the two parts that the memory of parameters has: quantisation, slopes.
PART = 64 * KIB


@dataclass(frozen=True, eq=False)
class Profile:
    """One target.

    ``capacity`` is in bytes per on-chip buffer (0: the buffer does not exist). ``ub_scratch`` is the
    byte range of the unified buffer that instructions without a ``tmp`` operand use themselves.

    >>> import pto_jax as pto
    >>> p = pto.profile("a2a3")
    >>> p.title, p.capacity[pto.tile_type("f32", 8, 8).loc]
    ('Ascend A2/A3', 196608)
    """

    name: ProfileName
    title: str
    capacity: Mapping[Loc, int]
    out_of_region: OutOfRegion
    fresh_tile: Literal["zero", "ones"]
    left_blayout: BLayout
    ub_scratch: tuple[int, int] | None
    fp8: Literal["yes", "warn", "no"]
    arch: tuple[str, ...]

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        if PROFILES.get(self.name) is self:
            return profile, (self.name,)
        values = (getattr(self, f.name) for f in fields(self))
        return Profile, tuple(dict(v) if isinstance(v, Mapping) else v for v in values)

    def end(self, loc: Loc, address: int) -> int:
        """Where the on-chip memory that an address is in ends: parameters have two, ``PART`` bytes apart.

        >>> [A5.end(Loc.SCALING, at) for at in (0, 65600)]
        [4096, 69632]
        """
        part = PART if loc == Loc.SCALING and PART <= address < 2 * PART else 0
        return part + self.capacity[loc]

    def has_dtype(self, d: DType) -> bool:
        """Whether tiles of the element type exist at all (the overview page's table)."""
        if d.name in _A5_ONLY:
            return self.name == "a5"
        if d.name in _EIGHT_BIT_AND_LESS:
            return self.fp8 != "no" or (d.name == "i4" and self.name == "a2a3")
        return True


_EIGHT_BIT_AND_LESS = frozenset({"f8e4m3", "f8e5m2", "hif8", "f8e8m0", "f4e2m1x2", "f4e1m2x2", "i4"})
_A5_ONLY = frozenset({"f4e2m1_pair", "f4e1m2_pair"})


def _capacity(vec: int, acc: int, bias: int, scaling: int, scale: int) -> Mapping[Loc, int]:
    return MappingProxyType(
        {
            Loc.VEC: vec * KIB,
            Loc.MAT: 512 * KIB,
            Loc.LEFT: 64 * KIB,
            Loc.RIGHT: 64 * KIB,
            Loc.ACC: acc * KIB,
            Loc.BIAS: bias * KIB,
            Loc.SCALING: scaling * KIB,
            Loc.SCALELEFT: scale * KIB,
            Loc.SCALERIGHT: scale * KIB,
            Loc.CTRL: 0,
        }
    )


CPU_SIM = Profile(
    "cpu_sim",
    "CPU simulator",
    _capacity(vec=512, acc=256, bias=512, scaling=512, scale=4),
    out_of_region="backing",
    fresh_tile="zero",
    left_blayout=BLayout.COL_MAJOR,
    ub_scratch=None,
    fp8="warn",
    arch=("cpu_sim", "cpu"),
)
A2A3 = Profile(
    "a2a3",
    "Ascend A2/A3",
    _capacity(vec=192, acc=128, bias=1, scaling=2, scale=0),
    out_of_region="ones",
    fresh_tile="ones",
    left_blayout=BLayout.ROW_MAJOR,
    ub_scratch=(188416, 196608),
    fp8="no",
    arch=("a3", "a2a3", "a2"),
)
A5 = Profile(
    "a5",
    "Ascend A5",
    _capacity(vec=256, acc=256, bias=4, scaling=4, scale=4),
    out_of_region="ones",
    fresh_tile="ones",
    left_blayout=BLayout.COL_MAJOR,
    ub_scratch=None,
    fp8="yes",
    arch=("a5",),
)
PROFILES: Mapping[str, Profile] = MappingProxyType({p.name: p for p in (CPU_SIM, A2A3, A5)})
PROFILE_NAMES: tuple[ProfileName, ...] = ("cpu_sim", "a2a3", "a5")


def profile(name: str | Profile) -> Profile:
    """The profile called ``name``; ArgumentError for a name that is none.

    >>> profile("a5").out_of_region
    'ones'
    """
    if isinstance(name, Profile):
        return name
    selected = PROFILES.get(name) if isinstance(name, str) else None
    if selected is None:
        names = [p.name for p in PROFILES.values() if _lower(name) in p.arch]
        chips = [p for word, p in _CHIPS.items() if word in str(name).lower()]
        close = nearest(name, PROFILES) or next(iter([*names, *chips]), "")
        fix = f'profile="{close}"' if close else ""
        raise ArgumentError(f"unknown profile {name!r}", allowed=", ".join(PROFILES), fix=fix)
    return selected


#: Names of chips by their profile.
_CHIPS = {"950": "a5", "910_95": "a5", "910": "a2a3", "a2": "a2a3"}
#: What the assembler's option for the architecture may be.
ARCHITECTURES = ("a2", "a3", "a5")
#: Devices of A5, by the beginning of their names, and all devices.
_A5_DEVICES = ("Ascend950", "Ascend910_95")
DEVICES = ("Ascend910B", "Ascend910_93", *_A5_DEVICES)


def profile_of_program(program: Program, arch: object = None) -> Profile:
    """The profile of a program for an architecture, by default that of its ``pto.target_arch``.

    A ``pto.device-spec`` that names a device of A5 decides alone, as in the assembler. Registers exist on a5
    only, so that a program with registers that names no architecture is one of a5.

    >>> profile_of_program(Program((), (("pto.device-spec", "Ascend950"),)), "a3").name
    'a5'
    """
    device = program.setting("pto.device-spec")
    if isinstance(device, str) and device.startswith(_A5_DEVICES):
        return A5
    arch = program.setting("pto.target_arch") if arch is None else arch
    return A5 if arch is None and _has_registers(program) else profile_of_arch(arch)


def _has_registers(program: Program) -> bool:
    values = (v for op in program.walk() for v in op.results)
    return any(isinstance(v.type, VRegType | MaskType) for v in values)


def profile_of_arch(arch: object) -> Profile:
    """The profile a program's ``pto.target_arch`` selects; an unknown one counts as a2a3.

    The case of letters does not matter (``isA5ModuleTarget`` in PTO.cpp).
    """
    return next((p for p in PROFILES.values() if _lower(arch) in p.arch), A2A3)


def is_arch(arch: object) -> bool:
    """Whether an architecture selects a profile.

    >>> is_arch("A5"), is_arch("a6")
    (True, False)
    """
    return any(_lower(arch) in p.arch for p in PROFILES.values())


def is_device(device: object) -> bool:
    """Whether a ``pto.device-spec`` names a device of some profile."""
    return isinstance(device, str) and device.startswith(DEVICES)


def _lower(arch: object) -> object:
    return arch.lower() if isinstance(arch, str) else arch
