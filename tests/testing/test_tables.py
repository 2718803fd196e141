"""A walked table fails for the rows that fail, and names them."""

from __future__ import annotations

import pytest

from tests.tables import every


def test_a_walk_names_the_rows_that_fail_and_takes_stacked_tables() -> None:
    seen = []

    @every("n", [1, 2])
    @every(("a", "b"), [("x", 1), pytest.param("y", 2)])
    def test(n: int, a: str, b: int) -> None:
        seen.append((n, a, b))
        assert n != b

    with pytest.raises(AssertionError, match=r"(?s)x 1.*y 2"):
        test()
    assert seen == [(1, "x", 1), (1, "y", 2), (2, "x", 1), (2, "y", 2)]


def test_an_empty_table_is_a_failure() -> None:
    with pytest.raises(AssertionError):
        every("n", [])(lambda n: None)()
