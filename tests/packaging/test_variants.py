"""Which variants of a test are of every run, and walks over tables."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.conftest import pytest_collection_modifyitems
from tests.tables import every


class _Item:
    def __init__(self, name: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = name
        self.marks = list(marks)
        self.extra_keyword_matches = set[str]()

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((m.mark for m in self.marks if m.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark)


def _collected(items: list[_Item], keyword: str = "") -> list[bool]:
    """Which tests are slow, where ``-k`` has a keyword."""
    config = SimpleNamespace(option=SimpleNamespace(keyword=keyword))
    pytest_collection_modifyitems(cast("Any", config), cast("list[Any]", items))
    return [bool(item.get_closest_marker("slow")) for item in items]


@pytest.mark.parametrize(
    ("count", "total", "kept"), [(1, 4, [0]), (2, 4, [0, 3]), (3, 7, [0, 3, 6]), (9, 3, [0, 1, 2])]
)
def test_variants_are_evenly_spaced(count: int, total: int, kept: list[int]) -> None:
    items = [_Item(f"test[{i}]", pytest.mark.variants(count)) for i in range(total)]
    assert [i for i, slow in enumerate(_collected(items)) if not slow] == kept


def test_slow_variants_do_not_count_and_other_tests_stay() -> None:
    marked = pytest.mark.variants(1)
    items = [_Item("test[0]", marked, pytest.mark.slow), _Item("test[1]", marked), _Item("other[0]")]
    assert _collected(items) == [True, False, False]


def test_variants_of_the_instruction_that_is_asked_for_are_not_slow() -> None:
    names = ("tadd", "tsub", "tmul", "tdiv")
    items = [
        _Item(f"test[{n}]", pytest.mark.variants(1), pytest.mark.instructions(n), *slow)
        for n in names
        for slow in ((), (pytest.mark.slow,))
    ]
    assert _collected(items, "tmul") == [False, True, True, True, False, True, True, True]
    assert items[4].extra_keyword_matches == {"tmul"}


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
