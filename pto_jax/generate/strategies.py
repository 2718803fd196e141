"""Hypothesis strategies for programs and values; the extra ``testing`` installs Hypothesis.

The strategies drive the generator of :mod:`.programs` with Hypothesis' own source of randomness, so that
failing programs shrink.

>>> from hypothesis import HealthCheck, given, settings
>>> slow = [HealthCheck.too_slow]
>>> @settings(max_examples=3, database=None, deadline=None, suppress_health_check=slow)
... @given(cases(Options(statements=3)))
... def programs_have_names_for_their_results(case):
...     assert case.program.fragment_results
>>> programs_have_names_for_their_results()
"""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from numpy.typing import NDArray

from ..ir import TILE_DTYPES, DType, Program, TileType, dtype
from ..lowering.bits import x64
from ..profiles import PROFILE_NAMES, ProfileName
from ..runtime.tiles import Tile
from .options import IN_TURN, PRESETS, STRAIGHT, Options
from .programs import Case, draw
from .selection import select
from .values import RECIPES, Recipe, words

_SEEDS = st.integers(0, (1 << 32) - 1)


def cases(given: Options | None = None) -> st.SearchStrategy[Case]:
    """Programs that their profile allows, with inputs; of the options given, else of any preset."""
    chosen = st.just(given) if given is not None else st.sampled_from([PRESETS[name] for name in IN_TURN])
    drawn = chosen.map(lambda options: replace(options, turns=0))
    return st.builds(draw, st.randoms(use_true_random=False), drawn)


def programs(given: Options | None = None) -> st.SearchStrategy[Program]:
    """Programs that some profile allows."""
    return cases(given).map(lambda case: case.program)


def instructions(name: str, options: Options = STRAIGHT) -> st.SearchStrategy[Case]:
    """Programs with one instruction by name, on the profiles that have it.

    What fills its tiles may stand before it.
    """
    one = replace(options, only=frozenset((name,)), statements=1, control=0.0, calls=0.0, aliasing=0.0)
    one = replace(one, scalars=0.0, memory=0.0, cores=0.0, output=0.0)
    having = tuple(p for p in options.profiles if name in select(p, one).names)
    if not having:
        raise InvalidArgument(f"instructions({name!r}): no profile of {options.profiles} generates it")
    return cases(replace(one, profiles=having)).filter(
        lambda c: any(o.name == name for o in c.program.walk())
    )


def profiles() -> st.SearchStrategy[ProfileName]:
    """Names of hardware profiles."""
    return st.sampled_from(PROFILE_NAMES)


def values(
    d: DType | str, shape: tuple[int, ...] = (1,), recipes: tuple[Recipe, ...] = RECIPES
) -> st.SearchStrategy[NDArray[Any]]:
    """Raw words of an element type, one per element, by one of the recipes for values."""
    chosen = dtype(d) if isinstance(d, str) else d

    def made(seed: int, recipe: Recipe) -> NDArray[Any]:
        return words(np.random.default_rng(seed), chosen, shape, recipe)

    return st.builds(made, _SEEDS, st.sampled_from(recipes))


@st.composite
def tiles(draw: st.DrawFn, t: TileType | None = None, recipes: tuple[Recipe, ...] = RECIPES) -> Tile:
    """Tiles with valid regions: of the type given, else of any element type and some shape."""
    if t is None:
        d = draw(st.sampled_from([d for d in TILE_DTYPES if not d.packed]))
        block = 32 // (d.storage_bits // 8)
        rows, cols = draw(st.sampled_from((1, 4, 8, 16))), block * draw(st.sampled_from((1, 2)))
        t = TileType(d, rows, cols, None, None)
    sizes = [
        jnp.int32(draw(st.integers(0, extent))) if static is None else None
        for static, extent in zip(t.valid, t.shape, strict=True)
    ]
    words = draw(values(t.dtype, t.shape, recipes))
    with x64():
        return Tile(jnp.asarray(words), sizes[0], sizes[1], t)
