"""Python's garbage collector, while many objects are made that stay.

Tracing a kernel makes hundreds of thousands of objects, and reading a text tens of thousands, of which next
to none is garbage in cycles. By default every 700 of them start a collection, and some collections look at
all objects of the process, those of JAX included: together a third of the time of a trace.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects that start a collection: some fifty megabytes, and more than importing JAX makes.
SELDOM = 500_000

_lock = threading.Lock()
_inside = 0
_before = 0


@contextmanager
def seldom_collected() -> Iterator[None]:
    """A context, or a decorator, in which collections are seldom; all threads have the collector in common.

    What somebody else has set stays: a collector that is off, or is seldom already, and any change made
    meanwhile.

    >>> with seldom_collected():
    ...     gc.get_threshold()[0]
    500000
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _inside, _before
    with _lock:
        _inside += 1
        first, *others = gc.get_threshold()
        if _inside == 1:
            _before = first
            if 0 < first < SELDOM:
                gc.set_threshold(SELDOM, *others)


def _leave() -> None:
    global _inside
    with _lock:
        _inside -= 1
        first, *others = gc.get_threshold()
        if not _inside and first == SELDOM:
            gc.set_threshold(_before, *others)
