"""The command ``completion``: a script with which a shell completes commands, options and names."""

import argparse
from collections.abc import Callable, Mapping

from ..errors import ArgumentError
from ..files import write_text
from .options import ACCEPTED, Adder, add_examples

SHELLS = ("bash", "zsh", "tcsh")
#: What shtab calls the completion of files and of folders.
_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}
_FOLDERS = {"bash": "_shtab_compgen_dirs", "zsh": "_files -/", "tcsh": "d"}
_FOLDER = ("DIR", "FOLDER")


def add(command: Adder, parser: Callable[[], argparse.ArgumentParser]) -> None:
    """Define the command; ``parser`` makes the parser that is completed."""
    sub = command("completion", _completion, "A completion script for a shell; needs the extra completion.")
    sub.set_defaults(parser=parser)
    sub.add_argument("shell", choices=SHELLS)
    add_examples(
        sub,
        ("completion bash > ~/.local/share/bash-completion/completions/pto-jax", "bash"),
        ("completion zsh > ~/.zfunc/_pto-jax", "zsh, with ~/.zfunc in fpath"),
        ("completion tcsh > ~/.pto-jax.tcsh", "tcsh: source it in ~/.tcshrc"),
    )


def _completion(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise ArgumentError(
            "completion needs shtab, which is not installed", fix="pip install 'pto_jax[completion]'"
        ) from None
    from ..examples import EXAMPLES

    completed = args.parser()
    _describe(completed, {"instruction": _pages(), "example": [*EXAMPLES, "list"]})
    write_text("-", shtab.complete(completed, shell=args.shell).rstrip("\n") + "\n")
    return ACCEPTED


def _pages() -> list[str]:
    """The names that ``pto-jax isa`` has a page for."""
    from .. import isa
    from ..manual import topics

    return [*isa.instructions(), *topics(), "changes"]


def _describe(parser: argparse.ArgumentParser, names: Mapping[str, list[str]]) -> None:
    """Say which arguments are files, folders, or names from a list."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _describe(sub, names)
        elif action.dest in names and action.choices is None:
            action.choices = names[action.dest]
        elif isinstance(action.metavar, str) and action.choices is None:
            kind = _folder_or_file(action.metavar)
            if kind is not None:
                action.complete = kind  # type: ignore[attr-defined]


def _folder_or_file(metavar: str) -> Mapping[str, str] | None:
    if metavar in _FOLDER:
        return _FOLDERS
    file = metavar in ("FILE", "PATH", "OUT", "BEFORE", "AFTER", "DUMP", "STORE") or "." in metavar
    return _FILES if file else None
