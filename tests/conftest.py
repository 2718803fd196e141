"""What holds in every test: two host devices, quick compilation, and how many variants run.

What the collection makes stays: nobody looks for garbage in it.
"""

import gc
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from importlib.metadata import version

import pytest

from tests.named import executed

_DEVICES = "--xla_force_host_platform_device_count=2"
#: One thread of LLVM for a program, as tests run side by side; no fusions written by MLIR, which take half of
#: the time of a compilation. Slow tests compile as users' programs do.
_SOONEST = "--xla_cpu_parallel_codegen_split_count=1 --xla_cpu_use_fusion_emitters=false"


def pytest_configure(config: pytest.Config) -> None:
    """How tests are shared out; flags of XLA, which its first use reads and processes of tests have too."""
    given = os.environ.get("XLA_FLAGS", "")
    flags = [] if _DEVICES.partition("=")[0] in given else [_DEVICES]
    # XLA ends at a flag that it does not know.
    older = tuple(map(int, version("jax").split(".")[:2])) < (0, 12)
    if config.option.markexpr == "not slow" and older and "--xla_cpu_" not in given:
        flags.append(_SOONEST)
    os.environ["XLA_FLAGS"] = " ".join([given, *flags]).strip()
    if getattr(config.option, "dist", "no") == "load":
        # Neighbouring tests share what they compile: each process has a half, and then some of the other's.
        config.option.dist = "worksteal"


#: After how many objects garbage is looked for among the youngest, and so on among the older. A search among
#: all, of which JAX keeps millions, takes a second and finds next to nothing.
_THRESHOLDS = (20_000, 20, 100)


#: Folders of tests that compare bits which optimisations could change.
OPTIMISED = tuple(
    f"tests/{folder}/"
    for folder in "conformance equality examples lowering micro nn numerics registers seeds".split()
)
#: Folders whose slow tests have them as well; those of a night have them everywhere.
EXECUTING = tuple(f"tests/{folder}/" for folder in "programs ranks runtime vectors".split())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Most programs are executed once or twice: LLVM's optimisations would cost more than they repay."""
    import jax

    nightly = item.config.option.markexpr == "slow"
    slow = item.get_closest_marker("slow") is not None and (nightly or item.nodeid.startswith(EXECUTING))
    optimised = item.nodeid.startswith(OPTIMISED) or slow
    jax.config.update("jax_disable_most_optimizations", not optimised)  # type: ignore[no-untyped-call]


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A compilation cache of this process for this run.

    Functions are traced anew in each test, many to a program that another test has compiled. Processes have
    one each, for JAX writes its files in place, where another process would read the first half of one.
    What was compiled during the collection has settled that there is no cache, hence the reset.
    """
    import jax
    from jax.experimental.compilation_cache.compilation_cache import reset_cache

    settings = {
        "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: jax.config.values[name] for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    reset_cache()  # type: ignore[no-untyped-call]
    yield
    for name, value in before.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    reset_cache()  # type: ignore[no-untyped-call]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Half a million objects are made, in which the search for garbage takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of tests that are marked ``variants(n)``, n variants are of every run and the others are slow.

    Of the slow variants of a test, every tenth is of every change and all are of every night.

    ``-k`` selects a test by the names of the instructions that it is marked with, else of those that it
    executes. Variants that are marked with the one name it has are not slow.
    """
    for item in items:
        item.extra_keyword_matches.update(_marked(item) or executed(item))
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("variants") and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for variants in tests.values():
        marker = variants[0].get_closest_marker("variants")
        assert marker is not None
        (count,) = marker.args
        # Evenly spaced, the first and the last among them.
        kept = {i * (len(variants) - 1) // max(1, count - 1) for i in range(count)}
        kept |= {i for i, item in enumerate(variants) if config.option.keyword in _marked(item)}
        for i, item in enumerate(variants):
            if i not in kept:
                item.add_marker(pytest.mark.slow)
    slow: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            slow[item.nodeid.partition("[")[0]].append(item)
    for variants in slow.values():
        for i, item in enumerate(variants):
            if i % 10:
                item.add_marker(pytest.mark.nightly)


def _marked(item: pytest.Item) -> tuple[str, ...]:
    """The names of the instructions that a test is marked with."""
    marker = item.get_closest_marker("instructions")
    return marker.args if marker else ()
