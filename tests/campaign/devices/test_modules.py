"""Devices that a module defines: what the module or its class raises is told with its line."""

import sys
from pathlib import Path

import pytest

from pto_jax.devices.machines import machine
from pto_jax.errors import ArgumentError

DEVICE = """\
class Right:
    name = "right"

    def run(self, case):
        raise NotImplementedError


class Broken(Right):
    def __init__(self):
        raise RuntimeError("no board")


class Silent(Right):
    def __init__(self):
        raise AssertionError


class Configured(Right):
    def __init__(self, port):
        self.port = port


class Nameless:
    def run(self, case):
        raise NotImplementedError


OBJECT = Right()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with devices."""
    (tmp_path / "modules_of_devices.py").write_text(DEVICE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "modules_of_devices", raising=False)
    return "modules_of_devices"


@pytest.mark.parametrize("name", ["Right", "OBJECT"])
def test_a_class_without_arguments_and_an_object_are_devices(module: str, name: str) -> None:
    assert machine(f"python:{module}:{name}").name == "right"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Broken", r"Broken\(\) raises RuntimeError: no board \(.*modules_of_devices.py:10\); allowed: "),
        ("Silent", r"Silent\(\) raises AssertionError \(.*modules_of_devices.py:15\); allowed: "),
        ("Configured", r"Configured\(\) raises TypeError: .*'port' \(.*\); allowed: .* without arguments"),
        ("Nameless", r"has no run\(case\) and name"),
        ("Lacking", "module .* has no attribute 'Lacking'; allowed: python:MODULE:NAME"),
    ],
)
def test_a_device_that_cannot_be_made_is_told_in_words(module: str, name: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^executor python:{module}:{name}: {message}"):
        machine(f"python:{module}:{name}")


@pytest.mark.parametrize(
    ("text", "message"),
    [("raise KeyError('board')", "KeyError: 'board'"), ("class :", "SyntaxError: ")],
)
def test_a_module_that_raises_is_told_in_words(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "raising_devices.py").write_text(text)
    with pytest.raises(ArgumentError, match=f"import raising_devices raises {message}"):
        machine("python:raising_devices:DEVICE")
