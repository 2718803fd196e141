"""What a program says of the hardware that it is for."""

from collections.abc import Iterator

from .. import profiles
from ..errors import Diagnostic
from ..ir import Program

_DEVICE, _ARCH = "pto.device-spec", "pto.target_arch"


def target_findings(program: Program, profile: profiles.Profile) -> Iterator[Diagnostic]:
    """A warning for every architecture or device whose name nobody knows: another profile may be meant."""
    seen = [program.attributes, *program.children]
    for name, text in dict.fromkeys(pair for attributes in seen for pair in attributes):
        if name == _ARCH and not profiles.is_arch(text):
            allowed = ", ".join(sorted(a for p in profiles.PROFILES.values() for a in p.arch))
        elif name == _DEVICE and not profiles.is_device(text):
            allowed = f"names that begin with {', '.join(profiles.DEVICES)}"
        else:
            continue
        shown = f'"{text}"' if isinstance(text, str) else str(text)
        message = f"unknown {name} = {shown}, so that profile {profile.name} is used; allowed: {allowed}"
        yield Diagnostic("warning", message, rule="target")
