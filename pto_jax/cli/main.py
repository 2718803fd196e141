"""The command line, ``pto-jax``: one line per problem, exit status 0 done, 1 rejected, 2 wrong use.

Modules that need JAX are imported inside the commands that use them.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from ..errors import ArgumentError, DeadlockError, FileError, PtoError
from ..files.terminal import escaping, one_line
from . import commands, findings, options

#: Options whose value may be missing, and what they mean without one.
WITHOUT_VALUE = {"--trace": "--trace=instructions", "--sanitize": "--sanitize=uses"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Whatever goes wrong is told in lines without a traceback, unless it is a defect of this package.
    """
    arguments = sys.argv[1:] if argv is None else argv
    with escaping():
        args = argparse.Namespace(name=None)
        try:
            status = _execute(arguments, args)
            sys.stdout.flush()
            return status
        except BrokenPipeError:
            # The reader of a pipe closed it (`| head`): nothing is left to say.
            _abandon(sys.stdout)
            return options.REJECTED
        except OSError as error:
            _say(args, f"{error.filename or 'input or output'}: {error.strerror or error}")
            _abandon(sys.stdout)
        except RecursionError:
            _say(args, "the input is nested too deeply")
        except MemoryError:
            _say(args, "not enough memory")
        except KeyboardInterrupt:
            _say(args, "interrupted", kind="")
            return options.INTERRUPTED
        return options.USAGE


def _execute(words: Sequence[str], args: argparse.Namespace) -> int:
    """The exit status of a command line; ``args`` gets its options."""
    parser = commands.parser()
    if not words:
        parser.print_help(sys.stderr)
        return options.USAGE
    try:
        # An optional value would take the file name that follows.
        parser.parse_args([WITHOUT_VALUE.get(a, a) for a in words], args)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else options.USAGE
    command: Callable[[argparse.Namespace], int] = args.command
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        # A command compiles many small functions once; JAX would keep only those that took long.
        for setting, value in options.KEEP_COMPILED.items():
            os.environ.setdefault(setting, value)
    try:
        if args.extension or "PTO_JAX_EXTENSIONS" in os.environ:
            _load(args.extension)
        return command(args)
    except FileError as error:
        _say(args, one_line(str(error)))
        return options.USAGE
    except ArgumentError as error:
        _say(args, findings.as_options(str(error), vars(args)))
        return options.USAGE
    except PtoError as error:
        print(_rendered(args, error), file=sys.stderr)
        return options.REJECTED


def _load(files: Sequence[str]) -> None:
    """Add the instructions of a user's files."""
    from ..extension import load, load_from_environment

    load_from_environment()
    for file in files:
        load(file)


def _say(args: argparse.Namespace, text: str, kind: str = "error: ") -> None:
    """Print what went wrong, where that is possible."""
    command = f"pto-jax {args.name}" if args.name else "pto-jax"
    with contextlib.suppress(OSError):
        print(f"{command}: {kind}{text}", file=sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Let a stream that cannot be written to end in nothing, so that no later flush complains."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _rendered(args: argparse.Namespace, error: PtoError) -> str:
    """The findings of an error, one block each."""
    if isinstance(error, DeadlockError):
        return str(error)
    if not error.diagnostics:
        return findings.as_options(f"pto-jax {args.name}: error: {error}")
    return "\n".join(findings.placed(d, getattr(args, "file", None)) for d in error.diagnostics)


if __name__ == "__main__":
    sys.exit(main())
