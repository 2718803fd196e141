"""Options of an execution, checked."""

from collections.abc import Sequence
from functools import lru_cache

from ..errors import ArgumentError
from ..lowering import Semantics
from ..profiles import Profile, profile as find_profile


def choices(profile: str | Profile, numerics: str, out_of_region: str | None, subnormals: str) -> Semantics:
    """Checked execution options; ``out_of_region`` defaults to the profile's fill."""
    try:
        return _checked(profile, numerics, out_of_region, subnormals)
    except TypeError:  # One of them has no hash, which its check says better.
        return _checked.__wrapped__(profile, numerics, out_of_region, subnormals)


@lru_cache(maxsize=64)
def _checked(profile: str | Profile, numerics: str, out_of_region: str | None, subnormals: str) -> Semantics:
    target = find_profile(profile)
    fill = out_of_region or target.out_of_region
    _choice("numerics", numerics, ("exact", "fast"))
    _choice("subnormals", subnormals, ("keep", "flush"))
    if fill == "poison":
        message = (
            "out_of_region: found 'poison', allowed: ones, backing; undefined lanes are followed by the "
            "sanitizer: pto-jax run --sanitize, pto_jax.sanitize"
        )
        raise ArgumentError(message)
    _choice("out_of_region", fill, ("ones", "backing"))
    return Semantics(target, numerics, fill, subnormals)  # type: ignore[arg-type]


def _choice(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ArgumentError(f"{name}: found {value!r}, allowed: {', '.join(allowed)}")
