"""The reference interpreter in another process, for its own determinism.

With another hash seed, another address space and other cases behind it, a case must give the same bits.
"""

import contextlib
import io
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar

from ..errors import Diagnostic, PtoError
from ..extension import load_from_environment
from ..generate.programs import Case
from ..profiles import Profile, ProfileName, profile as find_profile
from . import results, targets

_HASH_SEED = "PYTHONHASHSEED"


class Again:
    """Executes cases on the interpreter in a process of its own, which the first case starts.

    >>> Again("a5").name
    'interpreter:again:a5'
    """

    follows: ClassVar[bool] = True

    def __init__(self, profile: ProfileName | None = None) -> None:
        self._oracle = targets.Oracle(profile)
        self._connection: Connection | None = None
        #: The other process, once it is there.
        self.process: BaseProcess | None = None

    @property
    def name(self) -> str:
        """The name of the machine, with ``again`` after its kind."""
        kind, _, profile = self._oracle.name.partition(":")
        return ":".join(filter(None, (kind, "again", profile)))

    def run(self, case: Case) -> results.Run:
        """What the other process gives, or raises; RuntimeError when it is gone."""
        if self._connection is None:
            self._connection, self.process = _started(self._oracle)
        try:
            self._connection.send_bytes(_packed(case))
            answer = _unpacked(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._connection = None
            raise RuntimeError("the second process of the interpreter ended") from None
        if isinstance(answer, results.Run):
            return answer
        raise _restored(*answer)


def _started(oracle: targets.Oracle) -> tuple[Connection, BaseProcess]:
    """A new process, which ends with this one, and the connection to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(oracle, theirs), daemon=True)
    with _other_hash_seed():
        process.start()
    theirs.close()
    return ours, process


@contextlib.contextmanager
def _other_hash_seed() -> Iterator[None]:
    before = os.environ.get(_HASH_SEED)
    os.environ[_HASH_SEED] = "2" if before == "1" else "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_HASH_SEED]
        else:
            os.environ[_HASH_SEED] = before


def _serve(oracle: targets.Oracle, connection: Connection) -> None:
    """The main function of the other process: cases in, results out, until the connection ends."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_from_environment()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            case: Case = _unpacked(connection.recv_bytes())
            try:
                answer: Any = oracle.run(case)
            except Exception as error:
                answer = _described(error)
            connection.send_bytes(_packed(answer))


_Description = tuple[str, str, tuple[Diagnostic, ...]]


def _described(error: Exception) -> _Description:
    return type(error).__name__, str(error), getattr(error, "diagnostics", ())


def _restored(kind: str, message: str, diagnostics: tuple[Diagnostic, ...]) -> Exception:
    """An error like that of the other process: the package's own kinds are kept."""
    from .. import errors

    cls = getattr(errors, kind, None)
    if not (isinstance(cls, type) and issubclass(cls, PtoError)):
        return RuntimeError(f"{kind}: {message}")
    made: PtoError = cls.__new__(cls)
    PtoError.__init__(made, message, diagnostics)
    return made


class _Pickler(pickle.Pickler):
    """Profiles go by their names."""

    def persistent_id(self, found: Any) -> str | None:
        return found.name if isinstance(found, Profile) else None


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, name: Any) -> Profile:
        return find_profile(name)


def _packed(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _unpacked(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()
