"""The command ``doctor``: what this installation consists of, and whether it computes exact results."""

import argparse
import json
import os
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Literal

from .. import __version__
from ..errors import brief
from .options import ACCEPTED, REJECTED, Adder, add_examples, flag

Status = Literal["ok", "warning", "failed"]
_PACKAGE = "pto_jax"
#: A package, the extras of it that are wanted, its versions, and the extra that wants it.
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[([^]]*)\])?\s*([^;]*)(?:;.*extra == ['\"]([^'\"]+)['\"])?")


@dataclass(frozen=True)
class Finding:
    """One fact about the installation; ``fix`` says what to do where it is not ok."""

    name: str
    status: Status
    found: str
    fix: str = ""

    def __str__(self) -> str:
        fix = f"; try: {self.fix}" if self.fix else ""
        return f"{self.name + ':':<13} {'' if self.status == 'ok' else self.status + ': '}{self.found}{fix}"


@dataclass(frozen=True)
class Requirement:
    """A package that another one needs, the versions that it allows, and the extras that it wants."""

    name: str
    versions: str = ""
    extras: tuple[str, ...] = ()


def add(command: Adder) -> None:
    """Define the command."""
    sub = command(
        "doctor", _doctor, "Versions, devices and settings, and a check that results are exact here."
    )
    flag(sub, "--json", "print JSON")
    flag(sub, "--no-check", "execute nothing, which saves seconds")
    add_examples(
        sub,
        ("doctor", "exit status 0: usable, 1: something failed; warnings do not count"),
        ("doctor --json", "for a bug report"),
    )


def _doctor(args: argparse.Namespace) -> int:
    findings = []
    executed = () if args.no_check else (_compiler, _exact)
    for examine in (_versions, _extras, _settings, _cache, _devices, *executed):
        for finding in _examined(examine):
            findings.append(finding)
            if not args.json:
                print(finding)
    failed = [f.name for f in findings if f.status == "failed"]
    if args.json:
        print(json.dumps({"ok": not failed, "findings": [asdict(f) for f in findings]}, indent=1))
    else:
        warned = sum(f.status == "warning" for f in findings)
        verdict = f"failed: {', '.join(failed)}" if failed else "usable"
        print(f"{verdict} ({warned} warnings)")
    return REJECTED if failed else ACCEPTED


def _examined(examine: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What an examination finds; what breaks it is a finding, for a broken installation breaks anything."""
    try:
        yield from examine()
    except Exception as error:
        yield Finding(examine.__name__.lstrip("_"), "failed", brief(error))


# -- what is installed ---------------------------------------------------------------------------------


def _versions() -> Iterator[Finding]:
    yield Finding(_PACKAGE, "ok", f"{__version__} in {Path(__file__).parents[1]}")
    yield Finding("python", "ok", f"{platform.python_version()}, {platform.machine()}, {platform.system()}")
    # The names of a tree that is not installed.
    needed = [*_required(_PACKAGE)] or [Requirement(name) for name in ("jax", "ml_dtypes", "numpy")]
    for one in (*needed, Requirement("jaxlib")):
        result = _version(one.name)
        if result is None:
            yield Finding(one.name, "failed", "not installed", f"pip install '{one.name}{one.versions}'")
        elif not satisfies(result, one.versions):
            fix = f"pip install --upgrade '{one.name}{one.versions}'"
            yield Finding(one.name, "failed", f"got {result}; allowed: {one.versions}", fix)
        else:
            yield Finding(one.name, "ok", result)


def _extras() -> Iterator[Finding]:
    """The optional parts, and which of their packages are missing."""
    present = []
    for extra in _names_of_extras():
        missing = sorted(_missing(_PACKAGE, extra))
        if missing:
            fix = f"pip install '{_PACKAGE}[{extra}]' where it is needed"
            yield Finding(f"[{extra}]", "ok", f"absent: {', '.join(missing)} ({fix})")
        else:
            present.append(extra)
    yield Finding("extras", "ok", ", ".join(present) or "none")


def _names_of_extras() -> list[str]:
    try:
        return metadata(_PACKAGE).get_all("Provides-Extra") or []
    except PackageNotFoundError:
        return []


def _missing(package: str, extra: str) -> set[str]:
    """The packages that an extra of an installed package wants and that are not there."""
    members: set[str] = set()
    for one in _required(package, extra):
        if one.name.replace("-", "_") != _PACKAGE and not satisfies(_version(one.name) or "", one.versions):
            members.add(one.name)
        else:
            members.update(*(_missing(one.name, inner) for inner in one.extras))
    return members


def _required(package: str, extra: str = "") -> Iterator[Requirement]:
    """What an installed package needs, itself or for one of its extras."""
    try:
        requirements = requires(package) or []
    except PackageNotFoundError:
        return
    for text in requirements:
        match = _REQUIREMENT.match(text)
        if match is not None and (match[4] or "") == extra:
            inner = tuple(e.strip() for e in (match[2] or "").split(",") if e.strip())
            yield Requirement(match[1], match[3].strip(), inner)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def satisfies(installed: str, requirement: str) -> bool:
    """Whether a version is one of those that a requirement allows (``>=`` and ``==``).

    >>> satisfies("0.10.2", ">=0.10"), satisfies("0.9", ">=0.10"), satisfies("", "")
    (True, False, False)
    """
    bounds = [b.strip() for b in requirement.split(",") if b.strip()]
    for bound in bounds:
        limit = _numbers(bound.lstrip("<>=!~"))
        numbers = _numbers(installed)
        if (bound.startswith(">=") and numbers < limit) or (bound.startswith("==") and numbers != limit):
            return False
    return bool(installed)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text.partition("+")[0]))


# -- settings ------------------------------------------------------------------------------------------


def _settings() -> Iterator[Finding]:
    import jax

    enabled = bool(jax.config.values["jax_enable_x64"])
    note = "64-bit results stay 64-bit in jnp" if enabled else "jnp narrows 64-bit results outside of kernels"
    yield Finding("x64", "ok", f"{'on' if enabled else 'off'}; {note}")
    yield Finding("XLA_FLAGS", "ok", os.environ.get("XLA_FLAGS") or "none")
    for name in sorted(n for n in os.environ if n.startswith("PTO_JAX_")):
        yield Finding(name, "ok", os.environ[name])


def _cache() -> Iterator[Finding]:
    """The folder in which JAX keeps compiled functions."""
    import jax

    folder = jax.config.values["jax_compilation_cache_dir"]
    if not folder:
        yield Finding("cache", "ok", "none: JAX_COMPILATION_CACHE_DIR=FOLDER keeps what is compiled")
        return
    path = Path(folder)
    # JAX makes the folder when it first writes; then its nearest parent decides.
    nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
    if "://" in folder:
        yield Finding("cache", "ok", folder)
    elif not nearest.is_dir() or not os.access(nearest, os.W_OK):
        yield Finding("cache", "warning", f"{folder} cannot be written", "another folder, or its permissions")
    elif strange := next((f for f in path.rglob("*") if not (f.is_file() or f.is_dir())), None):
        yield Finding("cache", "warning", f"{strange} is no file, and JAX may wait for it", "remove it")
    else:
        sizes = [f.stat().st_size for f in path.rglob("*") if f.is_file()]
        yield Finding("cache", "ok", f"{folder}: {len(sizes)} files, {sum(sizes) / 2**20:.1f} MiB")


# -- execution -----------------------------------------------------------------------------------------


def _devices() -> Iterator[Finding]:
    import jax

    devices = jax.devices()
    kinds = {f"{d.platform} ({d.device_kind})": 0 for d in devices}
    for d in devices:
        kinds[f"{d.platform} ({d.device_kind})"] += 1
    text = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    yield Finding("devices", "ok", f"{text}; default {devices[0].platform}")


def _compiler() -> Iterator[Finding]:
    """What exact results ask of compiled code, on the default device's platform."""
    import jax

    from ..lowering import canary

    platform = jax.local_devices()[0].platform
    lost = canary.failures(platform)
    if lost:
        yield Finding("compiler", "failed", f"{', '.join(lost)} on {platform}", canary.FIX)
    else:
        yield Finding(
            "compiler", "ok", f"{len(canary.checks(platform))} properties of compiled arithmetic hold"
        )
    if canary.overwrites(platform):
        yield Finding(
            "updates",
            "ok",
            f"this XLA may read what an update has overwritten ({canary.UPDATE_BUG}); kernels do not",
        )


def _exact() -> Iterator[Finding]:
    """Float32 arithmetic, and the first instruction of every class that computes, on the default device."""
    from ..profiles import PROFILES
    from ..testing import device_check as check

    device = check.select_device(None)
    total, count = check.Outcome(), 0
    for sample in check.quick_samples(PROFILES["a5"]):
        total.add(check.check_sample(sample, PROFILES["a5"], 0, device))
        count += 1
    for formula in check.EXACTNESS:
        total.add(check.check_exactness(formula, 0, device, tiles=2)[0])
        count += 1
    if total.failures:
        more = f" and {len(total.failures) - 1} more" if len(total.failures) > 1 else ""
        fix = "python -m pto_jax.testing.device_check shows all; report it with pto-jax doctor --json"
        yield Finding("exact", "failed", f"{total.failures[0]}{more}", fix)
    else:
        yield Finding(
            "exact", "ok", f"{count} operations, {total.lanes} lanes equal those of the interpreter"
        )
