"""Executors by name, as the command line takes them.

======================== ==========================================================================
``oracle``               the reference interpreter (also ``interpreter``); ``oracle:again`` in another process
``eager``                this engine, operation by operation
``jit``                  this engine, compiled; ``jit:o0`` without XLA's optimisations, three times as fast;
                         ``jit:numpy`` its trace, executed by NumPy, three times as fast; ``jit:cuda``
                         likewise that for CUDA
``vmap``                 this engine, compiled for a batch of three calls, all compared; with ``:o0``,
                         ``:numpy``, ``:cuda`` as for ``jit``
``fast``                 this engine, compiled with fast numerics
``profile``              this engine, eager; needs a profile: ``profile:a5``
``lockstep``             all programs of a batch at once; ``lockstep:grouped`` groups them by opcode
``sanitizer``            definedness per lane; ``sanitizer:strict`` reports every undefined read
``shard_map``            this engine, compiled for a mesh of devices: programs on several ranks
``races``                the check of order, and the interpreter with pipes in another legal order
``dut:COMMAND``          a command line, once per case: ``{program} {inputs} {outputs}``
``dut-server:COMMAND``   a command line that is started once and answers cases on its standard input
``python:MODULE:NAME``   a target that a module defines
======================== ==========================================================================

``oracle eager jit vmap fast sanitizer shard_map races`` take a profile after a colon instead of the case's
own.

>>> machine("jit:a5").name
'engine:jit:a5'
"""

import importlib
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..cases.code import CODES, code_of
from ..cases.identity import DEVICES
from ..cases.targets import Batched, Engine, Mode, OnMesh, Oracle, Sanitizer, Target
from ..errors import ArgumentError, nearest
from ..files.terminal import one_line
from ..lowering.numerics import Numerics
from ..profiles import PROFILE_NAMES, ProfileName
from . import contract

NAMES = (
    "oracle[:again][:Q] eager[:Q] jit[:o0|numpy|cuda][:Q] vmap[:o0|numpy|cuda][:Q] fast[:Q] profile:Q "
    "lockstep[:grouped] sanitizer[:strict][:Q] shard_map[:Q] races[:Q] dut:COMMAND dut-server:COMMAND "
    "python:MODULE:NAME"
)
DUT_TIMEOUT = contract.TIMEOUT


@dataclass(frozen=True)
class _Word:
    """A machine that options in words follow."""

    make: Any
    words: Sequence[str] = ()
    profile: bool = True


def machine(text: str, dut_timeout: float = DUT_TIMEOUT) -> Target:
    """The machine of a name; ArgumentError says which names there are."""
    kind, _, rest = text.partition(":")
    if kind in DEVICES and rest:
        return _device(kind, rest, dut_timeout)
    if kind in DEVICES:
        raise ArgumentError(f"{kind}: got no command", allowed="the command line of a device")
    entry, label = _WORDS.get(kind), one_line(text)
    if entry is None:
        raise ArgumentError(f"executor {label}: unknown", allowed=f"{NAMES}", fix=nearest(kind, _WORDS))
    words: list[str] = []
    profile: ProfileName | None = None
    for part in rest.split(":") if rest else ():
        name: ProfileName | None = next((p for p in PROFILE_NAMES if p == part), None)
        if name is not None and entry.profile and profile is None:
            profile = name
        elif part in entry.words and part not in words:
            words.append(part)
        else:
            allowed = " ".join([*entry.words, *(PROFILE_NAMES if entry.profile else ())])
            raise ArgumentError(f"executor {label}: {part or 'nothing'} after {kind}", allowed=f"{allowed}")
    if kind == "profile" and profile is None:
        raise ArgumentError(f"executor {label}: got no profile", allowed=" ".join(PROFILE_NAMES))
    target: Target = entry.make(words, profile)
    return target


def _batched(words: list[str], profile: ProfileName | None) -> Target:
    return Batched(profile, code=code_of(words))


def _lockstep(words: list[str], profile: ProfileName | None) -> Target:
    from .lockstep import Lockstep

    return Lockstep(grouped="grouped" in words)


def _sanitizer(words: list[str], profile: ProfileName | None) -> Target:
    return Sanitizer(strict="strict" in words, profile=profile)


def _shard_map(words: list[str], profile: ProfileName | None) -> Target:
    return OnMesh(profile)


def _races(words: list[str], profile: ProfileName | None) -> Target:
    from ..cases.targets import LegalOrders

    return LegalOrders(profile)


def _device(kind: str, rest: str, timeout: float) -> Target:
    if kind == "python":
        return _of_module(rest)
    from .conversation import Server
    from .dut import Command

    kinds: dict[str, Callable[[str, float], Target]] = {
        "dut": Command,
        "dut-server": Server,
    }
    return kinds[kind](rest, timeout)


def _of_module(text: str) -> Target:
    module, _, name = text.rpartition(":")
    try:
        value = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ArgumentError(f"executor python:{text}: {error}", allowed="python:MODULE:NAME") from None
    except Exception as error:
        # What the file of the user raises, which may be anything.
        raise _unusable(text, f"import {module}", error) from error
    try:
        target: Target = value() if isinstance(value, type) else value
    except Exception as error:
        raise _unusable(text, f"{name}()", error) from error
    if not callable(getattr(target, "run", None)) or not isinstance(getattr(target, "name", None), str):
        raise ArgumentError(f"executor python:{text}: has no run(case) and name; see pto_jax.cases.targets")
    return target


def _unusable(text: str, call: str, error: Exception) -> ArgumentError:
    """What says that a call of the user's file raised, and in which line of it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    line = f"{place.filename}:{place.lineno}"
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return ArgumentError(
        f"executor python:{text}: {call} raises {reason} ({line})",
        allowed="a module that can be imported, and in it an object, or a class without arguments",
    )


def _engine(mode: Mode, numerics: Numerics, words: list[str], profile: ProfileName | None) -> Target:
    return Engine(mode, profile, numerics, code=code_of(words))


def _oracle(words: list[str], profile: ProfileName | None) -> Target:
    if "again" in words:
        from ..cases.targets import Again

        return Again(profile)
    return Oracle(profile)


_WORDS = {
    "oracle": _Word(_oracle, ("again",)),
    "interpreter": _Word(_oracle, ("again",)),
    "eager": _Word(partial(_engine, "eager", "exact")),
    "jit": _Word(partial(_engine, "jit", "exact"), CODES),
    "vmap": _Word(_batched, CODES),
    "fast": _Word(partial(_engine, "jit", "fast")),
    "profile": _Word(partial(_engine, "eager", "exact")),
    "lockstep": _Word(_lockstep, ("grouped",), profile=False),
    "sanitizer": _Word(_sanitizer, ("strict",)),
    "shard_map": _Word(_shard_map),
    "races": _Word(_races),
}
