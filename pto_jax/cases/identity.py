"""Names of executors outside the package, and the versions and the device of what computes."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from .. import __version__

DEVICES = ("dut", "dut-server", "python")


def is_device(text: str) -> bool:
    """Whether a machine is a command line or a module.

    Such a name from a file may be passed to :func:`pto_jax.devices.machines.machine` only if the user trusts
    the file.

    >>> is_device("dut:sim {program}"), is_device("jit:a5")
    (True, False)
    """
    return text.partition(":")[0] in DEVICES


def device_options(reference: str, tested: str) -> list[str]:
    """The options of ``pto-jax replay`` that name those machines which it executes only when they are named.

    >>> device_options("oracle", "dut:sim {program}")
    ['--tested', 'dut:sim {program}']
    """
    devices = (("--against", reference), ("--tested", tested))
    return [word for pair in devices if is_device(pair[1]) for word in pair]


def versions(packages: Sequence[str] = ("jax", "jaxlib", "numpy", "ml_dtypes")) -> dict[str, str]:
    """Versions of what computes."""
    return {
        "pto_jax": __version__,
        **{name: _installed(name) for name in packages},
        "python": platform.python_version(),
    }


def device() -> str:
    """The device that JAX uses."""
    import jax

    first = jax.devices()[0]
    return f"{first.platform}: {first.device_kind}"


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
