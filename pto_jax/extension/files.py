"""Files that add instructions, for this process and those it starts."""

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from ..errors import ArgumentError, FileError

#: Names the files that processes of a campaign load as well.
VARIABLE = "PTO_JAX_EXTENSIONS"


def load(file: str | Path) -> None:
    """Execute a Python file that adds instructions, once; processes that this one starts do so too.

    Raises FileError where there is no such file, ArgumentError where it ends with an error.
    """
    path = Path(file).resolve()
    name = f"pto_jax_extension_{path.stem}"
    module_before = sys.modules.get(name)
    if module_before is not None and module_before.__file__ == str(path):
        return
    if not path.is_file():
        raise FileError(f"{file}: no such file")
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        line = _line(error, path)
        raise ArgumentError(f"{file}{line}: {type(error).__name__}: {error}") from error
    if str(path) not in loaded():
        os.environ[VARIABLE] = os.pathsep.join([*loaded(), str(path)])


def load_from_environment() -> None:
    """Load the files that the process which started this one has loaded."""
    for file in loaded():
        load(file)


def loaded() -> tuple[str, ...]:
    """Paths of the files that this process and those it starts load."""
    return tuple(filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)))


def _line(error: BaseException, path: Path) -> str:
    """``:LINE`` where an error has its place in a file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    trace, place = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            place = f":{trace.tb_lineno}"
        trace = trace.tb_next
    return place
