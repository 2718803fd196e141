"""What JAX reads from its persistent cache is compared with the program by JAX's own assertions only."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

from pto_jax.errors import FileError


@contextmanager
def cached_code() -> Iterator[None]:
    """One clear error where an entry of JAX's persistent cache holds the code of another program."""
    try:
        yield
    except AssertionError as error:
        folder = jax.config.values["jax_compilation_cache_dir"]
        if not folder:
            raise
        raise FileError(
            f"{folder}: an entry of JAX's compilation cache is not the code of its program ({error}); "
            "allowed: entries as JAX has written them; usual fix: empty this folder"
        ) from None
