"""Hypothesis strategies for generated programs; the extra ``testing`` installs Hypothesis.

The strategies drive the generator of :mod:`.generate` with Hypothesis' own source of randomness, so that
failing programs shrink.

>>> from hypothesis import given, settings
>>> @settings(max_examples=3, database=None)
... @given(cases(Options(statements=3)))
... def programs_have_names_for_their_results(case):
...     assert case.program.fragment_results
>>> programs_have_names_for_their_results()
"""

from __future__ import annotations

from hypothesis import strategies as st

from ..ir import Program
from ..profiles import PROFILE_NAMES, ProfileName
from .generate import Case, draw
from .generate_options import PRESETS, Options


def cases(given: Options | None = None) -> st.SearchStrategy[Case]:
    """Programs that their profile allows, with inputs; of the options given, else of any preset."""
    chosen = st.just(given) if given is not None else st.sampled_from(list(PRESETS.values()))
    return st.builds(draw, st.randoms(use_true_random=False), chosen)


def programs(given: Options | None = None) -> st.SearchStrategy[Program]:
    """Programs that some profile allows."""
    return cases(given).map(lambda case: case.program)


def profiles() -> st.SearchStrategy[ProfileName]:
    """Names of hardware profiles."""
    return st.sampled_from(PROFILE_NAMES)
