"""The recorded list of constructs is that of the public programs; PTO_CORPUS names a checkout."""

from __future__ import annotations

import pytest

from tests.corpus.launches import FILES, NO_CORPUS, ROOT
from tests.corpus.recording import corpus_constructs
from tests.corpus.test_verify import TOTAL
from tests.programs.constructs import recorded

pytestmark = pytest.mark.skipif(not ROOT, reason=NO_CORPUS)


def test_the_recorded_constructs_are_those_of_the_checkout() -> None:
    """``python -m tests.corpus.recording`` prints the list anew."""
    if len(FILES) != TOTAL:
        pytest.skip(f"the checkout has {len(FILES)} programs, not {TOTAL}")
    for status, constructs in zip(("executed", "read"), corpus_constructs(), strict=True):
        assert sorted(constructs ^ recorded(status)) == [], status
