"""Tests that walk a table: one test, where ``pytest.mark.parametrize`` makes one of every row."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

Test = Callable[..., None]


def every(names: str | tuple[str, ...], rows: Iterable[Any], ids: object = None) -> Callable[[Test], Test]:
    """Give a test every row of a table in turn; it fails with the list of the rows that it fails for.

    Arguments are those of ``pytest.mark.parametrize``, and decorators may be stacked like these. What tests
    one instruction on its data has a row of its own there, so that ``-k`` selects it; facts that are
    looked up in milliseconds are one test for all instructions.
    """
    keys = [key.strip() for key in names.split(",")] if isinstance(names, str) else list(names)
    table = [row.values if hasattr(row, "marks") else row for row in rows]
    single = isinstance(names, str) and "," not in names

    def decorate(test: Test) -> Test:
        @wraps(test)
        def walk(**fixtures: Any) -> None:
            problems = []
            for row in table:
                values = row if isinstance(row, tuple) and not (single and len(row) != 1) else (row,)
                try:
                    test(**fixtures, **dict(zip(keys, (row,) if single else values, strict=True)))
                except Exception as error:
                    problems.append(f"{_label(row)}: {type(error).__name__}: {error}")
            assert table, "the table is empty"
            assert not problems, "\n".join(problems)

        parameters = inspect.signature(test).parameters
        left = [p for name, p in parameters.items() if name not in keys]
        vars(walk)["__signature__"] = inspect.Signature(left)
        del walk.__wrapped__  # type: ignore[attr-defined]
        return walk

    return decorate


def _label(row: Any) -> str:
    parts = row if isinstance(row, tuple) else (row,)
    return " ".join(str(getattr(part, "name", part))[:60] for part in parts)
