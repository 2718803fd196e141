"""What computed a result: versions of the packages and the device."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from .. import __version__


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
