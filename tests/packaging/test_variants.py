"""Which variants of a test are of every run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.conftest import pytest_collection_modifyitems


class _Item:
    def __init__(self, name: str, *marks: pytest.MarkDecorator) -> None:
        self.nodeid = name
        self.marks = list(marks)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((m.mark for m in self.marks if m.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark)


@pytest.mark.parametrize(
    ("count", "total", "kept"), [(1, 4, [0]), (2, 4, [0, 3]), (3, 7, [0, 3, 6]), (9, 3, [0, 1, 2])]
)
def test_variants_are_evenly_spaced(count: int, total: int, kept: list[int]) -> None:
    items = [_Item(f"test[{i}]", pytest.mark.variants(count)) for i in range(total)]
    pytest_collection_modifyitems(cast("list[Any]", items))
    assert [i for i, item in enumerate(items) if not item.get_closest_marker("slow")] == kept


def test_slow_variants_do_not_count_and_other_tests_stay() -> None:
    marked = pytest.mark.variants(1)
    items = [_Item("test[0]", marked, pytest.mark.slow), _Item("test[1]", marked), _Item("other[0]")]
    pytest_collection_modifyitems(cast("list[Any]", items))
    assert [bool(item.get_closest_marker("slow")) for item in items] == [True, False, False]
