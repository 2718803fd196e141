"""The command ``pto-jax``, also as ``python -m pto_jax``."""

import gc
import signal
import sys


def main() -> int:
    """Run a command and return its exit status.

    Until the command is there, and after it, there is nothing to tidy up: the interrupt key then ends the
    process as it ends others, without a word.
    """
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .garbage import seldom_collected

    try:
        with seldom_collected():
            from .cli.main import main as run

            if handled:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            return run()
    finally:
        # Python would look through everything once more before it ends.
        gc.freeze()
        if handled:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
