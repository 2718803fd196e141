"""The command ``lsp``: a language server for editors."""

import argparse
import os

from .. import __version__, errors
from ..profiles import PROFILE_NAMES
from .options import ACCEPTED, Adder, add_examples, add_language, build_level, flag, of_command


def add(command: Adder) -> None:
    """Define the command."""
    sub = command("lsp", _lsp, "A language server on standard input and output; needs the extra lsp.")
    sub.add_argument("--profile", choices=PROFILE_NAMES, help="default: the program's pto.target_arch")
    sub.add_argument("--level", type=build_level, help="build level 1, 2 or 3, as in verify")
    flag(sub, "--portable", "accept only rules that hold on every profile")
    flag(sub, "--auto-sync", "a tool inserts the synchronisation")
    add_language(sub)
    add_examples(
        sub,
        ("lsp", "the command that an editor starts for files *.pto"),
        ("lsp --profile a5 --level 3", "with settings; an editor may send others"),
    )


def _lsp(args: argparse.Namespace) -> int:
    from ..editors.documents import Settings

    try:
        from ..editors.language_server import make_server
    except ModuleNotFoundError as error:
        raise errors.ArgumentError(
            f"the language server needs {error.name}, which is not installed",
            fix="pip install 'pto_jax[lsp]'",
        ) from None
    server = make_server(of_command(Settings, args), __version__)
    # The server closes the streams that it is given; those of the process stay open.
    with os.fdopen(os.dup(0), "rb") as read, os.fdopen(os.dup(1), "wb") as written:
        server.start_io(read, written)
    return ACCEPTED
