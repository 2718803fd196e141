"""The command ``pto-jax``, also as ``python -m pto_jax``."""

import gc
import signal
import sys
from collections.abc import Sequence
from typing import Any

#: The interrupt key, and what ends a process from outside.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run a command and return its exit status.

    Until the command is there, and after it, there is nothing to tidy up: the interrupt key then ends the
    process as it ends others, without a word.
    """
    ours = [s for s in _SIGNALS if signal.getsignal(s) in (signal.default_int_handler, signal.SIG_DFL)]
    _handle(ours, signal.SIG_DFL)
    from .garbage import seldom_collected

    try:
        with seldom_collected():
            from .cli.main import main as run

            _handle(ours, signal.default_int_handler)
            return run()
    finally:
        # Python would look through everything once more before it ends.
        gc.freeze()
        _handle(ours, signal.SIG_DFL)


def _handle(numbers: Sequence[signal.Signals], handler: Any) -> None:
    for number in numbers:
        signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
